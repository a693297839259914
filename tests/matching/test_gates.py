"""What an index can't decide is evaluated only for events that the rest of its conjunction lets through."""

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings

from penstock.language import Schema
from penstock.matching import FOREVER, Matcher, Rows, compile_plan, variants
from penstock.matching.engines import gates

SCHEMA = Schema.of({"a": "int", "b": "int", "s": "string", "t": "string", "tags": "array<string>"})


@pytest.fixture(params=[*variants(), "auto"])
def engine(request):
    return request.param


def plan_of(filters, expires=FOREVER):
    rows = Rows.of([(sid, f"user{sid}", text, expires) for sid, text in filters.items()])
    plan, errors = compile_plan(rows, SCHEMA)
    assert errors == []
    return plan


@pytest.fixture
def evaluated(monkeypatch):
    """How many events each lazy test is evaluated for."""
    counts = []
    cells_of = gates.cells_of

    def counted(test, batch, events):
        counts.append(len(events))
        return cells_of(test, batch, events)

    monkeypatch.setattr(gates, "cells_of", counted)
    return counts


def pattern(word):
    """Looks for a word, but requires none of its letters in a row: no index can find it."""
    return f"regexp_matches(s, '{''.join(f'[{letter}]' for letter in word)}')"


def patterns(count):
    return " AND ".join(pattern(f"x{n}") for n in range(count))


EVENTS = pa.record_batch(
    {
        "a": pa.array(range(1000), pa.int64()),
        "s": [f"x{n % 10}" for n in range(1000)],
        "tags": [[f"t{n % 7}"] for n in range(1000)],
    }
)


def test_a_subscription_that_nothing_passes_costs_no_evaluation(engine, evaluated):
    """However many patterns it has: the attribute beside them lets no event through."""
    matcher = Matcher(plan_of({1: f"a = -1 AND {patterns(500)}", 2: "a < 10"}), engine)
    found = matcher.match_batch(EVENTS)
    assert [len(ids) for ids in found.to_pylist()] == [1] * 10 + [0] * 990
    assert sum(evaluated) == 0
    assert matcher._own[0].attributes == 1, "and no event has a cell for them"


def test_tests_are_evaluated_while_all_before_were_true(engine, evaluated):
    """Ten events get to the first pattern, those that it matches to the second, and so on."""
    matcher = Matcher(plan_of({1: f"a < 10 AND {patterns(500)}", 2: "a < 500"}), engine)
    assert matcher.match_batch(EVENTS).flatten().to_pylist() == [2] * 500
    assert sum(evaluated) == 10 + 1


def test_without_an_attribute_to_index_one_test_is_evaluated_for_every_event(engine, evaluated):
    """It takes the place of the attribute; the others are evaluated for what it lets through."""
    matcher = Matcher(plan_of({1: patterns(500)}), engine)
    assert matcher.match_batch(EVENTS).flatten().to_pylist() == []
    assert matcher._own[0].attributes == 1, "one pattern"
    assert sum(evaluated) == 100


def test_a_pattern_that_requires_a_text_leads_to_its_conjunction(engine, evaluated):
    """Beside a range or without one: it has no cells, and nothing is evaluated."""
    filters = {n: f"s ILIKE '%X{n}%'" for n in range(500)}
    filters |= {
        500 + n: f"a < 600 AND s ILIKE '%x{n}%' AND NOT contains(s, '1')" for n in range(500)
    }
    matcher = Matcher(plan_of(filters), engine)
    found = matcher.match_batch(EVENTS).to_pylist()
    assert found == [
        [n % 10, *([500 + n % 10] if n < 600 and n % 10 != 1 else [])] for n in range(1000)
    ]
    assert [matcher.match(event) for event in EVENTS.slice(0, 20).to_pylist()] == found[:20]
    assert matcher._own[0].attributes == 1
    assert sum(evaluated) == 0
    assert matcher.take_evaluations() == ([], [])


def test_a_range_leads_to_conjunctions_that_share_a_pattern(engine):
    """Where one pattern is that of very many, and their equalities tell them apart."""
    matcher = Matcher(plan_of({n: f"a = {n} AND s LIKE '%x%'" for n in range(300)}), engine)
    assert matcher.match_batch(EVENTS).to_pylist() == [[n] if n < 300 else [] for n in range(1000)]
    assert matcher.match({"a": 7, "s": "ax"}) == [7]
    assert matcher.match({"a": 7, "s": "a"}) == []


