"""Builds a `CoverTree`: boxes by kind, the points of each kind halved again and again.

Halving is a selection, not a sort: each level takes time in proportion to the number of points, and there are as many
levels as that number has binary digits. Points with the same coordinate are ordered by the number of their box, so a
thousand equal boxes are no special case.
"""

import functools

import numpy as np

from penstock.base.arrays import Int32s, Int64s, UInt64s, offsets
from penstock.base.jit import kernel
from penstock.covering.boxes import HIGHEST, NULL, Boxes, items_of
from penstock.covering.cover_tree import CoverTree, bits_of

_LEAF = 12  # points that aren't halved any more
_SAMPLE = 64  # points by which the spread of a coordinate is judged


def build_tree(boxes: Boxes, regions: Int64s) -> CoverTree:
    """A tree of some regions, ascending."""
    _, chosen = items_of(boxes.region_start, regions)
    mark = _marks(boxes, chosen)
    chosen = chosen[np.lexsort((mark, boxes.box_mask[chosen]))]
    point_start = np.append(_kinds(boxes, chosen), len(chosen))
    model = chosen[point_start[:-1]]  # a box of each kind
    width, tests = items_of(boxes.box_start, model)
    size = np.diff(point_start)
    nodes = np.array([_nodes(points) for points in size.tolist()], np.int64)
    coordinate_start, node_start = offsets(width * size), offsets(nodes)
    bound_start = offsets(width * nodes)
    points, bounds = int(coordinate_start[-1]), int(bound_start[-1])
    has_set = boxes.several[items_of(boxes.box_start, chosen)[1]] >= 0
    sets = np.bincount(np.repeat(np.arange(len(size)), width * size), has_set, len(size))
    with_sets = np.where(sets > 0, width, 0)
    bits_start, bound_bits_start = offsets(with_sets * size), offsets(with_sets * nodes)
    tree = CoverTree(
        mask=boxes.box_mask[model],
        attribute_start=offsets(width),
        attribute=boxes.attribute[tests],
        node_start=node_start,
        point_start=point_start,
        coordinate_start=coordinate_start,
        bound_start=bound_start,
        bits_start=bits_start,
        bound_bits_start=bound_bits_start,
        box=chosen.astype(np.int32),
        low=np.empty(points, np.int64),
        high=np.empty(points, np.int64),
        first=np.empty(int(node_start[-1]), np.int64),
        past=np.empty(int(node_start[-1]), np.int64),
        skip=np.empty(int(node_start[-1]), np.int64),
        bound_low=np.empty(bounds, np.int64),
        bound_high=np.empty(bounds, np.int64),
        bits=np.empty(int(bits_start[-1]), np.uint64),
        bound_bits=np.empty(int(bound_bits_start[-1]), np.uint64),
    )
    _fill(boxes, tree)
    return tree


# --- kinds -------------------------------------------------------------------------------------


@kernel
def _marks(boxes: Boxes, chosen: Int64s) -> UInt64s:
    """A number for each box: the same for all boxes of a kind, and hardly ever the same for two kinds."""
    found = np.empty(len(chosen), np.uint64)
    for i in range(len(chosen)):
        mark = np.uint64(0)
        for t in range(boxes.box_start[chosen[i]], boxes.box_start[chosen[i] + 1]):
            mark = (mark ^ np.uint64(boxes.attribute[t] + 1)) * np.uint64(0x9E3779B97F4A7C15)
            mark ^= mark >> np.uint64(29)
        found[i] = mark
    return found


@kernel
def _kinds(boxes: Boxes, chosen: Int64s) -> Int64s:
    """Where another kind begins among boxes that are ordered by mask and mark."""
    found = np.empty(len(chosen), np.int64)
    kinds = 0
    for i in range(len(chosen)):
        if i == 0 or not _same_kind(boxes, chosen[i - 1], chosen[i]):
            found[kinds] = i
            kinds += 1
    return found[:kinds].copy()


@kernel
def _same_kind(boxes: Boxes, a: int, b: int) -> bool:
    first, other = boxes.box_start[a], boxes.box_start[b]
    width = boxes.box_start[a + 1] - first
    if boxes.box_start[b + 1] - other != width:
        return False
    for j in range(width):  # noqa: SIM110  (a kernel)
        if boxes.attribute[first + j] != boxes.attribute[other + j]:
            return False
    return True


# --- building ----------------------------------------------------------------------------------


