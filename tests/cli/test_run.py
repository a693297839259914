"""run: a pipeline from its file."""

import io
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pyspark
import pytest
from tests.cli.conftest import Penstock, read_lines, write_lines
from tests.sizes import LONG, PATIENCE

from penstock import Subscriptions
from penstock.cli import stream
from penstock.cli.stream import _LiveScreen
from penstock.pipeline import BatchMetrics, Metrics, retries
from penstock.pipeline.checkpoint_locks import hold
from penstock.pipeline.metrics import Report

PIPELINE = """
name: ticks
events: {format: json, path: FOLDER/in, schema: {symbol: string, price: double}}
subscriptions: sqlite:///subs.db
sink: {format: json, path: FOLDER/out}
checkpoint: checkpoint
trigger: 100 ms
"""


@pytest.fixture
def pipeline(penstock: Penstock) -> Path:
    """A pipeline file, a registry with one subscription, and two events."""
    with Subscriptions.open("subs.db") as subs:
        subs.subscribe("alice", "price > 5")
    write_lines(Path("in/a.json"), {"symbol": "A", "price": 6}, {"symbol": "B", "price": 4})
    file = Path("pipeline.yaml").absolute()
    file.write_text(PIPELINE.replace("FOLDER", str(file.parent)))
    return file


def _notified() -> list[tuple[int, str]]:
    rows = [
        r for file in Path("out").glob("*/batch=*/part-*") for r in read_lines(file.read_text())
    ]
    return sorted((sid, row["event"]["symbol"]) for row in rows for sid in row["subscriptions"])


def test_check_says_that_a_file_is_fine(penstock: Penstock, pipeline: Path) -> None:
    """Exit code 0, what it would do on stderr, and nothing is started."""
    result = penstock("run", "pipeline.yaml", "--check")
    assert result.exit_code == 0
    assert "out (exactly once), 1 subscription" in result.stderr
    assert not Path("checkpoint").exists()


