"""Sources: what is an event, what is a dead letter, and that nothing in between is lost."""

import json
import random
import socket
import threading
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType
from tests.sizes import LINES, PATIENCE, SEED

import penstock
from penstock.base.errors import PipelineError, SchemaError
from penstock.delivery import CallableSink
from penstock.pipeline import Pipeline, Source
from penstock.pipeline.dead_letters import Records, dead_letters
from penstock.pipeline.sources import KEY, RAW, REASON, parse, source_of

from .scenes import market, pipeline, run, tick, write_events

pytestmark = pytest.mark.spark

DDL = (
    "symbol string, price double, n int, big bigint, amount decimal(6,2), flag boolean, at timestamp, "
    "day date, venue struct<country: string, k: int, bid: decimal(6,2)>, tags array<int>, "
    "bids array<struct<bid: decimal(6,2)>>"
)


@pytest.fixture(scope="module")
def schema(spark: SparkSession) -> StructType:
    return spark.createDataFrame([], DDL).schema


def lines(spark: SparkSession, folder: Path, records: list[bytes]):
    (folder / "records.txt").write_bytes(b"".join(record + b"\n" for record in records))
    return spark.read.text(str(folder))


GOOD = [
    (b'{"symbol":"A","price":1.5,"n":1,"big":1,"amount":1.25,"flag":true}', "A"),
    (b'{"symbol":"B","at":"2026-01-01T00:00:00Z","day":"2026-01-01"}', "B"),
    (b'{"symbol":"C","venue":{"country":"x","k":1},"tags":[1,null]}', "C"),
    (b'{"symbol":"D","price":null}', "D"),  # a null attribute
    (b'{"symbol":"E","unknown":[1,{"a":2}]}', "E"),  # an attribute that no one asked for
    (b'  {"symbol":"F"}  ', "F"),
    (b'\xef\xbb\xbf{"symbol":"G"}', "G"),  # a byte order mark
    (b'{"symbol":"\xc3\xa9\xf0\x9f\x98\x80"}', "é😀"),
    (b'{"symbol":"I","price":"NaN","big":9223372036854775807}', "I"),
    (
        b'{"symbol":"J","_penstock_end":2,"_penstock_corrupt":"x"}',
        "J",
    ),  # our own names are no trick
    (b"{}", None),  # every attribute is missing
]

BAD = [
    (b'{"symbol":"A", "price": ', "not JSON: Expecting value at column 25"),
    (b"not json", "not JSON: Expecting value at column 1"),
    (b"42", "expected one JSON object, found the number 42"),
    (b"null", "expected one JSON object, found null"),
    (b'""', "expected one JSON object, found the string ''"),
    (b'[{"symbol":"A1"},{"symbol":"A2"}]', "expected one JSON object, found an array"),
    (b'[{"symbol":"A1"}]', "expected one JSON object, found an array"),
    (b'{"symbol":"A"} trailing', "not JSON: Extra data at column 16"),
    (b'{"symbol":"A"}{"symbol":"B"}', "not JSON: Extra data at column 15"),
    (b'{"symbol":"A"},{"symbol":"B"}', "not JSON: Extra data at column 15"),
    (b'{"symbol":"A"}]}', "not JSON: Extra data at column 15"),
    (b'{"n":99999999999}', "n: 99999999999 is out of the range of int"),
    (b'{"big":9223372036854775808}', "big: 9223372036854775808 is out of the range of bigint"),
    (b'{"n":1.5}', "n: expected int, found the number 1.5"),
    (b'{"n":"7"}', "n: expected int, found the string '7'"),
    (b'{"price":"abc"}', "price: expected double, found the string 'abc'"),
    (b'{"amount":99999.5}', "amount: 99999.5 doesn't fit decimal(6,2)"),
    (b'{"flag":1}', "flag: expected boolean, found the number 1"),
    (b'{"at":"yesterday"}', "at: expected timestamp, found the string 'yesterday'"),
    (b'{"day":"2026-13-01"}', "day: expected date, found the string '2026-13-01'"),
    (
        b'{"venue":"x"}',
        "venue: expected struct<country:string,k:int,bid:decimal(6,2)>, found the string 'x'",
    ),
    (b'{"venue":{"k":"bad"}}', "venue.k: expected int, found the string 'bad'"),
    (b'{"tags":[1,"x"]}', "tags[1]: expected int, found the string 'x'"),
    (b'{"amount":NaN}', "amount: expected decimal(6,2), found the number nan"),
    (b'{"amount":-Infinity}', "amount: expected decimal(6,2), found the number -inf"),
    (b'{"amount":1e999999999}', "amount: expected decimal(6,2), found the number inf"),
    (b'{"venue":{"bid":NaN}}', "venue.bid: expected decimal(6,2), found the number nan"),
    (
        b'{"bids":[{"bid":1},{"bid":NaN}]}',
        "bids[1].bid: expected decimal(6,2), found the number nan",
    ),
    (b'{"symbol":"A"}],"e":[{"symbol":"B"}', "not JSON: Extra data at column 15"),
    (b'{"symbol":"A"}],[{"symbol":"B"}', "not JSON: Extra data at column 15"),
    (b'{"symbol":"A"}]],"e":[[{"symbol":"B"}', "not JSON: Extra data at column 15"),
    (b'{"symbol":"A"}],[{"_penstock_end":1}]]} rest', "not JSON: Extra data at column 15"),
    (b'{"symbol":"\xff\xfe"}', "not valid UTF-8"),
    (b"\xff\xfe\x00", "not valid UTF-8"),
]


