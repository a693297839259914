"""Who matches on Spark: Spark's own broadcast join, and Penstock. Both on all cores that the session has.

Events and rules are cached in Spark beforehand, so that the clock sees matching and not the way to Spark.
"""

import tempfile
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from benchmarks.matching.measure import STEP
from benchmarks.workloads import Workload
from penstock.base.errors import SubscriptionErrors
from penstock.matching import Changes, Rows, SnapshotRef, SnapshotStore

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class FrozenSource:
    """The subscriptions of a workload as a registry that never changes."""

    def __init__(self, workload: Workload) -> None:
        self._rows = workload.rows
        self.identity = f"bench:{workload.name}:{len(workload.rows)}"

    def sequence(self) -> int:
        return self._rows.sequence

    def active(self, now: int | None = None) -> Rows:
        return self._rows

    def changes(self, since: int) -> Changes:
        return Changes(self._rows.sequence, Rows.of([]), np.empty(0, np.int64))


def publish(workload: Workload, folder: str, engine: str) -> SnapshotRef:
    """A snapshot of the workload's subscriptions, for workers to map."""
    ref, errors = SnapshotStore(folder, engine).publish(FrozenSource(workload), workload.schema)
    if errors:
        raise SubscriptionErrors(errors)
    return ref


def cached(spark: "SparkSession", table: pa.Table, partitions: int | None = None) -> "DataFrame":
    """An Arrow table as a DataFrame in Spark's memory."""
    frame = spark.createDataFrame(table)
    frame = (frame if partitions is None else frame.repartition(partitions)).cache()
    frame.count()
    return frame


class _OnSpark:
    step = STEP * STEP  # a job has a price: fewer, longer steps
    has_queries = True
    warm_ups = 4

    def __init__(self, spark: "SparkSession") -> None:
        self.spark = spark
        self._partitions = int(spark.conf.get("spark.sql.shuffle.partitions") or 2)
        self._frame: DataFrame | None = None

    def _load(self, events: pa.Table) -> "DataFrame":
        self._unload()
        self._frame = cached(self.spark, events, self._partitions)
        return self._frame

    def _unload(self) -> None:
        if self._frame is not None:
            self._frame.unpersist(blocking=True)
            self._frame = None


class SparkJoinContestant(_OnSpark):
    """A broadcast join of events with rules: what a Spark user does today."""

    name = "spark broadcast join"

    def __init__(self, workload: Workload, spark: "SparkSession") -> None:
        super().__init__(spark)
        join = workload.join()
        self._query, self._events = join.query, join.events
        self._rules = []
        for name, table in join.rules.items():
            frame = cached(spark, table)
            frame.createOrReplaceTempView(name)
            self._rules.append(frame)

    def load(self, events: pa.RecordBatch) -> None:
        self._load(self._events(events)).createOrReplaceTempView("events")

    def matches(self) -> int:
        return int(self.spark.sql(self._query).collect()[0].n)

    def close(self) -> None:
        self._unload()
        for frame in self._rules:
            frame.unpersist(blocking=True)


class SparkMatchContestant(_OnSpark):
    """`penstock.match`, with the engine that it picks by itself unless another is asked for."""

    name = "penstock on spark"

    def __init__(self, workload: Workload, spark: "SparkSession", engine: str = "auto") -> None:
        super().__init__(spark)
        self._folder = tempfile.TemporaryDirectory(prefix="penstock-bench-")
        self._ref = publish(workload, self._folder.name, engine)
        self._engine = engine

    def load(self, events: pa.RecordBatch) -> None:
        self._load(pa.Table.from_batches([events]))

    def matches(self) -> int:
        from pyspark.sql import functions as F  # noqa: N812

        from penstock.pipeline import match

        assert self._frame is not None
        matched = match(self._frame, self._ref, engine=self._engine)
        return int(matched.agg(F.sum(F.size("subscriptions")).alias("n")).collect()[0].n)

    def close(self) -> None:
        self._unload()
        self._folder.cleanup()
