"""Values said in SQL are read as the same values; what can't be said is said a little wider."""

import datetime
from decimal import Decimal

import duckdb
import hypothesis.strategies as st
import pytest
from hypothesis import example, given, settings

from penstock.covering.interest.wording import (
    MOST_CHARACTERS,
    ZERO,
    Range,
    Speech,
    value_of,
    word_values,
)
from penstock.covering.reading import region
from penstock.language.intervals import DAY
from penstock.language.key_lines import line_of
from penstock.language.literals import INT64_MAX, INT64_MIN, double_key, wide_key
from penstock.language.schema import Schema
from penstock.language.values import EVERYTHING, NOT_NULL, Values, any_of

# Keys that filters can have: what they compare with, and the keys beside that.
DOUBLES = st.floats(allow_nan=False, allow_infinity=False).map(double_key)
DAYS = st.integers(-719_162, 2_932_896)
TEXTS = st.text(
    st.characters(codec="utf-8", exclude_characters="\0\\$"), max_size=MOST_CHARACTERS - 1
).map(str.encode)
KEYS = {
    "boolean": st.integers(0, 1),
    "bigint": st.integers(INT64_MIN + 1, INT64_MAX - 1),
    "double": st.one_of(DOUBLES, st.sampled_from([0, 1, -2, double_key(2.5)])),
    "decimal(9,2)": st.integers(-(10**9), 10**9),
    "decimal(18,4)": st.integers(1 - 10**18, 10**18 - 1),
    "decimal(38,10)": st.integers(1 - 10**38, 10**38 - 1).map(wide_key),
    "string": TEXTS,
    "date": DAYS,
    "timestamp": st.one_of(DAYS.map(lambda day: day * DAY), st.integers(-(10**15), 10**16)),
}
types = pytest.mark.parametrize("name", KEYS)


def type_of(name):
    return Schema.of({"x": name}).find(("x",)).type


def read(text, name):
    """The values of x that a condition accepts."""
    boxes = region(text, {"x": name}).boxes
    return any_of([dict(box).get(("x",), EVERYTHING) for box in boxes])


@st.composite
def some_values(draw, name):
    """Intervals and points of keys, and perhaps NULL; canonical, as plans give them."""
    line = line_of(type_of(name))
    keys = sorted(draw(st.sets(KEYS[name], min_size=1, max_size=5)))
    intervals = []
    for key in keys:
        match draw(st.integers(0, 3)):
            case 0:
                intervals.append(line.interval("=", key, key, 0))
            case 1:
                intervals.append(line.interval("<=", key, key, 0))
            case 2:
                intervals.append(line.interval(">", key, key, 0))
            case 3:
                intervals.append(line.clip(keys[0], key))
    found = Values.of([i for i in intervals if i is not None], draw(st.booleans()))
    return NOT_NULL if found.is_empty else found


@types
@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_what_is_said_is_read_as_the_same_values(name, data):
    """Every literal means its key again, and every end of an interval is where it was."""
    values = data.draw(some_values(name))
    condition = word_values(("x",), values, type_of(name))
    if condition is None:
        assert values == EVERYTHING
        return
    assert read(Speech().filter([(condition,)]), name) == values


@types
@settings(deadline=None, max_examples=40)
@given(data=st.data())
def test_a_value_has_the_key_it_came_from(name, data):
    """`x = value` is that one key, whatever the type."""
    key = data.draw(KEYS[name])
    value = value_of(key, type_of(name))
    point = line_of(type_of(name)).interval("=", key, key, 0)
    if name == "boolean":
        assert value is bool(key)
    elif point is not None:
        condition = word_values(("x",), Values((point,)), type_of(name))
        if name == "double" and key == 0:
            assert condition.ranges == (ZERO,)
        else:
            assert condition.points == (value,)
        assert read(Speech().filter([(condition,)]), name) == Values((point,))


@settings(deadline=None, max_examples=150)
@given(
    st.text(st.sampled_from("a\0\\${[]z\U0010ffff\ud7ffé"), max_size=6),
    st.text(st.sampled_from("a\0\\${[]z\U0010ffff\ud7ffé"), max_size=6),
    st.sampled_from(["from", "to", "between", "point"]),
)
@example("x" * 500, "x" * 501, "between")
@example("\\", "]", "to")
@example("[\\", "z", "to")
def test_strings_that_cannot_be_said_are_said_wider(one, two, shape):
    """No string is lost, and none that is said has a character that Spark would take for something else."""
    low, high = sorted([one.encode(), two.encode()])
    values = {
        "from": Values(((low or b"\0", None),)),
        "to": Values(((None, high or b"\0"),)),
        "between": Values(((low or b"\0", (high or b"\0") + b"\0\0"),)),
        "point": Values(((low, low + b"\0"),)),
    }[shape]
    condition = word_values(("x",), values, type_of("string"))
    if condition is None:
        return
    text = Speech().filter([(condition,)])
    assert len(text) < 1_000
    assert not any(mark in text for mark in ("\0", "\\", "${"))
    assert read(text, "string").includes(values)


