"""Groups of boxes, merged two at a time: the two whose merger adds least (mbd §5.2 and §5.3).

mbd merges while a threshold isn't reached; here the goal is a number of groups.

A group accepts in each column a range of places, or at most `MOST_POINTS` single values, and NULL or not. A merger of
two accepts in each column what either does, and everything between unless that is a list of points. It is *perfect* if
one
of the two covers the other, or if they differ in one column only and nothing lies between them there: `s = 'A' AND p >
5` and
`s = 'B' AND p > 5` are `s IN ('A', 'B') AND p > 5`. Perfect mergers are always made, except those with long lists. Any
other merger adds its own chance less that of the two, exactly, as if there were no other group: the IMT of mbd §5.3.

For every group the best partner is remembered. A merger changes the cost of groups whose partner was one of its parts.
If the cost rises, the old one is kept as a lower bound, and a new partner is looked for only when the group comes up as
the cheapest.
"""

from typing import NamedTuple

import numpy as np

from penstock.base.arrays import Bools, Float64s, Int32s, Int64s
from penstock.base.jit import kernel
from penstock.covering.interest.packing import PlaceChances, empty_hulls, span, widen
from penstock.covering.interest.projection import NOWHERE, PlacedColumn, Projection, Ranges
from penstock.covering.interest.wording import MOST_POINTS
from penstock.covering.regions import Box
from penstock.language.values import EVERYTHING, Values

_SHORT = 10  # points of a list that Spark pushes down one by one
_TINY = 1e-9
_BEST = -2.0  # no merger costs less


class Groups(NamedTuple):
    """Groups of boxes. Column c of group g: the hull, and its points if there are at most `MOST_POINTS`.

    points[g, c, :listed[g, c]] ascend; if listed[g, c] is MOST_POINTS + 1, all of the hull is accepted.
    """

    low: Int32s
    high: Int32s
    null: Bools
    listed: Int32s
    points: Int32s


def groups_of(boxes: Projection, group: Int64s) -> Groups:
    """The groups of boxes, where `group` says which one each box is in."""
    columns = boxes.columns
    is_point = np.zeros((len(columns), max(len(column.cell) for column in columns)), np.bool_)
    for c, column in enumerate(columns):
        is_point[c, : len(column.cell)] = column.is_point
    return _gathered(boxes.ranges, group, is_point)


@kernel
def _gathered(boxes: Ranges, group: Int64s, is_point: Bools) -> Groups:
    total, columns = group.max() + 1, len(is_point)
    hulls = empty_hulls(total, columns)
    listed = np.zeros((total, columns), np.int32)
    points = np.zeros((total, columns, MOST_POINTS), np.int32)
    found = Groups(hulls.low, hulls.high, hulls.null, listed, points)
    for row in range(len(boxes.low)):
        g = group[row]
        widen(hulls, g, boxes, row)
        for c in range(columns):
            low, high = boxes.low[row, c], boxes.high[row, c]
            count = max(high - low + 1, 0)
            if count > MOST_POINTS or not is_point[c, low : low + count].all():
                listed[g, c] = MOST_POINTS + 1
            elif listed[g, c] <= MOST_POINTS:
                _add(found, g, c, np.arange(low, low + count).astype(np.int32))
    return found


@kernel
def _add(groups: Groups, g: int, c: int, more: Int32s) -> None:
    """Add points to a column of a group. If they are too many, all of the hull is accepted."""
    mine = groups.points[g, c, : groups.listed[g, c]].copy()
    i, j, count = 0, 0, 0
    while i < len(mine) or j < len(more):
        if count == MOST_POINTS:
            groups.listed[g, c] = MOST_POINTS + 1
            return
        if j == len(more) or (i < len(mine) and mine[i] <= more[j]):
            point = mine[i]
            if j < len(more) and more[j] == point:
                j += 1
            i += 1
        else:
            point = more[j]
            j += 1
        groups.points[g, c, count] = point
        count += 1
    groups.listed[g, c] = count


