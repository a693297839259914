"""The behaviour that every engine shares. An engine that passes here may be used in place of any other."""

import threading

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings

from penstock.base.errors import PenstockError, SchemaError
from penstock.language import Schema
from penstock.matching import FOREVER, Matcher, Rows, compile_plan, layers, variants
from penstock.matching import matcher as matcher_module
from penstock.matching.engines.interface import TooManyHitsError

SCHEMA = Schema.of({"a": "int", "b": "int", "s": "string", "tags": "array<string>"})
NOW = 1_000


@pytest.fixture(params=[*variants(), "auto"])
def engine(request):
    return request.param


def matcher_of(filters, engine, schema=SCHEMA, expires=FOREVER):
    rows = Rows.of([(sid, f"user{sid}", text, expires) for sid, text in filters.items()])
    plan, errors = compile_plan(rows, schema)
    assert errors == []
    return Matcher(plan, engine=engine)


def test_no_subscription_matches_nothing(engine):
    """A plan without subscriptions gives an empty list for every event."""
    matcher = matcher_of({}, engine)
    assert matcher.match({"a": 1}) == []
    assert matcher.match_batch(pa.record_batch({"a": [1, 2]})).to_pylist() == [[], []]


def test_no_event_gives_no_list(engine):
    """A batch without events is answered by as many lists."""
    batch = pa.record_batch({"a": pa.array([], pa.int64())})
    assert matcher_of({1: "a > 0"}, engine).match_batch(batch).to_pylist() == []


def test_ids_come_sorted_whatever_the_order_of_subscribing(engine):
    """Every list is ascending by id, negative and huge ids included."""
    ids = [7, -3, 2**62, 0, 5]
    matcher = matcher_of(dict.fromkeys(ids, "a = 1"), engine)
    assert matcher.match({"a": 1}) == sorted(ids)


def test_a_subscription_that_matches_in_two_ways_is_named_once(engine):
    """Overlapping disjuncts of one filter give one match."""
    matcher = matcher_of({1: "a > 0 OR b > 0 OR s = 'x'"}, engine)
    assert matcher.match({"a": 1, "b": 1, "s": "x"}) == [1]


def test_equal_filters_of_different_subscribers_all_match(engine):
    """A conjunction kept once still reaches everyone who subscribed to it."""
    matcher = matcher_of({1: "a = 1 AND b = 2", 2: "b = 2 AND a = 1", 3: "a = 1"}, engine)
    assert matcher.match({"a": 1, "b": 2}) == [1, 2, 3]
    assert matcher.stats().conjunctions == 2


def test_filters_that_are_always_or_never_true(engine):
    """TRUE matches every event, even an empty one; a contradiction none."""
    matcher = matcher_of({1: "TRUE", 2: "a = 1 AND a = 2", 3: "FALSE", 4: "NULL"}, engine)
    assert matcher.match({}) == [1]
    assert matcher.match({"a": 1}) == [1]


def test_in_lists_and_their_complements(engine):
    """Sets of several ranges, as access predicate and as residual."""
    filters = {
        1: "a IN (1, 5, 9) AND b NOT IN (2, 4)",
        2: "a NOT IN (1, 5, 9)",
        3: "a <> 5 AND b IN (2, 4)",
    }
    matcher = matcher_of(filters, engine)
    assert matcher.match({"a": 5, "b": 3}) == [1]
    assert matcher.match({"a": 9, "b": 2}) == [3]
    assert matcher.match({"a": 2, "b": 4}) == [2, 3]
    assert matcher.match({"a": None, "b": 4}) == []


def test_leases_end_without_anyone_calling(engine):
    """The same matcher stops matching when the clock passes the lease."""
    matcher = matcher_of({1: "a = 1"}, engine, expires=NOW)
    assert matcher.match({"a": 1}, now=NOW - 1) == [1]
    assert matcher.match({"a": 1}, now=NOW) == []


def test_many_matches_of_one_event_grow_the_output(engine):
    """More matches than any first guess of the output's size."""
    matcher = matcher_of({sid: f"a > {sid % 7}" for sid in range(3000)}, engine)
    assert matcher.match({"a": 10}) == list(range(3000))


def test_a_batch_with_other_columns_and_orders(engine):
    """Columns are found by name; those that no filter mentions don't matter, missing ones are NULL."""
    matcher = matcher_of({1: "a = 1", 2: "b IS NULL"}, engine)
    batch = pa.record_batch({"z": ["?"], "a": pa.array([1], pa.int32())})
    assert matcher.match_batch(batch).to_pylist() == [[1, 2]]


