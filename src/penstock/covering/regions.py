"""A filter as the set of events that it matches: a union of boxes, exactly.

    values    of one attribute: half-open intervals of keys, and perhaps NULL
    box       values for some attributes; it doesn't test the others
    region    a union of boxes

Keys are those of `language.literals`: integers or bytes that order as the values do. All of them are discrete:
integers have neighbours, and the next string after s is s + NUL. So every comparison is a half-open interval, `i > 5`
is the same as `i >= 6`, and inclusion needs no cells, no constants of other filters, and no case for open ends.

A box covers another (`covers_box`) as mbd §2 defines it for conjunctions: each of its predicates covers one of the
other's. The part of a box outside of others (`pieces_outside`) can consist of exponentially many pieces, so there is a
bound (`Budget`).

An attribute whose name begins with NUL is *hidden*: it is the truth of a test that isn't a set of values, or the answer
of an operator (see `reading`). Where the operator failed, it has no value at all, not even NULL. So a test that accepts
all its values still doesn't accept every event. `hull` and `pieces_outside` ignore failures: their results hold for
events on which no operator fails.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import numpy as np

from penstock.base.errors import PenstockError
from penstock.language.calls import Path
from penstock.language.hidden_attributes import HIDDEN as HIDDEN
from penstock.language.values import EVERYTHING, Values, any_of

Box = tuple[tuple[Path, Values], ...]
"""Ascending by path; none of the values is EVERYTHING or empty."""

# In a region that is made of others; the normal form of a filter has at most 1,024.
MOST_BOXES = 2_048
# Limits on taking boxes apart: the pieces, and the comparisons of boxes, which count once more per 64 intervals.
MOST_PIECES, MOST_STEPS = 10_000, 250_000
_MANY, _COLUMNS = 32, 16  # arrays are faster from so many boxes on; they have so many columns


@dataclass(frozen=True, slots=True)
class Region:
    """A union of boxes, none of which lies in another. No box: nothing; the box (): everything."""

    boxes: tuple[Box, ...]


class TooManyBoxes(PenstockError):
    """A region that has grown beyond `MOST_BOXES`."""

    def __init__(self) -> None:
        super().__init__(
            f"a region of more than {MOST_BOXES:,} boxes: use fewer alternatives, or the hull of some of them"
        )


# --- boxes -------------------------------------------------------------------------------------


def covers_box(a: Box, b: Box) -> bool:
    """Whether every event in b is in a."""
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


def remainder(a: Box, b: Box) -> list[Box]:
    """The part of a that isn't in b, which must meet it: disjoint boxes, one for each attribute along which b cuts
    a."""
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
    """The smallest box around one or more boxes: of every attribute that all of them test, the values any accepts."""
    several = list(boxes)
    gathered = _by_path(test for box in several for test in box)
    united = {path: any_of(f) for path, f in gathered.items() if len(f) == len(several)}
    return _box({path: values for path, values in united.items() if values != EVERYTHING})


def _by_path(tests: Iterable[tuple[Path, Values]]) -> dict[Path, list[Values]]:
    found: dict[Path, list[Values]] = {}
    for path, values in tests:
        found.setdefault(path, []).append(values)
    return found


def _box(asked: dict[Path, Values]) -> Box:
    return tuple(sorted(asked.items(), key=itemgetter(0)))


# --- regions -----------------------------------------------------------------------------------


def is_disjoint(a: Region, b: Region) -> bool:
    """Whether no event is in both."""
    return not any(boxes_meet(x, y) for x in a.boxes for y in b.boxes)


def of_boxes(boxes: Iterable[Box]) -> Region:
    """The union of boxes, each of which is kept unless it lies in another."""
    distinct: dict[Box, None] = {}
    for box in boxes:
        distinct[box] = None
        if len(distinct) > MOST_BOXES:
            raise TooManyBoxes
    several = list(distinct)
    # No two of these lie in each other, since they would be equal: so each can be judged by itself.
    return Region(
        tuple(
            box
            for box, others in zip(several, _wider(several), strict=True)
            if not any(covers_box(x, box) for x in others)
        )
    )


def _wider(boxes: list[Box]) -> Iterator[list[Box]]:
    """For each box the others that may cover it: of the commonest attributes, their values reach as far."""
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
    """How much work is left for taking boxes apart."""

    def __init__(self) -> None:
        self._pieces = MOST_PIECES
        self._steps = MOST_STEPS

    def spend(self, piece: Box, comparisons: int) -> None:
        """Count one more piece. OutOfBudgetError if that is too much."""
        self._pieces -= 1
        size = sum(len(values.intervals) for _, values in piece)
        self._steps -= comparisons + comparisons * size // 64
        if self._pieces < 0 or self._steps < 0:
            raise OutOfBudgetError


def pieces_outside(box: Box, others: Sequence[Box], budget: Budget) -> Iterator[Box]:
    """The part of a box that is in none of the others, in disjoint pieces.

    Others that cut a piece along one attribute only are subtracted together and leave one piece. Otherwise the one that
    cuts along the fewest attributes is subtracted, and leaves a piece for each. The search is depth first: a caller
    that asks only whether there is a piece gets the first without the work for the rest.
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
    """The tests of a box that don't accept all values in `asked`."""
    return [test for test in box if not test[1].includes(asked.get(test[0], EVERYTHING))]


def _trimmed(asked: dict[Path, Values], taken: Iterable[tuple[Path, Values]]) -> list[Box]:
    """A box without some values of its attributes; no box if nothing is left."""
    left = dict(asked)
    for path, several in _by_path(taken).items():
        left[path] = asked.get(path, EVERYTHING).difference(any_of(several))
        if left[path].is_empty:
            return []
    return [_box(left)]
