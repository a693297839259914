"""A micro-batch that loses a worker is delivered again, a few times, before the pipeline gives up.

A Python worker that is killed (no memory left, an operator's library that crashes) ends its task, and on one machine
Spark tries a task once. The micro-batch is all there, though: its rows, its pin, sinks that don't mind doing it again.
From the second try on its operators are called in processes of their own, so that the event that ended a worker is
found, and becomes a dead letter. What Spark loses beside the micro-batches ends the query: see `revival`.

Whatever else fails is not tried again: it would fail again, or is somebody's decision (a sink that raises).
"""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame

log = logging.getLogger("penstock.pipeline")

Deliver = Callable[[DataFrame, int, int], None]
"""What is done to a micro-batch: its rows, its number, and how many times it was tried before."""

PAUSES = (1.0, 5.0, 20.0)  # seconds before each further try
_LOST = (
    "Python worker exited unexpectedly",
    "Python worker failed to connect back",
    "Python worker process terminated",
    "PythonWorkerFactory.stopWorker",  # the daemon that workers are forked from is gone: "Stream closed"
    "ExecutorLostFailure",
)


@dataclass(frozen=True)
class Retries:
    """Delivers micro-batches; picklable, as with Spark Connect it runs in a process of the server."""

    deliver: Deliver

    def __call__(
        self, frame: DataFrame, number: int, stopped: Callable[[float], object] = time.sleep
    ) -> None:
        """Deliver one, again if need be. `stopped` waits so many seconds, or until it is to stop: then it is true."""
        try:
            self._deliver(frame, number, stopped)
        finally:
            _let_go(frame)

    def _deliver(self, frame: DataFrame, number: int, stopped: Callable[[float], object]) -> None:
        for tried, pause in enumerate(PAUSES):
            try:
                self.deliver(frame, number, tried)
                return
            except (
                Exception
            ) as error:  # of Spark, or of Java if Spark hasn't turned it into one of its own
                lost = worker_loss(error)
                if lost is None:
                    raise
                log.warning(
                    "micro-batch %d lost a worker (%s): try %d of %d in %g s, with operators in processes of their own",
                    number, lost, tried + 2, len(PAUSES) + 1, pause,
                )  # fmt: skip
                if stopped(pause):
                    raise
        self.deliver(frame, number, len(PAUSES))


def worker_loss(error: BaseException | None) -> str | None:
    """The line that says so, if a job failed because a worker was lost; of an error, or of what it was raised from."""
    while error is not None:
        for line in str(error).splitlines():
            if any(text in line for text in _LOST):
                return line.strip()[:200]
        error = error.__cause__
    return None


def _let_go(frame: DataFrame) -> None:
    """Spare Spark Connect the request by which a frame that is no longer used is taken back.

    The server does that by itself when a micro-batch is done. The request is made by a finalizer, without a time-out,
    and in a way that gRPC doesn't foresee: on a busy machine it was seen to wait for ever, and the query with it.
    """
    plan: Any = getattr(frame, "_plan", None)
    if hasattr(plan, "_relation_id"):
        plan._relation_id = None
