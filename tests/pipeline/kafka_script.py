"""A pipeline from a Kafka topic, stopped, started again and replayed; into a topic, whose broker is killed meanwhile.

A page of the guide runs at the end. Part of jars_script.py.
"""

import contextlib
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from tests.pages import GUIDE, run_page
from tests.shell import shell_in, spark_in
from tests.sizes import PATIENCE

from penstock.delivery import CallableSink, KafkaSink
from penstock.delivery.sinks import Batch
from penstock.delivery.task_rows import Batches
from penstock.pipeline import Source
from penstock.pipeline.pins import query_id

from .elsewhere import message_of
from .scenes import SCHEMA, delivered, forget_commit, market, pipeline, run, tick

TOPIC = "ticks"
PATIENT = {
    name: str(1000 * PATIENCE)
    for name in ("kafka.delivery.timeout.ms", "kafka.max.block.ms", "kafka.request.timeout.ms")
}
IN_ORDER = {"kafka.max.in.flight.requests.per.connection": "1"}
"""Of what isn't sent by our sink: see `kafka_sink`."""


@dataclass(frozen=True)
class HeldKafkaSink(KafkaSink):
    """A topic; a task has sent half of its records when it is held."""

    held: str = ""

    def write(self, rows: Any, batch: Batch) -> bool:
        held = Path(self.held)

        def send_half(batches: Batches) -> Iterator[pa.RecordBatch]:
            for some in batches:
                yield some.slice(0, some.num_rows // 2)
                while held.exists():
                    held.with_suffix(".now").touch()
                    time.sleep(0.02)
                yield some.slice(some.num_rows // 2)

        return super().write(rows.mapInArrow(send_half, rows.schema), batch)


def find_out(folder: Path, spark: SparkSession, address: str, database: str) -> dict[str, Any]:
    """What the tests look at."""

    def send(*records: tuple) -> None:
        """Put (partition, value) into the topic; offsets follow the order given."""
        rows = [(p, v.encode() if isinstance(v, str) else v) for p, v in records]
        frame = spark.createDataFrame(rows, "partition int, value binary").coalesce(1)
        frame.write.format("kafka").options(**broker, **PATIENT, **IN_ORDER, topic=TOPIC).save()

    broker = {"kafka.bootstrap.servers": address}
    options = {**broker, "subscribe": TOPIC, "startingOffsets": "earliest"}
    source = Source("kafka", schema=SCHEMA, options=options)
    subs = market()
    subs.subscribe("alice", "price > 5")
    subs.subscribe("bob", "symbol = 'B'")

    def deliver(where: Path, **changes) -> list:
        where.mkdir(exist_ok=True)
        metrics = run(pipeline(where, spark, subs, events=source, **changes))
        return [
            (b.report.batch, b.report.replayed, b.report.published, b.report.dead_letters)
            for b in metrics.batches
        ]

    calls: list[dict] = []
    called = {"where": folder / "calls", "sink": CallableSink(calls.append)}
    same = json.dumps(tick(1, price=6))
    send(
        *((0, same), (0, "oops"), (0, same), (0, json.dumps(tick(2, "B", 7)))),
        *((1, json.dumps(tick(3))), (1, '{"id": "x"}'), (1, b"\xff"), (1, None)),
        (1, json.dumps(tick(4, "B"))),
    )
    runs = [deliver(folder)]
    call_runs = [deliver(**called)]
    send((0, json.dumps(tick(5, "B"))), (1, '{"id": 6'), (1, json.dumps(tick(7))))
    runs += [deliver(folder), deliver(folder)]
    forget_commit(folder, 1)
    runs.append(deliver(folder))
    forget_commit(folder / "calls", 0)
    first = [*calls]
    call_runs.append(deliver(**called))
    alerts = KafkaSink(address, "alerts")
    alert_runs = [deliver(folder / "alerts", sink=alerts)]
    forget_commit(folder / "alerts", 0)
    (folder / "held").touch()
    held = HeldKafkaSink(address, "alerts", PATIENT, str(folder / "held"))
    alert_runs.append(deliver(folder / "alerts", sink=held))
    written = (
        spark.read.format("kafka")
        .options(**broker, subscribe="alerts", includeHeaders="true")
        .load()
        .selectExpr("cast(key as string)", "cast(value as string)", "headers")
        .collect()
    )
    letters = (folder / "checkpoint/penstock/dead-letters").glob("*/batch=*/*.json")
    dead = [json.loads(line) for file in letters for line in file.read_text().splitlines()]
    guide = message_of(lambda: run_guide(folder / "guide", spark, address, database))
    return {
        "guide": guide,
        "alerts": sorted(
            (row.key, row.value, [(h.key, bytes(h.value).decode()) for h in row.headers])
            for row in written
        ),
        "alert_runs": alert_runs,
        "runs": runs,
        "delivered": delivered(folder / "out"),
        "dead": sorted((d["batch_id"], d["raw"], d["encoding"], d["reason"]) for d in dead),
        "query": query_id(folder / "calls/checkpoint/events"),
        "call_runs": call_runs,
        "first": [(c["event"]["id"], c["subscription"], c["notification_id"]) for c in first],
        "again": [
            (c["event"]["id"], c["subscription"], c["notification_id"]) for c in calls[len(first) :]
        ],
    }


def run_guide(folder: Path, spark: SparkSession, address: str, database: str) -> None:
    """The guide's page of Kafka. Kafka's own programs aren't among its jars: these two speak to the same broker."""
    folder.mkdir()
    broker = {"kafka.bootstrap.servers": address}

    def produce(words: list[str]) -> None:
        rows = [(line.encode(),) for line in sys.stdin.read().splitlines()]
        topic = words[words.index("--topic") + 1]
        records = spark.createDataFrame(rows, "value binary")
        records.write.format("kafka").options(**broker, **PATIENT, **IN_ORDER, topic=topic).save()

    def consume(words: list[str]) -> None:
        topic = words[words.index("--topic") + 1]
        records = spark.read.format("kafka").options(**broker, subscribe=topic).load()
        for row in records.collect():
            print(row.key.decode(), row.value.decode(), sep="\t")

    places = {
        "localhost:9092": address,
        "postgresql://localhost/shop": database,
        "topic alerts": "topic guide-alerts",
        "topic: alerts": "topic: guide-alerts",
    }
    with contextlib.chdir(folder), spark_in(folder, spark), shell_in(folder) as shell:
        shell.provide("kafka-console-producer.sh", produce)
        shell.provide("kafka-console-consumer.sh", consume)
        run_page(GUIDE / "saved-searches.md", shell, places)
