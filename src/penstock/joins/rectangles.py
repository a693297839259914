"""An index of the rectangles A × C of a group's subscriptions. `rectangle_tree` says how it is searched.

It is a k-d tree with buckets in flat arrays. Each node has a bounding box (one cache line):

    nodes      left, right (−1 in a leaf), parent, dimension and cut (≤ cut goes left), living rectangles, box
    buckets    up to 16 rectangles a leaf, most with successive numbers, so that a search reads them in one go
    chains     rectangle ─▶ first subscription ─▶ next …       equal rectangles are one rectangle

Invariants: the rectangles in a leaf's bucket are distinct, so a full bucket can always be cut. `living` of a node is
the number of rectangles below it. A node's box includes all of them; deletions don't shrink it.

joins §3.1.1 has an R-tree of two dimensions in each cluster. One tree for all clusters finds the same: the conditions
on C, which there choose the clusters, are part of the box here. `stabbing` says what that costs.
"""

from itertools import repeat
from typing import NamedTuple

import numpy as np

from penstock.base.arrays import AnyArray, Int32s, Int64s, grow_array
from penstock.base.jit import kernel
from penstock.joins.rectangle_tree import RectangleTree

BUCKET = 16
TURNS = (2, 3, 2, 3, 2, 3, 0, 1)  # along which dimensions nodes are cut, from the root down
MOST_DEPTH = 200  # a deeper tree is built anew
_NODES, _BUCKETS, _RECTANGLES, _FREE, _DEPTH = range(5)  # what `used` counts


class RectangleChains(NamedTuple):
    """The subscriptions of each rectangle, as a list that is linked both ways; -1 means none."""

    head: Int32s  # the first subscription of a rectangle
    following: Int32s
    previous: Int32s
    rectangle: Int32s  # of a subscription; -1: it has none


@kernel
def _leaf(tree: RectangleTree, corner: Int64s) -> tuple[int, int]:
    """The leaf where a rectangle is, or would be; and how deep it lies."""
    left, right, dimension, cut = tree.left, tree.right, tree.dimension, tree.cut
    node, depth = 0, 0
    while left[node] >= 0:
        node = left[node] if corner[dimension[node]] <= cut[node] else right[node]
        depth += 1
    return node, depth


@kernel
def _enclose(tree: RectangleTree, node: int, r: int) -> None:
    """Count one rectangle more below a node, and widen the node's box by it."""
    bounds = tree.bounds
    for d in range(4):
        value = tree.corners[r, d]
        if tree.living[node] == 0:
            bounds[node, d], bounds[node, d + 4] = value, value
        else:
            bounds[node, d] = min(bounds[node, d], value)
            bounds[node, d + 4] = max(bounds[node, d + 4], value)
    tree.living[node] += 1


@kernel
def _put(tree: RectangleTree, r: int, leaf: int) -> None:
    """Put a rectangle into a leaf with room."""
    tree.buckets[tree.right[leaf], tree.living[leaf]] = r
    node = leaf
    while node >= 0:
        _enclose(tree, node, r)
        node = tree.parent[node]


@kernel
def _where_to_cut(values: Int64s) -> tuple[int, int]:
    """Where to cut sorted values near the middle, with some on either side; and how many the smaller side has."""
    n = len(values)
    middle = n // 2
    above = middle
    while above < n and values[above] == values[middle - 1]:
        above += 1
    below = middle
    while below > 0 and values[below - 1] == values[middle]:
        below -= 1
    # `above` and `below` are where a new value begins; each is a possible cut.
    if below > 0 and (above == n or middle - below <= above - middle):
        return below, min(below, n - below)
    return above, n - above


