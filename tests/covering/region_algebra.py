"""Regions as sets of events: exact covering, and the algebra that tests compare with.

A union may cover a box that none of its boxes does: then the box is taken apart, and it is covered if nothing is left.
"""

from penstock.covering.regions import (
    HIDDEN,
    Box,
    Budget,
    OutOfBudgetError,
    Region,
    TooManyBoxes,
    covers_box,
    of_boxes,
    pieces_outside,
)


def covers(a: Region, b: Region) -> bool | None:
    """Whether every event in b is in a; None if it takes too many pieces to tell."""
    alone = [box for box in b.boxes if not any(covers_box(x, box) for x in a.boxes)]
    if not alone or len(a.boxes) < 2:
        return not alone
    budget = Budget()
    try:
        for box in alone:
            near = [x for x in a.boxes if _asks_no_more(x, box)]
            if next(pieces_outside(box, near, budget), None) is not None:
                return False
    except OutOfBudgetError:
        return None
    return True


def equal(a: Region, b: Region) -> bool:
    return bool(a == b or (covers(a, b) and covers(b, a)))


def union(*regions: Region) -> Region:
    return of_boxes(box for region in regions for box in region.boxes)


def intersection(a: Region, b: Region) -> Region:
    return of_boxes(box for x in a.boxes for y in b.boxes if (box := _common(x, y)) is not None)


def difference(a: Region, b: Region) -> Region:
    budget = Budget()
    try:
        return of_boxes(
            piece for box in a.boxes for piece in pieces_outside(box, list(b.boxes), budget)
        )
    except OutOfBudgetError:
        raise TooManyBoxes from None


def _common(a: Box, b: Box) -> Box | None:
    asked = dict(a)
    for path, values in b:
        asked[path] = values.intersection(asked[path]) if path in asked else values
        if asked[path].is_empty:
            return None
    return tuple(sorted(asked.items(), key=lambda test: test[0]))


def _asks_no_more(a: Box, b: Box) -> bool:
    """Whether a asks for no hidden attribute that b doesn't ask for: its operator may fail."""
    return {path for path, _ in b}.issuperset(path for path, _ in a if path[0].startswith(HIDDEN))
