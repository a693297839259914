"""The other descriptive skylines of section 3.2.1: SUB, TUP and CLU, beside the product's CLU+ (`joins.skylines`).

    SUB     the ranges of affected subscriptions that have no other affected one in them       fewest covered
    TUP     (v, v) for every v                                                                   no subscriptions needed
    CLU     (v, v) for those next to an anchor                                                   `stabbing`

As with CLU+, a message that would have no reader isn't sent. For SUB, the affected ones are found by what CLU+ says.
"""

from dataclasses import dataclass

import numpy as np

from penstock.base.arrays import Int32s, Int64s
from penstock.base.jit import kernel
from penstock.joins.axes import BEYOND, NOWHERE
from penstock.joins.rectangle_tree import RectangleTree, all_inside
from penstock.joins.runs import RunArrays, RunEntries, distinct_values
from penstock.joins.semijoins import Semijoins, room_for_skylines, room_for_survey
from penstock.joins.skylines import (
    C,
    Skylines,
    Survey,
    is_touched,
    merge_points,
    next_to_anchors,
    survey_gaps,
)

SUB, TUP, CLU = range(3)
_ROOM = 1 << 14


@dataclass(slots=True)
class FlavouredSemijoins(Semijoins):
    """Semijoins whose messages are described in another way."""

    flavour: int = CLU

    def _skylines(self, tuples: RunEntries) -> Skylines:
        runs = self.filter_runs
        out = room_for_skylines(runs, len(tuples.keys))
        survey = room_for_survey(runs, self.clusters.anchors)
        found = np.empty(_ROOM, np.int32)
        first = 0
        while True:
            first = _describe_all(
                self.flavour, self.rectangles.tree, runs.arrays, tuples, first, out, survey, found
            )
            if first == len(tuples.keys):
                return out.trim()
            out = out.widen()
            found = np.empty(2 * len(found), np.int32)


@kernel
def _smallest(
    tree: RectangleTree, box: Int64s, out: Skylines, begin: int, end: int, found: Int32s
) -> tuple[int, int]:
    """CLU+ -> SUB, in place from `begin` on; where it ends, and how many were affected. -1: there is no room."""
    corners, x, y = tree.corners, out.x, out.y
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
def _candidates(flavour: int, survey: Survey, v: Int64s, begin: int, end: int) -> int:
    """Which joining tuples may have a point."""
    if flavour != TUP:
        return next_to_anchors(v, begin, end, survey.anchors, survey.points)
    return distinct_values(v, begin, end, survey.points)


@kernel
def _describe(
    flavour: int, tree: RectangleTree, survey: Survey, count: int, a: int, out: Skylines, at: int,
    found: Int32s,
) -> int:  # fmt: skip
    """The skyline for a tuple with coordinate a, from `at` on; where it ends. -1: there isn't room enough.

    Where it begins: nobody is affected.
    """
    box = np.empty(8, np.int64)
    box[0], box[4], box[1], box[5] = NOWHERE, a, a, BEYOND
    points = survey.points
    if count == 0 or not is_touched(tree, box, C, points[count - 1], points[0]):
        return at
    if flavour == SUB:
        last = merge_points(tree, box, survey, count, out, at)
        last, affected = _smallest(tree, box, out, at, last, found)
        return -1 if affected > len(found) or affected < 0 else last
    has_readers = False
    for i in range(count):
        out.x[at + i], out.y[at + i] = points[i], points[i]
        has_readers = has_readers or is_touched(tree, box, C, points[i], points[i])
    return at + count if has_readers else at


@kernel
def _describe_all(
    flavour: int, tree: RectangleTree, runs: RunArrays, tuples: RunEntries, first: int, out: Skylines,
    survey: Survey, found: Int32s,
) -> int:  # fmt: skip
    """The skylines of tuples from the first on, as long as there is room; which one is next.

    No points, no message. Best with those of a join key one after the other.
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
                count = _candidates(flavour, survey, runs.values, begin, end)
                if flavour == SUB:
                    survey_gaps(tree, survey, count)
            last = _describe(flavour, tree, survey, count, tuples.values[i], out, at, found)
            if last < 0:
                return i
        at = last
        out.ends[i] = at
    return len(keys)
