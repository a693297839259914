"""A live matcher whose filters call operators: they come, go and are compacted like all others."""

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.operators import worlds
from tests.operators.worlds import SCHEMA, WORLD, Filter

import penstock
from penstock.matching import FOREVER, LiveMatcher, Rows

steps = st.lists(st.tuples(st.integers(1, 5), st.none() | worlds.filters), max_size=6)


@settings(deadline=None, max_examples=40)
@given(st.lists(worlds.filters, max_size=3), steps, st.booleans(), worlds.events)
def test_changes_are_seen_by_the_next_match(
    base: list[Filter], changes: list[tuple[int, Filter | None]], compact: bool, event: dict
) -> None:
    """After any additions, replacements and removals, one event and a batch match what is there by definition."""
    there = {n + 1: one for n, one in enumerate(base)}
    rows = Rows.of([(sid, "ann", one.sql, FOREVER) for sid, one in there.items()])
    live = LiveMatcher(SCHEMA, rows, operators=WORLD)
    for sid, one in changes:
        if one is not None:
            live.add(sid, one.sql)
            there[sid] = one
        elif sid in there:
            live.remove(sid)
            del there[sid]
    if compact:
        live.compact()
    wanted = sorted(sid for sid, one in there.items() if one.matches(event))
    assert live.match(event) == wanted
    types = pa.schema([("a", pa.int64()), ("b", pa.int64()), ("s", pa.string())])
    assert live.match_batch(pa.RecordBatch.from_pylist([event], types)).to_pylist() == [wanted]


def test_a_registry_hands_its_operators_on() -> None:
    """`subs.live` follows a registry whose filters call operators."""
    subs = penstock.Subscriptions({"a": "bigint"}, operators=[worlds.score])
    live = subs.live()
    sid, _ = subs.subscribe("ann", "a > 3 AND score(a, 1) > 3")
    live.follow(subs)
    assert live.match({"a": 9}) == [sid]
    assert live.match({"a": 6}) == []