@kernel
def _split(tree: RectangleTree, leaf: int, nodes: int, bucket: int, depth: int) -> None:
    """Make a full leaf two, the nodes `nodes` and `nodes` + 1; the right one gets the new `bucket`."""
    left, right, parent, living = tree.left, tree.right, tree.parent, tree.living
    buckets, corners = tree.buckets, tree.corners
    full = buckets[right[leaf]].copy()
    best, best_d, best_cut = 0, 0, np.int64(0)
    for turn in range(len(TURNS)):
        d = TURNS[(depth + turn) % len(TURNS)]
        values = np.empty(BUCKET, np.int64)
        for i in range(BUCKET):
            values[i] = corners[full[i], d]
        values.sort()
        place, balance = _where_to_cut(values)
        if balance > best:
            best, best_d, best_cut = balance, d, values[place - 1]
        if best >= BUCKET // 4:
            break
    old = right[leaf]
    for side in range(2):
        node = nodes + side
        left[node], parent[node], living[node] = -1, leaf, 0
        right[node] = bucket if side else old
    left[leaf], right[leaf] = nodes, nodes + 1
    tree.dimension[leaf], tree.cut[leaf] = best_d, best_cut
    for i in range(BUCKET):
        side = 0 if corners[full[i], best_d] <= best_cut else 1
        node = nodes + side
        buckets[right[node], living[node]] = full[i]
        _enclose(tree, node, full[i])


@kernel
def _add(
    tree: RectangleTree,
    used: Int64s,
    corner: Int64s,
    free: Int32s,
    subscription: int,
    chains: RectangleChains,
) -> None:
    """Add a subscription. `used` counts the nodes, buckets, rectangles and free rectangles, and has the depth."""
    living, buckets, corners = tree.living, tree.buckets, tree.corners
    head, following, previous, rectangle = (
        chains.head, chains.following, chains.previous, chains.rectangle,
    )  # fmt: skip
    leaf, depth = _leaf(tree, corner)
    used[_DEPTH] = max(used[_DEPTH], depth)
    bucket = tree.right[leaf]
    for i in range(living[leaf]):
        r = buckets[bucket, i]
        if (corners[r] == corner).all():
            previous[head[r]] = subscription
            following[subscription], previous[subscription], head[r] = head[r], -1, subscription
            rectangle[subscription] = r
            return
    if used[_FREE]:
        used[_FREE] -= 1
        r = free[used[_FREE]]
    else:
        r = used[_RECTANGLES]
        used[_RECTANGLES] += 1
    corners[r] = corner
    while living[leaf] == BUCKET:
        _split(tree, leaf, used[_NODES], used[_BUCKETS], depth)
        used[_NODES] += 2
        used[_BUCKETS] += 1
        leaf, depth = _leaf(tree, corner)
    _put(tree, r, leaf)
    head[r], rectangle[subscription] = subscription, r
    following[subscription], previous[subscription] = -1, -1


@kernel
def _add_all(
    tree: RectangleTree,
    used: Int64s,
    corners: Int64s,
    free: Int32s,
    subscriptions: Int64s,
    chains: RectangleChains,
) -> None:
    for i in range(len(subscriptions)):
        _add(tree, used, corners[i], free, subscriptions[i], chains)


@kernel
def _remove(
    tree: RectangleTree, used: Int64s, free: Int32s, subscription: int, chains: RectangleChains
) -> None:
    """Take a subscription off its rectangle's chain, and the rectangle away if it was the last."""
    living, buckets, parent = tree.living, tree.buckets, tree.parent
    head, following, previous, rectangle = (
        chains.head, chains.following, chains.previous, chains.rectangle,
    )  # fmt: skip
    r = rectangle[subscription]
    before, after = previous[subscription], following[subscription]
    rectangle[subscription] = -1
    if after >= 0:
        previous[after] = before
    if before >= 0:
        following[before] = after
        return
    head[r] = after
    if after >= 0:
        return
    node, _ = _leaf(tree, tree.corners[r])
    bucket = tree.right[node]
    last = living[node] - 1
    for i in range(last + 1):
        if buckets[bucket, i] == r:
            buckets[bucket, i] = buckets[bucket, last]
            break
    while node >= 0:
        living[node] -= 1
        node = parent[node]
    free[used[_FREE]] = r
    used[_FREE] += 1


