"""Stabbing sets: clusters of ranges that have a point in common, the anchor, and as few of them as can be kept.

    ranges       ├────┤  ├──┤               anchors of two clusters: every range has one of them in it
                  ├─────┤  ├───────┤
                      ▲     ▲

What they are good for (section 3.1.1): whether a range has one of the joining tuples in it can be told for a whole
cluster by the two tuples next to the anchor. A gap between neighbouring tuples without an anchor in it has no range
wholly inside, so semijoins look at no gaps but those with an anchor.

The fewest possible: sort by last point, and put an anchor there whenever the range has none yet. One by one, a range
joins the cluster of the first anchor in it, or becomes one with its last point as anchor; a cluster goes when its last
range does. All are clustered anew when there are more than twice as many as at the last time (and 8 more), or when half
as many ranges as there were have come or gone. As insertions never lower the fewest possible, there are at most twice
as many and 8 as long as nothing is deleted.

The paper's clusters carry R-trees of their rectangles. Here one tree has all of them (`rectangles`), and a cluster is
no more than its anchor and how many ranges it has: nothing moves when all are clustered anew. The tree is cut along C
six times for each two along A, so it sorts by cluster by itself; measured on Table 2's subscriptions, whether a gap has
a rectangle inside takes 0.8 µs with 100K and 1.3 µs with 1M of them, and 6 and 30 µs if it is cut along all alike.
"""

import numpy as np

from penstock.arrays import Int64s
from penstock.jit import kernel
from penstock.joins.runs import first_at_least


@kernel
def fewest_anchors(first: Int64s, last: Int64s, order: Int64s, anchors: Int64s) -> int:
    """The anchors of as few clusters as possible, ascending, for ranges in the order of their last points."""
    count = 0
    for i in order:
        if count == 0 or anchors[count - 1] < first[i]:
            anchors[count] = last[i]
            count += 1
    return count


@kernel
def _join(
    first: Int64s, last: Int64s, which: Int64s, cluster: Int64s, sizes: Int64s, anchors: Int64s
) -> None:
    """Each range joins the first anchor in it."""
    for i in range(len(which)):
        at = first_at_least(anchors, 0, len(anchors), first[i])
        cluster[which[i]] = at
        sizes[at] += 1


def stabbed(ranges: Int64s) -> Int64s:
    """The fewest points so that every range (first, last) has one of them in it.

    >>> stabbed(np.array([[0, 5], [3, 8], [7, 9]])).tolist()
    [5, 9]
    """
    first, last = np.ascontiguousarray(ranges[:, 0]), np.ascontiguousarray(ranges[:, 1])
    anchors = np.empty(len(first), np.int64)
    return anchors[: fewest_anchors(first, last, np.argsort(last, kind="stable"), anchors)]


class Clusters:
    """The clusters of numbered ranges.

    >>> clusters = Clusters()
    >>> clusters.add(np.array([0, 1, 2]), np.array([[0, 5], [3, 8], [7, 9]]))
    >>> clusters.anchors.tolist()
    [5, 9]
    >>> clusters.remove(2); clusters.anchors.tolist()
    [5]
    """

    def __init__(self) -> None:
        self.anchors, self._sizes = np.empty(0, np.int64), np.empty(0, np.int64)  # ascending
        self._anchor = np.empty(0, np.int64)  # of a range's cluster
        self._ranges = np.empty((0, 2), np.int64)
        self._alive = np.empty(0, np.bool_)
        self._count = 0
        self._at_last = 0  # clusters when all were clustered anew
        self._touched = 0  # ranges that have come and gone since

    def __len__(self) -> int:
        return len(self.anchors)

    def add(self, numbers: Int64s, ranges: Int64s) -> None:
        """Add ranges (first, last) under numbers that aren't in use."""
        if not len(numbers):
            return
        self._reserve(int(numbers.max()) + 1)
        self._ranges[numbers] = ranges
        self._alive[numbers] = True
        self._count += len(numbers)
        self._touched += len(numbers)
        if len(numbers) > 64 or self._is_stale():
            self._anew()
            return
        for number, (first, last) in zip(numbers.tolist(), ranges.tolist(), strict=True):
            self._add(number, first, last)
        if self._is_stale():
            self._anew()

    def remove(self, number: int) -> None:
        """Forget a range."""
        at = int(np.searchsorted(self.anchors, self._anchor[number]))
        self._alive[number] = False
        self._count -= 1
        self._touched += 1
        self._sizes[at] -= 1
        if not self._sizes[at]:
            self.anchors = np.delete(self.anchors, at)
            self._sizes = np.delete(self._sizes, at)
        if self._is_stale():
            self._anew()

    def _add(self, number: int, first: int, last: int) -> None:
        at = int(np.searchsorted(self.anchors, first))
        if at == len(self.anchors) or self.anchors[at] > last:
            at = int(np.searchsorted(self.anchors, last))
            self.anchors = np.insert(self.anchors, at, last)
            self._sizes = np.insert(self._sizes, at, 0)
        self._anchor[number] = self.anchors[at]
        self._sizes[at] += 1

    def _is_stale(self) -> bool:
        return len(self.anchors) > 2 * self._at_last + 8 or self._touched > self._count // 2 + 64

    def _anew(self) -> None:
        alive = np.flatnonzero(self._alive)
        ranges = self._ranges[alive]
        self.anchors = stabbed(ranges)
        self._sizes = np.zeros(len(self.anchors), np.int64)
        cluster = np.zeros(len(self._alive), np.int64)
        first, last = np.ascontiguousarray(ranges[:, 0]), np.ascontiguousarray(ranges[:, 1])
        _join(first, last, alive, cluster, self._sizes, self.anchors)
        self._anchor[alive] = self.anchors[cluster[alive]]
        self._at_last, self._touched = len(self.anchors), 0

    def _reserve(self, size: int) -> None:
        if size <= len(self._alive):
            return
        more = max(size, 2 * len(self._alive)) - len(self._alive)
        self._anchor = np.concatenate([self._anchor, np.zeros(more, np.int64)])
        self._ranges = np.concatenate([self._ranges, np.zeros((more, 2), np.int64)])
        self._alive = np.concatenate([self._alive, np.zeros(more, np.bool_)])
