"""The state of a bucket in Spark's state store: a base, and a log of later changes, so that little is written.

    head      visits, snapshot version, entries: [number, token, rows, checksum] …     a document (`checked_files`)
    entries   number ─▶ bundle of parcels                                              a map; the first one is the base

A micro-batch appends one entry: what changed. When the log has outgrown the base, all of it is merged into a new
base, so a row is written a constant number of times on average.

A process keeps what it has decoded of a bucket, and must know whether that is still what the store has. Another process
may have worked on the bucket since; or a micro-batch may have failed after this process had worked on it, and be
replayed. So each entry has a *token* that was never used before. If the log has the token up to which a process has
decoded, the process reads only the entries after it. Otherwise it starts from the base.
"""

import uuid
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from penstock.base.checked_files import FileKind
from penstock.base.errors import PipelineError

_HEAD = FileKind(
    {"visits": int, "version": int, "entries": list},
    PipelineError,
    "start anew with an empty checkpoint folder, or restore that from a backup",
)
_PLACE = "the state of a bucket"
_LEAST = 256  # rows of a log that aren't worth merging
_MOST = 32  # entries: each one costs a round trip when it is read


class StateValue(Protocol):
    """A single value of the state store."""

    def get(self) -> tuple[Any, ...] | None: ...
    def update(self, newValue: tuple[Any, ...]) -> None: ...  # noqa: N803


class StateMap(Protocol):
    """A map of the state store."""

    def getValue(self, key: tuple[Any, ...]) -> tuple[Any, ...] | None: ...  # noqa: N802
    def updateValue(self, key: tuple[Any, ...], value: tuple[Any, ...]) -> None: ...  # noqa: N802
    def removeKey(self, key: tuple[Any, ...]) -> None: ...  # noqa: N802


class Entry(NamedTuple):
    """An entry of the log: its number, the token of the state with it, how many rows it has, and its checksum."""

    number: int
    token: str
    rows: int
    checksum: int


@dataclass(slots=True)
class BucketHead:
    """What is known of a bucket before any entry is read."""

    visits: int = 0  # how often the bucket was written; part of the ids of what is sent
    version: int = 0  # of the subscriptions that it serves
    entries: list[Entry] = field(default_factory=list)

    @property
    def token(self) -> str | None:
        return self.entries[-1].token if self.entries else None


class BucketLog:
    """The state of one bucket, within one micro-batch."""

    def __init__(self, head: StateValue, entries: StateMap) -> None:
        self._cell, self._entries = head, entries
        self.head = _read_head(head.get())

    def since(self, token: str | None) -> tuple[list[bytes], bool]:
        """The entries after the one with this token, and whether the log has it: if not, all entries."""
        tokens = [entry.token for entry in self.head.entries]
        first = 0 if token is None or token not in tokens else tokens.index(token) + 1
        return [self._read(entry) for entry in self.head.entries[first:]], first > 0

    def append(self, bundle: bytes, rows: int, merge: Callable[[], tuple[bytes, int]]) -> None:
        """Add what changed. When the log has outgrown the base, `merge` makes a new base, and counts its rows."""
        self._write(bundle, rows)
        entries = self.head.entries
        log = sum(entry.rows for entry in entries[1:])
        if len(entries) > _MOST or log > max(_LEAST, entries[0].rows):
            merged, count = merge()
            for entry in entries:
                self._entries.removeKey((entry.number,))
            number, self.head.entries = entries[-1].number, []
            self._write(merged, count, number + 1)

    def close(self) -> None:
        """Write the head. A bucket that isn't closed stays as it was."""
        head = self.head
        head.visits += 1
        content = {"visits": head.visits, "version": head.version, "entries": head.entries}
        self._cell.update((_HEAD.to_text(content),))

    def _write(self, bundle: bytes, rows: int, number: int | None = None) -> None:
        if number is None:
            number = self.head.entries[-1].number + 1 if self.head.entries else 0
        self._entries.updateValue((number,), (bundle,))
        token = uuid.uuid4().hex[:16]
        self.head.entries.append(Entry(number, token, rows, zlib.crc32(bundle)))

    def _read(self, entry: Entry) -> bytes:
        found = self._entries.getValue((entry.number,))
        content = b"" if found is None else bytes(found[0])
        if found is None or zlib.crc32(content) != entry.checksum:
            reason = "is missing" if found is None else "has a wrong checksum"
            raise _HEAD.damage(_PLACE, f"entry {entry.number} {reason}")
        return content


def _read_head(value: tuple[Any, ...] | None) -> BucketHead:
    if value is None:
        return BucketHead()
    found = _HEAD.from_text(str(value[0]), _PLACE)
    try:
        entries = [
            Entry(int(n), str(token), int(rows), int(crc))
            for n, token, rows, crc in found["entries"]
        ]
    except (TypeError, ValueError) as error:
        raise _HEAD.damage(_PLACE, f"its entries can't be read ({error})") from error
    return BucketHead(found["visits"], found["version"], entries)
