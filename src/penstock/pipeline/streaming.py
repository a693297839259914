"""`Pipeline`: events in, notifications out, for as long as it runs.

A pipeline is a description; `start` turns it into a Spark streaming query whose every micro-batch goes through
`micro_batches.MicroBatches`. It follows the registry: a change takes effect in the next micro-batch.
"""

import uuid
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from penstock.base.errors import PipelineError
from penstock.matching import check_engine
from penstock.matching.subscription_rows import SubscriptionSource
from penstock.operators.define import Operators, OperatorsLike
from penstock.operators.strategies import DEFAULT_STRATEGY, check_strategy
from penstock.pipeline.dead_letters import Records
from penstock.pipeline.frames import check_columns, operators_of
from penstock.pipeline.metrics import ConnectReports, Listener, LocalReports, Metrics, Reports
from penstock.pipeline.micro_batches import ADDED, MicroBatches
from penstock.pipeline.outlets import Outlet
from penstock.pipeline.session import is_connect, local_session
from penstock.pipeline.sinks import Sink
from penstock.pipeline.sources import (
    CARRIERS,
    REASON,
    Source,
    SparkSchema,
    event_schema,
    most_values,
    separator_of,
    source_of,
)
from penstock.pipeline.streaming_queries import RunningQuery, StartedQuery
from penstock.registry import Subscriptions

_LAST_WORDS = 60.0  # seconds for a busy Spark to report the last progress of a query that has ended


@dataclass(frozen=True, kw_only=True)
class Pipeline:
    """Events from a source, matched against a registry that may change meanwhile, into a sink.

    - `source`: a streaming DataFrame, a `Source`, or a dict of its fields.
    - `subscriptions`: a registry, or its URL. With Spark Connect it must have a URL.
    - `sink`: where notifications go: rows of `notification_id`, `subscription`, `subscriber` and the event's columns.
    - `checkpoint`: the folder in which it keeps how far it is. Started again with the same one, it goes on from there.
    - `dead_letter`: where bad records go; by default JSON files in the checkpoint folder (`penstock/dead-letters`).
    - `schema`: that of the events, if the source doesn't have it.
    - `event_time`, `event_id`: the attributes that tell when an event happened (for the latency) and which it is (for
      the `notification_id`).
    - `trigger`: `"1 second"`; `"available-now"` ends when everything that is there has been read.
    - `snapshots`: the folder for snapshots, by default in the checkpoint folder. Every worker must be able to read it.
    - `operators`: those that filters may call; by default those of the registry. Workers import them by name.
    - `strategy`: the order in which operators are called.
    - `metrics`: a file to which the figures of each micro-batch are appended as JSON lines.
    """

    source: Source | Mapping[str, Any] | DataFrame
    subscriptions: SubscriptionSource | str
    sink: Sink
    checkpoint: str | Path
    dead_letter: Sink | None = None
    schema: SparkSchema | None = None
    event_time: str | None = None
    event_id: str | None = None
    trigger: str = "1 second"
    engine: str = "auto"
    operators: OperatorsLike = None
    strategy: str = DEFAULT_STRATEGY
    snapshots: str | Path | None = None
    metrics: str | Path | None = None
    name: str | None = None
    spark: SparkSession | None = None

    def start(self) -> "RunningPipeline":
        """Check everything that can be checked, then start."""
        outlet = Outlet.of(self.sink, self.dead_letter, self.checkpoint, self.trigger, self.name)
        check_engine(self.engine)
        check_strategy(self.strategy)
        operators = self._operators()
        source = self._source()
        spark = (
            source.sparkSession if isinstance(source, DataFrame) else self.spark or local_session()
        )
        frame = source if isinstance(source, DataFrame) else source.read(spark)
        schema = event_schema(frame)
        self._check(spark, schema)
        outlet.check(spark, [*(f.name for f in ADDED), *schema.names])
        reports = _reports(spark)
        metrics = Metrics(self.metrics)
        listener = Listener(metrics, lambda batch: reports.take(spark, batch))
        with ExitStack() as at_the_end:
            batches = MicroBatches(
                subscriptions=self._registry(spark, at_the_end),
                schema=schema,
                sink=outlet.sink,
                dead_letter=outlet.dead_letter,
                checkpoint=outlet.checkpoint,
                snapshots=None if self.snapshots is None else str(Path(self.snapshots).absolute()),
                engine=self.engine,
                operators=operators.signatures,
                strategy=self.strategy,
                records=_records(source, frame, schema),
                event_time=self.event_time,
                event_id=self.event_id,
                reports=reports,
            )
            spark.streams.addListener(listener)
            at_the_end.callback(spark.streams.removeListener, listener)
            started = outlet.start(frame, batches)
            listener.follow(str(started.query.id))
            return RunningPipeline(started, metrics, listener, at_the_end.pop_all())

    def _operators(self) -> Operators:
        """Those given, else the registry's own; workers must be able to import them."""
        given = self.operators is not None
        operators = Operators.of(self.operators) if given else operators_of(self.subscriptions)
        operators.portable()
        return operators

    def _source(self) -> Source | DataFrame:
        source = source_of(self.source)
        if self.schema is not None:
            if isinstance(source, DataFrame):
                raise PipelineError("the source is a DataFrame, which has a schema: give no other")
            source = Source(source.format, source.path, self.schema, source.record, source.options)
        return source

    def _check(self, spark: SparkSession, schema: StructType) -> None:
        check_columns(schema, ADDED)
        for role, path in (("event_time", self.event_time), ("event_id", self.event_id)):
            if path is not None and not _has(schema, path):
                names = ", ".join(schema.names)
                raise PipelineError(f"{role}: the events have no attribute {path!r}, only {names}")
        if is_connect(spark) and _url(self.subscriptions) is None:
            raise PipelineError(
                "with Spark Connect a pipeline runs in a process of the server, which can't see an in-memory "
                "registry: open one by URL (penstock.Subscriptions.open)"
            )

    def _registry(self, spark: SparkSession, at_the_end: ExitStack) -> SubscriptionSource | str:
        """The registry itself; with Spark Connect, what the server opens it by."""
        if is_connect(spark):
            url = _url(self.subscriptions)
            assert url is not None, "checked"
            return url
        if isinstance(self.subscriptions, str):
            return at_the_end.enter_context(Subscriptions.open(self.subscriptions, create=False))
        return self.subscriptions


