"""`interest` of a source of events: less is read, and the same is delivered."""

import datetime
import random

import pyarrow.parquet as pq
import pytest
from tests.sizes import LONG

import penstock
from penstock.base.errors import PipelineError
from penstock.pipeline import Source, wanted_events
from penstock.pipeline.wanted_events import WantedEvents, files_of

from .scenes import delivered, forget_commit, pipeline, run

pytestmark = pytest.mark.spark

SCHEMA = {"id": "bigint", "day": "date", "symbol": "string", "price": "double"}
EVENTS = """
    SELECT id, date_add(DATE'2024-03-01', cast(id % 4 as int)) AS day,
           if(id % 13 = 0, NULL, char(65 + id % 6)) AS symbol,
           id % 17 / 2D AS price FROM range({}, {}, 1, 1)
"""


def write(spark, folder, first, past):
    spark.sql(EVENTS.format(first, past)).write.mode("append").partitionBy("day").parquet(
        str(folder)
    )


def source(folder, *interest, **options):
    return Source("parquet", str(folder), SCHEMA, options=options, interest=interest)


def matches(folder):
    return sorted((event, subscription) for _, event, subscription in delivered(folder / "out"))


def random_filter(rng):
    day = datetime.date(2024, 3, rng.randrange(1, 5))
    return rng.choice(
        [
            f"day = '{day}' AND price > {rng.randrange(9)}",
            f"day >= '{day}' AND symbol = '{rng.choice('ABCDEF')}'",
            f"day < '{day}' AND symbol IS NULL",
            f"day = '{day}' AND symbol LIKE '%{rng.choice('AB')}'",
        ]
    )


@pytest.mark.parametrize("seed", range(2 * LONG))
def test_the_same_is_delivered_as_without_while_subscriptions_come_and_go(spark, tmp_path, seed):
    rng = random.Random(seed)
    (tmp_path / "all").mkdir()
    subs = penstock.Subscriptions(SCHEMA)
    tickets = []
    published = []
    for first in (0, 100):
        tickets += [subs.subscribe("ann", random_filter(rng)) for _ in range(2)]
        write(spark, tmp_path / "events", first, first + 100)
        for folder, columns in ((tmp_path, ("day", "symbol")), (tmp_path / "all", ())):
            given = source(tmp_path / "events", *columns)
            metrics = run(pipeline(folder, spark, subs, events=given, event_id="id"))
            published.append(metrics.summary()["published"])
        subs.unsubscribe(*tickets.pop(0))
    assert matches(tmp_path) == matches(tmp_path / "all") != []
    read, all_read = published[::2], published[1::2]
    assert all_read == [100, 100]
    assert max(read) < 100


def test_spark_skips_partitions_and_row_groups(spark, tmp_path, monkeypatch, capfd):
    """The condition is in the scan, not above it."""
    seen = []
    real = WantedEvents.of

    def watched(self, frame, pin, checkpoint):
        found = real(self, frame, pin, checkpoint)
        found.explain("formatted")
        seen.append(capfd.readouterr().out)
        return found

    monkeypatch.setattr(WantedEvents, "of", watched)
    write(spark, tmp_path / "an archive", 0, 40)
    subs = penstock.Subscriptions(SCHEMA)
    subs.subscribe("ann", "day = '2024-03-02' AND symbol = 'B' AND price > 1")
    run(pipeline(tmp_path, spark, subs, events=source(tmp_path / "an archive", "day", "symbol")))
    (plan,) = seen
    assert "PartitionFilters: [isnotnull(day" in plan
    assert "PushedFilters: [IsNotNull(symbol), EqualTo(symbol,B)]" in plan
    assert matches(tmp_path) == [(25, 1), (37, 1)]


def test_a_replay_reads_what_the_pinned_snapshot_wants(spark, tmp_path):
    write(spark, tmp_path / "events", 0, 40)
    subs = penstock.Subscriptions(SCHEMA)
    subs.subscribe("ann", "day = '2024-03-02'")
    given = source(tmp_path / "events", "day")
    run(pipeline(tmp_path, spark, subs, events=given))
    before = matches(tmp_path)
    subs.subscribe("bob", "day = '2024-03-03'")
    forget_commit(tmp_path, 0)
    again = penstock.FileSink(str(tmp_path / "again/out"))
    metrics = run(pipeline(tmp_path, spark, subs, events=given, sink=again))
    assert matches(tmp_path / "again") == before != []
    assert metrics.summary()["published"] == len(before)


def test_logs_name_the_files_of_each_micro_batch_past_a_compaction(spark, tmp_path):
    folder = tmp_path / "events"
    for n in range(12):
        write(spark, folder, n, n + 1)
    subs = penstock.Subscriptions(SCHEMA)
    subs.subscribe("ann", "day > '2024-03-02'")
    run(pipeline(tmp_path, spark, subs, events=source(folder, "day", maxFilesPerTrigger=1)))
    checkpoint = tmp_path / "checkpoint/events"
    assert (checkpoint / "sources/0/9.compact").exists()
    found = [files_of(checkpoint, batch) for batch in range(12)]
    ids = [pq.read_table(one.removeprefix("file://"))["id"].to_pylist() for (one,) in found]
    assert sorted(ids) == [[n] for n in range(12)]


def test_where_logs_say_nothing_everything_is_read_and_the_same_delivered(
    spark, tmp_path, monkeypatch
):
    monkeypatch.setattr(wanted_events, "_VERSION", "v9")
    write(spark, tmp_path / "events", 0, 40)
    subs = penstock.Subscriptions(SCHEMA)
    subs.subscribe("ann", "day = '2024-03-02'")
    metrics = run(pipeline(tmp_path, spark, subs, events=source(tmp_path / "events", "day")))
    assert len(matches(tmp_path)) == metrics.summary()["published"] == 10


def test_interest_that_makes_no_sense_is_refused(spark, tmp_path):
    with pytest.raises(PipelineError, match="interest has no place with json records"):
        Source("json", "in", SCHEMA, interest=["day"])
    with pytest.raises(PipelineError, match=r"write \['day'\]"):
        Source("parquet", "in", SCHEMA, interest="day")
    write(spark, tmp_path / "events", 0, 4)
    wrong = pipeline(tmp_path, spark, penstock.Subscriptions(), events=source(tmp_path, "dya"))
    with pytest.raises(PipelineError, match="interest: the events have no attribute 'dya'"):
        wrong.start()
    documents = Source("binaryFile", str(tmp_path), interest=["path"])
    with pytest.raises(PipelineError, match="interest is for events"):
        pipeline(
            tmp_path, spark, penstock.Subscriptions(), events=None, documents=documents
        ).start()
