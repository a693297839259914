"""A pipeline into a Delta table, started again before Spark committed what the table has. Part of jars_script.py.

In `make test` Spark is made to believe that it crashed; in `make test-long` the driver is killed, and what comes after
runs in a process of its own: the story has a first and a second half.
"""

import os
import signal
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from tests.sizes import LONG

from penstock.delivery import DeltaSink, Sink
from penstock.delivery.sinks import Batch
from penstock.pipeline import local_session

from .elsewhere import tell
from .scenes import forget_commit, market, pipeline, run, tick, write_events

CONFIG = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "1",
}


Run = tuple[int, bool, int, int]
"""Number, whether it is run again, events published, dead letters."""


def package() -> str:
    """Delta's jar, for this Spark."""
    spark_version = ".".join(version("pyspark").split(".")[:2])
    return f"io.delta:delta-spark_{spark_version}_2.13:{version('delta-spark')}"


class DeadlySink(DeltaSink):
    """A table; the process dies, JVM and all, when it has a micro-batch."""

    def write(self, rows: Any, batch: Batch) -> None:
        super().write(rows, batch)
        if batch.id == 1:
            os.killpg(0, signal.SIGKILL)


def begin(folder: Path, spark: SparkSession) -> list[Run]:
    """Two micro-batches, of which Spark knows one; what the first one did."""
    write_events(folder / "in", "1.json", [tick(1), tick(2), "oops"])
    first = _deliver(folder, spark, DeltaSink(folder / "table"))
    write_events(folder / "in", "2.json", [tick(3)])
    if LONG > 1:
        tell(delta_first=first)
        _deliver(folder, spark, DeadlySink(folder / "table"))
    _deliver(folder, spark, DeltaSink(folder / "table"))
    forget_commit(folder, 1)
    return first


def go_on(folder: Path, spark: SparkSession) -> dict[str, Any]:
    """The second again, and a third."""
    write_events(folder / "in", "3.json", [tick(4)])
    runs = _deliver(folder, spark, DeltaSink(folder / "table"))
    read = spark.read.format("delta")
    return {
        "runs": runs,
        "events": sorted(row.event.id for row in read.load(str(folder / "table")).collect()),
        "dead": [row.raw for row in read.load(str(folder / "dead")).collect()],
        "versions": spark.sql(f"DESCRIBE HISTORY delta.`{folder}/table`").count(),
    }


def _deliver(folder: Path, spark: SparkSession, sink: Sink) -> list[Run]:
    subs = market()
    subs.subscribe("alice", "price > 0")
    dead = DeltaSink(folder / "dead")
    metrics = run(pipeline(folder, spark, subs, sink=sink, dead_letters=dead))
    return [
        (b.report.batch, b.report.replayed, b.report.published, b.report.dead_letters)
        for b in metrics.batches
    ]


def main(folder: Path) -> None:
    """The second half, in a process of its own."""
    spark = local_session("local[2]", config={"spark.jars.packages": package(), **CONFIG})
    tell(delta=go_on(folder, spark))
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
