"""Probabilities against counting all the events of a small world."""

import datetime
from fractions import Fraction

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from tests.covering.region_algebra import union
from tests.covering.small_world import BATCH, EVENTS, FILTERS, SCHEMA, inside, regions_of

from penstock.base.errors import PenstockError, SchemaError
from penstock.covering import regions
from penstock.covering.distributions import ASSUMED_NULL, Cells, Seen, Statistics, Uniform
from penstock.covering.reading import region
from penstock.covering.regions import Region
from penstock.language.literals import double_key

# Every combination of values is there once: attributes are independent, and shares are exact.
WORLD = Statistics.of([BATCH], SCHEMA, sample=len(EVENTS))


@settings(max_examples=150, deadline=None)
@given(FILTERS)
def test_a_regions_probability_is_its_share_of_the_events(text):
    (found,) = regions_of([text])
    assert WORLD.probability(found) == pytest.approx(inside(found).mean(), abs=1e-12)


def test_past_the_bound_boxes_count_as_independent(monkeypatch):
    schema = {f"a{n}": "int" for n in range(30)}
    statistics = Statistics({(name,): Uniform(0, 9) for name in schema})
    many = union(*(region(f"a{n} < 3 AND a{n + 1} < 3", schema) for n in range(0, 30, 2)))
    expected = 1 - (1 - 0.09) ** 15
    # These boxes have no attribute in common, so that they really are independent.
    monkeypatch.setattr(regions, "MOST_PIECES", 100)
    assert statistics.probability(many) == pytest.approx(expected)
    monkeypatch.setattr(regions, "MOST_PIECES", 200_000)
    assert statistics.probability(Region(many.boxes[:10])) == pytest.approx(1 - 0.91**10)


@given(st.integers(-20, 20), st.integers(0, 30), st.integers(-40, 40))
def test_uniform_integers_are_counted(low, width, key):
    found = Uniform(low, low + width).below(key)
    assert found == pytest.approx(sum(x < key for x in range(low, low + width + 1)) / (width + 1))


FINITE = st.floats(allow_nan=False, allow_infinity=False)


@given(FINITE, FINITE, FINITE)
@example(0.0, -5e-324, 0.0)  # half of the smallest double is nothing
@example(-1.7e308, 1.7e308, 0.0)
def test_uniform_doubles_are_measured_by_value(low, high, value):
    low, high = min(low, high), max(low, high)
    found = Uniform(low, high).below(double_key(value))
    if value <= low or value > high:
        assert found == (value > high)
    else:
        exact = (Fraction(value) - Fraction(low)) / (Fraction(high) - Fraction(low))
        assert found == pytest.approx(float(exact), abs=1e-9)


def test_infinities_and_nan_are_above_all_doubles_of_a_range():
    statistics = Statistics.uniform({"x": (0, 10)}, {"x": "double"})
    for text, chance in (("x < 2.5", 0.25), ("x > 10", 0), ("x <= 1e308", 1), ("x > -1e308", 1)):
        assert statistics.probability(region(text, {"x": "double"})) == pytest.approx(chance)


def test_uniform_ranges_are_read_by_type():
    schema = {
        "d": "decimal(10,2)",
        "at": "timestamp",
        "day": "date",
        "v": {"n": "int"},
        "b": "boolean",
    }
    statistics = Statistics.uniform(
        {
            "d": ("0.00", "9.99"),
            "at": ("2024-01-01", "2024-01-11"),
            "day": (datetime.date(2024, 1, 1), datetime.date(2024, 1, 10)),
            "v.n": (1, 4),
            "b": (False, True),
        },
        schema,
        nulls={"v.n": 0.5},
    )
    for text, chance in (
        ("d < 2.5", 0.25),
        ("at < '2024-01-06'", 0.5),
        ("day <= '2024-01-02'", 0.2),
        ("v.n = 3", 0.125),
        ("v.n IS NULL", 0.5),
        ("b", 0.5),
    ):
        assert statistics.probability(region(text, schema)) == pytest.approx(chance)


@pytest.mark.parametrize(
    ("ranges", "reason"),
    [
        ({"s": ("a", "b")}, "string have no uniform"),
        ({"nobody": (1, 2)}, "no attribute 'nobody'"),
        ({"i": ("one", 2)}, "expected integer, found 'one'"),
    ],
)
def test_a_range_that_makes_no_sense_is_refused(ranges, reason):
    with pytest.raises(SchemaError, match=reason):
        Statistics.uniform(ranges, {"s": "string", "i": "int"})


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: Uniform(5, 4), "from 5 to 4 has no values"),
        (lambda: Uniform(1, 2, null=2), "between 0 and 1, not 2"),
        (lambda: Uniform(np.int64(1), 2), "ints or floats"),
        (lambda: Seen((), null=-1), "between 0 and 1, not -1"),
    ],
)
def test_a_distribution_that_makes_no_sense_is_refused(make, reason):
    with pytest.raises(PenstockError, match=reason):
        make()


