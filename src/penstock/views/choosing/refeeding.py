"""Feeding single views anew in a configuration that lives (delta §3.5): the kernels of `increments`."""

import numpy as np

from penstock.base.arrays import Bools, Float64s, Int32s, Int64s
from penstock.base.jit import kernel
from penstock.views.choosing.feeding import (
    UNFED,
    Feeding,
    feed_from,
    fits,
    latency_by,
    spread_latency,
)
from penstock.views.rewriting_graph import SOURCE


@kernel
def feed_one(
    feed: Feeding,
    first: Int64s,
    utilisation: Float64s,
    capacity: Int64s,
    there: Bools,
    view: int,
    source: bool,
    alpha: float,
    beta: float,
) -> bool:
    """Feed a view from its cheapest rewriting that has room, else from the source if it has. Whether it is fed."""
    best, least = UNFED, np.inf
    for r in range(first[view], first[view + 1]):
        usable = True
        for e in range(feed.start[r], feed.start[r + 1]):
            usable &= there[feed.inputs[e]] and feed.chosen[feed.inputs[e]] != UNFED
        if usable and fits(feed, capacity, view, r):
            cost = alpha * utilisation[r] + beta * latency_by(feed, view, r)
            if cost < least:
                best, least = r, cost
    if best == UNFED:
        if not source:
            return False
        best = SOURCE
    feed_from(feed, view, best)
    spread_latency(feed, view)
    return True


@kernel
def take_out(feed: Feeding, gone: Int64s, there: Bools) -> Int64s:
    """Feed views that have gone, and those that they fed, from nowhere. Returns the latter."""
    left = np.empty(len(feed.chosen), np.int64)
    count = 0
    for view in gone:
        feed_from(feed, view, UNFED)
        feed.latency[view] = 0.0
        while feed.head[view] >= 0:
            user = feed.owner[feed.head[view]]
            feed_from(feed, user, UNFED)
            if there[user]:
                left[count] = user
                count += 1
    return left[:count].copy()


@kernel
def become(feed: Feeding, chosen: Int64s) -> None:
    """Another configuration altogether; views in order of rank get their latency."""
    for view in range(len(chosen)):
        if chosen[view] != feed.chosen[view]:
            feed_from(feed, view, UNFED)
    for view in range(len(chosen)):
        if chosen[view] != feed.chosen[view]:
            feed_from(feed, view, chosen[view])
    for view in np.argsort(feed.rank):
        feed.latency[view] = 0.0 if chosen[view] == UNFED else latency_by(feed, view, chosen[view])


@kernel
def usable(start: Int64s, inputs: Int32s, first: Int64s, there: Bools) -> Bools:
    """The rewritings of views that are there of which all inputs are."""
    usable = np.zeros(len(start) - 1, np.bool_)
    for view in range(len(first) - 1):
        if there[view]:
            for r in range(first[view], first[view + 1]):
                usable[r] = True
                for e in range(start[r], start[r + 1]):
                    usable[r] &= there[inputs[e]]
    return usable
