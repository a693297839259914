"""The global predicate index against a comparison with every predicate."""

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from benchmarks.baselines.covering import predicates as module
from benchmarks.baselines.covering.predicates import PredicateIndex
from penstock.language.values import EVERYTHING, NOTHING, Values

NUMBERS = [-1, 0, 1, 2, 3, 4, 5, 6]
TEXTS = [b"", b"a", b"a\0", b"b"]
PLACES = {("i",): NUMBERS, ("s",): TEXTS}


def some_of(keys):
    """Values with these boundaries: ranges, sets, open at either end, with or without NULL."""
    ends = st.one_of(st.none(), st.sampled_from(keys))
    several = st.lists(st.tuples(ends, ends), max_size=3)
    null = st.sampled_from([False, False, True])
    return st.builds(Values.of, several, null).filter(lambda v: v not in (NOTHING, EVERYTHING))


PREDICATES = st.one_of(*(st.tuples(st.just(path), some_of(keys)) for path, keys in PLACES.items()))
STEPS = st.lists(st.tuples(st.sampled_from("uuur"), PREDICATES, st.integers(0, 99)), max_size=40)


def walk(steps, index):
    """Use and release predicates; after each step, all that are in use, with repeats."""
    bag = []
    for step, predicate, choice in steps:
        if step == "u":
            index.use(*predicate)
            bag.append(predicate)
        elif bag:
            index.release(index.find(*bag.pop(choice % len(bag))))
        yield bag


def immediate(values_of):
    """All pairs of a variable and a cover with no third in between, by definition."""

    def above(p, c):
        return p != c and values_of[c].includes(values_of[p])

    return {
        (p, c)
        for p in values_of
        for c in values_of
        if above(p, c) and not any(above(p, z) and above(z, c) for z in values_of)
    }


@settings(max_examples=60, deadline=None)
@given(STEPS)
def test_the_table_is_complete_and_minimal_whatever_comes_and_goes(steps):
    """After every step it has each immediate cover once, of ranges and of sets, and following it finds the rest."""
    index = PredicateIndex()
    for bag in walk(steps, index):
        rows = list(index.rows())
        assert len(rows) == len(set(rows))
        expected = set()
        for path in PLACES:
            values_of = {index.find(path, v): v for p, v in bag if p == path}
            expected |= immediate(values_of)
        assert set(rows) == expected
    for path, values in bag if steps else []:
        variable = index.find(path, values)
        followed = index.table(path).implied(variable)
        assert followed == set(index.implied(path, values).tolist())


@settings(max_examples=40, deadline=None)
@given(STEPS, st.lists(PREDICATES, min_size=1, max_size=6), st.booleans())
def test_what_is_found_by_position_is_what_a_comparison_with_all_finds(steps, asked, cache):
    """Implied, implying and true of a value: for predicates that are there and for others, with and without cache."""
    index = PredicateIndex(cache=cache)
    for bag in walk(steps, index):
        there = {(path, values): index.find(path, values) for path, values in bag}
        for path, values in [*asked, *bag[-2:]]:
            implied = [n for (p, v), n in there.items() if p == path and v.includes(values)]
            implying = [n for (p, v), n in there.items() if p == path and values.includes(v)]
            assert sorted(index.implied(path, values).tolist()) == sorted(implied)
            assert sorted(index.implying(path, values).tolist()) == sorted(implying)
    for path, keys in PLACES.items():
        for key in [None, *keys]:
            there = {index.find(p, v): v for p, v in bag if p == path} if steps else {}
            holding = [n for n, values in there.items() if values.contains(key)]
            assert sorted(index.holding(path, key).tolist()) == sorted(holding)


@settings(max_examples=30, deadline=None)
@given(STEPS)
def test_variables_are_dense_and_none_is_left_when_all_have_gone(steps):
    """Each distinct predicate has one variable below their greatest number so far, as long as it is used."""
    index, most, bag = PredicateIndex(), 0, []
    for bag in walk(steps, index):
        distinct = set(bag)
        most = max(most, len(distinct))
        variables = {index.find(*predicate) for predicate in distinct}
        assert len(variables) == len(distinct) == len(index)
        assert variables <= set(range(most))
        for predicate in distinct:
            assert index.predicate(index.find(*predicate)) == predicate
            assert index.uses[index.find(*predicate)] == bag.count(predicate)
    for predicate in bag:
        index.release(index.find(*predicate))
    assert (len(index), index.paths(), list(index.rows())) == (0, [], [])


def test_kept_answers_are_bounded_and_never_stale(monkeypatch):
    """What was answered before a predicate came or went isn't answered after."""
    monkeypatch.setattr(module, "_KEPT", 10)
    index, path = PredicateIndex(), ("i",)
    above = [Values(((n, None),)) for n in range(20)]
    for values in above:
        index.use(path, values)
    for _ in range(2):
        for n, values in enumerate(above):
            assert len(index.implied(path, values)) == n + 1
            assert len(index.implying(path, values)) == 20 - n
    index.release(index.find(path, above[0]))
    assert len(index.implied(path, above[5])) == 5
    assert sum(map(len, index._attributes[path].implied.values())) <= 10


def test_keys_of_any_size_have_their_place():
    """Both ends of 64 bits, what lies beyond them, and all that differ by one."""
    index, path = PredicateIndex(), ("i",)
    ends = [-(2**70), -(2**63), -(2**63) + 1, 0, 2**63 - 1, 2**63, 2**70]
    variables = {end: index.use(path, Values(((end, None),))) for end in ends}
    for n, end in enumerate(ends):
        implied = index.implied(path, Values(((end, None),))).tolist()
        assert sorted(implied) == sorted(variables[e] for e in ends[: n + 1])


@pytest.mark.parametrize("cache", [True, False])
def test_what_is_no_predicate_of_its_attribute_is_refused_and_changes_nothing(cache):
    """Keys of another type, no values, all values, a variable of nothing."""
    index, path = PredicateIndex(cache=cache), ("i",)
    index.use(path, Values(((1, 5),)))
    for values in (Values(((b"a", None),)), Values(((None, b"a"),))):
        for ask in (index.use, index.implied, index.implying):
            with pytest.raises(TypeError, match="attribute i has the key b'a'"):
                ask(path, values)
    with pytest.raises(TypeError, match="from one schema"):
        index.holding(path, b"a")
    with pytest.raises(TypeError, match="another type"):
        index.use(("new",), Values(((None, 1), (b"a", None))))
    with pytest.raises(ValueError, match="accepts nothing"):
        index.use(path, NOTHING)
    with pytest.raises(ValueError, match="accepts everything"):
        index.use(("j",), EVERYTHING)
    for variable in (1, -1):
        with pytest.raises(KeyError, match=f"no predicate has the variable {variable}"):
            index.release(variable)
    assert (len(index), index.paths()) == (1, [path])
