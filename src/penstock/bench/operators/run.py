"""All of it: the experiments one after the other, each as figures and tables, then what they come to."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from penstock.bench.operators import ordering, small, wall
from penstock.bench.operators.experiments import EXPERIMENTS
from penstock.bench.operators.report import (
    aims_sheet,
    experiment_sheet,
    gap_sheet,
    set_up_sheet,
    thinking_sheet,
    variant_sheet,
    wall_sheet,
)
from penstock.bench.operators.results import (
    Figured,
    write_experiment,
    write_figures,
    write_summary,
)
from penstock.bench.operators.trial import Trial, trials
from penstock.bench.report import Sheet

NAMES = (*EXPERIMENTS, ordering.NAME, small.NAME, wall.NAME)

Step = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Section:
    """One experiment, done."""

    name: str
    figures: Sequence[Figured]
    sheets: Sequence[Sheet]


@dataclass(slots=True)
class Findings:
    """What has been found so far."""

    sections: list[Section] = field(default_factory=list)

    def add(self, section: Section) -> None:
        self.sections.append(section)

    @property
    def trials(self) -> list[Trial]:
        return [f for section in self.sections for f in section.figures if isinstance(f, Trial)]

    @property
    def disagreements(self) -> list[str]:
        return [text for trial in self.trials for text in trial.disagreements]

    def closing(self) -> list[Sheet]:
        """Across experiments: scheduling, and the figures to beat."""
        found = self.trials
        sheets = [thinking_sheet(found), aims_sheet(found)] if found else []
        return [sheet for sheet in sheets if sheet is not None]

    def write(self, folder: Path) -> None:
        """The last section's files, and the summary of all, the figures to beat first."""
        last = self.sections[-1]
        if last.name in EXPERIMENTS:
            mine = [f for f in last.figures if isinstance(f, Trial)]
            write_experiment(folder, EXPERIMENTS[last.name], mine)
        else:
            write_figures(folder, last.name, last.figures)
        tables = [sheet for section in self.sections for sheet in section.sheets]
        write_summary(folder, [*reversed(self.closing()), *tables])


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
            yield Section(name, mine, [experiment_sheet(experiment, mine)])


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
