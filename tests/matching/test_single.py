"""Single events, read from mappings: what is refused, and what an event may also say."""

import datetime

import pytest

from penstock.base.errors import SchemaError
from penstock.language import Schema
from penstock.matching import FOREVER, Matcher, Rows, compile_plan

SCHEMA = Schema.of(
    {
        "i": "long",
        "x": "double",
        "b": "boolean",
        "d": "date",
        "t": "timestamp",
        "s": "string",
        "m": "decimal(10,2)",
        "o": "struct<n: long, s: string>",
    }
)


def matcher_of(text):
    plan, errors = compile_plan(Rows.of([(1, "ann", text, FOREVER)]), SCHEMA)
    assert errors == []
    return Matcher(plan)


@pytest.mark.parametrize(
    ("text", "event"),
    [
        ("i = 5", {"i": 5}),
        ("x > 1", {"x": 2}),
        ("x > 1", {"x": float("nan")}),
        ("b", {"b": True}),
        ("d = '2024-01-31'", {"d": "2024-01-31"}),
        ("d = '2024-01-31'", {"d": datetime.date(2024, 1, 31)}),
        ("t = '2024-01-31 12:00:00'", {"t": "2024-01-31T14:00:00+02:00"}),
        ("t = '2024-01-31 12:00:00'", {"t": datetime.datetime(2024, 1, 31, 12)}),
        ("s = 'ä'", {"s": "ä"}),
        ("m = 1.5", {"m": "1.50"}),
        ("o.n = 5 AND o.s = 'x'", {"o": {"n": 5, "s": "x"}}),
        ("o.n IS NULL", {"o": None}),
        ("o.n IS NULL", {}),
        ("s LIKE '%a%b'", {"s": "xaab"}),
        ("s LIKE '_a%'", {"s": "xab"}),
    ],
)
def test_what_matches(text, event):
    """Every kind of value, as it comes from JSON and as Python has it."""
    assert matcher_of(text).match(event) == [1]


@pytest.mark.parametrize(
    ("text", "event", "message"),
    [
        ("i = 5", {"i": "5"}, "attribute 'i': expected integer, found '5'"),
        ("i = 5", {"i": True}, "attribute 'i': expected integer, found True"),
        ("i = 5", {"i": 2**63}, "attribute 'i'"),
        ("x > 1", {"x": "dear"}, "attribute 'x': expected double, found 'dear'"),
        ("t > '2024-01-31'", {"t": 5}, "attribute 't'"),
        ("s = 'x'", {"s": 5}, "attribute 's': expected string, found 5"),
        ("s = 'x'", {"s": "\ud800"}, "attribute 's'"),
        ("s LIKE '%x'", {"s": 5}, "attribute 's'"),
        ("o.n = 5", {"o": 5}, "attribute 'o"),
        ("o.n = 5", {"o": {"n": "x"}}, "attribute 'o.n'"),
    ],
)
def test_what_is_refused(text, event, message):
    """A value of the wrong type is an error that names the attribute: nothing is guessed."""
    with pytest.raises(SchemaError, match=message):
        matcher_of(text).match(event)


def test_an_event_is_a_mapping():
    """A list is no event."""
    with pytest.raises(SchemaError, match="an event is a mapping"):
        matcher_of("i = 5").match([5])
