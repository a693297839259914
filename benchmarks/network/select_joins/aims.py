"""The figures to beat: the papers' ratios, and ten times less traffic than every strawman."""

from collections.abc import Iterator, Sequence

from benchmarks.benchmark import Section
from benchmarks.network.select_joins.published import (
    LESS,
    OURS,
    RELAXED_TRAFFIC,
    SOURCE,
    STAR_LESS,
    STAR_STRESS,
    STAR_TIMES,
    STRAWMEN,
    STRESS_KB,
    TITLES,
)
from benchmarks.network.select_joins.star_network import StarTrial
from benchmarks.network.select_joins.trial import TrafficTrial, times_ours
from benchmarks.sheets import Sheet, format_verdict

_Aim = tuple[str, str, float, float]


def aims_sheet(sections: Sequence[Section]) -> list[Sheet]:
    """All that the sections so far say something about."""
    rows = []
    for section in sections:
        for what, at, measured, least in _aims(section):
            verdict = format_verdict(measured >= least, measured, least)
            rows.append(
                (section.name, what, at, f"{measured:,.4g}", f"{least:,.4g}", verdict),
            )
    if not rows:
        return []
    columns = ("experiment", "figure", "at", "measured", "at least", "verdict")
    return [Sheet(f"Figures to beat ({SOURCE})", columns, tuple(rows), words=2)]


def _aims(section: Section) -> Iterator[_Aim]:
    traffic = [t for t in section.figures if isinstance(t, TrafficTrial)]
    star = [t for t in section.figures if isinstance(t, StarTrial)]
    if section.name == "joins-star":
        for t in traffic:
            if not t.at and t.scheme in STAR_TIMES:
                measured = times_ours(traffic, t, "traffic", OURS)
                yield (
                    f"{TITLES[t.scheme]} by {TITLES[OURS]}",
                    "no payload",
                    measured,
                    STAR_TIMES[t.scheme],
                )
    elif section.name == "joins-multiway":
        mine = [t.traffic for t in traffic if t.scheme == OURS]
        (relaxed,) = [t.traffic for t in traffic if t.scheme == "rel-sel"]
        yield "Rel-Sel by the best decomposition", "", relaxed / min(mine), RELAXED_TRAFFIC
    elif star:
        yield from _star_aims(star)
    else:
        yield from _strawman_aims(traffic)


def _strawman_aims(found: Sequence[TrafficTrial]) -> Iterator[_Aim]:
    for scheme in (*STRAWMEN, "enum-sj"):
        mine = [t for t in found if t.scheme == scheme]
        if mine:
            least = min(mine, key=lambda t: times_ours(found, t, "traffic", OURS))
            measured = times_ours(found, least, "traffic", OURS)
            yield f"traffic: {TITLES[scheme]} by {TITLES[OURS]}", f"{least.at:,g}", measured, LESS
    for t in found:
        paper, ours = STRESS_KB.get(t.scheme, {}), STRESS_KB[OURS]
        if (
            t.scheme != OURS
            and t.subscriptions in paper
            and t.at == t.subscriptions
            and t.can_traffic + t.stress
        ):
            measured = times_ours(found, t, "stress", OURS)
            aim = paper[t.subscriptions] / ours[t.subscriptions]
            yield f"stress: {TITLES[t.scheme]} by {TITLES[OURS]}", f"{t.at:,g}", measured, aim


def _star_aims(found: Sequence[StarTrial]) -> Iterator[_Aim]:
    for t in found:
        if not t.is_star or t.scheme not in STAR_STRESS:
            continue
        (plain,) = [
            o
            for o in found
            if not o.is_star and (o.scheme, o.tuples_of_r) == (t.scheme, t.tuples_of_r)
        ]
        at = f"{t.entries:,} entries, R {t.tuples_of_r}"
        if t.entries == 400:
            measured = plain.stress / t.stress
            yield f"CN* stress: {TITLES[t.scheme]}", at, measured, STAR_STRESS[t.scheme]
        if t.entries == max(o.entries for o in found):
            yield f"CN* traffic: {TITLES[t.scheme]}", at, plain.traffic / t.traffic, STAR_LESS
            if t.again:
                yield (
                    f"CN* traffic of what isn't new: {TITLES[t.scheme]}",
                    at,
                    plain.again / t.again,
                    STAR_LESS,
                )
