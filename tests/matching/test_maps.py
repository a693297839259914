"""Values of maps by key: what DuckDB's maps have, in batches and slices of them, for single events and live ones."""

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.differential.oracle import TRUE, Oracle

from penstock import SchemaError
from penstock.language import Schema
from penstock.matching import FOREVER, Matcher, Rows, compile_plan
from penstock.matching.live import LiveMatcher
from penstock.matching.plan import Plan

KEYS = ["colour", "size", "a'b", "é"]
FILTERS = [
    "attrs['colour'] = 'red'",
    "NOT attrs['colour'] = 'red'",
    "attrs['colour'] IS NULL",
    "lower(attrs['colour']) LIKE 'b%'",
    "attrs['colour'] = attrs['é']",
    "attrs['a''b'] <> 'red' AND counts['é'] IN (1, 2)",
    "counts['size'] + counts['colour'] > 3",
    "counts['missing'] IS NOT NULL",
    "coalesce(counts['size'], 0) = 0",
    "counts['size'] > place['x']",
    "rates['size'] > 1.5",
    "place['x'] > 40",
]


def _map(rng: random.Random, values: list[Any]) -> list[tuple[str, Any]] | None:
    if rng.random() < 0.1:
        return None
    keys = rng.sample(KEYS, rng.randint(0, len(KEYS)))
    return [(key, None if rng.random() < 0.1 else rng.choice(values)) for key in keys]


def _events(count: int) -> pa.Table:
    rng = random.Random(1)
    texts = [_map(rng, ["red", "Blue", ""]) for _ in range(count)]
    counts = [_map(rng, [1, 2, 10, -5]) for _ in range(count)]
    rates = [_map(rng, [1.5, float("nan"), 2.0]) for _ in range(count)]
    return pa.table(
        {
            "attrs": pa.array(texts, pa.map_(pa.string(), pa.string())),
            "counts": pa.array(counts, pa.map_(pa.string(), pa.int64())),
            "rates": pa.array(rates, pa.map_(pa.string(), pa.float64())),
            "place": pa.array([{"x": n} for n in range(count)], pa.struct([("x", pa.int64())])),
        }
    )


def test_values_of_maps_are_those_of_duckdb() -> None:
    """Whole batches, slices, a plan read again, one event at a time, and subscriptions that were added."""
    events = _events(80)
    schema = Schema.of(events.schema)
    assert Schema.from_json(schema.to_json()) == schema
    rows = Rows.of([(n, "someone", text, FOREVER) for n, text in enumerate(FILTERS)])
    plan, errors = compile_plan(rows, schema)
    assert not errors
    truth = Oracle(events).truth(FILTERS)
    assert not truth.refused
    matcher, live = Matcher(plan), LiveMatcher(schema)
    for number, text in enumerate(FILTERS):
        live.add(number, text)
    batch = events.combine_chunks().to_batches()[0]
    expected = [np.flatnonzero(column == TRUE).tolist() for column in truth.values.T]
    again = Matcher(Plan.assemble(plan.header(), plan.arrays()))
    assert matcher.match_batch(batch).to_pylist() == expected
    assert again.match_batch(batch).to_pylist() == expected
    sliced = [batch.slice(first, 7) for first in range(0, 80, 7)]
    assert [ids for part in sliced for ids in matcher.match_batch(part).to_pylist()] == expected
    for event, ids in zip(events.to_pylist(maps_as_pydicts="strict"), expected, strict=True):
        assert matcher.match(event) == live.match(event) == ids


@pytest.mark.parametrize("value", [5, "text", ["a"], {"size": "large"}])
def test_what_is_no_map_is_refused(value: Any) -> None:
    """By the name of the attribute."""
    schema = Schema.of({"counts": "map<string, int>"})
    plan, _ = compile_plan(Rows.of([(1, "x", "counts['size'] > 1", FOREVER)]), schema)
    with pytest.raises(SchemaError, match="attribute 'counts"):
        Matcher(plan).match({"counts": value})
