"""Whatever is accepted, Spark reads as it was checked: never a dead letter, never another value."""

import base64
import json
import math
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import TimestampType
from tests.server.hostile_records import Drawer
from tests.sizes import LINES, SEED

from penstock.language.types import Array, Kind, Map, Scalar, Struct, Type
from penstock.pipeline.sources import RAW, REASON, Source, parse
from penstock.server.publishing.attribute_types import BINARY, Items, ddl, root_of
from penstock.server.publishing.inbox_tables import positioned_lines
from penstock.server.publishing.learning_types import Learner
from penstock.server.publishing.record_shapes import RecordShape
from penstock.server.publishing.request_bodies import BadRequest, read_records

SCHEMA = {
    "symbol": "string",
    "price": "double",
    "size": "bigint",
    "open": "boolean",
    "day": "date",
    "at": "timestamp",
    "fee": "decimal(10,2)",
    "venue": {"country": "string", "floor": "int"},
    "tags": "array<string>",
    "legs": "array<struct<symbol: string, size: bigint>>",
    "attrs": "map<string, string>",
    "logo": "binary",
}
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
STAMP = b',"_time":"2026-01-01T00:00:00.000000Z"'


def rows_of(spark: SparkSession, folder: Path, records: list[bytes], root: Struct) -> list[Row]:
    """What the pipeline's source makes of records, in order."""
    (folder / "events").mkdir()
    (folder / "events" / "1.jsonl").write_bytes(positioned_lines(records, 1, STAMP) + b"\n")
    schema = spark.createDataFrame([], ddl(root)).schema
    lines = spark.read.format("text").load(str(folder / "events"))
    frame = parse(lines, schema, "json", {})
    times = [f.name for f in schema.fields if isinstance(f.dataType, TimestampType)]
    frame = frame.withColumns({name: F.unix_micros(name) for name in times})  # Python has no year 0
    rows = sorted(frame.collect(), key=lambda row: row["_position"] or 0)
    bad = [(bytes(row[RAW]), row[REASON]) for row in rows if row[REASON] is not None]
    assert not bad
    assert [row["_position"] for row in rows] == list(range(1, len(records) + 1))
    assert {row["_time"] for row in rows} <= {rows[0]["_time"]}
    return rows


def same(found: Any, written: Any, type_: Type) -> bool:
    """Whether Spark has read what was written."""
    if written is None or found is None:
        return written is None and found is None
    match type_:
        case Struct(fields):
            return (
                all(same(found[n], written.get(n), t) for n, t in fields)
                and written.keys() <= dict(fields).keys()
            )
        case Array(element) | Items(_, element):
            return len(found) == len(written) and all(
                same(f, w, element) for f, w in zip(found, written, strict=True)
            )
        case Map(_, element):
            return found.keys() == written.keys() and all(
                same(found[k], w, element) for k, w in written.items()
            )
        case Scalar(Kind.DOUBLE):
            value = float(written)  # an integer, if the attribute was one when it came
            return found == value and math.copysign(1, found) == math.copysign(1, value)
        case Scalar(Kind.DECIMAL):
            return found == Decimal(str(written))
        case Scalar(Kind.TIMESTAMP):
            return timedelta(microseconds=found) == datetime.fromisoformat(written) - EPOCH
        case Scalar(Kind.DATE):
            return found == date.fromisoformat(written)
        case Scalar(Kind.INTEGER):
            return type(found) is int and type(written) is int and found == written
        case _ if type_ == BINARY:
            return bytes(found) == base64.b64decode(written)
    return type(found) is type(written) and found == written


@pytest.mark.spark
def test_spark_reads_what_was_accepted(spark: SparkSession, tmp_path: Path):
    """Records in all spellings, and hostile ones: Spark reads them as they were written, and they mean what came."""
    shape = RecordShape(root_of(SCHEMA))
    drawer = Drawer(SEED)
    accepted: list[bytes] = []
    refused = 0
    for _ in range(LINES):
        raw = drawer.record()
        try:
            reading = read_records("application/json", {}, raw, shape)
        except BadRequest:
            refused += 1
            continue
        refused += len(reading.refused)
        accepted += reading.records
        for record in reading.records:
            check_meaning(raw, record)
    assert len(accepted) > LINES / 5
    assert refused > LINES / 5
    for row, record in zip(rows_of(spark, tmp_path, accepted, shape.root), accepted, strict=True):
        assert same(row, json.loads(record), shape.root), record


def check_meaning(raw: bytes, record: bytes) -> None:
    """Python's own reader, which also refuses names that stand twice, agrees with what was written anew."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        assert len(dict(pairs)) == len(pairs), raw
        return dict(pairs)

    came = json.loads(raw, object_pairs_hook=once)
    if isinstance(came.get("price"), int):
        came["price"] = float(came["price"])
    written = json.loads(record)
    assert came.keys() == written.keys()
    for name in came.keys() - {"at", "fee", "logo"}:  # these have several spellings
        assert came[name] == written[name], (raw, record)


@pytest.mark.spark
def test_spark_reads_what_was_learned(spark: SparkSession, tmp_path: Path):
    """With the last schema that was learned, every record since the first is read."""
    drawer = Drawer(SEED + 1, ["symbol", "price", "size", "open", "day", "venue", "tags", "legs"])
    shape = RecordShape(Struct(()))
    accepted: list[bytes] = []
    for _ in range(LINES):
        raw = drawer.record()
        try:
            reading = read_records("application/json", {}, raw, shape, learn=True)
        except BadRequest:
            continue
        if reading.wider is not None:
            shape = RecordShape(reading.wider, shape.version + 1)
        accepted += reading.records
    assert shape.version > 5
    assert len(accepted) > LINES / 5
    for row, record in zip(rows_of(spark, tmp_path, accepted, shape.root), accepted, strict=True):
        assert same(row, json.loads(record), shape.root), record


def test_the_source_takes_the_schema():
    """As a pipeline's source is told of it."""
    learner = Learner(Struct(()))
    learner.learn({"price": 5, "odd `name`": {"a.b": [[1.5]]}})
    source = Source("json", "published/events", schema=ddl(learner.root))
    assert source.ddl == (
        "`_position` bigint, `_time` timestamp, `price` bigint, `odd ``name``` struct<`a.b`: array<array<double>>>"
    )
