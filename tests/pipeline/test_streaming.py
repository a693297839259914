"""Pipelines: they follow the registry, replay with what they pinned, and don't stop for a bad subscription."""

import json
import logging
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.sizes import PATIENCE

import penstock
from penstock.base.errors import PenstockError, PipelineError, RegistryError, SchemaError
from penstock.delivery import CallableSink, FileSink
from penstock.pipeline import event_batches, retries, running_costs
from penstock.pipeline import micro_batches as batch
from penstock.pipeline.pins import Pins

from .scenes import delivered, forget_commit, market, pipeline, run, tick, write_events

pytestmark = pytest.mark.spark


def wait_for(condition):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.02)


def test_a_change_takes_effect_in_the_next_micro_batch(spark, tmp_path):
    subs = market()
    first = subs.subscribe("alice", "price > 0")
    with pipeline(tmp_path, spark, subs, trigger="50 ms").start() as running:
        write_events(tmp_path / "in", "1.json", [tick(1)])
        running.process_available()
        subs.subscribe("bob", "symbol = 'A'")
        subs.unsubscribe(*first)
        write_events(tmp_path / "in", "2.json", [tick(2)])
        running.process_available()
    assert delivered(tmp_path / "out") == [(0, 1, 1), (1, 2, 2)]


def test_the_pin_of_each_micro_batch_is_on_record(spark, tmp_path):
    subs = market()
    subs.subscribe("alice", "price > 0")
    write_events(tmp_path / "in", "1.json", [tick(1)])
    before = time.time() * 1e6
    run(pipeline(tmp_path, spark, subs))
    pin = Pins(tmp_path / "checkpoint/events").find(0)
    assert pin.snapshot.sequence == subs.sequence()
    assert before <= pin.now <= time.time() * 1e6


def test_a_replay_uses_the_pinned_snapshot_and_time_not_todays(spark, tmp_path, monkeypatch):
    subs = market()
    kept = subs.subscribe("alice", "price > 0", lease="1 hour")
    write_events(tmp_path / "in", "1.json", [tick(1)])
    first: list = []
    run(pipeline(tmp_path, spark, subs, sink=CallableSink(first.append)))
    forget_commit(tmp_path, 0)
    subs.subscribe("bob", "price > 0", lease="1 day")
    # Two hours later: alice's lease is over, but wasn't when the batch was pinned.
    later = batch.utc_now() + 2 * 3600 * 1_000_000
    monkeypatch.setattr(batch, "utc_now", lambda: later)
    write_events(tmp_path / "in", "2.json", [tick(2)])
    again: list = []
    metrics = run(pipeline(tmp_path, spark, subs, sink=CallableSink(again.append)))
    assert again[:1] == first
    assert [(row["event"]["id"], row["subscription"]) for row in again] == [(1, kept.id), (2, 2)]
    assert [b.report.replayed for b in metrics.batches] == [True, False]


