"""The distinct predicates of one attribute, sorted by where they begin and end: what implies what is found by position.

The constants of the predicates cut the values of the attribute into cells, as in a plan; NULL is cell 0, and cell 1 is
what lies below the first constant:

    cells      0    1    2    3    4    5              predicates      low .. high, both included
              NULL    3    5    8    9                 price < 8           1 .. 3
                                                       price = 8           4 .. 4
                                                       price IS NULL       0 .. 0

A predicate that is one run of cells is a *range*. The ranges stand ascending by low, and where that is the same
descending by high: what includes another comes first. So what includes a range stands before its place, what lies in it
stands in a run after its place, and the *immediate* ones are met in one walk each: every one reaches less far (further)
than all that were met before it. Predicates of several runs, as of IN or <>, are *sets*, which have no such order: each
is looked at, and compared run by run if its hull allows it. Ranges in a set are found by position: in one of its runs.

A new constant splits a cell, and the numbers above move up by one; when its last predicate leaves they move down. That
costs a pass over the arrays for each *new* predicate, as does keeping the order; a known predicate costs nothing. Not
the labels of `coordinates`: those don't move, but one boundary of 64 bits has none.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from typing import Any

import numpy as np

from penstock.base.arrays import Int32s, Int64s
from penstock.base.jit import kernel
from penstock.base.labels import Key
from penstock.language.values import Values

_NULL, _FIRST = 0, 1  # cells


class PredicateOrder:
    """Predicates by their variables; they are distinct, and none is empty.

    >>> order = PredicateOrder()
    >>> for variable, above in enumerate([5, 10, 8]):
    ...     order.add(variable, Values(((above + 1, None),)))
    >>> ten = Values(((11, None),))
    >>> sorted(order.implied(ten).tolist()), sorted(order.implying(ten).tolist()), order.holding(7).tolist()
    ([0, 1, 2], [1], [0])
    """

    def __init__(self) -> None:
        self._cuts: list[Any] = []
        self._cut_uses: dict[Key, int] = {}
        self._low = np.empty(0, np.int64)
        self._high = np.empty(0, np.int64)
        self._variable = np.empty(0, np.int32)
        # Set n has the runs set_start[n] .. set_start[n + 1], ascending.
        self._set_variable = np.empty(0, np.int32)
        self._set_start = np.zeros(1, np.int64)
        self._run_low = np.empty(0, np.int64)
        self._run_high = np.empty(0, np.int64)

    def __len__(self) -> int:
        return len(self._low) + len(self._set_variable)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        ranges = 2 * self._low.nbytes + self._variable.nbytes
        return ranges + sum(array.nbytes for array in self._sets())

    def has_sets(self) -> bool:
        """Whether some predicate is more than one run of cells."""
        return len(self._set_variable) > 0

    # --- what implies what -------------------------------------------------------------------------

    def implied(self, values: Values) -> Int32s:
        """The variables that are true wherever the value is among these."""
        found = _around(self._low, self._high, self._variable, *self._hull(values))
        if self.has_sets():
            found = np.concatenate([found, self._sets_around(values)])
        return found

    def implying(self, values: Values) -> Int32s:
        """The variables that are true only where the value is among these."""
        runs = self._runs(values)
        found = [_inside(self._low, self._high, self._variable, low, high) for low, high in runs]
        if self.has_sets():
            found.append(_sets_inside(*self._sets(), np.array(runs)))
        return found[0] if len(found) == 1 else np.concatenate(found)

    def holding(self, key: Key | None) -> Int32s:
        """The variables that are true of one value, given its key; None is NULL."""
        cell = _NULL if key is None else _FIRST + bisect_right(self._cuts, key)
        found = _around(self._low, self._high, self._variable, cell, cell)
        if self.has_sets():
            more = _sets_around(*self._sets(), np.array([[cell, cell]]))
            found = np.concatenate([found, more])
        return found

    def immediate(self, values: Values) -> tuple[set[int], set[int]]:
        """Those among which are all immediate covers of a new predicate, and those of which it may be one.

        They are just these if there are no sets; among sets it takes the table to tell.
        """
        ranges = self._low, self._high, self._variable
        above = set(_narrowest_around(*ranges, *self._hull(values)).tolist())
        runs = self._runs(values)
        below = {v for low, high in runs for v in _widest_inside(*ranges, low, high).tolist()}
        if self.has_sets():
            above.update(self._sets_around(values).tolist())
            below.update(_sets_inside(*self._sets(), np.array(runs)).tolist())
        return above, below

    def _sets(self) -> tuple[Int32s, Int64s, Int64s, Int64s]:
        return self._set_variable, self._set_start, self._run_low, self._run_high

    def _sets_around(self, values: Values) -> Int32s:
        parts = [self._hull(Values((interval,))) for interval in values.intervals]
        if values.null:
            parts.insert(0, (_NULL, _NULL))
        return _sets_around(*self._sets(), np.array(parts))

    # --- cells ---------------------------------------------------------------------------------------

    def _hull(self, values: Values) -> tuple[int, int]:
        """The cells in which values begin and end: what includes them has both."""
        if not values.intervals:
            return _NULL, _NULL
        first, past = values.intervals[0][0], values.intervals[-1][1]
        low = _FIRST if first is None else _FIRST + bisect_right(self._cuts, first)
        high = len(self._cuts) if past is None else bisect_left(self._cuts, past)
        return _NULL if values.null else low, _FIRST + high

    def _runs(self, values: Values) -> list[tuple[int, int]]:
        """The whole cells in each interval, the first of which has NULL if it can: what lies inside lies in one run."""
        runs = []
        for first, past in values.intervals:
            low = _FIRST if first is None else _FIRST + 1 + bisect_left(self._cuts, first)
            runs.append((low, self._last(past)))
        if values.null:
            if runs and runs[0][0] == _FIRST:
                runs[0] = _NULL, runs[0][1]
            else:
                runs.insert(0, (_NULL, _NULL))
        return runs

    def _last(self, past: Any) -> int:
        return _FIRST + len(self._cuts) if past is None else bisect_right(self._cuts, past)

    # --- coming and going ----------------------------------------------------------------------------

    def add(self, variable: int, values: Values) -> None:
        """A predicate that isn't here."""
        for key in _keys(values):
            uses = self._cut_uses.get(key, 0)
            self._cut_uses[key] = uses + 1
            if not uses:
                self._cut(key)
        if _is_range(values):
            low, high = self._hull(values)
            place = self._place(low, high)
            self._low = np.insert(self._low, place, low)
            self._high = np.insert(self._high, place, high)
            self._variable = np.insert(self._variable, place, np.int32(variable))
        else:
            runs = np.array(self._runs(values))
            self._set_variable = np.append(self._set_variable, np.int32(variable))
            self._set_start = np.append(self._set_start, self._set_start[-1] + len(runs))
            self._run_low = np.append(self._run_low, runs[:, 0])
            self._run_high = np.append(self._run_high, runs[:, 1])

    def remove(self, variable: int, values: Values) -> None:
        """Take out a predicate that is here."""
        if _is_range(values):
            place = self._place(*self._hull(values))
            self._low = np.delete(self._low, place)
            self._high = np.delete(self._high, place)
            self._variable = np.delete(self._variable, place)
        else:
            place = int(np.flatnonzero(self._set_variable == variable)[0])
            first, past = self._set_start[place : place + 2].tolist()
            self._set_variable = np.delete(self._set_variable, place)
            self._set_start = np.delete(self._set_start, place)
            self._set_start[place:] -= past - first
            self._run_low = np.delete(self._run_low, slice(first, past))
            self._run_high = np.delete(self._run_high, slice(first, past))
        for key in _keys(values):
            self._cut_uses[key] -= 1
            if not self._cut_uses[key]:
                del self._cut_uses[key]
                self._join(key)

    def _place(self, low: int, high: int) -> int:
        """Where a range stands, or should."""
        first = int(np.searchsorted(self._low, low, "left"))
        past = int(np.searchsorted(self._low, low, "right"))
        return first + int(np.searchsorted(-self._high[first:past], -high, "left"))

    def _cut(self, key: Key) -> None:
        """Split a cell: its lower part keeps the number."""
        cell = _FIRST + bisect_left(self._cuts, key)
        insort(self._cuts, key)
        _move(self._low, self._high, cell + 1, cell, 1)
        _move(self._run_low, self._run_high, cell + 1, cell, 1)

    def _join(self, key: Key) -> None:
        """Make one of the two cells on both sides of a constant."""
        place = bisect_left(self._cuts, key)
        del self._cuts[place]
        above = _FIRST + place + 1
        _move(self._low, self._high, above, above, -1)
        _move(self._run_low, self._run_high, above, above, -1)


