"""Micro-batches that lose a worker are delivered again; what fails for another reason isn't."""

import pickle
from typing import Any

import pytest
from pyspark.errors import PySparkException

from penstock.base.errors import PipelineError
from penstock.pipeline.retries import PAUSES, Retries, SinkFailure, worker_loss

LOST = """Job aborted due to stage failure: Task 1 in stage 3.0 failed 1 times, most recent failure:
org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)
\tat org.apache.spark.api.python.BasePythonRunner"""


class Scene:
    """A delivery that fails so many times, and a wait that notes the pauses."""

    def __init__(
        self, failures: int, text: str = LOST, stops_after: int | None = None, *, sink: bool = False
    ) -> None:
        self.left, self.stops_after = failures, stops_after
        self.error = SinkFailure(text, "/checkpoint") if sink else PySparkException(text)
        self.tries: list[tuple[Any, int, int]] = []
        self.pauses: list[float] = []

    def deliver(self, frame: Any, number: int, tried: int) -> None:
        self.tries.append((frame, number, tried))
        if self.left:
            self.left -= 1
            raise self.error

    def wait(self, pause: float) -> bool:
        self.pauses.append(pause)
        return len(self.pauses) == self.stops_after

    def run(self) -> None:
        Retries(self.deliver)("frame", 7, self.wait)  # type: ignore[arg-type]


@pytest.mark.parametrize("failures", range(len(PAUSES) + 1))
def test_a_micro_batch_that_loses_workers_is_tried_again(failures: int):
    scene = Scene(failures)
    scene.run()
    assert scene.tries == [("frame", 7, tried) for tried in range(failures + 1)]
    assert scene.pauses == list(PAUSES[:failures])


def test_after_some_tries_it_gives_up():
    scene = Scene(100)
    with pytest.raises(PySparkException, match="exited unexpectedly"):
        scene.run()
    assert len(scene.tries) == len(PAUSES) + 1


def test_a_sink_that_fails_for_a_moment_is_tried_again():
    """Its operators stay where they are: no worker was lost."""
    scene = Scene(2, "down", sink=True)
    scene.run()
    assert scene.tries == [("frame", 7, 0)] * 3
    assert scene.pauses == list(PAUSES[:2])


def test_a_sink_that_fails_for_good_parks_the_micro_batch():
    """One message says which, why, where it is, and what to do."""
    scene = Scene(100, "down", sink=True)
    with pytest.raises(PipelineError) as raised:
        scene.run()
    assert len(scene.tries) == len(PAUSES) + 1
    for word in ("micro-batch 7", "down", "/checkpoint", "started"):
        assert word in str(raised.value)


@pytest.mark.parametrize("text", ["penstock.base.errors.SnapshotError: torn", "No space left", ""])
def test_what_fails_for_another_reason_isnt_tried_again(text: str):
    scene = Scene(1, text)
    with pytest.raises(PySparkException):
        scene.run()
    assert (len(scene.tries), scene.pauses) == (1, [])


def test_a_pipeline_that_is_to_stop_doesnt_try_again():
    scene = Scene(3, stops_after=2)
    with pytest.raises(PySparkException):
        scene.run()
    assert len(scene.tries) == 2


def test_the_line_of_a_lost_worker_is_told():
    assert worker_loss(PySparkException(LOST)) == LOST.splitlines()[1]


def test_a_lost_daemon_is_a_lost_worker():
    """Spark wants to stop a worker that died with it, and finds the pipe to the daemon closed."""
    closed = (
        "Job aborted due to stage failure: Task 0 in stage 3.0 failed 1 times: java.io.IOException: Stream closed\n"
        "\tat java.base/java.io.DataOutputStream.flush(DataOutputStream.java:128)\n"
        "\tat org.apache.spark.api.python.PythonWorkerFactory.stopWorker(PythonWorkerFactory.scala:497)\n"
    )
    assert worker_loss(PySparkException(closed)) is not None
    assert worker_loss(PySparkException(closed.replace("stopWorker", "other"))) is None


def test_it_travels_to_a_server():
    assert pickle.loads(pickle.dumps(Retries(print))) == Retries(print)
