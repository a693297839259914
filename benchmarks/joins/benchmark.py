"""Select-joins: the experiments of sections 6.1 and 6.3 of their paper, then the figures to beat."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from benchmarks.benchmark import Benchmark, Section, Step
from benchmarks.joins import experiments, mixes, multiway, on_spark, plots
from benchmarks.joins.experiments import (
    DATABASE,
    OVERLAP,
    PAYLOAD,
    RATE,
    STOCKS,
    SUBSCRIPTIONS,
    WIDTHS,
    varied_sheet,
)
from benchmarks.joins.multiway import MULTIWAY, STAR
from benchmarks.joins.published import (
    DESCRIPTION_BYTES,
    EVENTS_PER_SECOND,
    OURS,
    SLOWER_AT_A_MILLION,
    SOURCE,
    STRESS_KB,
    TITLES,
    times,
)
from benchmarks.joins.synthetic import Recipe
from benchmarks.joins.trial import Trial
from benchmarks.sheets import Sheet, format_verdict

SPARK = "spark"
_FEWER = 5  # times: events of experiments that vary something else than subscriptions
_GOAL_AT, _MILLION = 100_000, 1_000_000


@dataclass(frozen=True, slots=True)
class Work:
    """Numbers of subscriptions, of which all but three experiments take the first; events; Spark's session, if any."""

    sizes: Sequence[int]
    events: int
    session: Any = None

    @property
    def recipe(self) -> Recipe:
        """For experiments that vary something else than subscriptions."""
        return Recipe(subscriptions=self.sizes[0], events=max(1, self.events // _FEWER))


def _subscriptions(work: Work, step: Step) -> Section:
    recipe = Recipe(events=work.events)
    return subscriptions_section(list(experiments.by_subscriptions(recipe, work.sizes, step)))


def subscriptions_section(found: Sequence[Trial]) -> Section:
    """Figure 5, Tables 3 and 4."""
    sheets = [
        experiments.time_sheet(found),
        experiments.stress_sheet(found),
        experiments.description_sheet(found),
    ]
    quantities = (plots.MICROSECONDS, plots.SENT, plots.DELIVERED)
    in_bytes = {scheme: {n: kb * 1e3 for n, kb in row.items()} for scheme, row in STRESS_KB.items()}
    published = {plots.SENT[0]: in_bytes}
    along = "subscriptions (×: the paper)"
    plot = plots.plot_lines(found, along, quantities, published=published)
    return Section(SUBSCRIPTIONS, found, sheets, plot)


_VARIED = {
    DATABASE: ("the tuples of R (figure 7)", "tuples of R"),
    RATE: ("the join output rate (figures 8 and 9)", "rows for a tuple that comes"),
    OVERLAP: ("overlap of ranges (figure 19)", "x: centres spread by 13,000 - 2x and 7,500 - x"),
}


def _varied(name: str, work: Work, step: Step) -> Section:
    found = list(experiments.varied(name, work.recipe, step))
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
    return Section(name, found, sheets, plots.plot_lines(found, along, quantities))


def _payload(work: Work, step: Step) -> Section:
    found = experiments.by_payload(work.recipe, step)
    sheet = varied_sheet(
        f"Sent, kB per event, by payload (figure 18), {found[0].subscriptions:,} subscriptions",
        found,
        experiments.sent,
        (
            "columns: bytes of a tuple's payload; counted at 100, and as many more for each tuple sent",
        ),
    )
    plot = plots.plot_lines(found, "bytes of payload", (plots.SENT,), log=True)
    return Section(PAYLOAD, found, [sheet], plot)


def _stocks(work: Work, step: Step) -> Section:
    found = list(experiments.on_stocks(work.sizes, work.recipe.events, step))
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
    return Section(STOCKS, found, sheets, plots.plot_lines(found, "subscriptions", quantities))


def _widths(work: Work, step: Step) -> Section:
    found = list(experiments.by_widths(work.recipe, step))
    plot = plots.plot_bars(found, (plots.SENT, plots.DESCRIPTION))
    return Section(WIDTHS, found, [experiments.widths_sheet(found)], plot)


def _multiway(work: Work, step: Step) -> Section:
    mix = mixes.General(work.sizes[0], work.recipe.events + multiway.ROUND)
    found = list(multiway.multiway_trials(mix, step))
    plot = plots.plot_bars(found[:-1], (plots.SENT, plots.DELIVERED))
    return Section(MULTIWAY, found, [multiway.multiway_sheet(found)], plot)


def _star(work: Work, step: Step) -> Section:
    mix = mixes.Star(work.sizes[0], work.recipe.events + multiway.STAR_CHECKED)
    found = list(multiway.star_trials(mix, step))
    plot = plots.plot_bars(found, (plots.SENT, plots.DELIVERED))
    return Section(STAR, found, [multiway.star_sheet(found)], plot)


# --- the figures to beat ------------------------------------------------------------------------


def closing(sections: Sequence[Section]) -> list[Sheet]:
    """The figures to beat: the ratios of Tables 3 and 4, and our goals for speed."""
    mine = [
        t for s in sections if s.name == SUBSCRIPTIONS for t in s.figures if isinstance(t, Trial)
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
    verdict = format_verdict(measured >= least, measured, least)
    return what, f"{subscriptions:,}", f"{measured:,.4g}", f"{least:,.4g}", verdict


_EXPERIMENTS: dict[str, Callable[[Work, Step], Section]] = {
    SUBSCRIPTIONS: _subscriptions,
    DATABASE: partial(_varied, DATABASE),
    RATE: partial(_varied, RATE),
    PAYLOAD: _payload,
    OVERLAP: partial(_varied, OVERLAP),
    STOCKS: _stocks,
    WIDTHS: _widths,
    MULTIWAY: _multiway,
    STAR: _star,
}
BENCHMARK = Benchmark[Work](
    "joins",
    "Benchmarks of select-joins",
    "The experiments of the select-joins paper that need no network, on workloads drawn as it describes them.",
    _EXPERIMENTS,
    closing,
    on_request={SPARK: lambda work, step: on_spark.measure(work.session, work.sizes, step)},
)
