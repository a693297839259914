"""The shared diagram: each distinct node once, and the pairs that the definition has, whichever way it is evaluated."""

from itertools import pairwise

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from penstock.base.arrays import read_only
from penstock.language import Schema
from penstock.matching import FOREVER, Rows, compile_plan
from penstock.matching.engines import mbd, mbd_blocks
from penstock.matching.engines.interface import UNBOUNDED, Hits
from penstock.matching.engines.mbd import MbdEngine
from penstock.matching.engines.mbd_diagram import TRUE, Diagram
from penstock.matching.engines.naive import NaiveEngine
from penstock.matching.predicate_index import number_predicates

from .plans import expected, found, plan_of, random_cells, workloads

CUTS = [2, 5, 40, 300]  # two narrow attributes, two with wide bands
STATISTICS, PLAN = ({"order": order} for order in MbdEngine.options["order"])


class ByEvent(MbdEngine):
    """Event by event, whatever a block would cost."""

    def _block_pays(self, looked_at, events):
        return False


class ByBlock(MbdEngine):
    """As a block, even if it is of one event."""

    def match(self, cells):
        return Hits(*self._match_block(cells, UNBOUNDED))


WAYS = [MbdEngine, ByEvent, ByBlock]


def engine_of(plan, kind=MbdEngine, options=STATISTICS):
    index = kind.build(plan, options)
    return kind(plan, {name: read_only(array) for name, array in index.items()})


# --- the pairs ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", WAYS)
@settings(max_examples=60, deadline=None)
@given(
    conjunctions=workloads(CUTS),
    events=st.sampled_from([1, 2, 63, 64, 65, 200]),
    seed=st.integers(0, 99),
    options=st.sampled_from([STATISTICS, PLAN]),
)
def test_any_conjunctions_and_any_number_of_events(kind, conjunctions, events, seed, options):
    """Points, ranges and sets, at word boundaries and off them, with either order of attributes."""
    plan = plan_of(conjunctions, CUTS)
    cells = random_cells(CUTS, events, seed)
    hits = engine_of(plan, kind, options).match(cells)
    assert found(plan, hits) == expected(conjunctions, cells)


def random_conjunctions(rng, count, cuts, width):
    """Conjunctions of one to six predicates from a small stock of them, so that much is shared."""
    stock = []
    for a, cut in enumerate(cuts):
        last = 2 * cut + 1
        for _ in range(12):
            low = int(rng.integers(0, last))
            ranges = [(low, min(last, low + int(rng.uniform(0, 2 * width) * last)))]
            if rng.random() < 0.2:
                ranges = [
                    (x, x) for x in sorted(rng.choice(last + 1, min(last, 25), False).tolist())
                ]
                ranges = ranges[: int(rng.choice([2, 5, 25]))]
            stock.append((a, ranges))
    made = []
    for _ in range(count):
        chosen = rng.choice(len(stock), rng.integers(1, 7), replace=False)
        made.append(dict(stock[i] for i in chosen))
    return made


@pytest.mark.parametrize("kind", WAYS)
@pytest.mark.parametrize("events", [130, 1000, 4096])
@pytest.mark.parametrize("width", [0.02, 0.4])
def test_many_conjunctions_as_the_naive_engine(kind, events, width):
    """Deep diagrams with many branches, small and large sets, full tables: the same pairs as testing everything."""
    cuts = [3, 30, 31, 32, 500, 500, 6000]
    rng = np.random.default_rng(events)
    plan = plan_of(random_conjunctions(rng, 1500, cuts, width), cuts)
    cells = random_cells(cuts, events, seed=events)
    hits, naive = engine_of(plan, kind).match(cells), NaiveEngine(plan, {}).match(cells)
    assert len(naive.event) > 0
    assert found(plan, hits) == found(plan, naive)


