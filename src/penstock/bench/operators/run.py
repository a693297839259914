"""All of it: the experiments one after the other, each as figures and tables, then what they come to."""

from collections.abc import Iterator, Sequence
from functools import partial

from penstock.bench.operators import ordering, small, wall
from penstock.bench.operators.experiments import EXPERIMENTS
from penstock.bench.operators.plots import plot
from penstock.bench.operators.report import (
    aims_sheet,
    experiment_sheet,
    gap_sheet,
    set_up_sheet,
    thinking_sheet,
    variant_sheet,
    wall_sheet,
)
from penstock.bench.operators.trial import Trial, trials
from penstock.bench.report import Sheet
from penstock.bench.sections import Findings, Section, Step

NAMES = (*EXPERIMENTS, ordering.NAME, small.NAME, wall.NAME)


def findings() -> Findings:
    """None yet."""
    return Findings(
        "operators",
        "Benchmarks of expensive operators",
        "Evaluations of predicates per event, averaged; answers are drawn beforehand and cost nothing.",
    )


def closing(found: Findings) -> list[Sheet]:
    """Across experiments: the figures to beat, and scheduling."""
    trials = _trials(found)
    sheets = [aims_sheet(trials), thinking_sheet(trials)] if trials else []
    return [sheet for sheet in sheets if sheet is not None]


def disagreements(found: Findings) -> list[str]:
    return [text for trial in _trials(found) for text in trial.disagreements]


def _trials(found: Findings) -> list[Trial]:
    return [f for section in found.sections for f in section.figures if isinstance(f, Trial)]


def sections(names: Sequence[str], events: int, runs: int, step: Step) -> Iterator[Section]:
    """The experiments of these names."""
    for name in names:
        if name == small.NAME:
            gaps = small.gaps(small.INSTANCES, step)
            yield Section(name, gaps, [gap_sheet(gaps)])
        elif name == wall.NAME:
            found = wall.walls(step)
            yield Section(name, found, [wall_sheet(found)])
        elif name == ordering.NAME:
            yield _ordering(events, step)
        else:
            experiment = EXPERIMENTS[name]
            mine = list(trials(experiment, events, runs, step))
            sheet = experiment_sheet(experiment, mine)
            yield Section(name, mine, [sheet], partial(plot, experiment, mine))


def _ordering(events: int, step: Step) -> Section:
    set_ups = ordering.set_ups(step)
    bounds, drifts = ordering.bounds(events, step), ordering.drifts(events, step)
    return Section(
        ordering.NAME,
        [*set_ups, *bounds, *drifts],
        [
            set_up_sheet(set_ups),
            variant_sheet("how many neighbours are compared at a predicate", bounds, "ms"),
            variant_sheet("after changes one by one", drifts, "ms per insert"),
        ],
    )
