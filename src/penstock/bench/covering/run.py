"""All of it: the experiments one after the other, each as figures and tables, then the figures to beat."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from penstock.bench.covering import insertion, orders, tables, thresholds
from penstock.bench.covering.published import (
    EVENTS_PER_SECOND_TIMES,
    INSERTION_MS,
    NONE,
    ONE_PASS_SAVES,
    ROUTING_MS,
    SOURCE,
)
from penstock.bench.covering.sets import A, B
from penstock.bench.report import Sheet
from penstock.bench.sections import Findings, Section, Step

NAMES = (tables.NAME, insertion.NAME, thresholds.NAME, orders.NAME)


def findings() -> Findings:
    """None yet."""
    return Findings(
        "covering",
        "Benchmarks of covering and merging",
        "The experiments of the MBD paper on sets drawn as it describes them.",
    )


def sections(names: Sequence[str], step: Step) -> Iterator[Section]:
    """The experiments of these names."""
    step("compiling kernels")
    _warm_up()
    for name in names:
        match name:
            case tables.NAME:
                yield _tables(step)
            case insertion.NAME:
                growths = list(insertion.growths(step))
                sheet = insertion.growth_sheet(growths)
                yield Section(name, growths, [sheet], partial(insertion.plot_growth, growths))
            case thresholds.NAME:
                points = list(thresholds.points(step))
                sheet = thresholds.threshold_sheet(points)
                yield Section(name, points, [sheet], partial(thresholds.plot_thresholds, points))
            case orders.NAME:
                found = list(orders.orders(step))
                yield Section(name, found, [orders.order_sheet(found)])


def _warm_up() -> None:
    """Let kernels be compiled before a clock runs."""
    few = replace(A, subscriptions=2 * insertion.BLOCK, profiles=30)
    list(tables.tables(few, _unseen))
    list(insertion.growths(_unseen, few, every=few.subscriptions))


def _unseen(_: str) -> None:
    """Nobody is told."""


def _tables(step: Step) -> Section:
    found = [table for recipe in (A, B) for table in tables.tables(recipe, step)]
    sheets = [tables.size_sheet(found), tables.routing_sheet(found)]
    return Section(tables.NAME, found, sheets, partial(tables.plot_sizes, found))


def closing(found: Findings) -> list[Sheet]:
    """The figures to beat: the paper's ratios, and a hundred times its speed."""
    figures = [figure for section in found.sections for figure in section.figures]
    mine = [f for f in figures if isinstance(f, tables.Table)]
    grown = [f for f in figures if isinstance(f, insertion.Growth)]
    rows = [*_routing_aims(mine), *(_insertion_aims(grown[-1]) if grown else ())]
    if not rows:
        return []
    columns = ("figure", "measured", "at most", "verdict")
    return [Sheet(f"Figures to beat ({SOURCE})", columns, tuple(rows))]


def _routing_aims(found: Sequence[tables.Table]) -> Iterator[tuple[str, ...]]:
    base = {t.set_name: t for t in found if t.method == NONE}
    for t in found:
        paper = ROUTING_MS[t.set_name, t.method]
        what = f"routing, set {t.set_name}, {t.method}"
        if t.method != NONE:
            aim = paper / ROUTING_MS[t.set_name, NONE]
            yield _aim(f"{what}: by none", t.auto_us / base[t.set_name].auto_us, aim)
            yield _aim(f"{what}: by none, mbd", t.mbd_us / base[t.set_name].mbd_us, aim)
        yield _aim(f"{what}: µs", t.auto_us, paper * 1e3 / EVENTS_PER_SECOND_TIMES)


def _insertion_aims(last: insertion.Growth) -> Iterator[tuple[str, ...]]:
    with_table = INSERTION_MS["with"]
    yield _aim(
        "insertion: by without the table",
        last.diagram / last.without_table,
        with_table / INSERTION_MS["without"],
    )
    yield _aim("relation: one pass by two", last.one_pass / last.two_passes, 1 - ONE_PASS_SAVES)
    yield _aim(
        "relation, all nodes: one pass by two", last.sweep / last.two_sweeps, 1 - ONE_PASS_SAVES
    )
    for name, us in (
        ("diagram", last.diagram),
        ("frontier", last.frontier),
        ("frontier, all at once", last.at_once),
    ):
        yield _aim(f"insertion, {name}: µs", us, with_table * 1e3 / EVENTS_PER_SECOND_TIMES)


def _aim(what: str, measured: float, most: float) -> tuple[str, ...]:
    word = "reached" if measured <= most else "missed"
    return what, f"{measured:,.3g}", f"{most:,.3g}", f"{word}, × {measured / most:.2f}"
