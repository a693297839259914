"""A mover to sealed segments: files that Spark's file source reads.

    published/events/0000000000000001-0000000000000120.jsonl      positions 1 to 120, one record a line
    published/tables/Stocks/0000000000000121-0000000000000121.jsonl

A segment is written under a hidden name, synced, and only then given its own: Spark sees it whole or not at all, and it
never changes. Its name says what is in it: every record of its log after the previous segment, up to the last position.
So after a crash the names say which rows have been sealed, and rows that come again are left out.

Spark takes files in order of modification time, so each is at least a millisecond later than the one before.
"""

import os
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from penstock.base.durable import make_folder, sync_folder, write_file
from penstock.server.publishing.published import InboxRow

_NAME = re.compile(r"(\d{16})-(\d{16})\.jsonl")
_DRAFT = ".draft.jsonl"
_MILLISECOND = 1_000_000  # nanoseconds


class FileMover:
    """Seals rows as segments under a folder, with a subfolder for each log."""

    def __init__(self, folder: str | Path) -> None:
        self._folder = Path(folder).absolute()
        make_folder(self._folder)
        self._sealed: dict[str, int] = {}
        self._modified = 0

    def take(self, rows: Sequence[InboxRow]) -> None:
        """Seal rows: a segment for each log that they belong to."""
        for log in dict.fromkeys(row.log for row in rows):
            sealed = self._last_sealed(log)
            new = [row for row in rows if row.log == log and row.first > sealed]
            if new:
                self._seal(log, new)

    def close(self) -> None:
        """Do nothing: no file stays open."""

    def _seal(self, log: str, rows: Sequence[InboxRow]) -> None:
        folder = self._folder / log
        draft = folder / _DRAFT
        write_file(draft, b"\n".join([*(row.lines for row in rows), b""]))
        self._modified = max(time.time_ns(), self._modified + _MILLISECOND)
        os.utime(draft, ns=(self._modified, self._modified))
        draft.replace(folder / f"{rows[0].first:016d}-{rows[-1].last:016d}.jsonl")
        sync_folder(folder)
        self._sealed[log] = rows[-1].last

    def _last_sealed(self, log: str) -> int:
        if log not in self._sealed:
            folder = self._folder / log
            make_folder(folder)
            (folder / _DRAFT).unlink(missing_ok=True)
            found = list(sealed_segments(folder))
            self._sealed[log] = max((last for _, last, _ in found), default=0)
            times = [path.stat().st_mtime_ns for _, _, path in found]
            self._modified = max([self._modified, *times])
            sync_folder(folder)  # the last seal may have been cut off before its sync
        return self._sealed[log]


def sealed_segments(folder: Path) -> Iterator[tuple[int, int, Path]]:
    """The segments of a log: first and last position, and the file."""
    for path in folder.iterdir():
        if found := _NAME.fullmatch(path.name):
            yield int(found[1]), int(found[2]), path


def delete_segments(folder: Path, read: Iterable[str], released: int) -> int:
    """Delete the segments of a log whose names are in `read`; returns how many.

    Segments stay if the inbox, which has `released` rows up to a position, still has some of theirs: after a crash, the
    names say that these rows are sealed.
    """
    names = set(read)
    gone = [
        path for _, last, path in sealed_segments(folder) if last <= released and path.name in names
    ]
    for path in gone:
        path.unlink(missing_ok=True)
    return len(gone)
