"""The matching tree, static and growing, against the definition: every predicate of every conjunction, in plain Python."""

import itertools
from collections import Counter

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from penstock.errors import PenstockError
from penstock.language import Schema
from penstock.matching.derived import DerivedAttributes
from penstock.matching.domains import ByteStrings, Domain
from penstock.matching.engines.tree import TreeEngine
from penstock.matching.engines.tree_build import LEAF
from penstock.matching.engines.tree_grow import LAST, GrowingTree
from penstock.matching.engines.tree_order import index_attributes, statistics
from penstock.matching.plan import Plan

DEFAULTS = {name: values[0] for name, values in TreeEngine.options.items()}
EACH_OPTION = [DEFAULTS] + [
    DEFAULTS | {name: value} for name, values in TreeEngine.options.items() for value in values[1:]
]
PAPER = {
    "order": "given",
    "collapse": "no",
    "tails": "no",
    "factoring": "0",
    "successors": "no",
}
TOGETHER = [
    PAPER,
    PAPER | {"successors": "yes"},
    PAPER | {"successors": "yes", "collapse": "yes"},
    PAPER | {"successors": "yes", "factoring": "2"},
    DEFAULTS | {"successors": "yes", "factoring": "2", "tails": "no"},
]


@pytest.fixture(
    params=EACH_OPTION + TOGETHER, ids=lambda options: ",".join(map("=".join, options.items()))
)
def options(request):
    return request.param


# --- plans of cells, and the definition ---------------------------------------------------------

# A conjunction is a list of predicates: an attribute and the ranges of cells that it accepts, ascending and apart.


def plan_of(conjunctions, last):
    """A plan with these conjunctions, whose attributes have the cells 0 .. last (odd: NULL, gaps and points)."""
    schema = Schema.of({f"a{a}": "long" for a in range(len(last))})
    start, attribute, low, high = [0], [], [], []
    sets, set_start, set_low, set_high = [], [0], [], []
    for predicates in conjunctions:
        for a, ranges in predicates:
            low.append(ranges[0][0])
            high.append(ranges[-1][1])
            attribute.append(a if len(ranges) == 1 else ~len(sets))
            if len(ranges) > 1:
                sets.append(a)
                set_low += [first for first, _ in ranges]
                set_high += [past for _, past in ranges]
                set_start.append(len(set_low))
        start.append(len(attribute))
    nothing = ByteStrings(np.zeros(len(conjunctions) + 1, np.int64), np.empty(0, np.uint8))
    return Plan(
        schema=schema,
        domains=tuple(
            Domain((f"a{a}",), schema.find((f"a{a}",)).type, np.arange((x - 1) // 2))
            for a, x in enumerate(last)
        ),
        derived=DerivedAttributes.of([], [], schema) if False else _no_derived(schema),
        conjunction_start=np.array(start, np.int32),
        predicate_attribute=np.array(attribute, np.int32),
        predicate_low=np.array(low, np.int32),
        predicate_high=np.array(high, np.int32),
        set_attribute=np.array(sets, np.int32),
        set_start=np.array(set_start, np.int32),
        set_low=np.array(set_low, np.int32),
        set_high=np.array(set_high, np.int32),
        fan_start=np.arange(len(conjunctions) + 1, dtype=np.int32),
        fan_subscription=np.arange(len(conjunctions), dtype=np.int32),
        ids=np.arange(len(conjunctions)),
        expires=np.zeros(len(conjunctions), np.int64),
        subscribers=nothing,
        filters=nothing,
        index={},
    )
