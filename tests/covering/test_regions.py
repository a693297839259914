"""Regions against the definition: the events that a filter matches, all of them listed."""

import itertools

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from tests.covering.region_algebra import covers, difference, equal, intersection, union
from tests.covering.small_world import (
    CODES,
    FILTERS,
    SCHEMA,
    VALUES,
    inside,
    key,
    match_all,
    regions_of,
)

from penstock.covering import regions
from penstock.covering.reading import region
from penstock.covering.regions import (
    MOST_BOXES,
    Region,
    TooManyBoxes,
    covers_box,
    hull,
    is_disjoint,
)
from penstock.language import Schema
from penstock.language.values import EVERYTHING, Values
from penstock.operators.define import Operators, operator


def assert_canonical(found: Region) -> None:
    for box in found.boxes:
        paths = [path for path, _ in box]
        assert paths == sorted(set(paths))
        for _, values in box:
            assert values == Values.of(values.intervals, values.null)
            assert values != EVERYTHING
            assert not values.is_empty
    for n, box in enumerate(found.boxes):
        assert not any(covers_box(x, box) for m, x in enumerate(found.boxes) if m != n)


SOME_FILTERS = st.lists(FILTERS, min_size=2, max_size=6)
FEW = settings(max_examples=60, deadline=None)  # but each of them compares all pairs


@FEW
@given(SOME_FILTERS)
def test_a_filters_region_has_the_events_that_it_matches(texts):
    for found, events in match_all(texts):
        assert (inside(found) == events).all()
        assert_canonical(found)


@FEW
@given(SOME_FILTERS)
def test_covers_equal_and_disjoint_are_what_counting_says(texts):
    for (a, x), (b, y) in itertools.product(match_all(texts), repeat=2):
        assert covers(a, b) is (not (y & ~x).any())
        assert equal(a, b) == (x == y).all()
        assert is_disjoint(a, b) == (not (x & y).any())


@FEW
@given(SOME_FILTERS)
def test_the_algebra_is_that_of_sets_of_events(texts):
    for (a, x), (b, y) in itertools.permutations(match_all(texts), 2):
        for found, expected in (
            (intersection(a, b), x & y),
            (union(a, b), x | y),
            (difference(a, b), x & ~y),
        ):
            assert (inside(found) == expected).all()
            assert_canonical(found)
        assert equal(union(intersection(a, b), difference(a, b)), a)


@FEW
@given(SOME_FILTERS)
def test_a_hull_is_the_smallest_box_around_regions(texts):
    boxes = [box for found in regions_of(texts) for box in found.boxes]
    if not boxes:
        return
    around = hull(boxes)
    assert_canonical(Region((around,)))
    assert all(covers_box(around, box) for box in boxes)
    # None of its values can be left out.
    events = inside(Region(tuple(boxes)))
    for path, values in around:
        for name, value in ((path[0], value) for value in VALUES[path[0]]):
            if values.contains(key(value)):
                assert events[CODES[name] == VALUES[name].index(value)].any()


@settings(max_examples=30, deadline=None)
@given(st.lists(FILTERS, min_size=40, max_size=60))
def test_a_union_of_many_boxes_keeps_those_that_lie_in_no_other(texts):
    boxes = {box: None for found in regions_of(texts) for box in found.boxes}
    assert union(*regions_of(texts)).boxes == tuple(
        box for box in boxes if not any(covers_box(x, box) for x in boxes if x != box)
    )


