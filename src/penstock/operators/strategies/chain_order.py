"""The order in which chains are evaluated, decided beforehand (operators §4.2).

    within a chain   its predicates by cost / (1 - selectivity), which is the cheapest order for one chain alone; with
                     equal costs by ascending selectivity, as operators §4.2 has it
    of two chains    the saving if u is evaluated before v: the sum over their equivalence links in `saving`
                     (operators §4.2.4)
    of all           edges u -> v by descending saving; one is taken if u has no successor yet, v no predecessor, and
                     it closes no cycle (operators §4.2.5 has an undirected graph, which can't say who is first). The
                     edges form paths, and a path is evaluated from its first chain to its last

Where operators §4.2 is silent or can't be followed:

- *Which pairs.* The paper takes all pairs. Only those that share a predicate save anything; and a predicate with a
  thousand chains still has a million pairs. So the chains of a predicate are sorted by their ratio P/C there (the
  chance of reaching it, divided by the cost of the nodes above it). That would be the order of their evaluation if they
  had no other link. Each is paired with the next `NEIGHBOURS` only: `python -m benchmarks operators -x order` shows no
  loss against all pairs beyond chance, and more neighbours don't help.
- *Ties in a chain.* The predicate that more chains have comes first.
- *The order of the paths.* Descending by the number of other chains that the chains of a path are expected to decide,
  each on its own: P summed over all their links, times the chance that the predicate is false. By cost, by the best
  chain or by the first one of a path was worse; in no order at all, 3 to 5 % worse.
- *Different costs.* operators §4.3 multiplies probabilities by costs, which makes products of costs. We take the cost
  of the nodes above a link as it is; a test shows that the difference is then exact.

Paths aren't the best order: without any edge, chains sorted by the number of chains that they are expected to decide,
divided by their cost, take 3 to 8 % fewer evaluations. That isn't Sub-Order any more; `adaptive` takes fewer still.
"""

from dataclasses import dataclass

import numpy as np

from penstock.base.arrays import Float64s, Int32s, Int64s
from penstock.base.jit import kernel
from penstock.operators.strategies.block import Index, freeze

NEIGHBOURS = 2


@dataclass(frozen=True, slots=True)
class Nodes:
    """The predicates of each chain in the order of their evaluation, laid out as in the index."""

    predicate: Int32s
    reach: Float64s  # P: the chance that all before it in its chain are true
    above: Float64s  # C: the expected cost of those
    pull: Float64s  # by chain: how many other chains it is expected to decide
    cost: Float64s  # by chain


def prices(at: Index) -> Float64s:
    """By predicate: cost / (1 - selectivity), by which a chain is sorted."""
    with np.errstate(divide="ignore"):
        found: Float64s = at.cost[at.owner] / (1.0 - at.true)
    return found


def nodes(at: Index) -> Nodes:
    """Sort every chain."""
    uses = np.diff(at.user_start)
    chain = np.repeat(np.arange(at.chains), np.diff(at.start))
    price = prices(at)[at.predicate]
    order = np.lexsort((at.predicate, -uses[at.predicate], price, chain))
    predicate = freeze(at.predicate[order])
    return Nodes(predicate, *_expected(at._replace(predicate=predicate), freeze(uses)))


@kernel
def _expected(at: Index, uses: Int64s) -> tuple[Float64s, Float64s, Float64s, Float64s]:
    start, predicate, owner, true = at.start, at.predicate, at.owner, at.true
    reach, above = np.empty(len(predicate)), np.empty(len(predicate))
    pull, total = np.zeros(len(start) - 1), np.zeros(len(start) - 1)
    for c in range(len(start) - 1):
        chance = 1.0
        for k in range(start[c], start[c + 1]):
            p = predicate[k]
            reach[k], above[k] = chance, total[c]
            is_paid = False
            for j in range(start[c], k):
                is_paid |= owner[predicate[j]] == owner[p]
            if not is_paid:
                total[c] += chance * at.cost[owner[p]]
            pull[c] += chance * (1.0 - true[p]) * (uses[p] - 1)
            chance *= true[p]
    return reach, above, pull, total


