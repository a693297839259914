"""Searches the tree of rectangles: is any in a box, and which ones are?

A rectangle A × C is a point of four dimensions, (first a, last a, first c, last c). Each search of semijoins among
their subscriptions is for such points in a box:

    a ∈ A                      first a ≤ a, last a ≥ a
    C inside the gap (g, h)    first c > g, last c < h               a gap of the joining tuples: C has none of them
    c ∈ C ⊆ (below, above)     below < first c ≤ c ≤ last c < above  of the joining tuples, only c is in C

A box is eight numbers: the lowest values of the four coordinates, then the highest. The search is depth first. A node
outside of the box is skipped; a node wholly inside has a rectangle in the box, so `any_inside` ends there.
"""

from typing import NamedTuple

import numpy as np

from penstock.base.arrays import Int32s, Int64s
from penstock.base.jit import kernel
from penstock.joins.runs import first_at_least

STACK = 512  # deeper than any tree (`rectangles.MOST_DEPTH`)
MANY = 1 << 62


class RectangleTree(NamedTuple):
    """The nodes and buckets that `rectangles` draws, and the corners of the rectangles.

    Arrays may be longer than the part in use.
    """

    left: Int32s  # -1: a leaf
    right: Int32s  # of a leaf: its bucket
    parent: Int32s
    dimension: Int32s
    cut: Int64s
    living: Int32s
    bounds: Int64s
    buckets: Int32s
    corners: Int64s


@kernel
def is_inside(corners: Int64s, r: int, box: Int64s) -> bool:
    """Whether a rectangle's corners are in a box of four dimensions."""
    return bool(
        box[0] <= corners[r, 0] <= box[4]
        and box[1] <= corners[r, 1] <= box[5]
        and box[2] <= corners[r, 2] <= box[6]
        and box[3] <= corners[r, 3] <= box[7]
    )


@kernel
def meets(bounds: Int64s, node: int, box: Int64s) -> bool:
    """Whether the rectangles below a node, by their bounds, may be in a box."""
    outside = False
    for d in range(4):
        outside = outside or bounds[node, d] > box[d + 4] or bounds[node, d + 4] < box[d]
    return not outside


@kernel
def any_inside(tree: RectangleTree, box: Int64s) -> bool:
    """Whether some rectangle is in a box."""
    left, right, living = tree.left, tree.right, tree.living
    bounds, buckets, corners = tree.bounds, tree.buckets, tree.corners
    stack = np.empty(STACK, np.int32)
    stack[0] = 0
    height = 1
    while height:
        height -= 1
        node = stack[height]
        if living[node] == 0:
            continue
        outside, inside = False, True
        for d in range(4):
            low, high = bounds[node, d], bounds[node, d + 4]
            if low > box[d + 4] or high < box[d]:
                outside = True
                break
            if low < box[d] or high > box[d + 4]:
                inside = False
        if outside:
            continue
        if inside:
            return True
        if left[node] >= 0:
            stack[height] = left[node]
            stack[height + 1] = right[node]
            height += 2
            continue
        bucket = right[node]
        for i in range(living[node]):
            r = buckets[bucket, i]
            if is_inside(corners, r, box):
                return True
    return False


class Stairs(NamedTuple):
    """Points (x, y): one touches a range that begins at x or before and ends at y or later. No points touch all ranges.

    They ascend by x, and each has the lowest y of itself and all after it. So whether a range is touched depends on one
    point: the first with an x at or after the range's beginning. The range is A or C, whose beginning is this
    dimension.
    """

    dimension: int
    x: Int64s
    y: Int64s


@kernel
def _touches(stairs: Stairs, low: int, high: int) -> bool:
    at = first_at_least(stairs.x, 0, len(stairs.x), low)
    return bool(len(stairs.x) == 0 or (at < len(stairs.x) and stairs.y[at] <= high))


@kernel
def all_inside(tree: RectangleTree, box: Int64s, out: Int32s, at: int, most: int = MANY) -> int:
    """Write the rectangles in a box to `out` from `at` on; where they end.

    Past the end of `out` they are only counted, and past `most` the search ends.
    """
    nowhere = np.empty(0, np.int64)
    return all_touched(tree, box, Stairs(0, nowhere, nowhere), out, at, most)


@kernel
def all_touched(
    tree: RectangleTree, box: Int64s, stairs: Stairs, out: Int32s, at: int, most: int
) -> int:
    """As `all_inside`, but only the rectangles that the stairs touch."""
    left, right, living = tree.left, tree.right, tree.living
    bounds, buckets, corners, d = tree.bounds, tree.buckets, tree.corners, stairs.dimension
    stack = np.empty(STACK, np.int32)
    stack[0] = 0
    height = 1
    while height:
        height -= 1
        node = stack[height]
        if living[node] == 0 or not meets(bounds, node, box):
            continue
        if not _touches(stairs, bounds[node, d], bounds[node, d + 5]):
            continue
        if left[node] >= 0:
            stack[height] = left[node]
            stack[height + 1] = right[node]
            height += 2
            continue
        bucket = right[node]
        for i in range(living[node]):
            r = buckets[bucket, i]
            if is_inside(corners, r, box) and _touches(stairs, corners[r, d], corners[r, d + 1]):
                if at < len(out):
                    out[at] = r
                at += 1
                if at > most:
                    return at
    return at
