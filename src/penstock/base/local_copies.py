"""Copies of remote files on this machine's disk: fetched once by whichever process is first, and mapped by all.

    <folder>/<name>           the copy of one version of one file
    <folder>/.draft-<name>    a copy that is being fetched, locked by the process that fetches it
    <folder>/.lock-7          held while a copy is looked for and fetched; a sixteenth of the names share a lock

The folder is `PENSTOCK_CACHE`, by default one of this user's among the temporary ones. It holds `PENSTOCK_CACHE_BYTES`
at most, by default 10 GB: copies that nobody has used for longest go first. A copy that some process has mapped is
locked for as long, so it stays, even if that leaves too little room. A process that is killed leaves its draft, which
the next one overwrites.

A copy is named after its URI and its version, so it is never out of date. Nothing is synced: after a power cut a copy
may be damaged, and whoever maps it checks it and has it fetched again (`forget_copy`).
"""

import contextlib
import fcntl
import hashlib
import logging
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import numpy as np

from penstock.base.arrays import AnyArray
from penstock.base.errors import SnapshotError
from penstock.base.remote_paths import RemotePath

_MOST = 10_000_000_000  # bytes
_DRAFT, _LOCK = ".draft-", ".lock-"
_log = logging.getLogger("penstock.base")


def map_copy(path: RemotePath, version: str, size: int) -> AnyArray:
    """The bytes of a file, mapped from a copy on this machine."""
    if not size:  # an empty file can't be mapped
        return np.empty(0, np.uint8)
    folder, name = _folder(), _name(path, version)
    with _turn(folder, name):
        copy = folder / name
        if not copy.exists() or copy.stat().st_size != size:
            _fetch(path, copy, size)
        os.utime(
            copy, ns=(time.time_ns(), time.time_ns())
        )  # finer than the clock of the file system
        with copy.open("rb") as file:
            # The mapping has a descriptor of its own of the same open file: it keeps the lock until it is unmapped.
            fcntl.flock(file, fcntl.LOCK_SH)
            return np.memmap(file, np.uint8, "r").view(np.ndarray)


def forget_copy(path: RemotePath, version: str) -> None:
    """Delete a copy that turned out to be damaged."""
    folder, name = _folder(), _name(path, version)
    with _turn(folder, name):
        (folder / name).unlink(missing_ok=True)


def _name(path: RemotePath, version: str) -> str:
    return hashlib.sha256(f"{path}\n{version}".encode()).hexdigest()[:32]


def _fetch(path: RemotePath, copy: Path, size: int) -> None:
    draft = copy.with_name(_DRAFT + copy.name)
    try:
        _make_room(copy.parent, size)
        with draft.open("wb") as out:
            fcntl.flock(out, fcntl.LOCK_EX)
            path.download(out)
        if (found := draft.stat().st_size) != size:
            raise SnapshotError(f"{path} is torn: {found:,} bytes, and there should be {size:,}")
        draft.replace(copy)
    except FileNotFoundError as error:
        raise SnapshotError(f"{path} is missing: {error}") from error
    except OSError as error:
        raise SnapshotError(
            f"{path} can't be copied to {copy.parent}: {error.strerror or error}. PENSTOCK_CACHE names another folder "
            "for copies"
        ) from error
    finally:
        draft.unlink(missing_ok=True)


def _make_room(folder: Path, size: int) -> None:
    """Delete what nobody has used for longest, until there is room for so many bytes."""
    most = int(os.environ.get("PENSTOCK_CACHE_BYTES", _MOST))
    found = []
    for path in folder.iterdir():
        with contextlib.suppress(FileNotFoundError):  # another process makes room, too
            if not path.name.startswith(_LOCK):
                found.append((path.stat().st_mtime_ns, path.stat().st_size, path))
    total = size + sum(one for _, one, _ in found)
    for _, one, path in sorted(found):
        if total <= most:
            return
        if not _in_use(path):
            path.unlink(missing_ok=True)
            total -= one
    if total > most:
        _log.warning("%s has %d bytes, and %d are allowed: all are in use", folder, total, most)


def _in_use(path: Path) -> bool:
    """Whether a process has a copy mapped, or is just fetching it."""
    try:
        with path.open("rb") as file:
            return not _try_lock(file)
    except FileNotFoundError:
        return False


def _try_lock(file: IO[bytes]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextlib.contextmanager
def _turn(folder: Path, name: str) -> Iterator[None]:
    """One process, and one thread, at a time for this name. The lock goes with the process that holds it."""
    with (folder / f"{_LOCK}{name[0]}").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _folder() -> Path:
    given = os.environ.get("PENSTOCK_CACHE")
    folder = Path(given or Path(tempfile.gettempdir()) / f"penstock-cache-{os.getuid()}")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not given and folder.stat().st_uid != os.getuid():
        raise SnapshotError(f"{folder} belongs to another user: name a folder in PENSTOCK_CACHE")
    return folder
