"""A matcher answers: which subscriptions does this event match?

It stands on a snapshot, which is one plan or several *layers* of them (a base, and an overlay of later changes), and
does what is the same for every engine: cells before, fan-out, leases and sorting after. It holds no state that changes,
so any number of threads may use one; with `threads` it uses several itself, a block of events each.
"""

import itertools
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.arrays import Bools, Int32s, Int64s
from penstock.errors import SchemaError, UnknownSubscription
from penstock.jit import kernel
from penstock.matching.collect import collect
from penstock.matching.engines import Engine, Hits, choose
from penstock.matching.engines.batch import BLOCK, BatchEngine
from penstock.matching.explain import Explanation, explain
from penstock.matching.plan import Plan
from penstock.matching.rows import FOREVER
from penstock.matching.single import EventEncoder
from penstock.matching.stats import Stats, measure

_CELL_BYTES = (
    1 << 22
)  # a block of events has at most this much of cells, which engines read at random: 4 MiB
_NONE_GONE = np.empty(0, np.bool_)
_NO_LEASES = np.empty(0, np.int64)
_NOBODY = np.empty(0, np.int32)


@dataclass(frozen=True, slots=True)
class Layer:
    """A plan, and which of its subscriptions are gone (changed or removed by a later layer; empty: none)."""

    plan: Plan
    gone: Bools
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
        return Layer(plan, gone, int(plan.expires.min()) if len(plan.expires) else FOREVER)

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

    def lists(self) -> pa.ListArray:
        """One ascending list of ids per event."""
        offsets = pa.array(self.start.astype(np.int32, casting="same_kind"))
        return pa.ListArray.from_arrays(offsets, pa.array(self.ids))


def clock() -> int:
    """UTC microseconds."""
    return time.time_ns() // 1_000


