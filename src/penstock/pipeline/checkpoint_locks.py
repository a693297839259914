"""Lets one driver at a time use a checkpoint folder, by a lock that ends with the process that holds it.

    <checkpoint>/penstock/lock      locked with flock; says who has it

Two drivers on one checkpoint would both plan micro-batch 17, with different events. Spark notices that within one
session, or if one driver finds that the other has planned or committed the batch first. In an object store nothing can
be locked, and there is no other protection.

With Spark Connect micro-batches run in a process that the server has started. If the server is killed, that process
would go on asking for it for ten minutes, and keep the lock as long. So it ends itself when its server is gone.
"""

import errno
import fcntl
import logging
import os
import socket
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

from penstock.base.durable import make_folder
from penstock.base.errors import PipelineError

_REPLACED_AFTER = 30.0  # seconds that the process of an earlier run may take to end
_LOOK = 0.2  # seconds between two looks
_NOT_SUPPORTED = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)
_log = logging.getLogger("penstock.pipeline")


class CheckpointLock:
    """A checkpoint that this process holds."""

    def __init__(self, checkpoint: Path, file: TextIO) -> None:
        self._checkpoint, self._file = checkpoint, file
        self.in_use: Callable[[], bool] = lambda: True
        """Whether its query still runs. If it doesn't, a new query may take the lock though nobody has released it."""

    def release(self) -> None:
        """Let others have the checkpoint. A second call does nothing."""
        if _held.get(self._checkpoint) is self:
            del _held[self._checkpoint]
        self._file.close()


_held: dict[Path, CheckpointLock] = {}


def hold(checkpoint: Path) -> CheckpointLock:
    """Take a checkpoint for this process. Raises a PipelineError that says who has it, if somebody does."""
    held = _held.get(checkpoint)
    if held is not None and not held.in_use():
        held.release()
    make_folder(checkpoint / "penstock")
    path = checkpoint / "penstock" / "lock"
    file = path.open("a+", encoding="utf-8")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.seek(0)
        owner = file.readline().strip() or "another process"
        file.close()
        raise PipelineError(
            f"checkpoint {checkpoint} is in use by {owner}: two pipelines on it would read the same events. Stop that "
            "one first, or give this one a checkpoint folder and a sink of its own"
        ) from None
    except OSError as error:
        if error.errno not in _NOT_SUPPORTED:
            file.close()
            raise PipelineError(f"{path} can't be locked: {error.strerror}") from error
        _log.warning("%s can't be locked here (%s): run one pipeline at a time on it", path, error)
    file.truncate(0)
    now = datetime.now(UTC).isoformat(timespec="seconds")
    file.write(f"process {os.getpid()} on {socket.gethostname()} since {now}\n")
    file.flush()
    _held[checkpoint] = CheckpointLock(checkpoint, file)
    return _held[checkpoint]


def check_free(folder: Path) -> None:
    """Raises PipelineError if somebody works on a checkpoint of a pipeline. It is called before Spark is started."""
    for path in (*folder.glob("penstock/lock"), *folder.glob("*/penstock/lock")):
        hold(path.parent.parent).release()


def hold_in_this_process(checkpoint: Path) -> None:
    """Take a checkpoint for a process of a Spark Connect server, unless it has it already.

    When a query is started once more, Spark ends the run that it replaces, and the process of that run soon after. So
    this waits for a while.
    """
    if checkpoint in _held:
        return
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    deadline = time.monotonic() + _REPLACED_AFTER
    while True:
        try:
            hold(checkpoint)
        except PipelineError:
            if time.monotonic() > deadline:
                raise
            time.sleep(_LOOK)
        else:
            return


def _end_with(parent: int) -> None:
    """End this process, as a crash would, when the one that has started it is gone."""
    while os.getppid() == parent:
        time.sleep(_LOOK)
    os._exit(1)
