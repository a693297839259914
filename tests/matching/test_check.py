"""What a filter is warned of, compared with what its plan shows."""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.differential.events import SCHEMA as EVENTS
from tests.differential.filters import RandomFilters
from tests.language.spellings import SCHEMA, filters

from penstock import FilterError, Schema
from penstock.matching import FOREVER, Plan, Rows, check, check_many, compile_plan, examine
from penstock.matching.check import MANY_TESTS
from penstock.matching.filled_cells import Snap, filled_cells
from penstock.matching.kernels import TRUE

EVENT_SCHEMA = Schema.of(EVENTS)


def shown(plan: Plan) -> list[str]:
    """The definition: the warnings that the plan of one subscription calls for, by their first words."""
    lengths = np.diff(plan.conjunction_start)
    if not len(lengths):
        return ["never matches"]
    if not lengths.all():
        return ["matches every event"]
    attribute = plan.tested_attribute
    cells = [*map(filled_cells, plan.domains), *[np.ones(3, bool)] * len(plan.derived)]
    snap = Snap(cells)  # a test is whole if it accepts all values that there are
    whole = (plan.predicate_low <= snap.up(attribute, 1)) & (
        plan.predicate_high == snap.top[attribute]
    )
    indexable = (attribute < len(plan.domains)) & ~whole
    pattern = attribute - len(plan.domains) - len(plan.derived.plain)
    wanted = (pattern >= 0) & (pattern < len(plan.derived.patterns)) & (plan.predicate_low == TRUE)
    indexable[wanted] = plan.derived.patterns.indexed[pattern[wanted]]
    found = ["is a disjunction"] if len(lengths) > 64 else []
    starts = plan.conjunction_start
    if any(not indexable[starts[c] : starts[c + 1]].any() for c in range(len(lengths))):
        found.append("has no predicate that an index can use")
    return found


def assert_warned(text: str, schema: Schema) -> None:
    plan, errors = compile_plan(Rows.of([(1, "x", text, FOREVER)]), schema)
    if errors:
        with pytest.raises(FilterError) as caught:
            check(text, schema)
        assert str(caught.value) == str(errors[0][1])
        return
    costly = examine(text, schema).cost > MANY_TESTS
    expected = shown(plan) + ["costs "] * costly
    warnings = check(text, schema)
    assert len(warnings) == len(expected), (text, warnings, expected)
    assert all(w.startswith(e) for w, e in zip(warnings, expected, strict=True)), text


@settings(max_examples=300, deadline=None)
@given(filters())
def test_conjunctions_are_warned_of_as_their_plans_show(text: str) -> None:
    """Contradictions, tautologies and what no index can use, whatever the types and literals."""
    assert_warned(text, SCHEMA)


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 2**32))
def test_filters_are_warned_of_as_their_plans_show(seed: int) -> None:
    """The same with OR, NOT and everything else that there is."""
    assert_warned(RandomFilters(random.Random(seed)).filter(), EVENT_SCHEMA)


@pytest.mark.parametrize(
    "text",
    [
        "a = 2.5",
        "a > 9223372036854775807",
        "a > 9223372036854775808",
        "a < 9223372036854775808",
        "a <> 9223372036854775808",
        "a >= -9223372036854775809",
        "c = 1.005",
        "c > 99999999999999999999",
        "w = 1e40",
        "day < TIMESTAMP '2024-01-31 10:00:00' AND day > DATE '2024-01-30'",
        "day = TIMESTAMP '2024-01-31 10:00:00'",
        "a > 5 AND a < 6",
        "d > 5 AND d < 6",
        "d >= 5 AND d <= 5 AND d <> 5",
        "a BETWEEN 5 AND 3",
        "s LIKE '%' AND s LIKE 'x%' AND s < 'x'",
        "s LIKE ''",
        "flag AND NOT flag",
        "flag IS NOT TRUE AND flag IS NOT FALSE AND flag IS NOT NULL",
        "a IS NULL AND a = 1",
        "a IS NOT NULL",
        "a > 1 OR a <= 1 OR a IS NULL",
        "a NOT IN (1, 2, 3)",
        "a IN (1, 2) AND a NOT IN (1, 2)",
        "array_contains(items, 1) AND NOT array_contains(items, 1)",
        "items IS NULL",
        "a = b AND s LIKE '%x'",
        " OR ".join(f"(a = {n % 70} AND b > {n % 70})" for n in range(140)),
        " OR ".join(f"(array_contains(items, {n % 70}) AND b > {n % 70}.0)" for n in range(140)),
        "a IN ("
        + ", ".join(str(n) for n in range(0, 400, 2))
        + ") AND a NOT IN ("
        + ", ".join(map(str, range(99)))
        + ")",
        " AND ".join(f"a <> {n}" for n in range(200)),
    ],
)
def test_edges(text: str) -> None:
    """Values beyond the type, between its values, at its ends; many conjunctions, some of them equal; long lists."""
    assert_warned(text, SCHEMA)


def test_a_check_needs_no_schema() -> None:
    """Without one the types are those of the literals, and it is as strict about syntax."""
    assert check("price > 5 AND name = 'x'") == []
    assert check("price > 5 AND price < 3")[0].startswith("never matches")
    for text in ("price > 5 AND price = 'x'", "price > 5 AND", "sqrt(price) > 2"):
        with pytest.raises(FilterError):
            check(text)
        assert [row for row, _ in check_many(["price > 5", text])] == [1]


def test_literals_are_read() -> None:
    """What is no date is refused, at its place."""
    with pytest.raises(FilterError) as caught:
        check("a > 5 AND day > '2024-02-30'", SCHEMA)
    assert (caught.value.start, caught.value.end) == (16, 28)


@pytest.mark.parametrize(
    ("text", "warned"),
    [
        ('title = "abc"', True),
        ('price > 5 AND title <> "a ""b"""', True),
        ('"order" = 5', False),
        ("title = 'x = \"abc\"' AND price > 5", False),
        ("title = 'it''s = \"abc\"' AND price > 5", False),
    ],
)
def test_a_string_in_double_quotes_is_warned_of_where_no_schema_refuses_it(text, warned):
    found = [warning for warning in check(text) if "strings take single quotes" in warning]
    assert len(found) == warned
    assert not [
        w
        for w in check(
            text,
            Schema.of(
                {
                    "title": "string",
                    "price": "double",
                    "order": "int",
                    "abc": "string",
                    'a "b"': "string",
                }
            ),
        )
        if "quotes" in w
    ]
