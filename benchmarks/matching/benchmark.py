"""Matching: every workload is an experiment, at each of some sizes; then the figures to beat."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from benchmarks.benchmark import Benchmark, Section, Step
from benchmarks.matching.tables import aims_sheet, growth_sheet, trial_sheet
from benchmarks.matching.trial import Options, Trial, trials
from benchmarks.plots import Plot, finish_axes
from benchmarks.sheets import Sheet
from benchmarks.workloads import WORKLOADS

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, slots=True)
class Work:
    """Numbers of subscriptions, and what to measure for how long."""

    sizes: Sequence[int]
    options: Options


def trials_section(found: Sequence[Trial]) -> Section:
    """One workload at some sizes."""
    growth = [growth_sheet(found)] if len(found) > 1 else []
    sheets = [*map(trial_sheet, found), *growth]
    return Section(found[0].workload, found, sheets, Plot(partial(_paint, found)))


def closing(sections: Sequence[Section]) -> list[Sheet]:
    """Which figures to beat are beaten."""
    aims = aims_sheet(trial for section in sections for trial in section.figures)
    return [] if aims is None else [aims]


def _workload(name: str, work: Work, step: Step) -> Section:
    return trials_section(list(trials(name, work.sizes, work.options, step)))


def _paint(found: Sequence[Trial], panels: "Sequence[Axes]") -> None:
    """Cost per event against the number of subscriptions, both axes logarithmic."""
    (axes,) = panels
    names = dict.fromkeys(f.contestant for trial in found for f in trial.figures)
    for number, name in enumerate(names):
        colour = f"C{number % 10}"
        its = [(t.subscriptions, f) for t in found if (f := t.of(name)) is not None]
        sizes = [size for size, _ in its]
        costs = [f.batch.us_per_event for _, f in its]
        axes.plot(sizes, costs, marker="o", color=colour, label=name)
        if all(f.single_us for _, f in its):
            singles = [f.single_us or 0.0 for _, f in its]
            label = f"{name}, single events"
            axes.plot(sizes, singles, marker=".", linestyle=":", color=colour, label=label)
    title = f"workload {found[0].workload}"
    axes.set(xscale="log", yscale="log", xlabel="subscriptions", ylabel="µs per event", title=title)
    finish_axes(axes)


_EXPERIMENTS: dict[str, Callable[[Work, Step], Section]] = {
    name: partial(_workload, name) for name in WORKLOADS
}
BENCHMARK = Benchmark[Work](
    "summary",
    "Benchmarks of matching",
    "`× naive` and `× DuckDB`: how many times as long they take. `cores`: how many were busy.",
    _EXPERIMENTS,
    closing,
    prefix="",
)
