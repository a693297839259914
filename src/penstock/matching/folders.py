"""A folder of arrays that is either whole and right, or refused.

Written beside its final place, synced, then renamed: a reader sees all of it or nothing. The manifest has the size and
the checksum of every file, so that a torn, truncated or foreign file is found before a worker maps it. Arrays are plain
`.npy` files, mapped read-only: workers of one host share one copy in the page cache.
"""

import json
import os
import shutil
import uuid
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from penstock.errors import SnapshotError
from penstock.matching.plan import AnyArray

FORMAT = 2
MANIFEST = "manifest.json"
_BLOCK = 1 << 22


def write_folder(folder: Path, header: Mapping[str, Any], arrays: Mapping[str, AnyArray]) -> None:
    """Write a folder of arrays atomically. A folder that is there already is left alone: content is never changed."""
    if folder.exists():
        return
    folder.parent.mkdir(parents=True, exist_ok=True)
    draft = folder.parent / f".draft-{uuid.uuid4().hex}"
    try:
        draft.mkdir()
        files = {}
        for name, array in arrays.items():
            path = draft / f"{name}.npy"
            with path.open("wb") as out:
                np.save(out, array)
                _sync(out.fileno())
            files[path.name] = {"bytes": path.stat().st_size, "crc32": _checksum(path)}
        write_file(
            draft / MANIFEST, json.dumps({"format": FORMAT, "header": header, "files": files})
        )
        sync_folder(draft)
        try:
            draft.rename(folder)
        except OSError:
            if not folder.exists():  # another writer of the same content may have been first
                raise
        sync_folder(folder.parent)
    except OSError as error:
        raise SnapshotError(f"can't write {folder}: {error.strerror or error}") from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def read_folder(folder: Path) -> tuple[dict[str, Any], dict[str, AnyArray]]:
    """Check a folder against its manifest and map its arrays."""
    manifest = read_manifest(folder / MANIFEST)
    arrays: dict[str, AnyArray] = {}
    for name, expected in manifest["files"].items():
        path = folder / name
        if not path.is_file():
            raise SnapshotError(f"{path} is missing: the snapshot is incomplete; publish it again")
        size = path.stat().st_size
        if size != expected["bytes"]:
            raise SnapshotError(
                f"{path} is torn: {size:,} bytes, the manifest says {expected['bytes']:,}; publish it again"
            )
        if _checksum(path) != expected["crc32"]:
            raise SnapshotError(f"{path} is corrupt: its checksum is wrong; publish it again")
        try:
            arrays[name.removesuffix(".npy")] = np.load(path, mmap_mode="r" if size > 128 else None)
        except ValueError:
            # NumPy can't map an array without elements.
            arrays[name.removesuffix(".npy")] = np.load(path)
    return manifest["header"], arrays


def read_manifest(path: Path) -> dict[str, Any]:
    """A JSON file of ours."""
    try:
        manifest = json.loads(path.read_text())
        found = manifest["format"]
    except FileNotFoundError:
        raise SnapshotError(
            f"{path} is missing: no snapshot of Penstock, or not visible from this machine"
        ) from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SnapshotError(f"{path} can't be read: {error}") from error
    if found != FORMAT:
        raise SnapshotError(f"{path} has format {found}, this Penstock reads format {FORMAT}")
    return dict(manifest)


def write_file(path: Path, text: str) -> None:
    """Write a file and bring it to the disk."""
    with path.open("w", encoding="utf-8") as out:
        out.write(text)
        out.flush()
        _sync(out.fileno())


def _sync(descriptor: int) -> None:
    os.fsync(descriptor)


def sync_folder(folder: Path) -> None:
    """Bring the names in a folder to the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _checksum(path: Path) -> int:
    value = 0
    with path.open("rb") as source:
        while block := source.read(_BLOCK):
            value = zlib.crc32(block, value)
    return value