def test_good_json_records_become_events_and_missing_attributes_are_null(spark, schema, tmp_path):
    parsed = parse(lines(spark, tmp_path, [raw for raw, _ in GOOD]), schema, "json", {})
    rows = parsed.collect()
    assert [row[REASON] for row in rows] == [None] * len(GOOD)
    assert [row[RAW] for row in rows] == [None] * len(GOOD)
    assert [row.symbol for row in rows] == [symbol for _, symbol in GOOD]
    first = rows[0].asDict()
    assert (first["price"], first["n"], str(first["amount"]), first["flag"]) == (
        1.5,
        1,
        "1.25",
        True,
    )
    assert rows[1].at.isoformat() == "2026-01-01T00:00:00"
    assert (rows[2].venue.k, rows[2].tags) == (1, [1, None])


def test_every_bad_json_record_is_a_dead_letter_that_says_why(spark, schema, tmp_path):
    records = lines(spark, tmp_path, [raw for raw, _ in BAD])
    parsed = parse(records, schema, "json", {})
    letters = dead_letters(parsed, Records("json", schema), batch=7, now=1_700_000_000_000_000)
    rows = letters.collect()
    assert [(row.raw, row.reason) for row in rows if row.encoding == "utf-8"] == [
        (raw.decode(), reason) for raw, reason in BAD[:-2]
    ]
    assert [(row.encoding, row.reason) for row in rows[-2:]] == [("base64", "not valid UTF-8")] * 2
    assert {row.batch_id for row in rows} == {7}
    assert rows[0].time.isoformat() == "2023-11-14T22:13:20"


def test_no_line_tricks_the_parser(spark, tmp_path):
    """Lines of pieces of JSON, in any order: those are events that Python's parser takes for one object, no others."""
    schema = spark.createDataFrame([], "n int, a array<struct<n: int>>").schema
    rng = random.Random(SEED)
    drawn = {
        rng.choice(_EVENTS)
        + "".join(rng.choices(_PIECES, k=rng.randint(0, 4)))
        + rng.choice(_EVENTS)
        for _ in range(LINES)
    }
    records = sorted(line for line in drawn if line.strip())
    parsed = parse(lines(spark, tmp_path, [r.encode() for r in records]), schema, "json", {})
    reasons = [row[0] for row in parsed.select(REASON).collect()]
    found = [record for record, reason in zip(records, reasons, strict=True) if reason is None]
    assert found == [record for record in records if _is_event(record)]
    assert len(found) > 5


_EVENTS = ('{"n":1}', '{"a":[{"n":2}]}', "{}", "")
_PIECES = (
    "{", "}", "[", "]", ",", " ", "}]", "],", "]]", "]}", "[[", ":", '"n"', '"n":3', '"e":', '{"n":4}', '"a":[{"n":5}]',
    '],"x":[', '],"e":[', "],[", ']],"x":[[', ']],"e":[[', '[{"_penstock_end":1}]]}', '],"_penstock_end":1}',
)  # fmt: skip


