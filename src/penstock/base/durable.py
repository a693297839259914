"""Files that survive a power cut: written whole, synced, and only then given their name.

A disk keeps what was synced. Of the rest it may lose the content, the name, or both, in any order. So there are two
steps, always in this order: first the content of a file is synced, then the folder that has its name.

The same functions take a `RemotePath`: an object store keeps what it has confirmed, and needs no syncing.
"""

import contextlib
import ctypes
import os
import shutil
import time
import uuid
from pathlib import Path

from penstock.base.remote_paths import AnyPath, RemotePath


def write_file(path: AnyPath, content: str | bytes) -> None:
    """Write a file and bring its content to the disk. `sync_folder` does the same for its name."""
    data = content.encode() if isinstance(content, str) else content
    if isinstance(path, RemotePath):
        path.write_bytes(data)
        return
    with path.open("wb") as out:
        out.write(data)
        out.flush()
        _sync(out.fileno())


def create_file(path: AnyPath, content: str | bytes) -> bool:
    """Make a file that is there whole or not at all, whatever happens meanwhile.

    One that is there already stays, and the answer is False: of two writers, the first wins. Of two processes that
    write to an object store at the same moment, both may.
    """
    if isinstance(path, RemotePath):
        return path.create_bytes(content.encode() if isinstance(content, str) else content)
    draft = _draft(path)
    made = True
    try:
        write_file(draft, content)
        os.link(draft, path)
    except FileExistsError:
        made = False
    finally:
        with contextlib.suppress(OSError):
            draft.unlink()
    sync_folder(path.parent)  # also if another writer made the file: it may not have synced yet
    return made


def replace_file(path: AnyPath, content: str | bytes) -> None:
    """Give a file another content: a reader finds the old one or the new one, whatever happens meanwhile."""
    if isinstance(path, RemotePath):
        write_file(path, content)
        return
    draft = _draft(path)
    try:
        write_file(draft, content)
        draft.replace(path)
    finally:
        with contextlib.suppress(OSError):
            draft.unlink()
    sync_folder(path.parent)


def make_folder(folder: AnyPath) -> None:
    """Make a folder and those above it, and bring their names to the disk.

    Nothing needs to be done in an object store, where a file makes its folders.
    """
    if isinstance(folder, RemotePath) or folder.is_dir():
        return
    make_folder(folder.parent)
    folder.mkdir(exist_ok=True)
    sync_folder(folder.parent)


def sync_file(path: Path) -> None:
    """Bring the content of a file, whoever wrote it, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        _sync(descriptor)
    finally:
        os.close(descriptor)


def sync_folder(folder: AnyPath) -> None:
    """Bring the names in a folder to the disk."""
    if isinstance(folder, Path):
        sync_file(folder)


def delete_folder(folder: AnyPath) -> None:
    """Delete a folder with all that is in it. What can't be deleted stays."""
    if isinstance(folder, Path):
        shutil.rmtree(folder, ignore_errors=True)
        return
    with contextlib.suppress(OSError):
        folder.delete_folder()


def age_of(path: AnyPath) -> float:
    """Seconds since a file or folder was written; 0 if it is gone."""
    if isinstance(path, RemotePath):
        return path.age()
    try:
        return time.time() - path.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def sync_disk(path: Path) -> None:
    """Sync the whole file system of `path`: for what others have written in many places."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        syncfs = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
        if syncfs is None:  # not on Linux
            os.sync()
        elif syncfs(descriptor):
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code), str(path))
    finally:
        os.close(descriptor)


def _draft(path: Path) -> Path:
    return path.with_name(f".draft-{path.name}-{uuid.uuid4().hex[:8]}")


def _sync(descriptor: int) -> None:
    os.fsync(descriptor)
