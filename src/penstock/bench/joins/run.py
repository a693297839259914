"""All of it: the experiments one after the other, each as figures and tables, then the figures to beat."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from penstock.bench.joins import experiments, mixes, multiway, on_spark, plots
from penstock.bench.joins.experiments import (
    DATABASE,
    OVERLAP,
    PAYLOAD,
    RATE,
    STOCKS,
    SUBSCRIPTIONS,
    WIDTHS,
    varied_sheet,
)
from penstock.bench.joins.multiway import MULTIWAY, STAR
from penstock.bench.joins.published import (
    DESCRIPTION_BYTES,
    EVENTS_PER_SECOND,
    OURS,
    SLOWER_AT_A_MILLION,
    SOURCE,
    STRESS_KB,
    TITLES,
    times,
)
from penstock.bench.joins.synthetic import Recipe
from penstock.bench.joins.trial import Trial
from penstock.bench.joins.trial import disagreements as all_disagreements
from penstock.bench.report import Sheet
from penstock.bench.sections import Findings, Section, Step

SPARK = "spark"
NAMES = (SUBSCRIPTIONS, DATABASE, RATE, PAYLOAD, OVERLAP, STOCKS, WIDTHS, MULTIWAY, STAR)
_FEWER = 5  # times: events of experiments that vary something else than subscriptions
_GOAL_AT, _MILLION = 100_000, 1_000_000


def findings() -> Findings:
    """None yet."""
    return Findings(
        "joins",
        "Benchmarks of select-joins",
        "The experiments of the select-joins paper that need no network, on workloads drawn as it describes them.",
    )


def sections(
    names: Sequence[str], sizes: Sequence[int], events: int, session: Any, step: Step
) -> Iterator[Section]:
    """The experiments of these names, all but three at the first size only. `session`: Spark's, if asked for."""
    recipe = Recipe(subscriptions=sizes[0], events=max(1, events // _FEWER))
    for name in names:
        match name:
            case experiments.SUBSCRIPTIONS:
                whole = Recipe(events=events)
                yield _subscriptions(list(experiments.by_subscriptions(whole, sizes, step)))
            case experiments.PAYLOAD:
                yield _payload(experiments.by_payload(recipe, step))
            case experiments.STOCKS:
                yield _stocks(list(experiments.on_stocks(sizes, recipe.events, step)))
            case experiments.WIDTHS:
                widths = list(experiments.by_widths(recipe, step))
                plot = partial(plots.plot_bars, widths, (plots.SENT, plots.DESCRIPTION))
                yield Section(name, widths, [experiments.widths_sheet(widths)], plot)
            case multiway.MULTIWAY:
                mix = mixes.General(sizes[0], recipe.events + multiway.ROUND)
                yield _multiway(list(multiway.multiway_trials(mix, step)))
            case multiway.STAR:
                star = mixes.Star(sizes[0], recipe.events + multiway.STAR_CHECKED)
                yield _star(list(multiway.star_trials(star, step)))
            case "spark":
                yield on_spark.measure(session, sizes, step)
            case _:
                yield _varied(name, list(experiments.varied(name, recipe, step)))


def _subscriptions(found: Sequence[Trial]) -> Section:
    sheets = [
        experiments.time_sheet(found),
        experiments.stress_sheet(found),
        experiments.description_sheet(found),
    ]
    quantities = (plots.MICROSECONDS, plots.SENT, plots.DELIVERED)
    in_bytes = {scheme: {n: kb * 1e3 for n, kb in row.items()} for scheme, row in STRESS_KB.items()}
    published = {plots.SENT[0]: in_bytes}
    plot = partial(
        plots.plot_lines, found, "subscriptions (×: the paper)", quantities, published=published
    )
    return Section(SUBSCRIPTIONS, found, sheets, plot)


_VARIED = {
    DATABASE: ("the tuples of R (figure 7)", "tuples of R"),
    RATE: ("the join output rate (figures 8 and 9)", "rows for a tuple that comes"),
    OVERLAP: ("overlap of ranges (figure 19)", "x: centres spread by 13,000 - 2x and 7,500 - x"),
}


def _varied(name: str, found: Sequence[Trial]) -> Section:
    title, along = _VARIED[name]
    at = f", {found[0].subscriptions:,} subscriptions"
    sheets = [
        varied_sheet(f"Sent, kB per event, by {title}{at}", found, experiments.sent),
        varied_sheet(f"Delivered, kB per event, by {title}{at}", found, experiments.delivered),
        varied_sheet(
            f"Processing time, µs per event, by {title}{at}",
            found,
            experiments.microseconds,
            (f"columns: {along}", experiments.events_remark(found)),
        ),
    ]
    quantities = (plots.MICROSECONDS, plots.SENT, plots.DELIVERED)
    return Section(name, found, sheets, partial(plots.plot_lines, found, along, quantities))


def _payload(found: Sequence[Trial]) -> Section:
    sheet = varied_sheet(
        f"Sent, kB per event, by payload (figure 18), {found[0].subscriptions:,} subscriptions",
        found,
        experiments.sent,
        (
            "columns: bytes of a tuple's payload; counted at 100, and as many more for each tuple sent",
        ),
    )
    plot = partial(plots.plot_lines, found, "bytes of payload", (plots.SENT,), log=True)
    return Section(PAYLOAD, found, [sheet], plot)


def _stocks(found: Sequence[Trial]) -> Section:
    title = "stocks and reviews, by the number of subscriptions (figure 10)"
    sheets = [
        varied_sheet(f"Sent, kB per event: {title}", found, experiments.sent),
        varied_sheet(f"Delivered, kB per event: {title}", found, experiments.delivered),
        varied_sheet(
            f"Processing time, µs per event: {title}",
            found,
            experiments.microseconds,
            (
                experiments.events_remark(found),
                f"a change reaches {found[0].affected:,.0f} of {found[0].subscriptions:,} subscriptions",
            ),
        ),
    ]
    quantities = (plots.MICROSECONDS, plots.SENT, plots.DELIVERED)
    return Section(
        STOCKS, found, sheets, partial(plots.plot_lines, found, "subscriptions", quantities)
    )


def _multiway(found: Sequence[Trial]) -> Section:
    plot = partial(plots.plot_bars, found[:-1], (plots.SENT, plots.DELIVERED))
    return Section(MULTIWAY, found, [multiway.multiway_sheet(found)], plot)


def _star(found: Sequence[Trial]) -> Section:
    plot = partial(plots.plot_bars, found, (plots.SENT, plots.DELIVERED))
    return Section(STAR, found, [multiway.star_sheet(found)], plot)


# --- the figures to beat ------------------------------------------------------------------------


def disagreements(found: Findings) -> list[str]:
    """Where schemes don't reach those whom they should."""
    return all_disagreements(_trials(found))


def closing(found: Findings) -> list[Sheet]:
    """The figures to beat: the ratios of Tables 3 and 4, and our goals for speed."""
    mine = [
        t
        for s in found.sections
        if s.name == SUBSCRIPTIONS
        for t in s.figures
        if isinstance(t, Trial)
    ]
    rows = [*_ratio_aims(mine), *_speed_aims(mine)]
    if not rows:
        return []
    columns = ("figure", "subscriptions", "measured", "at least", "verdict")
    remark = (
        "those of Table 4, and of Rel-Sel in Table 3, depend on what ranges without a width become, "
        "which the paper leaves open: see the experiment widths"
    )
    return [Sheet(f"Figures to beat ({SOURCE})", columns, tuple(rows), (remark,))]


def _trials(found: Findings) -> list[Trial]:
    return [f for section in found.sections for f in section.figures if isinstance(f, Trial)]


def _ratio_aims(found: Sequence[Trial]) -> Iterator[tuple[str, ...]]:
    best = {t.subscriptions: t for t in found if t.scheme == OURS}
    for t in found:
        if t.scheme == OURS or t.subscriptions not in best:
            continue
        ours = best[t.subscriptions]
        for number, table, mine, its in (
            (3, STRESS_KB, t.sent, ours.sent),
            (4, DESCRIPTION_BYTES, t.description, ours.description),
        ):
            paper = times(table, t.scheme, t.subscriptions)
            if paper is not None and its:
                what = f"Table {number}: {TITLES[t.scheme]} by {TITLES[OURS]}"
                yield _aim(what, t.subscriptions, mine / its, paper)


def _speed_aims(found: Sequence[Trial]) -> Iterator[tuple[str, ...]]:
    best = {t.subscriptions: t for t in found if t.scheme == OURS}
    goal, million = best.get(_GOAL_AT), best.get(_MILLION)
    if goal is not None:
        yield _aim("events per second and core", _GOAL_AT, goal.rate, EVENTS_PER_SECOND)
    if million is not None:
        slower = EVENTS_PER_SECOND / SLOWER_AT_A_MILLION
        yield _aim("events per second and core", _MILLION, million.rate, slower)
    if goal is not None and million is not None:
        share = million.rate / goal.rate
        yield _aim("the same, by that at 100,000", _MILLION, share, 1 / SLOWER_AT_A_MILLION)


def _aim(what: str, subscriptions: int, measured: float, least: float) -> tuple[str, ...]:
    word = "reached" if measured >= least else "missed"
    cells = f"{measured:,.4g}", f"{least:,.4g}", f"{word}, × {measured / least:.2f}"
    return what, f"{subscriptions:,}", *cells
