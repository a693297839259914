"""Snapshots in an S3 server: every kind of job and pipeline publishes them there, and its workers map copies."""

import json

import pyarrow as pa
import pytest
from tests.operators.worlds import WORLD
from tests.sizes import PATIENCE

import penstock
from penstock.base.locations import path_of
from penstock.base.remote_paths import RemotePath
from penstock.delivery import FileSink
from penstock.matching import SnapshotStore
from penstock.operators.learning import latest
from penstock.pipeline import Source
from penstock.pipeline.joins.notification_rows import messages_of

from .scenes import delivered, forget_commit, pipeline, run, write_events

pytestmark = pytest.mark.spark

SCHEMA = {"id": "bigint", "a": "bigint", "s": "string"}
FILTERS = ["flag(s, 'y') AND picky(a) > 2", "a > 5"]
EVENTS = [{"id": n, "a": n % 13, "s": "xyz"[n % 3]} for n in range(40)]


def registry():
    subs = penstock.Subscriptions(SCHEMA, operators=WORLD)
    subs.load(pa.table({"subscriber": ["ann"] * len(FILTERS), "filter": FILTERS}))
    return subs


def expected(subs):
    matcher = subs.compile()
    return sorted((event["id"], sid) for event in EVENTS for sid in matcher.match(event))


def letters(folder):
    files = (folder / "checkpoint/penstock/dead-letters").glob("*/batch=*/*.json")
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def test_a_job_publishes_and_matches_there(spark, s3_folder):
    subs = registry()
    frame = spark.createDataFrame(pa.Table.from_pylist(EVENTS)).repartition(2)
    rows = penstock.match(frame, subs, snapshots=s3_folder, explode=True).collect()
    assert sorted((row.id, row.subscription) for row in rows) == expected(subs)
    (store,) = path_of(s3_folder).iterdir()
    assert SnapshotStore(store).latest().version == 1


def test_a_pipeline_of_events_keeps_snapshots_there_and_what_workers_tell(
    spark, s3_folder, tmp_path, monkeypatch
):
    """Notifications, dead letters and what operators have taught are those of a local folder, over a replay, too."""
    subs = registry()
    settings = {"events": Source("json", str(tmp_path / "in"), SCHEMA), "snapshots": s3_folder}
    write_events(tmp_path / "in", "1.json", [*EVENTS, "oops"])
    metrics = run(pipeline(tmp_path, spark, subs, **settings))
    found = [(event, sid) for _, event, sid in delivered(tmp_path / "out")]
    assert found == expected(subs)
    failing = {event["id"] for event in EVENTS if event["s"] >= "y" and event["a"] == 7}
    dead = letters(tmp_path)
    assert {json.loads(one["raw"])["id"] for one in dead if "picky" in one["reason"]} == failing
    assert metrics.last.report.dead_letters == len(dead) == len(failing) + 1
    forget_commit(tmp_path, 0)
    subs.subscribe("bob", "a > 11")
    write_events(tmp_path / "in", "2.json", [{"id": 99, "a": 12, "s": "x"}])
    run(pipeline(tmp_path, spark, subs, **settings))
    again = delivered(tmp_path / "out")
    assert [(event, sid) for batch, event, sid in again if batch == 0] == found
    assert [(event, sid) for batch, event, sid in again if batch == 1] == [(99, 2), (99, 3)]
    assert letters(tmp_path) == dead
    assert not (tmp_path / "checkpoint/events/penstock/snapshots").exists()
    (query,) = path_of(s3_folder).iterdir()
    (store,) = query.iterdir()
    assert latest(SnapshotStore(store).learned)
    assert list((store / "failures").iterdir()) == []


def test_a_pipeline_of_documents_keeps_plans_there(spark, s3_folder, tmp_path):
    subs = penstock.Subscriptions()
    subs.subscribe("ann", "//item[topic = 'ACME'][author{val}]")
    documents = {
        "1": "<item><topic>ACME</topic><author>Jo</author></item>",
        "2": "<item><topic>ACME</topic><author>Al</author></item>",
        "3": "<item>",
    }
    lines = [json.dumps({"id": name, "document": text}) for name, text in documents.items()]
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.json").write_text("\n".join(lines))
    running = penstock.Pipeline(
        documents={"format": "json", "path": str(tmp_path / "in")},
        subscriptions=subs,
        sink=FileSink(tmp_path / "out", "json"),
        checkpoint=tmp_path / "checkpoint",
        snapshots=s3_folder,
        trigger="available-now",
        spark=spark,
    ).start()
    assert running.await_termination(PATIENCE)
    rows = spark.read.json(str(tmp_path / "out")).collect()
    assert sorted((r.document.id, r.document.tuples) for r in rows) == [
        ("1", [["Jo"]]),
        ("2", [["Al"]]),
    ]
    assert [one["raw"] for one in letters(tmp_path)] == ["<item>"]
    report = running.metrics.last.report
    assert [level["documents"] for level in report.levels] == [3]


def test_jobs_of_select_joins_share_their_subscriptions_there(spark, s3_folder):
    catalog = penstock.Catalog.of(
        {"Stocks": penstock.Table({"Symbol": "string", "PER": "double"}, key="Symbol")}, edges=[]
    )
    subs = penstock.Subscriptions(catalog=catalog)
    text = "SELECT * FROM Stocks WHERE PER > 10"
    subs.subscribe("ann", text)
    frame = spark.createDataFrame([("A", 50.0), ("B", 5.0)], "Symbol string, PER double")
    found = penstock.match_joins({"Stocks": frame}, subs, snapshots=s3_folder, buckets=2)
    view = penstock.JoinView(text, catalog)
    view.apply(messages_of([row.asDict(True) for row in found.collect()]))
    assert list(map(tuple, view)) == [("A", 50.0)]
    assert isinstance(path_of(s3_folder), RemotePath)
