"""The sequential algorithm (operators §4.1): any undecided chain, and all of its predicates that are still needed.

A chain that is picked is not left when it is decided: those of its other predicates that some undecided chain has are
evaluated, too (line 9). The guarantee of theorem 2 there rests on this: at most d times as many predicates are
evaluated as any strategy must evaluate, if the longest chain has d of them.

For "any" chain and "any" predicate we take the next one in the given order.
"""

from typing import ClassVar

import numpy as np

from penstock.base.arrays import Int8s, Int32s
from penstock.base.jit import kernel
from penstock.operators.strategies.block import (
    UNKNOWN,
    Index,
    chain_state,
    is_among,
    is_needed,
)
from penstock.operators.strategies.walk import InGivenOrder, Standing


@kernel
def _next(events: Int32s, standing: Standing) -> Int32s:
    """The next invocation of each event, -1 if it is done. `step` is 0 before a chain is picked, else 1 + its place."""
    start, chains, order, place, step, known, at = standing
    found = np.full(len(events), -1, np.int32)
    for n in range(len(events)):
        e = events[n]
        mine = chains[start[e] : start[e + 1]]
        while place[e] < start[e + 1] and found[n] < 0:
            c = order[place[e]]
            is_open = _is_open(c, mine, known[e], at)
            if (step[e] == 0 and not is_open) or step[e] > at.start[c + 1] - at.start[c]:
                place[e] += 1
                step[e] = 0
                continue
            step[e] = max(step[e], 1)
            p = at.predicate[at.start[c] + step[e] - 1]
            if known[e, p] != UNKNOWN:
                step[e] += 1
                continue
            if not is_open:
                is_open = _is_wanted(p, mine, known[e], at)
            if is_open:
                found[n] = at.owner[p]
            else:
                step[e] += 1
    return found


@kernel
def _is_open(c: int, candidates: Int32s, known: Int8s, at: Index) -> bool:
    return chain_state(c, known, at) == UNKNOWN and is_needed(c, candidates, known, at)


@kernel
def _is_wanted(p: int, candidates: Int32s, known: Int8s, at: Index) -> bool:
    """Whether an open chain has the predicate. Goes through its chains or through the event's, whichever are fewer."""
    users = at.user[at.user_start[p] : at.user_start[p + 1]]
    if len(candidates) <= len(users):
        for c in candidates:
            for k in range(at.start[c], at.start[c + 1]):
                if at.predicate[k] == p and _is_open(c, candidates, known, at):
                    return True
        return False
    for c in users:  # noqa: SIM110  (kernels have no generators)
        if is_among(c, candidates) and _is_open(c, candidates, known, at):
            return True
    return False


class Sequential(InGivenOrder):
    """See the module."""

    name: ClassVar[str] = "sequential"
    advance = staticmethod(_next)
