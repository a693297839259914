"""Listens to what Spark says of a pipeline's queries: how long each micro-batch took, and that a query has ended.

Spark hands its progress to PySpark as an object of Java, which PySpark copies field by field. Each collection in it
ends with an exception, and PySpark asks the JVM what kind of exception it is, class by class: a tenth of a second of
processor time for each. Here the progress is read as the JSON that Spark makes of it.
"""

import json
import threading
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    JStreamingQueryListener,
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from penstock.pipeline.metrics import IN_PROGRESS, BatchMetrics, Metrics, Report, Reports


def is_registry(offset: object) -> bool:
    """Whether an offset belongs to the source that watches the registry, not to something published."""
    try:
        value = json.loads(offset) if isinstance(offset, str) else offset
    except ValueError:
        return False
    return isinstance(value, dict) and value.keys() == {"version", "tick"}


@dataclass
class _Query:
    """A query that is followed."""

    reports: Reports
    has_ended: threading.Event = field(default_factory=threading.Event)
    """Set when Spark has said everything about it."""


class Listener(StreamingQueryListener):
    """Joins the reports of a pipeline's queries with the progress that Spark reports, and hands both to `Metrics`.

    A query's id is known only once it has started, and by then it may have made progress. So what Spark says of unknown
    queries is kept until `all_are_followed`.
    """

    def __init__(self, spark: SparkSession, metrics: Metrics) -> None:
        self._session, self._metrics = spark, metrics
        self._queries: dict[str, _Query] = {}
        self._early: list[dict[str, Any]] | None = []
        self._lock = threading.Lock()

    def follow(self, query_id: str, reports: Reports) -> None:
        """Listen to a query whose micro-batches put their reports in `reports`."""
        with self._lock:
            self._queries[query_id] = _Query(reports)
            early, self._early = self._early or [], []
        for told in early:
            self._hear(told)

    def all_are_followed(self) -> None:
        """From now on, ignore queries that are unknown: they don't belong to this pipeline."""
        with self._lock:
            self._early = None

    def wait(self, seconds: float) -> None:
        """Wait until Spark has said everything about the queries, at most so many seconds for each."""
        for query in self._queries.values():
            query.has_ended.wait(seconds)

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802
        query = self._queries.get(str(event.id))
        if query is not None:  # it was started once more (`revival`)
            query.has_ended.clear()

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        pass

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """Called with Spark Connect; without it, Spark calls `_Quick`."""
        self.hear_progress(event.progress.json)

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        self._hear({"id": str(event.id), "has_ended": True})

    def hear_progress(self, text: str) -> None:
        """Take in Spark's progress, as JSON."""
        self._hear(json.loads(text))

    @property
    def _jlistener(self) -> Any:
        """The listener that PySpark registers: it replaces PySpark's own, which copies fields."""
        if not hasattr(self, "_jlistenerobj"):
            jvm: Any = self._session._jvm
            self._jlistenerobj = jvm.PythonStreamingQueryListenerWrapper(_Quick(self))
        return self._jlistenerobj

    def _hear(self, told: dict[str, Any]) -> None:
        with self._lock:
            query = self._queries.get(told["id"])
            if query is None:
                if self._early is not None:
                    self._early.append(told)
                return
        if "has_ended" in told:
            query.has_ended.set()
            return
        report = query.reports.take(self._session, told["batchId"])
        if report is not None:  # None: a trigger that ran no batch
            self._metrics.add(_figures(report, told))


class _Quick(JStreamingQueryListener):
    """The listener that Spark calls."""

    def onQueryProgress(self, jevent: Any) -> None:  # noqa: N802
        self.pylistener.hear_progress(jevent.progress().json())  # type: ignore[attr-defined]

    def onQueryIdle(self, jevent: Any) -> None:  # noqa: N802
        pass


def _figures(report: Report, told: dict[str, Any]) -> BatchMetrics:
    if report.published == IN_PROGRESS:
        sources = told["sources"]
        read = (one["numInputRows"] for one in sources if not is_registry(one.get("endOffset")))
        report = replace(report, published=sum(read))
    states = told["stateOperators"]
    return BatchMetrics(
        report,
        told["timestamp"],
        told["durationMs"].get("triggerExecution", 0) / 1000,
        sum(state["numRowsTotal"] for state in states),
        sum(state["memoryUsedBytes"] for state in states),
    )
