"""Thousands of boxes -> groups of boxes that lie together, each of which can become its hull.

It works top down, as ray tracers build their trees: the group that wastes most is cut in two, again and again.
Histograms of the
members' centres say where: for each column, cuts after each of `_BINS` bins are tried, and the one with the least
chance in both hulls is taken. A cut costs one pass over the group, so a million boxes in a thousand groups take some
twenty passes.

It looks only at hulls. Where a cut was in the wrong place, `pairs` may merge the parts again afterwards.
"""

from typing import NamedTuple

import numpy as np

from penstock.base.arrays import Float64s, Int64s
from penstock.base.jit import kernel
from penstock.covering.interest.projection import NOWHERE, Ranges

_BINS = 32


class PlaceChances(NamedTuple):
    """The chance of a value before each place, before[start[c]:start[c + 1]] for column c; and the chance of NULL."""

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
def empty_hulls(count: int, columns: int) -> Ranges:
    """Hulls of no boxes."""
    return Ranges(
        np.full((count, columns), NOWHERE, np.int32),
        np.full((count, columns), -1, np.int32),
        np.zeros((count, columns), np.bool_),
    )


@kernel
def widen(hulls: Ranges, h: int, boxes: Ranges, b: int) -> None:
    """Widen a hull so that it includes a box."""
    for c in range(boxes.low.shape[1]):
        hulls.low[h, c] = min(hulls.low[h, c], boxes.low[b, c])
        hulls.high[h, c] = max(hulls.high[h, c], boxes.high[b, c])
        hulls.null[h, c] |= boxes.null[b, c]


@kernel
def _chance(chances: PlaceChances, boxes: Ranges, b: int) -> float:
    found = 1.0
    for c in range(boxes.low.shape[1]):
        null = chances.null[c] if boxes.null[b, c] else 0.0
        found *= span(chances, c, boxes.low[b, c], boxes.high[b, c]) + null
    return found


@kernel
def pack(boxes: Ranges, chances: PlaceChances, most: int) -> Int64s:
    """Which of `most` groups each box is in: the group that wastes most is cut in two, again and again."""
    rows = len(boxes.low)
    order = np.arange(rows)
    start, past = np.zeros(most, np.int64), np.zeros(most, np.int64)
    waste = np.zeros(most, np.float64)
    past[0], count = rows, 1
    waste[0] = _waste(boxes, chances, order)
    while count < most:
        worst = int(np.argmax(waste[:count]))
        if waste[worst] <= 0.0:
            break
        cut = _cut(boxes, chances, order[start[worst] : past[worst]])
        if cut == 0:
            waste[worst] = 0.0
            continue
        start[count], past[count] = start[worst] + cut, past[worst]
        past[worst] = start[count]
        waste[worst] = _waste(boxes, chances, order[start[worst] : past[worst]])
        waste[count] = _waste(boxes, chances, order[start[count] : past[count]])
        count += 1
    found = np.empty(rows, np.int64)
    for g in range(count):
        for i in range(start[g], past[g]):
            found[order[i]] = g
    return found


@kernel
def _waste(boxes: Ranges, chances: PlaceChances, members: Int64s) -> float:
    """The chance of a group's hull, less that of its likeliest member."""
    hull = empty_hulls(1, boxes.low.shape[1])
    best = 0.0
    for row in members:
        widen(hull, 0, boxes, row)
        best = max(best, _chance(chances, boxes, row))
    return _chance(chances, hull, 0) - best


class _Bins(NamedTuple):
    """Bins of equal width for the centres of boxes in a column; the first begins at `first`."""

    column: int
    first: float
    width: float


@kernel
def _centre(boxes: Ranges, chances: PlaceChances, row: int, c: int) -> float:
    """The centre of a box in a column, as a chance; that of a box without values is below all others."""
    low, high = boxes.low[row, c], boxes.high[row, c]
    if low > high:
        return -1.0
    at = chances.start[c]
    centre: float = (chances.before[at + low] + chances.before[at + high + 1]) / 2
    return centre


@kernel
def _bin(boxes: Ranges, chances: PlaceChances, bins: _Bins, row: int) -> int:
    """The bin that a box is in."""
    if not bins.width > 0.0:
        return 0
    centre = _centre(boxes, chances, row, bins.column)
    return min(int((centre - bins.first) / bins.width), _BINS - 1)


@kernel
def _cut(boxes: Ranges, chances: PlaceChances, members: Int64s) -> int:
    """Order the members of a group in two parts; how many are in the first, 0 if the group can't be cut."""
    best, best_bins, last_bin = np.inf, _Bins(-1, 0.0, 0.0), 0
    for c in range(boxes.low.shape[1]):
        first, last = np.inf, -np.inf
        for row in members:
            centre = _centre(boxes, chances, row, c)
            first, last = min(first, centre), max(last, centre)
        if not first < last:
            continue
        bins = _Bins(c, first, (last - first) / _BINS)
        costs = _costs(boxes, chances, members, bins)
        for b in range(_BINS - 1):
            if costs[b] < best:
                best, best_bins, last_bin = costs[b], bins, b
    if best_bins.column < 0:
        return 0
    i, j = 0, len(members) - 1
    while i <= j:
        row = members[i]
        if _bin(boxes, chances, best_bins, row) <= last_bin:
            i += 1
        else:
            members[i], members[j] = members[j], row
            j -= 1
    return i


@kernel
def _costs(boxes: Ranges, chances: PlaceChances, members: Int64s, bins: _Bins) -> Float64s:
    """The chance of both hulls if the cut comes after each bin; infinite where one part would be empty."""
    columns = boxes.low.shape[1]
    hulls = empty_hulls(_BINS, columns)
    counts = np.zeros(_BINS, np.int64)
    for row in members:
        b = _bin(boxes, chances, bins, row)
        widen(hulls, b, boxes, row)
        counts[b] += 1
    costs = np.zeros(_BINS, np.float64)
    for backwards in (False, True):
        part = empty_hulls(1, columns)
        count = 0
        for step in range(_BINS - 1):
            b = _BINS - 1 - step if backwards else step
            widen(part, 0, hulls, b)
            count += counts[b]
            at = b - 1 if backwards else b
            costs[at] += _chance(chances, part, 0) if count else np.inf
    return costs
