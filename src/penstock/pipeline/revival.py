"""Starts a query again, a few times, if it ended because Spark lost the process of a source.

A source that is written in Python runs in a process of its own beside the micro-batches: select-joins have one, which
watches the registry. If that process is killed, Spark can't ask what is new, and ends the query. Nothing is lost: the
checkpoint has what was planned, and a query that starts on it goes on as after a crash. `retries` does the same for
workers that are lost within a micro-batch.

    query fails ─▶ was a process lost? ─ no ─▶ it has ended, and says why
                         │ yes
                         ▼
                   pause, start it again ─▶ …       three times in a row; after a minute's run the count starts anew
"""

import logging
import threading
import time

from pyspark.errors import PySparkException
from pyspark.sql.streaming.query import StreamingQuery

from penstock.base.errors import PipelineError
from penstock.pipeline.retries import PAUSES, worker_loss
from penstock.pipeline.streaming_queries import RunningQuery, StartedQuery

_log = logging.getLogger("penstock.pipeline")

_CALM = 60.0  # seconds that a query runs before an earlier failure is forgotten
_OF_A_SOURCE = "PythonStreamingSourceRunner"
_BROKEN = ("java.io.EOFException", "java.io.IOException", "java.net.SocketException")


def lost_process(error: Exception) -> str | None:
    """If a query failed because a process of Spark's was lost: the line that says so."""
    trace = getattr(error, "_stackTrace", None) or getattr(error, "_stacktrace", None)
    text = f"{error}\n{trace or ''}"
    if _OF_A_SOURCE in text:
        lines = (line.strip() for line in text.splitlines())
        found = next((line for line in lines if any(name in line for name in _BROKEN)), None)
        if found is not None:
            return found[:200]
    return worker_loss(error)


class RevivedQuery(RunningQuery):
    """A running query that is started again if Spark loses the process of a source."""

    def __init__(self, started: StartedQuery, pauses: tuple[float, ...] = PAUSES) -> None:
        super().__init__(started)
        self._start, self._pauses = started.start, pauses
        self._stopping = threading.Event()
        self._changing = threading.Lock()  # held while it is started again, or is to stop
        self._ended = threading.Event()
        self._error: Exception | None = None
        if self._lock is not None:
            self._lock.in_use = lambda: self.is_active
        threading.Thread(target=self._keep, name="penstock-revival", daemon=True).start()

    @property
    def is_active(self) -> bool:
        """Whether it still runs, or is about to run again."""
        return not self._ended.is_set()

    @property
    def has_failed(self) -> bool:
        """Whether it ended for good because something went wrong."""
        return self._ended.is_set() and self._error is not None

    def stop(self, timeout: float = 30.0) -> None:
        """Stop after the micro-batch that is being worked on, as every query does."""
        with self._changing:
            self._stopping.set()
        super().stop(timeout)
        self._ended.wait(timeout)

    def await_termination(self, timeout: float | None = None) -> bool:
        """Wait until it ends for good, at most `timeout` seconds. Returns whether it did; raises PipelineError if it
        failed."""
        if not self._ended.wait(timeout):
            return False
        if self._error is not None:
            raise self._explained(self._error) from self._error
        self._end()
        return True

    def process_available(self) -> None:
        """Wait until everything that the source has at this moment has been delivered: for tests and demos."""
        while True:
            asked = self.query
            try:
                asked.processAllAvailable()
                return
            except PySparkException as error:
                while self.query is asked:
                    if self._ended.wait(0.05):
                        raise self._explained(self._error or error) from error

    def _explained(self, error: Exception) -> Exception:
        return self._failed(error) if isinstance(error, PySparkException) else error

    def _keep(self) -> None:
        tried = 0
        while True:
            began = time.monotonic()
            self._error = _outcome(self.query)
            lost = None if self._error is None else lost_process(self._error)
            if lost is None:
                break
            if time.monotonic() - began > _CALM:
                tried = 0
            if tried == len(self._pauses) or not self._revived(lost, tried):
                break
            tried += 1
        self._ended.set()

    def _revived(self, lost: str, tried: int) -> bool:
        """Start it again; False if it is to stop, or can't be started."""
        pause = self._pauses[tried]
        _log.warning(
            "the query lost a process of Spark's (%s): started again, time %d of %d, in %g s",
            lost, tried + 1, len(self._pauses), pause,
        )  # fmt: skip
        self._stopping.wait(pause)
        with self._changing:
            if self._stopping.is_set():
                self._error = None
                return False
            try:
                self.query = self._start()
            except (PySparkException, PipelineError) as error:
                self._error = error
                return False
        return True


def _outcome(query: StreamingQuery) -> Exception | None:
    """Wait until a query has ended. Returns the error if it failed."""
    try:
        query.awaitTermination()
    except Exception as error:  # noqa: BLE001  # it is raised where somebody waits for the query
        return error
    return None
