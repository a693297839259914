"""How likely an event is in a region (mbd §5.3).

The boxes of a region overlap, and what matters is their union: each box counts less the boxes before it, in disjoint
pieces. That is exact, and costs no more pieces than covering does. Past the same bound, boxes are taken to be
independent of each other, which lies between the likeliest box and the sum of all.
"""

from collections.abc import Iterable, Sequence

from penstock.covering.distributions import Statistics
from penstock.covering.regions import (
    Box,
    Budget,
    OutOfBudgetError,
    Region,
    pieces_outside,
)


def probability(region: Region, statistics: Statistics) -> float:
    """The chance that an event is in a region.

    >>> from penstock.covering.distributions import Uniform
    >>> from penstock.covering.reading import region
    >>> schema, even = {"i": "int", "j": "int"}, Uniform(0, 9)
    >>> round(probability(region("i < 5 OR j < 5", schema), Statistics({("i",): even, ("j",): even})), 6)
    0.75
    """
    return _chance(region.boxes, statistics)


def _chance(boxes: Sequence[Box], statistics: Statistics) -> float:
    """The chance of an event that is in one of the boxes."""
    likely = [(statistics.box(box), box) for box in boxes]
    if len(likely) == 1:
        return likely[0][0]
    likely = sorted((one for one in likely if one[0] > 0), key=lambda one: -one[0])
    budget = Budget()
    total = 0.0
    try:
        for n, (_, box) in enumerate(likely):
            others = [earlier for _, earlier in likely[:n]]
            total += sum(statistics.box(piece) for piece in pieces_outside(box, others, budget))
    except OutOfBudgetError:
        return _independent(boxes, statistics)
    return min(total, 1.0)


def _independent(boxes: Iterable[Box], statistics: Statistics) -> float:
    """The chance of an event that is in one of the boxes, as if one had nothing to do with the other."""
    none = 1.0
    for box in boxes:
        none *= 1 - statistics.box(box)
    return 1 - none
