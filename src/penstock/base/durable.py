"""Files that survive a power cut: written whole, synced, and only then given their name.

A disk keeps what was synced. Of the rest it may lose the content, the name, or both, in any order. So there are two
steps, always in this order: first the content of a file is synced, then the folder that has its name.
"""

import contextlib
import ctypes
import os
import uuid
from pathlib import Path


def write_file(path: Path, content: str | bytes) -> None:
    """Write a file and bring its content to the disk. `sync_folder` does the same for its name."""
    data = content.encode() if isinstance(content, str) else content
    with path.open("wb") as out:
        out.write(data)
        out.flush()
        _sync(out.fileno())


def create_file(path: Path, content: str | bytes) -> bool:
    """Make a file that is there whole or not at all, whatever happens meanwhile.

    One that is there already stays, and the answer is False: of two writers, the first wins.
    """
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


def replace_file(path: Path, content: str | bytes) -> None:
    """Give a file another content: a reader finds the old one or the new one, whatever happens meanwhile."""
    draft = _draft(path)
    try:
        write_file(draft, content)
        draft.replace(path)
    finally:
        with contextlib.suppress(OSError):
            draft.unlink()
    sync_folder(path.parent)


def make_folder(folder: Path) -> None:
    """Make a folder and those above it, and bring their names to the disk."""
    if folder.is_dir():
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


def sync_folder(folder: Path) -> None:
    """Bring the names in a folder to the disk."""
    sync_file(folder)


def sync_disk(path: Path) -> None:
    """Bring everything on the disk of `path` there: for what others have written in many places."""
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
