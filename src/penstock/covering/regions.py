"""A filter as the set of events that it matches: a union of boxes, exactly.

    values    of one attribute: half-open intervals of keys, and perhaps NULL
    box       values for some attributes; of the others it asks nothing
    region    a union of boxes

Keys are those of `language.literals`: integers or bytes that order as the values do. All of them are discrete:
integers have neighbours, and the next string after s is s + NUL. So every comparison is a half-open interval, `i > 5`
is the same as `i >= 6`, and inclusion needs no cells, no constants of others, and no case for open ends.

Covering is inclusion of regions. What mbd §2 defines for conjunctions (for each predicate one that it covers) is
`covers_box`. A union may cover a box that none of its boxes does: then the box is taken apart, and it is covered if
nothing is left. That can take exponentially many pieces, so there is a bound; past it `covering` says UNKNOWN and
`covers` says no, which is sound.

An attribute whose name begins with NUL is *hidden*: the truth of a test that is no set of values, or what an operator
answers (see `reading`). It may have no value at all, not even NULL: the operator failed. So all its values together
still aren't everything, and a box that asks for one helps to cover only boxes that ask for it, too. `difference` and
`hull` don't know of failures: what they say holds for events on which no operator fails.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np

from penstock.base.errors import PenstockError
from penstock.covering.values import EVERYTHING, Values, any_of
from penstock.language.calls import Path

__all__ = [
    "EVERYTHING",
    "HIDDEN",
    "MOST_BOXES",
    "Box",
    "Region",
    "TooManyBoxes",
    "Values",
    "Verdict",
    "boxes_meet",
    "covering",
    "covers",
    "covers_box",
    "difference",
    "equal",
    "hull",
    "intersect_boxes",
    "intersection",
    "is_disjoint",
    "remainder",
    "union",
]

Box = tuple[tuple[Path, Values], ...]
"""Ascending by path; none of the values is EVERYTHING or empty."""

HIDDEN = "\0"  # how the first step of a path begins that leads to no attribute of the event
# Of a region that is made of others; the normal form of a filter has at most 1,024.
MOST_BOXES = 2_048
# What boxes may be taken apart into, and comparisons of boxes meanwhile: one more for every 64 intervals of a piece.
MOST_PIECES, MOST_STEPS = 10_000, 250_000
_MANY, _COLUMNS = 32, 16  # boxes from which on arrays pay, and attributes that these are made of


@dataclass(frozen=True, slots=True)
class Region:
    """A union of boxes, none of which lies in another. No box: nothing; the box (): everything."""

    boxes: tuple[Box, ...]


class Verdict(Enum):
    """Whether one region covers another; UNKNOWN if it took too many pieces to tell."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


class TooManyBoxes(PenstockError):
    """A region that has grown beyond `MOST_BOXES`."""

    def __init__(self) -> None:
        super().__init__(
            f"a region of more than {MOST_BOXES:,} boxes: use fewer alternatives, or the hull of some of them"
        )


# --- boxes -------------------------------------------------------------------------------------


def covers_box(a: Box, b: Box) -> bool:
    """Whether every event in b is in a.

    >>> five = ((("i",), Values(((5, 6),))),)
    >>> covers_box((), five), covers_box(five, ())
    (True, False)
    """
    if len(a) > len(b):
        return False
    at, last = 0, len(b)
    for path, values in a:
        while at < last and b[at][0] < path:
            at += 1
        if at == last or b[at][0] != path:
            return False
        mine = b[at][1]
        if mine is not values and not values.includes(mine):
            return False
        at += 1
    return True


def boxes_meet(a: Box, b: Box) -> bool:
    """Whether some event is in both."""
    at, last = 0, len(b)
    for path, values in a:
        while at < last and b[at][0] < path:
            at += 1
        if at == last:
            return True
        if b[at][0] == path and not values.meets(b[at][1]):
            return False
    return True


def intersect_boxes(a: Box, b: Box) -> Box | None:
    """What is in both; None if nothing is."""
    asked = dict(a)
    for path, values in b:
        mine = asked.get(path)
        if mine is not None:
            values = values.intersection(mine)
            if values.is_empty:
                return None
        asked[path] = values
    return _box(asked)