def test_a_column_of_another_type_is_an_error_that_names_it(engine):
    """Strings where the schema has integers are refused, not guessed at."""
    with pytest.raises(
        SchemaError, match="'a' is integer in the schema, but the events have string"
    ):
        matcher_of({1: "a = 1"}, engine).match_batch(pa.record_batch({"a": ["1"]}))


def test_sliced_and_dictionary_encoded_columns(engine):
    """Arrow's offsets and encodings change nothing."""
    strings = ["x", None, "y", "x", "z"] * 100
    matcher = matcher_of({1: "s = 'x'", 2: "s > 'x'", 3: "s LIKE '%y%'"}, engine)
    plain = pa.record_batch({"s": strings}).slice(3, 450)
    encoded = pa.record_batch({"s": pa.array(strings).dictionary_encode()}).slice(3, 450)
    expected = matcher.match_batch(plain).to_pylist()
    assert expected[0] == [1]
    assert expected[3] == []
    assert expected[4] == [2, 3]
    assert matcher.match_batch(encoded).to_pylist() == expected


def test_arrays_with_slices_and_nulls(engine):
    """Membership in a sliced list column, with NULL lists and NULL elements."""
    tags = [["x"], None, [], ["y", None, "x"], [None]] * 3
    matcher = matcher_of(
        {1: "array_contains(tags, 'x')", 2: "NOT array_contains(tags, 'x')"}, engine
    )
    batch = pa.record_batch({"tags": pa.array(tags, pa.list_(pa.string()))}).slice(1, 9)
    expected = [[] if t is None else [1] if "x" in t else [2] for t in tags[1:10]]
    assert matcher.match_batch(batch).to_pylist() == expected


def test_pairs_carry_the_subscriber(engine):
    """One row per match: event number, subscription, subscriber."""
    pairs = matcher_of({1: "a = 1", 2: "a >= 1"}, engine).match_pairs(
        pa.record_batch({"a": [1, 2]})
    )
    assert pairs.to_pylist() == [
        {"event": 0, "subscription": 1, "subscriber": "user1"},
        {"event": 0, "subscription": 2, "subscriber": "user2"},
        {"event": 1, "subscription": 2, "subscriber": "user2"},
    ]


@pytest.mark.parametrize("filters", ["a > {}", "a > 0"], ids=["distinct", "equal"])
def test_no_part_has_more_pairs_than_asked_for(engine, filters, monkeypatch):
    """Quiet events first, then some that match all: neither hits nor pairs in memory pass the bound, none is lost."""
    most, subscriptions, loud = 2_000, 300, 200
    matcher = matcher_of({sid: filters.format(sid % 100) for sid in range(subscriptions)}, engine)
    batch = pa.record_batch({"a": [0] * 500 + [1_000] * loud + [0] * 3 + [50]})
    expected = matcher.match_batch(batch).to_pylist()
    hits = []

    def collect_hits(layer, found, *rest):
        hits.append(len(found.event))
        return layers.collect_hits(layer, found, *rest)

    monkeypatch.setattr(matcher_module, "collect_hits", collect_hits)
    parts = list(matcher.match_parts([batch.slice(0, 400), batch.slice(400)], most=most))
    assert [ids for _, found in parts for ids in found.lists().to_pylist()] == expected
    assert (
        pa.Table.from_batches([events for events, _ in parts]).to_batches()[0].schema
        == batch.schema
    )
    assert sum(events.num_rows for events, _ in parts) == batch.num_rows
    assert max(len(found.ids) for _, found in parts) <= most
    assert max(hits) <= most


def test_an_engine_stops_soon_after_it_has_found_too_much(engine):
    """One hit too many is an error, not an answer; and the bound itself is none."""
    matcher = matcher_of({sid: f"a > {sid}" for sid in range(100)}, engine)
    cells = matcher.layers[0].plan.encode(pa.record_batch({"a": [1_000] * 200}))
    found = matcher._own[0].engine
    assert len(found.match(cells, 20_000).event) == 20_000
    with pytest.raises(TooManyHitsError, match="more than 19,999"):
        found.match(cells, 19_999)


def test_an_event_may_have_more_matches_than_a_part_should(engine):
    """One event can't be divided: it is a part of its own."""
    matcher = matcher_of({sid: f"a > {sid % 7}" for sid in range(50)}, engine)
    batch = pa.record_batch({"a": [0, 10, 10]})
    parts = [len(found.ids) for _, found in matcher.match_parts([batch], most=5)]
    assert sorted(parts)[-2:] == [50, 50]
    assert sum(parts) == 100


