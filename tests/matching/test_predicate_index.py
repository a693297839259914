"""The global predicate index against its definition: each distinct predicate once, and exactly those that hold."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from penstock.matching.predicate_index import (
    ATTRIBUTE,
    FIRST,
    LOWEST,
    PAST,
    WIDTH,
    WORD,
    PredicateIndex,
    mark_holding,
    number_predicates,
)

from .plans import plan_of, random_cells, workloads

CUTS = [2, 5, 40, 300]


def meaning(plan, p):
    """What a predicate of a conjunction is: its attribute, and its ranges of cells."""
    low, high = plan.predicate_low[p], plan.predicate_high[p]
    if plan.predicate_attribute[p] >= 0:
        return int(plan.predicate_attribute[p]), ((int(low), int(high)),)
    s = ~plan.predicate_attribute[p]
    ranges = slice(plan.set_start[s], plan.set_start[s + 1])
    lows, highs = plan.set_low[ranges].tolist(), plan.set_high[ranges].tolist()
    return int(plan.set_attribute[s]), tuple(zip(lows, highs, strict=True))


def meanings(plan, number):
    """Of every number what its predicates mean; all of them must mean the same."""
    found = {}
    for p, n in enumerate(number.tolist()):
        assert found.setdefault(n, meaning(plan, p)) == meaning(plan, p)
    return found


def accepting(meant, event):
    """The numbers of the predicates that have the cell of an event in one of their ranges."""
    return {
        n
        for n, (a, ranges) in meant.items()
        if any(low <= event[a] <= high for low, high in ranges)
    }


def marked(arrays, cells, e):
    """The numbers whose bits are set for an event."""
    holds = np.zeros(len(arrays["predicate_high"]) // WORD, np.uint64)
    mark_holding(PredicateIndex.of(arrays), cells, e, holds)
    return set(np.flatnonzero(np.unpackbits(holds.view(np.uint8), bitorder="little")).tolist())


@settings(max_examples=100, deadline=None)
@given(conjunctions=workloads(CUTS), statistics=st.booleans())
def test_each_distinct_predicate_has_one_number(conjunctions, statistics):
    """Predicates have the same number if and only if they are the same ranges of an attribute; none is left out."""
    plan = plan_of(conjunctions, CUTS)
    _, number = number_predicates(plan, by_statistics=statistics)
    meant = meanings(plan, number)
    assert len(set(meant.values())) == len(meant)
    assert sorted(meant) == list(range(len(meant)))


@settings(max_examples=100, deadline=None)
@given(conjunctions=workloads(CUTS), seed=st.integers(0, 99))
def test_exactly_the_predicates_that_hold_are_marked(conjunctions, seed):
    """For any cells of an event, the marked numbers are those of the predicates that accept them."""
    plan = plan_of(conjunctions, CUTS)
    arrays, number = number_predicates(plan)
    cells = random_cells(CUTS, 5, seed)
    meant = meanings(plan, number)
    for e in range(5):
        assert marked(arrays, cells, e) == accepting(meant, cells[:, e])


@pytest.mark.parametrize("seed", range(3))
def test_many_predicates_of_all_widths(seed):
    """Runs of more than a word, ends of words and of groups: again exactly those that hold."""
    rng = np.random.default_rng(seed)
    cuts, conjunctions = [500, 500], []
    for _ in range(2000):
        low, width = int(rng.integers(0, 1000)), int(rng.choice([0, 1, 3, 40, 600]))
        ranges = [(low, min(1001, low + width))]
        if rng.random() < 0.2 and low > 20:
            ranges.insert(0, (low - 15, low - 9))
        conjunctions.append({int(rng.integers(0, 2)): ranges})
    plan = plan_of(conjunctions, cuts)
    arrays, number = number_predicates(plan)
    cells = random_cells(cuts, 30, seed)
    meant = meanings(plan, number)
    assert len(meant) > 10 * WORD
    for e in range(30):
        assert marked(arrays, cells, e) == accepting(meant, cells[:, e])


def test_numbers_follow_attribute_then_width_then_lowest_cell():
    """What a look-up relies on: groups one after the other, attributes together, lows ascending, widths bounded."""
    conjunctions = [{i % 2: [(i, i + i % 23)]} for i in range(70)] + [{0: [(1, 2), (9, 9)]}]
    index = PredicateIndex.of(number_predicates(plan_of(conjunctions, [60, 60]))[0])
    attributes = index.groups[:, ATTRIBUTE].tolist()
    assert sorted(attributes, key=attributes.index) == attributes
    assert (index.groups[1:, FIRST] >= index.groups[:-1, PAST]).all()
    for group in index.groups:
        low = index.low[group[FIRST] : group[PAST]]
        high = index.high[group[FIRST] : group[PAST]]
        assert (np.diff(low) >= 0).all()
        assert low[0] == group[LOWEST]
        assert (high - low <= group[WIDTH]).all()
        assert (2 * (high - low) >= group[WIDTH]).all()


def test_the_attribute_that_conjunctions_agree_on_comes_first():
    """Few distinct predicates, used often, are numbered before many that are used once, unlike in the plan's order."""
    conjunctions = [{0: [(i, i + 1)], 1: [(i % 2, i % 2 + 1)]} for i in range(40)]
    plan = plan_of(conjunctions, [20, 20])
    number = number_predicates(plan)[1]
    assert number[plan.tested_attribute == 1].max() < number[plan.tested_attribute == 0].min()
    number = number_predicates(plan, by_statistics=False)[1]
    assert number[plan.tested_attribute == 0].max() < number[plan.tested_attribute == 1].min()


def test_the_more_selective_of_two_attributes_comes_first():
    """As many conjunctions agree on both; but what is above a selective predicate is visited seldom."""
    conjunctions = [
        {0: [(i % 3, i % 3 + 30)], 1: [(i % 3, i % 3 + 1)], 2: [(i, i)]} for i in range(30)
    ]
    plan = plan_of(conjunctions, [20, 20, 20])
    number = number_predicates(plan)[1]
    assert number[plan.tested_attribute == 1].max() < number[plan.tested_attribute == 0].min()


def test_the_same_plan_gives_the_same_numbers():
    """Numbering depends on the plan alone: plans are mapped by many workers and compared by their checksums."""
    conjunctions = [{i % 3: [(i, i + 5)], 3: [(7, 9)]} for i in range(30)]
    first, second = (number_predicates(plan_of(conjunctions, [40] * 4)) for _ in range(2))
    assert np.array_equal(first[1], second[1])
    assert all(np.array_equal(array, second[0][name]) for name, array in first[0].items())


def test_an_empty_plan_has_an_empty_index():
    """No predicate, no word, nothing to mark."""
    arrays, number = number_predicates(plan_of([], []))
    assert len(number) == 0
    assert marked(arrays, np.zeros((0, 1), np.int32), 0) == set()