@kernel
def _united_in(
    groups: Groups, chances: PlaceChances, a: int, b: int, c: int
) -> tuple[float, float]:
    """For one column, the chance of a value that the merger of two groups accepts, and of one that both accept."""
    null_a, null_b = groups.null[a, c], groups.null[b, c]
    either = chances.null[c] if null_a or null_b else 0.0
    both = chances.null[c] if null_a and null_b else 0.0
    low_a, high_a = groups.low[a, c], groups.high[a, c]
    low_b, high_b = groups.low[b, c], groups.high[b, c]
    hull = either + span(chances, c, min(low_a, low_b), max(high_a, high_b))
    count_a, count_b = groups.listed[a, c], groups.listed[b, c]
    if count_a > MOST_POINTS and count_b > MOST_POINTS:
        return hull, both + span(chances, c, max(low_a, low_b), min(high_a, high_b))
    if count_a > MOST_POINTS or count_b > MOST_POINTS:
        wide, few_ = (a, b) if count_a > MOST_POINTS else (b, a)
        for n in range(groups.listed[few_, c]):
            point = groups.points[few_, c, n]
            if groups.low[wide, c] <= point <= groups.high[wide, c]:
                both += span(chances, c, point, point)
        return hull, both
    i, j, count = 0, 0, 0
    while i < count_a or j < count_b:
        x = groups.points[a, c, i] if i < count_a else NOWHERE
        y = groups.points[b, c, j] if j < count_b else NOWHERE
        point = min(x, y)
        chance = span(chances, c, point, point)
        either += chance
        count += 1
        if x == y:
            both += chance
        i += x == point
        j += y == point
    return either if count <= MOST_POINTS else hull, both


@kernel
def _includes(groups: Groups, a: int, b: int, c: int) -> bool:
    """Whether a accepts everything in a column that b does."""
    if groups.null[b, c] and not groups.null[a, c]:
        return False
    if groups.low[b, c] > groups.high[b, c]:
        return True
    if groups.low[b, c] < groups.low[a, c] or groups.high[b, c] > groups.high[a, c]:
        return False
    if groups.listed[a, c] > MOST_POINTS:
        return True
    if groups.listed[b, c] > MOST_POINTS:
        return False
    i = 0
    for n in range(groups.listed[b, c]):
        while i < groups.listed[a, c] and groups.points[a, c, i] < groups.points[b, c, n]:
            i += 1
        if i == groups.listed[a, c] or groups.points[a, c, i] != groups.points[b, c, n]:
            return False
    return True


@kernel
def _joins(groups: Groups, a: int, b: int, c: int) -> bool:
    """Whether the merger accepts nothing in a column that neither of the two does."""
    if groups.low[a, c] > groups.high[a, c] or groups.low[b, c] > groups.high[b, c]:
        return True
    if groups.listed[a, c] <= MOST_POINTS and groups.listed[b, c] <= MOST_POINTS:
        return bool(groups.listed[a, c] + groups.listed[b, c] <= MOST_POINTS)
    if groups.listed[a, c] <= MOST_POINTS or groups.listed[b, c] <= MOST_POINTS:
        wide, few_ = (a, b) if groups.listed[a, c] > MOST_POINTS else (b, a)
        # Points within the range, and perhaps one beside it.
        low, high = groups.low[wide, c], groups.high[wide, c]
        for n in range(groups.listed[few_, c]):
            point = groups.points[few_, c, n]
            if low - 1 <= point <= high + 1:
                high = max(high, point)
            else:
                return False
        return True
    touching: bool = (
        max(groups.low[a, c], groups.low[b, c]) <= min(groups.high[a, c], groups.high[b, c]) + 1
    )
    return touching


@kernel
def _added(groups: Groups, chances: PlaceChances, sizes: Float64s, a: int, b: int) -> float:
    """The chance that the merger of two groups adds; below 0 if it is perfect and made in any case."""
    differing, column = 0, 0
    a_covers, b_covers = True, True
    for c in range(groups.low.shape[1]):
        a_includes, b_includes = _includes(groups, a, b, c), _includes(groups, b, a, c)
        if not (a_includes and b_includes):
            differing += 1
            column = c
        a_covers = a_covers and a_includes
        b_covers = b_covers and b_includes
    if a_covers or b_covers:
        return _BEST
    if differing == 1 and _joins(groups, a, b, column):
        return _of_joining(groups, chances, a, b, column)
    either, both = 1.0, 1.0
    for c in range(groups.low.shape[1]):
        one, two = _united_in(groups, chances, a, b, c)
        either *= one
        both *= two
    added: float = max(either - (sizes[a] + sizes[b] - both), 0.0)
    return added


