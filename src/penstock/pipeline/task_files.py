"""What tasks leave for the driver beside their rows: small files, in a folder that both can see.

    <folder>/<batch>/<name>-<part><suffix>        written whole when a task ends

A file is synced before its task ends: a sink may have the micro-batch's rows on the disk soon after, and a replay that
finds them there runs nothing, so what the tasks told beside them is looked for here.

A task that is tried again overwrites its file, and a micro-batch that is replayed its folder: so each thing is told
once. With Spark Connect workers don't know the number of their micro-batch, and in a frame at rest there is none; but
only one runs at a time.
"""

import shutil
from pathlib import Path

from pyspark import TaskContext

from penstock.durable import make_folder, replace_file

_UNNUMBERED = "batch"


def leave(folder: Path, name: str, text: str) -> None:
    """On a worker: leave a file of a task; its suffix is that of the name."""
    context = TaskContext.get()
    batch = None if context is None else context.getLocalProperty("streaming.sql.batchId")
    leave_in(folder / (batch or _UNNUMBERED), name, text)


def leave_in(folder: Path, name: str, text: str) -> None:
    """The same where the driver has said which folder is the micro-batch's."""
    context = TaskContext.get()
    part = 0 if context is None else context.partitionId()
    make_folder(folder)
    stem, _, suffix = name.rpartition(".")
    replace_file(folder / f"{stem}-{part}.{suffix}", text)


def left(folder: Path, pattern: str, batch: int | None = None) -> list[str]:
    """On the driver: what tasks have left in a micro-batch, or in a frame at rest, which ran just now."""
    files = [path for at in _folders(folder, batch) for path in sorted(at.glob(pattern))]
    return [path.read_text("utf-8") for path in files]


def forget(folder: Path, batch: int) -> None:
    """Delete what was left of a micro-batch: it was dealt with, or is to run again."""
    for at in _folders(folder, batch):
        shutil.rmtree(at, ignore_errors=True)


def _folders(folder: Path, batch: int | None) -> list[Path]:
    names = [_UNNUMBERED] if batch is None else [str(batch), _UNNUMBERED]
    return [folder / name for name in names]
