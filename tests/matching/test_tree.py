"""The matching tree, built and growing, against the definition: each predicate of each conjunction, in plain Python."""

import dataclasses
import itertools
import random

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from penstock.base.errors import PenstockError
from penstock.matching.engines import tree
from penstock.matching.engines.tree import TreeEngine
from penstock.matching.engines.tree_build import LEAF
from penstock.matching.engines.tree_grow import LAST, GrowingTree

from .plans import expected, found, plan_of, random_cells, workloads

DEFAULTS = {name: values[0] for name, values in TreeEngine.options.items()}
PLAIN = DEFAULTS | {"collapse": "no", "tails": "no", "factoring": "0"}
OPTIONS = [
    *(DEFAULTS | {name: v} for name, values in TreeEngine.options.items() for v in values[1:]),
    PLAIN,
    PLAIN | {"collapse": "yes"},
    DEFAULTS,
]
NAMES = [
    ",".join(f"{name}={o[name]}" for name in o if o[name] != DEFAULTS[name]) or "defaults"
    for o in OPTIONS
]
every_option = pytest.mark.parametrize("options", OPTIONS, ids=NAMES)
CUTS = [1, 2, 5, 40, 300]


def engine_of(plan, **options):
    return TreeEngine(plan, TreeEngine.build(plan, DEFAULTS | options))


def equalities(count, seed=0, attributes=8, values=5, fall=0.85):
    """Conjunctions of points (even cells), attribute i with probability 0.98 * fall**i, few values more often."""
    rng = random.Random(seed)
    return [
        {
            a: [(cell, cell)]
            for a in range(attributes)
            if rng.random() < 0.98 * fall**a
            for cell in [2 + 2 * min(rng.randrange(values), rng.randrange(values))]
        }
        for _ in range(count)
    ]


