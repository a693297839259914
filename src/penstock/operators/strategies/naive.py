"""The baseline of operators §5.2: chains one by one, their predicates as they stand, until one is false.

Answers are remembered. But the strategy doesn't look ahead: a predicate is evaluated although another of the same
chain, further on, is already known to be false.
"""

from typing import ClassVar

import numpy as np

from penstock.base.arrays import Int32s
from penstock.base.jit import kernel
from penstock.operators.strategies.block import FALSE, UNKNOWN, is_needed
from penstock.operators.strategies.walk import InGivenOrder, Standing


@kernel
def _next(events: Int32s, standing: Standing) -> Int32s:
    """The next invocation of each event, -1 if it is done. `step` is the predicate that the chain has come to."""
    start, chains, order, place, step, known, at = standing
    found = np.full(len(events), -1, np.int32)
    for n in range(len(events)):
        e = events[n]
        mine = chains[start[e] : start[e + 1]]
        while place[e] < start[e + 1] and found[n] < 0:
            c = order[place[e]]
            k = at.start[c] + step[e]
            state = FALSE if k >= at.start[c + 1] else known[e, at.predicate[k]]
            if state == UNKNOWN and not is_needed(c, mine, known[e], at):
                state = FALSE
            if state == UNKNOWN:
                found[n] = at.owner[at.predicate[k]]
            elif state == FALSE:
                place[e] += 1
                step[e] = 0
            else:
                step[e] += 1
    return found


class Naive(InGivenOrder):
    """See the module."""

    name: ClassVar[str] = "naive"
    advance = staticmethod(_next)
