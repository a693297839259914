"""Deletes the segments of all logs, once Spark has read them for good and the inbox has released their rows."""

from collections import defaultdict
from pathlib import Path

from penstock.server.publishing.sealed_segments import delete_segments
from penstock.server.sides.read_segments import ReadSegments

_QUERIES = ("published/events", "published/tables", "xml/documents", "json/documents")
"""The checkpoints of queries over segments, below the folder of all checkpoints."""


class PublishedSegments:
    """The segments of a data folder."""

    def __init__(self, folder: Path, checkpoints: Path) -> None:
        self._queries = [ReadSegments(checkpoints / query) for query in _QUERIES]
        self._root = folder / "published"
        self._read: dict[Path, set[str]] = defaultdict(set)

    def delete(self, released: int) -> int:
        """Delete the segments that can go; returns how many. The inbox has released rows up to `released`."""
        for query in self._queries:
            for path in query.new():
                if path.is_relative_to(self._root):
                    self._read[path.parent].add(path.name)
        gone = 0
        for folder, names in self._read.items():
            gone += delete_segments(folder, names, released)
            names -= {name for name in names if not (folder / name).exists()}
        return gone