@pytest.mark.parametrize("kind", WAYS)
def test_long_chains_that_share_little(kind):
    """Chains without a branch, longer than what is climbed in one step, over wide bands."""
    cuts = [200] * 12
    rng = np.random.default_rng(5)
    conjunctions = [
        {a: [(int(low), int(low) + 300)] for a, low in enumerate(rng.integers(0, 100, 12))}
        for _ in range(800)
    ]
    plan = plan_of(conjunctions, cuts)
    cells = random_cells(cuts, 700, seed=3)
    hits, naive = engine_of(plan, kind).match(cells), NaiveEngine(plan, {}).match(cells)
    assert len(naive.event) > 0
    assert found(plan, hits) == found(plan, naive)


@pytest.mark.parametrize("kind", WAYS)
def test_events_that_are_all_alike(kind):
    """One cell for all: ranks jump from none to all."""
    conjunctions = [{0: [(k, k + 20)], 1: [(2 * k, 2 * k + 30)]} for k in range(100)]
    plan = plan_of(conjunctions, [200, 200])
    cells = np.full((2, 300), 77, np.int32)
    assert found(plan, engine_of(plan, kind).match(cells)) == expected(conjunctions, cells)


@pytest.mark.parametrize("kind", WAYS)
def test_more_matches_than_any_first_guess(kind):
    """Outputs grow in the middle of a climb."""
    conjunctions = [{0: [(0, 3)], 1: [(0, k)]} for k in range(1, 600)]
    plan = plan_of(conjunctions, [1, 300])
    cells = random_cells([1, 300], 300, seed=1)
    assert found(plan, engine_of(plan, kind).match(cells)) == expected(conjunctions, cells)


@pytest.mark.parametrize("kind", WAYS)
@pytest.mark.parametrize("events", [0, 1, 70])
def test_plans_with_nothing_in_them(kind, events):
    """No conjunction matches nothing; the one without predicates everything; both alone and beside others."""
    if kind is ByBlock and not events:
        events = 1
    for conjunctions in ([], [{}], [{}, {0: [(2, 3)]}]):
        plan = plan_of(conjunctions, [3])
        cells = random_cells([3], events, seed=2)
        assert found(plan, engine_of(plan, kind).match(cells)) == expected(conjunctions, cells)


def test_more_events_than_a_block_holds(monkeypatch):
    """Blocks are cut, and the numbers of their events continue."""
    monkeypatch.setattr(mbd, "_BLOCK", 100)
    monkeypatch.setattr(MbdEngine, "_block_pays", lambda *_: True)
    conjunctions = random_conjunctions(np.random.default_rng(1), 200, CUTS, 0.3)
    plan = plan_of(conjunctions, CUTS)
    for events in (101, 250, 301):
        cells = random_cells(CUTS, events, seed=events)
        assert found(plan, engine_of(plan).match(cells)) == expected(conjunctions, cells)


@pytest.mark.parametrize("kind", WAYS)
def test_derived_attributes_and_contradictions(kind):
    """Patterns, comparisons of attributes and NULLs; a pattern and its negation in one conjunction never hold."""
    filters = [
        "s LIKE '%x' AND a = 1",
        "NOT (s LIKE '%x') AND a = 1",
        "s LIKE '%x' AND NOT (s LIKE '%x')",
        "a > b AND s IS NULL",
        "a IS NULL OR b IN (1, 3, 5)",
        "a = 1 AND a = 2",
        "TRUE",
    ]
    rows = Rows.of([(sid, "u", text, FOREVER) for sid, text in enumerate(filters)])
    plan, errors = compile_plan(rows, Schema.of({"a": "int", "b": "int", "s": "string"}))
    assert errors == []
    rng = np.random.default_rng(0)
    cells = np.stack([rng.integers(0, last + 1, 300) for last in plan.last_cells]).astype(np.int32)
    hits, naive = engine_of(plan, kind).match(cells), NaiveEngine(plan, {}).match(cells)
    assert found(plan, hits) == found(plan, naive)


