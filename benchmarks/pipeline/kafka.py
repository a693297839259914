"""Events from a topic of Kafka through a whole pipeline, as JSON: read, checked, matched, written as files."""

import tempfile
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from benchmarks.benchmark import Section, Step
from benchmarks.matching.on_spark import FrozenSource
from benchmarks.pipeline.throughput import Passed, Scale
from benchmarks.sheets import Sheet
from benchmarks.streams import WARM_UP, measure_batches
from benchmarks.workloads import WORKLOADS, Workload
from penstock.delivery import FileSink
from penstock.pipeline import Pipeline, Source

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PARTITIONS = 2


def measure(
    spark: "SparkSession", servers: str, workload: str, subscriptions: Sequence[int], scale: Scale, step: Step
) -> Section:  # fmt: skip
    """One workload, at some numbers of subscriptions."""
    found = []
    for count in subscriptions:
        step(f"{workload}, {count:,} subscriptions, from Kafka")
        drawn = WORKLOADS[workload](count, scale.events)
        topic = _publish(spark, servers, drawn, WARM_UP + scale.batches)
        with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
            found.append(_run(spark, servers, topic, drawn, Path(folder), scale))
    rows = [
        (one.workload, f"{one.subscriptions:,}", f"{one.rate:,.0f}", f"{one.notifications:,}")
        for one in found
    ]
    columns = ("workload", "subscriptions", "events/s", "notifications")
    return Section("kafka", found, [Sheet("Events from Kafka", columns, tuple(rows))])


def _publish(spark: "SparkSession", servers: str, workload: Workload, times: int) -> str:
    """Put the events into a topic of their own, so many times."""
    topic = f"penstock-{uuid.uuid4().hex[:8]}"
    events = spark.createDataFrame(pa.Table.from_batches([workload.events]))
    records = events.selectExpr("to_json(struct(*)) AS value").repartition(_PARTITIONS)
    for _ in range(times):
        writer = records.write.format("kafka").option("kafka.bootstrap.servers", servers)
        writer.option("topic", topic).save()
    return topic


def _run(
    spark: "SparkSession", servers: str, topic: str, workload: Workload, folder: Path, scale: Scale
) -> Passed:
    options = {
        "kafka.bootstrap.servers": servers,
        "subscribe": topic,
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": str(scale.events),
        "minPartitions": str(spark.sparkContext.defaultParallelism),
    }
    schema = spark.createDataFrame(pa.Table.from_batches([workload.events.slice(0, 1)])).schema
    running = Pipeline(
        events=Source("kafka", schema=schema, options=options),
        subscriptions=FrozenSource(workload),
        sink=FileSink(str(folder / "out")),
        checkpoint=folder / "checkpoint",
        trigger="available-now",
        spark=spark,
    ).start()
    running.await_termination()
    measured = measure_batches(running.queries["events"])
    told = sum(one.report.notifications or 0 for one in running.metrics.batches[WARM_UP:])
    return Passed(
        workload.name, len(workload.rows), "from Kafka", measured.rows, told, measured.seconds
    )
