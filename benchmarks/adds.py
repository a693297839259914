"""How many subscriptions can be added per second: `python -m benchmarks.adds`.

In bulk: from filter texts to a matcher that has them, for 100,000 at once. One by one: into a live matcher, each seen
by the next match, alone and with a match after every one; and into a registry in memory.
"""

import json
import time

from rich.console import Console
from rich.table import Table

import penstock
from benchmarks import RESULTS
from penstock.bench.peers import ADDS_OF_PEERS, BULK_ADDS_AT_LEAST, SINGLE_ADDS_AT_LEAST
from penstock.bench.workloads import WORKLOADS, Workload
from penstock.matching import LiveMatcher, Matcher, compile_plan

_BULK = 100_000
_ONE_BY_ONE = 9_000  # below the bound from which on a live matcher compacts
_SUBSCRIBED = 3_000


def rate(count: int, began: float) -> float:
    return round(count / (time.perf_counter() - began), 1)


def measure(workload: Workload) -> dict[str, float]:
    """Additions per second, by the way they are made."""
    rows, schema = workload.rows, workload.schema
    compile_plan(rows.take(rows.ids[:100]), schema)  # compiles kernels, outside the clock
    found: dict[str, float] = {}
    began = time.perf_counter()
    plan, errors = compile_plan(rows, schema)
    Matcher(plan)
    assert not errors
    found["bulk"] = rate(len(rows), began)

    filters = rows.filters.slice(0, _ONE_BY_ONE).to_pylist()
    events = workload.events.to_pylist()
    live = LiveMatcher(schema)
    for sid, text in enumerate(filters[:200]):
        live.add(sid, text)
        live.match(events[0])
    began = time.perf_counter()
    for sid, text in enumerate(filters[200:-1000], 200):
        live.add(sid, text)
    found["one by one, live"] = rate(len(filters) - 1200, began)
    began = time.perf_counter()
    for sid, text in enumerate(filters[-1000:], len(filters)):
        live.add(sid, text)
        live.match(events[sid % len(events)])
    found["one by one, live, a match after each"] = rate(1000, began)

    registry = penstock.Subscriptions(schema)
    registry.subscribe("someone", filters[0])
    began = time.perf_counter()
    for text in filters[1 : _SUBSCRIBED + 1]:
        registry.subscribe("someone", text)
    found["one by one, registry in memory"] = rate(_SUBSCRIBED, began)
    return found


def main() -> None:
    results = {}
    table = Table(title="additions per second")
    table.add_column("workload")
    for name in ("stock", "ranges", "equality-1000"):
        results[name] = measure(WORKLOADS[name](_BULK, 1_000))
        if len(table.columns) == 1:
            for way in results[name]:
                table.add_column(way, justify="right")
        table.add_row(name, *(f"{value:,.0f}" for value in results[name].values()))
    console = Console()
    console.print(table)
    peers = ", ".join(f"{name} up to {value:,.0f}" for name, value in ADDS_OF_PEERS.items())
    console.print(
        f"aims: {BULK_ADDS_AT_LEAST:,} in bulk, {SINGLE_ADDS_AT_LEAST:,} one by one; peers: {peers}"
    )
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "adds.json").write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
