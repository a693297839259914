"""What one more subscription takes, as the set grows (figure 13 of the paper).

A subscription comes, its relation to those in the table is found, and it is left out, or put in and what it covers
taken out. Beside each other: our frontier, the diagram with the dependency table and without it (then a predicate is
compared with all others of its attribute), and with the table, finding both relations at once or one after the other.
The paper's algorithm looks at every node; ours only at those above what the new one implies. Both are timed.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from benchmarks.baselines.covering.diagram import Diagram, Relation
from benchmarks.baselines.covering.order import order_by_statistics
from benchmarks.benchmark import Section, Step
from benchmarks.covering.published import INSERTION_MS, ONE_PASS_SAVES
from benchmarks.covering.sets import B, Recipe, draw
from benchmarks.plots import Plot, finish_axes
from benchmarks.sheets import Sheet
from penstock.covering.frontier import Frontier
from penstock.covering.regions import Region

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NAME = "insertion"
BLOCK = 2_000  # subscriptions in a figure, as in the paper
EVERY = 20_000  # subscriptions from one figure to the next
PROBES = 200  # new subscriptions whose relations are found in one pass and in two
SWEPT = 20  # of them, those for which every node is looked at


@dataclass(frozen=True, slots=True)
class Growth:
    """Microseconds per subscription, with so many there and so many of them in the table.

    `at_once` is for the frontier if all that are there are loaded at once.
    """

    subscriptions: int
    entries: int
    predicates: int
    frontier: float
    diagram: float
    without_table: float
    one_pass: float
    two_passes: float
    sweep: float
    two_sweeps: float
    at_once: float


def growths(step: Step, recipe: Recipe = B, every: int = EVERY) -> Iterator[Growth]:
    """Figures at several sizes of a growing set."""
    regions = draw(recipe).regions
    frontier: Frontier[int] = Frontier()
    order = order_by_statistics(regions[:every])
    diagrams = [Diagram[int](order, cache=cache) for cache in (True, False)]
    for first in range(0, len(regions), every):
        step(f"insertion: {first:,} subscriptions")
        last = min(first + every, len(regions)) - BLOCK
        for n in range(first, last):
            _advance(n, regions[n], frontier, diagrams)
        block = range(last, last + BLOCK)
        relations = _relations(diagrams[0], [regions[n] for n in block[:PROBES]])
        yield Growth(
            last,
            len(diagrams[0]),
            len(diagrams[0].index),
            _us(lambda n: frontier.add(n, regions[n]), block),
            _us(lambda n: _insert(diagrams[0], n, regions[n]), block),
            _us(lambda n: _insert(diagrams[1], n, regions[n]), block),
            *relations,
            _loaded_us(regions[:last]),
        )


def _advance(
    n: int, region: Region, frontier: Frontier[int], diagrams: Sequence[Diagram[int]]
) -> None:
    """Insert without looking at the clock: the frontier knows what covers what."""
    added = frontier.add(n, region)
    if added.covered_by is None:
        for diagram in diagrams:
            for covered in added.covers:
                diagram.remove(covered)
            diagram.add(n, region)


def _insert(diagram: Diagram[int], n: int, region: Region) -> None:
    relation = diagram.relate(region)
    if relation.covered_by is None:
        for covered in relation.covers:
            diagram.remove(covered)
        diagram.add(n, region)


def _relations(
    diagram: Diagram[int], probes: Sequence[Region]
) -> tuple[float, float, float, float]:
    """One pass and two; over what the new one implies, and over every node."""
    ways: list[tuple[Callable[[Region], Relation[int]], int]] = [
        (diagram.relate, PROBES),
        (diagram.relate_twice, PROBES),
        (diagram.relate_by_sweep, SWEPT),
        (lambda region: diagram.relate_by_sweep(region, twice=True), SWEPT),
    ]
    one, two, sweep, sweeps = (
        _us(lambda n, ask=ask: ask(probes[n]), range(count))  # type: ignore[misc]
        for ask, count in ways
    )
    return one, two, sweep, sweeps


def _loaded_us(regions: Sequence[Region]) -> float:
    frontier: Frontier[int] = Frontier()
    began = time.perf_counter()
    frontier.load(enumerate(regions))
    return (time.perf_counter() - began) / len(regions) * 1e6


def _us(work: Callable[[int], object], numbers: Sequence[int]) -> float:
    began = time.perf_counter()
    for n in numbers:
        work(n)
    return (time.perf_counter() - began) / len(numbers) * 1e6


def measure_insertion(step: Step) -> Section:
    """The growing set B."""
    found = list(growths(step))
    return Section(NAME, found, [growth_sheet(found)], Plot(partial(_paint, found), (8, 5)))


def growth_sheet(found: Sequence[Growth]) -> Sheet:
    """By size."""
    last = found[-1]
    without, with_table = INSERTION_MS["without"] * 1e3, INSERTION_MS["with"] * 1e3
    return Sheet(
        "Inserting a subscription, µs (figure 13)",
        (
            "subscriptions",
            "entries",
            "predicates",
            "frontier",
            "at once",
            "diagram",
            "without table",
            "one pass",
            "two",
            "all nodes, one pass",
            "two",
        ),
        tuple(
            (
                f"{g.subscriptions:,}",
                f"{g.entries:,}",
                f"{g.predicates:,}",
                *[
                    f"{us:,.0f}"
                    for us in (
                        g.frontier,
                        g.at_once,
                        g.diagram,
                        g.without_table,
                        g.one_pass,
                        g.two_passes,
                        g.sweep,
                        g.two_sweeps,
                    )
                ],
            )
            for g in found
        ),
        (
            f"with the table {times(last.without_table, last.diagram)} as fast as without it at the end; "
            f"the paper {times(without, with_table)} ({without:,.0f} and {with_table:,.0f} µs at 5,000 predicates)",
            f"one pass saves {1 - last.one_pass / last.two_passes:.1%}, over all nodes "
            f"{1 - last.sweep / last.two_sweeps:.1%}; the paper {ONE_PASS_SAVES:.1%}",
            f"against the paper with its table: frontier {times(with_table, last.frontier)} as fast, at once "
            f"{times(with_table, last.at_once)}, diagram {times(with_table, last.diagram)}",
        ),
        words=0,
    )


def times(slow: float, fast: float) -> str:
    """How many times as fast.

    >>> times(300, 20)
    '15 times'
    """
    return f"{slow / fast:,.0f} times" if slow >= 10 * fast else f"{slow / fast:.1f} times"


def _paint(found: Sequence[Growth], panels: "Sequence[Axes]") -> None:
    """Microseconds by size."""
    (axes,) = panels
    sizes = [g.subscriptions for g in found]
    for label, values in (
        ("frontier", [g.frontier for g in found]),
        ("frontier, all at once", [g.at_once for g in found]),
        ("diagram", [g.diagram for g in found]),
        ("diagram, without the table", [g.without_table for g in found]),
        ("relation, all nodes in one pass", [g.sweep for g in found]),
        ("relation, all nodes in two passes", [g.two_sweeps for g in found]),
    ):
        axes.plot(sizes, values, marker="o", label=label)
    for name, ms in INSERTION_MS.items():
        axes.axhline(ms * 1e3, linestyle=":", label=f"the paper, {name} the table")
    axes.set(yscale="log", xlabel="subscriptions", ylabel="µs per subscription")
    finish_axes(axes)
