"""Descriptive skylines: who must get a tuple of the base table, said in a few points (section 3.2.1).

The joining tuples of the filtering table have coordinates v ascending. A subscription with a ∈ A is affected if its
range C has some v in it. Four ways to say that with points (x, y), read as "C begins by x and ends at y or later":

    SUB     the ranges of affected subscriptions that have no other affected one in them       fewest covered
    TUP     (v, v) for every v                                                                   no subscriptions needed
    CLU     (v, v) for those next to an anchor                                                   `stabbing`
    CLU+    CLU, but points with no unaffected range between them become one, (last v, first v)

                    C ends
                      │  ░░░░░░┌──      CLU+: instead of three steps one corner, if no selected subscription's range
                      lies │  ░░┌───┘        strictly between two neighbouring v (the triangles are disposable, appendix
                      B) │ ┌──┘
                      └───────── C begins

Two departures, both of which only send less. A point that no selected subscription's range touches is left out of CLU+,
and a message that would have no reader isn't sent at all. For SUB, the affected ones are found by what CLU+ says.

What lies in the gaps depends on the join key alone: it is surveyed once for all tuples of a batch that have the key.

A *run* is the sorted coordinates of the tuples with one join key: these are pure functions of it, of the anchors and of
the tree of rectangles.
"""

from typing import Any

import numpy as np

from penstock.arrays import Int32s, Int64s
from penstock.jit import kernel
from penstock.joins.coordinates import BEYOND, NOWHERE
from penstock.joins.rectangles import all_inside, any_inside
from penstock.joins.runs import distinct_values, first_at_least

SUB, TUP, CLU, CLU_PLUS = range(4)
A, C = 0, 2  # where in a box the range of the base table begins, and that of the filtering table


@kernel
def touched(tree: Any, box: Int64s, d: int, x: int, y: int) -> bool:
    """Whether a rectangle of the box has a range, A or C as d says, that begins by x and ends at y or later."""
    box[d], box[d + 4], box[d + 1], box[d + 5] = NOWHERE, x, y, BEYOND
    return any_inside(tree, box)


@kernel
def in_gap(tree: Any, box: Int64s, d: int, below: int, above: int) -> bool:
    """Whether a rectangle of the box has this range strictly between two coordinates."""
    box[d], box[d + 4], box[d + 1], box[d + 5] = below + 1, BEYOND, NOWHERE, above - 1
    return any_inside(tree, box)


@kernel
def next_to_anchors(v: Int64s, begin: int, end: int, anchors: Int64s, out: Int64s) -> int:
    """Those of the sorted v[begin:end] that are the closest to some anchor on one side. Ascending, distinct."""
    count = 0
    at = 0
    place = begin
    while at < len(anchors):
        place = first_at_least(v, place, end, anchors[at])
        is_between = not (place < end and v[place] == anchors[at])
        if place > begin and is_between and (count == 0 or out[count - 1] != v[place - 1]):
            out[count] = v[place - 1]
            count += 1
        if place == end:
            break
        if count == 0 or out[count - 1] != v[place]:
            out[count] = v[place]
            count += 1
        # Anchors up to v[place] have the same two neighbours.
        at = first_at_least(anchors, at, len(anchors), v[place] + 1)
    return count


@kernel
def merged(
    tree: Any,
    box: Int64s,
    points: Int64s,
    count: int,
    gaps: Any,
    a: int,
    x: Int64s,
    y: Int64s,
    at: int,
) -> int:
    """CLU -> CLU+: write the points to x and y from `at` on; where they end. The box says a ∈ A."""
    begin = 0
    while begin < count:
        end = begin + 1
        while end < count and not _is_occupied(tree, box, gaps, end - 1, points, a):
            end += 1
        if touched(tree, box, C, points[end - 1], points[begin]):
            x[at], y[at] = points[end - 1], points[begin]
            at += 1
        begin = end
    return at


@kernel
def survey(tree: Any, points: Int64s, count: int, gaps: Any) -> None:
    """Who has its C strictly between neighbouring points: for each gap the union of their A, as disjoint ranges.

    Gap i has ranges first[ends[i - 1]:ends[i]]; ends is negative, -1 - where they would end, if there are too many. As
    long as tuples of one join key come, this is asked once for all of them.
    """
    ends, first, last, found = gaps
    corners = tree[8]
    box = np.empty(8, np.int64)
    box[:4], box[4:] = NOWHERE, BEYOND
    at = 0
    for i in range(count - 1):
        box[2], box[7] = points[i] + 1, points[i + 1] - 1
        inside = 0
        if box[2] <= box[7]:
            inside = all_inside(tree, box, found, 0, len(found))
        if inside > len(found) or at + inside > len(first):
            ends[i] = -1 - at
            continue
        order = np.argsort(corners[found[:inside], 0])
        begin = at
        for j in order:
            r = found[j]
            if at > begin and corners[r, 0] <= last[at - 1]:
                last[at - 1] = max(last[at - 1], corners[r, 1])
            else:
                first[at], last[at] = corners[r, 0], corners[r, 1]
                at += 1
        ends[i] = at


