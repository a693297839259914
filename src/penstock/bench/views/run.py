"""All of it: the experiments one after the other, each as figures and tables, then the figures to beat."""

import resource
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from penstock.bench.report import Sheet
from penstock.bench.sections import Findings, Section, Step
from penstock.bench.views import on_spark, plots, published, tables
from penstock.bench.views.configurations import Configured, configured
from penstock.bench.views.drawing import POPULAR, UNIQUE, Recipe
from penstock.bench.views.instances import Grown, Instance, instance

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GRAPH, UTILISATION, LOGA, LEVELS = "graph", "utilisation", "loga", "levels"
DEPLOYMENT = "deployment"
NAMES = (GRAPH, UTILISATION, LOGA, LEVELS, DEPLOYMENT)
SPARK = "spark"
_WARM = 500  # views that kernels are compiled with
_UNIQUE_SET, _POPULAR_SET = "unique views", "popular views"


@dataclass(frozen=True, slots=True)
class Memory:
    """How much this process has held at most so far, in bytes."""

    peak: int

    def to_dict(self) -> dict[str, Any]:
        return {"peak": self.peak}


def findings() -> Findings:
    """None yet."""
    return Findings(
        "views",
        "Benchmarks of views",
        "The experiments of the Delta paper on views drawn over XMark's schema with its averages.",
    )


class _Work:
    """What several experiments need is done once, when the first one asks for it."""

    def __init__(self, recipe: Recipe, capacities: Sequence[str], step: Step) -> None:
        self.recipe, self.capacities, self.step = recipe, capacities, step

    @cached_property
    def unique(self) -> Instance:
        return instance(self.recipe, self.step)

    @cached_property
    def configurations(self) -> list[Configured]:
        source = round(published.MARGIN * self.unique.not_rewritten)
        return list(configured(_UNIQUE_SET, self.unique, self.capacities, source, self.step))


def sections(
    names: Sequence[str],
    step: Step,
    views: int = UNIQUE.views,
    capacities: Sequence[str] = published.CAPACITIES,
    spark: "SparkSession | None" = None,
) -> Iterator[Section]:
    """The experiments of these names, on so many unique views."""
    step("compiling kernels")
    _warm_up()
    work = _Work(replace(UNIQUE, views=views), capacities, step)
    for name in names:
        match name:
            case "graph":
                grown = work.unique.grown
                yield Section(name, [grown, _memory()], [tables.graph_sheet(grown)])
            case "utilisation":
                found = work.configurations
                yield Section(name, [*found, _memory()], [tables.utilisation_sheet(found)])
            case "loga":
                found = work.configurations
                plot = partial(plots.plot_courses, found)
                yield Section(name, found, [tables.loga_sheet(found)], plot)
            case "levels":
                found = work.configurations
                sheet = tables.levels_sheet("Views in each level (figure 6)", found)
                yield Section(name, found, [sheet], partial(plots.plot_levels, found))
            case "deployment":
                yield _deployment(step)
            case "spark":
                assert spark is not None
                yield on_spark.measure(spark, step)


def _deployment(step: Step) -> Section:
    given = instance(POPULAR, step)
    limits = published.POPULAR_CAPACITIES, published.POPULAR_SOURCE
    found = list(configured(_POPULAR_SET, given, *limits, step))
    sheets = [
        tables.deployment_sheet(given.grown, found),
        tables.levels_sheet("Views in each level, many of them the same (figure 7)", found),
    ]
    plot = partial(plots.plot_levels, found)
    return Section(DEPLOYMENT, [given.grown, *found, _memory()], sheets, plot)


def _warm_up() -> None:
    """Let kernels be compiled before a clock runs."""
    few = instance(replace(UNIQUE, views=_WARM), _unseen)
    list(configured("", few, ("30",), few.grown.views, _unseen))


def _unseen(_: str) -> None:
    """Nobody is told."""


def _memory() -> Memory:
    unit = 1 if sys.platform == "darwin" else 1024
    return Memory(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit)


# --- the figures to beat ------------------------------------------------------------------------


def closing(found: Findings) -> list[Sheet]:
    """The figures to beat: the paper's, and our goals."""
    figures = [figure for section in found.sections for figure in section.figures]
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
    return what, f"{measured:,.3g}", f"≤ {most:,.3g}", _verdict(measured <= most, measured, most)


def _at_least(what: str, measured: float, least: float) -> tuple[str, ...]:
    return what, f"{measured:.3g}", f"≥ {least:.3g}", _verdict(measured >= least, measured, least)


def _verdict(is_reached: bool, measured: float, aim: float) -> str:
    return f"{'reached' if is_reached else 'missed'}, × {measured / aim:.2f}"