def all_kinds(count, seed, cuts=CUTS):
    """Conjunctions of points, ranges, thresholds, lists, their complements, and NULL."""
    rng = random.Random(seed)

    def one(last):
        a, b = sorted((rng.randint(1, last), rng.randint(1, last)))
        points = sorted(rng.sample(range(last + 1), min(rng.randint(2, 12), last + 1)))
        kinds = (
            [(a, a)],
            [(a, min(b, a + rng.randint(1, 1 + last // 8)))],
            [(a, b)],
            [(a, last)],
            [(0, a)],
            [(p, p) for p in points],
            [(1, a - 1), (a + 1, last)] if 1 < a < last else [(0, 0)],
            [(0, 0)],
        )
        return rng.choice(kinds)

    lasts = [2 * c + 1 for c in cuts]
    return [
        {a: one(lasts[a]) for a in rng.sample(range(len(cuts)), rng.randint(1, len(cuts)))}
        for _ in range(count)
    ]


# --- the built tree -----------------------------------------------------------------------------


@every_option
@settings(max_examples=15, deadline=None)
@given(count=st.integers(0, 150), fall=st.floats(0.4, 1), seed=st.integers(0, 999))
def test_equalities_match_by_the_definition(options, count, fall, seed):
    """Points only, of attributes more or less popular: the case that the tree was made for."""
    conjunctions = equalities(count, seed, attributes=5, values=3, fall=fall)
    plan = plan_of(conjunctions, [3] * 5)
    cells = random_cells([3] * 5, 12, seed)
    assert found(plan, engine_of(plan, **options).match(cells)) == expected(conjunctions, cells)


@every_option
@settings(max_examples=15, deadline=None)
@given(count=st.integers(0, 150), seed=st.integers(0, 999))
def test_ranges_and_sets_match_by_the_definition(options, count, seed):
    """Points, narrow, wide and open ranges, lists, complements and NULL, mixed."""
    conjunctions = all_kinds(count, seed)
    plan = plan_of(conjunctions, CUTS)
    cells = random_cells(CUTS, 12, seed)
    assert found(plan, engine_of(plan, **options).match(cells)) == expected(conjunctions, cells)


@settings(max_examples=100, deadline=None)
@given(conjunctions=workloads(CUTS), seed=st.integers(0, 999), tails=st.sampled_from(["yes", "no"]))
def test_few_conjunctions_of_any_kind(conjunctions, seed, tails):
    """What Hypothesis makes up, down to leaves of one conjunction."""
    plan = plan_of(conjunctions, CUTS)
    cells = random_cells(CUTS, 20, seed)
    hits = engine_of(plan, tails=tails).match(cells)
    assert found(plan, hits) == expected(conjunctions, cells)


def test_all_options_in_all_combinations():
    """Every combination of option values gives the same rows."""
    conjunctions = equalities(300, attributes=5, values=3) + all_kinds(300, 1, [3] * 5)
    plan = plan_of(conjunctions, [3] * 5)
    cells = random_cells([3] * 5, 40, seed=1)
    rows = expected(conjunctions, cells)
    for values in itertools.product(*TreeEngine.options.values()):
        chosen = dict(zip(TreeEngine.options, values, strict=True))
        assert found(plan, engine_of(plan, **chosen).match(cells)) == rows, chosen


@every_option
def test_nothing_to_match(options):
    """No conjunctions, no events, or neither."""
    empty = plan_of([], [3])
    assert len(engine_of(empty, **options).match(random_cells([3], 5, 0)).event) == 0
    plan = plan_of([{0: [(2, 2)]}], [3])
    assert len(engine_of(plan, **options).match(random_cells([3], 0, 0)).event) == 0


@every_option
def test_a_conjunction_without_predicates_always_holds(options):
    """It is in the tree beside others, with the don't-care edges."""
    conjunctions = [{}, *equalities(100, attributes=3, values=3)]
    plan = plan_of(conjunctions, [3] * 3)
    cells = random_cells([3] * 3, 10, 0)
    pairs = found(plan, engine_of(plan, **options).match(cells))
    assert pairs == expected(conjunctions, cells)
    assert {(e, 0) for e in range(10)} <= pairs


@every_option
def test_a_single_attribute_with_many_values(options):
    """One node with an edge per value; each event takes one of them."""
    conjunctions = [{0: [(2 + 2 * i, 2 + 2 * i)]} for i in range(1000)]
    plan = plan_of(conjunctions, [1000])
    engine = engine_of(plan, **options)
    cells = np.arange(2002, dtype=np.int32)[None]
    assert found(plan, engine.match(cells)) == {(2 + 2 * i, i) for i in range(1000)}
    assert engine.effort(cells)["nodes"] <= 2002


@every_option
def test_what_no_attribute_can_separate_is_verified(options):
    """Thresholds that half of all cells satisfy: no edge tells them apart, and space stays linear."""
    conjunctions = [{0: [(1, 500 + i)], 1: [(700 - i, 2001)]} for i in range(600)]
    plan = plan_of(conjunctions, [1000, 1000])
    cells = random_cells([1000, 1000], 20, 0)
    index = TreeEngine.build(plan, options)
    assert found(plan, TreeEngine(plan, index).match(cells)) == expected(conjunctions, cells)
    assert index["words"].nbytes <= 100 * plan.conjunctions


@every_option
def test_an_attribute_that_is_tested_twice(options):
    """Both predicates have to hold, whichever of them the conjunction is found by, and also if they can't."""
    pairs = [
        ((2, 2), (2, 2)),
        ((2, 2), (4, 4)),
        ((3, 5), (4, 4)),
        ((4, 4), (3, 5)),
        ((2, 7), (6, 9)),
    ]
    conjunctions = [
        {0: [first], 1: [second], 2: [(cell, cell)]}
        for first, second in pairs
        for cell in range(2, 42)
    ]
    apart = plan_of(conjunctions, [20, 20, 20])
    plan = dataclasses.replace(
        apart,
        predicate_attribute=np.where(apart.predicate_attribute == 1, 0, apart.predicate_attribute),
    )
    cells = random_cells([20, 20, 20], 200, 0)
    cells[0] %= 8
    twice = cells.copy()
    twice[1] = twice[0]  # the definition has two attributes with the same cell
    hits = engine_of(plan, **options).match(cells)
    assert found(plan, hits) == expected(conjunctions, twice)


def test_events_may_come_in_any_order(monkeypatch):
    """In a large tree events that go the same way are matched one after the other, with the same rows."""
    conjunctions = all_kinds(300, 2)
    plan = plan_of(conjunctions, CUTS)
    cells = random_cells(CUTS, 100, 2)
    monkeypatch.setattr(tree, "_LARGE", 0)
    assert found(plan, engine_of(plan).match(cells)) == expected(conjunctions, cells)


@every_option
def test_the_same_plan_gives_the_same_arrays(options):
    """A tree depends on the plan and the options only."""
    plan = plan_of(all_kinds(400, 3), CUTS)
    first, second = (TreeEngine.build(plan, options) for _ in range(2))
    assert first.keys() == second.keys()
    assert all(np.array_equal(first[name], second[name]) for name in first)


# --- figures that don't depend on a clock -------------------------------------------------------


def size_of(conjunctions, cuts, **options):
    plan = plan_of(conjunctions, cuts)
    index = TreeEngine.build(plan, DEFAULTS | options)
    return sum(array.nbytes for array in index.values()) / plan.conjunctions


def effort_of(conjunctions, cuts, **options):
    """Per event: nodes, searches and verified conjunctions."""
    events = 200
    engine = engine_of(plan_of(conjunctions, cuts), **options)
    rng = np.random.default_rng(0)
    points = np.array([2 + 2 * rng.integers(0, count, events) for count in cuts], np.int32)
    return {name: n / events for name, n in engine.effort(points).items()}


def test_the_effort_grows_more_slowly_than_the_subscriptions():
    """For equalities, 16 times as many conjunctions take less than 16**0.6 times the work."""
    few, many = (
        sum(effort_of(equalities(count, attributes=20), [5] * 20).values())
        for count in (2_000, 32_000)
    )
    assert many / few < 16**0.6


@pytest.mark.parametrize("count", [1_000, 16_000])
def test_space_is_linear(count):
    """So many bytes per conjunction, however many there are: for points, ranges and lists, also with copies."""
    rng = random.Random(4)
    ranges = [
        {a: [(low, low + rng.randint(75, 225))] for a in rng.sample(range(20), 4)}
        for low in (rng.randint(1, 1_700) for _ in range(count))
    ]
    assert size_of(equalities(count, attributes=20), [5] * 20) < 60
    assert size_of(equalities(count, attributes=20), [5] * 20, factoring="2") < 120
    assert size_of(ranges, [1_000] * 20) < 100
    assert size_of(all_kinds(count, 5), CUTS) < 200


def test_collapsing_saves_nodes():
    """Without it events go through levels that nobody below asks for."""
    conjunctions = equalities(3_000, attributes=20)
    collapsed = effort_of(conjunctions, [5] * 20, tails="no")
    plain = effort_of(conjunctions, [5] * 20, tails="no", collapse="no")
    assert collapsed["nodes"] < plain["nodes"] / 2
    assert size_of(conjunctions, [5] * 20, tails="no") < 0.5 * size_of(
        conjunctions, [5] * 20, tails="no", collapse="no"
    )


def test_tails_save_nodes():
    """A node per predicate settles all points and leaves nothing to verify, at the price of many nodes."""
    conjunctions = equalities(3_000, attributes=20)
    with_tails = effort_of(conjunctions, [5] * 20)
    without = effort_of(conjunctions, [5] * 20, tails="no")
    assert without["verified"] == 0 < with_tails["verified"]
    assert with_tails["nodes"] < without["nodes"] / 4


def test_factoring_saves_effort_for_a_bounded_number_of_copies():
    """The first attribute is compared with a constant nearly always: it is an index attribute, and a rare one isn't."""
    conjunctions = equalities(3_000, attributes=20)
    none, auto, two = (
        effort_of(conjunctions, [5] * 20, tails="no", factoring=f)["nodes"]
        for f in ("0", "auto", "2")
    )
    assert two < auto < none
    rare = [{a: asked for a, asked in c.items() if a > 5} for c in conjunctions]
    plan = plan_of(rare, [5] * 20)
    arrays = [TreeEngine.build(plan, DEFAULTS | {"factoring": f}) for f in ("0", "auto")]
    assert np.array_equal(arrays[0]["words"], arrays[1]["words"])


def test_the_order_is_worth_more_than_the_numbers():
    """With the popular attributes last, testing them first still visits fewer nodes."""
    reversed_ = [
        {19 - a: asked for a, asked in c.items()} for c in equalities(3_000, attributes=20)
    ]
    chosen = effort_of(reversed_, [5] * 20, tails="no", factoring="0")
    given_ = effort_of(reversed_, [5] * 20, tails="no", factoring="0", order="given")
    assert chosen["nodes"] < given_["nodes"] / 2


def test_events_without_an_attribute_skip_those_who_ask_for_it():
    """Even ranges of any width: with a hundred attributes, of which an event has two, few are verified."""
    rng = random.Random(6)
    conjunctions = [
        {a: [(rng.randint(1, 8), rng.randint(30, 41))] for a in rng.sample(range(100), 3)}
        for _ in range(5_000)
    ]
    plan = plan_of(conjunctions, [20] * 100)
    cells = np.zeros((100, 50), np.int32)
    for e in range(50):
        cells[rng.sample(range(100), 2), e] = rng.randint(10, 20)
    engine = engine_of(plan)
    assert found(plan, engine.match(cells)) == expected(conjunctions, cells)
    assert engine.effort(cells)["verified"] / 50 < 5_000 / 20


# --- the growing tree ---------------------------------------------------------------------------

GAP = 1 << 40  # between labels


def as_predicates(asked, gap=1):
    """Attributes, lows and highs of a conjunction of ranges."""
    pairs = [(a, *r) for a, ranges in asked.items() for r in ranges[:1]]
    return (
        np.array([p[0] for p in pairs], np.int32),
        np.array([p[1] * gap for p in pairs], np.int64),
        np.array([min(p[2] * gap, LAST) for p in pairs], np.int64),
    )


def tree_of(conjunctions, gap=1):
    grown = GrowingTree()
    for number, asked in enumerate(conjunctions):
        grown.insert(number, *as_predicates(asked, gap))
    return grown


def single_ranges(count, seed):
    return [
        {a: ranges[:1] for a, ranges in asked.items()} for asked in all_kinds(count, seed, CUTS)
    ]


def pairs_of(hits):
    pairs = list(zip(hits.event.tolist(), hits.conjunction.tolist(), strict=True))
    assert len(set(pairs)) == len(pairs)
    return set(pairs)


@pytest.mark.parametrize("make", [equalities, single_ranges])
@pytest.mark.parametrize("gap", [1, GAP])
def test_a_grown_tree_matches_by_the_definition(make, gap):
    """Inserted one by one, past many splits, with cells side by side or far apart."""
    conjunctions = make(1_500, seed=7)
    cuts = CUTS + [5] * 3
    cells = random_cells(cuts, 50, 7)
    grown = tree_of(conjunctions, gap)
    assert len(grown) == 1_500
    assert pairs_of(grown.match_batch(cells.astype(np.int64) * gap)) == expected(
        conjunctions, cells
    )


class Changes(RuleBasedStateMachine):
    """Any sequence of insertions and removals, one or many at a time."""

    def __init__(self):
        super().__init__()
        self.tree = GrowingTree()
        self.inside = {}
        self.numbers = itertools.count()
        self.random = random.Random(0)

    def put(self, asked, gap=1):
        number = next(self.numbers)
        self.tree.insert(number, *as_predicates(asked, gap))
        self.inside[number] = asked

    @rule(asked=workloads(CUTS, most=3))
    def insert_some(self, asked):
        for conjunction in asked:
            self.put({a: ranges[:1] for a, ranges in conjunction.items()})

    @rule(count=st.integers(1, 120), seed=st.integers(0, 99), points=st.booleans())
    def insert_many(self, count, seed, points):
        made = (
            equalities(count, seed, attributes=5, values=2)
            if points
            else single_ranges(count, seed)
        )
        for conjunction in made:
            self.put(conjunction)

    @precondition(lambda self: self.inside)
    @rule(share=st.floats(0, 1))
    def remove_some(self, share):
        chosen = sorted(self.inside)
        self.random.shuffle(chosen)
        for number in chosen[: 1 + int(share * len(chosen))]:
            self.tree.remove(number)
            del self.inside[number]

    @invariant()
    def matches_what_is_inside(self):
        cells = random_cells(CUTS, 4, self.random.randrange(10**6))
        numbers = list(self.inside)
        pairs = expected(list(self.inside.values()), cells)
        found_pairs = pairs_of(self.tree.match_batch(cells.astype(np.int64)))
        assert found_pairs == {(e, numbers[i]) for e, i in pairs}
        assert len(self.tree) == len(self.inside)

    @invariant()
    def has_no_more_than_linear_space(self):
        assert self.tree.nbytes < 80_000 + 1_500 * len(self.inside)


Changes.TestCase.settings = settings(max_examples=25, stateful_step_count=25, deadline=None)
TestChanges = Changes.TestCase


def test_a_tree_that_is_emptied_gives_its_space_back():
    """Whatever was in it, and in whatever order it goes."""
    conjunctions = single_ranges(3_000, 8)
    grown = tree_of(conjunctions)
    full = grown.nbytes
    numbers = list(range(3_000))
    random.Random(8).shuffle(numbers)
    for number in numbers[:2_900]:
        grown.remove(number)
    assert grown.nbytes < full / 8
    for number in numbers[2_900:]:
        grown.remove(number)
    assert len(grown) == 0
    assert grown.nbytes < 40_000
    assert len(grown.match(np.zeros((5, 1), np.int64))) == 0


def test_space_stays_linear_while_conjunctions_come_and_go():
    """A thousand inside at any time, twelve thousand in all, of one kind after the other."""
    grown = GrowingTree()
    stream = itertools.chain.from_iterable(
        (equalities if turn % 2 else single_ranges)(1_000, seed=turn) for turn in range(12)
    )
    sizes = []
    for number, asked in enumerate(stream):
        grown.insert(number, *as_predicates(asked))
        if number >= 1_000:
            grown.remove(number - 1_000)
            sizes.append(grown.nbytes)
    assert max(sizes) < 1_500 * 1_000
    assert max(sizes[-2_000:]) < 1.5 * max(sizes[2_000:4_000])


def test_a_new_attribute_may_come_at_any_time():
    """Events without it have NULL there; rows that nobody asks for don't matter."""
    grown = tree_of(equalities(200, attributes=3))
    grown.insert(1_000, *as_predicates({900: [(5, 9)]}))
    grown.insert(1_001, *as_predicates({900: [(0, 0)]}))
    assert 1_001 in grown.match(np.full((3, 1), 99))
    assert 1_000 not in grown.match(np.full((3, 1), 99))
    wide = np.full((950, 1), 7)
    assert grown.match(wide).tolist() == [1_000]


def test_a_part_of_a_tree_that_becomes_empty_goes():
    """All conjunctions behind one edge are removed, two nodes deep; then some come back."""
    conjunctions = [
        {0: [(2 + n % 2,) * 2], 1: [(n // 2 % 20,) * 2], 2: [(n, n)]} for n in range(12 * LEAF)
    ]
    grown = tree_of(conjunctions)
    for n in range(0, 12 * LEAF, 2):
        grown.remove(n)
    for n in range(12 * LEAF):
        event = np.array([[2 + n % 2], [n // 2 % 20], [n]])
        assert grown.match(event).tolist() == ([n] if n % 2 else [])
    for n in range(0, 12 * LEAF, 2):
        grown.insert(n, *as_predicates(conjunctions[n]))
        assert grown.match(np.array([[2], [n // 2 % 20], [n]])).tolist() == [n]


def test_predicates_that_contradict_each_other_never_hold():
    """An attribute may come twice: both predicates must hold, whichever the tree goes by, also after splits."""
    grown = GrowingTree()
    kinds = [((2, 2), (4, 4)), ((1, 3), (2, 2)), ((2, 4), (4, 4))]
    for number in range(9 * LEAF):
        first, second = kinds[number % 3]
        low, high = (np.array([first[i], second[i], number]) for i in (0, 1))
        grown.insert(number, np.array([0, 0, 1], np.int32), low, high)
    for cell, n in itertools.product(range(6), range(9 * LEAF)):
        holds = all(low <= cell <= high for low, high in kinds[n % 3])
        assert grown.match(np.array([[cell], [n]])).tolist() == ([n] if holds else [])


def test_what_cannot_be_inserted_or_removed_is_an_error_and_changes_nothing():
    """A number that is there, one that isn't, and cells that are none."""
    grown = tree_of([{0: [(2, 4)]}])
    with pytest.raises(PenstockError, match="conjunction 0 is in the tree"):
        grown.insert(0, *as_predicates({0: [(2, 4)]}))
    with pytest.raises(PenstockError, match="conjunction 1 isn't in the tree"):
        grown.remove(1)
    for attribute, low, high in [(0, 3, 2), (0, -1, 2), (0, 1, LAST + 1), (-1, 1, 2)]:
        with pytest.raises(PenstockError, match="low <= high <= LAST"):
            grown.insert(1, np.array([attribute]), np.array([low]), np.array([high]))
    assert len(grown) == 1
    assert grown.match(np.array([[3]])).tolist() == [0]


def test_open_ends_and_the_largest_labels():
    """Ranges from the first label to the last, and single labels at both ends."""
    grown = GrowingTree()
    bounds = [(1, LAST), (LAST, LAST), (LAST - 5, LAST), (1, 7), (0, 0), (0, LAST), (1 << 61, LAST)]
    for number, (low, high) in enumerate(bounds * LEAF):
        grown.insert(number, np.array([0]), np.array([low]), np.array([high]))
    for cell in [0, 1, 7, 8, (1 << 61) - 1, 1 << 61, LAST - 6, LAST - 5, LAST]:
        held = [n for n, (low, high) in enumerate(bounds * LEAF) if low <= cell <= high]
        assert sorted(grown.match(np.array([[cell]])).tolist()) == held
