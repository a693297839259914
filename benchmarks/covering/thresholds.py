"""Imperfect merging: how small tables get by threshold, and what they let through for nobody (figures 14 and 15).

Subscriptions come over links, as in a network, and each link has a table of its own. Those of one profile come over the
same link, so that a link is about some things and not about others: were they mixed, every event would match something
on every link, and nothing would be let through in vain. With advertisements, what is announced are some ranges of the
attributes that subscriptions have for themselves, and events are drawn from these.

The paper's threshold is about each merger, ours about the whole table of a link: the same number allows less.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from benchmarks.benchmark import Section, Step
from benchmarks.covering.published import FALSE_POSITIVES, MERGED_LEFT
from benchmarks.covering.sets import NAMES, SCHEMA, A, Drawn, Recipe, draw, plan_of
from benchmarks.plots import Plot, finish_axes
from benchmarks.sheets import Sheet
from penstock.base.arrays import Bools, Int64s
from penstock.covering.reading import region
from penstock.covering.regions import Region
from penstock.covering.routing_table import RoutingTable
from penstock.matching import Matcher

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NAME = "thresholds"
RECIPE = replace(A, subscriptions=100_000)
THRESHOLDS = (0.0, 0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2)
LINKS = 100
EVENTS = 10_000


@dataclass(frozen=True, slots=True)
class Point:
    """One threshold. Shares: entries of all subscriptions; in vain of all that the tables let through."""

    threshold: float
    is_announced: bool
    entries: int
    share: float
    wanted: float  # links per event that somebody behind wants it for
    in_vain: float
    seconds: float


def points(
    step: Step,
    recipe: Recipe = RECIPE,
    thresholds: Sequence[float] = THRESHOLDS,
    events: int = EVENTS,
) -> Iterator[Point]:
    """All thresholds, without advertisements and with them."""
    drawn = draw(recipe)
    link = _links(drawn)
    for is_announced in (False, True):
        announced = _advertisements(recipe) if is_announced else []
        batch = _announced_only(drawn.events(events), announced, recipe.values)
        wanted = _linked(drawn.regions, link, batch, recipe.values)
        for threshold in thresholds:
            step(f"threshold {threshold}{', with advertisements' if is_announced else ''}")
            began = time.perf_counter()
            entries, owners = _merged(drawn, link, threshold, announced)
            seconds = time.perf_counter() - began
            through = _linked(entries, owners, batch, recipe.values)
            if (wanted & ~through).any():
                raise AssertionError("an event is lost")
            yield Point(
                threshold,
                is_announced,
                len(entries),
                len(entries) / len(drawn.regions),
                wanted.sum() / batch.num_rows,
                (through & ~wanted).sum() / max(1, through.sum()),
                seconds,
            )


def _links(drawn: Drawn) -> Int64s:
    """The link of each subscription."""
    alone = np.arange(len(drawn.profile)) % LINKS
    return np.where(drawn.profile < 0, alone, drawn.profile % LINKS)


def _advertisements(recipe: Recipe) -> list[Region]:
    """For the attributes that subscriptions have for themselves: a third of their values, then another."""
    third = recipe.values // 3
    own = NAMES[-recipe.own :]
    texts = (
        " AND ".join(f"{name} < {third}" for name in own),
        " AND ".join(f"{name} >= {recipe.values - third}" for name in own),
    )
    return [region(text, SCHEMA) for text in texts]


def _announced_only(
    events: pa.RecordBatch, announced: Sequence[Region], values: int
) -> pa.RecordBatch:
    if not announced:
        return events
    link = np.zeros(len(announced), np.int64)
    kept = np.flatnonzero(_linked(announced, link, events, values)[:, 0])
    return events.take(pa.array(kept))


def _merged(
    drawn: Drawn, link: Int64s, threshold: float, announced: Sequence[Region]
) -> tuple[list[Region], Int64s]:
    """The entries of all tables, and their links."""
    entries: list[Region] = []
    owners: list[int] = []
    for number in range(LINKS):
        table: RoutingTable[int] = RoutingTable(SCHEMA, threshold, drawn.statistics)
        for n, one in enumerate(announced):
            table.advertise(n, one)
        table.load((n, drawn.regions[n]) for n in np.flatnonzero(link == number).tolist())
        table.merge()
        mine = [found for _, found in table.entries()]
        entries += mine
        owners += [number] * len(mine)
    return entries, np.array(owners, np.int64)


def _linked(regions: Sequence[Region], link: Int64s, events: pa.RecordBatch, values: int) -> Bools:
    """For each event and link, whether something matches that came over the link."""
    found = Matcher(plan_of(regions, values)).match_batch(events)
    matched = np.zeros((events.num_rows, LINKS), np.bool_)
    event = np.repeat(np.arange(events.num_rows), np.diff(found.offsets.to_numpy()))
    matched[event, link[found.values.to_numpy()]] = True
    return matched


def measure_thresholds(step: Step) -> Section:
    """Tables of all links by threshold."""
    found = list(points(step))
    plot = Plot(partial(_paint, found), (9, 4.5), columns=2)
    return Section(NAME, found, [threshold_sheet(found)], plot)


def threshold_sheet(found: Sequence[Point]) -> Sheet:
    """Size and false positives by threshold."""
    by = {(p.threshold, p.is_announced): p for p in found}
    limit, share = FALSE_POSITIVES
    return Sheet(
        "Imperfect merging by threshold (figures 14 and 15)",
        ("IMT", "entries", "share left", "in vain", "entries, advertised", "share left", "in vain"),
        tuple(
            (f"{t:g}", *_cells(by.get((t, False))), *_cells(by.get((t, True))))
            for t in dict.fromkeys(p.threshold for p in found)
        ),
        (
            f"{RECIPE.subscriptions:,} subscriptions over {LINKS} links; in vain: of what the tables let through, "
            "the share that nobody behind the link wants",
            f"the paper: {MERGED_LEFT:.1%} left at 0; in vain below {share:.1%} up to {limit}",
        ),
    )


def _cells(point: Point | None) -> tuple[str, str, str]:
    if point is None:
        return "", "", ""
    return f"{point.entries:,}", f"{point.share:.1%}", f"{point.in_vain:.2%}"


def _paint(found: Sequence[Point], panels: "Sequence[Axes]") -> None:
    """Size and false positives."""
    size, vain = panels
    for is_announced, label in ((False, "any event"), (True, "advertised")):
        mine = [p for p in found if p.is_announced == is_announced]
        thresholds = [p.threshold for p in mine]
        size.plot(thresholds, [p.share for p in mine], marker="o", label=label)
        vain.plot(thresholds, [p.in_vain for p in mine], marker="o", label=label)
    size.set(xlabel="threshold (IMT)", ylabel="share of the subscriptions left", ylim=(0, None))
    vain.set(xlabel="threshold (IMT)", ylabel="let through for nobody", ylim=(0, None))
    for axes in (size, vain):
        finish_axes(axes)
