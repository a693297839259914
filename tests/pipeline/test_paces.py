"""Paces in pipelines: so many notifications in an interval at most, or one digest; the same in every replay."""

from pathlib import Path
from typing import Any

import pytest
from tests.pipeline.scenes import (
    delivered,
    forget_commit,
    market,
    pipeline,
    run,
    tick,
    write_events,
)

import penstock
from penstock.base.errors import PipelineError
from penstock.delivery import CallableSink, FileSink, SeveralSinks, SinkWhen
from penstock.pipeline import digest_batches, micro_batches

pytestmark = pytest.mark.spark
HOUR = 3_600_000_000
START = 1_800_000_000_000_000


class Clock:
    """The time that micro-batches and ticks are pinned to."""

    def __init__(self, monkeypatch: Any) -> None:
        self.now = START
        for module in (micro_batches, digest_batches):
            monkeypatch.setattr(module, "utc_now", lambda: self.now)


@pytest.fixture
def clock(monkeypatch: Any) -> Clock:
    return Clock(monkeypatch)


def test_the_first_of_each_interval_go_out(spark: Any, tmp_path: Path, clock: Clock) -> None:
    """By the time of events; others get everything, and what was held back is counted in metrics and registry."""
    subs = market()
    alice = subs.subscribe("alice", "price > 0", "forever", pace="2 per hour").id
    bob = subs.subscribe("bob", "price > 0", "forever").id
    settings = {"event_time": "at"}
    source = {**_source(tmp_path), "schema": "id bigint, price double, at timestamp"}
    found, held = [], []
    for number, later in enumerate((0, HOUR - 1, HOUR)):
        clock.now = START + later
        times = [f"2026-01-01T00:00:{50 - n:02}Z" for n in range(3)]
        events = [{"id": 10 * number + n, "price": 1, "at": at} for n, at in enumerate(times)]
        write_events(tmp_path / "in", f"{number}.json", events)
        metrics = run(pipeline(tmp_path, spark, subs, events=source, **settings))
        held.append(metrics.summary()["held"])
        assert metrics.summary()["published"] == 3
        assert metrics.summary()["notifications"] + held[-1] == 6
        found.append(
            [e for b, e, sid in delivered(tmp_path / "out") if (b, sid) == (number, alice)]
        )
    assert found == [[1, 2], [], [21, 22]], "the latest of a file happened first"
    assert [sid for _, _, sid in delivered(tmp_path / "out")].count(bob) == 9
    assert (held, subs.held(alice), subs.held(bob)) == ([1, 3, 1], 5, 0)


def _source(tmp_path: Path) -> dict[str, Any]:
    return {"format": "json", "path": str(tmp_path / "in"), "schema": "id bigint, price double"}


@pytest.mark.parametrize("in_tasks", [True, False])
def test_a_replay_sends_the_same(spark: Any, tmp_path: Path, clock: Clock, in_tasks: bool) -> None:
    """Although the clock is later, paces have changed, and the sink has lost what it had."""
    subs = market()
    sid, ticket = subs.subscribe("alice", "price > 0", "forever", pace="3 per hour")
    sink = FileSink(tmp_path / "out") if in_tasks else FileSink(tmp_path / "out", explode=True)
    for number in range(2):
        events = [tick(10 * number + n) for n in range(2)]
        write_events(tmp_path / "in", f"{number}.json", events)
        run(pipeline(tmp_path, spark, subs, sink=sink))
    before = _contents(tmp_path / "out")
    assert [len(rows) for rows in before.values()] == [2, 1]
    last = tmp_path / "out/kind=filter/batch=1"
    last.rename(tmp_path / "lost")
    forget_commit(tmp_path, 1)
    clock.now += 2 * HOUR
    subs.update(sid, ticket, "price > 0", pace="1 per day")
    run(pipeline(tmp_path, spark, subs, sink=sink))
    assert _contents(tmp_path / "out") == before


