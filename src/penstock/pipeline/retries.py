"""Delivers a micro-batch again, a few times, if it fails for a reason that may pass.

If a Python worker is killed (no memory left, an operator's library that crashes) its task fails, and on one machine
Spark tries a task only once. But everything that another try needs is there: the rows, the pin, and sinks that may get
a micro-batch twice. After a worker was lost, operators are called in processes of their own, so that the event that
ended it is found, and becomes a dead letter. If Spark loses a process outside of micro-batches the query ends: see
`revival`.

If a sink fails (`SinkFailure`), its receiver may be away for a moment. If it still fails at the last try, the
micro-batch is *parked*: the pipeline stops, and its checkpoint has the micro-batch as one that was begun. It is
delivered first when the pipeline is started again, so nothing overtakes it.

Any other failure isn't tried again, because it would happen again.
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
"""Delivers a micro-batch, given its rows, its number, and how many earlier tries have lost a worker."""

PAUSES = (1.0, 5.0, 20.0)  # seconds before each further try
_LOST = (
    "Python worker exited unexpectedly",
    "Python worker failed to connect back",
    "Python worker process terminated",
    "PythonWorkerFactory.stopWorker",  # the daemon that workers are forked from is gone: "Stream closed"
    "ExecutorLostFailure",
)


class SinkFailure(Exception):
    """A sink couldn't take a micro-batch: the reason, and the checkpoint in which the micro-batch waits."""

    def __init__(self, reason: str, checkpoint: str) -> None:
        super().__init__(reason, checkpoint)
        self.reason, self.checkpoint = reason, checkpoint


@dataclass(frozen=True)
class Retries:
    """Delivers micro-batches. It is picklable, as with Spark Connect it runs in a process of the server."""

    deliver: Deliver
    pauses: tuple[float, ...] = field(default_factory=lambda: PAUSES)

    def __call__(
        self, frame: DataFrame, number: int, stopped: Callable[[float], object] = time.sleep
    ) -> None:
        """Deliver one, again if need be. `stopped` waits so many seconds; it is true if the pipeline is to stop."""
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
                # An error of Spark, or one of Java that Spark hasn't turned into its own.
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
    """If a job failed because a worker was lost: the line that says so, in the error or in one that caused it."""
    while error is not None:
        for line in str(error).splitlines():
            if any(text in line for text in _LOST):
                return line.strip()[:200]
        error = error.__cause__
    return None


def _let_go(frame: DataFrame) -> None:
    """Spare Spark Connect the request to release a frame that is no longer used.

    The server releases it by itself when a micro-batch is done. The request is made by a finalizer, without a time-out,
    and in a way that gRPC doesn't foresee: on a busy machine it was seen to wait for ever, and the query with it.
    """
    plan: Any = getattr(frame, "_plan", None)
    if hasattr(plan, "_relation_id"):
        plan._relation_id = None