def test_times_and_doubles_beyond_what_can_be_said():
    """Past year 9999, and at infinity, the end before is said, or none."""
    day, double = type_of("date"), type_of("double")
    infinity = double_key(float("inf"))

    def text(values, type_):
        condition = word_values(("x",), values, type_)
        return None if condition is None else Speech().filter([(condition,)])

    assert text(Values(((2_932_897, None),)), day) == "x > DATE '9999-12-31'"
    assert text(Values(((None, 2_932_897),)), day) == "x <= DATE '9999-12-31'"
    assert text(Values(((2_932_900, None),)), day) == "x > DATE '9999-12-31'"
    assert text(Values(((None, 3_000_000),)), day) == "x IS NOT NULL"
    assert text(Values(((infinity, None),)), double) == "x > 1.7976931348623157e+308"
    assert text(Values(((None, infinity),)), double) == "x <= 1.7976931348623157e+308"
    assert text(Values(((infinity, infinity + 1),)), double) == "x > 1.7976931348623157e+308"


def test_the_shorter_of_two_ways_to_say_an_end_is_taken():
    """As a person would write it."""

    def text(filter_, name):
        ((path, values),) = region(filter_, {"x": name}).boxes[0]
        return Speech().filter([(word_values(path, values, type_of(name)),)])

    assert text("x > 5 AND x <= 9", "bigint") == "x BETWEEN 6 AND 9"
    assert text("x < 600 AND x > 500.5", "double") == "x > 500.5 AND x < 600"
    assert text("x < 600", "decimal(18,4)") == "x < 600"
    assert text("x LIKE 'GO%'", "string") == "x >= 'GO' AND x < 'GP'"
    assert text("x <= 'GO'", "string") == "x <= 'GO'"
    assert text("x < '2024-03-01'", "timestamp") == "x < '2024-03-01 00:00:00Z'"
    assert text("x NOT IN (3, 5) AND x BETWEEN 2 AND 6", "int") == "x IN (2, 4, 6)"
    assert text("x IS NULL OR x = 3", "int") == "x IS NULL OR x = 3"
    assert text("x IN (1, 2, 5)", "int") == "x IN (1, 2, 5)"


def test_null_or_a_range_stays_one_conjunction():
    """So that columns of that kind don't multiply the normal form."""
    values = Values(((5, 9),), null=True)
    text = Speech().filter([(word_values(("x",), values, type_of("int")),)])
    assert text == "(x IS NULL OR x >= 5) AND (x IS NULL OR x <= 8)"
    assert region(text, {"x": "int"}).boxes == (((("x",), values),),)


def test_a_hull_has_both_ends():
    """Of points and ranges together; an open end stays open."""
    condition = word_values(("x",), Values(((1, 2), (5, 9))), type_of("int"))
    assert condition.hull() == Range((1, True), (8, True))
    assert word_values(("x",), Values(((1, 2), (5, None))), type_of("int")).hull().high is None


def test_duckdb_reads_every_kind_of_literal_as_we_do():
    """The value itself passes `=`, and its neighbours don't."""
    samples = {
        "bigint": [(2, "2"), (3, "3")],
        "double": [(double_key(0.1), "0.1"), (double_key(0.1) + 1, "0.10000000000000002")],
        "float": [(double_key(16777216.0), "16777216"), (double_key(0.10000000149011612), "0.1")],
        "decimal(18,4)": [(15_000, "1.5"), (15_001, "1.5001")],
        "varchar": [(b"it's", "it''s"), (b"its", "its")],
        "date": [(19_782, "2024-02-29"), (19_783, "2024-03-01")],
        "timestamptz": [(1, "1970-01-01 00:00:00.000001Z"), (0, "1970-01-01 00:00:00Z")],
        "boolean": [(1, "true"), (0, "false")],
    }
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'America/New_York'")
    for name, keys in samples.items():
        type_ = type_of("string" if name == "varchar" else name)
        for key, _ in keys:
            condition = word_values(
                ("x",), Values((line_of(type_).interval("=", key, key, 0),)), type_
            )
            where = Speech().filter([(condition,)])
            for other, text in keys:
                query = f"SELECT count(*) FROM (SELECT '{text}'::{name} AS x) WHERE {where}"
                assert connection.execute(query).fetchone() == (int(other == key),), (where, text)


def test_names_are_quoted_where_they_must_be():
    """Words of SQL, other characters; a quote inside is doubled."""
    assert Speech().name(("time", "price")) == "time.price"
    assert Speech().name(("Order",)) == '"Order"'
    assert Speech().name(('a"b', "é")) == '"a""b"."é"'
    assert Speech("`").name(("a`b", "x")) == "`a``b`.x"


def test_values_are_python_objects():
    """What Spark and Arrow take."""
    assert value_of(wide_key(-15), type_of("decimal(38,10)")) == Decimal("-1.5E-9")
    assert value_of(DAY, type_of("timestamp")) == datetime.datetime(1970, 1, 2, tzinfo=datetime.UTC)
    assert value_of(double_key(float("inf")), type_of("double")) is None
