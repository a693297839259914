"""Filters that call operators, matched: every strategy, every engine, layers and batches, against the definition."""

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.operators import worlds
from tests.operators.worlds import SCHEMA, WORLD, Filter, instances

from penstock.matching import ENGINES, FOREVER, Matcher, Rows, compile_plan
from penstock.matching.layers import Layer
from penstock.operators.strategies import STRATEGIES


def plan_of(filters: list[Filter], first: int = 0):
    rows = Rows.of([(first + sid, user, text, FOREVER) for sid, user, text in instances(filters)])
    plan, errors = compile_plan(rows, SCHEMA)
    assert not errors
    return plan


def batch_of(events: list[dict]) -> pa.RecordBatch:
    schema = pa.schema([("a", pa.int64()), ("b", pa.int64()), ("s", pa.string())])
    return pa.RecordBatch.from_pylist(events, schema)


def expected(filters: list[Filter], events: list[dict]) -> list[list[int]]:
    return [[n + 1 for n, one in enumerate(filters) if one.matches(event)] for event in events]


many_filters = st.lists(worlds.filters, min_size=1, max_size=8)
many_events = st.lists(worlds.events, min_size=1, max_size=4)  # five failures open a breaker


@settings(deadline=None, max_examples=150)
@given(
    many_filters, many_events, st.sampled_from(sorted(STRATEGIES)), st.sampled_from(sorted(ENGINES))
)
def test_all_strategies_match_by_definition(
    filters: list[Filter], events: list[dict], strategy: str, engine: str
) -> None:
    """Whatever the strategy and the engine, an event matches iff some joint binding satisfies an alternative."""
    matcher = Matcher(plan_of(filters), engine, operators=WORLD, strategy=strategy)
    found = matcher.match_batch(batch_of(events)).to_pylist()
    assert found == expected(filters, events)
    again = Matcher(plan_of(filters), engine, operators=WORLD, strategy=strategy)
    assert [again.match(event) for event in events] == found


@settings(deadline=None, max_examples=40)
@given(many_filters, many_filters, many_events, st.data())
def test_layers_share_their_calls(
    base: list[Filter], overlay: list[Filter], events: list[dict], data: st.DataObject
) -> None:
    """A base of which some are gone, and an overlay, match like one plan of all that remain."""
    gone = data.draw(st.sets(st.integers(1, len(base))))
    first = len(base)
    layers = [
        Layer.of(plan_of(base), pa.array(sorted(gone), pa.int64()).to_numpy()),
        Layer.of(plan_of(overlay, first)),
    ]
    matcher = Matcher(layers, operators=WORLD)
    wanted = [
        [sid for sid in below if sid not in gone] + [first + sid for sid in above]
        for below, above in zip(expected(base, events), expected(overlay, events), strict=True)
    ]
    assert matcher.match_batch(batch_of(events)).to_pylist() == wanted


@pytest.mark.parametrize("strategy", sorted(STRATEGIES))
def test_an_event_that_fails_is_told(strategy: str) -> None:
    """An operator that raises leaves out those that need it, and nobody else; the event and the reason are told."""
    plan = compile_plan(
        Rows.of([
            (1, "ann", "fragile(b) > 0", FOREVER),
            (2, "bob", "NOT (fragile(b) > 0)", FOREVER),
            (3, "eve", "a > 0 OR fragile(b) > 0", FOREVER),
        ]),
        SCHEMA,
    )[0]  # fmt: skip
    matcher = Matcher(plan, operators=WORLD, strategy=strategy)
    found = matcher.matches(batch_of([{"a": 1, "b": 3}, {"a": 0, "b": 3}, {"a": 0, "b": 4}]))
    assert found.lists().to_pylist() == [[3], [], [1, 3]]
    assert [(f.event, f.operator, f.calls) for f in found.failures] == [
        (0, "fragile", 1),
        (1, "fragile", 1),
    ]
    assert "3 is bad" in found.failures[0].reason


def test_each_invocation_is_evaluated_once_per_event() -> None:
    """Two thresholds of one operator, in several subscriptions, cost one call per event."""
    rows = [(n, "ann", f"score(a, 1) > {n}", FOREVER) for n in range(1, 9)]
    matcher = Matcher(compile_plan(Rows.of(rows), SCHEMA)[0], operators=WORLD)
    matcher.match_batch(batch_of([{"a": n} for n in range(5)]))
    assert matcher.operators is not None
    assert matcher.operators.invoker.stats()["score"].calls == 5


def test_nothing_is_called_for_what_is_decided() -> None:
    """Ordinary predicates come first: operators see only the events, and the subscriptions, that they leave."""
    rows = [
        (1, "ann", "a > 5 AND score(a, 1) > 3", FOREVER),
        (2, "bob", "s = 'x' OR score(a, 2) > 3", FOREVER),
    ]
    matcher = Matcher(compile_plan(Rows.of(rows), SCHEMA)[0], operators=WORLD)
    matcher.match_batch(batch_of([{"a": 1, "s": "x"}, {"a": 2, "s": "x"}]))
    assert matcher.operators is not None
    assert matcher.operators.invoker.stats()["score"].calls == 0
    matcher.match_batch(batch_of([{"a": 6, "s": "x"}]))
    assert matcher.operators.invoker.stats()["score"].calls == 1


def test_an_ended_lease_needs_no_call() -> None:
    """Operators aren't called for subscriptions whose lease has ended."""
    rows = [(1, "ann", "score(a, 1) > 3", 100)]
    matcher = Matcher(compile_plan(Rows.of(rows), SCHEMA)[0], operators=WORLD)
    assert matcher.match({"a": 9}, now=99) == [1]
    assert matcher.match({"a": 9}, now=100) == []
    assert matcher.operators is not None
    assert matcher.operators.invoker.stats()["score"].calls == 1
