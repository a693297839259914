"""Layers: the plans that a snapshot consists of, and what the engines found in each of them.

A snapshot is a base and, mostly, an overlay of later changes; a layer is one of the two with those left out that the
other has changed. Whatever the engine, its hits become matches here: cells before, fan-out, leases and sorting after.
"""

import itertools
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.arrays import Bools, Int32s, Int64s
from penstock.jit import kernel
from penstock.matching.collect import collect
from penstock.matching.engines import Engine, Hits
from penstock.matching.engines.batch import BLOCK
from penstock.matching.operator_stage import Failure
from penstock.matching.plan import Plan
from penstock.matching.rows import FOREVER

# A block of events has at most so much of cells, which engines read at random.
_CELL_BYTES = 1 << 22
_NONE_GONE = np.empty(0, np.bool_)
_NO_LEASES = np.empty(0, np.int64)
_NOBODY = np.empty(0, np.int32)


@dataclass(frozen=True, slots=True)
class Layer:
    """A plan, and which of its subscriptions are gone (changed or removed by a later layer; empty: none).

    Chains of operators stand behind the subscriptions in `gone` and `expires`, and last as long as anybody needs them.
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
    failures: tuple[Failure, ...] = ()  # operators that failed, and so may have left something out

    def lists(self) -> pa.ListArray:
        """One ascending list of ids per event."""
        offsets = pa.array(self.start.astype(np.int32, casting="same_kind"))
        return pa.ListArray.from_arrays(offsets, pa.array(self.ids))


def layer_matches(
    layer: Layer, engine: Engine, batch: pa.RecordBatch, now: int, pool: ThreadPoolExecutor | None
) -> tuple[Int64s, Int32s]:
    """The matches of one layer: where each event's begin, and the positions of the subscriptions."""

    plan = layer.plan

    def block(events: pa.RecordBatch) -> tuple[Int64s, Int32s]:
        hits = engine.match(plan.encode(events))
        return collected(layer, hits, events.num_rows, now, plan.fan_start, plan.fan_subscription)

    found = list((pool.map if pool else map)(block, _blocks(batch, plan)))
    if len(found) == 1:
        return found[0]
    starts: list[Int64s] = [np.zeros(1, np.int64)]
    for start, _ in found:
        starts.append(start[1:] + starts[-1][-1])
    return np.concatenate(starts), np.concatenate([_NOBODY, *(position for _, position in found)])


def collected(
    layer: Layer, hits: Hits, events: int, now: int, fan_start: Int32s, fan: Int32s
) -> tuple[Int64s, Int32s]:
    """Whose conjunctions (or chains) these are, and still there: subscriptions, and chains past them."""
    return collect(
        hits.event,
        hits.conjunction,
        events,
        fan_start,
        fan,
        layer.expires if now >= layer.first_expiry else _NO_LEASES,
        now,
        layer.gone,
        layer.plan.targets,
    )


def _blocks(batch: pa.RecordBatch, plan: Plan) -> Iterator[pa.RecordBatch]:
    """Slices of about equal size, small enough for the engines' caches and for the memory of wide plans."""
    most = max(64, min(BLOCK, _CELL_BYTES // (4 * max(1, plan.attributes))))
    count = -(-batch.num_rows // most)
    bounds = [batch.num_rows * n // count for n in range(count + 1)] if count else [0]
    for first, past in itertools.pairwise(bounds):
        yield batch.slice(first, past - first)


def merged(a: Matches, b: Matches) -> Matches:
    """The matches of two sets of subscriptions, none of which is in both."""
    if not len(b.ids):
        return a
    return Matches(*_merge(a.start, a.ids, a.position, b.start, b.ids, b.position))


@kernel
def _merge(
    a_start: Int64s,
    a_ids: Int64s,
    a_position: Int64s,
    b_start: Int64s,
    b_ids: Int64s,
    b_position: Int64s,
) -> tuple[Int64s, Int64s, Int64s]:
    """Two sets of matches of the same events as one; no id is in both."""
    start = a_start + b_start
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
                ids[out], position[out] = b_ids[j], b_position[j]
                j += 1
            out += 1
    return start, ids, position
