"""The matching tree: nodes test attributes, edges are results of tests, leaves hold conjunctions.

Follows tree §3. An event follows, from the root, every edge that agrees with it: the result edges of its cell, and the
don't-care edge, which leads to the conjunctions that don't test the attribute. For equalities, the number of nodes that
it can expect to visit grows with a power of the number of conjunctions that is less than one (tree §4). Read on in this
order:

    tree_words        the array that a tree is, and what edges are labelled with
    tree_items        conjunctions, and the way that each takes
    tree_leaves       what is left to verify
    tree_order        which attribute is tested first, and which are factored out
    tree_build        a tree from many conjunctions
    tree_match        the matches of events
    tree_change       inserting and removing a conjunction
    tree_grow         a tree that changes

The optimisations of tree §5, and one of ours, can be switched off to see what each is worth:

    collapse     a node tests an attribute only if a conjunction below it does; without, there is a level per attribute
    tails        few conjunctions are a leaf, which verifies what is left of them; without, each predicate that can have
                 an edge is tested by a node
    factoring    separate trees for the values of at most so many index attributes; `auto`: while copies are few
    order        what separates best is tested first, or attributes as they are numbered

Departures: similar ranges share an edge (`tree_words`), and leaves verify. In tree §3 each range has an edge and each
conjunction a leaf: then most of a tree with ranges, or with many attributes, is paths that nothing shares.
"""

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from penstock.base.arrays import AnyArray, Int32s, read_only
from penstock.base.errors import PenstockError
from penstock.matching.engines.interface import UNBOUNDED, Hits, limit_hits
from penstock.matching.engines.tree_build import FEW, LEAF, build, rules_of
from penstock.matching.engines.tree_items import FIELDS, HIGH, LOW, OF, RAW, Items, set_keys
from penstock.matching.engines.tree_match import match
from penstock.matching.engines.tree_order import as_given, by_worth, index_attributes, statistics
from penstock.matching.engines.tree_words import (
    END,
    ROOT,
    Sets,
    empty_state,
    empty_words,
    last_level,
)
from penstock.matching.plan import Plan

_COPIES = 8  # a set of at most so many points has an edge for each
_MANY = 64  # from so many events on it is worth ordering them …
_LARGE = 1 << 22  # … in a tree of so many bytes, which is more than stays in a core's own cache
_IN_ORDER = read_only(np.empty(0, np.int32))


class TreeEngine:
    """See the module."""

    name: ClassVar[str] = "tree"
    options: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "order": ("statistics", "given"),
        "collapse": ("yes", "no"),
        "tails": ("yes", "no"),
        "factoring": ("auto", "0", "1", "2"),
    }

    def __init__(self, plan: Plan, index: Mapping[str, AnyArray]) -> None:
        self._words = read_only(index["words"])
        self._sets = _sets(plan)
        self._leading = index["sequence"][:4]
        self._is_large = self._words.nbytes >= _LARGE

    @staticmethod
    def build(plan: Plan, options: Mapping[str, str]) -> dict[str, AnyArray]:
        words = empty_words(np.int32, plan.attributes)
        if plan.last_cells.max(initial=0) >= 1 << last_level(words):
            raise PenstockError("an attribute has more cells than a tree has keys: over a billion")
        sets = _sets(plan)
        items = _items(plan, sets, last_level(words))
        found = statistics(items, plan.last_cells)
        sequence = as_given(found) if options["order"] == "given" else by_worth(found)
        factored = index_attributes(items, found, options["factoring"])
        sequence = np.array([*factored, *(a for a in sequence if a not in factored)], np.int32)
        tails = options["tails"] == "yes"
        rules = rules_of(
            sequence,
            attributes=plan.attributes,
            factored=len(factored),
            every=options["collapse"] == "no",
            leaf=LEAF if tails else 0,
            few=FEW if tails else 1,
        )
        state = empty_state(exact=True)
        words = build(words, state, ROOT, items, np.zeros(plan.attributes, np.int8), rules, sets)
        return {"words": words[: state[END]].copy(), "sequence": sequence}

    def match(self, cells: Int32s, most: int = UNBOUNDED) -> Hits:
        event, conjunction, *_ = match(self._words, self._sets, cells, self._order(cells), most)
        return limit_hits(Hits(event, conjunction), most)

    def effort(self, cells: Int32s) -> dict[str, int]:
        """What matching these events takes: nodes visited, edges searched for, conjunctions verified."""
        _, _, *counts = match(self._words, self._sets, cells, _IN_ORDER, UNBOUNDED)
        return dict(zip(("nodes", "searches", "verified"), counts, strict=True))

    def _order(self, cells: Int32s) -> Int32s:
        """An order in which events that go the same way at first follow each other: they find nodes in the cache.

        Worth a third of the time with a million subscriptions. Four bits of the cells of four attributes say where an
        event goes well enough, and sixteen bits are sorted in linear time.
        """
        if not self._is_large or cells.shape[1] < _MANY:
            return _IN_ORDER
        way = np.zeros(cells.shape[1], np.uint16)
        for attribute in self._leading:
            way = way << 4 | (cells[attribute] & 15).astype(np.uint16)
        return read_only(np.argsort(way, kind="stable").astype(np.int32))


def _sets(plan: Plan) -> Sets:
    return Sets(plan.set_attribute, plan.set_start, plan.set_low, plan.set_high)


def _items(plan: Plan, sets: Sets, top_level: int) -> Items:
    predicates = np.empty((len(plan.predicate_low), FIELDS), np.int32)
    predicates[:, OF] = plan.tested_attribute
    predicates[:, RAW] = plan.predicate_attribute
    predicates[:, LOW] = plan.predicate_low
    predicates[:, HIGH] = plan.predicate_high
    set_keys(predicates, sets, plan.last_cells, top_level, _COPIES)
    return Items(np.arange(plan.conjunctions, dtype=np.int32), plan.conjunction_start, predicates)
