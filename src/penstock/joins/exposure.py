"""Which tuples of the base table a tuple of the filtering table exposes when it comes, and takes away when it goes.

Follows joins §3.1.2, theorem 1, in the direction R ⋉ S. A tuple of S comes, with coordinate c, between `below` and
`above`, its neighbours with the same join key. A joining tuple of R with coordinate a is new to exactly the
subscriptions with

    a ∈ A   and   below < C begins ≤ c ≤ C ends < above

because a subscription whose C reaches a neighbour has had the tuple all along. Deletion is the mirror image: the
neighbours are those that are left, and a subscription whose C fits this condition has no tuple of S left that joins. It
must forget all tuples of R with the join key, and it holds at least one of them if one of their coordinates is in its
A. Points say which coordinates those are, as in a skyline (CLU+ of `skylines`), so nothing is sent to subscriptions
that have nothing to forget.

An update is both at once. The new tuple is there before the old one has gone, so nothing is sent to subscriptions that
have both in their range.

The results follow from a join key's run, the tree of rectangles, and (c, below, above) alone.
"""

from typing import NamedTuple

import numpy as np

from penstock.base.arrays import Int32s, Int64s, grow_array
from penstock.base.jit import kernel
from penstock.joins.axes import BEYOND, NOWHERE
from penstock.joins.rectangle_tree import RectangleTree, all_inside, any_inside
from penstock.joins.runs import RunArrays, distinct_values, first_at_least
from penstock.joins.skylines import A, Skylines, is_touched


class FilterChanges(NamedTuple):
    """Tuples of the filtering table that come, or that go. Where the key is -1, there is none."""

    keys: Int64s
    c: Int64s
    near: Int64s  # the neighbours, below and above


class Exposed(NamedTuple):
    """Tuples of the base table that are exposed, one after the other: those of change i end at ends[i]."""

    ends: Int64s
    tuples: Int64s
    a: Int64s

    def widen(self) -> "Exposed":
        """The same with twice the room for tuples."""
        return Exposed(self.ends, *(grow_array(z, len(z) + 1) for z in (self.tuples, self.a)))


class Marks(NamedTuple):
    """The distinct coordinates of a run, ascending, and how the ranges A of the rectangles in a box lie among them."""

    distinct: Int64s
    covered: Int64s  # not 0: some A has this coordinate in it
    cut: Int64s  # not 0: some A lies between this coordinate and the next
    found: Int32s  # room for the rectangles in the box


@kernel
def _box_of(c: int, below: int, above: int) -> Int64s:
    """The box of the rectangles that have c in C, and neither of its neighbours."""
    box = np.empty(8, np.int64)
    box[0], box[4], box[1], box[5] = NOWHERE, BEYOND, NOWHERE, BEYOND
    box[2], box[6], box[3], box[7] = below + 1, c, c, above - 1
    return box


@kernel
def _mark(tree: RectangleTree, box: Int64s, count: int, marks: Marks) -> None:
    """Mark which distinct values are in the A of a rectangle in the box, and after which a gap has such an A inside."""
    values, covered, cut, found = marks.distinct, marks.covered, marks.cut, marks.found
    # If there are many rectangles, each value is looked up by itself, which is fast. Gaps aren't looked up: with a cut
    # after every value there are more points than needed, but they are right.
    n = all_inside(tree, box, found, 0, min(len(found), 256 + 16 * count))
    if n > min(len(found), 256 + 16 * count):
        for i in range(count):
            covered[i], cut[i] = is_touched(tree, box, A, values[i], values[i]), True
        return
    corners = tree.corners
    for i in range(count + 1):
        covered[i], cut[i] = 0, 0
    for j in range(n):
        first = first_at_least(values, 0, count, corners[found[j], 0])
        past = first_at_least(values, first, count, corners[found[j], 1] + 1)
        if first < past:
            covered[first] += 1
            covered[past] -= 1
        elif first:
            cut[first - 1] = 1
    for i in range(1, count):
        covered[i] += covered[i - 1]


@kernel
def expose_all(
    tree: RectangleTree,
    runs: RunArrays,
    changes: FilterChanges,
    first: int,
    out: Exposed,
    marks: Marks,
) -> int:
    """Write the tuples that changes expose, from change `first` on, as long as there is room; which change is next."""
    start, length, values, tuples = runs.start, runs.length, runs.values, runs.tuples
    keys, c, near = changes.keys, changes.c, changes.near
    at = int(out.ends[first - 1]) if first else 0
    for i in range(first, len(keys)):
        key, below, above = keys[i], near[i, 0], near[i, 1]
        if 0 <= key < len(start) and length[key] and below < c[i] < above:
            if at + length[key] > len(out.tuples):
                return i
            box = _box_of(c[i], below, above)
            if any_inside(tree, box):
                begin, end = start[key], start[key] + length[key]
                _mark(tree, box, distinct_values(values, begin, end, marks.distinct), marks)
                d = 0
                for p in range(begin, end):
                    if marks.distinct[d] != values[p]:
                        d += 1
                    if marks.covered[d]:
                        out.tuples[at], out.a[at] = tuples[p], values[p]
                        at += 1
        out.ends[i] = at
    return len(keys)


@kernel
def drop_all(
    tree: RectangleTree,
    runs: RunArrays,
    changes: FilterChanges,
    first: int,
    out: Skylines,
    marks: Marks,
) -> int:
    """Write the points that say who must forget tuples, for changes from `first` on, as long as there is room; which
    change is next."""
    start, length = runs.start, runs.length
    keys, c, near = changes.keys, changes.c, changes.near
    at = int(out.ends[first - 1]) if first else 0
    for i in range(first, len(keys)):
        key, below, above = keys[i], near[i, 0], near[i, 1]
        if 0 <= key < len(start) and length[key] and below < c[i] < above:
            if at + length[key] > len(out.x):
                return i
            box = _box_of(c[i], below, above)
            if any_inside(tree, box):
                begin, end = start[key], start[key] + length[key]
                count = distinct_values(runs.values, begin, end, marks.distinct)
                _mark(tree, box, count, marks)
                at = _points(marks, count, out, at)
        out.ends[i] = at
    return len(keys)


@kernel
def _points(marks: Marks, count: int, out: Skylines, at: int) -> int:
    """Write one point for the values between two cuts, from the first covered value to the last; where points end."""
    begin = -1
    end = -1
    for i in range(count):
        if marks.covered[i]:
            begin = i if begin < 0 else begin
            end = i
        if (marks.cut[i] or i == count - 1) and begin >= 0:
            out.x[at], out.y[at] = marks.distinct[end], marks.distinct[begin]
            at += 1
            begin = -1
    return at
