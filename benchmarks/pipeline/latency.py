"""How long an event takes from its publication to the sink, in a pipeline that has half as much to do as it could.

A file of events is published every quarter of a second, each event stamped with its time. How many: half of what the
pipeline does when everything is there beforehand, which is measured first, in the same run.
"""

import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.benchmark import Section, Step
from benchmarks.matching.on_spark import FrozenSource
from benchmarks.pipeline.throughput import Scale, Trial
from benchmarks.sheets import Sheet, format_verdict
from benchmarks.streams import WARM_UP
from benchmarks.workloads import WORKLOADS, Workload
from penstock.delivery import FileSink
from penstock.pipeline import BatchMetrics, Metrics, Pipeline, RunningPipeline
from penstock.registry.kinds import FILTER

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TRIGGER = 1.0  # seconds
AT_MOST = 1.2  # times the trigger, at the median
_EVERY = 0.25  # seconds between two files
_TIME = "published_at"


@dataclass(frozen=True, slots=True)
class Waited:
    """Milliseconds from publication to the sink."""

    workload: str
    subscriptions: int
    events_per_second: float
    p50: float
    p95: float
    p99: float

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def measure(
    spark: "SparkSession",
    workload: str,
    subscriptions: Sequence[int],
    seconds: float,
    step: Step,
) -> Section:
    """The latency at half load, for some numbers of subscriptions."""
    found = []
    for count in subscriptions:
        step(f"{workload}, {count:,} subscriptions: how much it can do")
        drawn = WORKLOADS[workload](count, 100_000)
        with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
            rate = Trial(spark, drawn, Path(folder), Scale(2, 100_000)).run("sink").rate / 2
        step(f"{workload}, {count:,} subscriptions: latency at {rate:,.0f} events a second")
        with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
            metrics = _publish(spark, drawn, Path(folder), rate, seconds)
        found.append(
            Waited(workload, count, rate, **metrics.summary()["kinds"][FILTER.name]["latency_ms"])
        )
    return Section("latency", found, [_sheet(found)])


def _publish(
    spark: "SparkSession", workload: Workload, folder: Path, rate: float, seconds: float
) -> Metrics:
    """Publish at this rate for some seconds, and until there are figures of micro-batches after the first ones."""
    (folder / "in").mkdir()
    events = pa.Table.from_batches([workload.events])
    _write(folder, 0, events.slice(0, 1))
    schema = spark.read.parquet(str(folder / "in")).schema
    running = Pipeline(
        events=spark.readStream.schema(schema).parquet(str(folder / "in")),
        subscriptions=FrozenSource(workload),
        sink=FileSink(str(folder / "out")),
        checkpoint=folder / "checkpoint",
        event_time=_TIME,
        trigger=f"{TRIGGER:g} second",
    ).start()
    with running:
        running.process_available()
        begin, number = time.monotonic(), 0
        while time.monotonic() - begin < seconds or len(_later(running)) < 1:
            number += 1
            size = min(int(rate * _EVERY), events.num_rows)
            _write(folder, number, events.slice(0, size))
            time.sleep(max(0.0, begin + number * _EVERY - time.monotonic()))
        running.process_available()
        later = Metrics()
        for one in _later(running):
            later.add(one)
        return later


def _later(running: RunningPipeline) -> list[BatchMetrics]:
    """The micro-batches after the one event that came first, and those of the warm-up."""
    return [one for one in running.metrics.batches if one.report.published][1 + WARM_UP :]


def _write(folder: Path, number: int, events: pa.Table) -> None:
    stamp = pa.repeat(pa.scalar(datetime.now(UTC), pa.timestamp("us", "UTC")), events.num_rows)
    hidden = folder / f"{number:05}"
    pq.write_table(events.append_column(_TIME, stamp), hidden)
    hidden.rename(folder / "in" / f"{number:05}.parquet")


def _sheet(found: Sequence[Waited]) -> Sheet:
    rows = [
        (
            one.workload,
            f"{one.subscriptions:,}",
            f"{one.events_per_second:,.0f}",
            *[f"{ms:,.0f}" for ms in (one.p50, one.p95, one.p99)],
            format_verdict(one.p50 <= AT_MOST * 1000 * TRIGGER, one.p50, AT_MOST * 1000 * TRIGGER),
        )
        for one in found
    ]
    columns = ("workload", "subscriptions", "events/s", "p50 ms", "p95 ms", "p99 ms", "goal")
    remark = f"half load; the trigger is {TRIGGER:g} s, the goal {AT_MOST} times that at the median"
    return Sheet("From publication to the sink", columns, tuple(rows), (remark,))
