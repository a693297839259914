"""`Pipeline`: takes in what is published and sends notifications, for as long as it runs.

A pipeline is a description. `start` turns it into Spark streaming queries, one for each of its inputs (`intakes`). All
of them follow one registry: a change takes effect in the next micro-batch.
"""

import threading
import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from penstock.base.errors import PipelineError
from penstock.base.locations import path_of
from penstock.delivery.notification_shape import NotificationShape
from penstock.delivery.sinks import Sink
from penstock.operators.define import OperatorsLike
from penstock.operators.strategies import DEFAULT_STRATEGY
from penstock.pipeline.intakes import (
    DigestIntake,
    DocumentIntake,
    EventIntake,
    EventOptions,
    Intake,
    Registry,
    SourceLike,
    TableIntake,
    ViewOptions,
)
from penstock.pipeline.joins.match import JoinOptions, catalog_of
from penstock.pipeline.metrics import (
    ConnectReports,
    LocalReports,
    Metrics,
    MetricsTo,
    Reports,
)
from penstock.pipeline.outlets import Outlet
from penstock.pipeline.query_progress import Listener
from penstock.pipeline.session import is_connect, local_session
from penstock.pipeline.streaming_queries import RunningQuery
from penstock.registry import Subscriptions

_LAST_WORDS = 60.0  # seconds for a busy Spark to report the last progress of a query that has ended
_LOOK = 0.05  # seconds between two looks at queries that run side by side


@dataclass(frozen=True, kw_only=True)
class Pipeline:
    """Matches what is published against a registry, which may change meanwhile, and sends notifications to a sink.

    - `events`: a streaming DataFrame, a `Source`, or a dict of its fields. They are matched against filters.
    - `tables`: changes of tables, for select-joins. Either a mapping from the tables of the registry's catalogue to
      such sources, or one streaming DataFrame with all changes, as `match_joins` takes it.
    - `documents`: XML or JSON, from such a source. They are matched against tree patterns.
    - `subscriptions`: a registry, or its URL. Tables, and Spark Connect, need a registry with a URL.
    - `sink`: where notifications go (`penstock.delivery.notification_shape` says what they are like).
    - `checkpoint`: the folder, or URI (`s3://bucket/folder`), in which the pipeline records how far it has come. A
      pipeline that is started again with the same one goes on from there.
    - `dead_letters`: where bad records go; by default JSON files in the checkpoint folder (`penstock/dead-letters`).
    - `trigger`: how often to look for something new; `"available-now"` ends when everything that is there has been
      read.
    - `snapshots`: the folder for snapshots, by default in the checkpoint folder. Every worker must be able to read and
      write it; it may be a URI (`s3://bucket/folder`).
    - `metadata`: whether notifications carry the metadata of their subscriptions, in a column of that name.
    - `digests`: how often to look for digests that are due, such as `"1 minute"`. Without it, subscriptions whose pace
      asks for digests are set aside. Other paces don't need it.
    - `metrics`: a file to which the figures of each micro-batch are appended as JSON lines, or a function that is
      called with them (`pipeline.metrics.BatchMetrics`).

    For events, `event_time` and `event_id` name the attributes that say when an event happened (for the latency) and
    which event it is (for the `notification_id`). `operators` are those that filters may call, by default those of the
    registry; workers import them by name. `engine` says how events are matched, `strategy` in which order operators are
    called. `joins` says how changes of tables are written, `views` what documents are like.
    """

    events: SourceLike | None = None
    tables: Mapping[str, SourceLike] | DataFrame | None = None
    documents: SourceLike | None = None
    subscriptions: Registry
    sink: Sink
    checkpoint: str | Path
    dead_letters: Sink | None = None
    event_time: str | None = None
    event_id: str | None = None
    trigger: str = "1 second"
    engine: str = "auto"
    operators: OperatorsLike = None
    strategy: str = DEFAULT_STRATEGY
    joins: JoinOptions = field(default_factory=JoinOptions)
    views: ViewOptions = field(default_factory=ViewOptions)
    snapshots: str | Path | None = None
    metadata: bool = False
    digests: str | None = None
    metrics: MetricsTo | None = None
    name: str | None = None
    spark: SparkSession | None = None

    def start(self) -> "RunningPipeline":
        """Check everything that can be checked, then start the queries."""
        outlet = Outlet.of(self.sink, self.dead_letters, self.checkpoint, self.trigger, self.name)
        spark = self._session()
        if is_connect(spark) and _url(self.subscriptions) is None:
            raise PipelineError(
                "with Spark Connect a pipeline runs in a process of the server, which can't see an in-memory "
                "registry: open one by URL (penstock.Subscriptions.open)"
            )
        intakes = self._intakes(spark)
        shape = NotificationShape(tuple(intake.told for intake in intakes), self.metadata)
        outlet.check(spark, shape)
        metrics = Metrics(self.metrics)
        with ExitStack() as at_the_end:
            registry = self._registry(spark, at_the_end)
            listener = Listener(spark, metrics)
            spark.streams.addListener(listener)
            at_the_end.callback(spark.streams.removeListener, listener)
            started: dict[str, RunningQuery] = {}
            try:
                for intake in intakes:
                    part = outlet.part(intake.name, alone=len(intakes) == 1)
                    reports = _reports(spark)
                    running = started[intake.name] = intake.start(part, shape, registry, reports)
                    listener.follow(str(running.query.id), reports)
            except BaseException:
                for running in started.values():
                    running.stop()
                raise
            listener.all_are_followed()
            at_the_end.callback(listener.wait, _LAST_WORDS)
            return RunningPipeline(started, metrics, at_the_end.pop_all())

    def _session(self) -> SparkSession:
        """The session of the DataFrames that are given, else the given session, else a local one."""
        tables = self.tables.values() if isinstance(self.tables, Mapping) else [self.tables]
        sources = [self.events, self.documents, *tables]
        frames = (source for source in sources if isinstance(source, DataFrame))
        found = next((frame.sparkSession for frame in frames), None)
        return found or self.spark or local_session()

    def _intakes(self, spark: SparkSession) -> list[Intake]:
        snapshots = (
            None if self.snapshots is None else str(path_of(self.snapshots, "snapshots").absolute())
        )
        found: list[Intake] = []
        if self.events is not None:
            options = EventOptions(
                self.event_time,
                self.event_id,
                self.engine,
                self.operators,
                self.strategy,
                snapshots,
            )
            found.append(EventIntake.of(self.events, options, self.subscriptions, spark))
        if self.tables is not None:
            catalog = catalog_of(self.subscriptions)
            found.append(TableIntake.of(self.tables, catalog, self.joins, spark))
        if self.documents is not None:
            found.append(DocumentIntake.of(self.documents, self.views, snapshots, spark))
        if not found:
            raise PipelineError("a pipeline needs something to read: events, tables or documents")
        if self.digests is not None:
            found.append(DigestIntake.of(self.digests, found, spark))
        return found

    def _registry(self, spark: SparkSession, at_the_end: ExitStack) -> Registry:
        """The registry itself; with Spark Connect its URL, by which the server opens it."""
        if is_connect(spark):
            url = _url(self.subscriptions)
            assert url is not None, "checked"
            return url
        found = self.subscriptions
        if isinstance(found, str):
            found = at_the_end.enter_context(Subscriptions.open(found, create=False))
        if not self.metadata:
            return found
        if not isinstance(found, Subscriptions):
            raise PipelineError(
                f"metadata are kept in a registry: {type(found).__name__} has none, leave metadata out"
            )
        return found.with_metadata()


