"""A content-addressable network (joins §A): zones of a (low, high) space, and messages routed to regions of it.

    zones          each owned by a node, which has the subscriptions whose points are in it
    neighbours     zones that touch along a side
    a message      describes a region: boxes of points whose subscriptions it may be for
    routing        from the server's zone over neighbours to the nearest zone of the region, and from there through the
                   region; a part of it that doesn't hang together with the rest is reached from outside

All zones that meet the region get the message, whether or not they have a subscription that reads it: a node knows its
neighbours' zones, not their subscriptions.
"""

from typing import NamedTuple

import numpy as np

from benchmarks.network.select_joins.zones import Zones
from penstock.base.arrays import Bools, Int64s
from penstock.base.jit import kernel
from penstock.joins.axes import BEYOND, NOWHERE
from penstock.joins.messages import BASE, DROPPED, SELECTED, Messages


class ContentAddressableNetwork(NamedTuple):
    """Zones, which touch which (of zone i: touching[start[i] : start[i + 1]]), and the ways from the server's."""

    low: Int64s
    high: Int64s
    start: Int64s
    touching: Int64s
    parent: Int64s  # on the way to the server's zone, -1 of that itself
    depth: Int64s


def addressable_network(zones: Zones, server: int = 0) -> ContentAddressableNetwork:
    """The network of some zones; a server is at one of them.

    >>> from benchmarks.network.select_joins.zones import split_zones
    >>> can = addressable_network(split_zones(np.array([[1, 5], [2, 6], [7, 9], [8, 9]]), 4))
    >>> len(can.low), int(can.depth.max()) > 0
    (4, True)
    """
    count = len(zones)
    touching: list[Int64s] = []
    for zone in range(count):
        meets = (zones.low <= zones.high[zone]) & (zones.high >= zones.low[zone])
        above = zones.low == zones.high[zone] + 1
        below = zones.high == zones.low[zone] - 1
        beside = above | below
        near = (
            (beside.sum(axis=1) >= 1)
            & ((meets | beside).all(axis=1))
            & (meets.sum(axis=1) >= zones.low.shape[1] - 1)
        )
        near[zone] = False
        touching.append(np.flatnonzero(near))
    start = np.concatenate([np.zeros(1, np.int64), np.cumsum([len(t) for t in touching])])
    parent, depth = np.full(count, -1, np.int64), np.full(count, -1, np.int64)
    depth[server], ahead = 0, [server]
    for zone in ahead:
        for other in touching[zone].tolist():
            if depth[other] < 0:
                depth[other], parent[other] = depth[zone] + 1, zone
                ahead.append(other)
    return ContentAddressableNetwork(
        zones.low, zones.high, start, np.concatenate(touching), parent, depth
    )


def regions(messages: Messages, is_joined: bool, is_swapped: bool) -> tuple[Int64s, Int64s]:
    """The boxes of each message's region, and where they start. Dimensions: low and high of the base, of the filter.

    Rows of a join have a point of both. `is_swapped`: the base table is the second of the space.
    """
    counts = np.maximum(messages.points(), 1)
    start = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
    owner = np.repeat(np.arange(len(messages)), counts)
    form = messages.form[owner]
    boxes = np.empty((len(owner), 8), np.int64)
    boxes[:, :4], boxes[:, 4:] = NOWHERE, BEYOND
    has_a = form != DROPPED
    boxes[has_a, 4] = boxes[has_a, 1] = messages.a[owner][has_a]
    has_points = messages.points()[owner] > 0
    x, y = (np.zeros(len(owner), np.int64) for _ in range(2))
    x[has_points], y[has_points] = (
        messages.x[: messages.start[-1]],
        messages.y[: messages.start[-1]],
    )
    of_filter, of_base = has_points & (form == BASE), has_points & (form == DROPPED)
    boxes[of_filter, 6], boxes[of_filter, 3] = x[of_filter], y[of_filter]
    boxes[of_base, 4], boxes[of_base, 1] = x[of_base], y[of_base]
    exact = (form != BASE) & (form != SELECTED)
    c = messages.c[owner]
    boxes[exact, 6] = boxes[exact, 3] = c[exact]
    if not is_joined:
        boxes[exact, 2], boxes[exact, 7] = (
            messages.below[owner][exact] + 1,
            messages.above[owner][exact] - 1,
        )
    if is_swapped:
        boxes = boxes[:, [2, 3, 0, 1, 6, 7, 4, 5]]
    return start, boxes


@kernel
def _meets(low: Int64s, high: Int64s, box: Int64s) -> bool:
    is_met = True
    for d in range(4):
        is_met = is_met and low[d] <= box[d + 4] and high[d] >= box[d]
    return is_met


@kernel
def _mark(can: ContentAddressableNetwork, boxes: Int64s, inside: Bools) -> int:
    count = 0
    for zone in range(len(inside)):
        inside[zone] = False
        for b in range(len(boxes)):
            if _meets(can.low[zone], can.high[zone], boxes[b]):
                inside[zone] = True
                count += 1
                break
    return count


@kernel
def region_hops(
    can: ContentAddressableNetwork, start: Int64s, boxes: Int64s, hops: Int64s, stress: Int64s
) -> None:
    """How many messages between nodes each region takes, and how many of them leave the server."""
    count = len(can.low)
    inside = np.empty(count, np.bool_)
    crossed = np.zeros(count, np.int64)  # the link to the parent, by the last message that took it
    entered = np.zeros(count, np.int64)
    ahead = np.empty(count, np.int64)
    for m in range(len(hops)):
        _mark(can, boxes[start[m] : start[m + 1]], inside)
        total = 0
        leaving = 0
        stamp = m + 1
        while True:
            entry = -1
            for zone in range(count):
                is_next = inside[zone] and entered[zone] != stamp
                if is_next and (entry < 0 or can.depth[zone] < can.depth[entry]):
                    entry = zone
            if entry < 0:
                break
            zone = entry
            while can.parent[zone] >= 0 and crossed[zone] != stamp:
                crossed[zone] = stamp
                total += 1
                zone = can.parent[zone]
                if can.parent[zone] < 0:
                    leaving += 1
            entered[entry] = stamp
            ahead[0] = entry
            first, past = 0, 1
            while first < past:
                zone = ahead[first]
                first += 1
                for t in range(can.start[zone], can.start[zone + 1]):
                    other = can.touching[t]
                    if inside[other] and entered[other] != stamp:
                        entered[other] = stamp
                        ahead[past] = other
                        past += 1
                        total += 1
                        if can.parent[zone] < 0:
                            leaving += 1
        hops[m], stress[m] = total, leaving