def test_memberships_past_the_first_few_have_no_cells(engine, evaluated):
    many = " AND ".join(f"array_contains(tags, 't{n}')" for n in range(300))
    matcher = Matcher(plan_of({1: f"a = 5 AND {many}", 2: "array_contains(tags, 't5')"}), engine)
    assert matcher.match_batch(EVENTS.slice(0, 6)).to_pylist() == [[]] * 5 + [[2]]
    assert matcher._own[0].attributes <= 1 + gates._MEMBERSHIPS + 1
    assert sum(evaluated) == 0


def test_what_has_left_or_expired_is_not_evaluated(evaluated):
    """A subscription that was set aside costs nothing any more, though the plan still has it."""
    from penstock.matching.layers import Layer

    plan = plan_of({1: f"a >= 0 AND {patterns(20)}"})
    Matcher([Layer.of(plan, np.array([1]))]).match_batch(EVENTS)
    Matcher(plan_of({1: f"a >= 0 AND {patterns(20)}"}, expires=5)).match_batch(EVENTS, now=5)
    assert sum(evaluated) == 0


def test_evaluations_are_counted_by_conjunction():
    plan = plan_of({1: f"a < 10 AND {patterns(5)}", 2: f"a < 500 AND {pattern('x')}", 3: "a > 1"})
    matcher = Matcher(plan)
    matcher.match_batch(EVENTS)
    assert dict(zip(*matcher.take_evaluations(), strict=True)) == {1: 10 + 1, 2: 500}
    assert matcher.take_evaluations() == ([], [])
    for event in EVENTS.to_pylist():
        matcher.match(event)
    assert dict(zip(*matcher.take_evaluations(), strict=True)) == {1: 10 + 1, 2: 500}


ATOMS = [
    *(f"a {order} {n}" for order in ("=", "<", ">=", "<>") for n in (0, 2)),
    "a IS NULL",
    *(f"s LIKE '{p}'" for p in ("%x%", "x_", "%", "%y")),
    *(f"NOT s LIKE '{p}'" for p in ("%x%", "x_")),
    *(f"s ILIKE '{p}'" for p in ("%X%", "X1", "_")),
    *(f"regexp_matches(s, '{r}')" for r in ("x|1", "[x]")),
    "NOT contains(t, 'x')",
    "ends_with(t, 'x')",
    "s = t",
    "a < b",
    *(f"array_contains(tags, '{t}')" for t in "xyz"),
    "NOT array_contains(tags, 'x')",
    "s = 'x1'",
]
FILTERS = st.lists(
    st.lists(st.sampled_from(ATOMS), min_size=1, max_size=5).map(" AND ".join),
    min_size=1,
    max_size=3,
).map(" OR ".join)
TEXTS = st.sampled_from([None, "", "x", "x1", "yx", "y"])
ROWS = st.fixed_dictionaries(
    {
        "a": st.sampled_from([None, 0, 1, 2, 3]),
        "b": st.sampled_from([None, 0, 2, 3]),
        "s": TEXTS,
        "t": TEXTS,
        "tags": st.none() | st.lists(st.sampled_from([None, "x", "y", "z"]), max_size=3),
    }
)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(FILTERS, min_size=1, max_size=8), st.lists(ROWS, min_size=1, max_size=60), st.data()
)
def test_gates_change_no_match(filters, rows, data):
    """Against the whole plan without a gate, in batches, in parts and event by event, whatever is eager."""
    patch = pytest.MonkeyPatch()
    try:
        patch.setattr(gates, "_SHARED", data.draw(st.sampled_from([1, 2, 256])))
        patch.setattr(gates, "_MEMBERSHIPS", data.draw(st.sampled_from([0, 1, 8])))
        plan = plan_of(dict(enumerate(filters)))
        matcher = Matcher(plan, data.draw(st.sampled_from(variants())))
        batch = pa.RecordBatch.from_pylist(rows, SCHEMA.to_arrow())
        patch.setattr(gates, "build_core", lambda plan: {})
        patch.setattr("penstock.matching.engines.build_core", lambda plan: {})
        expected = Matcher(plan, "naive").match_batch(batch).to_pylist()
    finally:
        patch.undo()
    assert matcher.match_batch(batch).to_pylist() == expected
    parts = matcher.match_parts([batch], most=7)
    assert [ids for _, found in parts for ids in found.lists().to_pylist()] == expected
    assert [matcher.match(row) for row in rows] == expected