def _keys(values: Values) -> Iterator[Key]:
    return (key for interval in values.intervals for key in interval if key is not None)


def _is_range(values: Values) -> bool:
    """Whether it is one run of cells; NULL is next to what has no lower end."""
    several = len(values.intervals)
    if values.null:
        return not several or (several == 1 and values.intervals[0][0] is None)
    return several == 1


@kernel
def _move(lows: Int64s, highs: Int64s, first_low: int, first_high: int, by: int) -> None:
    """Renumber the lows and the highs from a cell on."""
    for i in range(len(lows)):
        if lows[i] >= first_low:
            lows[i] += by
        if highs[i] >= first_high:
            highs[i] += by


# --- walks along the ranges, and over the sets -------------------------------------------------------


@kernel
def _around(lows: Int64s, highs: Int64s, variable: Int32s, low: int, high: int) -> Int32s:
    """The ranges that include low .. high: of those that begin by low, what ends at high or after it."""
    past = np.searchsorted(lows, low, side="right")
    found = np.empty(past, np.int32)
    count = 0
    for i in range(past):
        if highs[i] >= high:
            found[count] = variable[i]
            count += 1
    return found[:count]


@kernel
def _inside(lows: Int64s, highs: Int64s, variable: Int32s, low: int, high: int) -> Int32s:
    """The ranges inside low .. high: of those that begin there, what ends there, too."""
    first = np.searchsorted(lows, low, side="left")
    past = max(first, np.searchsorted(lows, high, side="right"))
    found = np.empty(past - first, np.int32)
    count = 0
    for i in range(first, past):
        if highs[i] <= high:
            found[count] = variable[i]
            count += 1
    return found[:count]