def _contents(folder: Path) -> dict[str, Any]:
    import pyarrow.dataset as ds

    found: dict[str, Any] = {}
    for path in sorted(folder.glob("kind=*/batch=*")):
        rows = ds.dataset(str(path), format="parquet").to_table().to_pylist()
        found[path.name] = sorted(rows, key=str)
    return found


def test_documents_have_paces_too(spark: Any, tmp_path: Path, clock: Clock) -> None:
    subs = penstock.Subscriptions()
    sid = subs.subscribe("alice", "//item[topic{val}]", "forever", pace="1 per hour").id
    rows = [{"id": str(n), "document": f"<item><topic>{n}</topic></item>"} for n in range(3)]
    write_events(tmp_path / "in", "1.json", rows)
    told: list[dict[str, Any]] = []
    documents = {**_source(tmp_path), "schema": "id string, document string"}
    changes = {"events": None, "documents": documents, "sink": CallableSink(told.append)}
    metrics = run(pipeline(tmp_path, spark, subs, **changes))
    assert [row["subscription"] for row in told] == [sid]
    assert metrics.summary()["held"] == subs.held(sid) == 2


def test_a_digest_comes_at_the_end_of_its_interval(
    spark: Any, tmp_path: Path, clock: Clock
) -> None:
    """Nothing is published any more by then, and its subscription has ended. Others are told at once."""
    subs = market()
    pace = "digest per hour"
    sid, ticket = subs.subscribe("alice", "price > 0", "forever", {"email": "a@x"}, pace=pace)
    bob = subs.subscribe("bob", "price > 1", "forever").id
    told: list[dict[str, Any]] = []
    settings = {
        "sink": CallableSink(told.append),
        "digests": "20 ms",
        "trigger": "20 ms",
        "metadata": True,
    }
    with pipeline(tmp_path, spark, subs, **settings).start() as running:
        for number in range(2):
            events = [tick(n, price=n) for n in (10 * number + 1, 10 * number + 2)]
            write_events(tmp_path / "in", f"{number}.json", events)
            running.process_available()
            clock.now += HOUR // 2 - 1
        subs.unsubscribe(sid, ticket)
        running.process_available()
        assert [row["subscription"] for row in told] == [bob] * 3
        told.clear()
        clock.now = START + HOUR
        running.process_available()
        (row,) = told
        assert (row["kind"], row["subscription"]) == ("digest", sid)
        assert (dict(row["metadata"]), row["event"]) == ({"email": "a@x"}, None)
        digest = row["digest"]
        assert digest["count"] == 4
        assert {one["event"]["id"] for one in digest["notifications"][:2]} == {1, 2}
        assert {one["event"]["id"] for one in digest["notifications"][2:]} == {11, 12}
        assert (digest["until"] - digest["since"]).total_seconds() == 3600
        clock.now += 10 * HOUR
        running.process_available()
        assert len(told) == 1
    assert running.metrics.summary()["kinds"]["digest"]["notifications"] == 1
    assert not list((tmp_path / "checkpoint/events/penstock/paces/gathered").iterdir())


def test_a_replayed_tick_sends_the_same_digests(spark: Any, tmp_path: Path, clock: Clock) -> None:
    """Whatever was gathered meanwhile. A digest has the first hundred, and the count of all."""
    subs = market()
    for name in ("alice", "bob"):
        subs.subscribe(name, "price > 0", "forever", pace="digest per hour")
    told: list[dict[str, Any]] = []
    settings = {"digests": "1 minute", "sink": CallableSink(told.append)}
    write_events(tmp_path / "in", "1.json", [tick(n) for n in range(120)])
    for _ in range(2):  # the second has taken what the first has gathered, if not that one
        run(pipeline(tmp_path, spark, subs, **settings))
    clock.now += HOUR
    run(pipeline(tmp_path, spark, subs, **settings))
    first = told[:]
    assert [row["subscription"] for row in first] == [1, 2]
    assert [(row["digest"]["count"], len(row["digest"]["notifications"])) for row in first] == [
        (120, 100),
        (120, 100),
    ]
    told.clear()
    forget_commit(tmp_path, 2, of="digests")
    clock.now += 5 * HOUR
    write_events(tmp_path / "in", "2.json", [tick(n) for n in range(5)])
    run(pipeline(tmp_path, spark, subs, **settings))
    assert told[:2] == first
    assert len({row["notification_id"] for row in told}) == len(told)


