"""Run the benchmarks: `make bench`, or `python -m benchmarks --subscriptions 10000`.

Every contestant gets the same events, as many as it can do in a few seconds, one contestant after the other in one
run on one machine. What counts are the ratios. Results go to `benchmarks/results/` as JSON and as a plot.
"""

import argparse
import json
import platform
import tempfile
import time
from pathlib import Path

import matplotlib
import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.contestants import (
    Contestant,
    DuckContestant,
    EngineContestant,
    SparkJoinContestant,
    SparkMatchContestant,
)
from benchmarks.workloads import WORKLOADS, Workload
from penstock.matching import ENGINES
from penstock.pipeline import local_session

RESULTS = Path(__file__).parent / "results"
_LEAST_SECONDS = 1.5
_REPEATS = 3
_SAMPLE = 500  # events on which all contestants must agree


def measure(contestant: Contestant, workload: Workload) -> dict[str, float]:
    """Events per second: the best of a few runs over enough events to last a while."""
    sample = workload.events.slice(0, _SAMPLE)
    matches = contestant.matches(sample)  # also compiles, connects, warms up
    count = _SAMPLE
    while True:
        began = time.perf_counter()
        contestant.matches(workload.events.slice(0, count))
        seconds = time.perf_counter() - began
        if seconds >= _LEAST_SECONDS or count >= workload.events.num_rows:
            break
        count = min(workload.events.num_rows, max(2 * count, int(count * _LEAST_SECONDS / seconds)))
    for _ in range(_REPEATS - 1):
        began = time.perf_counter()
        contestant.matches(workload.events.slice(0, count))
        seconds = min(seconds, time.perf_counter() - began)
    return {
        "events": count,
        "seconds": round(seconds, 3),
        "events_per_second": round(count / seconds, 1),
        "matches_per_event": matches / _SAMPLE,
    }


def run(name: str, subscriptions: int, spark, folder: str) -> dict:
    workload = WORKLOADS[name](subscriptions, events=1_000_000)
    contestants: list[Contestant] = [EngineContestant(workload, engine) for engine in ENGINES]
    memory = {c.name: c.bytes_per_subscription for c in contestants}
    contestants += [
        DuckContestant(workload),
        SparkJoinContestant(workload, spark),
        SparkMatchContestant(workload, spark, f"{folder}/{name}-{subscriptions}"),
    ]
    results = {c.name: measure(c, workload) for c in contestants}
    agreed = {result["matches_per_event"] for result in results.values()}
    assert len(agreed) == 1, f"the contestants disagree: {results}"
    for name_, result in results.items():
        result["bytes_per_subscription"] = memory.get(name_)
    return {"workload": name, "subscriptions": subscriptions, "results": results}


def show(console: Console, found: dict) -> None:
    best_naive = found["results"]["penstock naive"]["events_per_second"]
    table = Table(title=f"{found['workload']}, {found['subscriptions']:,} subscriptions")
    for column in ("contestant", "events/s", "x naive", "µs/event", "bytes/subscription"):
        table.add_column(column, justify="left" if column == "contestant" else "right")
    ranked = sorted(found["results"].items(), key=lambda item: -item[1]["events_per_second"])
    for name, result in ranked:
        speed = result["events_per_second"]
        size = result["bytes_per_subscription"]
        table.add_row(
            name,
            f"{speed:,.0f}",
            f"{speed / best_naive:,.2f}",
            f"{1e6 / speed:,.1f}",
            f"{size:,.0f}" if size else "",
        )
    console.print(table)


def plot(found: list[dict], path: Path) -> None:
    """Cost per event against the number of subscriptions, both axes logarithmic."""
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 5))
    for name in found[0]["results"]:
        sizes = [run_["subscriptions"] for run_ in found]
        costs = [1e6 / run_["results"][name]["events_per_second"] for run_ in found]
        axes.loglog(sizes, costs, marker="o", label=name)
    axes.set_xlabel("subscriptions")
    axes.set_ylabel("µs per event")
    axes.set_title(f"workload {found[0]['workload']}")
    axes.grid(True, which="both", alpha=0.3)
    axes.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__)
    parser.add_argument("--workload", choices=sorted(WORKLOADS), default="stock")
    parser.add_argument("--subscriptions", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    arguments = parser.parse_args()
    console = Console()
    RESULTS.mkdir(exist_ok=True)
    spark = local_session("local[2]", "penstock-bench")
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for size in arguments.subscriptions:
            found.append(run(arguments.workload, size, spark, folder))
            show(console, found[-1])
    spark.stop()
    machine = {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "numpy": np.__version__,
    }
    content = {"machine": machine, "runs": found}
    (RESULTS / f"{arguments.workload}.json").write_text(json.dumps(content, indent=2) + "\n")
    plot(found, RESULTS / f"{arguments.workload}.png")
    console.print(f"written: {RESULTS / arguments.workload}.json and .png")


if __name__ == "__main__":
    main()
