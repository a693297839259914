"""The bit-parallel engine where it is bit-parallel: blocks of many events, bands, runs, sets."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from penstock.base.arrays import read_only
from penstock.matching.engines import batch
from penstock.matching.engines.batch import BLOCK, BatchEngine
from penstock.matching.engines.naive import NaiveEngine

from .plans import expected, found, plan_of, random_cells, workloads

CUTS = [2, 5, 40, 300]  # bands that are cells, and bands that are shares of the events


def engine_of(plan):
    index = BatchEngine.build(plan, {})
    return BatchEngine(plan, {name: read_only(array) for name, array in index.items()})


@settings(max_examples=60, deadline=None)
@given(
    conjunctions=workloads(CUTS),
    events=st.sampled_from([1, 47, 48, 63, 64, 65, 200]),
    seed=st.integers(0, 99),
)
def test_any_conjunctions_and_any_number_of_events(conjunctions, events, seed):
    """Below and above the size from which on a block is prepared, at word boundaries and off them."""
    plan = plan_of(conjunctions, CUTS)
    cells = random_cells(CUTS, events, seed)
    assert found(plan, engine_of(plan).match(cells)) == expected(conjunctions, cells)


def random_conjunctions(rng, count, cuts, width):
    """Conjunctions of one to five ranges, or sets of them, about as wide as that share of the cells."""
    made = []
    for _ in range(count):
        asked = {}
        for a in rng.choice(len(cuts), rng.integers(1, min(5, len(cuts)) + 1), replace=False):
            last = 2 * cuts[a] + 1
            size = max(1, int(rng.uniform(0.3, 1.7) * width * last))
            low = int(rng.integers(0, last))
            asked[int(a)] = [(low, min(last, low + size - 1))]
            if rng.random() < 0.1 and low > 1:
                asked[int(a)].insert(0, (low - 2, low - 2))
        made.append(asked)
    return made


@pytest.mark.parametrize("width", [0.001, 0.05, 0.4])
@pytest.mark.parametrize("events", [200, 1000, BLOCK])
def test_many_conjunctions_as_the_naive_engine(width, events):
    """Short runs and long ones, few and many bands, with and without prefixes: the same pairs as testing them all."""
    cuts = [3, 30, 31, 32, 500, 500, 500, 2000]
    rng = np.random.default_rng(int(width * 1000) + events)
    plan = plan_of(random_conjunctions(rng, 600, cuts, width), cuts)
    cells = random_cells(cuts, events, seed=events)
    hits, naive = engine_of(plan).match(cells), NaiveEngine(plan, {}).match(cells)
    assert len(naive.event) > 0
    assert found(plan, hits) == found(plan, naive)


def test_events_that_are_all_alike():
    """One cell for all: ranks jump from none to all."""
    cuts = [100, 100]
    conjunctions = [{0: [(k, k + 20)], 1: [(2 * k, 2 * k + 30)]} for k in range(100)]
    plan = plan_of(conjunctions, cuts)
    cells = np.full((2, 500), 77, np.int32)
    assert found(plan, engine_of(plan).match(cells)) == expected(conjunctions, cells)


def test_more_attributes_than_slots(monkeypatch):
    """Attributes without a prefix table are verified like the rest."""
    cuts = [50] * 120
    rng = np.random.default_rng(7)
    conjunctions = [
        {0: [(0, 80)], int(a): [(10, 60)], int(b): [(0, 50)]}
        for a, b in (rng.choice(np.arange(1, 120), 2, replace=False) for _ in range(2000))
    ]
    plan = plan_of(conjunctions, cuts)
    cells = random_cells(cuts, 300, seed=1)
    engine = engine_of(plan)
    assert np.diff(engine._slots.start).max() <= batch._MOST_SLOTS
    naive = NaiveEngine(plan, {}).match(cells)
    assert found(plan, engine.match(cells)) == found(plan, naive)


@settings(max_examples=40, deadline=None)
@given(data=st.data(), seed=st.integers(0, 99))
def test_long_runs_of_one_point_are_parted(data, seed):
    """Hundreds of conjunctions with one access point, second predicates of every kind: single events find theirs."""
    cuts = [1, 4, 30]
    second = data.draw(
        st.lists(
            st.tuples(st.integers(1, 2), st.integers(1, 8), st.integers(0, 3)),
            min_size=1,
            max_size=30,
        )
    )
    rng = np.random.default_rng(seed)
    conjunctions = []
    for _ in range(250):
        asked = {0: [(2, 2)]}
        if rng.random() < 0.95:
            a, low, width = second[rng.integers(len(second))]
            asked[a] = [(low, min(low + width, 2 * cuts[a] + 1))]
            if rng.random() < 0.2:
                asked[3 - a] = [(int(rng.integers(0, 5)), 7)]
        conjunctions.append(asked)
    plan = plan_of(conjunctions, cuts)
    cells = random_cells(cuts, 40, seed)
    assert found(plan, engine_of(plan).match(cells)) == expected(conjunctions, cells)
