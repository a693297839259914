"""Feeding single views anew in a live configuration (delta §3.5): the kernels of `increments`."""

import numpy as np

from penstock.base.arrays import Bools, Int64s
from penstock.base.jit import kernel
from penstock.views.choosing.feeding import UNFED, Feeding, fits, latency_by, spread_latency
from penstock.views.choosing.user_lists import use
from penstock.views.rewriting_graph import SOURCE


@kernel
def feed_one(
    feed: Feeding, there: Bools, view: int, source: bool, alpha: float, beta: float
) -> bool:
    """Feed a view from its cheapest rewriting that has room, else from the source if it has. Whether it is fed."""
    best, least = UNFED, np.inf
    for r in range(feed.first[view], feed.first[view + 1]):
        usable = True
        for e in range(feed.start[r], feed.start[r + 1]):
            usable &= there[feed.inputs[e]] and feed.chosen[feed.inputs[e]] != UNFED
        if usable and fits(feed, view, r):
            cost = alpha * feed.utilisation[r] + beta * latency_by(feed, view, r)
            if cost < least:
                best, least = r, cost
    if best == UNFED:
        if not source:
            return False
        best = SOURCE
    use(feed, view, best)
    spread_latency(feed, view)
    return True


@kernel
def take_out(feed: Feeding, gone: Int64s, there: Bools) -> Int64s:
    """Feed views that have gone, and those that they fed, from nowhere. Returns the latter."""
    left = np.empty(len(feed.chosen), np.int64)
    count = 0
    for view in gone:
        use(feed, view, UNFED)
        feed.latency[view] = 0.0
        while feed.head[view] >= 0:
            user = feed.owner[feed.head[view]]
            use(feed, user, UNFED)
            if there[user]:
                left[count] = user
                count += 1
    return left[:count].copy()


@kernel
def become(feed: Feeding, chosen: Int64s) -> None:
    """Change to another configuration altogether; views in order of rank get their latency."""
    for view in range(len(chosen)):
        if chosen[view] != feed.chosen[view]:
            use(feed, view, chosen[view])
    for view in np.argsort(feed.rank):
        feed.latency[view] = 0.0 if chosen[view] == UNFED else latency_by(feed, view, chosen[view])


@kernel
def usable(feed: Feeding, there: Bools) -> Bools:
    """The rewritings of views that are there of which all inputs are."""
    usable = np.zeros(len(feed.start) - 1, np.bool_)
    for view in range(len(feed.first) - 1):
        if there[view]:
            for r in range(feed.first[view], feed.first[view + 1]):
                usable[r] = True
                for e in range(feed.start[r], feed.start[r + 1]):
                    usable[r] &= there[feed.inputs[e]]
    return usable
