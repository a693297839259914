"""A query is stopped between two micro-batches."""

import subprocess
import sys
import threading
from types import SimpleNamespace

import pytest
from pyspark.errors import PySparkException
from tests.sizes import PATIENCE

from penstock.base.error_causes import cause
from penstock.delivery import CallableSink
from penstock.pipeline import streaming_queries
from penstock.pipeline.checkpoint_locks import hold
from penstock.pipeline.checkpoints import begin
from penstock.pipeline.retries import Retries
from penstock.pipeline.streaming_queries import BatchGate, start_patiently, start_query
from penstock.pipeline.triggers import trigger_of

from .scenes import market, pipeline, tick, write_events


class Interrupted(Exception):
    """What Spark's `stop` makes of a sleep in the thread of its query."""


def _frame() -> SimpleNamespace:
    def sleep(milliseconds: int) -> None:
        raise Interrupted

    jvm = SimpleNamespace(
        java=SimpleNamespace(lang=SimpleNamespace(Thread=SimpleNamespace(sleep=sleep)))
    )
    return SimpleNamespace(sparkSession=SimpleNamespace(sparkContext=SimpleNamespace(_jvm=jvm)))


def test_a_closed_gate_holds_the_next_micro_batch():
    """It isn't delivered, neither before it is interrupted nor after."""
    begun: list[int] = []
    gate = BatchGate(Retries(lambda frame, number, tried: begun.append(number)))
    gate(_frame(), 0)
    assert not gate.holds
    gate.close()
    with pytest.raises(Interrupted):
        gate(_frame(), 1)
    assert gate.holds
    assert begun == [0]


@pytest.mark.spark
def test_stop_lets_the_micro_batch_end_and_begins_no_other(spark, tmp_path):
    """Stopped in the middle of one, with more to do: what was begun is committed, and the query didn't fail."""
    subs = market()
    subs.subscribe("alice", "price > 0")
    for number in range(20):
        write_events(tmp_path / "in", f"{number}.json", [tick(number)])
    in_the_middle, go_on = threading.Event(), threading.Event()

    def deliver(row: dict) -> None:
        in_the_middle.set()
        assert go_on.wait(PATIENCE)

    source = {
        "format": "json",
        "path": str(tmp_path / "in"),
        "schema": "id bigint, price double, symbol string",
        "options": {"maxFilesPerTrigger": 1},
    }
    running = pipeline(
        tmp_path, spark, subs, events=source, sink=CallableSink(deliver), trigger="1 ms"
    ).start()
    assert in_the_middle.wait(PATIENCE)
    stopping = threading.Thread(target=running.stop, args=(PATIENCE,))
    stopping.start()
    assert running._running["events"]._gate._closed.wait(PATIENCE)
    go_on.set()
    stopping.join(PATIENCE)
    assert not running.is_active
    assert running.await_termination()  # raises what it failed with
    begun = {file.stem for file in (tmp_path / "checkpoint/events/penstock/batches").glob("*.json")}
    ended = {file.name for file in (tmp_path / "checkpoint/events/commits").glob("[0-9]*")}
    assert begun == ended == {"0"}


class ConnectSession:
    """Looks like a session of Spark Connect."""

    __module__ = "pyspark.sql.connect.session"


class ConnectFrame:
    """A frame of such a session; it tells which offsets the server finds when the query starts."""

    sparkSession = ConnectSession()  # noqa: N815

    def __init__(self, checkpoint):
        self.checkpoint, self.offsets = checkpoint, None

    @property
    def writeStream(self):  # noqa: N802
        return self

    def __getattr__(self, name):
        return lambda *_, **__: self

    def start(self):
        self.offsets = sorted(path.name for path in (self.checkpoint / "offsets").glob("*"))


def test_with_connect_what_a_power_cut_left_is_taken_back_unless_somebody_works_on_it(tmp_path):
    """A driver that has planned a micro-batch and not begun it leaves the same files."""
    checkpoint = tmp_path / "checkpoint"
    (checkpoint / "offsets").mkdir(parents=True)
    for number in range(2):
        (checkpoint / f"offsets/{number}").write_text("v1\n{}")
    begin(checkpoint, 1)
    (checkpoint / "offsets/2").write_text("")
    frame = ConnectFrame(checkpoint)
    code = (
        "import sys; from pathlib import Path; from penstock.pipeline.checkpoint_locks import hold;"
        "lock = hold(Path(sys.argv[1])); print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(checkpoint)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as other:
        assert other.stdout.readline() == b"held\n"
        start_query(frame, None, str(checkpoint), trigger_of("1 second"), None)
        assert frame.offsets == ["0", "1", "2"]
        other.stdin.close()
    start_query(frame, None, str(checkpoint), trigger_of("1 second"), None)
    assert frame.offsets == ["0", "1"]
    hold(checkpoint).release()  # the server may have it now
    nowhere = ConnectFrame(tmp_path / "nowhere")
    start_query(nowhere, None, str(tmp_path / "nowhere"), trigger_of("1 second"), None)
    assert not (tmp_path / "nowhere").exists()


def test_the_cause_of_a_failure_is_named_not_who_relayed_it():
    """Java fails below Python below Java: Python's line says only that Java has raised something."""
    trace = """[STREAM_FAILED] Query terminated with exception: An exception was raised by the Python Proxy
    Traceback (most recent call last):
    py4j.protocol.Py4JJavaError: An error occurred while calling o107.save.
    : org.apache.hadoop.fs.FSError: java.io.IOException: No space left on device
        at org.apache.hadoop.fs.RawLocalFileSystem
    Caused by: java.io.IOException: No space left on device
        ... 58 more"""
    assert cause(Exception(trace)) == "java.io.IOException: No space left on device"
    python = trace.replace("py4j.protocol.Py4JJavaError: An error", "ConnectionError: an error")
    assert cause(Exception(python)).startswith("ConnectionError: an error")
    ours = f"{python}\npenstock.base.errors.PipelineError: ours"
    assert cause(Exception(ours)) == "penstock.base.errors.PipelineError: ours"


def test_a_query_that_spark_had_no_time_to_start_is_started_again(monkeypatch):
    """Spark gives its Python processes ten seconds to come up. Whatever else is wrong isn't tried again."""
    monkeypatch.setattr(streaming_queries, "START_PAUSES", (0.0, 0.0))
    late = PySparkException("[X] Python worker failed to connect back.")
    outcomes = [late, late, "query"]

    def start() -> object:
        outcome = outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    writer = SimpleNamespace(start=start)
    assert start_patiently(writer) == "query"
    for errors in ([late] * 3, [PySparkException("no such table")]):
        outcomes = list(errors)
        with pytest.raises(PySparkException) as found:
            start_patiently(writer)
        assert found.value is errors[0]
        assert outcomes == []
