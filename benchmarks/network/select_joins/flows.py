"""From who reads a message to the links that it crosses: a node sends it to those below which somebody reads it."""

from typing import NamedTuple

import numpy as np

from benchmarks.network.select_joins.topology import DisseminationTree
from penstock.base.arrays import Int64s
from penstock.base.jit import kernel
from penstock.joins.readers import Readers


class Flow(NamedTuple):
    """What each message takes: overlay hops, those that leave the server, links of the underlying network, readers."""

    hops: Int64s
    leaving: Int64s
    links: Int64s
    readers: Int64s
    way: Int64s  # hops to each reader, summed


@kernel
def _flow(
    start: Int64s, nodes: Int64s, parent: Int64s, depth: Int64s, links: Int64s, out: Flow
) -> None:
    stamps = np.zeros(len(parent), np.int64)
    for m in range(len(start) - 1):
        stamp = m + 1
        for r in range(start[m], start[m + 1]):
            node = nodes[r]
            out.way[m] += depth[node]
            while parent[node] >= 0 and stamps[node] != stamp:
                stamps[node] = stamp
                out.hops[m] += 1
                out.links[m] += links[node]
                node = parent[node]
                if parent[node] < 0:
                    out.leaving[m] += 1
        out.readers[m] = start[m + 1] - start[m]


def shared_flow(readers: Readers, nodes: Int64s, tree: DisseminationTree) -> Flow:
    """Messages that the network passes on, once over each link. `nodes` has the node of each reader.

    >>> columns = [-1, 0, 0, 1], [0, 1, 1, 2], [0, 3, 3, 3], [0] * 4, [0] * 4
    >>> tree = DisseminationTree(*map(np.array, columns), 9)
    >>> flow = shared_flow(Readers(np.array([0, 3]), np.array([7, 8, 9])), np.array([3, 3, 1]), tree)
    >>> [int(column[0]) for column in flow]
    [2, 1, 6, 3, 5]
    """
    count = len(readers.start) - 1
    flow = Flow(*(np.zeros(count, np.int64) for _ in range(5)))
    _flow(readers.start, nodes, tree.parent, tree.depth, tree.links, flow)
    return flow


def unicast_flow(readers: Readers, nodes: Int64s, tree: DisseminationTree) -> Flow:
    """Messages that the server sends to each reader's node straight: one overlay hop each."""
    counts = np.diff(readers.start)
    below = np.concatenate([np.zeros(1, np.int64), np.cumsum(tree.links_from_server[nodes])])
    links = np.diff(below[readers.start])
    return Flow(counts, counts, links, counts, counts)
