"""What a benchmark is: experiments by name, each of which gives a section of figures, tables and a plot.

    Benchmark ── run(names, work) ──> Section, Section … ──> Findings ──> tables on the screen
    of a room    experiment by name   figures, sheets, plot               JSON, plots and a page in a folder

A room contributes its experiments as functions, and says across all of them which figures are to be beaten. What they
work on (sizes, a Spark session, what several of them share) is the room's own `work`.
"""

import json
import os
import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Generic, TypeVar

from benchmarks.plots import Plot
from benchmarks.sheets import Sheet

Step = Callable[[str], None]
"""Told what is being done now."""
Work = TypeVar("Work")


def unseen(_: str) -> None:
    """A step that nobody is told of."""


@dataclass(frozen=True, slots=True)
class Section:
    """One experiment, done."""

    name: str
    figures: Sequence[Any]  # dataclasses; their `to_dict`, if any, says what else JSON has
    sheets: Sequence[Sheet]
    plot: Plot | None = None

    def to_dicts(self) -> list[dict[str, Any]]:
        """The figures as JSON has them."""
        return [f.to_dict() if hasattr(f, "to_dict") else asdict(f) for f in self.figures]


def no_sheets(_: "Sequence[Section]") -> list[Sheet]:
    """Nothing across experiments."""
    return []


@dataclass(frozen=True)
class Benchmark(Generic[Work]):
    """Some experiments; `name` is that of the page they are written to.

    `closing` makes tables across the sections so far, `on_request` are experiments that are only done if asked for,
    `warm_up` has kernels compiled before a clock runs.
    """

    name: str
    title: str
    about: str
    experiments: Mapping[str, Callable[[Work, Step], Section]]
    closing: Callable[[Sequence[Section]], list[Sheet]] = no_sheets
    on_request: Mapping[str, Callable[[Work, Step], Section]] = field(default_factory=dict)
    warm_up: Callable[[], None] | None = None
    prefix: str | None = None  # of the names of files; that of the benchmark if there is none

    def run(self, names: Sequence[str], work: Work, step: Step = unseen) -> Iterator[Section]:
        """The experiments of these names, each as soon as it is done."""
        if self.warm_up is not None:
            step("compiling kernels")
            self.warm_up()
        for name in names:
            yield (self.experiments.get(name) or self.on_request[name])(work, step)


@dataclass(slots=True)
class Findings:
    """What a benchmark has found so far."""

    benchmark: Benchmark[Any]
    sections: list[Section] = field(default_factory=list)

    def add(self, section: Section) -> None:
        self.sections.append(section)

    @property
    def closing(self) -> list[Sheet]:
        """The tables across sections."""
        return self.benchmark.closing(self.sections)

    @property
    def disagreements(self) -> list[str]:
        """Where those who should give the same answers don't."""
        figures = [figure for section in self.sections for figure in section.figures]
        return [text for figure in figures for text in getattr(figure, "disagreements", ())]

    @property
    def page(self) -> str:
        return f"{self.benchmark.name}.md"

    def write(self, folder: Path) -> None:
        """The last section's JSON and plot, and a page of all tables, the closing ones first."""
        folder.mkdir(parents=True, exist_ok=True)
        last, its = self.sections[-1], self.benchmark
        prefix = f"{its.name}-" if its.prefix is None else its.prefix
        target = folder / f"{prefix}{last.name}.json"
        content = {"machine": machine(), "figures": last.to_dicts()}
        target.write_text(json.dumps(content, indent=2) + "\n")
        if last.plot is not None:
            last.plot.save(target.with_suffix(".png"))
        here = machine()
        head = (
            f"# {its.title}\n\n{here['processor']}, {here['cores']} cores, Python {here['python']}, "
            f"{here['measured']}. {its.about}\n"
        )
        sheets = [*self.closing, *[sheet for s in self.sections for sheet in s.sheets]]
        (folder / self.page).write_text("\n".join([head, *[s.markdown() for s in sheets]]))


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