def _is_event(line: str) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except json.JSONDecodeError:
        return False


def test_blank_lines_are_no_records(spark, schema, tmp_path):
    records = lines(spark, tmp_path, [b"", b"   ", b'{"symbol":"A"}', b"\t"])
    assert [row.symbol for row in parse(records, schema, "json", {}).collect()] == ["A"]


def test_csv_records_are_told_apart_in_the_same_way(spark, tmp_path):
    schema = spark.createDataFrame([], "symbol string, price double, n int").schema
    records = [
        (b"symbol,price,n", "header"),
        (b"A,1.5,1", None),
        (b"B,abc,1", "price: expected double, found 'abc'"),
        (b"C,1.5", "expected 3 values, found 2"),
        (b"D,1,2,extra", "expected 3 values, found 4"),
        (b"E,1,99999999999", "n: expected int, found '99999999999'"),
        (b'"F,1,2', "doesn't fit the schema struct<symbol:string,price:double,n:int>"),
        (b"G\xff,1,2", "not valid UTF-8"),
        (b"H,,", None),
        (b'"quoted, comma",1,2', None),
        (b"," * 25_000, "expected 3 values, found 25001"),
        (b"," * 300_000, "has 300,000 separators, inside quotes or not: maxColumns is 262,144"),
        (b'"' + b"," * 25_000 + b'",1,2', None),
    ]
    text = lines(spark, tmp_path, [raw for raw, _ in records])
    parsed = parse(text, schema, "csv", {"header": "true"})
    good = [row.symbol for row in parsed.where(f"{REASON} is null").collect()]
    assert good == ["A", "H", "quoted, comma", "," * 25_000]
    letters = dead_letters(parsed, Records("csv", schema), batch=0, now=0).collect()
    assert [row.reason for row in letters] == [r for _, r in records if r not in (None, "header")]


def test_a_record_without_a_value_is_a_dead_letter(spark, schema):
    """Kafka has such records: tombstones."""
    frame = spark.createDataFrame(
        [(None, "t/0/1"), ('{"symbol":"A"}', "t/0/2")], f"value string, {KEY} string"
    )
    rows = parse(frame, schema, "json", {}).collect()
    assert [(row[KEY], row[REASON]) for row in rows] == [("t/0/1", "no value"), ("t/0/2", None)]


def test_bad_records_do_not_stop_the_rest_of_their_batch(spark, tmp_path):
    subs = market()
    subs.subscribe("alice", "price > 0")
    write_events(
        tmp_path / "in",
        "1.json",
        [
            tick(1),
            '{"id":',
            {"id": "x"},
            b'{"symbol":"\xff"}',
            tick(2),
            "[]",
            {"id": 2**70},
            {"id": 3},
        ],
    )
    out: list[dict] = []
    metrics = run(pipeline(tmp_path, spark, subs, sink=CallableSink(out.append)))
    assert sorted(row["event"]["id"] for row in out) == [1, 2]
    assert (metrics.last.report.published, metrics.last.report.dead_letters) == (3, 5)
    letters = [
        json.loads(line)
        for file in (tmp_path / "checkpoint/penstock/dead-letters").glob("*/batch=*/*.json")
        for line in file.read_text().splitlines()
    ]
    assert len(letters) == 5
    assert {letter["batch_id"] for letter in letters} == {0}
    assert all(letter["reason"] and letter["raw"] and letter["time"] for letter in letters)


def test_a_dead_letter_sink_of_ones_own_gets_them(spark, tmp_path):
    letters: list[dict] = []
    write_events(tmp_path / "in", "1.json", ["oops"])
    run(pipeline(tmp_path, spark, market(), dead_letters=CallableSink(letters.append)))
    assert [letter["raw"] for letter in letters] == ["oops"]
    assert not (tmp_path / "checkpoint/penstock/dead-letters").exists()


