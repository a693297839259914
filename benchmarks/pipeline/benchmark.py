"""The experiments on whole pipelines."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks import settings
from benchmarks.benchmark import Benchmark, Section, Step
from benchmarks.joins import on_spark as changes_on_spark
from benchmarks.pipeline import documents, kafka, latency, payload, throughput
from penstock.base.errors import PenstockError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class Work:
    """On which Spark, what is subscribed, and how many events a micro-batch has."""

    spark: "SparkSession"
    workloads: Sequence[str]
    subscriptions: Sequence[int]
    events: int
    kafka: str | None = None  # servers
    payload: int = settings.PIPELINE_PAYLOAD  # bytes of an event that no filter looks at


def _throughput(work: Work, step: Step) -> Section:
    scale = throughput.Scale(settings.PIPELINE_BATCHES, work.events)
    return throughput.measure(work.spark, work.workloads, work.subscriptions, scale, step)


def _latency(work: Work, step: Step) -> Section:
    return latency.measure(
        work.spark, work.workloads[0], work.subscriptions, settings.PIPELINE_SECONDS, step
    )


def _payload(work: Work, step: Step) -> Section:
    scale = throughput.Scale(settings.PIPELINE_BATCHES, work.events)
    return payload.measure(
        work.spark, work.workloads, work.subscriptions, scale, work.payload, step
    )


def _changes(work: Work, step: Step) -> Section:
    sizes = [min(size, settings.JOIN_SUBSCRIPTIONS) for size in work.subscriptions]
    return changes_on_spark.measure(work.spark, sorted(set(sizes)), step)


def _documents(work: Work, step: Step) -> Section:
    sizes = [min(size, settings.PIPELINE_PATTERNS) for size in work.subscriptions]
    return documents.measure(work.spark, sorted(set(sizes)), settings.PIPELINE_DOCUMENTS, step)


def _kafka(work: Work, step: Step) -> Section:
    if work.kafka is None:
        raise PenstockError(
            "events from Kafka need a broker: --kafka host:port, and --jars of Spark's connector"
        )
    scale = throughput.Scale(settings.PIPELINE_BATCHES, work.events)
    return kafka.measure(work.spark, work.kafka, work.workloads[0], work.subscriptions, scale, step)


BENCHMARK: Benchmark[Work] = Benchmark(
    name="pipeline",
    title="Whole pipelines",
    about="Files in, files out, through Structured Streaming.",
    experiments={
        "throughput": _throughput,
        "payload": _payload,
        "latency": _latency,
        "changes": _changes,
        "documents": _documents,
    },
    on_request={"kafka": _kafka},
)