class RunningPipeline:
    """A pipeline that was started: its queries, its figures, and how to end it. As a context manager it stops itself.

    If one of its queries fails, the others are stopped. All go on when the pipeline is started again.
    """

    def __init__(
        self, running: Mapping[str, RunningQuery], metrics: Metrics, at_the_end: ExitStack
    ) -> None:
        self._running = dict(running)
        self.metrics = metrics
        self._at_the_end = at_the_end

    @property
    def queries(self) -> dict[str, StreamingQuery]:
        """Spark's queries, by what each reads: events, tables, documents."""
        return {name: running.query for name, running in self._running.items()}

    @property
    def is_active(self) -> bool:
        """Whether some query still runs and none has failed."""
        return any(one.is_active for one in self._running.values()) and not self._failed()

    def stop(self, timeout: float = 30.0) -> None:
        """Stop after the current micro-batches. One that takes longer than `timeout` seconds is broken off, and
        replayed when the pipeline is started again."""
        _side_by_side([partial(one.stop, timeout) for one in self._running.values()])
        self._at_the_end.close()

    def await_termination(self, timeout: float | None = None) -> bool:
        """Wait until it ends, at most `timeout` seconds. Returns whether it did; raises PipelineError if it failed."""
        if not self._wait(timeout):
            return False
        try:
            for one in self._running.values():
                if one.is_active:  # another query has failed
                    one.stop()
            for one in self._running.values():
                one.await_termination()
        finally:
            self._at_the_end.close()
        return True

    def _wait(self, timeout: float | None) -> bool:
        """Wait until it ends or fails, at most `timeout` seconds. Returns whether it has."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while self.is_active:
            if deadline is not None and time.monotonic() >= deadline:
                return False
            time.sleep(_LOOK)
        return True

    def process_available(self) -> None:
        """Wait until everything that the sources have at this moment has been delivered: for tests and demos."""
        for one in self._running.values():
            one.process_available()

    def _failed(self) -> bool:
        return any(one.has_failed for one in self._running.values())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()


def _side_by_side(works: list[Callable[[], None]]) -> None:
    threads = [threading.Thread(target=work) for work in works[1:]]
    for thread in threads:
        thread.start()
    works[0]()
    for thread in threads:
        thread.join()


def _url(subscriptions: Registry) -> str | None:
    return subscriptions if isinstance(subscriptions, str) else getattr(subscriptions, "url", None)


def _reports(spark: SparkSession) -> Reports:
    if not is_connect(spark):
        return LocalReports()
    session = spark.session_id  # type: ignore[attr-defined]  # Connect's sessions have one
    return ConnectReports(uuid.uuid4().hex[:12], session)
