"""The driver that test_crash.py kills: a pipeline from files to files, with a SQLite registry that others change.

It may be killed at any moment from outside. To be sure that the most delicate moments are among them, the sink can be
told to kill its driver itself: right after a micro-batch has been pinned, or when it has been written but Spark
doesn't know yet.
"""

import os
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from penstock.pipeline import FileSink, Pipeline, Sink, Source, local_session

SCHEMA = "id bigint, symbol string, price double, size int"


@dataclass(frozen=True)
class DeadlySink:
    """A file sink that kills its driver, JVM and all, at a chosen moment of a chosen micro-batch."""

    sink: FileSink
    moment: str
    batch: int

    @property
    def guarantee(self):
        return self.sink.guarantee

    def check(self, spark, columns):
        self.sink.check(spark, columns)

    def write(self, rows, batch):
        self.die(batch, "pinned")
        ran = self.sink.write(rows, batch)
        self.die(batch, "written")
        return ran

    def die(self, batch, moment):
        if (moment, batch.id) == (self.moment, self.batch):
            os.killpg(0, signal.SIGKILL)


def sink(folder: Path) -> FileSink:
    return FileSink(folder / "out")


def pipeline(folder: Path, spark: SparkSession, trigger: str, sink: Sink) -> Pipeline:
    return Pipeline(
        source=Source("json", str(folder / "in"), SCHEMA, options={"maxFilesPerTrigger": 2}),
        subscriptions=f"sqlite:///{folder}/subs.db",
        sink=sink,
        dead_letter=FileSink(folder / "dead", "json"),
        checkpoint=folder / "checkpoint",
        trigger=trigger,
        metrics=folder / "metrics.jsonl",
        spark=spark,
    )


def main(folder: Path, moment: str, batch: int) -> None:
    spark = local_session("local[1]")
    deadly = DeadlySink(sink(folder), moment, batch)
    running = pipeline(folder, spark, "50 ms", deadly).start()
    while running.is_active:
        time.sleep(0.1)
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
