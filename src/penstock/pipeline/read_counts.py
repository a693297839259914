"""Reports how many events tasks have read while they still run, for a progress bar.

    <folder>/<part>.read      how many events the task has read so far

Spark itself says how many tasks are done: with a few large tasks that is 0 for a long time. Its figures of rows and
bytes are those of tasks that have ended. So each task writes a number down, a few times a second, in a folder that the
driver sees, too. A task that is tried again begins its file anew. Nothing depends on these files, so they aren't
synced. They aren't written to object stores, where each would be a request.
"""

import contextlib
import time
from pathlib import Path
from typing import Self

from pyspark import TaskContext

from penstock.base.remote_paths import AnyPath

_EVERY = 0.25  # seconds between two files


class ReadCount:
    """On a worker: counts what one task has read. Without a folder it does nothing."""

    def __init__(self, folder: str | None) -> None:
        self._path: Path | None = None
        if folder is not None:
            context = TaskContext.get()
            self._path = Path(folder) / f"{0 if context is None else context.partitionId()}.read"
        self._count, self._said = 0, 0.0

    def add(self, events: int) -> None:
        """Count so many more events."""
        if self._path is None:
            return
        self._count += events
        if (now := time.monotonic()) - self._said >= _EVERY:
            self._say(self._path)
            self._said = now

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._path is not None:
            self._say(self._path)

    def _say(self, path: Path) -> None:
        with contextlib.suppress(OSError):  # the folder is gone, or full: no reason to fail a task
            path.write_text(str(self._count))


def count_read(folder: AnyPath) -> int:
    """On the driver: how many events all tasks together have read so far."""
    found = 0
    for path in folder.glob("*.read"):
        with contextlib.suppress(OSError, ValueError):  # the file is being written
            found += int(path.read_text())
    return found
