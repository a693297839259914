"""Feeds as the sink of pipelines: every kind, each notification once whatever is replayed."""

import json
from collections import Counter

import pytest
from tests.pipeline.door import FIRST, SELECTS, Desk
from tests.pipeline.joins_scenes import CATALOG
from tests.pipeline.scenes import SCHEMA, forget_commit, market, pipeline, run, write_events

from penstock import ConfigError, FeedSink, JoinView, PipelineError, Subscriptions
from penstock.delivery.feeds import notification, open_feeds
from penstock.delivery.sinks import Batch
from penstock.pipeline import Source, messages_of
from penstock.pipeline.config import parse_config

pytestmark = pytest.mark.spark

STAMPED = {**SCHEMA, "_position": "bigint", "_time": "timestamp"}


def feed_of(place, subscription):
    """The notifications of a feed, with their numbers."""
    with open_feeds(place) as store:
        page = store.read([subscription], -1, 10**6, 10**9)
    return [(row.number, json.loads(notification(row, one))) for one, row in page.rows]


def stamped(position, price=9.0, symbol="A"):
    moment = f"2026-05-01T12:00:00.{position:06}Z"
    stamps = {"_position": position, "_time": moment}
    return {"id": position, "symbol": symbol, "price": price, **stamps}


def test_events_are_kept_in_the_order_of_their_positions(spark, tmp_path):
    """The position is the id, the time says when it was published; neither is an attribute. NULLs are left out."""
    subs = Subscriptions(STAMPED)
    sid, _ = subs.subscribe("alice", "price > 5")
    events = [stamped(7), stamped(3, symbol=None), stamped(5), stamped(4, price=1)]
    write_events(tmp_path / "in", "1.json", events)
    source = Source("json", str(tmp_path / "in"), STAMPED)
    run(pipeline(tmp_path, spark, subs, events=source, sink=FeedSink(tmp_path / "feeds.db")))
    assert feed_of(tmp_path / "feeds.db", sid) == [
        (
            number,
            {
                "id": f"{position}-{sid}",
                "kind": "filter",
                "subscription": sid,
                "event": {"id": position, **symbol, "price": 9.0},
                "published": f"2026-05-01T12:00:00.{position:06}Z",
            },
        )
        for number, position, symbol in (
            (1, 3, {}),
            (2, 5, {"symbol": "A"}),
            (3, 7, {"symbol": "A"}),
        )
    ]


def test_a_replay_adds_nothing(spark, tmp_path):
    """Spark didn't commit what the store has: it runs nothing, and goes on."""
    subs = market()
    sid, _ = subs.subscribe("alice", "price > 5", metadata={"team": "a"})

    def go():
        sink = FeedSink(f"sqlite:///{tmp_path}/feeds.db")
        return run(pipeline(tmp_path, spark, subs, sink=sink, metadata=True))

    write_events(tmp_path / "in", "1.json", [{"id": 1, "price": 6}, {"id": 2, "price": 7}, "oops"])
    assert go().batches[0].report.notifications == 2
    before = feed_of(tmp_path / "feeds.db", sid)
    assert sorted(note["event"]["id"] for _, note in before) == [1, 2]
    assert all("published" not in note for _, note in before)
    assert all(note["metadata"] == {"team": "a"} for _, note in before)
    forget_commit(tmp_path, 0)
    assert go().batches[0].report.replayed
    assert feed_of(tmp_path / "feeds.db", sid) == before
    write_events(tmp_path / "in", "2.json", [{"id": 3, "price": 8}])
    go()
    after = feed_of(tmp_path / "feeds.db", sid)
    assert (after[:2], [note["event"]["id"] for _, note in after[2:]]) == (before, [3])


class FeedDesk(Desk):
    """A pipeline of all kinds into feeds."""

    def pipeline(self, trigger="available-now", **changes):
        return super().pipeline(trigger, **{"sink": FeedSink(self.place), **changes})

    @property
    def place(self):
        return self.folder / "feeds.db"

    def told(self, sid):
        return [note for _, note in feed_of(self.place, sid)]

    def rows_of(self, n):
        sid = self.there[n][1][0]
        view = JoinView(SELECTS[n], CATALOG)
        view.apply(messages_of(self.told(sid)))
        return Counter(map(tuple, view))


def test_every_kind_has_its_feeds(spark, tmp_path):
    """What each subscription was told is what oracles say, and a replay of all inputs changes nothing."""
    desk = FeedDesk(spark, tmp_path / "desk")
    desk.run()
    assert desk.problems() == []
    assert desk.events_of(FIRST) == [1, 2]
    with open_feeds(desk.place) as store:
        before = store.stats()
    desk.replay()
    with open_feeds(desk.place) as store:
        assert store.stats().tail == before.tail
    assert desk.problems() == []


def test_what_cant_work_is_refused_before_it_starts(spark, tmp_path):
    """Dead letters, no folder, another pipeline's feeds; no password in a message."""
    with pytest.raises(PipelineError, match="these rows have no notification_id and no subscr"):
        FeedSink(tmp_path / "feeds.db").check(spark, ["reason", "raw"])
    columns = ["notification_id", "kind", "subscriptions", "subscribers", "position", "event"]
    with pytest.raises(PipelineError, match="there is no folder"):
        FeedSink(tmp_path / "no" / "feeds.db").check(spark, columns)
    away = FeedSink("postgresql://u:secret@127.0.0.1:1/x")
    with pytest.raises(PipelineError, match="can't be reached") as found:
        away.check(spark, columns)
    assert "secret" not in f"{found.value} {away!r}"
    schema = (
        "notification_id string, kind string, subscriptions array<bigint>, position bigint, "
        "event struct<id: int>"
    )
    rows = spark.createDataFrame([("n", "filter", [1], None, (5,))], schema)
    sink = FeedSink(tmp_path / "feeds.db")
    assert sink.write(rows, Batch("one", 0, "filter"))
    assert not sink.write(rows, Batch("one", 0, "filter"))
    with pytest.raises(Exception, match="of another pipeline"):
        sink.write(rows, Batch("two", 0, "filter"))


def test_in_a_pipeline_file(tmp_path):
    """`format: feeds` with a path or a URL."""
    (tmp_path / "subs.db").touch()
    given = {
        "events": {"format": "rate"},
        "subscriptions": str(tmp_path / "subs.db"),
        "checkpoint": str(tmp_path / "checkpoint"),
        "sink": {"format": "feeds", "url": "feeds.db"},
    }
    assert parse_config(given).sink == FeedSink("feeds.db")
    with pytest.raises(ConfigError, match=r"unknown key 'sink.urls': did you mean 'sink.url'\?"):
        parse_config(given | {"sink": {"format": "feeds", "urls": "feeds.db"}})