@kernel
def _narrowest_around(lows: Int64s, highs: Int64s, variable: Int32s, low: int, high: int) -> Int32s:
    """Of the ranges that include low .. high those that include no other of them."""
    past = np.searchsorted(lows, low, side="right")
    found = np.empty(past, np.int32)
    count = 0
    best = np.int64(2**62)
    for i in range(past - 1, -1, -1):
        if high <= highs[i] < best:
            best = highs[i]
            found[count] = variable[i]
            count += 1
    return found[:count]


@kernel
def _widest_inside(lows: Int64s, highs: Int64s, variable: Int32s, low: int, high: int) -> Int32s:
    """Of the ranges inside low .. high those that lie in no other of them."""
    first = np.searchsorted(lows, low, side="left")
    past = max(first, np.searchsorted(lows, high, side="right"))
    found = np.empty(past - first, np.int32)
    count = 0
    best = np.int64(-1)
    for i in range(first, past):
        if best < highs[i] <= high:
            best = highs[i]
            found[count] = variable[i]
            count += 1
    return found[:count]


@kernel
def _sets_around(
    variable: Int32s, start: Int64s, run_low: Int64s, run_high: Int64s, parts: Int64s
) -> Int32s:
    """The sets that include all parts, which are rows of low and high, ascending: each part lies in one run."""
    found = np.empty(len(variable), np.int32)
    count = 0
    for n in range(len(variable)):
        i, past = start[n], start[n + 1]
        fits = run_low[i] <= parts[0, 0] and parts[-1, 1] <= run_high[past - 1]
        part = 0
        while fits and part < len(parts):
            low, high = parts[part, 0], parts[part, 1]
            while i < past and run_high[i] < low:
                i += 1
            fits = i < past and run_low[i] <= low and high <= run_high[i]
            part += 1
        if fits:
            found[count] = variable[n]
            count += 1
    return found[:count]


@kernel
def _sets_inside(
    variable: Int32s, start: Int64s, run_low: Int64s, run_high: Int64s, parts: Int64s
) -> Int32s:
    """The sets whose runs lie in one part each; a part may be empty, its low above its high."""
    found = np.empty(len(variable), np.int32)
    count = 0
    for n in range(len(variable)):
        i, past = start[n], start[n + 1]
        fits = parts[0, 0] <= run_low[i] and run_high[past - 1] <= parts[-1, 1]
        part = 0
        while fits and i < past:
            while part < len(parts) and parts[part, 1] < run_low[i]:
                part += 1
            fits = (
                part < len(parts) and parts[part, 0] <= run_low[i] and run_high[i] <= parts[part, 1]
            )
            i += 1
        if fits:
            found[count] = variable[n]
            count += 1
    return found[:count]
