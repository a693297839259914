"""The experiments on binary select-joins: section 6.1 and appendix J, without the network.

    subscriptions   figure 5, Tables 3 and 4      time, bytes and descriptions by the number of subscriptions
    database        figure 7                      by the tuples of R
    rate            figures 8 and 9               by the join's output rate: rows for a tuple that comes (RJOR)
    payload         figure 18                     by the bytes of a payload
    overlap         figure 19                     by how much ranges overlap
    stocks          figure 10                     stocks and reviews
    widths          Table 4                       by what was left open, and by seeds

What is varied apart from the number of subscriptions is tried with one of the schemes of each kind. The payload isn't:
sent bytes are linear in it, so they are what one trial has, and as much more as its tuples have.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from benchmarks.benchmark import Step
from benchmarks.joins import stocks
from benchmarks.joins.published import (
    DESCRIPTION_BYTES,
    OURS,
    STRESS_KB,
    TITLES,
    times,
)
from benchmarks.joins.synthetic import JOIN_VALUES, SEED, Recipe, draw
from benchmarks.joins.trial import CHECKED, SLOW, Referee, Trial, try_scheme
from benchmarks.sheets import Sheet

SUBSCRIPTIONS, DATABASE, RATE = "subscriptions", "database", "rate"
PAYLOAD, OVERLAP, STOCKS, WIDTHS = "payload", "overlap", "stocks", "widths"

ALL = (
    "enum-j",
    "enum-sj",
    "ref-j",
    "ref-j+",
    "ref-sj-sub",
    "ref-sj-tup",
    "ref-sj-clu",
    "ref-sj-clu+",
    "rel-sel",  # last: the referee has to know the truth by then
)
SOME = ("ref-j+", "enum-sj", "ref-sj-tup", "ref-sj-clu+", "rel-sel")
TUPLES_OF_R = (1_000, 6_000, 16_000, 31_000)
TUPLES_OF_S = (100, 2_600, 5_100, 10_100)
OVERLAPS = (0, 2_000, 4_000, 6_000)
DESCRIBED = ("ref-sj-sub", "ref-sj-clu", "ref-sj-clu+", "rel-sel")
WIDTH_CHOICES = ((False, SEED), (False, SEED + 1), (False, SEED + 2), (True, SEED))
PAYLOADS = (1, 10, 100, 1_000, 10_000, 100_000)


def trials(
    recipe: Recipe, at: float, schemes: Sequence[str], events: int, step: Step, what: str
) -> Iterator[Trial]:
    """Some schemes on one workload."""
    workload, referee = draw(replace(recipe, events=events + CHECKED)), Referee()
    for scheme in schemes:
        step(f"{what}: {TITLES[scheme]}")
        yield try_scheme(workload, scheme, events, at, referee)


def by_subscriptions(
    recipe: Recipe, sizes: Sequence[int], step: Step, schemes: Sequence[str] = ALL
) -> Iterator[Trial]:
    for size in sizes:
        sized = replace(recipe, subscriptions=size)
        yield from trials(sized, size, schemes, recipe.events, step, f"{size:,} subscriptions")


def varied(
    name: str, recipe: Recipe, step: Step, values: Sequence[int] = (), schemes: Sequence[str] = SOME
) -> Iterator[Trial]:
    """Vary the database, the join output rate or the overlap."""
    recipes: dict[float, Recipe] = {}
    if name == DATABASE:
        recipes = {n: replace(recipe, tuples_of_r=n) for n in values or TUPLES_OF_R}
    elif name == RATE:
        recipes = {n / JOIN_VALUES: replace(recipe, tuples_of_s=n) for n in values or TUPLES_OF_S}
    elif name == OVERLAP:
        recipes = {x: recipe.overlapping(x) for x in values or OVERLAPS}
    if name == RATE:
        schemes = ("ref-j", *schemes)  # good at low rates, the paper says
    for at, one in recipes.items():
        yield from trials(one, at, schemes, recipe.events, step, f"{name} {at:g}")


def by_payload(recipe: Recipe, step: Step, schemes: Sequence[str] = ALL) -> list[Trial]:
    """One trial of each scheme, whose tuples are then as large as anybody likes."""
    found = trials(recipe, recipe.payload, schemes, recipe.events, step, "payload")
    return [
        replace(t, at=size, sent=t.with_payload(recipe.payload, size))
        for t in found
        for size in PAYLOADS
    ]


def on_stocks(
    sizes: Sequence[int], events: int, step: Step, schemes: Sequence[str] = ALL
) -> Iterator[Trial]:
    for size in sizes:
        workload, referee = stocks.draw(size, events + CHECKED), Referee()
        for scheme in schemes:
            step(f"stocks and reviews, {size:,} subscriptions: {TITLES[scheme]}")
            yield try_scheme(workload, scheme, events, size, referee)


def by_widths(recipe: Recipe, step: Step) -> Iterator[Trial]:
    """Whether ranges without a width are drawn again, with several seeds, or have width 1."""
    for n, (is_cut, seed) in enumerate(WIDTH_CHOICES):
        sized = replace(recipe, events=recipe.events + CHECKED, cut_widths=is_cut)
        workload, referee = draw(sized, seed), Referee()
        for scheme in DESCRIBED:
            word = "cut to 1" if is_cut else "drawn again"
            label = f"{word}, seed {seed}: {TITLES[scheme]}"
            step(label)
            yield try_scheme(workload, scheme, recipe.events, n, referee, label=label)


# --- tables -------------------------------------------------------------------------------------

Cell = Callable[[Trial], str]


def sent(trial: Trial) -> str:
    return f"{trial.sent / 1e3:,.3f}" if trial.sent < 1e5 else f"{trial.sent / 1e3:,.0f}"


def delivered(trial: Trial) -> str:
    return f"{trial.delivered / 1e3:,.1f}"


def microseconds(trial: Trial) -> str:
    return f"{trial.us:,.1f}"


def varied_sheet(
    title: str, found: Sequence[Trial], cell: Cell, remarks: Sequence[str] = (), unit: str = ""
) -> Sheet:
    """A row for each scheme, a column for each value."""
    values = list(dict.fromkeys(t.at for t in found))
    by = {(t.title, t.at): t for t in found}
    return Sheet(
        title,
        ("scheme", *[f"{value:,g}{unit}" for value in values]),
        tuple(
            (name, *[cell(by[name, v]) if (name, v) in by else "" for v in values])
            for name in dict.fromkeys(t.title for t in found)
        ),
        tuple(remarks),
    )


def events_remark(found: Sequence[Trial]) -> str:
    """How many events there were, and which schemes had fewer."""
    most = max(t.events for t in found)
    few = {t.title: t.events for t in found if t.events < most and t.scheme in SLOW}
    fewer = ", ".join(f"{name} {count:,}" for name, count in few.items())
    return (
        f"{most:,} events, each a tuple that comes and the oldest that goes"
        + (f"; as they take long for each, {fewer}" if fewer else "")
        + "; processor time of one core; bytes are those of the same events for all schemes"
    )


def time_sheet(found: Sequence[Trial]) -> Sheet:
    """Figure 5."""
    return varied_sheet(
        "Processing time, µs per event, by the number of subscriptions (figure 5)",
        found,
        microseconds,
        (events_remark(found),),
    )


def stress_sheet(found: Sequence[Trial]) -> Sheet:
    """Table 3."""
    rows = []
    for t in found:
        best = _best(found, t)
        paper, ratio = STRESS_KB.get(t.scheme, {}), times(STRESS_KB, t.scheme, t.subscriptions)
        rows.append(
            (
                f"{t.subscriptions:,}",
                t.title,
                sent(t),
                f"{t.sent / best.sent:,.2f}",
                f"{paper[t.subscriptions]:,g}" if t.subscriptions in paper else "",
                f"{ratio:,.2f}" if ratio else "",
                f"{t.sent_going / 1e3:,.3f}",
                delivered(t),
                f"{t.delivered / best.delivered:,.1f}",
                f"{t.affected:,.0f}",
            )
        )
    return Sheet(
        "What leaves the server, kB per event (Table 3)",
        (
            "subscriptions",
            "scheme",
            "sent",
            "by Clu+",
            "paper",
            "by Clu+",
            "sent for going",
            "delivered",
            "by Clu+",
            "reached",
        ),
        tuple(rows),
        (
            "sent: for tuples that come, a message once; the paper's server is a node of a network, and a message "
            "leaves it as often as it has links to take there, so that Rel-Sel, whose messages go everywhere, has more",
            "delivered: once for each subscriber; reached: subscriptions per change",
        ),
        words=2,
    )


def description_sheet(found: Sequence[Trial]) -> Sheet:
    """Table 4."""
    rows = []
    for t in found:
        if t.scheme not in DESCRIPTION_BYTES:
            continue
        best, paper = _best(found, t), DESCRIPTION_BYTES[t.scheme].get(t.subscriptions)
        ratio = times(DESCRIPTION_BYTES, t.scheme, t.subscriptions)
        rows.append(
            (
                f"{t.subscriptions:,}",
                t.title,
                f"{t.description:,.2f}",
                f"{t.description / best.description:,.2f}",
                f"{paper:,.2f}" if paper else "",
                f"{ratio:,.2f}" if ratio else "",
            )
        )
    return Sheet(
        "Description size, bytes (Table 4)",
        ("subscriptions", "scheme", "bytes", "by Clu+", "paper", "by Clu+"),
        tuple(rows),
        ("the skyline of a message with a tuple that has come: 8 bytes for a point",),
        words=2,
    )


def widths_sheet(found: Sequence[Trial]) -> Sheet:
    """What Table 3 and 4 have of it, by the choice."""
    rows = []
    for t in found:
        best = _best(found, t)
        ratio = times(DESCRIPTION_BYTES, t.scheme, t.subscriptions)
        stress = times(STRESS_KB, t.scheme, t.subscriptions)
        has = t.scheme in DESCRIPTION_BYTES
        rows.append(
            (
                t.title,
                f"{t.description:,.2f}" if has else "",
                f"{t.description / best.description:,.2f}" if has and best.description else "",
                f"{ratio:,.2f}" if ratio else "",
                sent(t),
                f"{t.sent / best.sent:,.2f}" if best.sent else "",
                f"{stress:,.2f}" if stress else "",
                f"{t.us:,.1f}",
            )
        )
    return Sheet(
        f"Ranges without a width, {found[0].subscriptions:,} subscriptions (Tables 3 and 4)",
        (
            "widths that aren't positive",
            "description",
            "by Clu+",
            "paper",
            "sent kB/event",
            "by Clu+",
            "paper",
            "µs/event",
        ),
        tuple(rows),
        ("the paper doesn't say which; the other experiments draw them again",),
    )


def _best(found: Sequence[Trial], trial: Trial) -> Trial:
    """Ref-SJ-Clu+ at the same place."""
    return next((t for t in found if t.scheme == OURS and t.at == trial.at), trial)