@functools.cache
def _nodes(points: int) -> int:
    """How many nodes it takes to halve so many points."""
    return 1 if points <= _LEAF else 1 + _nodes(points // 2) + _nodes(points - points // 2)


@kernel
def _fill(boxes: Boxes, tree: CoverTree) -> None:
    for k in range(len(tree.mask)):
        _halve(boxes, tree, k)
        width = tree.attribute_start[k + 1] - tree.attribute_start[k]
        has_bits = tree.bits_start[k] < tree.bits_start[k + 1]
        place = 0
        for i in range(tree.point_start[k], tree.point_start[k + 1]):
            t = boxes.box_start[tree.box[i]]
            for j in range(width):
                tree.low[tree.coordinate_start[k] + place] = boxes.low[t + j]
                tree.high[tree.coordinate_start[k] + place] = boxes.high[t + j]
                if has_bits:  # only sets need bits: of a range the bounds are exact
                    is_set = boxes.several[t + j] >= 0
                    bits = bits_of(boxes, t + j) if is_set else ~np.uint64(0)
                    tree.bits[tree.bits_start[k] + place] = bits
                place += 1
        _bound(tree, k, width)


@kernel
def _halve(boxes: Boxes, tree: CoverTree, k: int) -> None:
    """Order the points of a kind, and write down its nodes."""
    width = tree.attribute_start[k + 1] - tree.attribute_start[k]
    node = tree.node_start[k]
    pending_first, pending_past = np.empty(128, np.int64), np.empty(128, np.int64)
    pending_first[0], pending_past[0] = tree.point_start[k], tree.point_start[k + 1]
    pending = 1
    size = tree.point_start[k + 1] - tree.point_start[k]
    keys = np.empty(size if size > _LEAF else 0, np.int64)
    while pending:
        pending -= 1
        first, past = pending_first[pending], pending_past[pending]
        tree.first[node], tree.past[node] = first, past
        node += 1
        part = tree.box[first:past]
        if past - first <= _LEAF:
            part.sort()
            continue
        half = (past - first) // 2
        c = _widest(boxes, part, width)
        for i in range(past - first):
            keys[i] = _coordinate(boxes, part[i], c, width)
        _select(keys, part, half)
        pending_first[pending], pending_past[pending] = first + half, past
        pending_first[pending + 1], pending_past[pending + 1] = first, first + half
        pending += 2


@kernel
def _coordinate(boxes: Boxes, b: int, c: int, width: int) -> int:
    """The c-th coordinate of a box, lower for boxes that cover more."""
    t = boxes.box_start[b]
    return int(boxes.low[t + c]) if c < width else int(~boxes.high[t + c - width])


@kernel
def _widest(boxes: Boxes, part: Int32s, width: int) -> int:
    """The coordinate with the most different values among some of the points."""
    step = max(1, len(part) // _SAMPLE)
    sample = np.empty((len(part) - 1) // step + 1, np.int64)
    best, most = 0, -1
    for c in range(2 * width):
        for i in range(len(sample)):
            sample[i] = _coordinate(boxes, part[i * step], c, width)
        sample.sort()
        different = 0
        for i in range(1, len(sample)):
            different += sample[i] != sample[i - 1]
        if different > most:
            best, most = c, different
    return best


@kernel
def _select(keys: Int64s, part: Int32s, half: int) -> None:
    """Bring the `half` lowest to the front, by key and, of equal keys, by number of the box."""
    low, high = 0, len(part) - 1
    scatter = np.uint64(len(part))
    while low < high:
        scatter = scatter * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)
        middle = low + int((scatter >> np.uint64(33)) % np.uint64(high - low + 1))
        key, box = keys[middle], part[middle]
        i, j = low, high
        while i <= j:
            while keys[i] < key or (keys[i] == key and part[i] < box):
                i += 1
            while keys[j] > key or (keys[j] == key and part[j] > box):
                j -= 1
            if i <= j:
                keys[i], keys[j] = keys[j], keys[i]
                part[i], part[j] = part[j], part[i]
                i += 1
                j -= 1
        if half <= j:
            high = j
        elif half >= i:
            low = i
        else:
            return


@kernel
def _bound(tree: CoverTree, k: int, width: int) -> None:
    """The skips and bounds of a kind's nodes, children before parents."""
    start, points = tree.node_start[k], tree.point_start[k]
    has_bits = tree.bits_start[k] < tree.bits_start[k + 1]
    for n in range(tree.node_start[k + 1] - 1, start - 1, -1):
        is_leaf = tree.past[n] - tree.first[n] <= _LEAF
        right = n + 1 if is_leaf else tree.skip[n + 1]
        tree.skip[n] = n + 1 if is_leaf else tree.skip[right]
        for j in range(width):
            low, high, bits = HIGHEST, NULL, np.uint64(0)
            if is_leaf:
                for i in range(tree.first[n], tree.past[n]):
                    point = (i - points) * width + j
                    at = tree.coordinate_start[k] + point
                    low, high = min(low, tree.low[at]), max(high, tree.high[at])
                    if has_bits:
                        bits |= tree.bits[tree.bits_start[k] + point]
            else:
                for child in (n + 1, right):
                    node = (child - start) * width + j
                    at = tree.bound_start[k] + node
                    low, high = min(low, tree.bound_low[at]), max(high, tree.bound_high[at])
                    if has_bits:
                        bits |= tree.bound_bits[tree.bound_bits_start[k] + node]
            node = (n - start) * width + j
            at = tree.bound_start[k] + node
            tree.bound_low[at], tree.bound_high[at] = low, high
            if has_bits:
                tree.bound_bits[tree.bound_bits_start[k] + node] = bits
