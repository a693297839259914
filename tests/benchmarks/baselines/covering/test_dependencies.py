"""The table of implied predicates against its definition over all pairs."""

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from benchmarks.baselines.covering.dependencies import Dependencies

# Any sets will do: here of six values, each known by the number that has their bits.
SETS = st.integers(1, 2**6 - 1)


def includes(outer, inner):
    """The definition of implication: the other's values are among these."""
    return outer & inner == inner


def immediate(predicates):
    """All pairs of a predicate and a cover with no third in between."""

    def above(p, c):
        return p != c and includes(c, p)

    return {
        (p, c)
        for p in predicates
        for c in predicates
        if above(p, c) and not any(above(p, z) and above(z, c) for z in predicates)
    }


def grow(table, present, predicate):
    """Add one, with its neighbours by definition."""
    pairs = immediate({*present, predicate})
    table.add(
        predicate,
        {c for p, c in pairs if p == predicate},
        {p for p, c in pairs if c == predicate},
    )
    present.add(predicate)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("aar"), SETS), max_size=30))
def test_the_table_has_just_the_immediate_covers_whatever_comes_and_goes(steps):
    """Complete and minimal after every step, though only rows near the change are touched."""
    table, present = Dependencies(), set()
    for step, predicate in steps:
        if step == "a" and predicate not in present:
            grow(table, present, predicate)
        elif step == "r" and present:
            gone = min(present, key=lambda p: (p ^ predicate).bit_count())
            table.remove(gone, includes)
            present.discard(gone)
        rows = list(table.rows())
        assert len(rows) == len(set(rows))
        assert set(rows) == immediate(present)
        assert len(table) == len(present)


@settings(max_examples=50, deadline=None)
@given(st.sets(SETS, max_size=15))
def test_following_the_table_finds_every_implication_and_no_other(predicates):
    """The rows that were left out follow from those that are there, in both directions."""
    table, present = Dependencies(), set()
    for predicate in predicates:
        grow(table, present, predicate)
    for p in predicates:
        assert table.implied(p) == {q for q in predicates if includes(q, p)}
        assert table.implying(p) == {q for q in predicates if includes(p, q)}


def test_what_is_not_there_is_refused():
    """Nobody can take out what never came."""
    with pytest.raises(KeyError):
        Dependencies().remove(1, includes)
