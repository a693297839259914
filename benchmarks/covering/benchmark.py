"""Covering and merging: the experiments of section 6 of the MBD paper, then the figures to beat."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from benchmarks.benchmark import Benchmark, Section, Step, unseen
from benchmarks.covering import insertion, orders, tables, thresholds
from benchmarks.covering.published import (
    EVENTS_PER_SECOND_TIMES,
    INSERTION_MS,
    NONE,
    ONE_PASS_SAVES,
    ROUTING_MS,
    SOURCE,
)
from benchmarks.covering.sets import A
from benchmarks.sheets import Sheet, format_verdict


def _alone(measure: Callable[[Step], Section]) -> Callable[[None, Step], Section]:
    """An experiment that needs nothing but to tell its steps."""
    return lambda _, step: measure(step)


def _warm_up() -> None:
    """Let kernels be compiled before a clock runs."""
    few = replace(A, subscriptions=2 * insertion.BLOCK, profiles=30)
    list(tables.tables(few, unseen))
    list(insertion.growths(unseen, few, every=few.subscriptions))


def closing(sections: Sequence[Section]) -> list[Sheet]:
    """The figures to beat: the paper's ratios, and a hundred times its speed."""
    figures = [figure for section in sections for figure in section.figures]
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
    verdict = format_verdict(measured <= most, measured, most)
    return what, f"{measured:,.3g}", f"{most:,.3g}", verdict


BENCHMARK = Benchmark[None](
    "covering",
    "Benchmarks of covering and merging",
    "The experiments of the MBD paper on sets drawn as it describes them.",
    {
        tables.NAME: _alone(tables.measure_tables),
        insertion.NAME: _alone(insertion.measure_insertion),
        thresholds.NAME: _alone(thresholds.measure_thresholds),
        orders.NAME: _alone(orders.measure_orders),
    },
    closing,
    warm_up=_warm_up,
)
