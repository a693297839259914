"""Values of one attribute against plain sets."""

import functools
import itertools

import hypothesis.strategies as st
import pytest
from hypothesis import example, given

from penstock.language.values import EVERYTHING, NOT_NULL, NOTHING, Values, all_of, any_of

# Cuts are 0 to 6; an end None reaches to the outermost of these.
KEYS = range(-1, 8)
END = st.none() | st.integers(0, 6)
INTERVALS = st.lists(st.tuples(END, END), max_size=4)
SOME = st.builds(Values.of, INTERVALS, st.booleans())
# All sets that three cuts leave: of four cells each is in or out, and so is NULL.
CELLS = [(None, 1), (1, 2), (2, 5), (5, None)]
ALL = [
    Values.of(itertools.compress(CELLS, chosen), null)
    for *chosen, null in itertools.product([False, True], repeat=5)
]


def members(values: Values) -> set:
    return {key for key in (None, *KEYS) if values.contains(key)}


def text(key: int | None) -> bytes | None:
    return None if key is None else b"%d" % (key + 1)


def is_canonical(values: Values) -> bool:
    flat = [end for interval in values.intervals for end in interval]
    inner = flat[1:-1]
    ends = [end for end in flat if end is not None]
    return None not in inner and ends == sorted(set(ends))


@given(INTERVALS, st.booleans())
@example([(3, None), (None, 3)], False)
@example([(None, None), (None, 2), (4, None)], True)
def test_any_intervals_are_put_in_order(intervals, null):
    found = Values.of(intervals, null)
    assert is_canonical(found)
    expected = {
        k for k in KEYS for a, b in intervals if (a is None or a <= k) and (b is None or k < b)
    }
    assert members(found) == expected | ({None} if null else set())


@given(SOME, SOME)
def test_the_algebra_is_that_of_sets(a, b):
    x, y, all_ = members(a), members(b), members(EVERYTHING)
    for found, expected in (
        (any_of([a, b]), x | y),
        (a.intersection(b), x & y),
        (a.difference(b), x - y),
        (a.complement(), all_ - x),
    ):
        assert members(found) == expected
        assert is_canonical(found)
    assert a.includes(b) == (y <= x)
    assert a.meets(b) == bool(x & y)
    assert a.is_empty == (not x)


@given(st.lists(SOME, min_size=1, max_size=5))
def test_several_at_once_are_like_two_at_a_time(several):
    assert all_of(several) == functools.reduce(Values.intersection, several)
    assert any_of(several) == functools.reduce(lambda a, b: any_of([a, b]), several)


@pytest.mark.parametrize("a", ALL)
def test_every_two_sets_of_four_cells_are_like_sets(a):
    x = members(a)
    for b in ALL:
        y = members(b)
        assert members(any_of([a, b])) == x | y
        assert members(a.intersection(b)) == x & y
        assert members(a.difference(b)) == x - y
        assert a.includes(b) == (y <= x)
        assert a.meets(b) == bool(x & y)


@given(SOME)
def test_a_hull_is_the_smallest_interval_around(a):
    found, inner = members(a.hull()), members(a) - {None}
    assert len(a.hull().intervals) == min(len(a.intervals), 1)
    assert a.hull().null == a.null
    assert found - {None} == (set(range(min(inner), max(inner) + 1)) if inner else set())


@given(SOME, SOME)
def test_texts_are_like_numbers(a, b):
    def texts(values: Values) -> Values:
        return Values(tuple((text(x), text(y)) for x, y in values.intervals), values.null)

    assert any_of([texts(a), texts(b)]) == texts(any_of([a, b]))
    assert texts(a).intersection(texts(b)) == texts(a.intersection(b))
    assert texts(a).complement() == texts(a.complement())
    assert texts(a).includes(texts(b)) == a.includes(b)


@given(SOME, SOME)
def test_equal_sets_are_equal_objects(a, b):
    same = members(a) == members(b)
    assert (a == b) == same
    assert not same or hash(a) == hash(b)


def test_everything_is_all_values_and_null():
    assert EVERYTHING.complement() == NOTHING
    assert EVERYTHING.difference(Values((), null=True)) == NOT_NULL
    assert any_of([NOT_NULL, Values((), null=True)]) == EVERYTHING


@pytest.mark.parametrize("many", [10, 10_000])
def test_inclusion_in_many_intervals_finds_each(many):
    points = Values(tuple((2 * n, 2 * n + 1) for n in range(many)))
    assert points.includes(Values(((0, 1), (2 * many - 2, 2 * many - 1))))
    assert not points.includes(Values(((0, 1), (2 * many - 1, 2 * many))))
    assert not points.includes(Values(((2, 4),)))
