"""Layers: the plans that a snapshot consists of, and what the engines found in each of them.

A snapshot is a base and, mostly, an overlay of later changes; a layer is one of the two, less the subscriptions that
the other has changed. Whatever the engine, its hits become matches here: fan-out, leases and sorting.

Fan-out has no bound: one event can match every subscription. Memory has: an engine stops at so many hits, and the pairs
that hits lead to are counted before they are collected, as many events at a time as their pairs allow.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.base.arrays import Bools, Int32s, Int64s
from penstock.base.errors import PenstockError
from penstock.base.jit import kernel
from penstock.matching.collect import collect
from penstock.matching.engines import Hits
from penstock.matching.engines.batch import BLOCK
from penstock.matching.operator_stage import OperatorFailure
from penstock.matching.plan import Plan
from penstock.matching.subscription_rows import FOREVER

# A block of events has at most so many bytes of cells, because engines read these at random.
_CELL_BYTES = 1 << 22
# Pairs of event and subscription that are in memory at a time, and hits: 40 MB of each.
MOST_PAIRS = 1 << 21
_LONGEST_LIST = 2**31 - 1
_NONE_GONE = np.empty(0, np.bool_)
_NO_LEASES = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class Layer:
    """A plan, and which of its subscriptions are gone (changed or removed by a later layer; empty: none).

    In `gone` and `expires`, chains of operators come after the subscriptions. A chain is gone when all of its
    subscriptions are, and expires with the last of them.
    """

    plan: Plan
    gone: Bools
    expires: Int64s
    first_expiry: int

    @staticmethod
    def of(plan: Plan, removed: Int64s | None = None) -> "Layer":
        """A layer without the subscriptions of these ids."""
        gone = _NONE_GONE
        if removed is not None and len(removed) and len(plan.ids):
            gone = np.zeros(len(plan.ids), np.bool_)
            positions = np.searchsorted(plan.ids, removed)
            positions = np.minimum(positions, len(plan.ids) - 1)
            gone[positions[plan.ids[positions] == removed]] = True
        return Layer.without(plan, gone)

    @staticmethod
    def without(plan: Plan, gone: Bools) -> "Layer":
        """A layer of which some are gone, by position. If there are no operators, `gone` may change later on."""
        expires = plan.expires
        if plan.operators is not None:
            first = plan.operators.fan_start[:-1]
            owners = plan.operators.fan_subscription
            if len(gone):
                gone = np.concatenate([gone, np.logical_and.reduceat(gone[owners], first)])
            expires = np.concatenate([expires, np.maximum.reduceat(expires[owners], first)])
        first_expiry = int(plan.expires.min()) if len(plan.expires) else FOREVER
        return Layer(plan, gone, expires, first_expiry)

    def leases(self, now: int) -> tuple[Int64s, int]:
        """When the subscriptions' leases end, empty if none has by now; and `now`."""
        return self.expires if now >= self.first_expiry else _NO_LEASES, now

    def is_gone(self, position: int) -> bool:
        return bool(len(self.gone) and self.gone[position])


@dataclass(frozen=True, slots=True)
class Matches:
    """The matches of a batch: those of event e stand at start[e] .. start[e + 1], ascending by subscription id.

    `position` counts through the subscriptions of all layers, one layer after the other.
    """

    start: Int64s
    ids: Int64s
    position: Int64s
    # The operators that failed: what they would have decided may be missing.
    failures: tuple[OperatorFailure, ...] = ()

    def lists(self) -> pa.ListArray:
        """One ascending list of ids per event."""
        if len(self.ids) > _LONGEST_LIST:
            raise PenstockError(
                f"{len(self.ids):,} matches are more than an Arrow list array can hold ({_LONGEST_LIST:,}): "
                "use match_parts, or fewer events at a time"
            )
        offsets = pa.array(self.start.astype(np.int32, casting="same_kind"))
        return pa.ListArray.from_arrays(offsets, pa.array(self.ids))


def pairs_per_event(hits: Hits, events: int, fan_start: Int32s) -> Int64s:
    """For each event how many subscriptions (or chains) its hits lead to, repetitions included."""
    fan = (fan_start[1:] - fan_start[:-1])[hits.conjunction]
    return np.bincount(hits.event, fan, events).astype(np.int64)


