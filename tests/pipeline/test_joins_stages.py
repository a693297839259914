"""The stages of select-joins, run without Spark: every view is DuckDB's result, whatever happens to the processes."""

import json
import random

import pyarrow as pa
import pytest
from tests.joins.small_world import WORLDS, Database, random_change, random_subscription

import penstock
from penstock.joins.changes import Change
from penstock.pipeline.joins.changes import Feed, Reader
from penstock.pipeline.joins.stages import Stages, Window
from penstock.pipeline.letters import read_letters

from .joins_world import Engine, Watchers

FEED = Feed("op", "version", "before")


def text_of(sql: str) -> str:
    return "SELECT * FROM" + sql.partition(" FROM")[2]


def as_row(change: Change, version: int) -> dict:
    beside = {"op": "delete" if change.row is None else "update", "version": version}
    if change.row is None:
        return {"id": change.key[0], **beside}
    before = None if change.key is None else {"id": change.key[0]}
    return {**change.row, **beside, "before": before}


def run(world, seed, path, batches=12, versioned=True, buckets=4):
    catalog, rng = WORLDS[world], random.Random(f"{world} {seed}")
    database = Database(catalog)
    subs = penstock.Subscriptions(catalog=catalog)
    stages = Stages(catalog, buckets, tuple(catalog.tables))
    feed = FEED if versioned else Feed("op", None, "before")
    engine = Engine(stages, path, feed, rng)
    watchers = Watchers(catalog)
    tickets, sent, version = {}, [], 0
    for batch in range(batches):
        for _ in range(rng.choice([0, 0, 1, 3]) if batch else 4):
            text = text_of(random_subscription(catalog, rng).sql)
            sid, tickets[sid] = subs.subscribe("someone", text, lease="forever")
            watchers.add(sid, text)
        if tickets and rng.random() < 0.3:
            sid = rng.choice(list(tickets))
            subs.unsubscribe(sid, tickets.pop(sid))
            del watchers.views[sid]
        changes: dict[str, list[dict]] = {}
        for _ in range(rng.choice([0, 1, 5, 30])):
            change = random_change(catalog, rng)
            version += 1
            database.apply(change)
            row = as_row(change, version)
            changes.setdefault(change.table, []).append(row)
            sent.append((change.table, row))
        if versioned and sent:
            for table, row in rng.choices(sent, k=3):  # late, and again
                changes.setdefault(table, []).append(row)
            for rows in changes.values():
                rng.shuffle(rows)
        engine.publish(subs.selects)
        told = engine.run(changes, crash=rng.random() < 0.3)
        assert len({row["notification_id"] for row in told}) == len(told)
        watchers.apply(told)
        for sid, view in watchers.views.items():
            text = view.select.text
            assert watchers.result(sid) == database.result(text), (batch, text)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("world", WORLDS)
def test_views_equal_duckdb_after_every_micro_batch(world, seed, tmp_path):
    """Two processes, replayed micro-batches, subscriptions that come and go, changes that come late and twice."""
    run(world, seed, tmp_path)


def test_changes_without_versions_are_taken_as_they_come(tmp_path):
    """Their order is that of their arrival."""
    run("binary", 3, tmp_path, versioned=False)


def test_a_log_is_merged_when_it_outgrows_its_base(tmp_path):
    """A bucket that sees many micro-batches keeps its state short, and loses nothing."""
    run("binary", 4, tmp_path, batches=60, buckets=1)


