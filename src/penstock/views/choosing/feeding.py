"""A configuration that changes: who feeds whom, and latencies that follow every change (delta §3.4).

`spread_latency` brings latencies up to date after one changed. Users come in ascending order of rank (a heap), so each
view is recomputed once, after all its inputs, and only if an input's latency changed.
"""

from typing import NamedTuple

import numpy as np

from penstock.base.arrays import Bools, Float64s, Int32s, Int64s
from penstock.base.jit import kernel
from penstock.views.choosing.capacities import Capacities
from penstock.views.choosing.configuration import latencies
from penstock.views.choosing.user_lists import leaves, list_users
from penstock.views.rewriting_graph import Configuration, Costs, RewritingGraph


class Feeding(NamedTuple):
    """Who feeds whom, as in `Users`, with all figures that LOGA needs. `heap` and `queued` are scratch space.

    The record is flat: a record within it makes LOGA take half as long again.
    """

    start: Int64s
    inputs: Int32s
    owner: Int32s
    chosen: Int64s
    load: Int64s
    head: Int64s
    after: Int64s
    before: Int64s
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
        *list_users(graph.first, graph.start, graph.inputs, configuration.chosen, views),
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
    """The latency that a view would have by a rewriting (negative: from the source), as latencies are now."""
    latency: float = feed.from_source[view]
    if rewriting >= 0:
        slowest = slowest_input(feed.start, feed.inputs, feed.latency, rewriting)
        latency = feed.local[rewriting] + slowest
    return latency


@kernel
def slowest_input(start: Int64s, inputs: Int32s, latency: Float64s, rewriting: int) -> float:
    """The largest latency of a rewriting's inputs."""
    slowest = 0.0
    for e in range(start[rewriting], start[rewriting + 1]):
        slowest = max(slowest, latency[inputs[e]])
    return slowest


@kernel
def fits(feed: Feeding, view: int, rewriting: int) -> bool:
    """Whether all inputs have room for a view, once it has left the rewriting that it has."""
    for e in range(feed.start[rewriting], feed.start[rewriting + 1]):
        used = feed.inputs[e]
        room = feed.most[used] - feed.load[used]
        if room <= 0 and room + leaves(feed, view, used) <= 0:
            return False
    return True


@kernel
def spread_latency(feed: Feeding, view: int) -> None:
    """Bring latencies up to date after the way a view is fed has changed."""
    heap, queued, rank = feed.heap, feed.queued, feed.rank
    size = _push(heap, queued, rank, 0, view)
    while size:
        view = heap[0]
        size = _pop(heap, queued, rank, size)
        now = latency_by(feed, view, feed.chosen[view])
        if now == feed.latency[view]:
            continue
        feed.latency[view] = now
        entry = feed.head[view]
        while entry >= 0:
            size = _push(heap, queued, rank, size, feed.owner[entry])
            entry = feed.after[entry]


@kernel
def _push(heap: Int64s, queued: Bools, rank: Int32s, size: int, view: int) -> int:
    """Add a view to the heap, unless it is in it. Returns the new size."""
    if queued[view]:
        return size
    queued[view] = True
    at = size
    while at and rank[heap[(at - 1) >> 1]] > rank[view]:
        heap[at] = heap[(at - 1) >> 1]
        at = (at - 1) >> 1
    heap[at] = view
    return size + 1


@kernel
def _pop(heap: Int64s, queued: Bools, rank: Int32s, size: int) -> int:
    """Take the view of least rank off the heap. Returns the new size."""
    queued[heap[0]] = False
    size -= 1
    last = heap[size]
    at = 0
    while 2 * at + 1 < size:
        child = 2 * at + 1
        if child + 1 < size and rank[heap[child + 1]] < rank[heap[child]]:
            child += 1
        if rank[heap[child]] >= rank[last]:
            break
        heap[at] = heap[child]
        at = child
    heap[at] = last
    return size
