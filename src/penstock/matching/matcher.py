"""A matcher answers: which subscriptions does this event match?

It stands on a snapshot, which is one plan or several *layers* of them (a base, and an overlay of later changes), and
does what is the same for every engine: cells before, fan-out, leases and sorting after. It holds no state that changes,
so any number of threads may use one; with `threads` it uses several itself, a block of events each.
"""

import functools
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.arrays import Int32s, Int64s
from penstock.durations import utc_now
from penstock.errors import SchemaError, UnknownSubscription
from penstock.matching.engines import Engine, Hits, choose
from penstock.matching.engines.batch import BLOCK, BatchEngine
from penstock.matching.events import event_batch
from penstock.matching.explain import Explanation, explain
from penstock.matching.layers import Layer, Matches, collected, layer_matches, merged
from penstock.matching.operator_plan import OperatorPlan
from penstock.matching.operator_stage import Failure, OperatorStage, split, still_needed, united
from penstock.matching.plan import Plan
from penstock.matching.single import EventEncoder
from penstock.matching.stats import Stats, measure
from penstock.operators.define import Operators
from penstock.operators.invoke import Health
from penstock.operators.learning import Learned
from penstock.operators.strategies import DEFAULT_STRATEGY, bytes_per_event

# Of what strategies keep of the events that are decided together.
_STRATEGY_BYTES = 128 << 20


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
        self,
        layers: Plan | Sequence[Layer],
        engine: str = "auto",
        threads: int = 1,
        operators: Operators | None = None,
        strategy: str = DEFAULT_STRATEGY,
        learned: Learned | None = None,
        health: Health | None = None,
    ) -> None:
        self.layers = (Layer.of(layers),) if isinstance(layers, Plan) else tuple(layers)
        self._operators = operators
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
                engine.one_event(layer.gone)
                if isinstance(engine, BatchEngine) and layer.plan.operators is None
                else None,
                EventEncoder(layer.plan),
            )
            for layer, engine in zip(self.layers, self._engines, strict=True)
        ]
        self._pool = ThreadPoolExecutor(threads) if threads > 1 else None
        self._bases = np.cumsum([0] + [len(layer.plan.ids) for layer in self.layers])
        plans = [layer.plan.operators for layer in self.layers if layer.plan.operators is not None]
        self.operators = (
            OperatorStage(OperatorPlan.combined(plans), strategy, operators, learned, health)
            if plans
            else None
        )

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
        moment = utc_now() if now is None else now
        if self.operators is not None:
            ids: list[int] = self.matches(self._batch_of(event), moment).ids.tolist()
            return ids
        found: list[int] = []
        for layer, engine, one, encoder in self._singles:
            cells = encoder.cells(event)
            if one is not None:
                found += one.ids(cells, moment).tolist()
            else:
                plan = layer.plan
                fan = plan.fan_start, plan.fan_subscription
                _, position = collected(layer, engine.match(cells), 1, moment, *fan)
                found += plan.ids[position].tolist()
        return found if len(self.layers) == 1 else sorted(found)

    def match_batch(self, batch: pa.RecordBatch, now: int | None = None) -> pa.ListArray:
        """The ids for every event of an Arrow batch: one ascending list per event."""
        return self.matches(batch, now).lists()

    def matches(self, batch: pa.RecordBatch, now: int | None = None) -> Matches:
        """The matches of a batch in flat arrays, positions and all."""
        moment = utc_now() if now is None else now
        if self.operators is not None:
            return self._decided(batch, moment)
        return self._together(
            layer_matches(layer, engine, batch, moment, self._pool)
            for layer, engine in zip(self.layers, self._engines, strict=True)
        )

    def match_pairs(self, batch: pa.RecordBatch, now: int | None = None) -> pa.RecordBatch:
        """One row per match: the event's row number, the subscription, and its subscriber."""
        return self.pairs(self.matches(batch, now))

    def pairs(self, found: Matches) -> pa.RecordBatch:
        """Matches as rows: the event's row number, the subscription, and its subscriber."""
        event = np.repeat(np.arange(len(found.start) - 1), np.diff(found.start))
        return pa.RecordBatch.from_arrays(
            [pa.array(event), pa.array(found.ids), self._subscribers(found.position)],
            ["event", "subscription", "subscriber"],
        )

    def explain(self, sid: int, event: Mapping[str, Any], now: int | None = None) -> Explanation:
        """Why an event matches a subscription or doesn't: which predicates held, which failed, on what value."""
        for layer in reversed(self.layers):
            position = layer.plan.position(sid)
            if position is not None and not layer.is_gone(position):
                moment = utc_now() if now is None else now
                return explain(
                    sid,
                    layer.plan.filter_text(position),
                    layer.plan.schema,
                    event,
                    lease_end=int(layer.plan.expires[position]),
                    now=moment,
                    operators=self._operators,
                    learned_by=self.operators,
                )
        raise UnknownSubscription(
            f"no subscription {sid} in this snapshot: it was never there, has been removed, "
            "or doesn't fit the schema"
        )

    def stats(self) -> Stats:
        """How large the plan is, and what of."""
        return measure(self.layers, self._choices[0], self._indexes, self.operators)

    # --- inside --------------------------------------------------------------------------------

    def _together(self, found: Iterable[tuple[Int64s, Int32s]]) -> Matches:
        """The matches of all layers, given those of each."""
        together: Matches | None = None
        for (start, position), layer, base in zip(found, self.layers, self._bases, strict=False):
            own = Matches(start, layer.plan.ids[position], position + base)
            together = own if together is None else merged(together, own)
        assert together is not None
        return together

    def _batch_of(self, event: Mapping[str, Any]) -> pa.RecordBatch:
        columns = {name for layer in self.layers for name in layer.plan.columns}
        return event_batch(event, self.schema, sorted(columns))

    def _decided(self, batch: pa.RecordBatch, now: int) -> Matches:
        """The matches where some need operators: a few events at a time, as many as their chains allow."""
        assert self.operators is not None
        chains = self.operators.plan.chains
        step = max(1, _STRATEGY_BYTES // bytes_per_event(chains))
        parts: list[Matches] = []
        failures: list[Failure] = []
        first = 0
        while first < batch.num_rows or not parts:
            events = batch.slice(first, step)
            found, candidates = self._decide(events, now)
            parts.append(found)
            failures += [f._replace(event=f.event + first) for f in found.failures]
            first += events.num_rows
            each = bytes_per_event(chains, candidates / max(1, events.num_rows))
            step = max(1, min(_STRATEGY_BYTES // each, 4 * step, BLOCK))
        starts: list[Int64s] = [np.zeros(1, np.int64)]
        for part in parts:
            starts.append(part.start[1:] + starts[-1][-1])
        return Matches(
            np.concatenate(starts),
            np.concatenate([part.ids for part in parts]),
            np.concatenate([part.position for part in parts]),
            tuple(failures),
        )

    def _decide(self, events: pa.RecordBatch, now: int) -> tuple[Matches, int]:
        """The matches of a few events, and how many chains their operators had to decide."""
        assert self.operators is not None
        matched: list[tuple[Int64s, Int32s]] = []
        needed: list[tuple[Int64s, Int32s]] = []
        base = 0
        for layer, engine in zip(self.layers, self._engines, strict=True):
            found = layer_matches(layer, engine, events, now, None)
            operators = layer.plan.operators
            if operators is not None:
                start, position, chain_start, chains = split(*found, len(layer.plan.ids))
                found = start, position
                chain_start, chains = still_needed(
                    chain_start,
                    chains,
                    operators.mixed,
                    operators.fan_start,
                    operators.fan_subscription,
                    *found,
                    layer.expires,
                    now,
                    layer.gone,
                )
                needed.append((chain_start, chains + base))
                base += len(operators)
            matched.append(found)
        start, chains = functools.reduce(lambda a, b: united(*a, *b), needed)
        decided = self.operators.decide(events, start, chains.astype(np.int32))
        event = np.repeat(np.arange(events.num_rows, dtype=np.int32), np.diff(decided.start))
        base = 0
        for n, layer in enumerate(self.layers):
            operators = layer.plan.operators
            if operators is None:
                continue
            mine = (decided.chains >= base) & (decided.chains < base + len(operators))
            hits = Hits(event[mine], decided.chains[mine] - np.int32(base))
            fan = operators.fan_start, operators.fan_subscription
            own = collected(layer, hits, events.num_rows, now, *fan)
            matched[n] = united(*matched[n], *own)
            base += len(operators)
        together = self._together(matched)
        return replace(together, failures=tuple(decided.failures)), len(chains)

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
