"""Descriptive skylines: a few points describe who must get a tuple of the base table (joins §3.2.1).

The joining tuples of the filtering table have coordinates v ascending. A subscription with a ∈ A is affected if its
range C has some v in it. Points (x, y) describe these subscriptions: "C begins at x or before, and ends at y or later".
Of the paper's four ways this is the best, CLU+ (benchmarks compare it with the others):

    CLU     (v, v) for each v next to an anchor                                                   `stabbing`
    CLU+    CLU, but points with no unaffected range between them become one, (last v, first v)

                    C ends
                      │  ░░░░░░┌──      CLU+: instead of three steps one corner, if no selected subscription's range
                      │  ░░┌───┘        lies strictly between two neighbouring v (triangles are disposable: joins §B)
                      │ ┌──┘
                      └───────── C begins

There are two departures, both of which only send less. A point that no selected subscription's range touches is left
out of CLU+,
and a message that would have no reader isn't sent at all.

The rectangles in the gaps depend on the join key alone: they are found once for all tuples of a batch with that key.

A *run* is the sorted coordinates of the tuples with one join key. All results follow from runs, the anchors and the
tree of rectangles.
"""

from typing import NamedTuple

import numpy as np

from penstock.base.arrays import Int32s, Int64s, grow_array
from penstock.base.jit import kernel
from penstock.joins.axes import BEYOND, NOWHERE
from penstock.joins.rectangle_tree import RectangleTree, all_inside, any_inside
from penstock.joins.runs import RunArrays, RunEntries, first_at_least

A, C = 0, 2  # where in a box the range of the base table begins, and that of the filtering table


class Skylines(NamedTuple):
    """Points of tuples, one after the other: those of tuple i end at ends[i]."""

    ends: Int64s
    x: Int64s
    y: Int64s

    def widen(self) -> "Skylines":
        """The same with twice the room for points."""
        return Skylines(self.ends, *(grow_array(z, len(z) + 1) for z in (self.x, self.y)))

    def trim(self) -> "Skylines":
        """The same without room for more."""
        last = self.ends[-1] if len(self.ends) else 0
        return Skylines(self.ends, self.x[:last], self.y[:last])


class Survey(NamedTuple):
    """One join key's points, and the subscriptions whose C lies strictly between neighbouring points.

    Gap i lies between points i and i + 1. The ranges A of the subscriptions in it, united, are the disjoint ranges from
    first[ends[i - 1]:ends[i]] to last[…]. If there are too many subscriptions, ends[i] is -1 - e, where e is the end of
    the gap before.
    """

    anchors: Int64s  # of all clusters: points are next to them
    points: Int64s
    ends: Int64s
    first: Int64s
    last: Int64s
    found: Int32s  # room for the rectangles in a gap


@kernel
def is_touched(tree: RectangleTree, box: Int64s, d: int, x: int, y: int) -> bool:
    """Whether a rectangle of the box has a range, A or C as d says, that begins at x or before and ends at y or
    later."""
    box[d], box[d + 4], box[d + 1], box[d + 5] = NOWHERE, x, y, BEYOND
    return any_inside(tree, box)


@kernel
def _has_inside(tree: RectangleTree, box: Int64s, d: int, below: int, above: int) -> bool:
    """Whether a rectangle of the box has this range strictly between two coordinates."""
    box[d], box[d + 4], box[d + 1], box[d + 5] = below + 1, BEYOND, NOWHERE, above - 1
    return any_inside(tree, box)


@kernel
def next_to_anchors(v: Int64s, begin: int, end: int, anchors: Int64s, out: Int64s) -> int:
    """Write to `out` those of the sorted v[begin:end] that are next to an anchor, ascending and distinct; how many."""
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
def merge_points(
    tree: RectangleTree, box: Int64s, survey: Survey, count: int, out: Skylines, at: int
) -> int:
    """CLU -> CLU+: write the points from `at` on; where they end. The box says a ∈ A."""
    points = survey.points
    begin = 0
    while begin < count:
        end = begin + 1
        while end < count and not _is_occupied(tree, box, survey, end - 1):
            end += 1
        if is_touched(tree, box, C, points[end - 1], points[begin]):
            out.x[at], out.y[at] = points[end - 1], points[begin]
            at += 1
        begin = end
    return at


@kernel
def survey_gaps(tree: RectangleTree, survey: Survey, count: int) -> None:
    """Find the rectangles in the gaps between `count` points: once for all tuples of one join key."""
    points, ends, found = survey.points, survey.ends, survey.found
    first, last, corners = survey.first, survey.last, tree.corners
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
def _is_occupied(tree: RectangleTree, box: Int64s, survey: Survey, i: int) -> bool:
    """Whether a subscription selected by the box, which says a ∈ A, has its C inside a gap."""
    ends = survey.ends
    if ends[i] < 0:
        return _has_inside(tree, box, C, survey.points[i], survey.points[i + 1])
    begin = 0
    if i:
        begin = ends[i - 1] if ends[i - 1] >= 0 else -1 - ends[i - 1]
    a = box[A + 1]
    place = first_at_least(survey.last, begin, ends[i], a)
    return bool(place < ends[i] and survey.first[place] <= a)


@kernel
def _describe(
    tree: RectangleTree, survey: Survey, count: int, a: int, out: Skylines, at: int
) -> int:
    """Write the skyline of a tuple with coordinate a, from `at` on; where it ends. Empty if nobody is affected."""
    box = np.empty(8, np.int64)
    box[0], box[4], box[1], box[5] = NOWHERE, a, a, BEYOND
    points = survey.points
    if count == 0 or not is_touched(tree, box, C, points[count - 1], points[0]):
        return at
    return merge_points(tree, box, survey, count, out, at)


@kernel
def describe_all(
    tree: RectangleTree,
    runs: RunArrays,
    tuples: RunEntries,
    first: int,
    out: Skylines,
    survey: Survey,
) -> int:
    """Write the skylines of tuples, from tuple `first` on, as long as there is room; which tuple is next.

    A tuple without points makes no message. It is fastest if tuples with the same join key follow each other.
    """
    start, length, keys = runs.start, runs.length, tuples.keys
    at = int(out.ends[first - 1]) if first else 0
    known, count = np.int64(-1), 0
    for i in range(first, len(keys)):
        key = keys[i]
        last = at
        if 0 <= key < len(start) and length[key]:
            if at + 2 * length[key] > len(out.x):
                return i
            if key != known:
                known = key
                begin, end = start[key], start[key] + length[key]
                count = next_to_anchors(runs.values, begin, end, survey.anchors, survey.points)
                survey_gaps(tree, survey, count)
            last = _describe(tree, survey, count, tuples.values[i], out, at)
        at = last
        out.ends[i] = at
    return len(keys)