class Matcher:
    """Matches events against the subscriptions of one snapshot.

    >>> import penstock
    >>> subs = penstock.Subscriptions()
    >>> sid, _ = subs.subscribe("alice", "symbol = 'GOOG' AND price > 500")
    >>> matcher = subs.compile({"symbol": "string", "price": "double"})
    >>> matcher.match({"symbol": "GOOG", "price": 550}) == [sid]
    True
    >>> matcher.match({"symbol": "GOOG"})
    []
    """

    def __init__(
        self, layers: Plan | Sequence[Layer], engine: str = "auto", threads: int = 1
    ) -> None:
        self.layers = (Layer.of(layers),) if isinstance(layers, Plan) else tuple(layers)
        self._choices = [choose(engine, layer.plan) for layer in self.layers]
        self._indexes = [
            choice.index(layer.plan)
            for choice, layer in zip(self._choices, self.layers, strict=True)
        ]
        self._engines: list[Engine] = [
            choice.kind(layer.plan, index)
            for choice, layer, index in zip(self._choices, self.layers, self._indexes, strict=True)
        ]
        self._singles = [
            (
                layer,
                engine,
                engine.one_event(layer.gone) if isinstance(engine, BatchEngine) else None,
                EventEncoder(layer.plan),
            )
            for layer, engine in zip(self.layers, self._engines, strict=True)
        ]
        self._pool = ThreadPoolExecutor(threads) if threads > 1 else None
        self._bases = np.cumsum([0] + [len(layer.plan.ids) for layer in self.layers])

    @property
    def engine(self) -> str:
        """The engine of the base, with its options."""
        return self._choices[0].label

    @property
    def schema(self) -> Any:
        return self.layers[0].plan.schema

    def match(self, event: Mapping[str, Any], now: int | None = None) -> list[int]:
        """The ids of the subscriptions that one event matches, ascending. `now`: UTC microseconds, for leases."""
        if not isinstance(event, Mapping):
            raise SchemaError(f"an event is a mapping of attributes to values, not {event!r}")
        moment = clock() if now is None else now
        found: list[int] = []
        for layer, engine, one, encoder in self._singles:
            cells = encoder.cells(event)
            if one is not None:
                found += one.ids(cells, moment).tolist()
            else:
                _, position = _collected(layer, engine.match(cells), 1, moment)
                found += layer.plan.ids[position].tolist()
        return found if len(self.layers) == 1 else sorted(found)

    def match_batch(self, batch: pa.RecordBatch, now: int | None = None) -> pa.ListArray:
        """The ids for every event of an Arrow batch: one ascending list per event."""
        return self.matches(batch, now).lists()

    def matches(self, batch: pa.RecordBatch, now: int | None = None) -> Matches:
        """The matches of a batch in flat arrays, positions and all."""
        moment = clock() if now is None else now
        together: Matches | None = None
        for layer, engine, base in zip(self.layers, self._engines, self._bases, strict=False):
            start, position = _layer_matches(layer, engine, batch, moment, self._pool)
            found = Matches(start, layer.plan.ids[position], position + base)
            together = found if together is None else merged(together, found)
        assert together is not None
        return together

    def match_pairs(self, batch: pa.RecordBatch, now: int | None = None) -> pa.RecordBatch:
        """One row per match: the event's row number, the subscription, and its subscriber."""
        found = self.matches(batch, now)
        event = np.repeat(np.arange(batch.num_rows), np.diff(found.start))
        return pa.RecordBatch.from_arrays(
            [pa.array(event), pa.array(found.ids), self._subscribers(found.position)],
            ["event", "subscription", "subscriber"],
        )

    def explain(self, sid: int, event: Mapping[str, Any], now: int | None = None) -> Explanation:
        """Why an event matches a subscription or doesn't: which predicates held, which failed, on what value."""
        for layer in reversed(self.layers):
            position = layer.plan.position(sid)
            if position is not None and not layer.is_gone(position):
                moment = clock() if now is None else now
                return explain(
                    sid,
                    layer.plan.filter_text(position),
                    layer.plan.schema,
                    event,
                    lease_end=int(layer.plan.expires[position]),
                    now=moment,
                )
        raise UnknownSubscription(
            f"no subscription {sid} in this snapshot: it was never there, has been removed, "
            "or doesn't fit the schema"
        )

    def stats(self) -> Stats:
        """How large the plan is, and what of."""
        return measure(self.layers, self._choices[0], self._indexes)

    # --- inside --------------------------------------------------------------------------------

    def _subscribers(self, position: Int64s) -> pa.Array:
        if len(self.layers) == 1:
            column = self.layers[0].plan.subscriber_column
            return column.take(pa.array(position)).cast(pa.string())
        found: list[pa.Array] = []
        layer_of = np.searchsorted(self._bases, position, side="right") - 1
        for number, layer in enumerate(self.layers):
            mine = position[layer_of == number] - self._bases[number]
            found.append(layer.plan.subscriber_column.take(pa.array(mine)))
        order = np.argsort(layer_of, kind="stable")
        back = np.empty(len(order), np.int64)
        back[order] = np.arange(len(order))
        return pa.chunked_array(found).combine_chunks().take(pa.array(back)).cast(pa.string())


def _layer_matches(
    layer: Layer, engine: Engine, batch: pa.RecordBatch, now: int, pool: ThreadPoolExecutor | None
) -> tuple[Int64s, Int32s]:
    """The matches of one layer: where each event's begin, and the positions of the subscriptions."""

    def block(events: pa.RecordBatch) -> tuple[Int64s, Int32s]:
        return _collected(layer, engine.match(layer.plan.encode(events)), events.num_rows, now)

    found = list((pool.map if pool else map)(block, _blocks(batch, layer.plan)))
    if len(found) == 1:
        return found[0]
    starts: list[Int64s] = [np.zeros(1, np.int64)]
    for start, _ in found:
        starts.append(start[1:] + starts[-1][-1])
    return np.concatenate(starts), np.concatenate([_NOBODY, *(position for _, position in found)])


def _collected(layer: Layer, hits: Hits, events: int, now: int) -> tuple[Int64s, Int32s]:
    plan = layer.plan
    return collect(
        hits.event,
        hits.conjunction,
        events,
        plan.fan_start,
        plan.fan_subscription,
        plan.expires if now >= layer.first_expiry else _NO_LEASES,
        now,
        layer.gone,
        len(plan.ids),
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
