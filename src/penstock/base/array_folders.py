"""A folder of arrays that is either whole and right, or refused.

    manifest.json    a document (`checked_files`): a header, and where each array lies
    arrays           all arrays, end to end, each at a multiple of 64 bytes

A folder is written beside its final place, synced, then renamed: a reader sees all of it or nothing. The manifest has
the size and the checksum of the arrays, and a checksum of its own. So a torn, changed or foreign file is found before a
worker maps it. Arrays are mapped read-only: workers of one host share one copy in the page cache. There are two files,
however many arrays there are: a pipeline writes such a folder with every change, and syncing files is what takes time.

In an object store nothing can be renamed: the manifest is written last, and without it there is no folder. A reader
maps a copy on its own disk (`local_copies`), which the manifest's checksum names.
"""

import itertools
import shutil
import uuid
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from penstock.base.arrays import AnyArray
from penstock.base.checked_files import FileKind, checksum_of
from penstock.base.durable import make_folder, sync_folder, write_file
from penstock.base.errors import SnapshotError
from penstock.base.local_copies import forget_copy, map_copy
from penstock.base.remote_paths import AnyPath, RemotePath

MANIFEST, ARRAYS = "manifest.json", "arrays"
REMEDY = "start the pipeline or the job again: it is compiled anew from the registry"
_KIND = FileKind({"header": dict, "arrays": dict, "size": int, "crc32": int}, SnapshotError, REMEDY)
_ALIGNED = 64
_DTYPES = "biuf"  # NumPy's kinds of plain numbers


def pack_texts(texts: Iterable[str]) -> tuple[AnyArray, AnyArray]:
    """Texts as arrays: their bytes end to end, and where each begins and the last one ends.

    >>> unpack_texts(*pack_texts(["ann", "", "é"]))
    ['ann', '', 'é']
    """
    found = [text.encode() for text in texts]
    ends = np.cumsum([0, *map(len, found)], dtype=np.int64)
    return np.frombuffer(b"".join(found), np.uint8), ends


def unpack_texts(data: AnyArray, ends: AnyArray) -> list[str]:
    """The texts that `pack_texts` was given. ValueError if the bytes aren't UTF-8."""
    whole = data.tobytes()
    return [whole[a:b].decode() for a, b in itertools.pairwise(ends.tolist())]


def write_folder(folder: AnyPath, header: Mapping[str, Any], arrays: Mapping[str, AnyArray]) -> int:
    """Write a folder of arrays atomically. Returns the checksum of its manifest, which covers everything in the folder.

    A folder that is there already is left alone: content is never changed.
    """
    data, places = _end_to_end(arrays)
    content = {
        "header": dict(header),
        "arrays": places,
        "size": len(data),
        "crc32": zlib.crc32(data),
    }
    if isinstance(folder, RemotePath):
        _write_remote(folder, content, data)
        return checksum_of(content)
    if folder.exists():
        return checksum_of(content)
    draft = folder.parent / f".draft-{uuid.uuid4().hex}"
    try:
        make_folder(folder.parent)
        draft.mkdir()
        write_file(draft / ARRAYS, data)
        write_file(draft / MANIFEST, _KIND.to_text(content))
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
    return checksum_of(content)


def _write_remote(folder: RemotePath, content: Mapping[str, Any], data: bytes) -> None:
    try:
        if not (folder / MANIFEST).exists():
            if data:
                write_file(folder / ARRAYS, data)
            write_file(folder / MANIFEST, _KIND.to_text(content))
    except OSError as error:
        raise SnapshotError(f"can't write {folder}: {error.strerror or error}") from error


def _end_to_end(arrays: Mapping[str, AnyArray]) -> tuple[bytes, dict[str, list[Any]]]:
    """The bytes of arrays, and where each of them lies: type, shape, first byte."""
    data, places = bytearray(), {}
    for name, array in arrays.items():
        if array.dtype.kind not in _DTYPES:
            raise TypeError(f"array {name} has type {array.dtype}: only numbers can be kept")
        data += bytes(-len(data) % _ALIGNED)
        places[name] = [array.dtype.str, list(array.shape), len(data)]
        data += np.ascontiguousarray(array).tobytes()
    return bytes(data), places


def read_folder(
    folder: AnyPath, checksum: int | None = None, remedy: str = REMEDY
) -> tuple[dict[str, Any], dict[str, AnyArray]]:
    """The header of a folder and its arrays, mapped.

    The arrays are checked against the manifest, and the manifest against `checksum` if it is known.
    """
    kind = replace(_KIND, remedy=remedy)
    content = read_manifest(folder, remedy)
    if checksum is not None and checksum_of(content) != checksum:
        raise kind.damage(folder / MANIFEST, "it isn't the one that was published")
    data = _checked(folder / ARRAYS, content, kind)
    try:
        places = content["arrays"].items()
        return content["header"], {name: _array(data, *place) for name, place in places}
    except (TypeError, ValueError, OverflowError) as error:
        raise kind.damage(folder / MANIFEST, f"it describes no arrays ({error})") from error


def _checked(path: AnyPath, content: Mapping[str, Any], kind: FileKind) -> AnyArray:
    """The bytes of all arrays, mapped and checked."""
    if isinstance(path, Path):
        return _check(path, _mapped(path, kind), content, kind)
    version, size = str(checksum_of(content)), content["size"]
    try:
        return _check(path, map_copy(path, version, size), content, kind)
    except SnapshotError:  # if only the copy is damaged, the next one isn't
        forget_copy(path, version)
        return _check(path, map_copy(path, version, size), content, kind)


def _check(path: AnyPath, data: AnyArray, content: Mapping[str, Any], kind: FileKind) -> AnyArray:
    if len(data) != content["size"]:
        raise kind.damage(
            path, f"it is torn: {len(data):,} bytes, the manifest says {content['size']:,}"
        )
    if zlib.crc32(data.data) != content["crc32"]:
        raise kind.damage(path, "its checksum is wrong")
    return data


def _mapped(path: Path, kind: FileKind) -> AnyArray:
    try:
        if not path.stat().st_size:  # an empty file can't be mapped
            return np.empty(0, np.uint8)
        return np.memmap(path, np.uint8, "r").view(np.ndarray)
    except FileNotFoundError:
        raise kind.damage(path, "it is missing") from None
    except OSError as error:
        raise SnapshotError(f"{path} can't be read: {error.strerror or error}") from error


def _array(data: AnyArray, dtype: str, shape: list[int], first: int) -> AnyArray:
    type_ = np.dtype(dtype)
    count = int(np.prod([int(n) for n in shape], dtype=object))
    if type_.kind not in _DTYPES or first < 0 or first % _ALIGNED or min([0, *shape]) < 0:
        raise ValueError(f"{dtype} {shape} at {first}")
    found = data[first : first + count * type_.itemsize]
    if len(found) != count * type_.itemsize:
        raise ValueError(f"{dtype} {shape} at {first} is past the end")
    return found.view(type_).reshape(shape)


def read_manifest(folder: AnyPath, remedy: str = REMEDY) -> dict[str, Any]:
    """The content of a folder's manifest. The arrays aren't read."""
    try:
        return replace(_KIND, remedy=remedy).read(folder / MANIFEST)
    except FileNotFoundError:
        raise SnapshotError(
            f"{folder / MANIFEST} is missing: no snapshot of Penstock, or not visible from this machine"
        ) from None
