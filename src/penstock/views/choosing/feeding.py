"""A configuration that changes: who feeds whom, and latencies that follow every change (delta §3.4).

    chosen     view -> rewriting, or the source          load       view -> how many rewritings use it
    latency    view -> λ
    head, after, before, owner                           the lists of everybody's users (`user_lists`)

`spread_latency` brings latencies up to date after one changed: users in ascending order of rank (a heap), so that each
view is recomputed once, after all its inputs, and only if an input's latency changed.
"""

from typing import NamedTuple

import numpy as np

from penstock.base.arrays import Bools, Float64s, Int32s, Int64s
from penstock.base.jit import kernel
from penstock.views.choosing.configuration import latencies, loads
from penstock.views.choosing.user_lists import entry_owners, link, list_users, unlink
from penstock.views.rewriting_graph import SOURCE, Configuration, Costs, RewritingGraph

UNFED = -2
"""In `chosen`, for a moment: the view is fed from nowhere."""


class Feeding(NamedTuple):
    """The arrays; all but the first five change."""

    start: Int64s
    inputs: Int32s
    rank: Int32s
    local: Float64s
    from_source: Float64s
    owner: Int32s
    """Entry -> the view whose rewriting it belongs to."""
    chosen: Int64s
    load: Int64s
    latency: Float64s
    head: Int64s
    after: Int64s
    before: Int64s
    heap: Int64s
    queued: Bools


def feeding(graph: RewritingGraph, configuration: Configuration, costs: Costs) -> Feeding:
    """A configuration made ready to be changed; the one given stays as it is."""
    views = len(graph.rank)
    return Feeding(
        graph.start,
        graph.inputs,
        graph.rank,
        costs.latency,
        costs.source_latency,
        entry_owners(graph.first, graph.start, len(graph.inputs)),
        configuration.chosen.copy(),
        loads(graph, configuration).views,
        latencies(graph, configuration, costs),
        *list_users(graph.start, graph.inputs, configuration.chosen, views),
        np.empty(views, np.int64),
        np.zeros(views, np.bool_),
    )


@kernel
def feed_from(feed: Feeding, view: int, rewriting: int) -> None:
    """Feed a view from one of its rewritings, the source or nowhere. Latencies aren't touched."""
    old = feed.chosen[view]
    if old >= 0:
        unlink(feed.start, feed.inputs, feed.head, feed.after, feed.before, old)
        for e in range(feed.start[old], feed.start[old + 1]):
            feed.load[feed.inputs[e]] -= 1
    if rewriting >= 0:
        link(feed.start, feed.inputs, feed.head, feed.after, feed.before, rewriting)
        for e in range(feed.start[rewriting], feed.start[rewriting + 1]):
            feed.load[feed.inputs[e]] += 1
    feed.chosen[view] = rewriting


@kernel
def latency_by(feed: Feeding, view: int, rewriting: int) -> float:
    """The latency that a view would have if it were fed so, as its inputs are now."""
    latency: float = feed.from_source[view]
    if rewriting >= 0:
        slowest = 0.0
        for e in range(feed.start[rewriting], feed.start[rewriting + 1]):
            slowest = max(slowest, feed.latency[feed.inputs[e]])
        latency = feed.local[rewriting] + slowest
    return latency


@kernel
def fits(feed: Feeding, capacity: Int64s, view: int, rewriting: int) -> bool:
    """Whether all inputs have room for a view, once it has left the rewriting that it has."""
    old = feed.chosen[view]
    for e in range(feed.start[rewriting], feed.start[rewriting + 1]):
        source = feed.inputs[e]
        if feed.load[source] < capacity[source]:
            continue
        leaves = 0
        if old >= 0:
            for f in range(feed.start[old], feed.start[old + 1]):
                leaves += feed.inputs[f] == source
        if feed.load[source] - leaves >= capacity[source]:
            return False
    return True


@kernel
def spread_latency(feed: Feeding, view: int) -> None:
    """Latencies after the way a view is fed has changed."""
    size = _push(feed, 0, view)
    while size:
        view = feed.heap[0]
        size = _pop(feed, size)
        now = latency_by(feed, view, feed.chosen[view])
        if now == feed.latency[view]:
            continue
        feed.latency[view] = now
        entry = feed.head[view]
        while entry >= 0:
            size = _push(feed, size, feed.owner[entry])
            entry = feed.after[entry]


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


def as_configuration(feed: Feeding) -> Configuration:
    """What the changes have led to."""
    return Configuration(np.where(feed.chosen < 0, SOURCE, feed.chosen))
