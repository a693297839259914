"""A micro-batch that fails for a reason that may pass is delivered again, a few times, before the pipeline gives up.

A Python worker that is killed (no memory left, an operator's library that crashes) ends its task, and on one machine
Spark tries a task once. The micro-batch is all there, though: its rows, its pin, sinks that don't mind doing it again.
From the second loss on its operators are called in processes of their own, so that the event that ended a worker is
found, and becomes a dead letter. What Spark loses beside the micro-batches ends the query: see `revival`.

A sink that fails (`SinkFailure`) may have a receiver that is away for a moment. If it still fails after the last try,
the micro-batch is *parked*: the pipeline stops, and its checkpoint has the micro-batch as one that was begun. Nothing
after it is delivered before it, and it is the first thing that is done when the pipeline is started again.

Whatever else fails is not tried again: it would fail again.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame

from penstock.base.errors import PipelineError

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


class SinkFailure(Exception):
    """A sink couldn't take a micro-batch: why, and in which checkpoint that waits."""

    def __init__(self, reason: str, checkpoint: str) -> None:
        super().__init__(reason, checkpoint)
        self.reason, self.checkpoint = reason, checkpoint


@dataclass(frozen=True)
class Retries:
    """Delivers micro-batches; picklable, as with Spark Connect it runs in a process of the server."""

    deliver: Deliver
    pauses: tuple[float, ...] = field(default_factory=lambda: PAUSES)

    def __call__(
        self, frame: DataFrame, number: int, stopped: Callable[[float], object] = time.sleep
    ) -> None:
        """Deliver one, again if need be. `stopped` waits so many seconds, or until it is to stop: then it is true."""
        try:
            self._deliver(frame, number, stopped)
        finally:
            _let_go(frame)

    def _deliver(self, frame: DataFrame, number: int, stopped: Callable[[float], object]) -> None:
        losses = 0
        for tried, pause in enumerate((*self.pauses, None), start=1):
            try:
                self.deliver(frame, number, losses)
                return
            except SinkFailure as failure:
                error: Exception = _parked(failure, number, tried)
                said = f"wasn't taken by the sink ({failure.reason})"
            except Exception as other:
                # Of Spark, or of Java if Spark hasn't turned it into one of its own.
                lost = worker_loss(other)
                if lost is None:
                    raise
                losses, error = losses + 1, other
                said = f"lost a worker ({lost}), operators get processes of their own"
            if pause is not None:
                tries = len(self.pauses) + 1
                log.warning(
                    "micro-batch %d %s; try %d of %d in %g s", number, said, tried + 1, tries, pause
                )
            if pause is None or stopped(pause):
                raise error


def _parked(failure: SinkFailure, number: int, tries: int) -> PipelineError:
    times = "once" if tries == 1 else f"{tries} times"
    return PipelineError(
        f"micro-batch {number} is parked: the sink failed {times}, at last with {failure.reason}. Nothing is lost: it "
        f"waits in {failure.checkpoint}, and is delivered first when the pipeline is started again"
    )


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