def order_chains(at: Index, found: Nodes, neighbours: int = NEIGHBOURS) -> Int32s:
    """All chains, in the order of their evaluation."""
    with np.errstate(divide="ignore"):
        ratio = found.reach / found.above
    chain = np.repeat(np.arange(at.chains, dtype=np.int32), np.diff(at.start))
    eager = (found.pull / np.maximum(found.cost, 1e-300))[chain]
    by_predicate = np.lexsort((chain, -eager, -ratio, found.predicate))
    sorted_index = at._replace(predicate=found.predicate, user=freeze(chain[by_predicate]))
    most = int(np.diff(at.user_start).max(initial=1))
    first, second, saved = _edges(sorted_index, min(neighbours, most))
    best = np.argsort(-saved, kind="stable")
    follower = _paths(freeze(first[best]), freeze(second[best]), at.chains)
    return _lined_up(follower, found)


@kernel
def _edges(at: Index, neighbours: int) -> tuple[Int32s, Int32s, Float64s]:
    """Pairs of chains that are neighbours at a predicate, with the one to evaluate first in front; their savings."""
    user_start, user = at.user_start, at.user
    room = len(user) * neighbours
    first, second, saved = np.empty(room, np.int32), np.empty(room, np.int32), np.empty(room)
    many = 0
    for p in range(len(user_start) - 1):
        for k in range(user_start[p], user_start[p + 1]):
            for j in range(k + 1, min(k + 1 + neighbours, user_start[p + 1])):
                u, v = user[k], user[j]
                gain = saving(u, v, at)
                if gain < 0:
                    u, v, gain = v, u, -gain
                if gain > 0:
                    first[many], second[many], saved[many] = u, v, gain
                    many += 1
    return first[:many], second[:many], saved[:many]


@kernel
def saving(u: int, v: int, at: Index) -> float:
    """How much cheaper u, then v is than v, then u (C2 - C1 in operators §4.2.4), with any number of links.

    Links never cross, because both chains are sorted alike: one pass over u finds them in the order of v.
    """
    start, predicate, owner, true, cost = at.start, at.predicate, at.owner, at.true, at.cost
    gain = 0.0
    reach_u, reach_v = 1.0, 1.0  # all nodes above are true
    rest_u, rest_v = 1.0, 1.0  # all nodes above that aren't shared are true
    above_u, above_v = 0.0, 0.0  # expected cost of those
    j = start[v]
    for i in range(start[u], start[u + 1]):
        p = predicate[i]
        is_shared = False
        for k in range(j, start[v + 1]):
            is_shared |= predicate[k] == p
        if is_shared:
            while predicate[j] != p:
                q = predicate[j]
                above_v += rest_v * cost[owner[q]]
                rest_v *= true[q]
                reach_v *= true[q]
                j += 1
            j += 1
            gain += (1.0 - true[p]) * (reach_u * above_v - reach_v * above_u)
            reach_u *= true[p]
            reach_v *= true[p]
        else:
            above_u += rest_u * cost[owner[p]]
            rest_u *= true[p]
            reach_u *= true[p]
    return gain


@kernel
def _paths(first: Int32s, second: Int32s, chains: int) -> Int32s:
    """The successor of each chain, or -1; edges are taken as they come."""
    follower = np.full(chains, -1, np.int32)
    is_followed = np.zeros(chains, np.bool_)
    root = np.arange(chains).astype(np.int32)
    for k in range(len(first)):
        u, v = first[k], second[k]
        if follower[u] >= 0 or is_followed[v]:
            continue
        a, b = u, v
        while root[a] != a:
            root[a] = root[root[a]]
            a = root[a]
        while root[b] != b:
            root[b] = root[root[b]]
            b = root[b]
        if a != b:
            root[b] = a
            follower[u] = v
            is_followed[v] = True
    return follower


def _lined_up(follower: Int32s, found: Nodes) -> Int32s:
    """The paths one after the other, those that are expected to decide most first."""
    chains, path = _along_paths(freeze(follower))
    pull = np.bincount(path, found.pull[chains])
    order: Int32s = chains[np.argsort(-pull[path], kind="stable")]
    return order


@kernel
def _along_paths(follower: Int32s) -> tuple[Int32s, Int32s]:
    """The chains path by path, each path from its first chain to its last, and the number of the path of each."""
    is_head = np.ones(len(follower), np.bool_)
    for c in range(len(follower)):
        if follower[c] >= 0:
            is_head[follower[c]] = False
    chains, path = np.empty(len(follower), np.int32), np.empty(len(follower), np.int32)
    at = paths = 0
    for head in range(len(follower)):
        if is_head[head]:
            c = head
            while c >= 0:
                chains[at], path[at] = c, paths
                at += 1
                c = int(follower[c])
            paths += 1
    return chains, path
