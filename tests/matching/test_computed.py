"""Computed attributes in plans: computed once, cut like any other, the same for batches, single events and live ones.

The differential tests compare what they give with DuckDB; here is what they cost, and the time of the match.
"""

import datetime
import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.differential.events import DAY, INSTANTS, random_events

from penstock.language import Schema
from penstock.matching import FOREVER, Matcher, Rows, check, compile_plan
from penstock.matching.check import examine, examine_many
from penstock.matching.live import LiveMatcher
from penstock.matching.plan import Plan

from ..differential.oracle import TRUE, Oracle

NOW = 18321 * DAY + 52_245_123_456
SCHEMA = Schema.of(
    {"price": "double", "size": "bigint", "symbol": "string", "at": "timestamp", "day": "date"}
)
EVENT = {
    "price": 12.5,
    "size": 100,
    "symbol": "Goog",
    "at": datetime.datetime(2020, 2, 29, 14, tzinfo=datetime.UTC),
    "day": datetime.date(2020, 2, 29),
}


def compiled(texts: list[str], schema: Schema = SCHEMA) -> Plan:
    rows = Rows.of([(n, "someone", text, FOREVER) for n, text in enumerate(texts)])
    plan, errors = compile_plan(rows, schema)
    assert not errors, errors[0]
    return plan


def test_many_subscriptions_share_one_expression() -> None:
    """One more attribute with as many cuts as constants, and no test that is evaluated by itself."""
    plan = compiled([f"price * size > {n}.5 AND symbol <> 'x'" for n in range(500)])
    assert [a.name for a in plan.computed.attributes] == ["price * size"]
    assert len(plan.derived) == 0
    assert sorted(len(d.cuts) for d in plan.domains) == [1, 500]
    assert Matcher(plan).match(EVENT | {"size": 10}) == list(range(125))


def test_a_plan_is_the_same_after_it_was_stored() -> None:
    """Paths are all that is kept of expressions."""
    texts = [
        "price * size > 5",
        "lower(symbol) LIKE '%oo%'",
        "price + size > price * 2",
        "day > today()",
    ]
    plan = compiled(texts)
    again = Plan.assemble(plan.header(), plan.arrays())
    assert again.columns == plan.columns == ("day", "price", "size", "symbol")
    assert Matcher(again).match(EVENT, now=NOW) == Matcher(plan).match(EVENT, now=NOW) == [0, 1, 2]


def test_explain_shows_what_was_computed() -> None:
    """The value, and those that it was computed of."""
    explained = Matcher(compiled(["price * size > 2000"])).explain(0, EVENT)
    assert "price * size is 1250.0" in str(explained)
    assert explained.to_dict()["predicates"][0]["values"] == {
        "price * size": 1250.0,
        "price": 12.5,
        "size": 100,
    }


def test_expressions_have_a_cost() -> None:
    """One each, however often a filter has them; warnings say nothing of what an index finds."""
    text = "price * size > 5 AND price * size < 9 AND lower(symbol) = 'x' AND size > 3"
    assert examine(text, SCHEMA).cost == 2
    assert examine("price * size > 5 OR lower(symbol) LIKE '_%'", SCHEMA).cost == 6
    _, costs = examine_many([text, "abs(price) > 5 AND abs(price) < 9", "size > 3"], SCHEMA)
    assert costs.tolist() == [2, 1, 0]
    assert check(text, SCHEMA) == []


def _times(rng: random.Random, count: int) -> list[str]:
    """Comparisons with the time of the match that some instants of the events hit to the microsecond."""
    found: list[str] = []
    for _ in range(count):
        apart = NOW - rng.choice(INSTANTS) + rng.choice([0, 0, 1, -1])
        days = NOW // DAY - rng.choice(INSTANTS) // DAY + rng.choice([0, 1])
        order = rng.choice(["<", "<=", "=", ">=", ">", "<>"])
        found.append(
            rng.choice(
                [
                    f"at1 {order} now() - INTERVAL '{apart} microseconds'",
                    f"now() - INTERVAL '{apart} microseconds' {order} naive",
                    f"at2 - now() {order} INTERVAL '{-apart} microseconds'",
                    f"current_timestamp - at2 {order} INTERVAL '{apart} microseconds'",
                    f"at1 BETWEEN now() - INTERVAL '{apart} microseconds' AND now()",
                    f"on1 {order} current_date - {days}",
                    f"on2 {order} current_date - INTERVAL '{days} days'",
                    f"at1 {order} current_date - {days}",
                    f"at2 {order} now() - INTERVAL '{rng.randint(1, 900)} months'",
                    f"NOT on1 {order} now()",
                ]
            )
        )
    return found


def test_the_time_of_the_match_is_the_one_that_is_given() -> None:
    """Batches, single events and live subscriptions match what DuckDB keeps at that time."""
    rng = random.Random(11)
    events, far = random_events(rng, 60)
    schema = Schema.of(events.schema)
    texts = _times(rng, 150)
    moment = "TIMESTAMPTZ '2020-02-29 14:30:45.123456+00'"
    pinned = [
        t.replace("now()", moment)
        .replace("current_timestamp", moment)
        .replace("current_date", "DATE '2020-02-29'")
        for t in texts
    ]
    truth = Oracle(events).truth([f"+({text})" for text in pinned])
    assert len(truth.refused) < 5
    batch = events.combine_chunks().to_batches()[0]
    matcher, live = Matcher(compiled(texts, schema)), LiveMatcher(schema)
    for number, text in enumerate(texts):
        live.add(number, text)
    together = matcher.match_batch(batch, now=NOW).to_pylist()
    assert live.match_batch(batch, now=NOW).to_pylist() == together
    for row, found in enumerate(together):
        expected = set(np.flatnonzero(truth.values[:, row] == TRUE).tolist())
        disputed = (set(found) ^ expected) - set(truth.refused)
        assert not disputed, [texts[i] for i in disputed]
        if not far[row]:
            event = events.slice(row, 1).to_pylist()[0]
            assert matcher.match(event, now=NOW) == live.match(event, now=NOW) == found


def test_parts_of_a_batch_are_matched_at_one_time() -> None:
    """A micro-batch is matched part by part with the time of its pin, whatever the clock says."""
    matcher = Matcher(compiled(["at > now() - INTERVAL '1 hour'"]))
    batch = pa.record_batch(
        {"at": pa.array([NOW - 1, NOW - 2 * 3_600_000_000], pa.timestamp("us"))}
    )
    found = [m.ids.tolist() for _, m in matcher.match_parts([batch], NOW, most=1)]
    assert [sid for ids in found for sid in ids] == [0]
    assert matcher.match_batch(batch).to_pylist() == [[], []]


@pytest.mark.parametrize("value", [None, "text", 5.5, True, 2**70])
def test_values_of_other_types_are_refused_as_of_any_attribute(value: Any) -> None:
    """What isn't a value of the attribute is an error that names it, not a NULL; NULL is one."""
    matcher = Matcher(compiled(["size + 1 > 5"]))
    if value is None:
        assert matcher.match({"size": value}) == []
    else:
        with pytest.raises(Exception, match="attribute 'size': expected integer"):
            matcher.match({"size": value})
