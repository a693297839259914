"""What a tuple of the filtering table does to tuples of the base table: exposes them, or takes them away.

Theorem 1, in the direction R ⋉ S. A tuple of S comes, with coordinate c, between `below` and `above`, its neighbours with
the same join key. A joining tuple of R is new to just those with

    a ∈ A   and   below < C begins ≤ c ≤ C ends < above

as a C that reaches a neighbour has had the tuple all along. Deletion is the mirror image: the neighbours are those that
are left, and who fits this has nothing in S any longer that joins. It must forget all tuples of R with the join key, of
which it has at least one if some coordinate of them is in A. Which coordinates those are is said by points, as a skyline
does (`skylines.merged`), so nobody is told who has nothing to forget.

An update is both, and what comes is there before what goes has gone: who has both in its range hears nothing.

Pure functions of a join key's run, the tree of rectangles, and (c, below, above).
"""

from typing import Any

import numpy as np

from penstock.arrays import Int64s
from penstock.jit import kernel
from penstock.joins.coordinates import BEYOND, NOWHERE
from penstock.joins.rectangles import any_inside
from penstock.joins.skylines import A, merged


@kernel
def _box_of(c: int, below: int, above: int) -> Int64s:
    """Those that have c in C, and none of its neighbours."""
    box = np.empty(8, np.int64)
    box[0], box[4], box[1], box[5] = NOWHERE, BEYOND, NOWHERE, BEYOND
    box[2], box[6], box[3], box[7] = below + 1, c, c, above - 1
    return box


@kernel
def expose_all(
    tree: Any, runs: Any, keys: Int64s, c: Int64s, near: Int64s, first: int,
    change: Int64s, tuples: Int64s, a: Int64s, at: int,
) -> tuple[int, int]:  # fmt: skip
    """The tuples exposed by those that come, from the first on: (change, tuple, coordinate), from `at` on.

    Which of those that come is next, if there was no room for all; and where the exposed end.
    """
    start, length, values, places = runs
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
        p = begin
        while p < end:
            value = values[p]
            box[0], box[4], box[1], box[5] = NOWHERE, value, value, BEYOND
            is_exposed = any_inside(tree, box)
            while p < end and values[p] == value:
                if is_exposed:
                    change[at], tuples[at], a[at] = i, places[p], value
                    at += 1
                p += 1
    return len(keys), at


@kernel
def drop_all(
    tree: Any, runs: Any, keys: Int64s, c: Int64s, near: Int64s, first: int,
    ends: Int64s, x: Int64s, y: Int64s, scratch: Int64s,
) -> int:  # fmt: skip
    """For those that go, from the first on, who must forget: the points of tuple i end at ends[i]; which one is next."""
    start, length, values, _ = runs
    at = ends[first - 1] if first else np.int64(0)
    for i in range(first, len(keys)):
        key, below, above = keys[i], near[i, 0], near[i, 1]
        if 0 <= key < len(start) and length[key] and below < c[i] < above:
            if at + length[key] > len(x):
                return i
            box = _box_of(c[i], below, above)
            if any_inside(tree, box):
                count = 0
                for p in range(start[key], start[key] + length[key]):
                    if count == 0 or scratch[count - 1] != values[p]:
                        scratch[count] = values[p]
                        count += 1
                at = merged(tree, box, A, scratch, count, x, y, at)
        ends[i] = at
    return len(keys)
