"""The shared decision diagram: every distinct predicate once, every common part of conjunctions once.

Follows mbd §3: predicates get numbers in a global index (`predicate_index`), and conjunctions become chains of nodes
that share equal parts from the bottom (`mbd_diagram`). An event is matched in two steps: which predicates hold, then
which nodes. Each predicate and node is evaluated once per event, or once per block of events, however many conjunctions
use it. The engine is strong where conjunctions repeat each other's predicates, as equalities over few values do; where
nearly every predicate is used once, there is little to share.

There are two ways of evaluation, and the cheaper one is taken:

    event by event (`mbd_events`)     from the predicates that hold upwards, only through nodes that are true
    a block (`mbd_blocks`)            64 events at a time, only through nodes that are true for one of them

The first few events are matched one by one, and the number of nodes that they had to look at tells what the rest would
cost. The work is counted, not timed, so the choice depends on nothing but plan and events.
"""

from collections.abc import Mapping
from itertools import pairwise
from typing import ClassVar

import numpy as np

from penstock.base.arrays import AnyArray, Int32s, read_only
from penstock.matching.engines.entries import PlanConjunctions
from penstock.matching.engines.interface import UNBOUNDED, Hits, limit_hits
from penstock.matching.engines.mbd_blocks import Lowest, build_lowest, match_block
from penstock.matching.engines.mbd_diagram import Diagram, build_diagram
from penstock.matching.engines.mbd_events import match_events
from penstock.matching.plan import Plan
from penstock.matching.predicate_index import WORD, PredicateIndex, number_predicates

_BLOCK = 10_240  # events at most: past these, tables outgrow the cache
_PROBED = 2  # events whose cost is counted

# Nanoseconds, roughly. Event by event: for a node looked at, a word of predicates, a group of them. In a block: to
# begin, for an attribute, for a predicate, for a node, and for each 64 events of a node.
_NODE, _WORD, _GROUP = 4.0, 3.0, 10.0
_BLOCK_START, _BLOCK_ATTRIBUTE, _BLOCK_PREDICATE = 50_000.0, 1_500.0, 5.0
_BLOCK_NODE, _BLOCK_WORD = 15.0, 0.35


class MbdEngine:
    """See the module. The option `order` is the order of attributes: by statistics, or as the plan has them."""

    name: ClassVar[str] = "mbd"
    options: ClassVar[Mapping[str, tuple[str, ...]]] = {"order": ("statistics", "plan")}

    def __init__(self, plan: Plan, index: Mapping[str, AnyArray]) -> None:
        self._index = PredicateIndex.of(index)
        self._set_predicate = read_only(index["set_predicate"])
        self._diagram = Diagram.of(index)
        self._arrays = (*self._index, *self._diagram)
        self._lowest = Lowest.of(index)
        self._conjunctions = PlanConjunctions.of(plan)
        self._last = plan.last_cells
        self._longest = int(np.diff(plan.conjunction_start).max(initial=0))

    @staticmethod
    def build(plan: Plan, options: Mapping[str, str]) -> dict[str, AnyArray]:
        index, number = number_predicates(plan, by_statistics=options["order"] == "statistics")
        words = len(index["predicate_high"]) // WORD
        index |= build_diagram(plan.conjunction_start, number, words)
        return index | build_lowest(plan, Diagram.of(index), number)

    def match(self, cells: Int32s, most: int = UNBOUNDED) -> Hits:
        return limit_hits(self._hits(cells, most), most)

    def _hits(self, cells: Int32s, most: int) -> Hits:
        events = cells.shape[1]
        probed = min(events, _PROBED)
        event, found, looked_at = match_events(cells, 0, probed, most, *self._arrays)
        if probed == events:
            return Hits(event, found)
        if not self._block_pays(looked_at / probed, events):
            rest_event, rest, _ = match_events(cells, probed, events, most, *self._arrays)
            return Hits(np.concatenate([event, rest_event]), np.concatenate([found, rest]))
        blocks = -(-events // _BLOCK)
        if blocks == 1:
            return Hits(*self._match_block(cells, most))
        bounds = [events * i // blocks for i in range(blocks + 1)]
        hits = [
            self._match_block(np.ascontiguousarray(cells[:, first:past]), most)
            for first, past in pairwise(bounds)
        ]
        return Hits(
            np.concatenate([e + np.int32(b) for (e, _), b in zip(hits, bounds, strict=False)]),
            np.concatenate([found for _, found in hits]),
        )

    def _match_block(self, cells: Int32s, most: int) -> tuple[Int32s, Int32s]:
        return match_block(
            cells,
            self._index,
            self._set_predicate,
            self._diagram,
            self._lowest,
            self._conjunctions,
            self._last,
            self._longest,
            most,
        )

    def _block_pays(self, looked_at: float, events: int) -> bool:
        """Is a block cheaper, if an event looks at so many nodes?"""
        predicates = len(self._index.high)
        groups = len(self._index.groups) + len(self._index.range_groups)
        by_event = _NODE * looked_at + _WORD * predicates / WORD + _GROUP * groups
        start = _BLOCK_START + _BLOCK_ATTRIBUTE * len(self._last) + _BLOCK_PREDICATE * predicates
        reached = min(len(self._diagram.predicate), events * looked_at)
        return events * by_event > start + reached * (_BLOCK_NODE + _BLOCK_WORD * events / WORD)
