"""Attributes that filters ask for travel to Python, the rest stays in the JVM: what comes out is the same."""

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.operators.hostile_operators import deadly
from tests.pipeline.scenes import forget_commit, run

import penstock
from penstock.delivery import CallableSink, FileSink
from penstock.matching import SnapshotStore
from penstock.pipeline import Pipeline
from penstock.pipeline.asked_attributes import FOUND, asked_attributes, with_found
from penstock.pipeline.match_work import Form, MatchWork

pytestmark = pytest.mark.spark

SCHEMA = "id bigint, price double, symbol string, at timestamp, extra map<string, int>, payload string, `a.b` string"


@pytest.fixture
def events(spark: SparkSession) -> DataFrame:
    """Some are equal; some differ only in what JSON doesn't show: a sign of zero, microseconds."""
    return spark.sql(
        """
        SELECT id % 40 AS id, price, symbol, at, map('k', CAST(id % 3 AS int)) AS extra, repeat('x', 50) AS payload,
               concat('b', id % 2) AS `a.b`
        FROM (
            SELECT id, IF(id % 5 = 0, -0.0D, CAST(id % 7 AS double)) AS price, concat('S', id % 3) AS symbol,
                   timestamp_micros(id % 4) AS at
            FROM range(0, 200, 1, 2)
        )
        """
    )


@pytest.fixture
def subs() -> penstock.Subscriptions:
    registry = penstock.Subscriptions()
    registry.subscribe("alice", "symbol = 'S1' AND price > 5")
    registry.subscribe("bob", "price > 1")
    registry.subscribe("carol", "price * 2 = 0 AND symbol <> 'S2'")
    return registry


def work_of(subs: penstock.Subscriptions, frame: DataFrame, folder: Path) -> MatchWork:
    ref, errors = SnapshotStore(folder).publish(subs, frame.schema)
    assert not errors
    return MatchWork(ref, 0, Form.READERS, "auto")


def test_what_is_asked_for(events, subs, tmp_path):
    """The columns that filters look at; nothing, if every long one is, or if filters call operators."""
    work = work_of(subs, events, tmp_path / "all")
    assert asked_attributes(work, events.schema) == ("price", "symbol")
    short = events.select("id", "price", "symbol", "at")
    assert asked_attributes(work_of(subs, short, tmp_path / "short"), short.schema) is None


def test_only_that_is_handed_to_python(events, subs, tmp_path):
    work = work_of(subs, events, tmp_path)
    frame = with_found(events, work, ("price", "symbol"))
    plan = frame._jdf.queryExecution().executedPlan().toString()
    (line,) = [line for line in plan.splitlines() if "ArrowEvalPython" in line]
    arguments = line.partition("column(")[2].partition(")")[0]
    assert [name.partition("#")[0].strip() for name in arguments.split(",")] == ["price", "symbol"]


def test_filters_that_look_at_nothing(events, tmp_path):
    subs = penstock.Subscriptions()
    subs.subscribe("alice", "TRUE")
    found = with_found(events, work_of(subs, events, tmp_path), ()).select(f"{FOUND}.subscriptions")
    assert {tuple(row.subscriptions) for row in found.collect()} == {(1,)}


# --- in a pipeline -------------------------------------------------------------------------------


def piped(
    spark: SparkSession, tmp_path: Path, subs: Any, sink: Any, schema: str, **more: Any
) -> Pipeline:
    stream = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
    return Pipeline(
        events=stream.parquet(str(tmp_path / "in")),
        subscriptions=subs,
        sink=sink,
        checkpoint=tmp_path / "checkpoint",
        trigger="available-now",
        **more,
    )


@pytest.mark.parametrize("event_id", [None, "id"])
def test_ids_and_events_are_those_of_whole_events(
    spark, events, subs, tmp_path, monkeypatch, event_id
):
    """Ids go by what identifies events, as ever; without an id of their own, events travel whole."""
    from penstock.pipeline import event_batches

    events.coalesce(1).write.parquet(str(tmp_path / "in"))
    found: list[list[Any]] = []
    for ways in (event_batches.asked_attributes, lambda *_: None):
        monkeypatch.setattr(event_batches, "asked_attributes", ways)
        told: list[Any] = []
        run(
            piped(
                spark, tmp_path, subs, CallableSink(told.append), events.schema, event_id=event_id
            )
        )
        found.append(sorted(told, key=str))
        forget_commit(tmp_path, 0)
    by_column, whole = found
    assert by_column == whole
    ids = [one["notification_id"] for one in whole]
    assert len(ids) > 100
    assert len(set(ids)) == len(ids) if event_id is None else len(set(ids)) < len(ids)


@pytest.mark.parametrize("calls", [False, True])
def test_a_dead_letter_has_the_whole_event(spark, tmp_path, calls):
    """Of an event that can't be matched, as no text of this kind has a capital; of one that an operator fails on."""
    subs = penstock.Subscriptions(operators=[deadly] if calls else None)
    subs.subscribe("alice", "deadly(id) = 2" if calls else "upper(symbol) = 'A'")
    bad = 23 if calls else 2
    text = "IF(id = 2, CAST(X'ff' AS string), 'a') AS symbol"
    events = spark.sql(
        f"SELECT id, {text}, concat('of ', id) AS payload FROM VALUES (1L), ({bad}L) AS t(id)"
    )
    events.coalesce(1).write.parquet(str(tmp_path / "in"))
    told: list[Any] = []
    letters: list[Any] = []
    settings: dict[str, Any] = {
        "event_id": "id",
        "dead_letters": CallableSink(letters.append, explode=False),
    }
    for _ in range(2):
        run(piped(spark, tmp_path, subs, CallableSink(told.append), events.schema, **settings))
        forget_commit(tmp_path, 0)
    assert [one["event"]["id"] for one in told] == [1, 1]
    assert len(letters) == 2
    assert letters[0]["raw"] == letters[1]["raw"]
    assert json.loads(letters[0]["raw"])["payload"] == f"of {bad}"
    assert ("23 is bad" if calls else "can't be matched") in letters[0]["reason"]


def test_tasks_that_write_files_get_whole_events(spark, events, subs, tmp_path):
    events.coalesce(1).write.parquet(str(tmp_path / "in"))
    sink = FileSink(str(tmp_path / "out"))
    run(piped(spark, tmp_path, subs, sink, events.schema, event_id="id"))
    written = [path.name for path in tmp_path.glob("out/*/batch=0/*.parquet")]
    assert written
    assert not any(name.startswith("part-") for name in written)  # as Spark calls its files
    (payload,) = (
        spark.read.parquet(str(tmp_path / "out")).select("event.payload").distinct().collect()
    )
    assert payload.payload == 50 * "x"