@kernel
def _number_by_leaves(tree: RectangleTree, used: Int64s, chains: RectangleChains) -> None:
    """Number the rectangles anew, leaf by leaf. No number is free then."""
    left, right, living = tree.left, tree.right, tree.living
    buckets, corners = tree.buckets, tree.corners
    head, following, rectangle = chains.head, chains.following, chains.rectangle
    old_corners, old_head = corners.copy(), head.copy()
    count = 0
    for node in range(used[_NODES]):
        if left[node] >= 0:
            continue
        bucket = right[node]
        for i in range(living[node]):
            r = buckets[bucket, i]
            corners[count], head[count] = old_corners[r], old_head[r]
            buckets[bucket, i] = count
            s = head[count]
            while s >= 0:
                rectangle[s] = count
                s = following[s]
            count += 1
    used[_RECTANGLES], used[_FREE] = count, 0


class Rectangles:
    """The rectangles of numbered subscriptions. Numbers are small: they are positions in arrays.

    >>> rectangles = Rectangles()
    >>> rectangles.add(np.array([0, 1]), np.array([[10, 20, 5, 9], [15, 30, 5, 7]]))
    >>> box = np.array([0, 0, 0, 0, 18, 99, 99, 8])       # those that begin by a = 18 and end by c = 8
    >>> from penstock.joins.rectangle_tree import any_inside
    >>> any_inside(rectangles.tree, box), len(rectangles)
    (True, 2)
    """

    def __init__(self) -> None:
        self.tree = RectangleTree(
            left=np.full(1, -1, np.int32),
            right=np.zeros(1, np.int32),
            parent=np.full(1, -1, np.int32),
            dimension=np.zeros(1, np.int32),
            cut=np.zeros(1, np.int64),
            living=np.zeros(1, np.int32),
            bounds=np.zeros((1, 8), np.int64),
            buckets=np.zeros((1, BUCKET), np.int32),
            corners=np.zeros((1, 4), np.int64),
        )
        self.chains = RectangleChains(*(np.full(1, -1, np.int32) for _ in range(4)))
        self._free = np.zeros(1, np.int32)
        self._used = np.array([1, 1, 0, 0, 0], np.int64)
        self._numbered = 0  # rectangles when they were last numbered by leaves

    def __len__(self) -> int:
        """How many distinct rectangles there are."""
        return int(self.tree.living[0])

    def add(self, subscriptions: Int64s, corners: Int64s) -> None:
        """Add subscriptions that have no rectangle yet."""
        if not len(subscriptions):
            return
        self._reserve(len(subscriptions), int(subscriptions.max()) + 1)
        if len(subscriptions) > BUCKET:  # sorted ones would make a deep tree
            order = np.random.default_rng(len(subscriptions)).permutation(len(subscriptions))
            subscriptions, corners = subscriptions[order], corners[order]
        corners = np.ascontiguousarray(corners)
        _add_all(self.tree, self._used, corners, self._free, subscriptions, self.chains)
        if self._used[_DEPTH] > MOST_DEPTH:
            self._rebuild()
        if self._used[_RECTANGLES] > 2 * self._numbered:
            _number_by_leaves(self.tree, self._used, self.chains)
            self._numbered = int(self._used[_RECTANGLES])

    def remove(self, subscription: int) -> None:
        """Forget a subscription."""
        _remove(self.tree, self._used, self._free, subscription, self.chains)

    def _reserve(self, more: int, numbers: int) -> None:
        """Make room for more rectangles, and for subscriptions up to a number."""
        # A cut leaves something on either side: at worst each rectangle cuts a leaf.
        nodes, buckets, rectangles = self._used[:3].tolist()
        sizes = [nodes + 2 * more] * 7 + [buckets + more, rectangles + more]
        arrays: tuple[AnyArray, ...] = self.tree
        self.tree = RectangleTree(*map(grow_array, arrays, sizes, repeat(-1)))
        sizes = [rectangles + more, *[numbers] * 3]
        self.chains = RectangleChains(*map(grow_array, self.chains, sizes, repeat(-1)))
        self._free = grow_array(self._free, rectangles + more)

    def _rebuild(self) -> None:
        subscriptions = np.flatnonzero(self.chains.rectangle >= 0)
        corners = self.tree.corners[self.chains.rectangle[subscriptions]]
        fresh = Rectangles()
        fresh.add(subscriptions, corners)
        self.__dict__.update(fresh.__dict__)
        self._used[_DEPTH] = 0