def test_files_have_digests_as_a_kind_of_their_own(
    spark: Any, tmp_path: Path, clock: Clock
) -> None:
    """With events and documents in one pipeline, several sinks, and a condition."""
    subs = penstock.Subscriptions()
    for text in ("price > 0", "//item[topic{val}]"):
        subs.subscribe("alice", text, "forever", pace="digest per hour")
    write_events(tmp_path / "in", "1.json", [tick(1)])
    write_events(
        tmp_path / "docs", "1.json", [{"id": "a", "document": "<item><topic>x</topic></item>"}]
    )
    documents = {
        **_source(tmp_path),
        "path": str(tmp_path / "docs"),
        "schema": "id string, document string",
    }
    told: list[dict[str, Any]] = []
    only = SinkWhen(CallableSink(told.append), kind="digest")
    sinks = SeveralSinks([FileSink(tmp_path / "out"), only])
    for later in (0, 0, HOUR):
        clock.now += later
        run(pipeline(tmp_path, spark, subs, documents=documents, sink=sinks, digests="1 minute"))
    (rows,) = [
        rows for name, rows in _contents(tmp_path / "out").items() if rows and "digest" in rows[0]
    ][-1:]
    rows = sorted(rows, key=lambda row: row["subscriptions"])
    assert [row["subscriptions"] for row in rows] == [[1], [2]]
    inside = [row["digest"]["notifications"][0] for row in rows]
    assert (inside[0]["event"]["id"], inside[0]["document"]) == (1, None)
    assert (inside[1]["event"], inside[1]["document"]["tuples"]) == (None, [["x"]])
    assert [row["subscription"] for row in told] == [1, 2]


def test_a_pipeline_without_digests_sets_those_who_want_them_aside(
    spark: Any, tmp_path: Path
) -> None:
    subs = market()
    subs.subscribe("alice", "price > 0", pace="digest per day")
    bob = subs.subscribe("bob", "price > 0").id
    write_events(tmp_path / "in", "1.json", [tick(1)])
    metrics = run(pipeline(tmp_path, spark, subs))
    assert delivered(tmp_path / "out") == [(0, 1, bob)]
    assert metrics.summary()["refused"] == 1
    assert "doesn't send" in metrics.last.report.refusals[0]
    assert not list((tmp_path / "checkpoint/events/penstock/paces").glob("gathered/*"))


def test_digests_need_something_to_gather(spark: Any, tmp_path: Path) -> None:
    for every, reason in (("available-now", "how often"), ("1 fortnight", "give an interval")):
        with pytest.raises(PipelineError, match=reason):
            pipeline(tmp_path, spark, market(), digests=every).start()


def test_without_paces_nothing_is_written_or_asked(
    spark: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    """The registry is asked once for each of its changes; there is no job more, and no file."""
    subs = market()
    subs.subscribe("alice", "price > 0")
    asked: list[str] = []
    paces = subs.paces
    monkeypatch.setattr(subs, "paces", lambda kind: (asked.append(kind), paces(kind))[1])
    with pipeline(tmp_path, spark, subs, trigger="20 ms").start() as running:
        for number in range(3):
            write_events(tmp_path / "in", f"{number}.json", [tick(number)])
            running.process_available()
    assert asked == ["filter"]
    assert not (tmp_path / "checkpoint/events/penstock/paces").exists()
