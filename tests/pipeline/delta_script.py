"""A pipeline into a Delta table, in two processes: the first is killed before Spark commits what the table has.

Run by test_delta.py.
"""

import os
import signal
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

from penstock.delivery import DeltaSink, Sink
from penstock.delivery.sinks import Batch
from penstock.pipeline import local_session

from .elsewhere import message_of, tell
from .scenes import market, pipeline, run, tick, write_events


class DeadlySink(DeltaSink):
    """A table; the process dies, JVM and all, when it has a micro-batch."""

    def write(self, rows: Any, batch: Batch) -> None:
        super().write(rows, batch)
        if batch.id == 1:
            os.killpg(0, signal.SIGKILL)


def main(folder: Path, life: str) -> None:
    spark_version = ".".join(version("pyspark").split(".")[:2])
    package = f"io.delta:delta-spark_{spark_version}_2.13:{version('delta-spark')}"
    sessions: list = []
    config = {
        "spark.jars.packages": package,
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.databricks.delta.snapshotPartitions": "1",
    }
    problem = message_of(lambda: sessions.append(local_session("local[2]", config=config)))
    if problem is not None:
        tell(skipped=f"{package} can't be had here: {problem.splitlines()[0]}")
        return
    spark = sessions[0]
    table = folder / "table"
    subs = market()
    subs.subscribe("alice", "price > 0")

    def deliver(sink: Sink) -> list:
        dead = DeltaSink(folder / "dead")
        metrics = run(pipeline(folder, spark, subs, sink=sink, dead_letters=dead))
        return [
            (b.report.batch, b.report.replayed, b.report.published, b.report.dead_letters)
            for b in metrics.batches
        ]

    if life == "first":
        write_events(folder / "in", "1.json", [tick(1), tick(2), "oops"])
        tell(first=deliver(DeltaSink(table)))
        write_events(folder / "in", "2.json", [tick(3)])
        deliver(DeadlySink(table))
    write_events(folder / "in", "3.json", [tick(4)])
    runs = deliver(DeltaSink(table))
    read = spark.read.format("delta")
    tell(
        runs=runs,
        events=sorted(row.event.id for row in read.load(str(table)).collect()),
        dead=[row.raw for row in read.load(str(folder / "dead")).collect()],
        versions=spark.sql(f"DESCRIBE HISTORY delta.`{table}`").count(),
    )
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
