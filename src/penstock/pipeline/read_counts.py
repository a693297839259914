"""How many events tasks have read, said while they still run: for a progress bar.

    <folder>/<part>.read      how many events the task has read so far

Spark itself says how many tasks are done, which of a few large ones is none for a long time; its figures of rows and
bytes are those of tasks that have ended. So tasks write a number down, a few times a second, in a folder that the
driver sees, too. A task that is tried again begins its file anew. Nothing depends on it: files aren't synced, and in an
object store, where each would be a request, there are none.
"""

import contextlib
import time
from pathlib import Path
from typing import Self

from pyspark import TaskContext

from penstock.base.remote_paths import AnyPath

_EVERY = 0.25  # seconds between two files


class ReadCount:
    """On a worker: what one task has read. Without a folder nobody is told."""

    def __init__(self, folder: str | None) -> None:
        self._path: Path | None = None
        if folder is not None:
            context = TaskContext.get()
            self._path = Path(folder) / f"{0 if context is None else context.partitionId()}.read"
        self._count, self._said = 0, 0.0

    def add(self, events: int) -> None:
        """So many more were read."""
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
        with contextlib.suppress(OSError):  # the folder is gone, or full: a bar isn't worth a task
            path.write_text(str(self._count))


def count_read(folder: AnyPath) -> int:
    """On the driver: what all tasks together have read so far."""
    found = 0
    for path in folder.glob("*.read"):
        with contextlib.suppress(OSError, ValueError):  # it is being written
            found += int(path.read_text())
    return found
