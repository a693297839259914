"""Zones of the space of subscriptions, split by load, and which node of an overlay has which subscriptions (joins §A).

A subscription is a point: the low and the high end of each of its ranges. The space is cut in two at the median of some
dimension, and again, until there are as many zones as nodes, always where most subscriptions are. Nodes of a tree get
zones so that neighbours in the space are neighbours in the tree.

The paper's nodes have subscriptions by zones, too (its CN is a CAN); `anywhere` has them at nodes drawn at random, as
if each subscriber stayed at the broker that it happens to know.
"""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.network.select_joins.topology import DisseminationTree
from penstock.base.arrays import Int64s
from penstock.joins.subscription import SelectJoin

LEAST, MOST = -(2**62), 2**62  # ends of a range without an end, or of a table that isn't asked for
SEED = 20_11


@dataclass(frozen=True, eq=False)
class Zones:
    """Boxes that make up the space: first and last coordinate of each dimension; and the zone of each subscription."""

    low: Int64s
    high: Int64s
    zone_of: Int64s

    def __len__(self) -> int:
        return len(self.low)


def subscription_points(
    joins: Sequence[tuple[int, SelectJoin]], attributes: Sequence[tuple[str, str]]
) -> Int64s:
    """Subscriptions as points, a row each: low and high end of each attribute's range, whose keys are integers."""
    found = np.empty((len(joins), 2 * len(attributes)), np.int64)
    for row, (_, join) in enumerate(joins):
        ranges = {(side.table, name): v for side in join.sides for name, v in side.ranges}
        for n, attribute in enumerate(attributes):
            ends = ranges[attribute].intervals[0] if attribute in ranges else (None, None)
            first, past = ends
            found[row, 2 * n] = LEAST if first is None else first
            found[row, 2 * n + 1] = MOST if past is None else int(past) - 1
    return found


def split_zones(points: Int64s, count: int) -> Zones:
    """So many zones, or fewer if subscriptions are too much alike. Zones near each other have near numbers.

    >>> zones = split_zones(np.array([[1, 5], [2, 6], [7, 9], [8, 9]]), 2)
    >>> zones.zone_of.tolist(), zones.high[0].tolist() != zones.high[1].tolist()
    ([0, 0, 1, 1], True)
    """
    dimensions = points.shape[1]
    low = [np.full(dimensions, LEAST - 1, np.int64)]
    high = [np.full(dimensions, MOST + 1, np.int64)]
    members = [np.arange(len(points))]
    names = [""]  # of zones: 0 and 1 for each cut, so that their order is that of the space
    largest = [(-len(points), 0)]
    while len(members) < count and largest:
        _, zone = heapq.heappop(largest)
        cut = _cut(points[members[zone]])
        if cut is None:
            continue
        dimension, at = cut
        is_left = points[members[zone], dimension] <= at
        low.append(low[zone].copy())
        high.append(high[zone].copy())
        low[-1][dimension] = at + 1
        high[zone][dimension] = at
        members.append(members[zone][~is_left])
        members[zone] = members[zone][is_left]
        names.append(names[zone] + "1")
        names[zone] += "0"
        for one in (zone, len(members) - 1):
            heapq.heappush(largest, (-len(members[one]), one))
    order = sorted(range(len(members)), key=lambda zone: names[zone])
    zone_of = np.empty(len(points), np.int64)
    for number, zone in enumerate(order):
        zone_of[members[zone]] = number
    return Zones(np.stack(low)[order], np.stack(high)[order], zone_of)


def _cut(points: Int64s) -> tuple[int, int] | None:
    """The dimension in which subscriptions are spread most, by their quartiles, and where its halves meet."""
    if len(points) < 2:
        return None
    ordered = np.sort(points, axis=0)
    quarter = len(points) // 4
    spread = ordered[-1 - quarter].astype(np.float64) - ordered[quarter]
    for dimension in np.argsort(-spread).tolist():
        column = ordered[:, dimension]
        at = int(column[(len(column) - 1) // 2])
        if at == column[-1]:
            smaller = column[column < at]
            if not len(smaller):
                continue
            at = int(smaller[-1])
        return dimension, at
    return None


def by_zones(zones: Zones, tree: DisseminationTree) -> Int64s:
    """The node of each subscription: zones in their order to nodes in preorder; the server has none."""
    nodes = tree.preorder[1:]
    at = np.arange(len(zones)) * len(nodes) // len(zones)
    found: Int64s = nodes[at][zones.zone_of]
    return found


def anywhere(count: int, tree: DisseminationTree) -> Int64s:
    """Nodes drawn at random for so many subscriptions."""
    return np.random.default_rng(SEED).integers(1, len(tree), count)