def runs_within(pairs: Int64s, most: int) -> list[tuple[int, int]]:
    """Runs of events that have at most `most` pairs together, or are one event, as first and past.

    >>> runs_within(np.array([1, 1, 5, 0, 2]), 3)
    [(0, 2), (2, 3), (3, 5)]
    """
    ends = np.cumsum(pairs)
    runs: list[tuple[int, int]] = []
    first = 0
    while first < len(pairs):
        before = int(ends[first - 1]) if first else 0
        past = max(first + 1, int(np.searchsorted(ends, before + most, side="right")))
        runs.append((first, past))
        first = past
    return runs


def hits_within(hits: Hits, first: int, past: int) -> Hits:
    """The hits of a run of events, which are counted from its first one."""
    mine = (hits.event >= first) & (hits.event < past)
    return Hits(hits.event[mine] - np.int32(first), hits.conjunction[mine])


def within(start: Int64s, position: Int32s, first: int, past: int) -> tuple[Int64s, Int32s]:
    """What was collected of a run of events."""
    return start[first : past + 1] - start[first], position[start[first] : start[past]]


def collect_hits(
    layer: Layer, hits: Hits, events: int, now: int, fan_start: Int32s, fan: Int32s
) -> tuple[Int64s, Int32s]:
    """The living subscriptions that hits lead to and, numbered past them, chains."""
    return collect(
        hits.event,
        hits.conjunction,
        events,
        fan_start,
        fan,
        *layer.leases(now),
        layer.gone,
        layer.plan.targets,
    )


def block_size(attributes: int) -> int:
    """How many events are matched together: few enough for the engines' caches and for the memory of wide plans."""
    return max(64, min(BLOCK, _CELL_BYTES // (4 * max(1, attributes))))


def concatenate_matches(parts: Sequence[Matches]) -> Matches:
    """The matches of one run of events after the other."""
    if len(parts) == 1:
        return parts[0]
    starts: list[Int64s] = [np.zeros(1, np.int64)]
    failures: list[OperatorFailure] = []
    first = 0
    for part in parts:
        starts.append(part.start[1:] + starts[-1][-1])
        failures += [f._replace(event=f.event + first) for f in part.failures]
        first += len(part.start) - 1
    none = np.empty(0, np.int64)
    return Matches(
        np.concatenate(starts),
        np.concatenate([none, *(part.ids for part in parts)]),
        np.concatenate([none, *(part.position for part in parts)]),
        tuple(failures),
    )


def merge_matches(a: Matches, b: Matches) -> Matches:
    """The matches of two sets of subscriptions. Where an event matches an id in both, the match of `b` stays."""
    if not len(b.ids):
        return a
    start, ids, position = _merge(a.start, a.ids, a.position, b.start, b.ids, b.position)
    return Matches(start, ids[: start[-1]], position[: start[-1]])


@kernel
def _merge(
    a_start: Int64s,
    a_ids: Int64s,
    a_position: Int64s,
    b_start: Int64s,
    b_ids: Int64s,
    b_position: Int64s,
) -> tuple[Int64s, Int64s, Int64s]:
    """Two sets of matches of the same events as one: `start`, and arrays with room for all of both."""
    start = np.zeros(len(a_start), np.int64)
    ids = np.empty(len(a_ids) + len(b_ids), np.int64)
    position = np.empty(len(ids), np.int64)
    out = 0
    for e in range(len(start) - 1):
        i, j = a_start[e], b_start[e]
        while i < a_start[e + 1] or j < b_start[e + 1]:
            if j == b_start[e + 1] or (i < a_start[e + 1] and a_ids[i] < b_ids[j]):
                ids[out], position[out] = a_ids[i], a_position[i]
                i += 1
            else:
                if i < a_start[e + 1] and a_ids[i] == b_ids[j]:
                    i += 1
                ids[out], position[out] = b_ids[j], b_position[j]
                j += 1
            out += 1
        start[e + 1] = out
    return start, ids, position
