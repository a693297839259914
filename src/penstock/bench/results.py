"""The figures as files: JSON and a plot for each workload, and a summary of all in Markdown."""

import json
import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from penstock.bench.overhead import Overhead
from penstock.bench.report import Sheet, aims_sheet, growth_sheet, trial_sheet
from penstock.bench.trial import Trial


def machine() -> dict[str, Any]:
    """Where the figures come from."""
    return {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "packages": {
            name: _version(name)
            for name in ("penstock", "numpy", "numba", "pyarrow", "duckdb", "pyspark")
        },
        "measured": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def write_workload(folder: Path, trials: Sequence[Trial]) -> list[Path]:
    """The JSON of one workload, and its plot if there is something to plot with; what was written."""
    folder.mkdir(parents=True, exist_ok=True)
    name = trials[0].workload
    target = folder / f"{name}.json"
    content = {"machine": machine(), "trials": [trial.to_dict() for trial in trials]}
    target.write_text(json.dumps(content, indent=2) + "\n")
    picture = folder / f"{name}.png"
    return [target, picture] if plot(trials, picture) else [target]


def write_summary(folder: Path, trials: Mapping[str, Sequence[Trial]]) -> Path:
    """Every table, the figures to beat first."""
    folder.mkdir(parents=True, exist_ok=True)
    sheets: list[Sheet] = []
    if (aims := aims_sheet(t for found in trials.values() for t in found)) is not None:
        sheets.append(aims)
    for found in trials.values():
        sheets += [*map(trial_sheet, found), growth_sheet(found)]
    return write_page(
        folder / "summary.md",
        "Benchmarks of matching",
        "`× naive` and `× DuckDB`: how many times as long they take. `cores`: how many were busy.",
        sheets,
    )


def write_page(target: Path, title: str, remark: str, sheets: Iterable[Sheet]) -> Path:
    """Tables on a page, with the machine that they were measured on."""
    here = machine()
    head = (
        f"# {title}\n\n{here['processor']}, {here['cores']} cores, Python {here['python']}, {here['measured']}. "
        f"{remark}\n"
    )
    target.write_text("\n".join([head, *[sheet.markdown() for sheet in sheets]]))
    return target


def write_overhead(folder: Path, found: Sequence[Overhead]) -> Path:
    """What Spark costs around an engine."""
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / "spark.json"
    content = {"machine": machine(), "overheads": [one.to_dict() for one in found]}
    target.write_text(json.dumps(content, indent=2) + "\n")
    return target


def plot(trials: Sequence[Trial], path: Path) -> bool:
    """Cost per event against the number of subscriptions, both axes logarithmic; whether there is Matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return False
    figure = Figure(figsize=(8, 5.5))  # not pyplot: nothing global, no display
    axes = figure.subplots()
    names = dict.fromkeys(f.contestant for trial in trials for f in trial.figures)
    for number, name in enumerate(names):
        colour = f"C{number % 10}"
        found = [(t.subscriptions, f) for t in trials if (f := t.of(name)) is not None]
        sizes = [size for size, _ in found]
        axes.plot(
            sizes, [f.batch.us_per_event for _, f in found], marker="o", color=colour, label=name
        )
        if all(f.single_us for _, f in found):
            singles = [f.single_us or 0.0 for _, f in found]
            label = f"{name}, single events"
            axes.plot(sizes, singles, marker=".", linestyle=":", color=colour, label=label)
    axes.set(
        xscale="log",
        yscale="log",
        xlabel="subscriptions",
        ylabel="µs per event",
        title=f"workload {trials[0].workload}",
    )
    axes.grid(True, which="both", alpha=0.3)
    axes.legend(fontsize="small")
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    return True


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.machine()


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
