"""From hits to matches: whose conjunctions are these, who is still alive, each once, ascending for every event.

Hits come in an engine's order. Sorting the subscriptions of every event by comparisons would cost more than finding
them where there are hundreds, so they are sorted by distribution: all pairs by the leading digits of the subscription,
then, stably, by event. What is left to do inside an event are a few neighbours.
"""

import numpy as np

from penstock.matching.jit import kernel
from penstock.matching.kernels import Flags, Int32s, Int64s

_BUCKETS = 2048
_MANY_PAIRS = 4096  # from here on, and …
_MANY_PER_EVENT = 24  # … from here on, distribution beats insertion


@kernel
def collect(
    event: Int32s,
    conjunction: Int32s,
    events: int,
    fan_start: Int32s,
    fan_subscription: Int32s,
    expires: Int64s,
    now: int,
    gone: Flags,
) -> tuple[Int64s, Int32s]:
    """Where the subscriptions of each event begin, and the subscriptions, as positions in the plan.

    An empty `expires` means that no lease has ended, an empty `gone` that nobody has left.
    """
    pair_event, subscription = _fan_out(
        event, conjunction, fan_start, fan_subscription, expires, now, gone
    )
    if len(subscription) > max(_MANY_PAIRS, _MANY_PER_EVENT * events):
        pair_event, subscription = _distribute(pair_event, subscription)
    start = np.zeros(events + 1, np.int64)
    for i in range(len(pair_event)):
        start[pair_event[i] + 1] += 1
    for e in range(events):
        start[e + 1] += start[e]
    out = np.empty(len(subscription), np.int32)
    for i in range(len(pair_event)):
        e = pair_event[i]
        out[start[e]] = subscription[i]
        start[e] += 1
    # Every start has moved to its end, which is the next one's start.
    kept = first = 0
    for e in range(events):
        past = start[e]
        start[e] = kept
        kept = _sorted_once(out, first, past, kept)
        first = past
    start[events] = kept
    return start, out[:kept]


@kernel
def _fan_out(
    event: Int32s,
    conjunction: Int32s,
    fan_start: Int32s,
    fan_subscription: Int32s,
    expires: Int64s,
    now: int,
    gone: Flags,
) -> tuple[Int32s, Int32s]:
    total = 0
    for c in conjunction:
        total += fan_start[c + 1] - fan_start[c]
    pair_event, subscription = np.empty(total, np.int32), np.empty(total, np.int32)
    check_lease, check_gone = len(expires) > 0, len(gone) > 0
    count = 0
    for i in range(len(conjunction)):
        c = conjunction[i]
        for j in range(fan_start[c], fan_start[c + 1]):
            s = fan_subscription[j]
            if check_lease and expires[s] <= now:
                continue
            if check_gone and gone[s]:
                continue
            pair_event[count], subscription[count] = event[i], s
            count += 1
    return pair_event[:count], subscription[:count]


@kernel
def _distribute(event: Int32s, subscription: Int32s) -> tuple[Int32s, Int32s]:
    largest = 0
    for s in subscription:
        largest = max(largest, s)
    shift = 0
    while largest >> shift >= _BUCKETS:
        shift += 1
    place = np.zeros(_BUCKETS + 1, np.int64)
    for s in subscription:
        place[(s >> shift) + 1] += 1
    for b in range(_BUCKETS):
        place[b + 1] += place[b]
    out_event, out = np.empty(len(event), np.int32), np.empty(len(event), np.int32)
    for i in range(len(subscription)):
        b = subscription[i] >> shift
        out_event[place[b]], out[place[b]] = event[i], subscription[i]
        place[b] += 1
    return out_event, out


@kernel
def _sorted_once(values: Int32s, first: int, past: int, kept: int) -> int:
    """Sort values[first:past], and move it without repetitions to values[kept:]. Returns where that ends."""
    if past - first > 256 and not _nearly_sorted(values, first, past):
        values[first:past].sort()
    else:
        for i in range(first + 1, past):
            value = values[i]
            j = i
            while j > first and values[j - 1] > value:
                values[j] = values[j - 1]
                j -= 1
            values[j] = value
    begin = kept
    for i in range(first, past):
        if kept == begin or values[i] != values[kept - 1]:
            values[kept] = values[i]
            kept += 1
    return kept


@kernel
def _nearly_sorted(values: Int32s, first: int, past: int) -> bool:
    wrong = 0
    for i in range(first + 1, past):
        wrong += values[i] < values[i - 1]
    return 8 * wrong < past - first
