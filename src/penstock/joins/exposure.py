"""What a tuple of the filtering table does to tuples of the base table: exposes them, or takes them away.

Theorem 1, in the direction R ⋉ S. A tuple of S comes, with coordinate c, between `below` and `above`, its neighbours
with the same join key. A joining tuple of R is new to just those with

    a ∈ A   and   below < C begins ≤ c ≤ C ends < above

as a C that reaches a neighbour has had the tuple all along. Deletion is the mirror image: the neighbours are those that
are left, and who fits this has nothing in S any longer that joins. It must forget all tuples of R with the join key, of
which it has at least one if some coordinate of them is in A. Which coordinates those are is said by points, as a
skyline does (CLU+ of `skylines`), so nobody is told who has nothing to forget.

An update is both, and what comes is there before what goes has gone: who has both in its range hears nothing.

Pure functions of a join key's run, the tree of rectangles, and (c, below, above).
"""

from typing import Any

import numpy as np

from penstock.arrays import Int64s
from penstock.jit import kernel
from penstock.joins.coordinates import BEYOND, NOWHERE
from penstock.joins.rectangles import all_inside, any_inside
from penstock.joins.runs import distinct_values, first_at_least
from penstock.joins.skylines import A, touched


@kernel
def _box_of(c: int, below: int, above: int) -> Int64s:
    """Those that have c in C, and none of its neighbours."""
    box = np.empty(8, np.int64)
    box[0], box[4], box[1], box[5] = NOWHERE, BEYOND, NOWHERE, BEYOND
    box[2], box[6], box[3], box[7] = below + 1, c, c, above - 1
    return box


@kernel
def _mark(tree: Any, box: Int64s, values: Int64s, count: int, scratch: Any) -> bool:
    """Of distinct values ascending, which ones are in the A of somebody in the box; and after which a gap has an A
    inside.

    False if nobody is in the box.
    """
    _, covered, cut, found = scratch
    # If they are many, each value is asked for, which is soon answered. Gaps aren't: with a cut after every value,
    # points are more than they need be, but right.
    n = all_inside(tree, box, found, 0, min(len(found), 256 + 16 * count))
    if n > min(len(found), 256 + 16 * count):
        for i in range(count):
            covered[i], cut[i] = touched(tree, box, A, values[i], values[i]), True
        return True
    corners = tree[8]
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
    return n > 0


@kernel
def expose_all(
    tree: Any, runs: Any, keys: Int64s, c: Int64s, near: Int64s, first: int,
    change: Int64s, tuples: Int64s, a: Int64s, at: int, scratch: Any,
) -> tuple[int, int]:  # fmt: skip
    """The tuples exposed by those that come, from the first on: (change, tuple, coordinate), from `at` on.

    Which of those that come is next, if there was no room for all; and where the exposed end.
    """
    start, length, values, places = runs
    distinct, covered, _, _ = scratch
    for i in range(first, len(keys)):
        key, below, above = keys[i], near[i, 0], near[i, 1]
        if not (0 <= key < len(start) and length[key] and below < c[i] < above):
            continue
        begin, end = start[key], start[key] + length[key]
        if at + end - begin > len(change):
            return i, at
        box = _box_of(c[i], below, above)
        if not any_inside(tree, box):
            continue
        count = distinct_values(values, begin, end, distinct)
        if not _mark(tree, box, distinct, count, scratch):
            continue
        d = 0
        for p in range(begin, end):
            if distinct[d] != values[p]:
                d += 1
            if covered[d]:
                change[at], tuples[at], a[at] = i, places[p], values[p]
                at += 1
    return len(keys), at


@kernel
def drop_all(
    tree: Any, runs: Any, keys: Int64s, c: Int64s, near: Int64s, first: int,
    ends: Int64s, x: Int64s, y: Int64s, scratch: Any,
) -> int:  # fmt: skip
    """For those that go, from the first on, who must forget: the points of tuple i end at ends[i]; the next one."""
    start, length, values, _ = runs
    distinct, covered, cut, _ = scratch
    at = int(ends[first - 1]) if first else 0
    for i in range(first, len(keys)):
        key, below, above = keys[i], near[i, 0], near[i, 1]
        if 0 <= key < len(start) and length[key] and below < c[i] < above:
            if at + length[key] > len(x):
                return i
            box = _box_of(c[i], below, above)
            if any_inside(tree, box):
                count = distinct_values(values, start[key], start[key] + length[key], distinct)
                _mark(tree, box, distinct, count, scratch)
                at = _points(distinct, count, covered, cut, x, y, at)
        ends[i] = at
    return len(keys)


@kernel
def _points(
    values: Int64s, count: int, covered: Any, cut: Any, x: Int64s, y: Int64s, at: int
) -> int:
    """Values between cuts as one point each, from the first that is covered to the last."""
    begin = -1
    end = -1
    for i in range(count):
        if covered[i]:
            begin = i if begin < 0 else begin
            end = i
        if (cut[i] or i == count - 1) and begin >= 0:
            x[at], y[at] = values[end], values[begin]
            at += 1
            begin = -1
    return at
