"""Expressions: one canonical form, refused in few words where they are too large, read again from their text."""

import datetime
import random

import numpy as np
import pyarrow as pa
import pytest
from tests.differential.events import SCHEMA, random_events
from tests.differential.expressions import Expressions

from penstock import FilterError, Schema, Subscriptions
from penstock.language.computed import ComputedColumns, find_attribute
from penstock.language.expressions import COMPUTED
from penstock.language.filter_tree import Factor, leaves
from penstock.language.intervals import Interval, read_interval
from penstock.language.parser import parse
from penstock.language.schema import Attribute
from penstock.language.shapes import Shapes

EVENTS = Schema.of(SCHEMA)
TRADES = Schema.of({"price": "double", "size": "bigint", "at": "timestamp", "day": "date"})


def attribute(text: str, schema: Schema = TRADES) -> Attribute:
    ((leaf, _),) = leaves(parse(text, schema))
    assert isinstance(leaf, Factor)
    return leaf.attribute


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("price * size > 1", "size * (price) < 7"),
        ("price * size + 1 > 1", "1 + (size * PRICE) = 5"),
        ("extract(hour FROM at) = 1", "date_part('hours', at) = 2"),
        ("at > now() - INTERVAL '1 hour'", "now() - INTERVAL 90 MINUTE <= at"),
        ("price * (2 + 3) > 1", "5 * price > 2"),
        ("day >= current_date - 7", "day = today() - INTERVAL '2 days'"),
    ],
)
def test_equal_expressions_are_one_attribute(one: str, other: str) -> None:
    """Whatever the order of factors, the parentheses, the names of parts: computed once."""
    assert attribute(one).path == attribute(other).path


def test_the_order_of_other_operands_matters() -> None:
    assert attribute("price - size > 1").path != attribute("size - price > 1").path


def test_expressions_are_read_again_from_their_text() -> None:
    """A plan keeps nothing else of them: text, type and values are the same."""
    rng = random.Random(7)
    writer = Expressions(rng, rng)
    batch = random_events(rng, 40)[0].combine_chunks().to_batches()[0]
    for _ in range(300):
        found = attribute(f"{writer.any().written} IS NULL", EVENTS)
        again = find_attribute(EVENTS, found.path)
        assert again == found
        one, two = (
            ComputedColumns(EVENTS, [a.path]).add_to(batch, 0).column(COMPUTED)
            for a in (found, again)
        )
        assert str(one) == str(two)


def test_filters_that_compute_with_the_same_literals_share_a_parse() -> None:
    """The literals of an expression are part of its shape, what it is compared with is not."""
    texts = [f"price * {n % 3} > {n} AND size < {n}" for n in range(90)]
    found = Shapes(TRADES).read(texts)
    assert sorted(len(group.rows) for group in found.groups) == [30, 30, 30]
    assert not found.errors


def test_a_bad_literal_in_an_expression_refuses_its_own_filter_only() -> None:
    """Filters that differ in a literal are parsed together only if they have the same one."""
    good = "at > now() - INTERVAL '1 hour'"
    texts = [good, good.replace("1 hour", "soon"), "round(price, 1) > 5", "round(price, 1.5) > 5"]
    found = Shapes(TRADES).read(texts)
    assert [row for row, _ in found.errors] == [1, 3]


@pytest.mark.parametrize(
    "text",
    [
        "price" + " + price" * 60 + " > 5",
        "price" + " + price" * 9_000 + " > 5",
        "abs(" * 60 + "price" + ")" * 60 + " > 5",
        "-(1 + " * 45 + "price" + ")" * 45 + " > 5",
        "coalesce(" + ", ".join(["price"] * 300) + ") > 5",
        "coalesce(" + ", ".join(["price"] * 150) + ") > 5",
    ],
)
def test_large_expressions_are_refused(text: str) -> None:
    """With a reason, with and without a schema."""
    for schema in (TRADES, None):
        with pytest.raises(FilterError, match=r"too large|too deeply|doesn't take 150"):
            Shapes(schema).one(text)


def test_the_largest_expressions_allowed_are_right() -> None:
    """Fifty levels."""
    text = "size" + " + size" * 49
    found = attribute(f"{text} > 5")
    batch = pa.record_batch({"size": pa.array([1, 2, None])})
    column = ComputedColumns(TRADES, [found.path]).add_to(batch, 0).column(COMPUTED)
    assert column.field(0).to_pylist() == [50, 100, None]


def test_no_event_makes_an_expression_raise() -> None:
    """Whatever the values: what has no value is NULL."""
    rng = random.Random(3)
    writer = Expressions(rng, rng)
    paths = [attribute(f"{writer.any().written} IS NULL", EVENTS).path for _ in range(400)]
    computed = ComputedColumns(EVENTS, paths)
    for rows in (0, 1, 60):
        batch = random_events(rng, max(rows, 1), 0.5)[0].combine_chunks().to_batches()[0]
        found = computed.add_to(batch.slice(0, rows), 2**62).column(COMPUTED)
        found.validate(full=True)
        assert len(found) == rows
    nothing = pa.record_batch({"other": [1, 2]})
    columns = computed.add_to(nothing, 0).column(COMPUTED).flatten()
    assert all(column.null_count in (0, 2) for column in columns)


@pytest.mark.parametrize(
    ("text", "months", "seconds"),
    [
        ("1 hour", 0, 3600),
        ("-1 hour", 0, -3600),
        ("1 year 2 months 3 days", 14, 3 * 86_400),
        ("1 week -90 minutes", 0, 7 * 86_400 - 5400),
        ("01:30:00", 0, 5400),
        ("2 days 12:30", 0, 2 * 86_400 + 45_000),
        ("5h", 0, 18_000),
    ],
)
def test_intervals_are_read_and_written(text: str, months: int, seconds: int) -> None:
    interval = Interval(months, seconds * 1_000_000)
    assert read_interval(text) == interval
    assert read_interval(str(interval)) == interval


def test_months_are_those_of_the_calendar() -> None:
    """The last of January and a month is the last of February, whatever the year."""
    schema = Schema.of({"at": "timestamp"})
    found = attribute("at + INTERVAL '1 month' > TIMESTAMP '2024-01-01'", schema)
    times = [datetime.datetime(y, 1, 31, 5, tzinfo=datetime.UTC) for y in (1900, 2000, 2023, 2024)]
    batch = pa.record_batch({"at": pa.array(times, pa.timestamp("us", "UTC"))})
    column = ComputedColumns(schema, [found.path]).add_to(batch, 0).column(COMPUTED).field(0)
    assert [t.as_py().day for t in column] == [28, 29, 28, 29]
    assert np.all([t.as_py().month == 2 for t in column])


@pytest.mark.parametrize("value", [0.0, 0.3])
def test_what_is_rounded_to_zero_keeps_its_sign(value: float) -> None:
    """Divisions tell, for an event and for a batch."""
    subs = Subscriptions(TRADES)
    for text in ("2 / round(price) < 0", "2 / round(price, 0) < 0", "2 / round(price * 1, -1) < 0"):
        subs.subscribe("alice", text)
    matcher = subs.compile()
    events = [{"price": -value}, {"price": value}]
    batch = pa.RecordBatch.from_pylist(events, TRADES.to_arrow())
    assert matcher.match_batch(batch).to_pylist() == [[1, 2, 3], []]
    assert [matcher.match(event) for event in events] == [[1, 2, 3], []]


def test_what_a_function_computes_is_not_compared_with_a_variable() -> None:
    with pytest.raises(FilterError, match="computed by a function can't be compared"):
        parse("ceil(price) <> :y", TRADES)
