"""Seals folders of files that Spark has written: syncs them, and lists what must be in them.

    <folder>/_manifest      a document (`checked_files`): the size and the checksum of every file

Readers of the folder (Spark, Arrow) don't see files that begin with `_`.
"""

import zlib
from pathlib import Path

from penstock.base.checked_files import FileKind
from penstock.base.durable import sync_file, sync_folder, write_file
from penstock.base.errors import PipelineError

_NAME = "_manifest"
_MANIFEST = FileKind({"files": dict}, PipelineError, "it is written again by a replay")
_BLOCK = 1 << 20


def seal(folder: Path) -> None:
    """Sync all files of a folder, and their names, and write the manifest."""
    files = {}
    for path in sorted(folder.iterdir()):
        sync_file(path)
        files[path.name] = _measured(path)
    write_file(folder / _NAME, _MANIFEST.to_text({"files": files}))
    sync_folder(folder)


def is_complete(folder: Path) -> bool:
    """Whether a folder still has all files that it had when it was sealed."""
    try:
        expected = _MANIFEST.read(folder / _NAME)["files"]
        return all(_measured(folder / name) == measured for name, measured in expected.items())
    except (FileNotFoundError, NotADirectoryError, PipelineError):
        return False


def _measured(path: Path) -> list[int]:
    """The size and the checksum of a file."""
    size, checksum = 0, 0
    with path.open("rb") as source:
        while block := source.read(_BLOCK):
            size, checksum = size + len(block), zlib.crc32(block, checksum)
    return [size, checksum]
