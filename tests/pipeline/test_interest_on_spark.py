"""`Interest.column`: Spark keeps the rows that the condition says, and reads less than everything."""

import random
import subprocess
import sys
from datetime import date, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from examples.market_archive.scans import by_footers, by_spark
from examples.market_archive.trades import SCHEMA as TRADES
from examples.market_archive.trades import watchers, write_archive
from tests.covering import extremes
from tests.differential.events import SCHEMA as EVERY_TYPE
from tests.differential.events import random_events
from tests.differential.filters import RandomFilters
from tests.differential.oracle import TRUE, Oracle
from tests.servers import connect_port
from tests.sizes import LONG, PATIENCE

import penstock
from penstock.pipeline.interest_column import column_of

pytestmark = pytest.mark.spark
FIRST = date(2024, 3, 1)


def subscribed(schema, *texts):
    subs = penstock.Subscriptions(schema)
    subs.load(
        pa.table({"subscriber": ["ann"] * len(texts), "filter": pa.array(texts, pa.string())})
    )
    return subs


def plan_text(frame, capfd):
    frame.explain("formatted")
    return capfd.readouterr().out


def test_the_column_keeps_what_the_condition_keeps_in_duckdb(spark):
    """Random filters of the whole language on events of every type, as a Column and as Spark SQL."""
    rng = random.Random(3)
    events, _ = random_events(rng, 150, far_share=0.0)
    oracle = Oracle(events)
    numbered = events.append_column("row", pa.array(np.arange(events.num_rows)))
    frame = spark.createDataFrame(numbered).cache()
    for most in (1, 3, 8):
        texts = [f"({RandomFilters(rng, leaves=2).filter()}\n) AND i1 < 100" for _ in range(5)]
        found = penstock.interest(subscribed(EVERY_TYPE, *texts), at_most=most)
        wanted = np.flatnonzero((oracle.truth(texts).values == TRUE).any(axis=0))
        expected = oracle.where(found.sql)
        assert set(wanted) <= set(expected)
        kept = [row.row for row in found.where(frame).select("row").collect()]
        assert sorted(kept) == expected, found.sql
        assert frame.where(found.spark_sql).count() <= len(expected)  # NaN: see below
    frame.unpersist()


def rows_of(frame):
    return {row.row for row in frame.select("row").collect()}


def test_no_row_is_lost_at_the_edges_of_a_type(spark, tmp_path):
    """-0.0, floats, NaN, the largest values: as a Column and as SQL, in memory and in files whose row groups Spark
    skips by statistics and dictionaries. Those of NaN it reads wrongly, which is why the Column asks for it."""
    rng = random.Random(11)
    world = extremes.sources(rng, tmp_path)
    in_memory, files = spark.createDataFrame(world.table).cache(), spark.read.parquet(world.path)
    nans = rows_of(in_memory.where("isnan(d) OR isnan(f)"))
    schema = penstock.Schema.of(extremes.SCHEMA)
    zeros = ["d = 0", "d IN (0, 2)", "f >= 0 AND f < 1", "f IN (0, 0.1)", "d BETWEEN 0 AND 1"]
    others = [extremes.random_filter(rng) for _ in range(10)]
    for text in zeros + others:
        found = penstock.interest(subscribed(schema, text), at_most=1)
        expected, _ = world.where(found.sql)
        assert rows_of(found.where(files)) == expected, found.sql
        assert rows_of(in_memory.where(found.spark_sql)) == expected, found.sql
        assert expected - nans <= rows_of(files.where(found.spark_sql)), found.sql
    in_memory.unpersist()


@pytest.fixture(scope="module")
def trades(spark, tmp_path_factory):
    """Ten days, a partition each, sorted by symbol; small row groups, written by Arrow."""
    folder = tmp_path_factory.mktemp("trades")
    for day in range(10):
        table = pa.table(
            {
                "symbol": pa.array(np.repeat([f"S{n:03}" for n in range(100)], 100)),
                "price": np.tile(np.arange(100.0), 100),
            }
        )
        path = folder / f"day={FIRST + timedelta(day)}"
        path.mkdir()
        pq.write_table(table, path / "part.parquet", row_group_size=1_000)
    return spark.read.parquet(str(folder))


def rows_read(frame):
    """How many rows the scan of a plan gave, once it has run."""
    plan = frame._jdf.queryExecution().executedPlan()
    plan.executeCollect()
    scan = plan.collectLeaves().head()
    return scan.metrics().apply("numOutputRows").value()


