"""Select-joins on Spark: views fed from the sink equal DuckDB's results."""

import errno
import itertools
import json
import os
import random
import signal
import time
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as F  # noqa: N812
from tests.sizes import PATIENCE

import penstock
from penstock.base.errors import PipelineError, SchemaError
from penstock.pipeline import JoinOptions, checkpoints, retries
from penstock.pipeline.joins.notification_rows import messages_of
from penstock.pipeline.joins.spread import partition_of, spread_buckets

from .joins_scenes import CATALOG, Market, notifications, pipeline, random_text, view_of

pytestmark = [pytest.mark.spark]


@pytest.fixture(scope="module")
def aftermath(spark, tmp_path_factory):
    """A market that ran for a while: several runs of the pipeline, and subscriptions that came and went between."""
    folder = tmp_path_factory.mktemp("joins")
    url = f"sqlite:///{folder}/subs.db"
    market, rng = Market(folder / "in", 6), random.Random(6)
    texts: dict[int, str] = {}
    with penstock.Subscriptions.open(url, catalog=CATALOG) as subs:
        gone = []
        for step in range(2):
            for _ in range(4):
                text = random_text(rng)
                sid, _ = subs.subscribe("someone", text, lease="forever")
                texts[sid] = text
            if step:
                sid = rng.choice(list(texts))
                subs.remove(sid)
                gone.append((sid, texts.pop(sid), step))
            for _ in range(3):
                market.changes(40)
            if step == 1:
                market.write(
                    "Reviews", [{"Id": None, "op": "insert", "version": 1}, {"Id": 1, "op": "?"}]
                )
            pipeline(folder, spark, url).start().await_termination(PATIENCE)
        late = subs.subscribe("late", "SELECT * FROM Stocks JOIN Reviews USING (Symbol)")
        texts[late.id] = "SELECT * FROM Stocks JOIN Reviews USING (Symbol)"
        pipeline(folder, spark, url).start().await_termination(PATIENCE)
    return folder, market, texts, gone, late


def test_every_view_equals_duckdb(aftermath):
    """Subscriptions that came at different times all have the result of their SQL on the tables as they are now."""
    folder, market, texts, _, _ = aftermath
    batches = notifications(folder / "out")
    assert sum(len(rows) for rows in batches.values()) > 100
    for sid, text in texts.items():
        assert Counter(map(tuple, view_of(text, sid, batches))) == market.result(text), text


def test_a_new_subscription_gets_its_content_without_a_change(aftermath):
    """The last run had nothing but a new subscription: one micro-batch told it all."""
    folder, market, texts, _, (late, _) = aftermath
    batches = notifications(folder / "out")
    last = max(
        number for number, rows in batches.items() if any(late in r["subscriptions"] for r in rows)
    )
    told = {number: rows for number, rows in batches.items() if number == last}
    assert Counter(map(tuple, view_of(texts[late], late, told))) == market.result(texts[late])
    assert all(row["subscriptions"] == [late] for row in told[last])
    assert sum(row["message"]["change"] == "reset" for row in told[last]) == 1


def test_who_unsubscribed_hears_nothing_more(aftermath):
    """Micro-batches after the next start have nothing for it."""
    folder, _, _, gone, _ = aftermath
    batches = notifications(folder / "out")
    for sid, _, _ in gone:
        heard = [n for n, rows in batches.items() if any(sid in r["subscriptions"] for r in rows)]
        assert max(heard, default=0) < max(batches) - 1


def test_every_notification_has_an_id_of_its_own(aftermath):
    """No two rows, of whatever micro-batch, share one."""
    folder, *_ = aftermath
    ids = [
        row["notification_id"] for rows in notifications(folder / "out").values() for row in rows
    ]
    assert len(set(ids)) == len(ids)


def test_rows_that_are_no_changes_are_dead_letters(aftermath):
    """They are told once each, with the reason."""
    folder, *_ = aftermath
    lines = [
        json.loads(line)
        for path in (folder / "checkpoint/penstock/dead-letters").glob("*/batch=*/*.json")
        for line in path.read_text().splitlines()
    ]
    assert sorted(line["reason"] for line in lines) == [
        "Reviews: op is '?': expected insert, update or delete",
        "Reviews: the key Id is NULL",
    ]


@dataclass
class SinkThatLosesWorkers:
    """A sink whose worker dies the first few times that it writes, when Spark has shuffled what comes before."""

    sink: Any
    losses: int

    @property
    def guarantee(self) -> str:
        return self.sink.guarantee

    @property
    def explode(self) -> bool:
        return self.sink.explode

    def check(self, spark, columns) -> None:
        self.sink.check(spark, columns)

    def write(self, rows, batch) -> Any:
        if self.losses:
            self.losses -= 1
            rows = rows.mapInArrow(lambda _: os._exit(1), rows.schema)
        return self.sink.write(rows, batch)


