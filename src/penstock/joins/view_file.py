"""Saves a view in one file, so that a subscriber that starts again goes on where it was.

    line 1    a document (`checked_files`): the select, how far messages were applied, and the sizes of the rest
    rest      the tuples of each table, end to end, each as an IPC stream of Arrow

The file is replaced as a whole, synced, and covered by checksums. A reader finds all of the view that was saved last,
or all of the one before, or an error.
"""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from penstock.base.checked_files import FileKind
from penstock.base.durable import replace_file
from penstock.base.errors import PenstockError, SnapshotError

_KIND = FileKind(
    {"select": str, "tables": dict, "crc32": int},
    SnapshotError,
    "begin with an empty view, and have its whole content sent again",
)


@dataclass(frozen=True, slots=True)
class SavedView:
    """The text of a select, how far its messages were applied, and the tuples that are held of each table."""

    select: str
    position: Any  # None, or what JSON can say
    tables: Mapping[str, pa.Table]


def write_view(path: Path, saved: SavedView) -> None:
    """Write a view in place of the one that is there."""
    streams = {name: _stream(table) for name, table in saved.tables.items()}
    data = b"".join(streams.values())
    content = {
        "select": saved.select,
        "position": saved.position,
        "tables": {name: len(stream) for name, stream in streams.items()},
        "crc32": zlib.crc32(data),
    }
    try:
        replace_file(path, _KIND.to_text(content).encode() + data)
    except OSError as error:
        raise SnapshotError(f"can't write {path}: {error.strerror or error}") from error


def read_view(path: Path) -> SavedView:
    """Read what `write_view` wrote. FileNotFoundError if there is no file."""
    try:
        found = path.read_bytes()
    except FileNotFoundError:
        raise
    except OSError as error:
        raise SnapshotError(f"{path} can't be read: {error.strerror or error}") from error
    head, _, data = found.partition(b"\n")
    content = _KIND.from_text(head.decode(errors="replace"), path)
    if zlib.crc32(data) != content["crc32"]:
        raise damage(path, "its checksum is wrong")
    tables, at = {}, 0
    for name, size in content["tables"].items():
        tables[name] = pa.ipc.open_stream(data[at : at + size]).read_all()
        at += size
    return SavedView(content["select"], content.get("position"), tables)


def damage(path: Path, reason: str) -> PenstockError:
    """The error that says what is wrong with a file, and what to do."""
    return _KIND.damage(path, reason)


def _stream(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]
