"""The data folder of a service. A lock makes sure that only one service uses it.

<data>/lock             locked with flock; says who has it
<data>/registry.db      subscriptions                      unless they are kept elsewhere
<data>/inbox.db         what was accepted, until it is in the log
<data>/published/       the log: segments that Spark reads
<data>/feeds.db         what subscribers were sent         unless it is kept elsewhere
<data>/service.db       keys, schema, what the service remembers of itself
<data>/spark/           checkpoints, log
<data>/dead-letters/    records that couldn't be matched
<data>/metadata         whether notifications carry the metadata of their subscriptions
"""

import fcntl
import os
import socket
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

from penstock.base.durable import make_folder, replace_file
from penstock.base.errors import PenstockError


class DataFolderLock:
    """Holds a data folder for this process until it ends or releases it."""

    def __init__(self, folder: Path) -> None:
        """Take the lock. If another process has it, a PenstockError says which."""
        try:
            make_folder(folder)
            self._file: TextIO = (folder / "lock").open("a+", encoding="utf-8")
        except OSError as error:
            raise PenstockError(f"data folder {folder}: {error.strerror}") from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.seek(0)
            owner = self._file.readline().strip() or "another process"
            self._file.close()
            raise PenstockError(
                f"data folder {folder} is in use by {owner}: stop that service first, or give this one a folder of its "
                "own (--data)"
            ) from None
        self._file.truncate(0)
        now = datetime.now(UTC).isoformat(timespec="seconds")
        self._file.write(f"process {os.getpid()} on {socket.gethostname()} since {now}\n")
        self._file.flush()

    def release(self) -> None:
        """Release the folder, so that another process can take it."""
        self._file.close()


def decide_metadata(folder: Path, wanted: bool | None) -> bool:
    """Whether notifications carry metadata, as it was decided when the folder was new.

    PenstockError if `wanted` says otherwise: Spark's checkpoints depend on the decision.
    """
    file = folder / "metadata"
    decided: bool | None = None
    if file.exists():
        decided = file.read_text(encoding="utf-8").strip() == "true"
    elif (folder / "matched-by").exists():  # the folder is older than this setting
        decided = False
    if decided is None:
        decided = bool(wanted)
        replace_file(file, f"{str(decided).lower()}\n")
    elif wanted not in (None, decided):
        raise PenstockError(
            f"metadata: data folder {folder} was begun with {str(decided).lower()}, and stays so: leave the "
            "setting out, or begin with another folder"
        )
    return decided
