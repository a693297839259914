"""A PostgreSQL table as a sink, on a real server: each notification once, whatever is replayed."""

import json
from functools import partial

import psycopg
import pytest
from tests.pipeline.scenes import forget_commit, market, pipeline, run, tick, write_events
from tests.servers import NoServer, postgresql

from penstock import ConfigError, PipelineError, PostgreSQLSink
from penstock.delivery.sinks import Batch
from penstock.pipeline.config import parse_config

pytestmark = [pytest.mark.spark, pytest.mark.postgres]


@pytest.fixture(scope="module")
def url():
    try:
        with postgresql() as found:
            yield found
    except NoServer as reason:
        pytest.skip(f"no PostgreSQL: {reason}")


def rows_in(url: str, table: str = "notifications") -> list[tuple]:
    with psycopg.connect(url) as connection:
        found = connection.execute(f"SELECT * FROM {table}").fetchall()
    return sorted(((batch, json.dumps(note), sid, who) for _, _, sid, who, batch, note in found))


def events_in(url: str, table: str) -> list[tuple[int, int, int]]:
    """(batch, event, subscription)"""
    return [
        (batch, json.loads(note)["event"]["id"], sid) for batch, note, sid, _ in rows_in(url, table)
    ]


@pytest.fixture
def scene(spark, tmp_path, url):
    """A pipeline into a table of its own, with two micro-batches to read."""
    subs = market()
    subs.subscribe("alice", "price > 5")
    subs.subscribe("bob", "symbol = 'B'")
    table = f"t_{tmp_path.name.rstrip('_').replace('-', '_')[-30:]}"
    sink = PostgreSQLSink(url, table)
    write_events(tmp_path / "in", "1.json", [tick(1, price=6), tick(2, "B", 7), "oops"])

    def go(**changes):
        return run(pipeline(tmp_path, spark, subs, sink=sink, **changes))

    return tmp_path, table, go


def test_notifications_are_rows(url, scene):
    """With the subscriber, the number of the micro-batch and the event as JSON, whatever its texts hold."""
    folder, table, go = scene
    write_events(folder / "in", "0.json", [{"id": 3, "symbol": "\0é\t\\N", "price": 9}])
    metrics = go()
    assert metrics.batches[0].report.notifications == 4
    found = [(note, sid, who) for _, note, sid, who in rows_in(url, table)]
    event = {"id": 3, "symbol": "\0é\t\\N", "price": 9.0}
    strange = json.dumps({"position": None, "event": event})
    assert (strange, 1, "alice") in found
    assert sorted((sid, who) for _, sid, who in found) == [
        (1, "alice"),
        (1, "alice"),
        (1, "alice"),
        (2, "bob"),
    ]


def test_a_replay_adds_nothing(url, scene):
    """Spark didn't commit what the table has."""
    folder, table, go = scene
    go()
    before = rows_in(url, table)
    assert len(before) == 3
    forget_commit(folder, 0)
    metrics = go()
    assert metrics.batches[0].report.replayed
    assert rows_in(url, table) == before
    write_events(folder / "in", "2.json", [tick(4, price=8)])
    go()
    assert events_in(url, table) == [(0, 1, 1), (0, 2, 1), (0, 2, 2), (1, 4, 1)]


def test_what_was_staged_and_not_committed_is_written_once(url, scene, monkeypatch):
    """The driver dies after the workers have written, and before the last transaction."""
    _, table, go = scene
    has = PostgreSQLSink._has

    def die(self, connection, batch):
        done = has(self, connection, batch)
        monkeypatch.setattr(connection, "execute", _fail_on_insert(connection.execute))
        return done

    with monkeypatch.context() as dying:
        dying.setattr(PostgreSQLSink, "_has", die)
        with pytest.raises(PipelineError, match="the power is gone"):
            go()
    assert rows_in(url, table) == []
    with psycopg.connect(url) as connection:
        (staged,) = connection.execute(f"SELECT count(*) FROM {table}_filter").fetchone()
    assert staged == 3
    go()
    assert events_in(url, table) == [(0, 1, 1), (0, 2, 1), (0, 2, 2)]


def _fail_on_insert(execute):
    def run_or_fail(statement, *rest):
        if statement.startswith("INSERT"):
            raise ConnectionError("the power is gone")
        return execute(statement, *rest)

    return run_or_fail


def test_a_task_that_runs_again_takes_back_its_rows(url, spark):
    """Spark may run a task twice: the stage has its rows once."""
    sink = PostgreSQLSink(url, "again")
    rows = spark.createDataFrame(
        [("n1", "filter", 1, "alice", 5), ("n2", "filter", 2, "bob", 6)],
        "notification_id string, kind string, subscription long, subscriber string, id int",
    )
    sink.check(spark, rows.columns)
    texts = rows.coalesce(1).selectExpr(
        "notification_id",
        "kind",
        "cast(subscription as string) subscription",
        "subscriber",
        "'{}' notification",
    )
    with psycopg.connect(url) as connection:
        sink._make_tables(connection, "again_filter")
    for _ in range(2):
        texts.mapInArrow(partial(sink._copy, "again_filter"), "rows long").collect()
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT count(*) FROM again_filter").fetchone() == (2,)
    assert sink.write(rows, Batch("q", 7, "filter"))
    assert not sink.write(rows, Batch("q", 7, "filter"))
    assert [(sid, who) for _, _, sid, who in rows_in(url, "again")] == [(1, "alice"), (2, "bob")]


def test_what_cant_work_is_refused_before_it_starts(url, spark, tmp_path):
    """A table of another pipeline, a wrong name, no server, rows without a subscriber; no password in a message."""
    columns = ["notification_id", "kind", "subscription", "subscriber"]
    sink = PostgreSQLSink(url, "owned")
    sink.check(spark, columns)
    empty = spark.createDataFrame(
        [], "notification_id string, kind string, subscription long, subscriber string, a int"
    )
    assert sink.write(empty, Batch("one", 0, "filter"))
    with pytest.raises(PipelineError, match="the table owned belongs to another pipeline"):
        sink.write(empty, Batch("two", 0, "filter"))
    with pytest.raises(PipelineError, match="can't be the sink's table"):
        PostgreSQLSink(url, "a; DROP TABLE owned")
    with pytest.raises(PipelineError, match="these rows have no subscriber"):
        sink.check(spark, columns[:3])
    away = PostgreSQLSink("postgresql://u:secret@127.0.0.1:1/x")
    with pytest.raises(PipelineError, match="can't be reached") as found:
        away.check(spark, columns)
    assert "secret" not in f"{found.value} {away!r}"


def test_in_a_pipeline_file(tmp_path):
    """`format: postgresql` and `format: kafka`; what is wrong with them is said in words."""
    (tmp_path / "subs.db").touch()
    given = {
        "events": {"format": "rate"},
        "subscriptions": str(tmp_path / "subs.db"),
        "checkpoint": str(tmp_path / "checkpoint"),
        "sink": {"format": "postgresql", "url": "postgresql://u@h/d", "table": "alerts"},
    }
    assert parse_config(given).sink == PostgreSQLSink("postgresql://u@h/d", "alerts")
    with pytest.raises(ConfigError) as found:
        parse_config(given | {"sink": {"format": "kafka", "server": "h:9092"}})
    assert [line for line in str(found.value).splitlines() if "sink." in line] == [
        "  - unknown key 'sink.server': did you mean 'sink.servers'?",
        "  - missing key 'sink.servers'",
        "  - missing key 'sink.topic'",
    ]
