"""Descriptive skylines: who must get a tuple of the base table, said in a few points (section 3.2.1).

The joining tuples of the filtering table have coordinates v ascending. A subscription with a ∈ A is affected if its range
C has some v in it. Four ways to say that with points (x, y), read as "C begins by x and ends at y or later":

    SUB     the ranges of affected subscriptions that have no other affected one in them       fewest covered
    TUP     (v, v) for every v                                                                   no subscriptions needed
    CLU     (v, v) for those next to an anchor                                                   `stabbing`
    CLU+    CLU, but points with no unaffected range between them become one, (last v, first v)

                    C ends
                      │  ░░░░░░┌──      CLU+: instead of three steps one corner, if no selected subscription's range lies
                      │  ░░┌───┘        strictly between two neighbouring v (the triangles are disposable, appendix B)
                      │ ┌──┘
                      └───────── C begins

Two departures, both of which only send less. A point that no selected subscription's range touches is left out of CLU+,
and a message that would have no reader isn't sent at all. For SUB, the affected ones are found by what CLU+ says.

A *run* is the sorted coordinates of the tuples with one join key: these are pure functions of it, of the anchors and of
the tree of rectangles.
"""

from typing import Any

import numpy as np

from penstock.arrays import Int32s, Int64s
from penstock.jit import kernel
from penstock.joins.coordinates import BEYOND, NOWHERE
from penstock.joins.rectangles import all_inside, any_inside
from penstock.joins.runs import first_at_least

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
        if place > begin and (count == 0 or out[count - 1] != v[place - 1]):
            if not (place < end and v[place] == anchors[at]):
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
    tree: Any, box: Int64s, d: int, points: Int64s, count: int, x: Int64s, y: Int64s, at: int
) -> int:
    """CLU -> CLU+: write the points to x and y from `at` on; where they end.

    The box says what is selected, d which range the points are about.
    """
    begin = 0
    while begin < count:
        end = begin + 1
        while end < count and not in_gap(tree, box, d, points[end - 1], points[end]):
            end += 1
        if touched(tree, box, d, points[end - 1], points[begin]):
            x[at], y[at] = points[end - 1], points[begin]
            at += 1
        begin = end
    return at


@kernel
def _smallest(
    tree: Any, box: Int64s, x: Int64s, y: Int64s, begin: int, end: int, found: Int32s
) -> tuple[int, int]:
    """CLU+ -> SUB, in place from `begin` on; where it ends, and how many were affected (if more than fit, just that)."""
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
def describe(
    flavour: int, tree: Any, anchors: Int64s, v: Int64s, begin: int, end: int, a: int,
    x: Int64s, y: Int64s, at: int, scratch: Int64s, found: Int32s,
) -> int:  # fmt: skip
    """The skyline for a tuple with coordinate a and joining tuples v[begin:end], from `at` on; where it ends.

    Where it begins: nobody is affected. -1: `found` has to be larger. x and y have room for twice the tuples.
    """
    box = np.empty(8, np.int64)
    box[0], box[4], box[1], box[5] = NOWHERE, a, a, BEYOND
    if begin == end or not touched(tree, box, C, v[end - 1], v[begin]):
        return at
    if flavour == TUP:
        count = 0
        for place in range(begin, end):
            if count == 0 or scratch[count - 1] != v[place]:
                scratch[count] = v[place]
                count += 1
    else:
        count = next_to_anchors(v, begin, end, anchors, scratch)
    if flavour == CLU_PLUS:
        return merged(tree, box, C, scratch, count, x, y, at)
    if flavour == SUB:
        last = merged(tree, box, C, scratch, count, x, y, at)
        last, affected = _smallest(tree, box, x, y, at, last, found)
        return -1 if affected > len(found) or affected < 0 else last
    has_readers = False
    for i in range(count):
        x[at + i], y[at + i] = scratch[i], scratch[i]
        has_readers = has_readers or touched(tree, box, C, scratch[i], scratch[i])
    return at + count if has_readers else at


@kernel
def describe_all(
    flavour: int, tree: Any, anchors: Int64s, runs: Any, keys: Int64s, a: Int64s, first: int,
    ends: Int64s, x: Int64s, y: Int64s, scratch: Int64s, found: Int32s,
) -> int:  # fmt: skip
    """The skylines of tuples (join key, coordinate) from the first on, as long as there is room; which one is next.

    The points of tuple i end at ends[i]: no points, no message.
    """
    start, length, v, _ = runs
    at = ends[first - 1] if first else np.int64(0)
    for i in range(first, len(keys)):
        key = keys[i]
        last = at
        if 0 <= key < len(start) and length[key]:
            begin, end = start[key], start[key] + length[key]
            if at + 2 * length[key] > len(x):
                return i
            last = describe(flavour, tree, anchors, v, begin, end, a[i], x, y, at, scratch, found)
            if last < 0:
                return i
        at = last
        ends[i] = at
    return len(keys)