def remainder(a: Box, b: Box) -> list[Box]:
    """What of a isn't in b, where the two meet: disjoint boxes, one for each attribute that b cuts.

    >>> a, b = ((("i",), Values(((0, 9),))),), ((("i",), Values(((3, 5),))), (("j",), Values(((1, None),))))
    >>> for box in remainder(a, b):
    ...     print({".".join(path): (values.intervals, values.null) for path, values in box})
    {'i': (((0, 3), (5, 9)), False)}
    {'i': (((3, 5),), False), 'j': (((None, 1),), True)}
    """
    asked = dict(a)
    found: list[Box] = []
    for path, values in b:
        mine = asked.get(path, EVERYTHING)
        left = mine.difference(values)
        if not left.is_empty:
            found.append(_box({**asked, path: left}))
        asked[path] = mine.intersection(values)
    return found


def hull(boxes: Iterable[Box]) -> Box:
    """The smallest box around at least one box: of every attribute that all ask for, what any of them accepts.

    >>> hull([((("i",), Values(((0, 3),))), (("j",), Values(((1, 2),)))), ((("i",), Values(((7, 9),))),)])
    ((('i',), Values(intervals=((0, 3), (7, 9)), null=False)),)
    """
    gathered: dict[Path, list[Values]] = {}
    count = 0
    for box in boxes:
        count += 1
        for path, values in box:
            gathered.setdefault(path, []).append(values)
    united = {path: any_of(found) for path, found in gathered.items() if len(found) == count}
    return _box({path: values for path, values in united.items() if values != EVERYTHING})


def _box(asked: dict[Path, Values]) -> Box:
    return tuple(sorted(asked.items(), key=_path))


def _path(test: tuple[Path, Values]) -> Path:
    return test[0]


# --- regions -----------------------------------------------------------------------------------


def covers(a: Region, b: Region) -> bool:
    """Whether every event in b is in a. Never a false yes; a false no only where `covering` says UNKNOWN.

    >>> from penstock.covering.reading import region
    >>> whole, parts = (region(text, {"i": "int"}) for text in ("i >= 1", "i BETWEEN 1 AND 5 OR i > 5"))
    >>> covers(parts, whole), covers(region("i > 1", {"i": "int"}), whole)
    (True, False)
    """
    return covering(a, b) is Verdict.YES


def covering(a: Region, b: Region) -> Verdict:
    """Whether every event in b is in a, and whether that is certain."""
    if a.boxes == b.boxes:
        return Verdict.YES
    alone = [box for box in b.boxes if not any(covers_box(x, box) for x in a.boxes)]
    if not alone:
        return Verdict.YES
    if len(a.boxes) < 2:
        return Verdict.NO
    budget = Budget()
    for box in alone:
        near = [x for x in a.boxes if _asks_no_more(x, box)]
        try:
            if next(pieces_outside(box, near, budget), None) is not None:
                return Verdict.NO
        except OutOfBudgetError:
            return Verdict.UNKNOWN
    return Verdict.YES


def equal(a: Region, b: Region) -> bool:
    """Whether the same events are in both; False too where `covering` doesn't know."""
    return a == b or (covers(a, b) and covers(b, a))


def is_disjoint(a: Region, b: Region) -> bool:
    """Whether no event is in both."""
    return not any(boxes_meet(x, y) for x in a.boxes for y in b.boxes)


def intersection(a: Region, b: Region) -> Region:
    """The events in both. TooManyBoxes if it takes too many."""
    return of_boxes(
        box for x in a.boxes for y in b.boxes if (box := intersect_boxes(x, y)) is not None
    )


def union(*regions: Region) -> Region:
    """The events in any of them. TooManyBoxes if it takes too many; for thousands of regions there is `frontier`."""
    return of_boxes(box for region in regions for box in region.boxes)


def difference(a: Region, b: Region) -> Region:
    """The events in a that aren't in b. TooManyBoxes if it takes too many."""
    budget = Budget()
    try:
        return of_boxes(
            piece for box in a.boxes for piece in pieces_outside(box, list(b.boxes), budget)
        )
    except OutOfBudgetError:
        raise TooManyBoxes from None


def of_boxes(boxes: Iterable[Box]) -> Region:
    """The union of boxes, each of which is kept unless it lies in another."""
    distinct: dict[Box, None] = {}
    for box in boxes:
        distinct[box] = None
        if len(distinct) > MOST_BOXES:
            raise TooManyBoxes
    several = list(distinct)
    # No two lie in each other, since they would be equal: each can be judged for itself.
    return Region(
        tuple(
            box
            for box, others in zip(several, _wider(several), strict=True)
            if not any(covers_box(x, box) for x in others)
        )
    )


