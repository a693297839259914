"""How likely events are in boxes of numbers: `distributions` for kernels.

    attribute a    at[start[a]] .. at[start[a + 1]], the numbers where some range begins or one ended just before;
                   below[i] is the chance of a number below at[i], NULL included; null[a] that of NULL

Events come from what is *announced*: disjoint boxes. Without advertisements that is one box with no tests, which holds
every event. Kernels see it as boxes of plain ranges, one for each attribute. The mass of a box is the chance that an
event is in it and announced; divided by the mass of all that is announced it is the share of the events that come.
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

_MOST = 256  # boxes of plain ranges; each costs time for every two boxes that might be merged


@dataclass(frozen=True, slots=True)
class Announced:
    """What events may come: boxes, disjoint unless that took too many pieces; () alone if any event may come."""

    boxes: tuple[Box, ...]
    are_disjoint: bool

    @staticmethod
    def of(advertisements: Sequence[Region]) -> "Announced":
        """What is in one of them; every event if there is none."""
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
        """How likely an event is that is announced, or less: of boxes that overlap only the likeliest counts."""
        likely = [statistics.box(box) for box in self.boxes]
        return sum(likely) if self.are_disjoint else max(likely, default=0.0)

    def plain(self) -> list[Region]:
        """The same as boxes with one range for each attribute, NULL being a range; or few that hold more than it.

        What is in two of them counts twice: shares come out too high then, never too low. Where a test still has
        several ranges, kernels take it for all that lies between them.
        """
        found: list[Box] = []
        for box in self.boxes:
            found += _plain(box)
            if len(found) > _MOST:
                return [Region((hull(self.boxes),))]
        return [Region((box,)) for box in found]


class Chances(NamedTuple):
    """The arrays drawn above, and what is announced."""

    start: Int64s
    at: Int64s
    below: Float64s
    null: Float64s
    announced: Boxes
    announcements: int


def chances(
    pool: MergePool, announced: Flat, coordinates: Coordinates, statistics: Statistics
) -> Chances:
    """For all boxes of a pool and for any hull of them; what is announced are boxes of plain ranges."""
    if 0 in announced.boxes:  # has a boundary without a number: then every event may come
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
