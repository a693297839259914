"""What can match events with subscriptions: our engines, a database's join, Spark's own join, and Penstock on Spark.

Each contestant is set up outside the clock, then given batches of events until it has worked long enough to be
measured. It answers with the number of matches, which must be the same for all.
"""

from abc import abstractmethod
from typing import Protocol

import duckdb
import pyarrow as pa

from benchmarks.workloads import Workload
from penstock.matching import Matcher, compile_plan


class Contestant(Protocol):
    name: str

    @abstractmethod
    def matches(self, events: pa.RecordBatch) -> int:
        """Match these events, all of them, and say how many matches there were."""


class EngineContestant:
    """One of our engines in this process, on one core."""

    def __init__(self, workload: Workload, engine: str) -> None:
        self.name = f"penstock {engine}"
        plan, errors = compile_plan(workload.rows, workload.schema)
        assert not errors
        self.matcher = Matcher(plan, engine=engine)
        self.bytes_per_subscription = self.matcher.stats().bytes_per_subscription

    def matches(self, events: pa.RecordBatch) -> int:
        return len(self.matcher.match_batch(events).values)


class DuckContestant:
    """A join of events with rules in DuckDB, which uses both cores."""

    name = "duckdb join"

    def __init__(self, workload: Workload) -> None:
        self.connection = duckdb.connect()
        self.connection.register("rules_arrow", workload.rules)
        self.connection.execute("CREATE TABLE r AS SELECT * FROM rules_arrow")
        self.query = f"SELECT count(*) FROM events e JOIN r ON {workload.condition}"

    def matches(self, events: pa.RecordBatch) -> int:
        self.connection.register("events", pa.Table.from_batches([events]))
        ((count,),) = self.connection.execute(self.query).fetchall()
        return count


class SparkJoinContestant:
    """A broadcast join of events with rules: what a Spark user does today. Both cores."""

    name = "spark broadcast join"

    def __init__(self, workload: Workload, spark) -> None:
        self.spark = spark
        spark.createDataFrame(workload.rules).createOrReplaceTempView("rules")
        self.query = f"SELECT /*+ BROADCAST(r) */ count(*) AS n FROM events e JOIN rules r ON {workload.condition}"

    def matches(self, events: pa.RecordBatch) -> int:
        frame = self.spark.createDataFrame(pa.Table.from_batches([events])).repartition(2)
        frame.createOrReplaceTempView("events")
        return self.spark.sql(self.query).collect()[0].n


class SparkMatchContestant:
    """`penstock.match` on local Spark. Both cores."""

    name = "penstock on spark"

    def __init__(self, workload: Workload, spark, folder: str) -> None:
        import penstock

        self.spark = spark
        self.folder = folder
        self.subscriptions = penstock.Subscriptions()
        self.subscriptions.load(
            pa.table(
                {
                    "id": workload.rows.ids,
                    "subscriber": workload.rows.subscribers,
                    "filter": workload.rows.filters,
                }
            ),
            lease="forever",
            progress=False,
        )

    def matches(self, events: pa.RecordBatch) -> int:
        from pyspark.sql import functions as F  # noqa: N812

        import penstock

        frame = self.spark.createDataFrame(pa.Table.from_batches([events])).repartition(2)
        matched = penstock.match(frame, self.subscriptions, snapshots=self.folder)
        return matched.agg(F.sum(F.size("subscriptions")).alias("n")).collect()[0].n