def test_dead_letters_outlive_a_lost_worker(spark, tmp_path, monkeypatch):
    """A micro-batch that lost a worker is tried again. Spark keeps what it has shuffled, so tasks that have left dead
    letters don't run again; what they have left is delivered all the same, once."""
    monkeypatch.setattr(retries, "PAUSES", (0.0,) * 3)
    url = f"sqlite:///{tmp_path}/subs.db"
    with penstock.Subscriptions.open(url, catalog=CATALOG) as subs:
        subs.subscribe("someone", "SELECT * FROM Reviews WHERE Rating > 0")
    market = Market(tmp_path / "in", 1)
    market.changes(20)
    market.write("Reviews", [{"Id": None, "op": "insert", "version": 1}])
    sink = SinkThatLosesWorkers(penstock.FileSink(tmp_path / "out"), losses=2)
    dead = penstock.FileSink(tmp_path / "dead", "json")
    running = pipeline(tmp_path, spark, url, sink=sink, dead_letters=dead).start()
    running.await_termination(PATIENCE)
    assert sink.losses == 0
    assert sum(len(rows) for rows in notifications(tmp_path / "out").values()) > 10
    letters = [
        json.loads(line)["reason"]
        for path in (tmp_path / "dead").glob("*/batch=*/*.json")
        for line in path.read_text().splitlines()
    ]
    assert letters == ["Reviews: the key Id is NULL"]