def test_what_was_seen_is_counted_by_attribute():
    batch = pa.RecordBatch.from_pylist(
        [
            {"x": float("nan"), "s": "é", "tags": [1], "v": {"n": 1}, "w": None},
            {"x": 0.0, "s": None, "tags": None, "v": None, "w": None},
            {"x": -0.0, "s": "a", "tags": [2], "v": {"n": None}, "w": None},
            {"x": float("inf"), "s": "a", "tags": [2], "v": {"n": 5}, "w": None},
        ]
    )
    schema = {
        "x": "double", "s": "string", "tags": "array<int>", "v": {"n": "int"}, "w": "decimal(30,2)", "none": "int",
    }  # fmt: skip
    statistics = Statistics.of([batch, batch], schema)
    for text, chance in (
        ("x = 0", 0.5),
        ("x > 1", 0.5),
        ("s = 'a'", 0.5),
        ("s IS NULL", 0.25),
        ("tags IS NOT NULL", 0.75),
        ("v.n > 1", 0.25),
        ("v IS NULL", 0.25),
        ("w IS NULL AND none IS NULL", 1),
        ("array_contains(tags, 1) AND s > 'a'", 0.75 * 0.5 * 0.25),
    ):
        assert statistics.probability(region(text, schema)) == pytest.approx(chance)


def test_events_of_another_type_are_refused():
    with pytest.raises(
        SchemaError, match="'i' is integer in the schema, but the events have string"
    ):
        Statistics.of([pa.RecordBatch.from_pylist([{"i": "x"}])], {"i": "int"})


def test_a_sample_is_random_and_of_the_size_asked_for():
    batches = [pa.record_batch({"i": np.arange(n, n + 1_000)}) for n in range(0, 50_000, 1_000)]
    found = Statistics.of(batches, {"i": "int"}, sample=2_000).distributions[("i",)]
    assert isinstance(found, Seen)
    assert len(found.keys) == len(set(found.keys)) == 2_000
    # A tenth of the events, as far as two thousand can tell (six standard deviations).
    assert abs(found.below(5_000) - 0.1) < 0.04
    assert abs(found.below(45_000) - 0.9) < 0.04
    again = Statistics.of(batches, {"i": "int"}, sample=2_000).distributions[("i",)]
    assert found == again


def test_no_events_say_nothing():
    assert not Statistics.of([], {"i": "int"}).distributions


def test_without_events_constants_say_where_values_lie():
    schema = {"i": "int", "x": "double", "b": "boolean", "s": "string"}
    texts = [
        "i >= 0 AND x > 1.5 AND b",
        "i < 100 OR i IS NULL",
        "x < 3.5",
        "s = 'a' OR s LIKE 'k%'",
        "s LIKE '%z%'",
    ]
    statistics = Statistics.from_regions([region(t, schema) for t in texts], schema)
    numbers = statistics.distributions
    assert numbers[("i",)] == Uniform(-50, 149, null=ASSUMED_NULL)
    assert (numbers[("x",)].low, numbers[("x",)].high) == pytest.approx((0.5, 4.5))
    assert numbers[("b",)] == Uniform(0, 1)
    assert numbers[("s",)] == Cells((b"a", b"a\0", b"k", b"l"))
    for text, chance in (("s = 'a'", 0.2), ("s LIKE 'k%'", 0.2), ("s LIKE '%z%'", 0.5), ("b", 0.5)):
        assert statistics.probability(region(text, schema)) == pytest.approx(chance)


def test_constants_fill_in_for_what_was_not_seen():
    schema = {"i": "int", "j": "int"}
    seen = Statistics.of([pa.record_batch({"i": [1, 2]})], {"i": "int"})
    asked = [region("i < 100 AND j BETWEEN 0 AND 9", schema)]
    statistics = Statistics.from_regions(asked, schema, seen)
    assert statistics.probability(region("i = 2", schema)) == pytest.approx(0.5)
    assert 0 < statistics.probability(region("j = 2", schema)) < 0.5


@pytest.mark.parametrize("constant", ["5", "9223372036854775807", "-9223372036854775808", "0"])
def test_a_single_constant_splits_the_values_in_two(constant):
    schema = {"i": "int", "x": "double"}
    below, above = region(f"i < {constant}", schema), region(f"i > {constant}", schema)
    found = Statistics.from_regions([below, above], schema)
    assert found.probability(union(below, above)) < 1
    x = region(f"x < {constant}", schema)
    assert Statistics.from_regions([x], schema).probability(x) == pytest.approx(0.5)
