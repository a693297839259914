"""Views: the experiments of section 5 of the Delta paper, then the figures to beat."""

import resource
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from benchmarks.benchmark import Benchmark, Section, Step, unseen
from benchmarks.sheets import Sheet, format_verdict
from benchmarks.views import on_spark, plots, published, tables
from benchmarks.views.configurations import Configured, configured
from benchmarks.views.drawing import POPULAR, UNIQUE
from benchmarks.views.instances import Grown, Instance, instance

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GRAPH, UTILISATION, LOGA, LEVELS = "graph", "utilisation", "loga", "levels"
DEPLOYMENT = "deployment"
SPARK = "spark"
_WARM = 500  # views that kernels are compiled with
_UNIQUE_SET, _POPULAR_SET = "unique views", "popular views"


@dataclass(frozen=True, slots=True)
class Memory:
    """How much this process has held at most so far, in bytes."""

    peak: int


class Work:
    """So many unique views and some capacities. What several experiments need is done when the first asks for it."""

    def __init__(
        self,
        views: int = UNIQUE.views,
        capacities: Sequence[str] = published.CAPACITIES,
        session: "SparkSession | None" = None,
    ) -> None:
        self.session = session
        self._recipe, self._capacities = replace(UNIQUE, views=views), capacities
        self._unique: Instance | None = None
        self._configurations: list[Configured] | None = None

    def unique(self, step: Step) -> Instance:
        if self._unique is None:
            self._unique = instance(self._recipe, step)
        return self._unique

    def configurations(self, step: Step) -> list[Configured]:
        if self._configurations is None:
            given = self.unique(step)
            source = round(published.MARGIN * given.not_rewritten)
            found = configured(_UNIQUE_SET, given, self._capacities, source, step)
            self._configurations = list(found)
        return self._configurations


def _graph(work: Work, step: Step) -> Section:
    grown = work.unique(step).grown
    return Section(GRAPH, [grown, _memory()], [tables.graph_sheet(grown)])


def _utilisation(work: Work, step: Step) -> Section:
    found = work.configurations(step)
    return Section(UTILISATION, [*found, _memory()], [tables.utilisation_sheet(found)])


def _loga(work: Work, step: Step) -> Section:
    found = work.configurations(step)
    return Section(LOGA, found, [tables.loga_sheet(found)], plots.plot_courses(found))


def _levels(work: Work, step: Step) -> Section:
    found = work.configurations(step)
    sheet = tables.levels_sheet("Views in each level (figure 6)", found)
    return Section(LEVELS, found, [sheet], plots.plot_levels(found))


def _on_spark(work: Work, step: Step) -> Section:
    assert work.session is not None
    return on_spark.measure(work.session, step)


def _deployment(_: Work, step: Step) -> Section:
    given = instance(POPULAR, step)
    limits = published.POPULAR_CAPACITIES, published.POPULAR_SOURCE
    found = list(configured(_POPULAR_SET, given, *limits, step))
    sheets = [
        tables.deployment_sheet(given.grown, found),
        tables.levels_sheet("Views in each level, many of them the same (figure 7)", found),
    ]
    figures = [given.grown, *found, _memory()]
    return Section(DEPLOYMENT, figures, sheets, plots.plot_levels(found))


def _warm_up() -> None:
    """Let kernels be compiled before a clock runs."""
    few = instance(replace(UNIQUE, views=_WARM), unseen)
    list(configured("", few, ("30",), few.grown.views, unseen))


def _memory() -> Memory:
    unit = 1 if sys.platform == "darwin" else 1024
    return Memory(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit)


# --- the figures to beat ------------------------------------------------------------------------


def closing(sections: Sequence[Section]) -> list[Sheet]:
    """The figures to beat: the paper's, and our goals."""
    figures = [figure for section in sections for figure in section.figures]
    grown = [f for f in figures if isinstance(f, Grown) and f.unique == f.views]
    mine = list(
        {
            f.capacity: f for f in figures if isinstance(f, Configured) if f.set_name == _UNIQUE_SET
        }.values()
    )
    held = [f for f in figures if isinstance(f, Memory)]
    rows = [*_graph_aims(grown), *_choice_aims(mine), *_whole_aims(grown, mine)]
    if held:
        peak = max(one.peak for one in held)
        rows.append(_at_most("peak memory, GB", peak / 2**30, published.GOAL_BYTES / 2**30))
    if not rows:
        return []
    return [
        Sheet(
            f"Figures to beat ({published.SOURCE})",
            ("figure", "measured", "aim", "verdict"),
            tuple(rows),
        )
    ]


def _graph_aims(grown: Sequence[Grown]) -> Iterator[tuple[str, ...]]:
    for g in grown:
        seconds = g.flat_seconds + g.graph_seconds
        yield _at_most("embedding graph: seconds", seconds, published.GRAPH_SECONDS)
        yield _at_most("rewritings: seconds", g.rewriting_seconds, published.REWRITING_SECONDS)


def _choice_aims(found: Sequence[Configured]) -> Iterator[tuple[str, ...]]:
    for c in found:
        at = f"capacity {c.capacity}"
        if c.capacity in published.OFF_LOADED:
            aim = published.OFF_LOADED[c.capacity]
            yield _at_least(f"{at}: off-loaded", c.chosen.off_loaded, aim)
        yield _at_most(f"{at}: gap", c.gap, published.GOAL_GAP)
        yield _at_least(f"{at}: latency saved", c.latency_saved, published.LATENCY_SAVED)
        most = published.MORE_UTILISATION[1]
        yield _at_most(f"{at}: utilisation more with LOGA", c.more_utilisation, most)
        yield _at_most(f"{at}: levels after LOGA", len(c.shortened.levels), published.MOST_LEVELS)


def _whole_aims(grown: Sequence[Grown], found: Sequence[Configured]) -> Iterator[tuple[str, ...]]:
    for g in grown:
        for c in found:
            seconds = g.seconds + c.program_seconds + c.loga_seconds
            what = f"capacity {c.capacity}: graphs, program and LOGA, seconds"
            yield _at_most(what, seconds, published.GOAL_SECONDS)


def _at_most(what: str, measured: float, most: float) -> tuple[str, ...]:
    return (
        what,
        f"{measured:,.3g}",
        f"≤ {most:,.3g}",
        format_verdict(measured <= most, measured, most),
    )


def _at_least(what: str, measured: float, least: float) -> tuple[str, ...]:
    return (
        what,
        f"{measured:.3g}",
        f"≥ {least:.3g}",
        format_verdict(measured >= least, measured, least),
    )


BENCHMARK = Benchmark[Work](
    "views",
    "Benchmarks of views",
    "The experiments of the Delta paper on views drawn over XMark's schema with its averages.",
    {
        GRAPH: _graph,
        UTILISATION: _utilisation,
        LOGA: _loga,
        LEVELS: _levels,
        DEPLOYMENT: _deployment,
    },
    closing,
    on_request={SPARK: _on_spark},
    warm_up=_warm_up,
)
