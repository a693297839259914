"""Parquet that tasks write: Spark reads it as if Spark had written it."""

import datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from pyspark.sql.types import StructField, StructType
from tests.pipeline.scenes import market, pipeline, run, tick, write_events

from penstock.delivery import Batch, FileSink
from penstock.delivery.notification_shape import EVENT, NAMED_READERS, NotificationShape
from penstock.delivery.task_rows import TaskRows

pytestmark = pytest.mark.spark

BATCH = Batch("query", 7, "filter")
TYPES = {
    "a": ("boolean", [True, False, None]),
    "b": ("tinyint", [-128, 127, None]),
    "c": ("smallint", [-32768, 32767, None]),
    "d": ("int", [-(2**31), 2**31 - 1, None]),
    "e": ("bigint", [-(2**63), 2**63 - 1, None]),
    "f": ("float", [0.1, float("inf"), None]),
    "g": ("double", [-0.0, 1.7976931348623157e308, None]),
    "h": ("decimal(38,10)", [Decimal("-1.0000000001"), Decimal(10**27), None]),
    "i": ("decimal(5,2)", [Decimal("999.99"), Decimal("-0.01"), None]),
    "j": ("string", ["", "Łódź\n'\"", None]),
    "k": ("binary", [bytearray(b"\x00\xff"), bytearray(), None]),
    "l": ("date", [datetime.date(1900, 1, 1), datetime.date(9999, 12, 31), None]),
    "m": ("timestamp", [datetime.datetime(1970, 1, 1), datetime.datetime(2026, 7, 1, 12), None]),
    "n": ("timestamp_ntz", [datetime.datetime(2026, 3, 29, 2, 30), None, None]),
    "o": ("array<int>", [[1, None], [], None]),
    "p": ("map<string,array<double>>", [{"x": [1.5, None]}, {}, None]),
    "q": ("struct<u:timestamp,`v.w`:struct<z:date>>", [(datetime.datetime(2026, 1, 1), None), None, None]),
    "r": ("interval day to second", [datetime.timedelta(days=-3, microseconds=7), None, None]),
    "dotted.name": ("string", ["x", "y", None]),
}  # fmt: skip


def rows_of_all_types(spark):
    """Notifications of three events, for two, one and no subscribers."""

    def notify(batches):
        for batch in batches:
            event = pa.StructArray.from_arrays(batch.columns, names=batch.schema.names)
            readers = pa.array([[1, 2], [2], []], pa.list_(pa.int64()))
            names = pa.array([["alice", None], ["bob"], []], pa.list_(pa.string()))
            ids = pa.array([f"id-{n}" for n in range(batch.num_rows)])
            fields = ["notification_id", "subscriptions", "subscribers", EVENT]
            yield pa.RecordBatch.from_arrays([ids, readers, names, event], names=fields)

    schema = ", ".join(f"`{name}` {type_}" for name, (type_, _) in TYPES.items())
    columns = [values for _, values in TYPES.values()]
    events = spark.createDataFrame(list(zip(*columns, strict=True)), schema).coalesce(1)
    told = StructField(EVENT, events.schema)
    rows = TaskRows(events, notify, StructType([*NAMED_READERS, told]))
    return NotificationShape((told,)), rows


def test_all_types_are_read_as_if_spark_had_written_them(spark, tmp_path):
    shape, rows = rows_of_all_types(spark)
    ours, sparks = FileSink(tmp_path / "ours"), FileSink(tmp_path / "sparks")
    assert ours.write_in_tasks(shape.in_tasks(rows, "filter"), BATCH) == 3
    assert sparks.write(shape.rows(rows.frame(), "filter"), BATCH)
    mine, its = (spark.read.parquet(str(tmp_path / name)) for name in ("ours", "sparks"))
    assert mine.schema == its.schema
    assert mine.orderBy("notification_id").collect() == its.orderBy("notification_id").collect()
    assert mine.count() == 3


def test_a_batch_that_is_there_is_not_run_again(spark, tmp_path):
    shape, rows = rows_of_all_types(spark)
    sink = FileSink(tmp_path)
    sink.write_in_tasks(shape.in_tasks(rows, "filter"), BATCH)
    assert sink.write_in_tasks(shape.in_tasks(rows, "filter"), BATCH) is None


def test_what_a_task_left_that_failed_is_not_read(spark, tmp_path):
    """A task that is lost when it has nearly written its file leaves nothing of the batch."""
    shape, rows = rows_of_all_types(spark)

    def break_off(batches):
        yield from batches
        raise RuntimeError("lost")

    sink, whole = FileSink(tmp_path), shape.in_tasks(rows, "filter")
    with pytest.raises(Exception, match="lost"):
        sink.write_in_tasks(whole.then(break_off, whole.schema), BATCH)
    assert not list(tmp_path.glob("kind=*/batch=*"))
    assert sink.write_in_tasks(whole, BATCH) == 3
    assert spark.read.parquet(str(tmp_path)).count() == 3
    assert {path.name for path in tmp_path.glob("kind=filter/*")} == {"batch=7", "_penstock.json"}


def test_a_batch_that_nobody_gets_anything_of_can_be_read(spark, tmp_path):
    subs = market()
    subs.subscribe("alice", "price > 1000000")
    write_events(tmp_path / "in", "0.json", [tick(1)])
    run(pipeline(tmp_path, spark, subs))
    found = spark.read.parquet(str(tmp_path / "out"))
    assert found.count() == 0
    assert found.schema["event"].dataType["price"].dataType.simpleString() == "double"
