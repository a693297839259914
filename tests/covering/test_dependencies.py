"""The table of implied predicates against its definition over all pairs."""

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from penstock.covering.dependencies import Dependencies

RANGES = st.tuples(st.integers(0, 9), st.integers(0, 9)).map(lambda x: (min(x), max(x)))


def includes(outer, inner):
    """The definition of implication: the other's values are all of these, and more."""
    return outer != inner and outer[0] <= inner[0] and inner[1] <= outer[1]


def immediate(predicates):
    """All pairs of a predicate and a cover with no third in between."""
    return {
        (p, c)
        for p in predicates
        for c in predicates
        if includes(c, p) and not any(includes(c, z) and includes(z, p) for z in predicates)
    }


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.booleans(), RANGES), max_size=40))
def test_the_table_has_just_the_immediate_covers_whatever_comes_and_goes(steps):
    table, present = Dependencies(), set()
    for add, predicate in steps:
        if add and predicate not in present:
            table.add(predicate)
            present.add(predicate)
        elif not add and present:
            gone = min(
                present, key=lambda p: (abs(p[0] - predicate[0]) + abs(p[1] - predicate[1]), p)
            )
            table.remove(gone)
            present.discard(gone)
        rows = list(table.rows())
        assert len(rows) == len(set(rows))
        assert set(rows) == immediate(present)


@settings(max_examples=100, deadline=None)
@given(st.sets(RANGES, max_size=15))
def test_following_the_table_finds_every_implication_and_no_other(predicates):
    table = Dependencies()
    for predicate in predicates:
        table.add(predicate)
    for p in predicates:
        assert table.implied(p) == {p} | {q for q in predicates if includes(q, p)}
        for q in predicates:
            assert table.implies(p, q) == (p == q or includes(q, p))


def test_a_predicate_stays_until_its_last_use_has_left():
    table = Dependencies()
    table.add((1, 5))
    table.add((1, 5))
    table.add((2, 3))
    table.remove((1, 5))
    assert list(table.rows()) == [((2, 3), (1, 5))]
    table.remove((1, 5))
    assert (1, 5) not in table
    assert list(table.rows()) == []


def test_ranges_may_reach_to_both_ends_of_64_bits():
    lowest, highest = -(2**63), 2**63 - 1
    table = Dependencies()
    for predicate in [(lowest, highest), (lowest, 0), (0, highest), (lowest, lowest)]:
        table.add(predicate)
    assert set(table.rows()) == immediate(
        {(lowest, highest), (lowest, 0), (0, highest), (lowest, lowest)}
    )


def test_what_is_no_range_and_what_is_not_there_are_refused():
    table = Dependencies()
    with pytest.raises(ValueError, match=r"3 \.\. 2 is no range"):
        table.add((3, 2))
    with pytest.raises(KeyError, match=r"no predicate 1 \.\. 2"):
        table.remove((1, 2))
