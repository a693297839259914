"""How far a reader of a feed got, exactly, and a file that keeps it.

The service gives an offset with each page, not with each notification. But a feed never changes: what it has from an
offset on always comes in the same order. So a *place* is an offset, and how many notifications after it are done:

    0000000000000012        go on at this offset
    0000000000000012+3      go on at this offset, without the first three

The file has two slots of fixed size, written in turn, each covered by a checksum:

    {"number": 8, "place": "…12+3", "checksum": …}     padded with blanks
    {"number": 7, "place": "…12+2", "checksum": …}     the one before

The slot with the higher number counts, among those whose checksum is right. Writing a slot takes microseconds, and what
was written survives any end of the process. It is synced once a second: after a power cut, the notifications of the
last second may come again. Replacing and syncing the file for each notification, as for other files of ours, would take
milliseconds.
"""

import json
import os
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from penstock.base.durable import sync_folder
from penstock.base.errors import PenstockError, SnapshotError

OLDEST = "-1"
"""The offset of the oldest notification that is kept."""
NOW = "now"
"""The offset of what comes next."""

_SLOT = 512  # bytes: a sector of a disk, which is written whole or not at all
_SYNCED = 1.0  # seconds between two syncs


@dataclass(frozen=True, slots=True)
class FeedPlace:
    """Go on at `offset`, without the first `done` notifications from there.

    >>> FeedPlace.read("0012+3"), str(FeedPlace("0012", 3)), str(FeedPlace("0012"))
    (FeedPlace(offset='0012', done=3), '0012+3', '0012')
    """

    offset: str
    done: int = 0

    def __str__(self) -> str:
        return f"{self.offset}+{self.done}" if self.done else self.offset

    @classmethod
    def read(cls, text: str) -> Self:
        """Read a place from a text. PenstockError if the text isn't one."""
        offset, plus, done = text.partition("+")
        if not offset or (plus and not (done.isascii() and done.isdigit())):
            raise PenstockError(
                f"{text!r} is no place in a feed: give an offset, {OLDEST!r} for the oldest notification or {NOW!r}"
            )
        return cls(offset, int(done) if plus else 0)


class PlaceFile:
    """Keeps a place in a file. Two processes mustn't use it at the same time.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     kept = PlaceFile(f"{folder}/alice.place"); print(kept.place)
    ...     kept.save(FeedPlace("0012", 3)); kept.close()
    ...     print(PlaceFile(f"{folder}/alice.place").place)
    None
    0012+3
    """

    def __init__(self, path: str | Path, clock: Callable[[], float] = time.monotonic) -> None:
        self.path = Path(path)
        self._clock = clock
        self._synced = clock()
        self.place: FeedPlace | None = None
        """The place in the file; None if it has none yet."""
        self._number = 0
        try:
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o666)
            self._load(os.pread(self._file, 2 * _SLOT, 0))
            sync_folder(self.path.parent)
        except OSError as error:
            raise SnapshotError(f"{self.path}: {error.strerror or error}") from error

    def save(self, place: FeedPlace) -> None:
        """Replace the place in the file."""
        if place == self.place:
            return
        self._number, self.place = self._number + 1, place
        try:
            os.pwrite(self._file, _slot(self._number, place), self._number % 2 * _SLOT)
            if self._clock() >= self._synced + _SYNCED:
                self.sync()
        except OSError as error:
            raise SnapshotError(f"{self.path}: {error.strerror or error}") from error

    def sync(self) -> None:
        """Bring what was saved to the disk."""
        os.fsync(self._file)
        self._synced = self._clock()

    def close(self) -> None:
        """Sync and close the file."""
        if self._file >= 0:
            self.sync()
            os.close(self._file)
            self._file = -1

    def _load(self, content: bytes) -> None:
        if not content.strip(b"\0 "):
            return
        found = [one for at in (0, _SLOT) if (one := _read_slot(content[at : at + _SLOT]))]
        if not found:
            raise SnapshotError(
                f"{self.path} is damaged, or isn't a place in a feed: delete it, and say where to go on "
                f"(offset={OLDEST!r} is the oldest notification)"
            )
        self._number, self.place = max(found, key=lambda one: one[0])


def _slot(number: int, place: FeedPlace) -> bytes:
    content = {"number": number, "place": str(place)}
    text = json.dumps(content | {"checksum": zlib.crc32(f"{number} {place}".encode())})
    data = text.encode()
    if len(data) >= _SLOT:
        raise SnapshotError(f"an offset of {len(place.offset)} characters is too long to be kept")
    return data.ljust(_SLOT - 1) + b"\n"


def _read_slot(data: bytes) -> tuple[int, FeedPlace] | None:
    """The number and place of a slot; None if it isn't whole."""
    try:
        found = json.loads(data)
        number, place = found["number"], found["place"]
        if found["checksum"] == zlib.crc32(f"{number} {place}".encode()):
            return number, FeedPlace.read(place)
    except (ValueError, KeyError, TypeError):
        pass
    return None