@kernel
def _of_joining(groups: Groups, chances: PlaceChances, a: int, b: int, c: int) -> float:
    """The cost of a perfect merger: below 0 if it joins ranges or makes a short list.

    Sources treat a long list as the range around it, so long lists wait until there are too many groups. Of lists,
    those
    of near values come first.
    """
    count = groups.listed[a, c] + groups.listed[b, c]
    if count > MOST_POINTS:
        return _BEST
    low, high = min(groups.low[a, c], groups.low[b, c]), max(groups.high[a, c], groups.high[b, c])
    width = span(chances, c, low, high)
    return _BEST + width if count <= _SHORT else width * _TINY


@kernel
def _size(groups: Groups, chances: PlaceChances, g: int) -> float:
    """The chance of the events that a group accepts."""
    found: float = 1.0
    for c in range(groups.low.shape[1]):
        found *= _united_in(groups, chances, g, g, c)[1]
    return found


@kernel
def _nearest(
    groups: Groups, chances: PlaceChances, sizes: Float64s, live: Bools, g: int
) -> tuple[int, float]:
    """The group whose merger with g adds least."""
    best, found = -1, np.inf
    for other in range(len(live)):
        if live[other] and other != g:
            added = _added(groups, chances, sizes, g, other)
            if added < found:
                best, found = other, added
                if added <= _BEST:
                    break
    return best, found


@kernel
def _join(groups: Groups, a: int, b: int) -> None:
    """Make group a the merger of two."""
    for c in range(groups.low.shape[1]):
        if groups.listed[a, c] > MOST_POINTS or groups.listed[b, c] > MOST_POINTS:
            groups.listed[a, c] = MOST_POINTS + 1
        else:
            _add(groups, a, c, groups.points[b, c, : groups.listed[b, c]])
    hulls = Ranges(groups.low, groups.high, groups.null)
    widen(hulls, a, hulls, b)


@kernel
def merge(groups: Groups, chances: PlaceChances, most: int) -> Int64s:
    """Merge the two that add least, until there are few enough and no perfect merger is left; the groups then."""
    total = len(groups.low)
    live = np.ones(total, np.bool_)
    sizes = np.empty(total)
    for g in range(total):
        sizes[g] = _size(groups, chances, g)
    partner, cost = np.full(total, -1, np.int64), np.full(total, np.inf)
    for g in range(total):
        for other in range(g):
            added = _added(groups, chances, sizes, g, other)
            for one, two in ((g, other), (other, g)):
                if added < cost[one]:
                    partner[one], cost[one] = two, added
    count = total
    while count > 1:
        a = int(np.argmin(cost))
        if cost[a] >= 0 and count <= most:
            break
        b = partner[a]
        if b < 0:
            partner[a], cost[a] = _nearest(groups, chances, sizes, live, a)
            continue
        _join(groups, a, b)
        live[b], cost[b], partner[b] = False, np.inf, -1
        sizes[a] = _size(groups, chances, a)
        count -= 1
        cost[a] = np.inf
        for g in range(total):
            if not live[g] or g == a:
                continue
            added = _added(groups, chances, sizes, g, a)
            if added < cost[a]:
                partner[a], cost[a] = g, added
            if added <= cost[g]:
                partner[g], cost[g] = a, added
            elif partner[g] == a or partner[g] == b:
                partner[g] = -1
    return np.flatnonzero(live)


def decode_box(columns: tuple[PlacedColumn, ...], groups: Groups, g: int) -> Box:
    """A group as a box of values."""
    tests = []
    for c, column in enumerate(columns):
        count, null = int(groups.listed[g, c]), bool(groups.null[g, c])
        if groups.low[g, c] > groups.high[g, c]:
            values = Values((), null)
        elif count > MOST_POINTS:
            found = column.values(int(groups.low[g, c]), int(groups.high[g, c]))
            values = Values(found.intervals, null)
        else:
            values = column.values_at(groups.points[g, c, :count], null)
        if values != EVERYTHING:
            tests.append((column.path, values))
    return tuple(sorted(tests, key=lambda test: test[0]))
