"""The Spark session of a command: on this machine, on a Connect server, or the one that spark-submit brings.

Spark prints messages while it starts, and prints each failure several times, with stack traces, before it raises it.
Its workers write through the JVM, and complain when they are ended. A command should report a failure once. So what the
JVM writes to standard error goes to a log, which commands that run for long name, or to a temporary file. `--debug`
shows it instead. If the JVM doesn't even start, the error has the end of that file.
"""

import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

from penstock.base.errors import PipelineError
from penstock.cli.terminal import debugging

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_STDERR = 2
_LAST_WORDS = 2000  # characters that are quoted of a JVM that didn't start
_LONG_LOG = 10_000_000  # bytes; a log that is longer is begun anew


@contextmanager
def session(
    master: str | None,
    name: str,
    config: Mapping[str, str] | None = None,
    *,
    log: Path | None = None,
) -> "Iterator[SparkSession]":
    """A session, stopped at the end unless it was there before. Messages of Spark's JVM and workers go to `log`."""
    from pyspark.sql import SparkSession

    from penstock.pipeline.session import is_submitted, local_session

    was_there = SparkSession.getActiveSession() is not None
    if was_there or is_submitted() or debugging.get():
        spark = local_session(master or "local[*]", name, config)
    else:
        spark = _open_hushed(master, name, config or {}, log)
    try:
        yield spark
    finally:
        if not was_there:
            spark.stop()


def _open_hushed(
    master: str | None, name: str, config: Mapping[str, str], log: Path | None
) -> "SparkSession":
    from penstock.pipeline.session import local_session

    with _log_file(log) as file:
        before = file.seek(0, os.SEEK_END)
        try:
            with _stderr_into(file):
                return local_session(master or "local[*]", name, config)
        except RuntimeError as error:  # how PySpark says that there is no JVM
            file.seek(before)
            said = file.read().decode(errors="replace").strip()[-_LAST_WORDS:]
            raise PipelineError(f"Spark didn't start: {said or error}") from error


def _log_file(path: Path | None) -> IO[bytes]:
    """A file to which all processes append. Without a path, it is deleted when no process has it open."""
    if path is None:
        return tempfile.TemporaryFile("a+b")
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and path.stat().st_size > _LONG_LOG:
        path.unlink()
    return path.open("a+b")


@contextmanager
def _stderr_into(file: IO[bytes]) -> Iterator[None]:
    """Make `file` the standard error of all processes that are started in this block, for good."""
    sys.stderr.flush()
    kept = os.dup(_STDERR)
    os.dup2(file.fileno(), _STDERR)
    try:
        yield
    finally:
        os.dup2(kept, _STDERR)
        os.close(kept)
