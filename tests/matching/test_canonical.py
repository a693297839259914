"""Equal filters share their conjunctions, however they are written; and still match what they matched."""

import itertools

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from tests.covering.small_world import BATCH, FILTERS, SCHEMA
from tests.operators import worlds

from penstock.language import Schema
from penstock.matching import FOREVER, Matcher, Rows, compile_plan

TYPED = Schema.of(
    {"i": "int", "j": "int", "x": "double", "n": "decimal(8,2)", "b": "boolean", "s": "string", "day": "date"}
)  # fmt: skip
EQUAL = [
    ("i > 5", "i >= 6"),
    ("i IN (2, 1)", "i = 1 OR i = 2"),
    ("i IN (2, 1)", "i BETWEEN 1 AND 2"),
    ("i = 1 OR i = 3 OR i = 2", "i BETWEEN 1 AND 3"),
    ("i NOT IN (4, 5)", "i < 4 OR i > 5"),
    ("i > 1 AND j > 2", "j > 2 AND i > 1"),
    ("x > 5 AND x > 3", "x > 5"),
    ("x > 3 OR x > 5", "x > 3"),
    ("x < 3 OR x >= 3", "x IS NOT NULL"),
    ("i > 3 OR i > 5 AND j = 1", "i > 3"),
    ("i > 5 AND i < 6", "i = 1 AND i = 2"),
    ("i > 5 OR i IS NULL", "i IS NULL OR i >= 6"),
    ("b <> FALSE", "b"),
    ("b >= FALSE", "b IS NOT NULL"),
    ("n < 0.01", "n <= 0"),
    ("day > DATE '2024-01-31'", "day >= DATE '2024-02-01'"),
    ("s LIKE 'ab%'", "s >= 'ab' AND s < 'ac'"),
    ("s LIKE '%x' OR s LIKE '%x' AND i = 1", "s LIKE '%x'"),
]


def plan_of(texts, schema):
    rows = Rows.of([(n + 1, "", text, FOREVER) for n, text in enumerate(texts)])
    plan, errors = compile_plan(rows, schema)
    assert not errors
    return plan


def conjunctions_of(plan, subscription):
    """The numbers of a subscription's conjunctions, and of its chains."""
    conjunction = np.repeat(np.arange(plan.conjunctions), np.diff(plan.fan_start))
    return set(conjunction[plan.fan_subscription == subscription].tolist())


@pytest.mark.parametrize(("one", "other"), EQUAL)
def test_equal_filters_are_the_same_conjunctions(one, other):
    """Alone, and where the constants of others cut their attributes."""
    for others in ([], [text for pair in EQUAL for text in pair]):
        plan = plan_of([one, other, *others], TYPED)
        assert conjunctions_of(plan, 0) == conjunctions_of(plan, 1)


@settings(max_examples=60, deadline=None)
@given(st.lists(FILTERS, min_size=1, max_size=5))
def test_conjunctions_of_equal_meaning_are_one(texts):
    """By definition: of all conjunctions of a plan no two hold for the same events of a small world."""
    plan = plan_of(texts, SCHEMA)
    cells = plan.encode(BATCH)
    seen = []
    for c in range(plan.conjunctions):
        holds = np.ones(BATCH.num_rows, bool)
        for p in range(plan.conjunction_start[c], plan.conjunction_start[c + 1]):
            holds &= _accepts(plan, p, cells[plan.tested_attribute[p]])
        assert holds.any()
        seen.append(holds.tobytes())
    assert len(set(seen)) == len(seen)


def _accepts(plan, p, cells):
    coded = plan.predicate_attribute[p]
    if coded >= 0:
        return (plan.predicate_low[p] <= cells) & (cells <= plan.predicate_high[p])
    span = range(plan.set_start[~coded], plan.set_start[~coded + 1])
    return np.any([(plan.set_low[i] <= cells) & (cells <= plan.set_high[i]) for i in span], axis=0)


def test_stats_count_who_shares():
    """Subscriptions with a conjunction that another one has, too; each once."""
    texts = ["i > 5", "i >= 6 OR j = 1", "j IN (1)", "j = 2", "b", "b", "i > 7 AND i < 7"]
    stats = Matcher(plan_of(texts, TYPED)).stats()
    assert (stats.subscriptions, stats.conjunctions, stats.sharing) == (7, 4, 5)


def test_alternatives_that_another_includes_are_gone():
    """But for filters of very many, which are left as they are."""
    plan = plan_of(["i > 1 AND j > 1 OR i > 2 AND j > 2 OR i > 0 AND j > 3 OR b"], TYPED)
    assert plan.conjunctions == 3
    many = [f"i = {n} AND j > {n}" for n in range(40)]
    plan = plan_of([" OR ".join([*many, "i = 0 AND j > 5"])], TYPED)
    assert plan.conjunctions == 41


def test_calls_of_operators_are_shared_too_and_still_made():
    """`score(a, 0) > 5` is `>= 6`; a test that any answer satisfies is one, since an operator may fail."""
    texts = [
        "score(a, 0) > 5",
        "score(a, 0) >= 6",
        "fragile(b) IS NULL OR fragile(b) <= 9223372036854775807",
    ]
    plan = plan_of(texts, worlds.SCHEMA)
    assert plan.operators is not None
    assert sorted(np.diff(plan.operators.fan_start).tolist()) == [1, 2]
    assert Matcher(plan, operators=worlds.WORLD).stats().sharing == 2
    matcher = Matcher(plan, "naive", operators=worlds.WORLD)
    events = [{"a": a, "b": b, "s": None} for a, b in itertools.product(range(5), (1, 3))]
    found = matcher.match_batch(pa.RecordBatch.from_pylist(events, worlds.SCHEMA.to_arrow()))
    expected = [
        [
            n
            for n, holds in ((1, 7 * e["a"] % 10 > 5), (2, 7 * e["a"] % 10 > 5), (3, e["b"] == 1))
            if holds
        ]
        for e in events
    ]
    assert found.to_pylist() == expected