def test_a_tuple_leaves_when_its_window_ends(tmp_path):
    """At a tick of the clock, what is older than the window is deleted, and views forget what joined with it."""
    catalog = penstock.Catalog.of(
        {
            "Stocks": penstock.Table({"Symbol": "string", "PER": "double"}, key="Symbol"),
            "Reviews": penstock.Table(
                {"Id": "int", "Symbol": "string", "at": "timestamp"}, key="Id"
            ),
        },
        edges=[("Stocks", "Reviews", "Symbol")],
    )
    subs = penstock.Subscriptions(catalog=catalog)
    text = "SELECT * FROM Stocks JOIN Reviews USING (Symbol)"
    sid, _ = subs.subscribe("alice", text)
    stages = Stages(catalog, 4, (), {"Reviews": Window("at", 10_000_000)})
    engine = Engine(stages, tmp_path, FEED, random.Random(1))
    watchers = Watchers(catalog)
    watchers.add(sid, text)
    engine.publish(subs.selects)
    reviews = [
        {
            "Id": n,
            "Symbol": "A",
            "at": f"1970-01-01T00:00:{second:02}Z",
            "op": "insert",
            "version": 1,
        }
        for n, second in enumerate([1, 5, 9])
    ]
    from datetime import datetime

    for row in reviews:
        row["at"] = datetime.fromisoformat(row["at"])
    stocks = [{"Symbol": "A", "PER": 5.0, "op": "insert", "version": 1}]
    watchers.apply(engine.run({"Stocks": stocks, "Reviews": reviews}, now=10_000_000))
    assert len(watchers.views[sid]) == 3
    watchers.apply(engine.run({}, now=15_000_000))
    assert sorted(row[2] for row in watchers.views[sid]) == [2]
    watchers.apply(engine.run({"Reviews": [reviews[0]]}, now=16_000_000))
    assert len(watchers.views[sid]) == 1  # a replayed review stays expired
    watchers.apply(engine.run({}, now=60_000_000))
    assert len(watchers.views[sid]) == 0


def test_rows_that_are_no_changes_become_dead_letters(tmp_path):
    """A NULL key, an unknown operation, no version: each is told with the reason, and stops nobody else."""
    catalog = WORLDS["binary"]
    subs = penstock.Subscriptions(catalog=catalog)
    subs.subscribe("alice", "SELECT * FROM S")
    engine = Engine(Stages(catalog, 2, ("S",)), tmp_path, FEED, random.Random(1))
    engine.publish(subs.selects)
    rows = [
        {"id": None, "op": "insert", "version": 1},
        {"id": 1, "op": "explode", "version": 1},
        {"id": 2, "op": "insert", "version": None},
        {"id": 3, "op": "INSERT", "version": 1},
        {"id": 4, "op": "update_preimage", "version": 1},
    ]
    engine.rng.choice = lambda seq: seq[-1]  # all rows in one batch
    told = engine.run({"S": rows})
    assert [row["tuple"]["S"]["id"] for row in told] == [3]
    (folder,) = (tmp_path / "letters").iterdir()
    letters = [json.loads(line) for f in folder.iterdir() for line in f.read_text().splitlines()]
    assert [letter["reason"] for letter in letters] == [
        "S: op is 'explode': expected insert, update or delete",
        "S: version is NULL",
        "S: the key id is NULL",
    ]
    assert len(read_letters(tmp_path / "letters", 7)) == 3


def test_values_that_do_not_fit_are_dead_letters_of_their_rows_only(tmp_path):
    """Of a batch, the rows with a value that its column can't have are told; the others are read."""
    catalog = penstock.Catalog.of({"A": penstock.Table({"k": "int", "x": "int"}, key="k")})
    given = {
        "k": ["1", "2", "three", "4", "5"],
        "x": [1.0, 2.5, 3.0, 4.0, 1e300],
        "op": ["insert"] * 5,
        "version": ["1", "1", "1", "late", "1"],
    }
    reader = Reader(Stages(catalog, 2, ("A",)), "A", Feed("op", "version"), None)
    letters: list[str] = []
    parts = list(reader.read(pa.RecordBatch.from_pydict(given), 0, letters))
    assert [row["k"] for part, _ in parts for row in part.to_pylist()] == [1]
    reasons = [json.loads(letter)["reason"].split(":")[1].split()[0] for letter in letters]
    assert sorted(reasons) == ["k", "version", "x", "x"]
