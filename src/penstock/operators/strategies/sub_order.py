"""Sub-Order (operators §4.2): chains in an order decided beforehand, each from its best predicate down.

A chain that a shared predicate has decided is passed over; of any other, the first unknown predicate comes next. The
order comes from `chain_order`, unless another one is given.
"""

from typing import ClassVar

import numpy as np

from penstock.base.arrays import Int32s, Int64s
from penstock.base.jit import kernel
from penstock.operators.chains import Chains, Estimates
from penstock.operators.strategies.block import UNKNOWN, chain_state, freeze, index, is_needed
from penstock.operators.strategies.chain_order import nodes, order_chains
from penstock.operators.strategies.interface import Rounds
from penstock.operators.strategies.walk import Standing, Walk

_DENSE = 16  # an event with one chain in so many or more has them ordered by going through all


class SubOrder:
    """See the module."""

    name: ClassVar[str] = "sub-order"

    def __init__(self, chains: Chains, estimates: Estimates, order: Int32s | None = None) -> None:
        at = index(chains, estimates)
        found = nodes(at)
        self.order = freeze(order_chains(at, found) if order is None else order)
        self._index = at._replace(predicate=found.predicate)
        self._rank = freeze(np.argsort(self.order).astype(np.int32))

    def begin(self, start: Int64s, chains: Int32s) -> Rounds:
        first, mine = freeze(np.asarray(start, np.int64)), freeze(chains)
        visits = _sorted(first, mine, self.order, self._rank)
        return Walk(self._index, start, chains, visits, _next)


@kernel
def _sorted(start: Int64s, chains: Int32s, order: Int32s, rank: Int32s) -> Int32s:
    """The chains of every event in the common order."""
    visits = np.empty(len(chains), np.int32)
    is_mine = np.zeros(len(order), np.bool_)
    for e in range(len(start) - 1):
        mine = chains[start[e] : start[e + 1]]
        if len(mine) * _DENSE < len(order):
            visits[start[e] : start[e + 1]] = mine[np.argsort(rank[mine])]
            continue
        is_mine[mine] = True
        at = start[e]
        for c in order:
            if is_mine[c]:
                visits[at] = c
                at += 1
        is_mine[mine] = False
    return visits


@kernel
def _next(events: Int32s, standing: Standing) -> Int32s:
    """The next invocation of each event, -1 if it is done. A chain's predicates stand in the order to try them."""
    start, chains, order, place, _, known, at = standing
    found = np.full(len(events), -1, np.int32)
    for n in range(len(events)):
        e = events[n]
        mine = chains[start[e] : start[e + 1]]
        while place[e] < start[e + 1]:
            c = order[place[e]]
            if chain_state(c, known[e], at) == UNKNOWN and is_needed(c, mine, known[e], at):
                k = at.start[c]
                while known[e, at.predicate[k]] != UNKNOWN:
                    k += 1
                found[n] = at.owner[at.predicate[k]]
                break
            place[e] += 1
    return found
