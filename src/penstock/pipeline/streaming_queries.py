"""Starts and stops a streaming query, in the same way for every kind of subscription.

Spark's `stop` interrupts whatever a query is doing. Workers whose task is broken off complain of broken pipes, and the
JVM complains that it couldn't store state. So a query is stopped between two micro-batches: a `BatchGate` lets the one
that runs end, and holds the next one before it does anything.
"""

import functools
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from penstock.base.error_causes import cause
from penstock.base.errors import PipelineError
from penstock.base.locations import path_of
from penstock.base.remote_paths import uri_for_spark
from penstock.pipeline.checkpoint_locks import CheckpointLock, hold
from penstock.pipeline.checkpoints import DurableBatches, recover
from penstock.pipeline.retries import Deliver, Retries, worker_loss
from penstock.pipeline.session import is_connect
from penstock.pipeline.triggers import Trigger

_log = logging.getLogger("penstock.pipeline")
# Py4J logs what a micro-batch raises, with its trace, before Spark raises it. Without a handler that goes to the
# terminal.
logging.getLogger("py4j.clientserver").addHandler(logging.NullHandler())
START_PAUSES = (1.0,) * 11  # seconds before each further try to start
_OURS = (
    "penstock.base.errors.PipelineError: "  # Python's prefix of an error whose text is for people
)
_INTERRUPTED_AFTER = 60.0  # seconds that a held micro-batch waits for Spark to interrupt it


class BatchGate:
    """Passes micro-batches on to be delivered. Once it is closed, it holds the next one."""

    def __init__(self, deliver: DurableBatches) -> None:
        self._deliver = deliver
        self._closed = threading.Event()
        self._holds = threading.Event()

    def __call__(self, frame: DataFrame, number: int) -> None:
        if self._closed.is_set():
            self._holds.set()
            _wait_for_interruption(frame.sparkSession)
        self._deliver(frame, number, self._closed.wait)

    def close(self) -> None:
        """Let no micro-batch begin any more."""
        self._closed.set()

    @property
    def holds(self) -> bool:
        """Whether a micro-batch has come to the closed gate."""
        return self._holds.is_set()


def _wait_for_interruption(spark: SparkSession) -> None:
    """Sleep in the query's thread. Spark's `stop` interrupts it there, and doesn't count that as a failure."""
    jvm = spark.sparkContext._jvm
    assert jvm is not None, "the session is a classic one"
    jvm.java.lang.Thread.sleep(round(1000 * _INTERRUPTED_AFTER))
    raise PipelineError("the pipeline was to be stopped, and Spark hasn't done so")


@dataclass(frozen=True)
class StartedQuery:
    """A query, the gate of its micro-batches, and the lock of its checkpoint.

    With Spark Connect micro-batches run in another process, which has the lock: both are None here. In an object store
    nothing can be locked, so `lock` is None. `start` starts a query once more when it has ended.
    """

    query: StreamingQuery
    gate: BatchGate | None
    lock: CheckpointLock | None
    start: Callable[[], StreamingQuery]


def start_query(
    frame: DataFrame, deliver: Deliver, checkpoint: str, trigger: Trigger, name: str | None
) -> StartedQuery:
    """Start a query that delivers each micro-batch of a frame. Raises PipelineError if Spark can't start it."""
    remote = is_connect(frame.sparkSession)
    durable = DurableBatches(Retries(deliver), checkpoint)
    gate = None if remote else BatchGate(durable)
    folder = path_of(checkpoint)
    lock = hold(folder) if isinstance(folder, Path) and not remote else None
    writer = (
        frame.writeStream.foreachBatch(gate or durable)
        .option("checkpointLocation", uri_for_spark(folder))
        .trigger(**trigger.arguments())
    )
    if name is not None:
        writer = writer.queryName(name)
    try:
        if isinstance(folder, Path):
            take_back = _recover_if_idle if lock is None else _recover
            take_back(folder)
        query = start_patiently(writer)
    except BaseException as error:
        if lock is not None:
            lock.release()
        if not isinstance(error, PySparkException):
            raise
        raise PipelineError(f"the pipeline can't start: {str(error).splitlines()[0]}") from error
    if lock is not None:
        lock.in_use = lambda: bool(query.isActive)
    return StartedQuery(query, gate, lock, functools.partial(start_patiently, writer))


def start_patiently(writer: DataStreamWriter) -> StreamingQuery:
    """Start a query, in several tries: Spark gives a process ten seconds to start, too few on a busy machine."""
    for pause in START_PAUSES:
        try:
            return writer.start()
        except PySparkException as error:
            lost = worker_loss(error)
            if lost is None:
                raise
            _log.warning("Spark couldn't start a query (%s): tried again in %g s", lost, pause)
            time.sleep(pause)
    return writer.start()


def _recover(checkpoint: Path) -> None:
    if gone := recover(checkpoint):
        _log.warning("taken back after a power cut: %s", ", ".join(map(str, gone)))


def _recover_if_idle(checkpoint: Path) -> None:
    """Recover a checkpoint unless somebody works on it: with Spark Connect, if this process sees the server's files.

    A checkpoint in use isn't what a power cut has left. If another pipeline uses it, the server refuses this one.
    """
    if not checkpoint.is_dir():
        return
    try:
        lock = hold(checkpoint)
    except PipelineError:
        return
    try:
        _recover(checkpoint)
    finally:
        lock.release()


class RunningQuery:
    """A query that was started, and how to end it."""

    def __init__(self, started: StartedQuery) -> None:
        self.query = started.query
        self._gate = started.gate
        self._lock = started.lock

    @property
    def is_active(self) -> bool:
        """Whether it still runs."""
        return bool(self.query.isActive)

    @property
    def has_failed(self) -> bool:
        """Whether it ended because something went wrong."""
        return not self.is_active and self.query.exception() is not None

    def stop(self, timeout: float = 30.0) -> None:
        """Stop after the current micro-batch. If it takes longer than `timeout` seconds it is broken off, and replayed
        when the pipeline is started again."""
        self._wait_until_idle(timeout)
        self.query.stop()
        self._end()

    def await_termination(self, timeout: float | None = None) -> bool:
        """Wait until it ends, at most `timeout` seconds. Returns whether it did; raises PipelineError if it failed."""
        try:
            ended = self.query.awaitTermination(None if timeout is None else max(1, round(timeout)))
        except PySparkException as error:
            raise self._failed(error) from error
        if timeout is None or ended:
            self._end()
            return True
        return False

    def process_available(self) -> None:
        """Wait until everything that the source has at this moment has been delivered: for tests and demos."""
        try:
            self.query.processAllAvailable()
        except PySparkException as error:
            raise self._failed(error) from error

    def _wait_until_idle(self, timeout: float) -> None:
        """Wait for a moment between two micro-batches: none is worked on, or the next one is held."""
        if self._gate is not None:
            self._gate.close()
        deadline = time.monotonic() + timeout
        while self.query.isActive and time.monotonic() < deadline:
            if (self._gate is not None and self._gate.holds) or not self._is_working():
                return
            time.sleep(0.01)

    def _is_working(self) -> bool:
        return bool(self.query.status["isTriggerActive"])

    def _failed(self, error: PySparkException) -> PipelineError:
        self._end()
        return PipelineError(f"the pipeline failed: {cause(error).removeprefix(_OURS)}")

    def _end(self) -> None:
        """Release the lock of a query that has ended."""
        if self._lock is not None:
            self._lock.release()