@pytest.mark.parametrize("in_tasks", [True, False])
def test_now_is_in_a_replay_what_it_was(spark, tmp_path, monkeypatch, in_tasks):
    """Nobody's clock counts, the driver's or a worker's, but the time that was pinned: it is in none of the two."""
    subs = penstock.Subscriptions()
    subs.subscribe("index", "at > now() - INTERVAL '1 hour'", "forever")
    subs.subscribe("month", "at > now() - INTERVAL '1 month' AND at < now()", "forever")
    subs.subscribe("past", "at < now() - INTERVAL '1 hour'", "forever")
    hour, then = 3600 * 1_000_000, 1_800_000_000_000_000  # in 2027
    events = [
        {"id": n, "at": datetime.fromtimestamp((then + n * hour) / 1e6, UTC).isoformat()}
        for n in (-800, -2, 0, 2)
    ]
    expected = [(0, -800, 3), (0, -2, 2), (0, -2, 3), (0, 0, 1), (0, 2, 1)]
    settings = {
        "events": {
            "format": "json",
            "path": str(tmp_path / "in"),
            "schema": {"id": "bigint", "at": "timestamp"},
        },
        "sink": FileSink(tmp_path / "out", explode=not in_tasks),
    }
    write_events(tmp_path / "in", "1.json", events)
    monkeypatch.setattr(batch, "utc_now", lambda: then)
    run(pipeline(tmp_path, spark, subs, **settings))
    assert _sent(tmp_path / "out") == expected
    (tmp_path / "out/kind=filter/batch=0").rename(tmp_path / "lost")
    forget_commit(tmp_path, 0)
    monkeypatch.setattr(batch, "utc_now", lambda: then + 5 * hour // 2)
    write_events(tmp_path / "in", "2.json", events)
    run(pipeline(tmp_path, spark, subs, **settings))
    later = [(1, -800, 3), (1, -2, 2), (1, -2, 3), (1, 0, 2), (1, 0, 3), (1, 2, 1), (1, 2, 2)]
    assert _sent(tmp_path / "out") == expected + later


def _sent(folder):
    """(batch, event, subscription) of files with lists of subscriptions, or with one in each row."""
    import pyarrow.dataset as ds

    files = sorted(str(path) for path in folder.glob("kind=*/batch=*/*.parquet"))
    rows = ds.dataset(files, partitioning=ds.partitioning(flavor="hive")).to_table().to_pylist()
    return sorted(
        (row["batch"], row["event"]["id"], sid)
        for row in rows
        for sid in row.get("subscriptions") or [row["subscription"]]
    )


def test_a_replay_of_what_the_files_have_runs_nothing(spark, tmp_path):
    subs = market()
    subs.subscribe("alice", "price > 0")
    write_events(tmp_path / "in", "1.json", [tick(1), "oops"])
    run(pipeline(tmp_path, spark, subs))
    forget_commit(tmp_path, 0)
    metrics = run(pipeline(tmp_path, spark, subs))
    assert delivered(tmp_path / "out") == [(0, 1, 1)]
    report = metrics.last.report
    assert (report.replayed, report.published, report.notifications) == (True, None, None)


def test_started_again_it_goes_on_where_it_was(spark, tmp_path):
    subs = market()
    subs.subscribe("alice", "price > 0")
    for number in range(3):
        write_events(tmp_path / "in", f"{number}.json", [tick(number)])
        run(pipeline(tmp_path, spark, subs))
    assert delivered(tmp_path / "out") == [(0, 0, 1), (1, 1, 1), (2, 2, 1)]


def test_available_now_reads_what_is_there_and_ends(spark, tmp_path):
    subs = market()
    subs.subscribe("alice", "price > 0")
    for number in range(4):
        write_events(tmp_path / "in", f"{number}.json", [tick(number)])
    source = {
        "format": "json",
        "path": str(tmp_path / "in"),
        "schema": "id bigint, price double, symbol string",
        "options": {"maxFilesPerTrigger": 2},
    }
    metrics = run(pipeline(tmp_path, spark, subs, events=source))
    assert sorted(event for _, event, _ in delivered(tmp_path / "out")) == [0, 1, 2, 3]
    assert metrics.summary()["batches"] == 2


def test_a_subscription_that_does_not_fit_is_set_aside_and_reported(spark, tmp_path, caplog):
    subs = penstock.Subscriptions()  # no schema: any filter is accepted
    subs.subscribe("alice", "prise > 0")
    subs.subscribe("bob", "price > 0")
    write_events(tmp_path / "in", "1.json", [tick(1)])
    with caplog.at_level(logging.WARNING, "penstock"):
        metrics = run(pipeline(tmp_path, spark, subs))
    assert delivered(tmp_path / "out") == [(0, 1, 2)]
    assert "set aside: subscription 1: unknown attribute 'prise'" in caplog.text
    assert metrics.summary()["refused"] == 1
    assert "prise" in metrics.last.report.refusals[0]


class Unreachable:
    """A registry that goes away after a while."""

    def __init__(self, subs):
        self.subs, self.gone = subs, False
        self.identity = subs.identity

    def sequence(self):
        return self._up().sequence()

    def active(self, now=None):
        return self._up().active(now)

    def changes(self, since):
        return self._up().changes(since)

    def _up(self):
        if self.gone:
            raise RegistryError("connection refused")
        return self.subs


def test_without_its_registry_it_goes_on_with_the_last_snapshot(spark, tmp_path, caplog):
    subs = market()
    subs.subscribe("alice", "price > 0")
    registry = Unreachable(subs)
    with pipeline(tmp_path, spark, registry, trigger="50 ms").start() as running:
        write_events(tmp_path / "in", "1.json", [tick(1)])
        running.process_available()
        registry.gone = True
        subs.subscribe("bob", "price > 0")
        write_events(tmp_path / "in", "2.json", [tick(2)])
        running.process_available()
        registry.gone = False
        write_events(tmp_path / "in", "3.json", [tick(3)])
        running.process_available()
    assert delivered(tmp_path / "out") == [(0, 1, 1), (1, 2, 1), (2, 3, 1), (2, 3, 2)]
    stale = [b.report.stale for b in running.metrics.batches]
    assert stale == [None, "connection refused", None]
    assert "keeps snapshot" in caplog.text


def test_a_registry_that_cannot_be_read_at_the_first_batch_is_an_error(spark, tmp_path):
    registry = Unreachable(market())
    registry.gone = True
    write_events(tmp_path / "in", "1.json", [tick(1)])
    with pytest.raises(PipelineError, match="connection refused"):
        run(pipeline(tmp_path, spark, registry))


@pytest.mark.parametrize("changed", [False, True])
def test_a_lost_snapshot_is_made_again_or_stops_the_replay(spark, tmp_path, changed):
    """As long as the registry is as it was, it has the same subscriptions. Else the replay would be another one."""
    subs = market()
    subs.subscribe("alice", "price > 0")
    write_events(tmp_path / "in", "1.json", [tick(1)])
    run(pipeline(tmp_path, spark, subs))
    forget_commit(tmp_path, 0)
    (version,) = (tmp_path / "checkpoint/events/penstock/snapshots").glob("*/versions/*.json")
    version.unlink()
    again: list = []
    if changed:
        subs.subscribe("bob", "price > 0")
        with pytest.raises(PipelineError, match="it was of change 1, and the registry is at 2"):
            run(pipeline(tmp_path, spark, subs, sink=CallableSink(again.append)))
    else:
        run(pipeline(tmp_path, spark, subs, sink=CallableSink(again.append)))
    assert [row["subscription"] for row in again] == ([] if changed else [1])


def test_a_sink_that_fails_is_tried_again_then_its_micro_batch_is_parked(
    spark, tmp_path, monkeypatch
):
    """The pipeline stops with one message, and delivers the micro-batch when it is started again."""
    monkeypatch.setattr(retries, "PAUSES", (0.0, 0.0))
    tries: list[int] = []
    subs = market()
    subs.subscribe("alice", "price > 0")
    write_events(tmp_path / "in", "1.json", [tick(1)])

    def broken(_):
        tries.append(1)
        raise ConnectionError("the receiver is down")

    with pytest.raises(PipelineError, match="ConnectionError: the receiver is down") as raised:
        run(pipeline(tmp_path, spark, subs, sink=CallableSink(broken)))
    assert len(tries) == 3
    assert str(raised.value).startswith("the pipeline failed: micro-batch 0 is parked: the sink")
    assert str(tmp_path) in str(raised.value)
    assert "\n" not in str(raised.value)
    out: list = []
    run(pipeline(tmp_path, spark, subs, sink=CallableSink(out.append)))
    assert [row["event"]["id"] for row in out] == [1]


def test_a_streaming_dataframe_is_a_source(spark, tmp_path):
    subs = market()
    subs.subscribe("alice", "price > 0 AND symbol = 'AA'")
    write_events(tmp_path / "in", "1.json", [tick(1)])
    schema = "id bigint, symbol string, price double"
    frame = spark.readStream.schema(schema).json(str(tmp_path / "in"))
    frame = frame.selectExpr("id", "concat(symbol, symbol) as symbol", "price")
    run(pipeline(tmp_path, spark, subs, events=frame))
    assert delivered(tmp_path / "out") == [(0, 1, 1)]


def test_columns_of_unusual_names_arrive(spark, tmp_path):
    subs = penstock.Subscriptions()
    subs.subscribe("alice", "n = 0")
    write_events(tmp_path / "in", "1.json", ['{"n": 0, "a.b": 1, "c`d": 2, "é è": 3}'])
    schema = {"n": "int", "a.b": "int", "c`d": "int", "é è": "int"}
    source = {"format": "json", "path": str(tmp_path / "in"), "schema": schema}
    out: list = []
    run(pipeline(tmp_path, spark, subs, events=source, sink=CallableSink(out.append)))
    assert [row["event"] for row in out] == [{"n": 0, "a.b": 1, "c`d": 2, "é è": 3}]


def test_stop_lets_the_micro_batch_end_and_can_be_called_twice(spark, tmp_path):
    subs = market()
    subs.subscribe("alice", "price > 0")
    started: list = []

    def slow(row):
        started.append(row["event"]["id"])
        time.sleep(1)

    running = pipeline(tmp_path, spark, subs, trigger="50 ms", sink=CallableSink(slow)).start()
    write_events(tmp_path / "in", "1.json", [tick(1), tick(2)])
    wait_for(lambda: started)
    running.stop(PATIENCE)
    running.stop()
    assert not running.is_active
    assert started == [1, 2]
    assert (tmp_path / "checkpoint/events/commits/0").exists()
    assert running.metrics.summary()["notifications"] == 2


def test_await_termination_gives_up_after_its_timeout(spark, tmp_path):
    with pipeline(tmp_path, spark, market(), trigger="50 ms").start() as running:
        assert running.await_termination(1) is False
        assert running.is_active


def test_old_snapshots_go_but_not_those_still_needed(spark, tmp_path, monkeypatch):
    monkeypatch.setattr(batch, "_PRUNE_EVERY", 1)
    monkeypatch.setattr(event_batches, "SNAPSHOTS_KEPT", 1)
    subs = market()
    with pipeline(tmp_path, spark, subs, trigger="50 ms").start() as running:
        for number in range(5):
            subs.subscribe("alice", f"price > {number / 100}")
            write_events(tmp_path / "in", f"{number}.json", [tick(number)])
            running.process_available()
    versions = (tmp_path / "checkpoint/events/penstock/snapshots").glob("*/versions/*.json")
    assert sorted(int(path.stem) for path in versions) == [
        5
    ]  # all before are committed, and on the disk
    forget_commit(tmp_path, 4)
    again: list = []
    run(pipeline(tmp_path, spark, subs, sink=CallableSink(again.append)))
    assert [row["subscription"] for row in again] == [1, 2, 3, 4, 5]


def _events(schema):
    return {"format": "json", "path": str(Path(__file__).parent), "schema": schema}


@pytest.mark.parametrize(
    ("changes", "error", "named"),
    [
        ({"trigger": "often"}, PipelineError, "trigger 'often'"),
        ({"engine": "warp"}, PenstockError, "no engine 'warp'"),
        ({"event_time": "when"}, PipelineError, "event_time: the events have no attribute 'when'"),
        ({"event_id": "id.x"}, PipelineError, "event_id: the events have no attribute 'id.x'"),
        ({"sink": print}, PipelineError, "not a sink"),
        ({"checkpoint": "ftp://host/c"}, PipelineError, "mounted file system"),
        ({"subscriptions": "nowhere.db"}, RegistryError, "nowhere.db"),
        ({"events": _events("subscribers string")}, SchemaError, "'subscribers'"),
        ({"events": {"format": "jsn"}}, PipelineError, "jsn"),
        ({"events": _events("i interval year")}, SchemaError, "interval year"),
        ({"events": None}, PipelineError, "events, tables or documents"),
    ],
)
def test_what_cannot_work_is_refused_before_it_starts(spark, tmp_path, changes, error, named):
    with pytest.raises(error, match=named):
        pipeline(tmp_path, spark, market(), **changes).start()
    assert spark.streams.active == []


def test_a_registry_by_url_is_opened_by_the_pipeline(spark, tmp_path):
    url = f"sqlite:///{tmp_path}/subs.db"
    with penstock.Subscriptions.open(
        url, {"id": "bigint", "symbol": "string", "price": "double"}
    ) as subs:
        subs.subscribe("alice", "price > 0")
    write_events(tmp_path / "in", "1.json", [tick(1)])
    run(pipeline(tmp_path, spark, url))
    assert delivered(tmp_path / "out") == [(0, 1, 1)]


def test_json_notifications_can_be_read_line_by_line(spark, tmp_path):
    subs = market()
    subs.subscribe("alice", "price > 0")
    write_events(tmp_path / "in", "1.json", [tick(1)])
    run(pipeline(tmp_path, spark, subs, sink=FileSink(str(tmp_path / "out"), "json")))
    (line,) = [
        json.loads(line)
        for file in (tmp_path / "out").glob("*/batch=0/*.json")
        for line in file.read_text().splitlines()
    ]
    assert line["subscribers"] == ["alice"]
    assert line["event"]["id"] == 1


def test_a_subscription_that_costs_too_much_is_set_aside_while_it_runs(
    spark, tmp_path, monkeypatch
):
    """Workers count its evaluations, the driver judges them: the next micro-batch doesn't have it any more."""
    monkeypatch.setattr(running_costs, "WINDOW", 3)
    subs = market()
    subs.set_limits(penstock.Limits(evaluations=5))
    kept = subs.subscribe("alice", "price > 0 AND symbol LIKE '_%'").id
    dear = subs.subscribe(
        "mallory",
        "price > 0 AND " + " AND ".join(f"symbol LIKE '{'_' * n}%'" for n in range(1, 11)),
    ).id
    symbol = "A 0 1 2 3 4 5 6 7 8 9"
    with pipeline(tmp_path, spark, subs, trigger="50 ms").start() as running:
        for number in range(3):
            events = [tick(10 * number + n, symbol) for n in range(2)]
            write_events(tmp_path / "in", f"{number}.json", events)
            running.process_available()
    both, alone = {kept, dear}, {kept}
    found = {n: {sid for b, _, sid in delivered(tmp_path / "out") if b == n} for n in range(3)}
    assert found == {0: both, 1: both, 2: alone}
    assert "took 10 evaluations an event, and 5 are allowed" in subs.refused()[0].reason
