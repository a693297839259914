"""How likely events are in boxes of numbers: `distributions` for kernels.

    attribute a    at[start[a]] .. at[start[a + 1]], the numbers where some range begins or one ended just before;
                   below[i] is the chance of a number below at[i], NULL included; null[a] that of NULL

Events come from what is *announced*: disjoint boxes of plain ranges. Without advertisements that is one box with no
tests, which holds every event. The mass of a box is the chance that an event is in it and announced; divided by the
mass of all that is announced it is the share of the events that come.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from penstock.arrays import Float64s, Int64s
from penstock.covering.boxes import HIGHEST, LOWEST, NULL, Boxes, BoxStore
from penstock.covering.coordinates import Coordinates
from penstock.covering.distributions import Statistics
from penstock.covering.regions import Box, Budget, OutOfBudgetError, Region, pieces_outside
from penstock.covering.values import Values
from penstock.jit import kernel

_MOST = 1_000  # boxes of plain ranges, of one piece


class Chances(NamedTuple):
    """The arrays drawn above, what is announced, and how likely all of that is."""

    start: Int64s
    at: Int64s
    below: Float64s
    null: Float64s
    announced: Boxes
    announcements: int
    mass: float


def chances(
    boxes: BoxStore,
    coordinates: Coordinates,
    statistics: Statistics,
    advertisements: Sequence[Region] = (),
) -> Chances:
    """For all boxes of a store, whose numbers are these coordinates', and for any hull of them.

    Advertisements with more than a few boxes that overlap may be too many pieces to be told apart. Then what is in two
    of them counts twice, and of all only the likeliest counts: shares come out too high, never too low.
    """
    pieces, _ = _pieces(advertisements)
    flat = coordinates.flatten([Region((one,)) for piece in pieces for one in _plain(piece)])
    if 0 in flat.boxes:  # has a boundary without a number: then every event may come
        flat = coordinates.flatten([Region(((),))])
    for move in coordinates.moves():
        boxes.renumber(*move)
    announced = BoxStore()
    announced.append(flat)
    starts, nulls = [0], list[float]()
    places, shares = [np.empty(0, np.int64)], list[float]()
    for attribute, path in enumerate(coordinates.paths()):
        found = statistics.distributions.get(path, statistics.unknown)
        used = np.union1d(boxes.numbers_in_use(attribute), announced.numbers_in_use(attribute))
        keys = (coordinates.key(attribute, number) for number in used.tolist())
        shares += [found.null + (1 - found.null) * found.below(key) for key in keys]
        places.append(used)
        nulls.append(found.null)
        starts.append(starts[-1] + len(used))
    return Chances(
        np.array(starts, np.int64),
        np.concatenate(places).astype(np.int64),
        np.array(shares, np.float64),
        np.array(nulls, np.float64),
        announced.boxes,
        len(announced),
        announced_mass(advertisements, statistics),
    )


def announced_mass(advertisements: Sequence[Region], statistics: Statistics) -> float:
    """How likely an event is that is announced; 1 if nothing is, since then any event may come.

    >>> from penstock.covering.distributions import Uniform
    >>> from penstock.covering.reading import region
    >>> low, high = (region(text, {"i": "int"}) for text in ("i < 3", "i IN (1, 8)"))
    >>> round(announced_mass([low, high], Statistics({("i",): Uniform(0, 9)})), 6)
    0.4
    """
    pieces, are_disjoint = _pieces(advertisements)
    likely = [statistics.box(piece) for piece in pieces]
    return sum(likely) if are_disjoint else max(likely, default=0.0)


def _pieces(advertisements: Sequence[Region]) -> tuple[list[Box], bool]:
    """What is announced as disjoint boxes, if they aren't too many; every event if nothing is."""
    boxes = list(dict.fromkeys(box for one in advertisements for box in one.boxes))
    if not advertisements:
        return [()], True
    budget = Budget()
    try:
        return [p for n, b in enumerate(boxes) for p in pieces_outside(b, boxes[:n], budget)], True
    except OutOfBudgetError:
        return boxes, False


def _plain(piece: Box) -> list[Box]:
    """The same box as boxes with one range for each attribute, NULL being a range; or few that hold it."""
    found: list[Box] = [()]
    for path, values in piece:
        parts = [Values((interval,)) for interval in values.intervals]
        if values.null:
            parts.append(Values((), null=True))
        if len(found) * len(parts) > _MOST:
            parts = [Values(values.hull().intervals, values.null)]
        found = [(*box, (path, part)) for box in found for part in parts]
    return found


@kernel
def share(chances: Chances, attribute: int, low: int, high: int) -> float:
    """The chance that an attribute has a number from low to high."""
    if low > high:
        return 0.0
    upper = 1.0 if high == HIGHEST else _below(chances, attribute, high + 1)
    return upper - _below(chances, attribute, low)


@kernel
def _below(chances: Chances, attribute: int, number: int) -> float:
    if number == NULL:
        return 0.0
    if number == LOWEST:
        return float(chances.null[attribute])
    first, past = chances.start[attribute], chances.start[attribute + 1]
    place = first + np.searchsorted(chances.at[first:past], number)
    return float(chances.below[place])


@kernel
def mass(chances: Chances, boxes: Boxes, b: int, t: int, low: int, high: int) -> float:
    """The chance of an announced event in box b, if its test t were the range from low to high."""
    total = 0.0
    for piece in range(chances.announcements):
        total += _common(chances, boxes, b, t, low, high, piece)
    return total


@kernel
def is_possible(chances: Chances, boxes: Boxes, b: int, t: int, low: int, high: int) -> bool:
    """Whether an announced event may be in that box, be it ever so unlikely."""
    for piece in range(chances.announcements):  # noqa: SIM110 -- kernels have no generators
        if _common(chances, boxes, b, t, low, high, piece, True) > 0:
            return True
    return False


@kernel
def _common(
    chances: Chances,
    boxes: Boxes,
    b: int,
    t: int,
    low: int,
    high: int,
    piece: int,
    counting: bool = False,
) -> float:
    """The chance of what a box and a piece have in common; if only counting, 1 if there is something."""
    announced = chances.announced
    v, past = announced.box_start[piece], announced.box_start[piece + 1]
    common = 1.0
    for u in range(boxes.box_start[b], boxes.box_start[b + 1]):
        attribute = boxes.attribute[u]
        if attribute < 0:
            continue
        while v < past and announced.attribute[v] < attribute:
            if not counting:
                common *= share(
                    chances, announced.attribute[v], announced.low[v], announced.high[v]
                )
            v += 1
        inner, outer = NULL, HIGHEST
        if v < past and announced.attribute[v] == attribute:
            inner, outer = announced.low[v], announced.high[v]
            v += 1
        one = u == t or boxes.several[u] < 0
        first = 0 if one else boxes.set_start[boxes.several[u]]
        last = 1 if one else boxes.set_start[boxes.several[u] + 1]
        found = 0.0
        for i in range(first, last):
            if u == t:
                lo, hi = low, high
            elif one:
                lo, hi = boxes.low[u], boxes.high[u]
            else:
                lo, hi = boxes.set_low[i], boxes.set_high[i]
            lo, hi = max(lo, inner), min(hi, outer)
            if lo <= hi:
                found += 1.0 if counting else share(chances, attribute, lo, hi)
        common *= found
        if common == 0.0:
            return 0.0
    while v < past:
        if not counting:
            common *= share(chances, announced.attribute[v], announced.low[v], announced.high[v])
        v += 1
    return common