class RunningPipeline(RunningQuery):
    """A pipeline that was started: its query, its figures, and how to end it. As a context manager it stops itself."""

    def __init__(
        self,
        started: StartedQuery,
        metrics: Metrics,
        listener: Listener,
        at_the_end: ExitStack,
    ) -> None:
        super().__init__(started)
        self.metrics = metrics
        self._listener = listener
        self._at_the_end = at_the_end

    def _finish(self) -> None:
        self._listener.terminated.wait(_LAST_WORDS)
        self._at_the_end.close()


def _records(source: Source | DataFrame, frame: DataFrame, schema: StructType) -> Records | None:
    """How bad records are written; None if the source has none."""
    if not isinstance(source, Source) or REASON not in frame.columns:
        return None
    kind = source.record if source.format in CARRIERS else source.format
    return Records(kind, schema, separator_of(source.options), most_values(source.options))


def _url(subscriptions: SubscriptionSource | str) -> str | None:
    return subscriptions if isinstance(subscriptions, str) else getattr(subscriptions, "url", None)


def _has(schema: StructType, path: str) -> bool:
    inside: Any = schema
    for step in path.split("."):
        if not isinstance(inside, StructType) or step not in inside.names:
            return False
        inside = inside[step].dataType
    return True


def _reports(spark: SparkSession) -> Reports:
    if not is_connect(spark):
        return LocalReports()
    session = spark.session_id  # type: ignore[attr-defined]  # Connect's sessions have one
    return ConnectReports(uuid.uuid4().hex[:12], session)
