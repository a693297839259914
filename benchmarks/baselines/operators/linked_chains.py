"""The order of chains, kept up while chains come and go (operators §4.2.1), without ordering all anew.

The chains are a doubly linked list in the order of their evaluation; each predicate has its chains sorted by their
ratio P/C there, as `chain_order` sorts them. A new chain is compared with its neighbours at each of its predicates, and
goes right after or right before the one with which the cost difference is largest; one that has no difference with
anybody goes last. To take a chain out is to unlink it.

A position is decided once. So the order drifts from the one that `chain_order` would give, which matters little:
`python -m benchmarks operators --experiment order` measures by how much.
"""

import bisect
from collections.abc import Sequence

import numpy as np

from benchmarks.operators.chain_lists import chains_of
from penstock.base.errors import PenstockError
from penstock.operators.chains import Chains, Estimates
from penstock.operators.strategies.block import freeze, index
from penstock.operators.strategies.chain_order import (
    NEIGHBOURS,
    nodes,
    order_chains,
    prices,
    saving,
)
from penstock.operators.strategies.sub_order import SubOrder

_END = -1  # before the first chain, and after the last


class LinkedChains:
    """Chains over the predicates of some estimates, each predicate an invocation of its own.

    >>> estimates = Estimates(np.array([0.1, 0.5, 0.6]), np.ones(3))
    >>> linked = LinkedChains(chains_of([[1, 2]], decides=[1, 1, 1]), estimates)
    >>> linked.insert([0, 2])
    1
    >>> linked.order()
    [0, 1]
    >>> linked.delete(0)
    >>> linked.order()
    [1]
    """

    def __init__(self, chains: Chains, estimates: Estimates) -> None:
        if chains.invocations != chains.predicates or len(chains.rival):
            raise PenstockError(
                "linked chains are kept for invocations of one predicate and without rivals, as in the paper: "
                "order others with SubOrder"
            )
        at = index(chains, estimates)
        found = nodes(at)
        self._odds = estimates
        self._index = at
        self._price = prices(at)
        self._uses = np.diff(at.user_start)
        self._chains: dict[int, list[int]] = {}
        self._at: list[list[tuple[float, int]]] = [[] for _ in range(chains.predicates)]
        self._next: dict[int, int] = {_END: _END}
        self._previous: dict[int, int] = {_END: _END}
        self._number = len(chains)
        for c in range(len(chains)):
            self._chains[c] = found.predicate[at.start[c] : at.start[c + 1]].tolist()
            for p, ratio in self._ratios(self._chains[c]):
                self._at[p].append((ratio, c))
        for listed in self._at:
            listed.sort()
        for c in order_chains(at, found).tolist():
            self._link(c, self._previous[_END])

    def insert(self, predicates: Sequence[int]) -> int:
        """Find a place for a chain; its number."""
        unknown = [p for p in predicates if not 0 <= p < len(self._at)]
        if unknown or len(set(predicates)) < len(predicates):
            raise PenstockError(
                f"a chain has different predicates from 0 to {len(self._at) - 1}, not {list(predicates)}"
            )
        # As `nodes` sorts a chain, but for the ties, which are broken by how many chains had a predicate at first:
        # links of two chains never cross, whenever they came.
        chain = sorted(predicates, key=lambda p: (self._price[p], -self._uses[p], p))
        number, self._number = self._number, self._number + 1
        after = self._place(chain)
        self._chains[number] = chain
        for p, ratio in self._ratios(chain):
            bisect.insort(self._at[p], (ratio, number))
        self._link(number, after)
        return number

    def delete(self, chain: int) -> None:
        """Take a chain out."""
        if chain not in self._chains:
            raise PenstockError(f"there is no chain {chain}: it was never inserted, or is deleted")
        for p, ratio in self._ratios(self._chains.pop(chain)):
            del self._at[p][bisect.bisect_left(self._at[p], (ratio, chain))]
        previous, following = self._previous.pop(chain), self._next.pop(chain)
        self._next[previous], self._previous[following] = following, previous

    def order(self) -> list[int]:
        """The numbers of the chains as they are to be evaluated."""
        found: list[int] = []
        chain = self._next[_END]
        while chain != _END:
            found.append(chain)
            chain = self._next[chain]
        return found

    def chains(self) -> Chains:
        """The chains that there are, ascending by number."""
        return chains_of([self._chains[c] for c in sorted(self._chains)], [1] * len(self._at))

    def strategy(self) -> SubOrder:
        """Sub-order over `chains()`, in this order."""
        compact = {number: c for c, number in enumerate(sorted(self._chains))}
        order = np.array([compact[number] for number in self.order()], np.int32)
        return SubOrder(self.chains(), self._odds, order)

    def _place(self, chain: list[int]) -> int:
        """After which chain a new one goes."""
        best, after = 0.0, self._previous[_END]
        for p, ratio in self._ratios(chain):
            listed = self._at[p]
            middle = bisect.bisect_left(listed, (ratio, self._number))
            for _, other in listed[max(0, middle - NEIGHBOURS) : middle + NEIGHBOURS]:
                saved = self._saving(chain, self._chains[other])
                if abs(saved) > best:
                    best, after = abs(saved), other if saved < 0 else self._previous[other]
        return after

    def _saving(self, first: list[int], second: list[int]) -> float:
        start = np.array([0, len(first), len(first) + len(second)], np.int32)
        predicate = np.array(first + second, np.int32)
        both = self._index._replace(start=freeze(start), predicate=freeze(predicate))
        return saving(0, 1, both)

    def _ratios(self, chain: list[int]) -> list[tuple[int, float]]:
        """Of each predicate, minus P/C: ascending, the chain to be evaluated first comes first."""
        found: list[tuple[int, float]] = []
        reach, above = 1.0, 0.0
        for p in chain:
            found.append((p, -reach / above if above > 0 else -np.inf))
            above += reach * float(self._index.cost[p])
            reach *= float(self._index.true[p])
        return found

    def _link(self, chain: int, after: int) -> None:
        following = self._next[after]
        self._next[after], self._previous[following] = chain, chain
        self._previous[chain], self._next[chain] = after, following
