"""Expensive operators: the experiments of section 5.3 of their paper and some of ours, then what they come to."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from benchmarks.benchmark import Benchmark, Section, Step
from benchmarks.operators import ordering, small, wall
from benchmarks.operators.experiments import EXPERIMENTS
from benchmarks.operators.plots import plot_trials
from benchmarks.operators.tables import (
    aims_sheet,
    experiment_sheet,
    gap_sheet,
    set_up_sheet,
    thinking_sheet,
    variant_sheet,
    wall_sheet,
)
from benchmarks.operators.trial import Trial, trials
from benchmarks.sheets import Sheet


@dataclass(frozen=True, slots=True)
class Work:
    """Events for each figure, and how many times an instance is drawn."""

    events: int
    runs: int


def closing(sections: Sequence[Section]) -> list[Sheet]:
    """Across experiments: the figures to beat, and scheduling."""
    trials = [f for section in sections for f in section.figures if isinstance(f, Trial)]
    sheets = [aims_sheet(trials), thinking_sheet(trials)] if trials else []
    return [sheet for sheet in sheets if sheet is not None]


def _experiment(name: str, work: Work, step: Step) -> Section:
    experiment = EXPERIMENTS[name]
    found = list(trials(experiment, work.events, work.runs, step))
    return Section(
        name, found, [experiment_sheet(experiment, found)], plot_trials(experiment, found)
    )


def _ordering(work: Work, step: Step) -> Section:
    set_ups = ordering.set_ups(step)
    bounds, drifts = ordering.bounds(work.events, step), ordering.drifts(work.events, step)
    return Section(
        ordering.NAME,
        [*set_ups, *bounds, *drifts],
        [
            set_up_sheet(set_ups),
            variant_sheet("how many neighbours are compared at a predicate", bounds, "ms"),
            variant_sheet("after changes one by one", drifts, "ms per insert"),
        ],
    )


def _optimum(_: Work, step: Step) -> Section:
    gaps = small.gaps(small.INSTANCES, step)
    return Section(small.NAME, gaps, [gap_sheet(gaps)])


def _wall(_: Work, step: Step) -> Section:
    walls = wall.walls(step)
    return Section(wall.NAME, walls, [wall_sheet(walls)])


_OF_THE_PAPER: dict[str, Callable[[Work, Step], Section]] = {
    name: partial(_experiment, name) for name in EXPERIMENTS
}
BENCHMARK = Benchmark[Work](
    "operators",
    "Benchmarks of expensive operators",
    "Evaluations of predicates per event, averaged; answers are drawn beforehand and cost nothing.",
    {**_OF_THE_PAPER, ordering.NAME: _ordering, small.NAME: _optimum, wall.NAME: _wall},
    closing,
)
