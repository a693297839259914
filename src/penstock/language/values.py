"""Some values of one attribute, whatever its type: intervals of keys, and perhaps NULL.

Keys are those of `language.literals`, integers or bytes that order as the values do. Where the keys of a type begin and
end there is None instead of a key (`factor_values` sees to that): of a boolean, `b` is from 1 on, `NOT b` is below 1,
and the two together are everything but NULL. So the algebra needs no types: a complement is what is left of one endless
line.

Each operation is one walk along both lists of intervals; inclusion is a search for each interval of the smaller one.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from penstock.base.labels import Key
from penstock.language.key_lines import Interval

_Line = Sequence[tuple[Any, Any]]  # intervals; to mypy, the two kinds of keys don't compare
_start = itemgetter(0)


@dataclass(frozen=True, slots=True)
class Values:
    """Some values of one attribute: intervals ascending, disjoint and not touching, and whether NULL is among them."""

    intervals: tuple[Interval, ...]
    null: bool = False

    @staticmethod
    def of(intervals: Iterable[Interval], null: bool = False) -> "Values":
        """Any intervals, in any order, overlapping or empty."""
        return Values(_united(intervals), null)

    @property
    def is_empty(self) -> bool:
        return not (self.intervals or self.null)

    def contains(self, key: Key | None) -> bool:
        """Whether a value is among them, given its key; None is NULL."""
        if key is None:
            return self.null
        at = _last_from(self.intervals, key)
        return at >= 0 and _is_before(key, self.intervals[at][1])

    def intersection(self, other: "Values") -> "Values":
        return Values(_shared(self.intervals, other.intervals), self.null and other.null)

    def complement(self) -> "Values":
        """All other values of the attribute; NULL too, unless it is among these."""
        return Values(_gaps(self.intervals), not self.null)

    def difference(self, other: "Values") -> "Values":
        return Values(_shared(self.intervals, _gaps(other.intervals)), self.null and not other.null)

    def includes(self, other: "Values") -> bool:
        """Whether all the others are among these."""
        if other.null and not self.null:
            return False
        mine: _Line = self.intervals
        others: _Line = other.intervals
        if len(mine) != 1 or len(others) != 1:
            return _includes(mine, others)
        (start, end), (first, last) = mine[0], others[0]
        return (start is None or (first is not None and start <= first)) and (
            end is None or (last is not None and last <= end)
        )

    def meets(self, other: "Values") -> bool:
        """Whether they have a value in common."""
        common = _common(self.intervals, other.intervals)
        return (self.null and other.null) or any(_is_before(*both) for both in common)

    def hull(self) -> "Values":
        """The smallest single interval around them; NULL if it is among them."""
        if len(self.intervals) < 2:
            return self
        return Values(((self.intervals[0][0], self.intervals[-1][1]),), self.null)


EVERYTHING = Values(((None, None),), null=True)
NOT_NULL = Values(((None, None),))
NOTHING = Values(())


def any_of(several: Sequence[Values]) -> Values:
    """The values that at least one of several sets has."""
    if len(several) == 1:
        return several[0]
    intervals = (interval for values in several for interval in values.intervals)
    return Values.of(intervals, any(values.null for values in several))


def all_of(several: Sequence[Values]) -> Values:
    """The values that all sets have. `i <> 1 AND i <> 2 AND …` takes time linear in their number, not its square."""
    if len(several) == 2:
        return several[0].intersection(several[1])
    gaps = (gap for values in several for gap in _gaps(values.intervals))
    return Values.of(gaps, not all(values.null for values in several)).complement()


def _is_before(start: Any, end: Any) -> bool:
    """Whether there is something between a start and an end."""
    return start is None or end is None or bool(start < end)


def _last_from(line: _Line, key: Any, low: int = 0) -> int:
    """Which interval is the last to begin at a key or before it, -1 if none; those before `low` do."""
    if line and line[0][0] is None:
        low = max(low, 1)
    return bisect_right(line, key, low, key=_start) - 1


def _united(intervals: Iterable[tuple[Any, Any]]) -> tuple[Interval, ...]:
    found: list[tuple[Any, Any]] = []
    last: Any = None
    for start, end in sorted(intervals, key=lambda one: (one[0] is not None, one[0])):
        if not _is_before(start, end):
            continue
        if found and (last is None or start is None or start <= last):
            if last is None or (end is not None and end <= last):
                continue
            found[-1] = found[-1][0], end
        else:
            found.append((start, end))
        last = end
    return tuple(found)


def _meeting_place(left: _Line, right: _Line) -> tuple[int, int]:
    """Where to begin a walk along both: what lies below all of the other can be left out."""
    i = j = 0
    if left and right:
        if right[0][0] is not None:
            i = max(_last_from(left, right[0][0]), 0)
        if left[0][0] is not None:
            j = max(_last_from(right, left[0][0]), 0)
    return i, j


def _common(left: _Line, right: _Line) -> Iterator[tuple[Any, Any]]:
    """What each interval has in common with the other line's, ascending.

    Where two don't meet, the end isn't past the start.
    """
    i, j = _meeting_place(left, right)
    while i < len(left) and j < len(right):
        start, end = left[i]
        other_start, other_end = right[j]
        if start is None or (other_start is not None and other_start > start):
            start = other_start
        if end is None or (other_end is not None and other_end < end):
            end = other_end
            j += 1
        else:
            i += 1
        yield start, end


def _shared(left: _Line, right: _Line) -> tuple[Interval, ...]:
    return tuple((start, end) for start, end in _common(left, right) if _is_before(start, end))


def _gaps(line: _Line) -> tuple[Interval, ...]:
    found: list[Interval] = []
    last = None
    for start, end in line:
        if start is not None:
            found.append((last, start))
        if end is None:
            return tuple(found)
        last = end
    return (*found, (last, None))


def _includes(line: _Line, others: _Line) -> bool:
    if not others:
        return True
    if not line:
        return False
    at = 0
    for start, end in others:
        if start is None:
            if line[0][0] is not None:
                return False
        else:
            at = _last_from(line, start, at)
            if at < 0:
                return False
        last = line[at][1]
        if last is not None and (end is None or end > last):
            return False
    return True
