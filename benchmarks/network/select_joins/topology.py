"""An Internet-like topology, an overlay in it, and the tree along which a server's messages go (joins §6).

    20,000 nodes      degrees by a power law, exponent 2.2, places in a square; a link is as slow as it is long (Inet)
    1,000 of them     the overlay, drawn at random; latencies between them are those of the shortest ways
    overlay links     each node to its 5 nearest and to 3 others
    tree              the shortest ways from the server over overlay links

The paper has Inet's own generator, and doesn't say which overlay links its CAN's neighbours make; it counts overlay
hops only, "because IP-level costs generally follow similar trends". Here both are counted.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from penstock.base.arrays import Int64s

SEED = 20_10
NODES, OVERLAY = 20_000, 1_000
_EXPONENT = 2.2
_NEAREST, _OTHERS = 5, 3
_SIDE = 10_000.0  # of the square, in which Inet places nodes


@dataclass(frozen=True, eq=False)
class DisseminationTree:
    """The overlay as seen from a server, which is node 0. Nodes are numbered so that parents come before children."""

    parent: Int64s  # -1 of the server
    depth: Int64s
    links: Int64s  # of the underlying network, between a node and its parent
    links_from_server: Int64s  # on the shortest way through the underlying network
    preorder: Int64s  # nodes in an order in which a subtree is contiguous
    nodes_below: int  # in the underlying network

    def __len__(self) -> int:
        return len(self.parent)

    @property
    def server_links(self) -> int:
        return int((self.parent == 0).sum())


@lru_cache(maxsize=4)
def internet_tree(
    nodes: int = NODES, overlay: int = OVERLAY, seed: int = SEED
) -> DisseminationTree:
    """The tree of a topology, always the same one.

    >>> tree = internet_tree(300, 40)
    >>> len(tree), int(tree.parent[0]), bool((tree.parent[1:] < np.arange(1, 40)).all()), int(tree.depth.max()) < 20
    (40, -1, True, True)
    """
    import igraph

    random = np.random.default_rng(seed)
    igraph.set_random_number_generator(_Draws(seed))
    graph = igraph.Graph.Degree_Sequence(_degrees(nodes, random).tolist(), method="vl")
    places = random.uniform(0, _SIDE, (nodes, 2))
    ends = np.array(graph.get_edgelist())
    graph.es["latency"] = np.linalg.norm(places[ends[:, 0]] - places[ends[:, 1]], axis=1).tolist()
    members = random.permutation(nodes)[:overlay].tolist()
    latency = np.array(graph.distances(members, members, weights="latency"))
    pairs = _overlay_links(latency, random)
    mesh = igraph.Graph(n=overlay, edges=pairs)
    mesh.es["latency"] = [float(latency[a, b]) for a, b in pairs]
    middle = int(np.argsort(latency.sum(axis=1))[overlay // 2])  # a server like any other
    parent, depth = _shortest_tree(mesh, middle)
    order = np.lexsort((np.arange(overlay), depth))
    number = np.empty(overlay, np.int64)
    number[order] = np.arange(overlay)
    renumbered = np.where(parent[order] < 0, -1, number[parent[order]])
    links = np.zeros(overlay, np.int64)
    from_server = np.zeros(overlay, np.int64)
    ways = graph.get_shortest_paths(members[middle], members, weights="latency")
    for node in range(overlay):
        from_server[number[node]] = len(ways[node]) - 1
        if parent[node] >= 0:
            (way,) = graph.get_shortest_paths(
                members[int(parent[node])], [members[node]], weights="latency"
            )
            links[number[node]] = len(way) - 1
    return DisseminationTree(
        renumbered, depth[order], links, from_server, _preorder(renumbered), nodes
    )


class _Draws:
    """Random numbers for igraph from a seed."""

    def __init__(self, seed: int) -> None:
        import random

        drawn = random.Random(seed)
        self.random, self.randint = drawn.random, drawn.randint
        self.gauss, self.getrandbits = drawn.gauss, drawn.getrandbits


def _degrees(nodes: int, random: np.random.Generator) -> Int64s:
    """A power law, with enough links to connect all."""
    most = int(nodes ** (1 / (_EXPONENT - 1)))
    values = np.arange(1, min(most, nodes - 1) + 1)
    weights = values**-_EXPONENT
    degrees: Int64s = random.choice(values, nodes, p=weights / weights.sum())
    while degrees.sum() % 2 or degrees.sum() < 2 * (nodes - 1):
        degrees[random.integers(nodes)] += 1
    return degrees


def _overlay_links(
    latency: np.ndarray[tuple[int, ...], np.dtype[np.float64]], random: np.random.Generator
) -> list[tuple[int, int]]:
    found = set()
    count = len(latency)
    for node in range(count):
        nearest = np.argsort(latency[node])[1 : _NEAREST + 1].tolist()
        for other in [*nearest, *random.integers(0, count, _OTHERS).tolist()]:
            if other != node:
                found.add((min(node, other), max(node, other)))
    return sorted(found)


def _shortest_tree(mesh: "igraph.Graph", root: int) -> tuple[Int64s, Int64s]:  # type: ignore[name-defined]  # noqa: F821
    """Parent and depth of each node on the shortest ways from a root."""
    parent = np.full(mesh.vcount(), -1, np.int64)
    depth = np.zeros(mesh.vcount(), np.int64)
    for way in mesh.get_shortest_paths(root, weights="latency"):
        for at, node in enumerate(way[1:], start=1):
            parent[node], depth[node] = way[at - 1], at
    return parent, depth


def _preorder(parent: Int64s) -> Int64s:
    children: list[list[int]] = [[] for _ in parent]
    for node, above in enumerate(parent.tolist()):
        if above >= 0:
            children[above].append(node)
    found, ahead = [], [0]
    while ahead:
        node = ahead.pop()
        found.append(node)
        ahead += reversed(children[node])
    return np.array(found, np.int64)
