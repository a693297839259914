"""Small files that tasks write for the driver beside their rows, in a folder that both can see.

    <folder>/<batch>/<name>-<part><suffix>        written whole when a task ends

A file is synced before its task ends. A sink may have the micro-batch's rows on the disk soon after. A replay that
finds them there runs no task, and reads the files of the run before.

A task that is tried again overwrites its file, and a replayed micro-batch overwrites its folder, so nothing is there
twice. With Spark Connect workers don't know the number of their micro-batch, and a batch DataFrame has none. These use
one folder without a number; only one of them runs at a time.
"""

import atexit
import shutil
import tempfile
import uuid
from pathlib import Path

from pyspark import TaskContext

from penstock.base.durable import (
    delete_folder,
    make_folder,
    replace_file,
    sync_file,
    sync_folder,
)
from penstock.base.remote_paths import AnyPath, RemotePath

_UNNUMBERED = "batch"


def leave(folder: AnyPath, name: str, text: str) -> None:
    """On a worker: write a file of the task to the micro-batch's share of a folder. The suffix is that of the name."""
    leave_in(batch_folder(folder), name, text)


def leave_in(folder: AnyPath, name: str, text: str) -> None:
    """The same, to a folder that the driver has chosen for the micro-batch."""
    make_folder(folder)
    replace_file(_task_file(folder, name), text)


def batch_folder(folder: AnyPath) -> AnyPath:
    """On a worker: the micro-batch's share of a folder."""
    context = TaskContext.get()
    batch = None if context is None else context.getLocalProperty("streaming.sql.batchId")
    return folder / (batch or _UNNUMBERED)


def _task_file(folder: AnyPath, name: str) -> AnyPath:
    """The file of a task, which has the task's number before the suffix."""
    context = TaskContext.get()
    part = 0 if context is None else context.partitionId()
    stem, _, suffix = name.rpartition(".")
    return folder / f"{stem}-{part}.{suffix}"


def make_scratch(prefix: str) -> Path:
    """On the driver: a temporary folder. It lasts as long as the process, as a DataFrame may be run at any time."""
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def new_draft(folder: AnyPath) -> Path:
    """On a worker: the path of a draft to write to, which nobody reads before it is given its name."""
    make_folder(folder)
    here = Path(tempfile.gettempdir()) if isinstance(folder, RemotePath) else folder
    return here / f".{uuid.uuid4().hex}"


def give_name(draft: Path, folder: AnyPath, name: str) -> None:
    """On a worker: make a file of the task of a draft that is written and closed."""
    target = _task_file(folder, name)
    if isinstance(target, RemotePath):
        target.upload(draft)
        draft.unlink()
        return
    sync_file(draft)
    draft.replace(target)
    sync_folder(target.parent)


def forget(folder: AnyPath, batch: int) -> None:
    """Delete the files of a micro-batch: they were dealt with, or it is to run again."""
    for at in folders_of(folder, batch):
        delete_folder(at)


def folders_of(folder: AnyPath, batch: int | None) -> list[AnyPath]:
    """On the driver: the folders to which the tasks of a micro-batch write."""
    names = [_UNNUMBERED] if batch is None else [str(batch), _UNNUMBERED]
    return [folder / name for name in names]
