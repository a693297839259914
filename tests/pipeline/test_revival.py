"""A query that loses the process of a source is started again; one that fails for another reason isn't."""

import threading

import pytest
from pyspark.errors import PySparkException

from penstock.base.errors import PipelineError
from penstock.pipeline.revival import RevivedQuery, lost_process
from penstock.pipeline.streaming_queries import StartedQuery

LOST = """java.net.SocketException: Connection reset
\tat java.base/sun.nio.ch.SocketChannelImpl.throwConnectionReset(SocketChannelImpl.java:394)
\tat org.apache.spark.sql.execution.python.streaming.PythonStreamingSourceRunner.latestOffset(Python.scala:152)"""
REFUSED = """org.apache.spark.SparkException: [PYTHON_STREAMING_DATA_SOURCE_RUNTIME_ERROR] a SnapshotError
\tat org.apache.spark.sql.execution.python.streaming.PythonStreamingSourceRunner.latestOffset(Python.scala:152)"""


class Failed(PySparkException):
    def __init__(self, trace: str) -> None:
        super().__init__("terminated with exception")
        self._stackTrace = trace


class Query:
    """A query that ends when it is told to, or at once with an error."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error, self.ended = error, threading.Event()
        self.status = {"isTriggerActive": False}
        if error is not None:
            self.ended.set()

    @property
    def isActive(self) -> bool:  # noqa: N802
        return not self.ended.is_set()

    def awaitTermination(self) -> None:  # noqa: N802
        self.ended.wait()
        if self.error is not None:
            raise self.error

    def processAllAvailable(self) -> None:  # noqa: N802
        if self.error is not None:
            raise self.error

    def stop(self) -> None:
        self.ended.set()


def running(*queries: Query, pauses: tuple[float, ...] = (0.0, 0.0)) -> RevivedQuery:
    """The first query, and those that take its place."""
    others = iter(queries[1:])
    return RevivedQuery(StartedQuery(queries[0], None, None, lambda: next(others)), pauses)


def test_it_is_started_again_and_goes_on():
    last = Query()
    pipeline = running(Query(Failed(LOST)), Query(Failed(LOST)), last)
    pipeline.process_available()
    assert pipeline.query is last
    assert pipeline.is_active
    pipeline.stop()
    assert not pipeline.is_active
    assert pipeline.await_termination()


def test_after_some_times_it_gives_up():
    pipeline = running(*[Query(Failed(LOST)) for _ in range(9)])
    with pytest.raises(PipelineError, match="terminated with exception"):
        pipeline.await_termination()
    with pytest.raises(PipelineError, match="terminated with exception"):
        pipeline.process_available()


def test_what_fails_for_another_reason_is_not_started_again():
    first = Query(Failed(REFUSED))
    pipeline = running(first, Query())
    with pytest.raises(PipelineError):
        pipeline.await_termination()
    assert pipeline.query is first


def test_who_stops_it_in_a_pause_is_not_made_to_wait():
    first = Query(Failed(LOST))
    pipeline = running(first, Query(), pauses=(1e6,))
    assert not pipeline.await_termination(0)
    pipeline.stop()
    assert pipeline.await_termination()
    assert pipeline.query is first


def test_lost_processes_are_known_by_what_spark_says():
    assert lost_process(Failed(LOST)) == "java.net.SocketException: Connection reset"
    assert lost_process(Failed(REFUSED)) is None
    assert lost_process(Failed("java.io.IOException: Broken pipe\n\tat a.sink.of.ours")) is None
    assert lost_process(PySparkException("Python worker exited unexpectedly (crashed)"))