def test_partitions_and_row_groups_are_skipped(trades, capfd):
    """Spark's plan has the filter in the scan, for partitions and for files, and the scan gives fewer rows."""
    subs = subscribed(
        trades.schema,
        "day = '2024-03-02' AND symbol = 'S007' AND price > 50",
        "day = '2024-03-02' AND symbol = 'S009' AND price < 3",
        "day = '2024-03-05' AND symbol LIKE 'S09%'",
    )
    found = penstock.interest(subs, ["day", "symbol"], at_most=2)
    wanted = found.where(trades)
    text = plan_text(wanted, capfd)
    partition = next(line for line in text.splitlines() if "PartitionFilters" in line)
    pushed = next(line for line in text.splitlines() if "PushedFilters" in line)
    assert "2024-03-02" in partition
    assert "2024-03-05" in partition
    assert "S007" in pushed
    assert "S09" in pushed
    assert rows_read(trades) == 100_000
    assert rows_read(wanted) <= 4_000  # of two days two row groups of ten
    before = penstock.match(trades, subs, explode=True).count()
    assert penstock.match(wanted, subs, explode=True).count() == before > 0


def test_not_a_number_is_not_lost_in_files_whose_statistics_leave_it_out(spark, tmp_path):
    """Arrow's minima and maxima know no NaN; with `nan=False` Spark may use them."""
    pq.write_table(pa.table({"x": [1.0, 2.0, float("nan")]}), tmp_path / "x.parquet")
    events = spark.read.parquet(str(tmp_path / "x.parquet"))
    subs = subscribed({"x": "double"}, "x > 5")
    assert penstock.match(events, subs, explode=True).count() == 1
    kept = penstock.interest(subs).where(events)
    assert penstock.match(kept, subs, explode=True).count() == 1
    pushed = penstock.interest(subs, nan=False).where(events)
    assert "GreaterThan(x,5.0)" in pushed._jdf.queryExecution().executedPlan().toString()


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_timestamps_mean_the_same_in_every_zone(spark, zone):
    """With a zone or without one: the session's zone doesn't move them."""
    before = spark.conf.get("spark.sql.session.timeZone")
    frame = spark.sql(
        "select timestamp'2024-03-01 12:00:00Z' as t, timestamp_ntz'2024-03-01 12:00:00' as n"
    )
    subs = subscribed(frame.schema, "t = '2024-03-01 12:00:00' AND n = '2024-03-01 12:00:00'")
    found = penstock.interest(subs)
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        assert found.where(frame).count() == 1
        assert frame.where(found.sql).count() == 1
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)


def test_odd_names_and_strings(spark):
    """Names go in backticks, strings as they are: nothing is parsed."""
    frame = spark.sql("select 'it''s' as `a.b c``d`, named_struct('order', 5) as o")
    schema = {"a.b c`d": "string", "o": {"order": "int"}}
    subs = subscribed(schema, """"a.b c`d" = 'it''s' AND o."order" = 5""")
    found = penstock.interest(subs)
    assert found.where(frame).count() == frame.where(found.spark_sql).count() == 1


def test_nothing_and_everything(spark):
    """Of no subscription and of one that takes all."""
    frame = spark.range(3)
    assert penstock.interest(subscribed({"id": "bigint"})).where(frame).count() == 0
    assert penstock.interest(subscribed({"id": "bigint"}, "TRUE")).where(frame).count() == 3
    assert "true" in str(column_of([()], nan=True))


def test_the_market_archive_is_read_in_part_and_matched_as_a_whole(spark, tmp_path):
    """The example's archive: fewer files, rows and bytes, by Spark and by the footers; the same matches."""
    write_archive(tmp_path / "trades", days=5, symbols=500, per_day=20_000)
    archive = spark.read.parquet(str(tmp_path / "trades"))
    subs = penstock.Subscriptions(TRADES)
    subs.load(watchers(300, days=5), progress=False)
    wanted = penstock.interest(subs, ["day", "symbol"], at_most=8, nan=False)
    kept = wanted.where(archive)
    (all_files, all_rows), (files, rows) = by_spark(archive), by_spark(kept)
    assert (all_files, all_rows) == (5, 100_000)
    assert files == 4
    assert rows < all_rows / 2
    whole, part = (
        by_footers(tmp_path / "trades"),
        by_footers(tmp_path / "trades", wanted.expression()),
    )
    assert (whole.files, whole.rows) == (5, 100_000)
    assert part.rows <= rows
    assert part.megabytes < whole.megabytes / 2
    matches = penstock.match(archive, subs, explode=True).count()
    assert penstock.match(kept, subs, explode=True).count() == matches > 0


@pytest.mark.skipif(LONG == 1, reason="an example on Spark Connect: for make test-long")
@pytest.mark.slow
@pytest.mark.connect
def test_the_market_archive_on_spark_connect():
    """Column, plan and the scan's figures come from the server."""
    command = [sys.executable, "-m", "examples.market_archive", "--connect", "--days", "5"]
    with connect_port():
        run = subprocess.run(
            [*command, "--subscriptions", "200"], capture_output=True, text=True, timeout=PATIENCE
        )
    assert run.returncode == 0, run.stderr[-2_000:]
    rows = [line.split("│") for line in run.stdout.splitlines() if line.startswith("│")]
    assert [row[5].strip() for row in rows[:2]] == ["100,000", "80,000"]
    assert len({row[9].strip() for row in rows}) == 1  # matches
    (partitions,) = [line for line in run.stdout.splitlines() if "PartitionFilters" in line]
    assert "day" in partitions
