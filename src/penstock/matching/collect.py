"""From hits to matches: for each event the living subscriptions that its conjunctions belong to, ascending, each once.

Hits come in an engine's order. They are first dealt out to their events. If an event has hundreds of subscriptions,
sorting them by comparisons would cost more than finding them. Instead they are marked in a bitmap of two levels and
read off again, which sorts them and drops repetitions at a few nanoseconds each:

    level 1      1 0 0 1 …                    which words of level 0 have a bit
    level 0      0010…  0000…  0000…  1001…   a bit per subscription
"""

import numpy as np
from numba.cpython.unsafe.numbers import trailing_zeros

from penstock.base.arrays import Bools, Int32s, Int64s, UInt64s
from penstock.base.jit import kernel

_FEW = 24  # up to so many matches of an event are sorted by insertion


@kernel
def collect(
    event: Int32s,
    conjunction: Int32s,
    events: int,
    fan_start: Int32s,
    fan_subscription: Int32s,
    expires: Int64s,
    now: int,
    gone: Bools,
    subscriptions: int,
) -> tuple[Int64s, Int32s]:
    """Where the subscriptions of each event begin, and the subscriptions, as positions in the plan.

    An empty `expires` means that no lease has ended, an empty `gone` that nobody has left. The arrays are passed one by
    one: as records they would add 4 microseconds to a call, which for one event is as much as the rest.
    """
    start = np.zeros(events + 1, np.int64)
    for i in range(len(event)):
        c = conjunction[i]
        start[event[i] + 1] += fan_start[c + 1] - fan_start[c]
    most = 0
    for e in range(events):
        most = max(most, start[e + 1])
        start[e + 1] += start[e]
    out = np.empty(start[events], np.int32)
    past = start[:-1].copy()
    check_lease, check_gone = len(expires) > 0, len(gone) > 0
    for i in range(len(event)):
        c = conjunction[i]
        place = past[event[i]]
        for j in range(fan_start[c], fan_start[c + 1]):
            s = fan_subscription[j]
            out[place] = s
            alive = not (check_lease and expires[s] <= now) and not (check_gone and gone[s])
            place += alive
        past[event[i]] = place

    words = (subscriptions >> 6) + 1 if most > _FEW else 0
    level0 = np.zeros(words, np.uint64)
    level1 = np.zeros((words >> 6) + 1, np.uint64)
    kept = 0
    for e in range(events):
        first, start[e] = start[e], kept
        if past[e] - first > _FEW:
            kept = _sort_marking(out, first, past[e], kept, level0, level1)
        else:
            kept = _sort_inserting(out, first, past[e], kept)
    start[events] = kept
    return start, out[:kept]


@kernel
def _sort_inserting(values: Int32s, first: int, past: int, kept: int) -> int:
    """Sort values[first:past], without repetitions, into values[kept:]; kept <= first. Returns where that ends."""
    begin = kept
    for i in range(first, past):
        value = values[i]
        j = kept
        while j > begin and values[j - 1] > value:
            j -= 1
        if j > begin and values[j - 1] == value:
            continue
        for k in range(kept, j, -1):
            values[k] = values[k - 1]
        values[j] = value
        kept += 1
    return kept


@kernel
def _sort_marking(
    values: Int32s, first: int, past: int, kept: int, level0: UInt64s, level1: UInt64s
) -> int:
    """The same, through the bitmap, which is empty before and after."""
    one = np.uint64(1)
    for i in range(first, past):
        word = values[i] >> 6
        level0[word] |= one << np.uint64(values[i] & 63)
        level1[word >> 6] |= one << np.uint64(word & 63)
    for upper in range(len(level1)):
        marks = level1[upper]
        if not marks:
            continue
        level1[upper] = np.uint64(0)
        while marks:
            word = (upper << 6) + trailing_zeros(marks)
            marks &= marks - one
            bits = level0[word]
            level0[word] = np.uint64(0)
            while bits:
                values[kept] = (word << 6) + trailing_zeros(bits)
                bits &= bits - one
                kept += 1
    return kept
