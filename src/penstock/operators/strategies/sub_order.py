"""Sub-Order (operators §4.2): chains in an order decided beforehand, each from its best predicate down.

A chain that a shared predicate has decided is passed over; one that isn't is asked for its first predicate that nobody
knows yet. The order comes from `chain_order`, unless another one is given.
"""

from typing import ClassVar

import numpy as np

from penstock.base.arrays import Int32s, Int64s
from penstock.base.jit import kernel
from penstock.operators.chains import Chains, Odds
from penstock.operators.strategies.block import (
    UNKNOWN,
    Index,
    Known,
    chain_state,
    freeze,
    index,
    is_needed,
)
from penstock.operators.strategies.chain_order import nodes, order_chains
from penstock.operators.strategies.interface import Rounds
from penstock.operators.strategies.walk import Walk

_DENSE = 16  # from one chain in so many on, an event's chains are put in order by going through all


class SubOrder:
    """See the module."""

    name: ClassVar[str] = "sub-order"

    def __init__(self, chains: Chains, odds: Odds, order: Int32s | None = None) -> None:
        self._index = index(chains, odds)
        found = nodes(self._index)
        self._predicate = found.predicate
        self.order = freeze(order_chains(self._index, found) if order is None else order)
        rank = np.empty(len(chains), np.int32)
        rank[self.order] = np.arange(len(chains), dtype=np.int32)
        self._rank = freeze(rank)

    def begin(self, start: Int64s, chains: Int32s) -> Rounds:
        visits = _sorted(
            freeze(np.asarray(start, np.int64)), freeze(chains), self.order, self._rank
        )
        return Walk(self._index, start, chains, freeze(visits), self._advance)

    def _advance(self, events: Int32s, walk: Walk) -> Int32s:
        return _next(
            events,
            walk.start,
            walk.candidates,
            walk.order,
            walk.place,
            walk.known,
            walk.at,
            self._predicate,
        )


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
def _next(
    events: Int32s,
    start: Int64s,
    chains: Int32s,
    order: Int32s,
    place: Int64s,
    known: Known,
    at: Index,
    predicate: Int32s,
) -> Int32s:
    """The next invocation of each event, -1 if it is done. `predicate` has the chains' in the order to try them."""
    found = np.full(len(events), -1, np.int32)
    for n in range(len(events)):
        e = events[n]
        mine = chains[start[e] : start[e + 1]]
        while place[e] < start[e + 1]:
            c = order[place[e]]
            if chain_state(c, known[e], at) == UNKNOWN and is_needed(c, mine, known[e], at):
                k = at.start[c]
                while known[e, predicate[k]] != UNKNOWN:
                    k += 1
                found[n] = at.owner[predicate[k]]
                break
            place[e] += 1
    return found
