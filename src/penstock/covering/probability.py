"""How likely an event is in a region, and how imperfect a merger is (section 5.3 and 5.4 of the paper).

The boxes of a region overlap, and what matters is their union: each box counts less the boxes before it, in disjoint
pieces. That is exact, and costs no more pieces than covering does. Past the same bound, boxes are taken to be
independent of each other, which lies between the likeliest box and the sum of all.

    degree       of what the merger matches, the share that no part does                             Definition 1
                 the same among the events that some advertisement announces                         Definition 2
    threshold    the chance of the merger times its degree: the share of all events that are let through for nobody

The paper doesn't say whether the chance of the merger is one among all events or among the advertised ones. We take the
advertised ones where there are advertisements: no other events come.

Of doubles a single value has no chance at all. So a merger may be imperfect with a degree of 0: whether it is perfect
is for `regions.covers` to say, not for a probability.
"""

from collections.abc import Iterable, Sequence

from penstock.covering.distributions import Statistics
from penstock.covering.regions import (
    Box,
    Budget,
    OutOfBudgetError,
    Region,
    intersect_boxes,
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
    return _chance(region.boxes, (), statistics)


def imperfect_degree(
    merger: Region,
    parts: Iterable[Region],
    statistics: Statistics,
    advertisements: Sequence[Region] | None = None,
) -> float:
    """Of the events that a merger matches, the share that none of its parts does. 0 if there are no such events.

    >>> from penstock.covering.distributions import Uniform
    >>> from penstock.covering.reading import region
    >>> schema, statistics = {"price": "int"}, Statistics({("price",): Uniform(100, 199)})
    >>> parts = [region(text, schema) for text in ("price > 150", "price = 130", "price = 120")]
    >>> merger, advertised = region("price >= 120", schema), region("price > 150", schema)
    >>> round(imperfect_degree(merger, parts, statistics), 6)
    0.3625
    >>> imperfect_degree(merger, parts, statistics, [advertised])
    0.0
    """
    boxes = _advertised(merger, advertisements)
    whole = _chance(boxes, (), statistics)
    return min(_outside(boxes, parts, statistics) / whole, 1.0) if whole > 0 else 0.0


def merging_threshold(
    merger: Region,
    parts: Iterable[Region],
    statistics: Statistics,
    advertisements: Sequence[Region] | None = None,
) -> float:
    """The paper's IMT of a merger: its probability times its imperfect degree.

    >>> from penstock.covering.distributions import Uniform
    >>> from penstock.covering.reading import region
    >>> schema, statistics = {"i": "int"}, Statistics({("i",): Uniform(0, 9)})
    >>> parts = [region("i = 1", schema), region("i = 4", schema)]
    >>> round(merging_threshold(region("i BETWEEN 1 AND 4", schema), parts, statistics), 6)
    0.2
    """
    outside = _outside(_advertised(merger, advertisements), parts, statistics)
    if advertisements is None or outside <= 0:
        return outside
    advertised = [box for one in advertisements for box in one.boxes]
    return min(outside / _chance(advertised, (), statistics), 1.0)


def _outside(boxes: Sequence[Box], parts: Iterable[Region], statistics: Statistics) -> float:
    """How likely an event is in one of the boxes and in none of the parts."""
    return _chance(boxes, [box for part in parts for box in part.boxes], statistics)


def _advertised(merger: Region, advertisements: Sequence[Region] | None) -> Sequence[Box]:
    """What a merger matches of the events that are announced."""
    if advertisements is None:
        return merger.boxes
    announced = dict.fromkeys(box for one in advertisements for box in one.boxes)
    found = (intersect_boxes(x, y) for x in merger.boxes for y in announced)
    return list(dict.fromkeys(box for box in found if box is not None))


def _chance(boxes: Sequence[Box], without: Sequence[Box], statistics: Statistics) -> float:
    """The chance of an event that is in one of the boxes, and in none of `without`."""
    likely = [(statistics.box(box), box) for box in boxes]
    if len(likely) == 1 and not without:
        return likely[0][0]
    likely = sorted((one for one in likely if one[0] > 0), key=lambda one: -one[0])
    budget = Budget()
    total = 0.0
    try:
        for n, (_, box) in enumerate(likely):
            others = [*without, *(earlier for _, earlier in likely[:n])]
            total += sum(statistics.box(piece) for piece in pieces_outside(box, others, budget))
    except OutOfBudgetError:
        return _independent(boxes, statistics) * (1 - _independent(without, statistics))
    return min(total, 1.0)


def _independent(boxes: Iterable[Box], statistics: Statistics) -> float:
    """The chance of an event that is in one of the boxes, as if one had nothing to do with the other."""
    none = 1.0
    for box in boxes:
        none *= 1 - statistics.box(box)
    return 1 - none
