"""Finds a cover for each of many boxes, all of which are known from the start.

Boxes that test the same attributes are one *kind*. A box can cover another only if its kind has no attribute that the
other lacks. Such kinds are found by their bits, with one look-up for each subset of the other's attributes. Inside a
kind a box with k tests is a point with 2k coordinates, its lows and highs. It covers the boxes with no lower low and no
higher high. The points are halved again and again, along the coordinate that spreads most, until few are left:

    node n     points first[n] .. past[n]; of each attribute the lowest low and the highest high among them
               its children are n + 1 and skip[n + 1]; the node after its subtree is skip[n]
    point i    box[i], with its lows and highs beside it

A node whose bounds don't include a box has no cover of it, and is skipped with its subtree. Boxes with lower lows and
higher highs stand on the left, and of equal boxes those of earlier regions: so the boxes that cover most are met first.
A set of several ranges, as of an IN list, also has 64 bits, each for every 64th pair of numbers: a test with a bit that
the set lacks isn't included in it.

`cover_index` is for a set that changes, and also finds covered boxes, by one test of each box. If thousands of boxes
have that test in common (a popular symbol, one of 20 regions), it compares them one by one; here their other tests
narrow the search, too. Two things are slow here: about as many kinds as boxes, of more than a dozen tests each, since
all kinds are looked through; and sets of hundreds of ranges, whose bits rule out nothing. `tree_building` builds the
tree.
"""

from typing import NamedTuple

import numpy as np

from penstock.base.arrays import Int32s, Int64s, UInt64s
from penstock.base.jit import kernel
from penstock.covering.boxes import Boxes, box_includes, region_covers

# A box with more attributes is compared with all kinds; for one with fewer, all subsets of its attributes are looked
# up.
_MOST_BITS = 16

# The lows, highs and bits of a box for the attributes of a kind.
_Query = tuple[Int64s, Int64s, UInt64s]


class CoverTree(NamedTuple):
    """The arrays drawn above, and the kinds, ascending by mask.

    Kind k has the attributes attribute[attribute_start[k]:attribute_start[k + 1]], the nodes from node_start[k] and the
    points from point_start[k] on; its coordinates begin at coordinate_start[k], the bounds of its nodes at
    bound_start[k]. If it has sets, the bits of its tests begin at bits_start[k], those of its nodes at
    bound_bits_start[k]; if not, there are none.
    """

    mask: UInt64s
    attribute_start: Int64s
    attribute: Int32s
    node_start: Int64s
    point_start: Int64s
    coordinate_start: Int64s
    bound_start: Int64s
    bits_start: Int64s
    bound_bits_start: Int64s
    box: Int32s
    low: Int64s
    high: Int64s
    first: Int64s
    past: Int64s
    skip: Int64s
    bound_low: Int64s
    bound_high: Int64s
    bits: UInt64s
    bound_bits: UInt64s


@kernel
def first_cover_in(boxes: Boxes, tree: CoverTree, r: int) -> int:
    """Some region of the tree other than r that covers r, or -1. Of equal ones only earlier ones cover later ones."""
    q = boxes.region_start[r]
    if q == boxes.region_start[r + 1]:
        return -1
    width = boxes.box_start[q + 1] - boxes.box_start[q]
    query = (np.empty(width, np.int64), np.empty(width, np.int64), np.empty(width, np.uint64))
    mask, kinds = boxes.box_mask[q], len(tree.mask)
    ones = 0
    rest = mask
    while rest:
        rest &= rest - np.uint64(1)
        ones += 1
    if ones > _MOST_BITS or (1 << ones) * 4 > kinds:
        for k in range(kinds):
            if not tree.mask[k] & ~mask:
                found = _cover_of_kind(boxes, tree, k, q, r, query)
                if found >= 0:
                    return found
        return -1
    part = np.uint64(0)  # all subsets of the mask, the smallest first
    while True:
        k = int(np.searchsorted(tree.mask, part))
        while k < kinds and tree.mask[k] == part:
            found = _cover_of_kind(boxes, tree, k, q, r, query)
            if found >= 0:
                return found
            k += 1
        if part == mask:
            return -1
        part = (part - mask) & mask


@kernel
def _cover_of_kind(boxes: Boxes, tree: CoverTree, k: int, q: int, r: int, query: _Query) -> int:
    """A region with a box of this kind that includes box q, and that covers r; or -1. `query` is scratch."""
    has_sets = tree.bits_start[k] < tree.bits_start[k + 1]
    if not _project(boxes, tree, k, q, query, has_sets):
        return -1
    width = tree.attribute_start[k + 1] - tree.attribute_start[k]
    start, points = tree.node_start[k], tree.point_start[k]
    n, end = start, tree.node_start[k + 1]
    while n < end:
        at = tree.bound_start[k] + (n - start) * width
        inside = _includes(tree.bound_low, tree.bound_high, at, query, width)
        if inside and has_sets:
            inside = _has_bits(
                tree.bound_bits, tree.bound_bits_start[k] + (n - start) * width, query, width
            )
        if not inside:
            n = tree.skip[n]
            continue
        if tree.skip[n] == n + 1:
            for i in range(tree.first[n], tree.past[n]):
                place = (i - points) * width
                if not _includes(
                    tree.low, tree.high, tree.coordinate_start[k] + place, query, width
                ):
                    continue
                if has_sets and not _has_bits(tree.bits, tree.bits_start[k] + place, query, width):
                    continue
                b = tree.box[i]
                s = boxes.box_region[b]
                if s != r and box_includes(boxes, b, q) and region_covers(boxes, s, r):
                    return int(s)
        n += 1
    return -1


@kernel
def _project(boxes: Boxes, tree: CoverTree, k: int, q: int, query: _Query, has_sets: bool) -> bool:
    """Write a box's tests of a kind's attributes into `query`; whether it tests all of them."""
    first = tree.attribute_start[k]
    t, last = boxes.box_start[q], boxes.box_start[q + 1]
    low, high, bits = query
    for j in range(tree.attribute_start[k + 1] - first):
        while t < last and boxes.attribute[t] < tree.attribute[first + j]:
            t += 1
        if t == last or boxes.attribute[t] != tree.attribute[first + j]:
            return False
        low[j], high[j] = boxes.low[t], boxes.high[t]
        if has_sets:
            bits[j] = bits_of(boxes, t)
    return True


@kernel
def _includes(lows: Int64s, highs: Int64s, at: int, query: _Query, width: int) -> bool:
    low, high, _ = query
    for j in range(width):  # noqa: SIM110  (a kernel)
        if lows[at + j] > low[j] or highs[at + j] < high[j]:
            return False
    return True


@kernel
def _has_bits(having: UInt64s, at: int, query: _Query, width: int) -> bool:
    for j in range(width):  # noqa: SIM110  (a kernel)
        if query[2][j] & ~having[at + j]:
            return False
    return True


@kernel
def bits_of(boxes: Boxes, t: int) -> np.uint64:
    """The bits of the numbers that a test accepts."""
    s = boxes.several[t]
    if s < 0:
        return _bits_between(boxes.low[t], boxes.high[t])
    bits = np.uint64(0)
    for i in range(boxes.set_start[s], boxes.set_start[s + 1]):
        bits |= _bits_between(boxes.set_low[i], boxes.set_high[i])
    return bits


@kernel
def _bits_between(low: int, high: int) -> np.uint64:
    first, last = low >> 1, high >> 1  # a plan's constants are the even numbers
    if last - first >= 63:
        return ~np.uint64(0)
    bits = np.uint64(0)
    for n in range(first, last + 1):
        bits |= np.uint64(1) << np.uint64(n & 63)
    return bits
