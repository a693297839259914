"""The frontier against its definition, whatever comes and goes."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from penstock.covering import frontier as module
from penstock.covering.frontier import Added, Frontier
from penstock.covering.regions import Region
from penstock.language.values import Values

from .flat_regions import EVENTS, REGIONS, frontier_by_definition, includes, matches


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Indexes, rebuilds and new numbers after a few subscriptions instead of thousands."""
    monkeypatch.setattr(module, "_RECENT", 4)
    monkeypatch.setattr(module, "_FEW", 2)
    monkeypatch.setattr(module, "_GARBAGE", 6)


def check(frontier, present):
    """Compare with the definition: `present` are the regions by id in the order in which they came."""
    ids = list(present)
    expected = [ids[n] for n in frontier_by_definition(list(present.values()))]
    assert list(frontier.frontier()) == expected
    covered = frontier.covers_by_id()
    assert covered.keys() == set(ids) - set(expected)
    assert len(frontier) == len(ids)
    for inner, outer in covered.items():
        assert outer in expected
        assert includes(present[outer], present[inner])


STEPS = st.lists(st.tuples(st.sampled_from("aaar"), REGIONS, st.integers(0, 99)), max_size=30)


@settings(max_examples=70, deadline=None)
@given(STEPS)
def test_what_is_in_the_frontier_is_what_no_other_covers(steps):
    frontier, present = Frontier(), {}
    for n, (step, region, choice) in enumerate(steps):
        before = set(frontier.frontier())
        if step == "a":
            added = frontier.add(n, region)
            present[n] = region
            after = set(frontier.frontier())
            assert set(added.covers) == before - after
            assert (added.covered_by is None) == (n in after)
            if added.covered_by is not None:
                assert added.covered_by in after
                same = includes(region, present[added.covered_by])
                assert added.equal_to == (added.covered_by if same else None)
        elif present:
            gone = list(present)[choice % len(present)]
            back = frontier.remove(gone)
            del present[gone]
            after = set(frontier.frontier())
            assert len(back) == len(set(back))
            assert set(back) == after - before
        check(frontier, present)


@settings(max_examples=60, deadline=None)
@given(STEPS)
def test_the_frontier_matches_whatever_any_subscription_matches(steps):
    frontier, present = Frontier(), {}
    for n, (step, region, choice) in enumerate(steps):
        if step == "a":
            frontier.add(n, region)
            present[n] = region
        elif present:
            gone = list(present)[choice % len(present)]
            frontier.remove(gone)
            del present[gone]
    kept, covered = list(frontier.frontier()), frontier.covers_by_id()
    for event in EVENTS:
        matched = {n for n, region in present.items() if matches(region, event)}
        top = {n for n in kept if matches(present[n], event)}
        # Only those below one that matches need to be asked.
        asked = top | {n for n, cover in covered.items() if cover in top}
        assert matched == {n for n in asked if matches(present[n], event)}


@settings(max_examples=70, deadline=None)
@given(
    st.lists(REGIONS, max_size=12),
    st.lists(REGIONS, max_size=12),
    st.lists(st.integers(0, 99), max_size=8),
)
def test_many_at_once_are_the_same_as_one_by_one(first, second, removals):
    frontier, present = Frontier(), {}
    for part in (first, second):
        pairs = list(enumerate(part, len(present)))
        frontier.load(pairs)
        present |= dict(pairs)
        check(frontier, present)
    for choice in removals:
        if present:
            gone = list(present)[choice % len(present)]
            frontier.remove(gone)
            del present[gone]
            check(frontier, present)


@settings(max_examples=70, deadline=None)
@given(
    st.lists(REGIONS, max_size=14),
    st.lists(st.sets(st.integers(0, 13), min_size=1), max_size=4),
)
def test_many_that_leave_at_once_are_the_same_as_one_by_one(regions, leaving):
    frontier, present = Frontier(), dict(enumerate(regions))
    frontier.load(present.items())
    for numbers in leaving:
        gone = [n for n in numbers if n in present]
        before = set(frontier.frontier())
        back = frontier.remove_all(gone)
        for n in gone:
            del present[n]
        assert len(back) == len(set(back))
        assert set(back) == set(frontier.frontier()) - before
        check(frontier, present)


def below(price, symbol=None):
    """Prices up to one, of one symbol or any."""
    tests = [(("price",), Values(((0, price),)))]
    if symbol:
        tests.append((("symbol",), Values(((symbol, symbol + b"\0"),))))
    return Region((tuple(tests),))


def test_hundreds_that_come_back_at_once_find_covers_or_stay(monkeypatch):
    frontier, present = Frontier(), {}
    frontier.add("all", below(10_000))
    random = np.random.default_rng(5)
    for n, (price, symbol) in enumerate(random.integers(1, 60, (300, 2)).tolist()):
        present[n] = below(price, b"%d" % (symbol % 7))
        assert frontier.add(n, present[n]).covered_by == "all"
    back = frontier.remove("all")
    assert back == list(frontier.frontier())
    check(frontier, present)


def test_constants_that_crowd_between_two_others_are_still_found():
    # Each one lies between the one before it and the first.
    frontier, texts = Frontier(), [b"b", *(b"a" + b"y" * n for n in range(120))]
    points = [Region((((("s",), Values(((t, t + b"\0"),))),),)) for t in texts]
    for n, point in enumerate(points):
        assert frontier.add(n, point) == Added()
    for n, point in enumerate(points):
        assert frontier.add(~n, point).equal_to == n


def test_of_equal_ones_the_first_stays_and_the_next_takes_its_place():
    frontier = Frontier()
    frontier.add("a", below(5))
    assert frontier.add("b", below(5)) == Added(covered_by="a", covers=(), equal_to="a")
    assert frontier.add("c", below(5)).equal_to == "a"
    assert frontier.remove("a") == ["b"]
    assert frontier.covers_by_id() == {"c": "b"}


def test_what_matches_nothing_is_covered_by_anything():
    nothing = Region(())
    frontier = Frontier()
    assert frontier.add("n", nothing) == Added()
    assert frontier.add("m", nothing) == Added("n", (), "n")
    assert frontier.add("a", below(5)) == Added(None, ("n",), None)
    assert frontier.covers_by_id() == {"n": "a", "m": "a"}
    assert frontier.remove("a") == ["n"]
    assert frontier.remove("n") == ["m"]


def test_a_boundary_without_a_number_stands_alone():
    lowest = -(2**63)
    odd = Region((((("i",), Values(((lowest + 1, None),))),),))
    frontier = Frontier()
    frontier.add("all", Region((((("i",), Values(((None, None),))),),)))
    assert frontier.add("odd", odd) == Added()
    assert frontier.add("five", Region((((("i",), Values(((5, 6),))),),))).covered_by == "all"
    assert frontier.remove("all") == ["five"]
    assert list(frontier.frontier()) == ["odd", "five"]
    assert frontier.remove("odd") == []


def test_an_id_comes_once_and_leaves_once():
    frontier = Frontier()
    frontier.add(1, below(5))
    with pytest.raises(ValueError, match="subscription 1 is already here"):
        frontier.add(1, below(6))
    with pytest.raises(ValueError, match="subscription 2 is already here"):
        frontier.load([(2, below(6)), (2, below(7))])
    with pytest.raises(KeyError, match="no subscription 3"):
        frontier.remove_all([1, 3])  # and the other stays
    assert len(frontier) == 1
    assert list(frontier.frontier()) == [1]
