"""Algorithm 1 of the paper (section 4.1): any undecided chain, and all of its predicates that anybody still needs.

A chain that is picked is not left when it is decided: the rest of its predicates are evaluated as long as some other
undecided chain has them (line 9). That is what the guarantee of Theorem 2 rests on: at most d times as many predicates
as any strategy must evaluate, d being the length of the longest chain.

"Any" chain and "any" predicate are the next ones, as they stand.
"""

from typing import ClassVar

import numpy as np

from penstock.arrays import Int8s, Int32s, Int64s
from penstock.jit import kernel
from penstock.operators.chains import Chains, Odds
from penstock.operators.strategies.block import (
    UNKNOWN,
    Known,
    chain_state,
    frozen,
    index,
    is_among,
    is_needed,
)
from penstock.operators.strategies.interface import Rounds
from penstock.operators.strategies.walk import Walk


class Sequential:
    """See the module."""

    name: ClassVar[str] = "sequential"

    def __init__(self, chains: Chains, odds: Odds) -> None:
        self._index = index(chains, odds)

    def begin(self, start: Int64s, chains: Int32s) -> Rounds:
        return Walk(self._index, start, chains, frozen(chains), _advance)


def _advance(events: Int32s, walk: Walk) -> Int32s:
    at = walk.at
    return _next(
        events,
        walk.start,
        walk.candidates,
        walk.place,
        walk.step,
        walk.known,
        at.start,
        at.predicate,
        at.owner,
        at.user_start,
        at.user,
        at.above_start,
        at.above,
    )


@kernel
def _next(
    events: Int32s,
    start: Int64s,
    chains: Int32s,
    place: Int64s,
    step: Int32s,
    known: Known,
    chain_start: Int32s,
    predicate: Int32s,
    owner: Int32s,
    user_start: Int32s,
    user: Int32s,
    above_start: Int32s,
    above: Int32s,
) -> Int32s:
    """The next invocation of each event, -1 if it is done. `step` is 0 before a chain is picked, else 1 + its place."""
    found = np.full(len(events), -1, np.int32)
    for n in range(len(events)):
        e = events[n]
        mine = chains[start[e] : start[e + 1]]
        while place[e] < start[e + 1] and found[n] < 0:
            c = chains[place[e]]
            is_open = _is_open(c, mine, known[e], chain_start, predicate, above_start, above)
            if (step[e] == 0 and not is_open) or step[e] > chain_start[c + 1] - chain_start[c]:
                place[e] += 1
                step[e] = 0
                continue
            step[e] = max(step[e], 1)
            p = predicate[chain_start[c] + step[e] - 1]
            if known[e, p] != UNKNOWN:
                step[e] += 1
                continue
            if not is_open:
                is_open = _is_wanted(
                    p,
                    mine,
                    user[user_start[p] : user_start[p + 1]],
                    known[e],
                    chain_start,
                    predicate,
                    above_start,
                    above,
                )
            if is_open:
                found[n] = owner[p]
            else:
                step[e] += 1
    return found


@kernel
def _is_open(
    c: int,
    candidates: Int32s,
    known: Int8s,
    chain_start: Int32s,
    predicate: Int32s,
    above_start: Int32s,
    above: Int32s,
) -> bool:
    return chain_state(c, known, chain_start, predicate) == UNKNOWN and is_needed(
        c, candidates, known, chain_start, predicate, above_start, above
    )


@kernel
def _is_wanted(
    p: int,
    candidates: Int32s,
    users: Int32s,
    known: Int8s,
    chain_start: Int32s,
    predicate: Int32s,
    above_start: Int32s,
    above: Int32s,
) -> bool:
    """Whether an open chain has the predicate. Goes through its chains or through the event's, whichever are fewer."""
    if len(candidates) <= len(users):
        for c in candidates:
            for k in range(chain_start[c], chain_start[c + 1]):
                if predicate[k] == p and _is_open(
                    c, candidates, known, chain_start, predicate, above_start, above
                ):
                    return True
        return False
    for c in users:
        if is_among(c, candidates) and _is_open(
            c, candidates, known, chain_start, predicate, above_start, above
        ):
            return True
    return False
