"""Streaming queries: starting one, and what is in hand once it runs. The same for filters and for select-joins."""

import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from penstock.errors import PipelineError
from penstock.pipeline.sinks import Sink
from penstock.pipeline.triggers import Trigger


def check_sink(sink: object, spark: SparkSession, columns: Sequence[str]) -> None:
    """A PipelineError if it is none, or can't take rows of these columns."""
    if not isinstance(sink, Sink):
        raise PipelineError(f"not a sink: {sink!r} (it needs guarantee, check and write)")
    sink.check(spark, columns)


def start_query(
    frame: DataFrame,
    deliver: Callable[[DataFrame, int], None],
    checkpoint: str,
    trigger: Trigger,
    name: str | None,
) -> StreamingQuery:
    """Start what delivers each micro-batch of a frame. PipelineError if Spark can't."""
    writer = (
        frame.writeStream.foreachBatch(deliver)
        .option("checkpointLocation", checkpoint)
        .trigger(**trigger.arguments())
    )
    if name is not None:
        writer = writer.queryName(name)
    try:
        return writer.start()
    except PySparkException as error:
        raise PipelineError(f"the pipeline can't start: {str(error).splitlines()[0]}") from error


class RunningQuery:
    """A pipeline that was started, and how to end it. As a context manager it stops itself."""

    def __init__(self, query: StreamingQuery) -> None:
        self.query = query

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def is_active(self) -> bool:
        """Whether it still runs."""
        return bool(self.query.isActive)

    def stop(self, timeout: float = 30.0) -> None:
        """Stop after the micro-batch that is being worked on. One that takes over `timeout` seconds is broken off, and
        replayed when the pipeline is started again."""
        self._wait_until_idle(timeout)
        self.query.stop()
        self._finish()

    def await_termination(self, timeout: float | None = None) -> bool:
        """Wait until it ends, or `timeout` seconds; whether it has ended. A `PipelineError` if it failed."""
        try:
            ended = self.query.awaitTermination(None if timeout is None else max(1, round(timeout)))
        except PySparkException as error:
            raise self._failed(error) from error
        if timeout is None or ended:
            self._finish()
            return True
        return False

    def process_available(self) -> None:
        """Wait until everything that the source has at this moment has been delivered: for tests and demos."""
        try:
            self.query.processAllAvailable()
        except PySparkException as error:
            raise self._failed(error) from error

    def _wait_until_idle(self, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        while (
            self.query.isActive
            and self.query.status["isTriggerActive"]
            and time.monotonic() < deadline
        ):
            time.sleep(0.01)

    def _failed(self, error: PySparkException) -> PipelineError:
        self._finish()
        return PipelineError(f"the pipeline failed: {cause(error)}")

    def _finish(self) -> None:
        """It has ended: give back what it held."""


def cause(error: PySparkException) -> str:
    """The line that says what went wrong, out of a Java stack trace around a Python one."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    ours = [line for line in lines if line.startswith("penstock.errors.")]
    python = [line for line in lines if line.partition(":")[0].endswith(("Error", "Exception"))]
    return (ours or python or lines or ["unknown"])[-1 if ours or python else 0]
