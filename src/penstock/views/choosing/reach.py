"""How many views each view reaches in a configuration: what its latency has an impact on (delta §3.4).

Exact, and quadratic with a small constant: views are taken 512 at a time, in order of rank; each view has 512 bits for
which of them it reaches. In descending order of rank a view's bits are final, and are or-ed into those of its inputs.

    bits[v] = own bit | bits of all that v feeds         100,000 views: some 200 sweeps

Beyond `EXACT` views as many are drawn at random, and counts are scaled up: they only say whose turn is first.
"""

import numpy as np

from penstock.base.arrays import Int32s, Int64s, UInt64s
from penstock.base.jit import kernel
from penstock.views.choosing.user_lists import HasUsers

EXACT = 200_000
_WORDS = 8


def reach(users: HasUsers, rank: Int32s) -> Int64s:
    """For each view how many views it feeds, directly or not, and itself."""
    order = np.argsort(rank, kind="stable")
    counted = np.arange(len(order))
    if len(order) > EXACT:
        counted = np.sort(np.random.default_rng(0).choice(len(order), EXACT, replace=False))
    found = _count(users, order, counted)
    return found * len(order) // max(1, len(counted)) if len(order) > EXACT else found


@kernel
def _count(users: HasUsers, order: Int64s, counted: Int64s) -> Int64s:
    """`counted`: places in `order`, ascending."""
    start, inputs, chosen = users.start, users.inputs, users.chosen
    found = np.zeros(len(order), np.int64)
    bits = np.zeros((len(order), _WORDS), np.uint64)
    for begin in range(0, len(counted), 64 * _WORDS):
        end = min(begin + 64 * _WORDS, len(counted))
        at = end - 1
        for place in range(counted[end - 1], -1, -1):
            view = order[place]
            if at >= begin and counted[at] == place:
                n = at - begin
                bits[view, n >> 6] |= np.uint64(1) << np.uint64(n & 63)
                at -= 1
            _hand_on(start, inputs, chosen[view], bits, view)
            found[view] += _taken(bits, view)
    return found


@kernel
def _hand_on(start: Int64s, inputs: Int32s, rewriting: int, bits: UInt64s, view: int) -> None:
    if rewriting < 0:
        return
    for w in range(_WORDS):
        word = bits[view, w]
        if word:
            for e in range(start[rewriting], start[rewriting + 1]):
                bits[inputs[e], w] |= word


@kernel
def _taken(bits: UInt64s, view: int) -> int:
    """How many bits are set; they are cleared."""
    count = 0
    for w in range(_WORDS):
        word = bits[view, w]
        while word:
            word &= word - np.uint64(1)
            count += 1
        bits[view, w] = 0
    return count
