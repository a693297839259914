"""A configuration that changes: who feeds whom, and latencies that follow every change (delta §3.4).

`spread_latency` brings latencies up to date after one changed: users in ascending order of rank (a heap), so that each
view is recomputed once, after all its inputs, and only if an input's latency changed.
"""

from typing import NamedTuple

import numpy as np

from penstock.base.arrays import Bools, Float64s, Int32s, Int64s
from penstock.base.jit import kernel
from penstock.views.choosing.capacities import Capacities
from penstock.views.choosing.configuration import latencies
from penstock.views.choosing.user_lists import Users, leaves, list_users
from penstock.views.rewriting_graph import Configuration, Costs, RewritingGraph

UNFED = -2
"""In `users.chosen`, for a moment: the view is fed from nowhere."""


class Feeding(NamedTuple):
    """Who feeds whom, and what that means; `latency` follows `users`, `heap` and `queued` are scratch."""

    users: Users
    first: Int64s
    """View -> its rewritings first[v] .. first[v + 1]."""
    rank: Int32s
    utilisation: Float64s
    local: Float64s
    """Rewriting -> its own latency."""
    from_source: Float64s
    """View -> its latency if it is fed from the source."""
    most: Int64s
    """View -> how many views it may feed."""
    latency: Float64s
    heap: Int64s
    queued: Bools


def feeding(
    graph: RewritingGraph, configuration: Configuration, costs: Costs, capacities: Capacities
) -> Feeding:
    """A configuration made ready to be changed; the one given stays as it is."""
    views = len(graph.rank)
    return Feeding(
        list_users(graph.first, graph.start, graph.inputs, configuration.chosen, views),
        graph.first,
        graph.rank,
        costs.utilisation,
        costs.latency,
        costs.source_latency,
        capacities.views,
        latencies(graph, configuration, costs),
        np.empty(views, np.int64),
        np.zeros(views, np.bool_),
    )


@kernel
def latency_by(feed: Feeding, view: int, rewriting: int) -> float:
    """The latency that a view would have if it were fed so, as its inputs are now."""
    users = feed.users
    latency: float = feed.from_source[view]
    if rewriting >= 0:
        slowest = 0.0
        for e in range(users.start[rewriting], users.start[rewriting + 1]):
            slowest = max(slowest, feed.latency[users.inputs[e]])
        latency = feed.local[rewriting] + slowest
    return latency


@kernel
def fits(feed: Feeding, view: int, rewriting: int) -> bool:
    """Whether all inputs have room for a view, once it has left the rewriting that it has."""
    users = feed.users
    for e in range(users.start[rewriting], users.start[rewriting + 1]):
        used = users.inputs[e]
        room = feed.most[used] - users.load[used]
        if room <= 0 and room + leaves(users, view, used) <= 0:
            return False
    return True


@kernel
def spread_latency(feed: Feeding, view: int) -> None:
    """Bring latencies up to date after the way a view is fed has changed."""
    users = feed.users
    size = _push(feed, 0, view)
    while size:
        view = feed.heap[0]
        size = _pop(feed, size)
        now = latency_by(feed, view, users.chosen[view])
        if now == feed.latency[view]:
            continue
        feed.latency[view] = now
        entry = users.head[view]
        while entry >= 0:
            size = _push(feed, size, users.owner[entry])
            entry = users.after[entry]


@kernel
def _push(feed: Feeding, size: int, view: int) -> int:
    """Add a view to the heap, unless it is in it. Returns the new size."""
    if feed.queued[view]:
        return size
    feed.queued[view] = True
    at = size
    while at and feed.rank[feed.heap[(at - 1) >> 1]] > feed.rank[view]:
        feed.heap[at] = feed.heap[(at - 1) >> 1]
        at = (at - 1) >> 1
    feed.heap[at] = view
    return size + 1


@kernel
def _pop(feed: Feeding, size: int) -> int:
    """Take the view of least rank off the heap. Returns the new size."""
    feed.queued[feed.heap[0]] = False
    size -= 1
    last = feed.heap[size]
    at = 0
    while 2 * at + 1 < size:
        child = 2 * at + 1
        if child + 1 < size and feed.rank[feed.heap[child + 1]] < feed.rank[feed.heap[child]]:
            child += 1
        if feed.rank[feed.heap[child]] >= feed.rank[last]:
            break
        feed.heap[at] = feed.heap[child]
        at = child
    feed.heap[at] = last
    return size
