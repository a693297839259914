"""The shared decision diagram: every distinct predicate once, every common part of conjunctions once.

Follows mbd §3: predicates get numbers in a global index (`predicate_index`), conjunctions become chains of nodes that
share what they have in common from the bottom (`mbd_diagram`), and an event is matched in two steps: which predicates
hold, then which nodes (`mbd_events`). Each is done once per event, however many conjunctions use it. It is strong where
conjunctions repeat each other's predicates, as equalities over few values do; where nearly every predicate is used
once, there is little to share.

Many events at a time may cost less in the index of `batch`, which this engine has beside the diagram. The first few
events are matched in the diagram, and the number of nodes that they had to look at tells what the rest would cost. The
work is counted, not timed, so the choice depends on nothing but plan and events.

Not the diagram for a block of events, with a word of bits for 64 of them at each node: for 5 values that took half as
long with 100,000 subscriptions and a third more with a million, for 10 values as long as the index.
"""

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from penstock.base.arrays import AnyArray, Int32s
from penstock.matching.engines.batch import BatchEngine
from penstock.matching.engines.interface import UNBOUNDED, Hits, limit_hits, order_of_ways
from penstock.matching.engines.mbd_diagram import Diagram, build_diagram
from penstock.matching.engines.mbd_events import match_events
from penstock.matching.plan import Plan
from penstock.matching.predicate_index import ATTRIBUTE, WORD, PredicateIndex, number_predicates

_PROBED = 2  # events whose cost is counted
# Nanoseconds, roughly, of an event in the diagram: for a node looked at, a word of predicates, a group of them.
_NODE, _WORD, _GROUP = 4.0, 3.0, 10.0
_CONJUNCTION = 85.0  # of a block in the index, for each conjunction


class MbdEngine:
    """See the module. `order` is that of the attributes: by statistics, or as the plan has them."""

    name: ClassVar[str] = "mbd"
    options: ClassVar[Mapping[str, tuple[str, ...]]] = {"order": ("statistics", "plan")}

    def __init__(self, plan: Plan, index: Mapping[str, AnyArray]) -> None:
        self._blocks = BatchEngine(plan, index)
        self._index = PredicateIndex.of(index)
        self._diagram = Diagram.of(index)
        self._arrays = (*self._index, *self._diagram)
        self._leading = np.array(list(dict.fromkeys(self._index.groups[:, ATTRIBUTE])), np.int32)
        self._block_cost = _CONJUNCTION * plan.conjunctions

    @staticmethod
    def build(plan: Plan, options: Mapping[str, str]) -> dict[str, AnyArray]:
        index, number = number_predicates(plan, by_statistics=options["order"] == "statistics")
        words = len(index["predicate_high"]) // WORD
        index |= build_diagram(plan.conjunction_start, number, words)
        return index | BatchEngine.build(plan, {})

    def match(self, cells: Int32s, most: int = UNBOUNDED) -> Hits:
        events = cells.shape[1]
        probed = cells[:, :_PROBED]
        event, found, looked_at = self._by_event(probed, most)
        if events > _PROBED:
            if self._block_pays(looked_at / _PROBED, events):
                return self._blocks.match(cells, most)
            order = order_of_ways(cells, self._leading, sum(a.nbytes for a in self._diagram))
            event, found, _ = self._by_event(cells if order is None else cells[:, order], most)
            if order is not None:
                event = order[event].astype(np.int32)
        return limit_hits(Hits(event, found), most)

    def _by_event(self, cells: Int32s, most: int) -> tuple[Int32s, Int32s, int]:
        """Event and conjunction of every hit, and how many nodes were looked at."""
        found: tuple[Int32s, Int32s, int] = match_events(
            np.ascontiguousarray(cells), most, *self._arrays
        )
        return found

    def _block_pays(self, looked_at: float, events: int) -> bool:
        """Is a block cheaper, if an event looks at so many nodes?"""
        groups = len(self._index.groups) + len(self._index.range_groups)
        words = len(self._index.high) / WORD
        return events * (_NODE * looked_at + _WORD * words + _GROUP * groups) > self._block_cost