@settings(max_examples=30, deadline=None)
@given(conjunctions=workloads(CUTS), least=st.sampled_from([1, 10**9]))
def test_tables_are_a_matter_of_cost_only(conjunctions, least):
    """With a table for everything, and without any, a block has the same pairs."""
    plan = plan_of(conjunctions, CUTS)
    cells = random_cells(CUTS, 150, seed=4)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mbd_blocks, "_LEAST_USES", least)
        engine = engine_of(plan, ByBlock)
    assert found(plan, engine.match(cells)) == expected(conjunctions, cells)


def test_the_same_events_give_the_same_pairs_in_the_same_order():
    """Arrays and answers depend on plan and events alone."""
    conjunctions = random_conjunctions(np.random.default_rng(8), 300, CUTS, 0.3)
    cells = random_cells(CUTS, 500, seed=8)
    first, second = (MbdEngine.build(plan_of(conjunctions, CUTS), STATISTICS) for _ in range(2))
    assert first.keys() == second.keys()
    assert all(np.array_equal(array, second[name]) for name, array in first.items())
    plan = plan_of(conjunctions, CUTS)
    hits = [MbdEngine(plan, index).match(cells) for index in (first, second)]
    assert np.array_equal(hits[0].event, hits[1].event)
    assert np.array_equal(hits[0].conjunction, hits[1].conjunction)


# --- the diagram ----------------------------------------------------------------------------------


def chains_of(plan, options):
    """The predicates of each conjunction by number, from the bottom."""
    number = number_predicates(plan, by_statistics=options is STATISTICS)[1].tolist()
    starts = plan.conjunction_start.tolist()
    return [tuple(sorted(number[a:b])) for a, b in pairwise(starts)]


@settings(max_examples=100, deadline=None)
@given(conjunctions=workloads(CUTS), options=st.sampled_from([STATISTICS, PLAN]))
def test_each_distinct_part_of_a_conjunction_is_one_node(conjunctions, options):
    """As many nodes as there are distinct chains from TRUE upwards, and each conjunction ends at its own."""
    plan = plan_of(conjunctions, CUTS)
    index = MbdEngine.build(plan, options)
    diagram, chains = Diagram.of(index), chains_of(plan, options)
    chain_of = {TRUE: ()}
    for n in range(len(diagram.predicate)):
        for m in range(diagram.above[n], diagram.above[n + 1]):
            assert m not in chain_of
            chain_of[m] = (*chain_of[n], int(diagram.predicate[m]))
    parts = {chain[:k] for chain in chains for k in range(len(chain) + 1)} | {()}
    assert sorted(chain_of.values()) == sorted(parts)
    ends = {int(c): chain_of[n] for n, c in enumerate(diagram.output) if c >= 0}
    assert ends == dict(enumerate(chains))


def nodes_of(index):
    """How many nodes there are, but for TRUE."""
    return len(Diagram.of(index).predicate) - 1


def test_what_all_have_in_common_is_there_once():
    """A hundred conjunctions that differ in one predicate are a hundred nodes over the chain that they share."""
    conjunctions = [{0: [(1, 3)], 1: [(2, 2), (5, 5)], 2: [(k, k)]} for k in range(100)]
    index = MbdEngine.build(plan_of(conjunctions, [5, 5, 60]), STATISTICS)
    assert nodes_of(index) == 2 + 100


def test_statistics_put_what_is_shared_at_the_bottom():
    """With the plan's order, whose first attribute is tested differently by everyone, nothing would be shared."""
    conjunctions = [{0: [(k, k)], 1: [(2, 4)]} for k in range(100)]
    plan = plan_of(conjunctions, [60, 5])
    assert nodes_of(MbdEngine.build(plan, STATISTICS)) == 101
    assert nodes_of(MbdEngine.build(plan, PLAN)) == 200


def test_blocks_are_used_where_they_pay():
    """Many events over a small diagram go as a block, a few over a large one don't; the pairs don't depend on it."""
    conjunctions = random_conjunctions(np.random.default_rng(3), 400, CUTS, 0.5)
    engine = engine_of(plan_of(conjunctions, CUTS))
    assert engine._block_pays(looked_at=300.0, events=4096)
    assert not engine._block_pays(looked_at=3.0, events=4)