def test_a_union_covers_what_none_of_its_boxes_does():
    whole, parts = regions_of(["i BETWEEN 0 AND 9", "i BETWEEN 0 AND 4 AND b OR i BETWEEN 3 AND 9"])
    assert not covers(parts, whole)
    (more,) = regions_of(
        ["i BETWEEN 0 AND 4 AND b OR i BETWEEN 3 AND 9 OR i < 3 AND (NOT b OR b IS NULL)"]
    )
    assert covers(more, whole)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("b OR NOT b", "b IS NOT NULL"),
        ("i > 5 AND i < 6", "FALSE"),
        ("i > 5", "i >= 6"),
        ("i > 2.5 AND i < 3.5", "i = 3"),
        ("i <= 9223372036854775807", "i IS NOT NULL"),
        ("i > 9223372036854775807", "FALSE"),
        ("i < 99999999999999999999", "i IS NOT NULL"),
        ("i <> -99999999999999999999", "i IS NOT NULL"),
        ("i IS DISTINCT FROM 3 OR i = 3", "TRUE"),
        ("s >= ''", "s IS NOT NULL"),
        ("s < ''", "FALSE"),
        ("s LIKE 'é%'", "s >= 'é' AND s < 'ê'"),
        ("s LIKE '\ud7ff%'", "s >= '\ud7ff' AND s < '\ue000'"),
        ("s LIKE 'a\U0010ffff%'", "s >= 'a\U0010ffff' AND s < 'b'"),
        ("s LIKE '\U0010ffff%'", "s >= '\U0010ffff'"),
        ("s LIKE '%'", "s IS NOT NULL"),
        ("x < 0 OR x = 0", "x <= -0.0"),
        ("x > -5e-324 AND x < 0", "FALSE"),
        ("x <= -5e-324", "x < 0"),
        ("x <> 0", "x < 0 OR x > 0"),
        ("d = 1.005", "FALSE"),
        ("d > 1.001", "d >= 1.01"),
        ("d < 1e30", "d IS NOT NULL"),
        ("w > 1.5 AND w < 1.6", "w = 1.55 OR w > 1.5 AND w < 1.55 OR w > 1.55 AND w <= 1.59"),
        ("w > 0.00 AND w < 0.01", "FALSE"),
        ("w <= 999999999999999999999999999999999999.99", "w IS NOT NULL"),
        ("day > TIMESTAMP '2024-01-01 12:00:00'", "day >= '2024-01-02'"),
        ("day = TIMESTAMP '2024-01-01 12:00:00'", "FALSE"),
        ("at >= '2024-01-01T02:00:00+02:00'", "at >= DATE '2024-01-01'"),
        ("i < j", "j > i"),
        ("i < j OR i = j", "i <= j"),
        ("i < j AND i > j", "FALSE"),
        ("i = i", "i IS NOT NULL"),
        ("NOT i < i", "i IS NOT NULL"),
        ("s LIKE '%x' AND s NOT LIKE '%x'", "FALSE"),
        ("s LIKE '%x' AND s IS NOT NULL", "s LIKE '%x'"),
        ("array_contains(tags, 5) AND NOT array_contains(tags, 5.0)", "FALSE"),
        ("tags IS NULL OR tags IS NOT NULL", "TRUE"),
        ("v.n > 5 AND v.n < 7", "v.n = 6"),
    ],
)  # fmt: skip
def test_filters_that_say_the_same_are_equal(left, right):
    a, b = region(left, TYPES), region(right, TYPES)
    assert equal(a, b)


TYPES = {
    "i": "int", "j": "int", "b": "boolean", "s": "string", "x": "double", "d": "decimal(10,2)", "w": "decimal(38,2)",
    "day": "date", "at": "timestamp", "tags": "array<int>", "v": {"n": "int"},
}  # fmt: skip


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("x > -1e308 AND x < 1e308", "x IS NOT NULL"),  # infinities and NaN
        ("x <= 1.7976931348623157e308", "x IS NOT NULL"),
        ("x >= 0", "x > -5e-324 AND x > 0"),
        ("i < j", "i <= j"),
        ("s LIKE '%x'", "s LIKE '%y'"),
        ("s LIKE '%x'", "s LIKE '%x' OR s NOT LIKE '%x'"),
        ("array_contains(tags, 5)", "array_contains(tags, 6)"),
        ("s LIKE 'a_'", "s LIKE 'a%'"),
        ("d < 1000", "d IS NOT NULL"),
        ("v IS NOT NULL", "v.n IS NOT NULL"),
    ],
)
def test_filters_that_say_less_are_not_equal(left, right):
    a, b = region(left, TYPES), region(right, TYPES)
    assert not equal(a, b)


