"""A matcher answers: which subscriptions does this event match?

It is made from a snapshot, which is one plan or several *layers* of plans (a base, and an overlay of later changes). It
does all that is the same for every engine: cells before, fan-out, leases and sorting after. Any number of threads may
use one matcher; with `threads` it uses several itself, a block of events each.
"""

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from penstock.base.arrays import Int32s, Int64s, read_only
from penstock.base.durations import utc_now
from penstock.base.errors import SchemaError, UnknownSubscription
from penstock.matching.engines import Hits, choose
from penstock.matching.engines.batch import BLOCK
from penstock.matching.engines.interface import TooManyHitsError
from penstock.matching.events import event_batch
from penstock.matching.explain import Explanation, explain
from penstock.matching.layer_matcher import LayerMatcher
from penstock.matching.layers import (
    MOST_PAIRS,
    Layer,
    Matches,
    block_size,
    collect_hits,
    concatenate_matches,
    hits_within,
    merge_matches,
    pairs_per_event,
    runs_within,
    within,
)
from penstock.matching.operator_plan import OperatorPlan
from penstock.matching.operator_stage import (
    OperatorFailure,
    OperatorStage,
    split_positions,
    still_needed,
    unite_positions,
)
from penstock.matching.plan import Plan
from penstock.matching.sharing import Fan
from penstock.matching.stats import Stats, measure
from penstock.operators.define import Operators
from penstock.operators.invoke import Health
from penstock.operators.learning import Learned
from penstock.operators.strategies import DEFAULT_STRATEGY, bytes_per_event

# Bytes that strategies may take for the events that are decided together.
_STRATEGY_BYTES = 128 << 20
_NO_FAN: Fan = (read_only(np.zeros(1, np.int32)), read_only(np.empty(0, np.int32)))


