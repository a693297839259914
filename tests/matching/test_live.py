"""Subscriptions that come and go one at a time: every change is seen by the next match."""

import collections
import threading

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given, settings

import penstock
from penstock.base import growth
from penstock.base.errors import FilterError, UnknownSubscription
from penstock.base.labels import HIGHEST, Labels, NoRoomError
from penstock.language import Schema
from penstock.matching import FOREVER, LiveMatcher, Matcher, Rows, compile_plan, live

SCHEMA = {"a": "int", "b": "double", "s": "string", "tags": "array<string>", "m": "decimal(30,2)"}
FILTERS = [
    "a = 3",
    "a > 1 AND b <= 2.5",
    "a BETWEEN 1 AND 4 OR s = 'x'",
    "a IN (1, 3, 5) AND b NOT IN (1, 2)",
    "a <> 3",
    "s LIKE 'x%'",
    "s LIKE '%y'",
    "a IS NULL",
    "b IS NOT NULL AND s >= 'k'",
    "a > b",
    "array_contains(tags, 'x')",
    "m > 5",
    "TRUE",
    "a = 1 AND a = 2",
    "a IN (" + ", ".join(map(str, range(0, 100, 2))) + ")",
]
EVENTS = [
    {"a": a, "b": b, "s": s, "tags": ["x"], "m": 7}
    for a in (None, 0, 1, 2, 3, 4)
    for b in (None, 1.0, 2.5, 9.0)
    for s in (None, "x", "xy", "k")
]
BATCH = pa.RecordBatch.from_pylist(
    EVENTS,
    pa.schema(
        {
            "a": pa.int32(),
            "b": pa.float64(),
            "s": pa.string(),
            "tags": pa.list_(pa.string()),
            "m": pa.decimal128(30, 2),
        }.items()
    ),
)
STEP = st.tuples(
    st.sampled_from(["add", "add", "add", "remove", "compact"]),
    st.integers(0, 7),
    st.sampled_from(FILTERS) | st.integers(-2, 6).map("a >= {}".format),
)


@settings(max_examples=60, deadline=None)
@given(before=st.lists(st.sampled_from(FILTERS), max_size=5), steps=st.lists(STEP, max_size=15))
def test_any_sequence_of_changes_gives_what_a_fresh_compile_gives(before, steps):
    """Added, replaced, removed, compacted in any order: single events and batches match as a fresh plan does."""
    there = dict(enumerate(before))
    matcher = LiveMatcher(SCHEMA, rows_of(there))
    for step, sid, text in steps:
        if step == "add":
            matcher.add(sid, text)
            there[sid] = text
        elif step == "remove" and sid in there:
            matcher.remove(sid)
            del there[sid]
        elif step == "compact":
            matcher.compact()
        plan, errors = compile_plan(rows_of(there), Schema.of(SCHEMA))
        assert errors == []
        expected = Matcher(plan, engine="naive").match_batch(BATCH)
        assert len(matcher) == len(there)
        assert matcher.match_batch(BATCH).equals(expected)
        probe = [(7 * sid + 13 * n) % len(EVENTS) for n in range(4)]
        assert [matcher.match(EVENTS[n]) for n in probe] == [expected[n].as_py() for n in probe]


def rows_of(there):
    return Rows.of([(sid, "user", text, FOREVER) for sid, text in there.items()])


def test_leases_end():
    """Additions end as those of the base do."""
    matcher = LiveMatcher(SCHEMA, Rows.of([(1, "ann", "a = 1", 100)]))
    matcher.add(2, "a = 1", expires=200)
    matcher.add(3, "s LIKE '%x' OR a = 1", expires=300)
    ended = [matcher.match({"a": 1}, now=now) for now in (99, 100, 200, 300)]
    assert ended == [[1, 2, 3], [2, 3], [3], []]


def test_it_follows_a_registry():
    """What was subscribed, renewed and unsubscribed since is taken over, and following again changes nothing."""
    subs = penstock.Subscriptions()
    kept, _ = subs.subscribe("ann", "a = 1")
    gone, ticket = subs.subscribe("bob", "a = 1")
    matcher = subs.live(SCHEMA)
    subs.unsubscribe(gone, ticket)
    new, _ = subs.subscribe("cy", "a >= 1")
    assert matcher.match({"a": 1}) == [kept, gone]
    for _ in range(2):
        matcher.follow(subs)
        assert matcher.match({"a": 1}) == [kept, new]


def test_what_does_not_fit_its_schema_is_set_aside_and_the_rest_goes_on(caplog):
    """A registry without a schema takes what this matcher's schema can't; of a replaced text the old one has gone."""
    subs = penstock.Subscriptions()
    replaced, ticket = subs.subscribe("ann", "a = 1")
    matcher = subs.live(SCHEMA)
    subs.update(replaced, ticket, "nothing = 1")
    misfit, _ = subs.subscribe("bob", "a = 'one'")
    fits, _ = subs.subscribe("cy", "a >= 1")
    for _ in range(2):
        matcher.follow(subs)
        assert matcher.match({"a": 1}) == [fits]
    for sid in (replaced, misfit):
        assert f"subscription {sid} set aside" in caplog.text


