"""What Spark costs around an engine: `penstock.match` on Spark against the same engine in one process.

A million events, in Spark's memory beforehand, are matched and written nowhere (the `noop` sink reads all and keeps
nothing). The same events, as Arrow batches of the size that Spark makes, go through the same snapshot in this process,
on one thread. With two cores, no overhead at all would be a ratio of 2.
"""

import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numba
import pyarrow as pa

from benchmarks.benchmark import Benchmark, Section, Step, unseen
from benchmarks.matching.on_spark import cached, publish
from benchmarks.matching.peers import SPARK_AT_LEAST
from benchmarks.sheets import Sheet
from benchmarks.workloads import WORKLOADS
from penstock.matching import open_matcher

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_RUNS = 3
_PARTITIONS_PER_CORE = 4  # so that one that is late doesn't keep a core waiting for long
_BATCH = "spark.sql.execution.arrow.maxRecordsPerBatch"


@dataclass(frozen=True, slots=True)
class Overhead:
    """Seconds for the same events, on Spark and without it."""

    workload: str
    subscriptions: int
    events: int
    cores: int
    spark_seconds: float
    process_seconds: float

    @property
    def ratio(self) -> float:
        """Events per second on Spark, by those of one process."""
        return self.process_seconds / self.spark_seconds

    @property
    def is_reached(self) -> bool:
        return self.ratio >= SPARK_AT_LEAST

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "ratio": self.ratio}


def measure_overhead(
    spark: "SparkSession",
    name: str,
    subscriptions: int,
    events: int,
    engine: str = "auto",
    step: Step = unseen,
) -> Overhead:
    """The best of a few runs of each."""
    step(f"{name}: drawing {subscriptions:,} subscriptions and {events:,} events")
    workload = WORKLOADS[name](subscriptions, events)
    cores = spark.sparkContext.defaultParallelism
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        step(f"{name}: compiling")
        ref = publish(workload, folder, engine)
        step(f"{name}: taking the events to Spark")
        table = pa.Table.from_batches([workload.events])
        frame = cached(spark, table, _PARTITIONS_PER_CORE * cores)

        def on_spark() -> None:
            from penstock.pipeline import match

            matched = match(frame, ref, engine=engine)
            matched.write.format("noop").mode("overwrite").save()

        step(f"{name}: on Spark")
        on_spark_seconds = _best(on_spark)
        frame.unpersist(blocking=True)
        numba.set_num_threads(1)
        matcher = open_matcher(ref, engine)
        batches = table.to_batches(max_chunksize=int(spark.conf.get(_BATCH) or 10_000))

        def in_process() -> None:
            for batch in batches:
                matcher.match_batch(batch)

        step(f"{name}: in one process")
        return Overhead(name, subscriptions, events, cores, on_spark_seconds, _best(in_process))


def overhead_sheet(found: Sequence[Overhead]) -> Sheet:
    """The ratios, and whether they are what they should be."""
    return Sheet(
        "Spark around the engine",
        (
            "workload",
            "subscriptions",
            "events",
            "events/s, one process",
            "events/s, Spark",
            "cores",
            "ratio",
            "verdict",
        ),
        tuple(
            (
                o.workload,
                f"{o.subscriptions:,}",
                f"{o.events:,}",
                f"{o.events / o.process_seconds:,.0f}",
                f"{o.events / o.spark_seconds:,.0f}",
                str(o.cores),
                f"{o.ratio:.2f}",
                f"{'reached' if o.is_reached else 'missed'}, ≥ {SPARK_AT_LEAST}",
            )
            for o in found
        ),
    )


def _best(run: Callable[[], None]) -> float:
    run()  # starts workers, maps the snapshot, compiles kernels
    taken = []
    for _ in range(_RUNS):
        began = time.perf_counter()
        run()
        taken.append(time.perf_counter() - began)
    return min(taken)


@dataclass(frozen=True, slots=True)
class Work:
    """Some workloads, so large, behind an engine."""

    spark: "SparkSession"
    workloads: Sequence[str]
    subscriptions: int
    events: int
    engine: str


def _spark(work: Work, step: Step) -> Section:
    sizes = work.subscriptions, work.events
    found = [
        measure_overhead(work.spark, name, *sizes, work.engine, step) for name in work.workloads
    ]
    return Section("spark", found, [overhead_sheet(found)])


BENCHMARK = Benchmark[Work](
    "spark",
    "Spark around the engine",
    "`ratio`: events per second on Spark, by those of one process.",
    {"spark": _spark},
    prefix="",
)