class _Undecided(NamedTuple):
    """What is known of some events before their operators are called.

    `matched` has for each layer where the subscriptions of each event begin, and the subscriptions. The chains that
    event e still needs are chains[start[e]:start[e + 1]].
    """

    matched: list[tuple[Int64s, Int32s]]
    start: Int64s
    chains: Int32s


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
        self._own = [
            LayerMatcher(layer, choice)
            for layer, choice in zip(self.layers, self._choices, strict=True)
        ]
        self._fans = [own.fan for own in self._own]
        self._block = block_size(max(own.attributes for own in self._own))
        self._pool = ThreadPoolExecutor(threads) if threads > 1 else None
        self._bases = np.cumsum([0] + [len(layer.plan.ids) for layer in self.layers])
        plans = [layer.plan.operators for layer in self.layers if layer.plan.operators is not None]
        self.operators = (
            OperatorStage(OperatorPlan.combine(plans), strategy, operators, learned, health)
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
        return self.match_reporting(event, now)[0]

    def match_reporting(
        self, event: Mapping[str, Any], now: int | None = None
    ) -> tuple[list[int], tuple[OperatorFailure, ...]]:
        """The same, and the operators that failed. Subscriptions that they would have decided are left out."""
        moment = utc_now() if now is None else now
        if self.operators is not None:
            matches = self.matches(self._batch_of(event), moment)
            return matches.ids.tolist(), matches.failures
        found = [sid for own in self._own for sid in own.ids(event, moment)]
        return found if len(self.layers) == 1 else sorted(found), ()

    def match_batch(self, batch: pa.RecordBatch, now: int | None = None) -> pa.ListArray:
        """The ids for every event of an Arrow batch: one ascending list per event."""
        return self.matches(batch, now).lists()

    def matches(self, batch: pa.RecordBatch, now: int | None = None) -> Matches:
        """The matches of a batch in flat arrays, positions and all."""
        moment = utc_now() if now is None else now

        def block(events: pa.RecordBatch) -> list[Matches]:
            return [found for _, found in self.match_parts([events], moment)]

        if self._pool is None or self.operators is not None:
            return concatenate_matches(block(batch))
        starts = range(0, batch.num_rows, self._block)
        blocks = [batch.slice(first, self._block) for first in starts]
        return concatenate_matches(
            [found for parts in self._pool.map(block, blocks) for found in parts]
        )

    def match_parts(
        self,
        batches: Iterable[pa.RecordBatch],
        now: int | None = None,
        most: int = MOST_PAIRS,
    ) -> Iterator[tuple[pa.RecordBatch, Matches]]:
        """Events and their matches, one part of a batch after the other: no part has more than `most` of them, unless
        one event has. Memory follows `most`, whatever the number of events and of matches.

        >>> import penstock
        >>> subs = penstock.Subscriptions()
        >>> for _ in range(3): _ = subs.subscribe("alice", "price > 5")
        >>> batch = pa.record_batch({"price": [6.0, 4.0, 7.0]})
        >>> parts = subs.compile({"price": "double"}).match_parts([batch], most=3)
        >>> [(events.num_rows, len(found.ids)) for events, found in parts]
        [(2, 3), (1, 3)]
        """
        step = self._block
        for batch in batches:
            first = 0
            while first < batch.num_rows:
                rest = batch.num_rows - first
                # Slices of about equal size.
                events = batch.slice(first, -(-rest // -(-rest // step)))
                moment = utc_now() if now is None else now
                try:
                    hits = [own.hits(events, moment, most) for own in self._own]
                except TooManyHitsError:
                    step = max(1, events.num_rows // 2)
                    continue
                count = sum(len(found.event) for found in hits)
                for start, past in self._runs(hits, events.num_rows, most, self._fans):
                    some = events.slice(start, past - start)
                    whole = some.num_rows == events.num_rows
                    own = hits if whole else [hits_within(h, start, past) for h in hits]
                    yield from self._parts(some, own, moment, most)
                first += events.num_rows
                fitting = most * events.num_rows // max(1, count)
                step = max(1, min(2 * step, fitting, self._block))

    def match_pairs(self, batch: pa.RecordBatch, now: int | None = None) -> pa.RecordBatch:
        """One row per match: the event's row number, the subscription, and its subscriber."""
        return self.pairs(self.matches(batch, now))

    def pairs(self, found: Matches) -> pa.RecordBatch:
        """Matches as rows: the event's row number, the subscription, and its subscriber."""
        event = np.repeat(np.arange(len(found.start) - 1), np.diff(found.start))
        return pa.RecordBatch.from_arrays(
            [pa.array(event), pa.array(found.ids), self.subscribers(found.position)],
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
        """How large the plan is, and what makes it large."""
        return measure(
            self.layers, self._choices[0], [own.index for own in self._own], self.operators
        )

    def take_evaluations(self) -> tuple[list[int], list[int]]:
        """The subscriptions for which tests were evaluated that no index decides, and how many, since last asked.

        Each is one test and one event. Equal conjunctions of several subscriptions count for each of them.
        """
        ids = np.concatenate([own.layer.plan.ids for own in self._own])
        counts = np.concatenate([own.take_evaluations() for own in self._own])
        found = np.flatnonzero(counts)
        return ids[found].tolist(), counts[found].tolist()

    # --- inside --------------------------------------------------------------------------------

    def _runs(
        self, hits: Sequence[Hits], events: int, most: int, fans: Sequence[Fan]
    ) -> list[tuple[int, int]]:
        """Runs of the events whose pairs are few enough to be collected together."""
        pairs = np.zeros(events, np.int64)
        for found, (fan_start, _) in zip(hits, fans, strict=True):
            pairs += pairs_per_event(found, events, fan_start)
        return runs_within(pairs, most)

    def _parts(
        self, events: pa.RecordBatch, hits: Sequence[Hits], now: int, most: int
    ) -> Iterator[tuple[pa.RecordBatch, Matches]]:
        found = [
            collect_hits(layer, own, events.num_rows, now, *fan)
            for layer, own, fan in zip(self.layers, hits, self._fans, strict=True)
        ]
        if self.operators is None:
            yield events, self._together(found)
            return
        chains = self.operators.plan.chains
        step = max(1, _STRATEGY_BYTES // bytes_per_event(chains))
        first = 0
        while first < events.num_rows:
            some = events.slice(first, step)
            past = first + some.num_rows
            undecided = self._undecided([within(*own, first, past) for own in found], now)
            yield from self._decide(some, undecided, now, most)
            first = past
            each = bytes_per_event(chains, len(undecided.chains) / some.num_rows)
            step = max(1, min(_STRATEGY_BYTES // each, 4 * step, BLOCK))

    def _undecided(self, found: list[tuple[Int64s, Int32s]], now: int) -> "_Undecided":
        """What was found, split into subscriptions that match in any case and chains that decide about others."""
        matched: list[tuple[Int64s, Int32s]] = []
        needed: list[tuple[Int64s, Int32s]] = []
        base = 0
        for layer, own in zip(self.layers, found, strict=True):
            operators = layer.plan.operators
            if operators is None:
                matched.append(own)
                continue
            start, position, chain_start, chains = split_positions(*own, len(layer.plan.ids))
            matched.append((start, position))
            chain_start, chains = still_needed(
                chain_start,
                chains,
                operators.mixed,
                *operators.fan,
                start,
                position,
                layer.expires,
                now,
                layer.gone,
            )
            needed.append((chain_start, chains + base))
            base += len(operators)
        chain_start, chains = functools.reduce(lambda a, b: unite_positions(*a, *b), needed)
        return _Undecided(matched, chain_start, chains.astype(np.int32))

    def _decide(
        self, events: pa.RecordBatch, undecided: "_Undecided", now: int, most: int
    ) -> Iterator[tuple[pa.RecordBatch, Matches]]:
        """The matches of a few events, once their operators have decided."""
        assert self.operators is not None
        decided = self.operators.decide(events, undecided.start, undecided.chains)
        event = np.repeat(np.arange(events.num_rows, dtype=np.int32), np.diff(decided.start))
        hits: list[Hits] = []
        fans: list[Fan] = []
        base = 0
        for layer in self.layers:
            operators = layer.plan.operators
            chains = 0 if operators is None else len(operators)
            mine = (decided.chains >= base) & (decided.chains < base + chains)
            hits.append(Hits(event[mine], decided.chains[mine] - np.int32(base)))
            fans.append(_NO_FAN if operators is None else operators.fan)
            base += chains
        for first, past in self._runs(hits, events.num_rows, most, fans):
            own = [
                unite_positions(
                    *within(*matched, first, past),
                    *collect_hits(layer, hits_within(found, first, past), past - first, now, *fan),
                )
                for layer, matched, found, fan in zip(
                    self.layers, undecided.matched, hits, fans, strict=True
                )
            ]
            failures = tuple(
                f._replace(event=f.event - first)
                for f in decided.failures
                if first <= f.event < past
            )
            yield (
                events.slice(first, past - first),
                replace(self._together(own), failures=failures),
            )

    def _together(self, found: Iterable[tuple[Int64s, Int32s]]) -> Matches:
        """The matches of all layers, given those of each."""
        together: Matches | None = None
        for (start, position), layer, base in zip(found, self.layers, self._bases, strict=False):
            own = Matches(start, layer.plan.ids[position], position + base)
            together = own if together is None else merge_matches(together, own)
        assert together is not None
        return together

    def _batch_of(self, event: Mapping[str, Any]) -> pa.RecordBatch:
        columns = {name for layer in self.layers for name in layer.plan.columns}
        return event_batch(event, self.schema, sorted(columns))

    def subscribers(self, position: Int64s) -> pa.Array:
        """The subscriber of each match."""
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