def test_tests_that_are_no_sets_imply_themselves_and_exclude_their_negation():
    like, more, negated = (
        region(text, TYPES)
        for text in ("s LIKE '%x%'", "s LIKE '%x%' AND i < j", "s NOT LIKE '%x%' AND i = 1")
    )
    assert covers(like, more)
    assert not covers(more, like)
    assert is_disjoint(like, negated)
    assert covers(region("s IS NOT NULL", TYPES), union(like, negated))
    assert covers(region("i <= j", TYPES), more)
    assert is_disjoint(region("j <= i", TYPES), more)


def test_all_answers_of_an_operator_are_not_everything():
    """An operator may fail, and then nothing that asks it is true."""

    @operator("crowd", cost="1 ms")
    def crowd(i: int) -> int:
        return i

    schema = Schema.of({"i": "int"}).with_operators(Operators.of([crowd]).signatures)
    busy, calm, asked = (
        region(text, schema) for text in ("crowd(i) > 50", "crowd(i) <= 50", "crowd(i) IS NOT NULL")
    )
    everyone = region("TRUE", schema)
    assert covers(busy, region("crowd(i) > 60 AND i = 1", schema))
    assert equal(union(busy, calm), asked)
    assert not covers(union(busy, calm, region("crowd(i) IS NULL", schema)), everyone)
    assert covers(everyone, busy)


def test_no_box_is_nothing_and_the_empty_box_is_everything():
    nothing, everything, some = Region(()), Region(((),)), region("i = 1", SCHEMA)
    assert region("FALSE", SCHEMA) == nothing
    assert region("TRUE", SCHEMA) == everything
    assert covers(some, nothing)
    assert covers(everything, some)
    assert not covers(some, everything)
    assert is_disjoint(nothing, everything)
    assert difference(everything, some) == region("i <> 1 OR i IS NULL", SCHEMA)


def test_a_hostile_union_ends_in_an_unknown_cover():
    """Of twenty pairs of attributes, each not positive together, there are 2 to the 20 combinations."""
    schema = {f"a{n}": "int" for n in range(42)}
    pairs = [region(f"a{n} > 0 AND a{n + 1} > 0", schema) for n in range(0, 40, 2)]
    quarters = [
        region(f"({x}) AND ({y})", schema)
        for x in ("a40 > 0", "a40 <= 0 OR a40 IS NULL")
        for y in ("a41 > 0", "a41 <= 0 OR a41 IS NULL")
    ]
    everything = region("TRUE", schema)
    assert covers(union(*quarters), everything) is True
    assert covers(union(*pairs), everything) is False
    assert covers(union(*pairs, *quarters), everything) is None


def test_past_the_bound_a_cover_is_unknown_and_not_claimed(monkeypatch):
    schema = {"i": "int", "j": "int"}
    whole = region("i BETWEEN 0 AND 99", schema)
    parts = union(
        *(region(f"i = {n} AND j < {n}", schema) for n in range(100)),
        *(region(f"i = {n} AND (j >= {n} OR j IS NULL)", schema) for n in range(100)),
    )
    assert covers(parts, whole) is True
    monkeypatch.setattr(regions, "MOST_PIECES", 50)
    assert covers(parts, whole) is None
    assert covers(parts, region("i = 5 AND j = 1", schema))  # which lies in a single box
    with pytest.raises(TooManyBoxes, match="boxes"):
        difference(whole, parts)


def test_a_region_of_too_many_boxes_is_refused():
    schema = {f"a{n}": "int" for n in range(2)}
    rows = union(*(region(f"a0 = {n}", schema) for n in range(100)))
    columns = union(*(region(f"a1 = {n}", schema) for n in range(100)))
    with pytest.raises(TooManyBoxes, match=f"{MOST_BOXES:,}"):
        intersection(rows, columns)


def test_a_long_list_is_one_set_of_values():
    many = ", ".join(str(2 * n) for n in range(20_000))
    found = region(f"i IN ({many}) AND i NOT IN (0, 2)", SCHEMA)
    assert len(found.boxes[0][0][1].intervals) == 19_998
    assert covers(found, region("i = 19998", SCHEMA))
    assert not covers(found, region("i = 19999", SCHEMA))
    assert np.count_nonzero([found.boxes[0][0][1].contains(n) for n in range(100)]) == 48