def test_one_matcher_serves_many_threads(engine):
    """A matcher has no state that changes."""
    matcher = matcher_of({sid: f"a = {sid % 10}" for sid in range(200)}, engine)
    batch = pa.record_batch({"a": np.arange(500) % 10})
    expected = matcher.match_batch(batch)
    results = []
    threads = [
        threading.Thread(target=lambda: results.append(matcher.match_batch(batch)))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 8
    assert all(result.equals(expected) for result in results)


def test_several_threads_give_the_same_lists():
    """Blocks of events in a pool of threads come back in order."""
    rows = Rows.of([(sid, "u", f"a BETWEEN {sid} AND {sid + 9}", FOREVER) for sid in range(300)])
    plan, _ = compile_plan(rows, SCHEMA)
    batch = pa.record_batch({"a": np.random.default_rng(1).integers(0, 320, 25_000)})
    alone = Matcher(plan).match_batch(batch)
    assert Matcher(plan, threads=3).match_batch(batch).equals(alone)
    assert alone[7].as_py() == [s for s in range(300) if s <= batch["a"][7].as_py() <= s + 9]


def test_an_unknown_engine_is_an_error_that_lists_them():
    """A misspelt engine is told apart from a missing one."""
    with pytest.raises(
        PenstockError, match="no engine 'fast': there are auto, batch, mbd, naive, tree"
    ):
        matcher_of({}, "fast")


def test_auto_says_why():
    """A thousand subscriptions to the same few points share a diagram; ranges don't; the reason has the figures."""
    points = matcher_of({sid: f"a = {sid % 2} AND b = {sid // 2 % 2}" for sid in range(4)}, "auto")
    assert points.engine == "batch"
    assert "4 conjunctions, 100% of their predicates points, 2.0 for each constant" in (
        points.stats().reason
    )
    many = {sid: " AND ".join(f"x{n} = {sid >> n & 1}" for n in range(12)) for sid in range(4096)}
    schema = Schema.of({f"x{n}": "int" for n in range(12)})
    shared = matcher_of(many, "auto", schema)
    assert shared.engine == "mbd"
    assert "much to share" in shared.stats().reason
    assert shared.match({f"x{n}": 5 >> n & 1 for n in range(12)}) == [5]
    ranges = matcher_of({sid: f"a BETWEEN {sid} AND {sid + 9}" for sid in range(50)}, "auto")
    assert ranges.engine == "batch"
    assert matcher_of({}, "tree:collapse=no").stats().reason == "asked for"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("tree:collapse=perhaps", "engine 'tree' has no option 'collapse=perhaps': .*collapse=yes"),
        ("batch:speed=9", "engine 'batch' has no option 'speed=9': it has none"),
    ],
)
def test_an_unknown_option_is_an_error_that_lists_them(name, message):
    """So is a value that an option can't have."""
    with pytest.raises(PenstockError, match=message):
        matcher_of({}, name)


COMPARISONS = st.builds(
    "{} {} {}".format,
    st.sampled_from(["a", "b"]),
    st.sampled_from(["=", "<>", "<", "<=", ">", ">="]),
    st.integers(-2, 3),
)
SETS = st.builds(
    "{} {} ({})".format,
    st.sampled_from(["a", "b"]),
    st.sampled_from(["IN", "NOT IN"]),
    st.lists(st.sampled_from(["-1", "0", "1", "2", "NULL"]), min_size=1).map(", ".join),
)
NULLS = st.sampled_from(["a IS NULL", "b IS NOT NULL", "a > b", "s LIKE '%x'", "s LIKE 'x%'"])
FILTERS = st.recursive(
    COMPARISONS | SETS | NULLS,
    lambda inner: (
        st.builds("({} {} {})".format, inner, st.sampled_from(["AND", "OR"]), inner)
        | inner.map("NOT ({})".format)
    ),
    max_leaves=6,
)
VALUES = st.none() | st.integers(-2, 3)


@settings(max_examples=150, deadline=None)
@given(
    filters=st.lists(FILTERS, max_size=8),
    events=st.lists(
        st.tuples(VALUES, VALUES, st.sampled_from([None, "", "x", "ax", "xa"])), max_size=6
    ),
)
def test_all_engines_give_the_rows_of_the_naive_one(filters, events):
    """Whatever the filters and events, engines differ in speed only, and match_batch is match repeated."""
    numbered = dict(enumerate(filters))
    batch = pa.record_batch(
        {
            "a": pa.array([e[0] for e in events], pa.int64()),
            "b": pa.array([e[1] for e in events], pa.int64()),
            "s": pa.array([e[2] for e in events], pa.string()),
        }
    )
    expected = matcher_of(numbered, "naive").match_batch(batch).to_pylist()
    for name in variants():
        matcher = matcher_of(numbered, name)
        assert matcher.match_batch(batch).to_pylist() == expected, name
        singles = [matcher.match(dict(zip("abs", event, strict=True))) for event in events]
        assert singles == expected, name