def test_records_from_a_socket_are_parsed_too(spark, tmp_path):
    server = socket.create_server(("127.0.0.1", 0))
    stop = threading.Event()

    def serve() -> None:
        connection, _ = server.accept()
        with connection:
            connection.sendall(b'{"id": 1, "price": 2.0}\nbroken\n{"id": 2, "price": 3.0}\n')
            stop.wait(PATIENCE)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    subs = market()
    subs.subscribe("alice", "price > 0")
    out: list[dict] = []
    letters: list[dict] = []
    source = Source(
        "socket",
        schema="id bigint, price double, symbol string",
        options={"host": "127.0.0.1", "port": server.getsockname()[1]},
    )
    changes = {"sink": CallableSink(out.append), "dead_letters": CallableSink(letters.append)}
    with pipeline(
        tmp_path, spark, subs, events=source, trigger="100 ms", **changes
    ).start() as running:
        for _ in range(300):
            if len(out) + len(letters) >= 3:
                break
            assert not running.await_termination(1) or pytest.fail("it ended")
    stop.set()
    server.close()
    assert sorted(row["event"]["id"] for row in out) == [1, 2]
    assert [letter["raw"] for letter in letters] == ["broken"]


def test_the_rate_source_needs_no_schema(spark, tmp_path):
    subs = penstock.Subscriptions()
    subs.subscribe("alice", "value >= 0")
    out: list[dict] = []
    source = Source("rate-micro-batch", options={"rowsPerBatch": 5, "numPartitions": 1})
    piped = pipeline(tmp_path, spark, subs, events=source, sink=CallableSink(out.append))
    run(piped)
    assert {"timestamp", "value"} == set(out[0]["event"])
    assert [row["event"]["value"] for row in out[:5]] == [0, 1, 2, 3, 4]


def test_parquet_files_are_a_source(spark, tmp_path):
    spark.range(4).selectExpr("id", "'A' as symbol").write.parquet(str(tmp_path / "in"))
    subs = market()
    subs.subscribe("alice", "id >= 2 AND price IS NULL")  # the files have no price
    out: list[dict] = []
    source = Source("parquet", str(tmp_path / "in"), "id bigint, symbol string, price double")
    run(pipeline(tmp_path, spark, subs, events=source, sink=CallableSink(out.append)))
    assert sorted(row["event"]["id"] for row in out) == [2, 3]


def test_a_source_spark_does_not_have_says_which_package_brings_it(spark):
    source = Source(
        "kafka", schema="id bigint", options={"subscribe": "t", "kafka.bootstrap.servers": "h:1"}
    )
    with pytest.raises(PipelineError, match="spark-sql-kafka"):
        source.read(spark)


def test_a_folder_that_is_not_there_is_named(spark, tmp_path):
    with pytest.raises(PipelineError, match="nowhere"):
        Source("json", str(tmp_path / "nowhere"), "id bigint").read(spark)


def test_a_type_that_the_format_cannot_have_is_named(spark, tmp_path):
    with pytest.raises(SchemaError, match="can't hold 'venue' of type struct"):
        Source("csv", tmp_path, "venue struct<country: string>").read(spark)


def test_a_schema_that_spark_cannot_read_is_named(spark, tmp_path):
    with pytest.raises(SchemaError, match="not a schema"):
        Source("json", str(tmp_path), "id bigdecimal(").read(spark)


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"format": "json", "schema": "a int"}, "needs a path"),
        ({"format": "csv", "path": "x"}, "needs the schema"),
        ({"format": "socket", "record": "xml"}, "record is one of json, csv"),
        (
            {"format": "json", "path": "x", "schema": "a int", "options": {"multiLine": True}},
            "multiLine",
        ),
        ({"format": "json", "pth": "x"}, "pth"),
    ],
)
def test_a_description_that_cannot_work_is_refused_before_spark_sees_it(fields, named):
    with pytest.raises(PipelineError, match=named):
        source_of(fields)


def test_a_batch_dataframe_is_no_source(spark, tmp_path):
    with pytest.raises(PipelineError, match=r"penstock\.match"):
        Pipeline(
            events=spark.range(3),
            subscriptions=market(),
            sink=CallableSink(print),
            checkpoint=tmp_path,
        ).start()