def test_a_checkpoint_that_is_in_use_is_refused_before_spark_starts(
    penstock: Penstock, pipeline: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message says who has it."""
    monkeypatch.setattr(stream, "session", lambda *_, **__: pytest.fail("Spark was started"))
    lock = hold(Path("checkpoint/events").absolute())
    result = penstock("run", "pipeline.yaml")
    lock.release()
    assert result.exit_code == 1
    assert f"in use by process {os.getpid()} on " in result.stderr


def test_check_names_the_package_that_kafka_needs(penstock: Penstock, pipeline: Path) -> None:
    """With the version of this Spark: it isn't part of it."""
    text = pipeline.read_text()
    pipeline.write_text(
        text.replace("format: json, path: ", "format: kafka, record: json, path: ", 1)
    )
    result = penstock("run", "pipeline.yaml", "--check")
    assert f"spark-sql-kafka-0-10_2.13:{pyspark.__version__}" in result.stderr


def test_every_problem_is_told_at_once(penstock: Penstock, pipeline: Path) -> None:
    """Exit code 1 and a line for each."""
    pipeline.write_text(pipeline.read_text().replace("sink:", "snik:").replace("100 ms", "often"))
    result = penstock("run", "pipeline.yaml")
    assert result.exit_code == 1
    assert "unknown key 'snik': did you mean 'sink'?" in result.stderr
    assert "trigger 'often'" in result.stderr


def test_check_warns_of_subscriptions_that_will_be_set_aside(
    penstock: Penstock, pipeline: Path
) -> None:
    """Who subscribed to an attribute that the events don't have is named; that is no error."""
    with Subscriptions.open("subs.db") as subs:
        subs.subscribe("bob", "size > 5")
    result = penstock("run", "pipeline.yaml", "--check")
    assert result.exit_code == 0
    assert "subscription 2: unknown attribute 'size'" in result.stderr


def test_a_registry_that_is_not_there_is_told_before_spark_starts(
    penstock: Penstock, pipeline: Path
) -> None:
    """Exit code 1; a registry that is made by a slip in its name would match nothing, for ever."""
    Path("subs.db").unlink()
    result = penstock("run", "pipeline.yaml")
    assert result.exit_code == 1
    assert "there is no such registry" in result.stderr


def test_the_json_schema_of_pipeline_files_is_printed(penstock: Penstock) -> None:
    """For editors: exit code 0, without a file."""
    result = penstock("run", "--schema")
    assert result.exit_code == 0
    assert "checkpoint" in json.loads(result.stdout)["required"]


def test_a_file_that_is_not_there(penstock: Penstock) -> None:
    """A usage error: exit code 2."""
    result = penstock("run", "none.yaml")
    assert result.exit_code == 2
    assert "there is no none.yaml" in result.stderr


@pytest.mark.spark
def test_once_reads_what_is_there_and_ends(spark, penstock: Penstock, pipeline: Path) -> None:
    """A line per micro-batch on stderr, the summary in JSON on stdout, notifications in the sink."""
    result = penstock("run", "pipeline.yaml", "--once", "--json")
    assert result.exit_code == 0, result.stderr
    assert (
        "kind filter  batch 0  published 2  notifications 1  dead-letters 0  snapshot 1"
        in result.stderr
    )
    summary = json.loads(result.stdout)
    assert (summary["published"], summary["notifications"]) == (2, 1)
    assert _notified() == [(1, "A")]


def _ctrl_c(program: subprocess.Popen[str]) -> None:
    """As a terminal does it: everybody in the group gets it."""
    os.killpg(program.pid, signal.SIGINT)


def _sigterm(program: subprocess.Popen[str]) -> None:
    program.send_signal(signal.SIGTERM)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("stop", [_ctrl_c] if LONG == 1 else [_ctrl_c, _sigterm])
def test_a_signal_stops_it_cleanly(penstock: Penstock, pipeline: Path, stop) -> None:
    """The real program, told to end while it has much to do: exit code 0, a summary, and not a word of Spark's."""
    text = pipeline.read_text().replace("double}}", "double}, options: {maxFilesPerTrigger: 1}}")
    pipeline.write_text(text)
    files = 200
    for number in range(files):
        write_lines(Path(f"in/{number}.json"), {"symbol": f"C{number}", "price": 6})
    program = subprocess.Popen(
        [sys.executable, "-c", "from penstock.cli import main; main()", "run", "pipeline.yaml"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,  # one screen
        text=True,
        start_new_session=True,
    )
    watchdog = threading.Timer(PATIENCE, os.killpg, (program.pid, signal.SIGKILL))
    watchdog.start()
    try:
        assert program.stdout is not None
        screen = []
        for line in program.stdout:
            screen.append(line)
            if line.startswith("kind filter  batch 1"):
                stop(program)
        assert program.wait() == 0, "".join(screen)
    finally:
        watchdog.cancel()
        program.kill()
    first, *batches, last = screen
    assert first.endswith("Ctrl-C stops it.\n")
    waits = [line for line in batches if line.startswith("stopping: waiting for the micro-batch")]
    assert len(waits) == 1, "".join(screen)
    batches.remove(waits[0])
    for number, line in enumerate(batches):
        assert line.startswith(f"kind filter  batch {number}  published "), "".join(screen)
    assert last.endswith(f"0 dead letters in {len(batches)} micro-batches\n"), "".join(screen)
    assert 2 <= len(batches) < files
    pins = {int(file.stem) for file in Path("checkpoint/events/penstock/batches").glob("*.json")}
    assert pins == set(range(len(batches)))  # none was begun that didn't end


def test_the_screen_on_a_terminal(monkeypatch) -> None:
    """Totals and the last micro-batches, drawn anew at each."""

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    metrics = Metrics()
    with _LiveScreen("ticks") as screen:
        for number in range(2):
            report = Report("filter", number, 1000, 10, 0, 3, 7, False, None, 0)
            metrics.add(BatchMetrics(report, "2026-01-01T00:00:00Z", 0.5))
            screen.show(metrics.batches[-1], metrics)
    shown = terminal.getvalue()
    assert (
        "ticks: 2,000 events published, 20 notifications, 0 dead letters in 2 micro-batches"
        in shown
    )
    assert "published/s" in shown


@pytest.mark.spark
def test_a_pipeline_that_fails_is_exit_code_1(
    spark, penstock: Penstock, pipeline: Path, monkeypatch
) -> None:
    """What its sink raised is told, in a line, once all tries have failed."""
    monkeypatch.setattr(retries, "PAUSES", (0.0,))
    text = pipeline.read_text()
    sink = next(line for line in text.splitlines() if line.startswith("sink:"))
    pipeline.write_text(text.replace(sink, "sink: {format: python, function: 'json:loads'}"))
    result = penstock("run", "pipeline.yaml", "--once")
    assert result.exit_code == 1
    failed = "the pipeline failed: micro-batch 0 is parked: the sink failed 2 times, at last with TypeError: the JSON"
    assert failed in result.stderr
    assert "Traceback" not in result.stderr
