"""How little it could be: evaluations of somebody who knows all answers, and only has to show them.

Every predicate of a matching chain, and for each of the others one that is false: a set cover, found greedily, the
false predicate that most chains have first. It is no bound, since greedy isn't optimal, but nearly one: the fractional
cover (a linear program), below which nobody can get, was 1 to 2 % lower wherever we tried.
"""

import numpy as np

from penstock.base.arrays import Bools, Int32s, Int64s
from penstock.base.jit import kernel
from penstock.operators.chains import Chains, Estimates
from penstock.operators.strategies.block import index


def shown(chains: Chains, truth: Bools) -> Int64s:
    """Evaluations by event.

    >>> from benchmarks.operators.chain_lists import chains_of
    >>> chains = chains_of([[0, 1], [1, 2], [3]], decides=[1] * 4)
    >>> shown(chains, np.array([[True, False, False, True], [False, True, False, False]])).tolist()
    [2, 3]
    """
    at = index(chains, Estimates(np.ones(chains.predicates), np.ones(chains.invocations)))
    rows = [_shown(row, at.start, at.predicate, at.user_start, at.user) for row in truth]
    return np.array(rows, np.int64)


@kernel
def _shown(truth: Bools, start: Int32s, predicate: Int32s, user_start: Int32s, user: Int32s) -> int:
    is_open = np.zeros(len(start) - 1, np.bool_)
    is_needed = np.zeros(len(truth), np.bool_)
    uses = np.zeros(len(truth), np.int64)  # of false predicates, in open chains
    for c in range(len(start) - 1):
        mine = predicate[start[c] : start[c + 1]]
        is_open[c] = not truth[mine].all()
        for p in mine:
            if not is_open[c]:
                is_needed[p] = True
            elif not truth[p]:
                uses[p] += 1
    found = is_needed.sum()
    most = uses.max() if len(uses) else 0
    while most > 0:
        following = 0
        for p in range(len(truth)):
            if uses[p] < most:
                following = max(following, uses[p])
                continue
            found += 1
            for k in range(user_start[p], user_start[p + 1]):
                c = user[k]
                if is_open[c]:
                    is_open[c] = False
                    for q in predicate[start[c] : start[c + 1]]:
                        if not truth[q]:
                            uses[q] -= 1
        most = following  # uses only fall: an upper bound, and exact by the time it is reached
    return int(found)