@kernel
def _is_occupied(tree: Any, box: Int64s, gaps: Any, i: int, points: Int64s, a: int) -> bool:
    """Whether a selected subscription has its C inside a gap."""
    ends, first, last, _ = gaps
    if ends[i] < 0:
        return in_gap(tree, box, C, points[i], points[i + 1])
    begin = 0
    if i:
        begin = ends[i - 1] if ends[i - 1] >= 0 else -1 - ends[i - 1]
    place = first_at_least(last, begin, ends[i], a)
    return bool(place < ends[i] and first[place] <= a)


@kernel
def _smallest(
    tree: Any, box: Int64s, x: Int64s, y: Int64s, begin: int, end: int, found: Int32s
) -> tuple[int, int]:
    """CLU+ -> SUB, in place from `begin` on; where it ends, and how many were affected. -1: there is no room."""
    corners = tree[8]
    count = 0
    for i in range(begin, end):
        box[2], box[6], box[3], box[7] = NOWHERE, x[i], y[i], BEYOND
        count = all_inside(tree, box, found, count)
    if count > len(found):
        return begin, count
    order = np.argsort(-corners[found[:count], 2])
    at = begin
    lowest = BEYOND
    i = 0
    while i < count:
        first = corners[found[order[i]], 2]
        last = corners[found[order[i]], 3]
        while i < count and corners[found[order[i]], 2] == first:
            last = min(last, corners[found[order[i]], 3])
            i += 1
        if at == begin or last < lowest:
            if at == len(x):
                return begin, -1
            x[at], y[at] = first, last
            at += 1
            lowest = last
    return at, count


@kernel
def _candidates(
    flavour: int, anchors: Int64s, v: Int64s, begin: int, end: int, points: Int64s
) -> int:
    """Which joining tuples may have a point."""
    if flavour != TUP:
        return next_to_anchors(v, begin, end, anchors, points)
    return distinct_values(v, begin, end, points)


@kernel
def _describe(
    flavour: int, tree: Any, points: Int64s, count: int, gaps: Any, a: int, x: Int64s, y: Int64s, at: int,
    found: Int32s,
) -> int:  # fmt: skip
    """The skyline for a tuple with coordinate a, from `at` on; where it ends. -1: there isn't room enough.

    Where it begins: nobody is affected.
    """
    box = np.empty(8, np.int64)
    box[0], box[4], box[1], box[5] = NOWHERE, a, a, BEYOND
    if count == 0 or not touched(tree, box, C, points[count - 1], points[0]):
        return at
    if flavour in (CLU_PLUS, SUB):
        last = merged(tree, box, points, count, gaps, a, x, y, at)
        if flavour == SUB:
            last, affected = _smallest(tree, box, x, y, at, last, found)
            return -1 if affected > len(found) or affected < 0 else last
        return last
    has_readers = False
    for i in range(count):
        x[at + i], y[at + i] = points[i], points[i]
        has_readers = has_readers or touched(tree, box, C, points[i], points[i])
    return at + count if has_readers else at


@kernel
def describe_all(
    flavour: int, tree: Any, anchors: Int64s, runs: Any, keys: Int64s, a: Int64s, first: int,
    ends: Int64s, x: Int64s, y: Int64s, points: Int64s, gaps: Any, found: Int32s,
) -> int:  # fmt: skip
    """The skylines of tuples (join key, coordinate) from the first on, as long as there is room; which one is next.

    The points of tuple i end at ends[i]: no points, no message. Best with those of a join key one after the other.
    """
    start, length, v, _ = runs
    at = int(ends[first - 1]) if first else 0
    known, count = np.int64(-1), 0
    for i in range(first, len(keys)):
        key = keys[i]
        last = at
        if 0 <= key < len(start) and length[key]:
            if at + 2 * length[key] > len(x):
                return i
            if key != known:
                known = key
                begin, end = start[key], start[key] + length[key]
                count = _candidates(flavour, anchors, v, begin, end, points)
                if flavour in (CLU_PLUS, SUB):
                    survey(tree, points, count, gaps)
            last = _describe(flavour, tree, points, count, gaps, a[i], x, y, at, found)
            if last < 0:
                return i
        at = last
        ends[i] = at
    return len(keys)
