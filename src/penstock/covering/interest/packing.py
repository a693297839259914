"""Thousands of boxes -> groups of boxes that lie together, each of which can become its hull.

Top down, as ray tracers build their trees: the group that wastes most is cut in two, again and again. Where, histograms
of the members' centres say: for each column, cuts after each of `_BINS` bins, and the cut with the least chance in both
hulls is taken. A cut costs one pass over the group, so a million boxes in a thousand groups take some twenty passes.

It only ever looks at hulls; the pairs that `pairs` merges afterwards mend what was cut in the wrong place.
"""

from typing import NamedTuple

import numpy as np

from penstock.base.arrays import Bools, Float64s, Int32s, Int64s
from penstock.base.jit import kernel
from penstock.covering.interest.projection import NOWHERE

_BINS = 32


class PlaceChances(NamedTuple):
    """How likely a value is before each place: column c has before[start[c]:start[c + 1]]; and how likely NULL."""

    start: Int64s
    before: Float64s
    null: Float64s


@kernel
def span(chances: PlaceChances, c: int, low: int, high: int) -> float:
    """The chance of a range of places."""
    if low > high:
        return 0.0
    at = chances.start[c]
    span: float = chances.before[at + high + 1] - chances.before[at + low]
    return span


@kernel
def chance(chances: PlaceChances, low: Int32s, high: Int32s, null: Bools) -> float:
    """The chance of a hull."""
    found = 1.0
    for c in range(len(low)):
        found *= span(chances, c, low[c], high[c]) + (chances.null[c] if null[c] else 0.0)
    return found


@kernel
def widen(
    bottom: Int32s, top: Int32s, nulls: Bools, low: Int32s, high: Int32s, null: Bools
) -> None:
    for c in range(len(low)):
        bottom[c] = min(bottom[c], low[c])
        top[c] = max(top[c], high[c])
        nulls[c] |= null[c]


@kernel
def pack(low: Int32s, high: Int32s, null: Bools, chances: PlaceChances, most: int) -> Int64s:
    """Which of `most` groups each box is in: the group that wastes most is cut in two, again and again."""
    rows = len(low)
    order = np.arange(rows)
    start, past = np.zeros(most, np.int64), np.zeros(most, np.int64)
    waste = np.zeros(most, np.float64)
    past[0], count = rows, 1
    waste[0] = _waste(low, high, null, chances, order)
    while count < most:
        worst = int(np.argmax(waste[:count]))
        if waste[worst] <= 0.0:
            break
        members = order[start[worst] : past[worst]]
        cut = _cut(low, high, null, chances, members)
        if cut == 0:
            waste[worst] = 0.0
            continue
        start[count], past[count] = start[worst] + cut, past[worst]
        past[worst] = start[count]
        waste[worst] = _waste(low, high, null, chances, order[start[worst] : past[worst]])
        waste[count] = _waste(low, high, null, chances, order[start[count] : past[count]])
        count += 1
    found = np.empty(rows, np.int64)
    for g in range(count):
        for i in range(start[g], past[g]):
            found[order[i]] = g
    return found


@kernel
def _waste(low: Int32s, high: Int32s, null: Bools, chances: PlaceChances, members: Int64s) -> float:
    """The chance of a group's hull, less that of its likeliest member."""
    columns = low.shape[1]
    bottom, top = np.full(columns, NOWHERE, np.int32), np.full(columns, -1, np.int32)
    nulls = np.zeros(columns, np.bool_)
    best = 0.0
    for row in members:
        widen(bottom, top, nulls, low[row], high[row], null[row])
        best = max(best, chance(chances, low[row], high[row], null[row]))
    return chance(chances, bottom, top, nulls) - best


@kernel
def _centre(chances: PlaceChances, low: Int32s, high: Int32s, c: int) -> float:
    """Where a box lies in a column, as a chance; those without values below all."""
    if low[c] > high[c]:
        return -1.0
    at = chances.start[c]
    centre: float = (chances.before[at + low[c]] + chances.before[at + high[c] + 1]) / 2
    return centre


@kernel
def _cut(low: Int32s, high: Int32s, null: Bools, chances: PlaceChances, members: Int64s) -> int:
    """Put the members of a group into two parts, and say how many are in the first; 0 if there is no way to."""
    columns = low.shape[1]
    best, best_column, best_bin, best_first, best_width = np.inf, -1, 0, 0.0, 0.0
    for c in range(columns):
        first, last = np.inf, -np.inf
        for row in members:
            centre = _centre(chances, low[row], high[row], c)
            first, last = min(first, centre), max(last, centre)
        if not first < last:
            continue
        width = (last - first) / _BINS
        costs = _costs(low, high, null, chances, members, c, first, width)
        for b in range(_BINS - 1):
            if costs[b] < best:
                best, best_column, best_bin, best_first, best_width = costs[b], c, b, first, width
    if best_column < 0:
        return 0
    return _parted(low, high, chances, members, best_column, best_first, best_width, best_bin)


@kernel
def _bin(centre: float, first: float, width: float) -> int:
    return min(int((centre - first) / width), _BINS - 1) if width > 0.0 else 0


@kernel
def _costs(
    low: Int32s,
    high: Int32s,
    null: Bools,
    chances: PlaceChances,
    members: Int64s,
    c: int,
    first: float,
    width: float,
) -> Float64s:
    """The chance of both hulls if the cut comes after each bin; infinite where one part would be empty."""
    columns = low.shape[1]
    bottom = np.full((_BINS, columns), NOWHERE, np.int32)
    top = np.full((_BINS, columns), -1, np.int32)
    nulls = np.zeros((_BINS, columns), np.bool_)
    counts = np.zeros(_BINS, np.int64)
    for row in members:
        b = _bin(_centre(chances, low[row], high[row], c), first, width)
        widen(bottom[b], top[b], nulls[b], low[row], high[row], null[row])
        counts[b] += 1
    costs = np.zeros(_BINS, np.float64)
    for backwards in (False, True):
        below, above = np.full(columns, NOWHERE, np.int32), np.full(columns, -1, np.int32)
        some = np.zeros(columns, np.bool_)
        count = 0
        for step in range(_BINS - 1):
            b = _BINS - 1 - step if backwards else step
            widen(below, above, some, bottom[b], top[b], nulls[b])
            count += counts[b]
            at = b - 1 if backwards else b
            costs[at] += chance(chances, below, above, some) if count else np.inf
    return costs


@kernel
def _parted(
    low: Int32s,
    high: Int32s,
    chances: PlaceChances,
    members: Int64s,
    c: int,
    first: float,
    width: float,
    last_bin: int,
) -> int:
    i, j = 0, len(members) - 1
    while i <= j:
        row = members[i]
        if _bin(_centre(chances, low[row], high[row], c), first, width) <= last_bin:
            i += 1
        else:
            members[i], members[j] = members[j], row
            j -= 1
    return i
