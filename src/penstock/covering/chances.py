"""The chances that events lie in boxes of numbers: `distributions` for kernels.

    attribute a    at[start[a]] .. at[start[a + 1]], the numbers at which some range begins, or before which one ends;
                   below[i] is the chance of a number below at[i], NULL included; null[a] that of NULL

Events come only from *announced* boxes, which are disjoint. Without advertisements that is one box with no tests, which
holds every event. For kernels an announced box has one plain range for each attribute. The *mass* of a box is the
chance that an event is in it and announced. Divided by the mass of all announced boxes it is a share of the events that
come.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from penstock.base.arrays import Float64s, Int64s
from penstock.base.jit import kernel
from penstock.covering.boxes import HIGHEST, LOWEST, NULL, Boxes, BoxStore, Flat
from penstock.covering.coordinates import Coordinates
from penstock.covering.distributions import Statistics
from penstock.covering.merge_pool import MergePool
from penstock.covering.regions import Box, Budget, OutOfBudgetError, Region, hull, pieces_outside
from penstock.language.values import Values

_MOST = 256  # boxes of plain ranges; each takes time for every two boxes that might be merged


@dataclass(frozen=True, slots=True)
class Announced:
    """The events that may come, as boxes: disjoint unless that takes too many pieces; only () if any event may come."""

    boxes: tuple[Box, ...]
    are_disjoint: bool

    @staticmethod
    def of(advertisements: Sequence[Region]) -> "Announced":
        """The events that are in an advertisement; every event if there are no advertisements."""
        if not advertisements:
            return Announced(((),), True)
        boxes = list(dict.fromkeys(box for one in advertisements for box in one.boxes))
        budget = Budget()
        try:
            pieces = [p for n, b in enumerate(boxes) for p in pieces_outside(b, boxes[:n], budget)]
        except OutOfBudgetError:
            return Announced(tuple(boxes), False)
        return Announced(tuple(pieces), True)

    def mass(self, statistics: Statistics) -> float:
        """The chance that an event is announced; if boxes overlap, a lower bound: the chance of the likeliest box."""
        likely = [statistics.box(box) for box in self.boxes]
        return sum(likely) if self.are_disjoint else max(likely, default=0.0)

    def plain(self) -> list[Region]:
        """The same as boxes with one range for each attribute, where NULL is a range, too; or fewer boxes that hold
        more.

        Events in two of the boxes count twice: then shares come out too high, never too low. For kernels a test that
        still has several ranges is the one range around them.
        """
        found: list[Box] = []
        for box in self.boxes:
            found += _plain(box)
            if len(found) > _MOST:
                return [Region((hull(self.boxes),))]
        return [Region((box,)) for box in found]


class Chances(NamedTuple):
    """The arrays drawn above, and the announced boxes."""

    start: Int64s
    at: Int64s
    below: Float64s
    null: Float64s
    announced: Boxes
    announcements: int


def chances(
    pool: MergePool, announced: Flat, coordinates: Coordinates, statistics: Statistics
) -> Chances:
    """The chances for all boxes of a pool and any hull of them. `announced` has boxes of plain ranges."""
    if 0 in announced.boxes:  # a region stands alone (see `coordinates`): then every event may come
        announced = coordinates.flatten([Region(((),))])
    store = BoxStore()
    store.append(announced)
    starts, nulls = [0], list[float]()
    places, shares = [np.empty(0, np.int64)], list[float]()
    for attribute, path in enumerate(coordinates.paths()):
        found = statistics.distributions.get(path, statistics.unknown)
        used = np.union1d(pool.numbers_in_use(attribute), store.numbers_in_use(attribute))
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
        store.boxes,
        len(store),
    )


def _plain(piece: Box) -> list[Box]:
    """The same box as boxes with one range for each attribute, where NULL is a range, too; or few that hold it."""
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
