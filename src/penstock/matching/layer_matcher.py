"""One layer with its engine: which of its conjunctions hold, for a batch or for one event.

The engine decides what an index can decide. A gate (`engines.gates`) tests the rest, only for the conjunctions that the
engine lets through.
"""

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.base.arrays import Int32s, Int64s, read_only
from penstock.matching.computed_events import ComputedEvents
from penstock.matching.engines import Choice, Engine, Hits
from penstock.matching.engines.batch import BatchEngine
from penstock.matching.engines.gates import Gate, are_needed
from penstock.matching.engines.interface import UNBOUNDED
from penstock.matching.layers import Layer, collect_hits
from penstock.matching.single import EventEncoder, LazyTests, find_patterns

_NO_HITS = Hits(read_only(np.empty(0, np.int32)), read_only(np.empty(0, np.int32)))


class LayerMatcher:
    """See the module. Nothing in it changes but counters."""

    def __init__(self, layer: Layer, choice: Choice) -> None:
        plan = layer.plan
        self.layer = layer
        self.index = choice.index(plan)
        self.gate = Gate.of(plan, self.index)
        self._core = plan if self.gate is None else self.gate.core
        self.engine: Engine = choice.kind(self._core, self.index)
        self.fan = plan.fan
        self._encoder = EventEncoder(self._core)
        self._computed = ComputedEvents(plan.schema, plan.paths)
        self._lazy = None if self.gate is None else LazyTests(plan.schema, self.gate)
        self._patterns = plan.derived.patterns
        self._one = None
        if isinstance(self.engine, BatchEngine) and self.gate is None and plan.operators is None:
            self._one = self.engine.one_event(layer.gone)

    @property
    def attributes(self) -> int:
        """How many cells an event has."""
        return self._core.attributes

    def hits(self, batch: pa.RecordBatch, now: int, most: int) -> Hits:
        """The conjunctions that hold; TooManyHitsError if they are more than `most`. One event alone has no limit."""
        most = UNBOUNDED if batch.num_rows <= 1 else most
        batch = self.layer.plan.computed.add_to(batch, now)
        cells = self._core.encode(batch)
        hits = self.engine.match(cells, most) if self._core.conjunctions else _NO_HITS
        if self.gate is None:
            return hits
        found = self.gate.find_patterns(batch, most)
        hits = self.gate.candidates(hits, found, cells, most)
        if not self.gate.is_open(hits):
            return hits
        needed = are_needed(hits.conjunction, *self.fan, *self.layer.leases(now), self.layer.gone)
        return self.gate.let_through(hits, needed, batch, found)

    def ids(self, event: Mapping[str, Any], now: int) -> list[int]:
        """The ids of the subscriptions that one event matches, ascending. Not for plans with operators."""
        event = self._computed.add_to(event, now)
        cells = self._encoder.cells(event, now)
        if self._one is not None:
            found: list[int] = self._one.ids(cells, now).tolist()
            return found
        hits = self.engine.match(cells) if self._core.conjunctions else _NO_HITS
        if self.gate is not None:
            hits = self._let_through(self.gate, hits, event, cells, now)
        _, position = collect_hits(self.layer, hits, 1, now, *self.fan)
        ids: list[int] = self.layer.plan.ids[position].tolist()
        return ids

    def take_evaluations(self) -> Int64s:
        """How many lazy tests were evaluated for each subscription since the last call."""
        plan = self.layer.plan
        total = np.zeros(plan.targets, np.int64)
        if self.gate is not None:
            counts = np.repeat(self.gate.take_evaluations(), np.diff(plan.fan_start))
            np.add.at(total, plan.fan_subscription, counts)
        count = len(plan.ids)
        if plan.operators is not None:
            chains = np.repeat(total[count:], np.diff(plan.operators.fan_start))
            np.add.at(total, plan.operators.fan_subscription, chains)
        return total[:count]

    def _let_through(
        self, gate: Gate, hits: Hits, event: Mapping[str, Any], cells: Int32s, now: int
    ) -> Hits:
        lazy = self._lazy
        assert lazy is not None
        found = find_patterns(event, self._patterns) if gate.finds_patterns else None
        hits = gate.candidates(hits, found, cells, UNBOUNDED)
        if not gate.is_open(hits):
            return hits
        needed = are_needed(hits.conjunction, *self.fan, *self.layer.leases(now), self.layer.gone)
        cell_of = functools.cache(lambda test: lazy.cell(test, event, found, now))
        kept = needed.copy()
        for n in np.flatnonzero(needed).tolist():
            conjunction = int(hits.conjunction[n])
            evaluated = 0
            for test, cell in gate.tests_of(conjunction):
                evaluated += not gate.is_found(test)
                if cell_of(test) != cell:
                    kept[n] = False
                    break
            gate.count(conjunction, evaluated)
        return Hits(hits.event[kept], hits.conjunction[kept])