def _wider(boxes: list[Box]) -> Iterator[list[Box]]:
    """For each box others that may cover it: of the commonest attributes, their values reach as far."""
    if len(boxes) < _MANY:
        for n in range(len(boxes)):
            yield boxes[:n] + boxes[n + 1 :]
        return
    commonest = Counter(path for box in boxes for path, _ in box).most_common(_COLUMNS)
    asked = [dict(box) for box in boxes]
    low = np.empty((len(boxes), len(commonest)), np.int64)
    high = low.copy()
    for column, (path, _) in enumerate(commonest):
        lines = [mine.get(path, EVERYTHING).intervals for mine in asked]
        ends = {end for line in lines if line for end in (line[0][0], line[-1][1])} - {None}
        rank: dict[Any, int] = {end: n for n, end in enumerate(sorted(ends))}  # type: ignore[type-var]
        past = len(rank)
        low[:, column] = [rank.get(line[0][0], -1) if line else past for line in lines]
        high[:, column] = [rank.get(line[-1][1], past) if line else -1 for line in lines]
    for n in range(len(boxes)):
        reach = ((low <= low[n]) & (high >= high[n])).all(axis=1)
        reach[n] = False
        yield [boxes[m] for m in np.flatnonzero(reach)]


# --- taking boxes apart ------------------------------------------------------------------------


class OutOfBudgetError(Exception):
    """Taking boxes apart would go on for too long."""


class Budget:
    """How much longer boxes may be taken apart."""

    def __init__(self) -> None:
        self._pieces = MOST_PIECES
        self._steps = MOST_STEPS

    def spend(self, piece: Box, comparisons: int) -> None:
        """One more piece. OutOfBudgetError if that was the last."""
        self._pieces -= 1
        size = sum(len(values.intervals) for _, values in piece)
        self._steps -= comparisons + comparisons * size // 64
        if self._pieces < 0 or self._steps < 0:
            raise OutOfBudgetError


def pieces_outside(box: Box, others: Sequence[Box], budget: Budget) -> Iterator[Box]:
    """What of a box is in none of the others, in disjoint pieces.

    Others that cut a piece along one attribute only are taken away at once and leave one piece. Of the rest, the one
    that cuts along the fewest is next, and leaves a piece for each. Depth first: whoever asks only whether there is a
    piece gets the first without the work for the rest.
    """
    budget.spend(box, len(others))
    pending = [(box, [x for x in others if boxes_meet(x, box)])]
    while pending:
        piece, near = pending.pop()
        if not near:
            yield piece
            continue
        budget.spend(piece, len(near))
        asked = dict(piece)
        cuts = [_cut(x, asked) for x in near]
        fewest = min(range(len(near)), key=lambda n: len(cuts[n]))
        rest: Sequence[Box]
        if not cuts[fewest]:
            continue
        if len(cuts[fewest]) == 1:
            parts = _trimmed(asked, [cut[0] for cut in cuts if len(cut) == 1])
            rest = [x for x, cut in zip(near, cuts, strict=True) if len(cut) > 1]
        else:
            parts = remainder(piece, near[fewest])
            rest = near[:fewest] + near[fewest + 1 :]
        pending += [(part, [x for x in rest if boxes_meet(x, part)]) for part in parts]


def _cut(box: Box, asked: dict[Path, Values]) -> list[tuple[Path, Values]]:
    """The tests of a box that don't accept all that is asked for."""
    return [test for test in box if not test[1].includes(asked.get(test[0], EVERYTHING))]


def _trimmed(asked: dict[Path, Values], taken: Iterable[tuple[Path, Values]]) -> list[Box]:
    """A box without some values of its attributes; none if nothing is left."""
    gathered: dict[Path, list[Values]] = {}
    for path, values in taken:
        gathered.setdefault(path, []).append(values)
    left = dict(asked)
    for path, several in gathered.items():
        left[path] = asked.get(path, EVERYTHING).difference(any_of(several))
        if left[path].is_empty:
            return []
    return [_box(left)]


def _asks_no_more(a: Box, b: Box) -> bool:
    """Whether a asks for no hidden attribute that b doesn't ask for."""
    asked = [path for path, _ in a if path[0].startswith(HIDDEN)]
    return not asked or {path for path, _ in b}.issuperset(asked)
