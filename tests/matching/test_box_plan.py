"""Subscriptions that come as regions match what their filters match, alone and among others, compacted or not."""

from unittest import mock

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given, settings
from tests.matching.test_live import BATCH, EVENTS, FILTERS, SCHEMA, rows_of

from penstock.covering.reading import region
from penstock.covering.regions import Region, hull, of_boxes
from penstock.language import Schema
from penstock.language.hidden_attributes import read_hidden
from penstock.matching import LiveMatcher, Matcher, compile_plan, live
from penstock.matching.box_plan import compile_boxes

MORE = [
    "s NOT LIKE '%y' AND a >= 1",
    "s ILIKE '%X%' OR a > 3",
    "regexp_matches(s, '^x.?$')",
    "NOT array_contains(tags, 'x') OR a = 4",
    "array_contains(tags, 'y')",
    "a <= b AND a >= b",
    "a <> b",
    "NOT (a < b)",
    "a + b > 4",
    "a * 2 = 4 OR b IS NULL",
    "m <= 7 AND m IS NOT NULL",
    "m NOT BETWEEN 1 AND 2",
    "tags IS NOT NULL AND a < 2",
    "s IN ('x', 'k') AND a IS DISTINCT FROM 3",
    "b > 1 AND b < 2.5 OR b > 2.5",
]
ALL = FILTERS + MORE
SCHEMA_OF = Schema.of(SCHEMA)


@pytest.mark.parametrize("text", ALL)
@pytest.mark.parametrize("engine", ["naive", "tree", "mbd", "batch"])
def test_a_region_matches_what_its_filter_matches(text, engine):
    """Every kind of test, hidden ones included, compiled from boxes by every engine."""
    plan = compile_boxes({5: region(text, SCHEMA).boxes}, SCHEMA_OF)
    filters, _ = compile_plan(rows_of({5: text}), SCHEMA_OF)
    expected = Matcher(filters, engine="naive").match_batch(BATCH)
    matcher = Matcher(plan, engine=engine)
    assert matcher.match_batch(BATCH).equals(expected)
    assert [matcher.match(event) for event in EVENTS[::7]] == expected.to_pylist()[::7]


STEP = st.tuples(
    st.sampled_from(["add", "region", "many", "many", "merger", "remove", "compact"]),
    st.integers(0, 7),
    st.sampled_from(ALL),
    st.sampled_from(ALL),
)


@settings(max_examples=60, deadline=None)
@given(steps=st.lists(STEP, max_size=15))
def test_regions_come_and_go_among_texts(steps):
    """Texts, regions, one or many, and unions of two in any order give what the filters give.

    Many wait until an event comes alone, which here happens after some of the steps only.
    """
    with mock.patch.object(live, "_MANY", 2):
        come_and_go(steps)


def come_and_go(steps):
    there: dict[int, str] = {}
    matcher = LiveMatcher(SCHEMA)
    for step, sid, text, other in steps:
        if step == "add":
            matcher.add(sid, text)
            there[sid] = text
        elif step == "region":
            matcher.add_boxes(sid, region(text, SCHEMA).boxes)
            there[sid] = text
        elif step == "many":
            few = {sid: text, (sid + 1) % 8: other}
            matcher.add_many_boxes([(n, region(t, SCHEMA).boxes) for n, t in few.items()])
            there |= few
        elif step == "merger":
            both = of_boxes([*region(text, SCHEMA).boxes, *region(other, SCHEMA).boxes])
            matcher.add_boxes(sid, both.boxes)
            there[sid] = f"({text}) OR ({other})"
        elif step == "remove":
            assert matcher.discard(sid) == (there.pop(sid, None) is not None)
        else:
            matcher.compact()
        plan, errors = compile_plan(rows_of(there), SCHEMA_OF)
        assert errors == []
        expected = Matcher(plan, engine="naive").match_batch(BATCH)
        assert len(matcher) == len(there)
        assert matcher.match_batch(BATCH).equals(expected)
        probe = [(7 * sid + 13 * n) % len(EVENTS) for n in range(4 if sid % 3 == 0 else 0)]
        assert [matcher.match(EVENTS[n]) for n in probe] == [expected[n].as_py() for n in probe]


KEYS = st.integers(-3, 8)
BOUNDS = st.tuples(st.none() | KEYS, st.none() | KEYS)


@settings(max_examples=200, deadline=None)
@given(
    boxes=st.lists(
        st.tuples(st.lists(BOUNDS, max_size=3), st.booleans(), st.booleans()), max_size=4
    )
)
def test_membership_of_events(boxes):
    """An event matches a region if its keys lie in one of the boxes, by the algebra of values itself."""
    from penstock.language.values import EVERYTHING, Values

    made = []
    for intervals, null, both in boxes:
        values = Values.of([i for i in intervals if None in i or i[0] < i[1]], null)
        if not values.is_empty and values != EVERYTHING:
            tests = [(("a",), values), (("b",), values)] if both else [(("a",), values)]
            made.append(tuple(tests))
    schema = {"a": "int", "b": "bigint"}
    found = of_boxes(made)
    keys = [None, *range(-4, 10)]
    events = [{"a": a, "b": b} for a in keys for b in (None, 0, 5)]
    batch = pa.RecordBatch.from_pylist(
        events, pa.schema({"a": pa.int32(), "b": pa.int64()}.items())
    )
    expected = [
        [1] if any(all(v.contains(e[p[0]]) for p, v in box) for box in found.boxes) else []
        for e in events
    ]
    live = LiveMatcher(schema)
    live.add_boxes(1, found.boxes)
    assert [live.match(event) for event in events] == expected
    assert live.match_batch(batch).to_pylist() == expected
    live.compact()
    assert live.match_batch(batch).to_pylist() == expected


def test_a_hull_is_a_merger():
    """An imperfect merger, the hull of two, matches more than both."""
    boxes = [region(text, SCHEMA).boxes[0] for text in ("a = 1 AND s = 'x'", "a = 3 AND s = 'x'")]
    live = LiveMatcher(SCHEMA)
    live.add_boxes(1, Region((hull(boxes),)).boxes)
    assert live.match({"a": 3, "s": "x"}) == [1]
    assert live.match({"a": 3, "s": "y"}) == []


@pytest.mark.parametrize(
    "path",
    [("\0test",), ("\0test", "text", "x", "", "s"), ("\0order", "9", "a", "b"), ("\0call", "f()")]
    + [("\0test", "contains", text, "1", "0", "tags") for text in ("a", "(1,)", "'x'", "(" * 999)],
)
def test_names_that_stand_for_nothing_are_refused(path):
    """A hidden attribute that nobody can evaluate is an error, not a guess."""
    with pytest.raises(ValueError):
        read_hidden(path)