@pytest.mark.parametrize("order", ["before", "after"])
@pytest.mark.parametrize("text", ["a >= 1", "a = 1 OR s LIKE '%x'"])
def test_what_is_replaced_while_it_is_matched_is_found_once(monkeypatch, order, text):
    """By another thread, right before or after the base is asked; in the tree, or among the odd ones."""
    batch = pa.RecordBatch.from_pylist([{"a": 1}, {"a": 0}, {"a": 1}])
    for method, published, expected in (
        ("match_reporting", {"a": 1}, ([1], ())),
        ("matches", batch, [[1], [], [1]]),
    ):
        matcher = LiveMatcher(SCHEMA, rows_of({1: "a = 1"}))
        ask = getattr(Matcher, method)

        def replacing(self, *rest, ask=ask, matcher=matcher):
            monkeypatch.undo()
            if order == "before":
                matcher.add(1, text)
            found = ask(self, *rest)
            if order == "after":
                matcher.add(1, text)
            return found

        monkeypatch.setattr(Matcher, method, replacing)
        if method == "matches":
            assert matcher.match_batch(published).to_pylist() == expected
        else:
            assert matcher.match_reporting(published) == expected


def test_what_is_refused_changes_nothing():
    """A bad filter is an error with a position; an unknown id is one, too."""
    matcher = LiveMatcher(SCHEMA)
    matcher.add(1, "a = 1")
    with pytest.raises(FilterError, match="unknown attribute"):
        matcher.add(1, "nothing = 1")
    with pytest.raises(UnknownSubscription):
        matcher.remove(2)
    assert matcher.match({"a": 1}) == [1]


def test_many_changes_are_compacted_aside(monkeypatch):
    """Past the bound a new base is compiled; matches before, during and after are the same."""
    monkeypatch.setattr(growth, "LEAST", 50)
    begun, go_on = threading.Event(), threading.Event()
    compiled = live.compile_plan

    def slow(rows, schema):
        if len(rows) > 50:
            begun.set()
            go_on.wait()
        return compiled(rows, schema)

    monkeypatch.setattr(live, "compile_plan", slow)
    matcher = LiveMatcher(SCHEMA)
    for sid in range(60):
        matcher.add(sid, f"a >= {sid}")
    begun.wait()
    assert matcher.match({"a": 9}) == list(range(10))
    matcher.add(100, "a = 9")
    matcher.remove(3)
    assert matcher.match({"a": 9}) == [0, 1, 2, *range(4, 10), 100]
    go_on.set()
    for thread in threading.enumerate():
        if thread.name == "penstock-live-compaction":
            thread.join()
    assert matcher.match({"a": 9}) == [0, 1, 2, *range(4, 10), 100]
    assert len(matcher) == 60


def test_readers_and_writers_in_many_threads():
    """Whoever matches while others add and remove sees the subscriptions that are always there."""
    matcher = LiveMatcher(SCHEMA, Rows.of([(0, "ann", "a = 1", FOREVER)]))
    matcher.add(1, "a = 1")
    wrong = []

    def read():
        for _ in range(200):
            found = matcher.match({"a": 1})
            if found[:2] != [0, 1] or found != sorted(set(found)):
                wrong.append(found)

    def write(first):
        for sid in range(first, first + 60):
            matcher.add(sid, "a = 1")
            if sid % 2:
                matcher.remove(sid)

    threads = [threading.Thread(target=read) for _ in range(2)]
    threads += [threading.Thread(target=write, args=(1000 * n,)) for n in (1, 2)]
    for thread in threads:
        thread.start()
    matcher.compact()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert len(matcher.match({"a": 1})) == 2 + 60


@given(keys=st.lists(st.integers(-100, 100), max_size=60))
def test_labels_are_in_the_order_of_the_keys_for_good(keys):
    """Whatever the order in which constants come, labels order as they do, never change, and leave room between."""
    labels = Labels()
    given_ = {key: labels.add(key) for key in keys}
    ordered = sorted(given_)
    assert [labels.add(key) for key in ordered] == [given_[key] for key in ordered]
    everything = [labels.of(key) for key in range(-101, 102)]
    assert everything == sorted(everything)
    assert all(0 < label < HIGHEST for label in everything)
    for key in ordered:
        assert labels.of(key - 1) < labels.of(key) < labels.of(key + 1)


def test_labels_run_out_where_every_constant_halves_the_room():
    """Dozens of constants in one gap are fine, hundreds of them an error; at either end there is room for many."""
    labels = Labels()
    labels.add(0)
    for key in range(1, 5000):
        labels.add(key)
        labels.add(-key)
    halving = (10 + 0.5**n for n in range(200))
    with pytest.raises(NoRoomError):
        collections.deque(map(labels.add, halving), maxlen=0)