def test_a_first_micro_batch_that_never_began_is_planned_anew(spark, tmp_path, monkeypatch):
    """Spark has planned it, and described its state; then the disk is full. Later there is room, and it goes on."""
    url = f"sqlite:///{tmp_path}/subs.db"
    text = "SELECT * FROM Reviews WHERE Rating > 2"
    with penstock.Subscriptions.open(url, catalog=CATALOG) as subs:
        sid, _ = subs.subscribe("someone", text)
    market = Market(tmp_path / "in", 1)
    market.changes(20)

    def find_no_room(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as full:
        full.setattr(checkpoints, "begin", find_no_room)
        running = pipeline(tmp_path, spark, url).start()
        with pytest.raises(PipelineError, match="No space left"):
            running.await_termination(PATIENCE)
    assert list((tmp_path / "checkpoint/tables/state").iterdir())
    pipeline(tmp_path, spark, url).start().await_termination(PATIENCE)
    view = view_of(text, sid, notifications(tmp_path / "out"))
    assert Counter(map(tuple, view)) == market.result(text)


def test_buckets_are_spread_evenly(spark):
    """Where a bucket's key leads is where Spark puts it, and no partition has two buckets more than another."""
    buckets, partitions = 32, 6
    keys = list(itertools.product(range(3), range(buckets)))
    rows = [(*key, n) for key, n in zip(keys, spread_buckets(3, buckets, partitions), strict=True)]
    frame = spark.createDataFrame(rows, "stage int, bucket int, spread int")
    found = frame.select(F.pmod(F.hash("stage", "bucket", "spread"), F.lit(partitions))).collect()
    assert [row[0] for row in found] == [partition_of(row, partitions) for row in rows]
    for stage in range(3):
        mine = [row[0] for row in found[stage * buckets : (stage + 1) * buckets]]
        counts = Counter(mine)
        assert max(counts.values()) - min(counts.values()) <= 1
        assert len(counts) == partitions


def test_another_number_of_partitions_changes_nothing(aftermath, spark):
    """The query keeps to those with which it began: its views go on from where they were."""
    folder, market, texts, _, _ = aftermath
    before = spark.conf.get("spark.sql.shuffle.partitions")
    market.changes(40)
    try:
        spark.conf.set("spark.sql.shuffle.partitions", "3")
        pipeline(folder, spark, f"sqlite:///{folder}/subs.db").start().await_termination(PATIENCE)
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", before)
    batches = notifications(folder / "out")
    for sid, text in texts.items():
        assert Counter(map(tuple, view_of(text, sid, batches))) == market.result(text), text


def test_it_survives_the_process_that_watches_the_registry(aftermath, spark):
    """Killed, it is there again: changes and subscriptions that come later are told as if nothing had been.

    So is a resync: a view that is fed from there on is whole.
    """
    folder, market, texts, _, late = aftermath
    url = f"sqlite:///{folder}/subs.db"
    with pipeline(folder, spark, url, trigger="100 ms").start() as running:
        running.process_available()
        first = running.queries["tables"]
        (watcher,) = children_of(spark, "python_streaming_source_runner")
        os.kill(watcher, signal.SIGKILL)
        with penstock.Subscriptions.open(url) as subs:
            text = random_text(random.Random(8))
            texts[subs.subscribe("later", text, lease="forever").id] = text
            subs.resync(*late)
        market.changes(40)
        while running.queries["tables"] is first:
            assert running.is_active
            time.sleep(0.05)
        running.process_available()
        assert running.is_active
    batches = notifications(folder / "out")
    for sid, text in texts.items():
        assert Counter(map(tuple, view_of(text, sid, batches))) == market.result(text), text
    resets = [
        n
        for n, rows in batches.items()
        if any(r["message"]["change"] == "reset" and late.id in r["subscriptions"] for r in rows)
    ]
    since = {n: rows for n, rows in batches.items() if n >= resets[-1]}
    assert len(resets) == 2
    view = view_of(texts[late.id], late.id, since)
    assert Counter(map(tuple, view)) == market.result(texts[late.id])


def children_of(spark, part: str) -> list[int]:
    """The processes of a session's JVM whose command line has `part` in it."""
    java = spark.sparkContext._jvm.java.lang.ProcessHandle.current()
    children = [child.pid() for child in java.children().toArray()]
    return [n for n in children if part in Path(f"/proc/{n}/cmdline").read_text()]


def test_another_number_of_buckets_is_refused(aftermath, spark):
    """The state can't be divided anew; without a number the recorded one is taken."""
    folder, *_ = aftermath
    with pytest.raises(PipelineError, match="other buckets"):
        pipeline(folder, spark, f"sqlite:///{folder}/subs.db", joins=JoinOptions(buckets=8)).start()


def test_tuples_leave_when_their_window_is_over(spark, tmp_path):
    """Those that are too old when they come are never seen; those that grow old are dropped, without any change."""
    catalog = penstock.Catalog.of(
        {
            "Stocks": penstock.Table({"Symbol": "string", "PER": "double"}, key="Symbol"),
            "Reviews": penstock.Table(
                {"Id": "int", "Symbol": "string", "posted": "timestamp"}, key="Id"
            ),
        },
        edges=[("Stocks", "Reviews", "Symbol")],
    )
    url = f"sqlite:///{tmp_path}/subs.db"
    text = "SELECT * FROM Stocks JOIN Reviews USING (Symbol) WHERE PER > 10"
    with penstock.Subscriptions.open(url, catalog=catalog) as subs:
        sid, _ = subs.subscribe("alice", text, lease="forever")
    now = time.time()
    posted = {1: now + 3600, 2: now - 86_400, 3: now - 50}  # the third one grows old while we wait
    rows = {
        "Stocks": [{"Symbol": "A", "PER": 50.0}],
        "Reviews": [{"Id": n, "Symbol": "A", "posted": stamp(at)} for n, at in posted.items()],
    }
    schemas = {
        "Stocks": "Symbol string, PER double",
        "Reviews": "Id long, Symbol string, posted timestamp",
    }
    for table, some in rows.items():
        (tmp_path / table).mkdir()
        (tmp_path / table / "0.json").write_text("".join(json.dumps(r) + "\n" for r in some))

    def run():
        frames = {
            table: spark.readStream.schema(schema).json(f"{tmp_path}/{table}")
            for table, schema in schemas.items()
        }
        penstock.Pipeline(
            tables=frames,
            subscriptions=url,
            sink=penstock.FileSink(tmp_path / "out"),
            checkpoint=tmp_path / "checkpoint",
            trigger="available-now",
            joins=JoinOptions(windows={"Reviews": ("posted", "60 s")}, buckets=2),
        ).start().await_termination(PATIENCE)
        view = penstock.JoinView(text, catalog)
        for _, told in sorted(notifications(tmp_path / "out").items()):
            view.apply(messages_of([row for row in told if sid in row["subscriptions"]]))
        return sorted(row[2] for row in view)

    assert 1 in run()
    time.sleep(max(0.0, now + 12 - time.time()))
    assert run() == [1]


def stamp(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()


def test_two_versions_of_the_tables_in_a_batch(spark):
    """Who knows the first version and applies the notifications has the result on the second."""
    subs = penstock.Subscriptions(catalog=CATALOG)
    rng = random.Random(3)
    texts = {}
    for _ in range(8):
        text = random_text(rng)
        texts[subs.subscribe("someone", text)[0]] = text

    def tables(seed):
        draw = random.Random(seed)
        stocks = [(s, float(draw.randrange(20, 80))) for s in "ABCDE" if draw.random() < 0.8]
        reviews = [
            (n, draw.choice([*"ABCDE", None]), draw.randrange(1, 11))
            for n in range(30)
            if draw.random() < 0.7
        ]
        return {
            "Stocks": spark.createDataFrame(stocks, "Symbol string, PER double"),
            "Reviews": spark.createDataFrame(reviews, "Id long, Symbol string, Rating long"),
        }, (stocks, reviews)

    import duckdb

    (old, _), (new, (stocks, reviews)) = tables(1), tables(2)
    first = [row.asDict(True) for row in penstock.match_joins(old, subs, buckets=4).collect()]
    then = [
        row.asDict(True) for row in penstock.match_joins(new, subs, before=old, buckets=4).collect()
    ]
    pairs = penstock.match_joins(new, subs, before=old, buckets=4, explode=True).count()
    assert pairs == sum(len(row["subscriptions"]) for row in then) > 20
    database = duckdb.connect(config={"threads": 1})
    database.execute("CREATE TABLE Stocks (Symbol VARCHAR, PER DOUBLE)")
    database.execute("CREATE TABLE Reviews (Id BIGINT, Symbol VARCHAR, Rating BIGINT)")
    database.executemany("INSERT INTO Stocks VALUES (?, ?)", stocks)
    database.executemany("INSERT INTO Reviews VALUES (?, ?, ?)", reviews)
    for sid, text in texts.items():
        view = penstock.JoinView(text, CATALOG)
        for rows in (first, then):
            view.apply(messages_of([row for row in rows if sid in row["subscriptions"]]))
        assert Counter(map(tuple, view)) == Counter(database.execute(text).fetchall()), text


def test_batch_jobs_count_on_what_earlier_ones_have_sent(spark):
    """Other subscriptions have gone in between, and one that doesn't fit has come: those that stay lack nothing."""
    catalog = penstock.Catalog.of(
        {
            "R": penstock.Table({"id": "int", "b": "int"}, key="id"),
            "S": penstock.Table({"id2": "int", "b": "int", "x": "int", "y": "int"}, key="id2"),
        },
        edges=[("R", "S", "b")],
    )
    subs = penstock.Subscriptions(catalog=catalog)
    both = "SELECT * FROM R JOIN S USING (b) WHERE "
    sid, _ = subs.subscribe("alice", f"{both} x BETWEEN 1 AND 5 AND y BETWEEN 1 AND 5")
    others = [subs.subscribe("bob", f"{both} y > {n}") for n in range(5)]
    r = spark.createDataFrame([(1, 1)], "id long, b long")
    before = {
        "R": r,
        "S": spark.createDataFrame([(1, 1, 100, 3)], "id2 long, b long, x long, y long"),
    }
    rows = [(1, 1, 100, 3), (2, 1, 3, 4)]
    after = {"R": r, "S": spark.createDataFrame(rows, "id2 long, b long, x long, y long")}
    view = penstock.JoinView(subs.get(sid), catalog)

    def tell(**tables):
        found = penstock.match_joins(subscriptions=subs, alone=["S"], buckets=1, **tables).collect()
        rows = [row.asDict(True) for row in found]
        view.apply(messages_of([row for row in rows if sid in row["subscriptions"]]))

    tell(changes=before)
    for other in others:
        subs.unsubscribe(*other)
    subs.subscribe("carol", "SELECT * FROM R WHERE id > 5")  # nobody serves R alone
    tell(changes=after, before=before)
    assert list(view) == [(1, 1, 2, 3, 4)]


def test_what_cannot_work_is_refused_before_it_starts(spark, tmp_path):
    """An in-memory registry, no catalogue, missing columns, no folder: each is told with what to do."""
    stream = spark.readStream.format("rate").load()
    memory = penstock.Subscriptions(catalog=CATALOG)
    url = f"sqlite:///{tmp_path}/subs.db"
    penstock.Subscriptions.open(url, catalog=CATALOG).close()
    with pytest.raises(PipelineError, match=r"Subscriptions\.open"):
        penstock.match_joins({"Stocks": stream}, memory, snapshots=tmp_path / "s")
    with pytest.raises(PipelineError, match="no catalogue"):
        penstock.match_joins({"Stocks": stream}, penstock.Subscriptions(), snapshots=tmp_path / "s")
    with pytest.raises(PipelineError, match="folder for its snapshots"):
        penstock.match_joins({"Stocks": stream}, url)
    with pytest.raises(SchemaError, match="no column 'Symbol'"):
        penstock.match_joins({"Stocks": stream}, url, snapshots=tmp_path / "s")
    with pytest.raises(SchemaError, match="no table 'Bonds'"):
        penstock.match_joins({"Bonds": stream}, url, snapshots=tmp_path / "s")
    (tmp_path / "in/Stocks").mkdir(parents=True)
    (tmp_path / "in/Reviews").mkdir()
    with pytest.raises(PipelineError, match="not a sink"):
        pipeline(tmp_path, spark, url, sink=print).start()
