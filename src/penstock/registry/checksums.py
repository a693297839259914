"""Checksums of rows: a row is written with its checksum, by which readers see whether it was changed since.

A subscription's checksum is two CRC-32 in one number of 64 bits, each over columns as little-endian numbers, with the
lengths of texts (-1 for NULL) before the texts:

    upper half, *matched*   id, expires, removed, subscriber, filter
    lower half, *kept*      id, created, sequence, ticket

To compile a million subscriptions, only the columns of the upper half are read, and only this half is checked: fetching
the others as well would take longer. To list, renew or end a subscription, both halves are checked. One row is summed
by zlib, many by a kernel; both give the same numbers.

A checksum finds what a failing disk or another program has changed by mistake. It is no signature.
"""

import struct
import zlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from penstock.base.arrays import Bools, Bytes, Int64s, UInt32s

_FEW = 256  # so many rows zlib still sums, one by one: the kernel takes seconds to import


def checksum_of_row(
    sid: int,
    subscriber: str | None,
    text: str | None,
    ticket: bytes | None,
    created: int,
    expires: int,
    sequence: int,
    removed: bool,
) -> int:
    """The checksum of one subscription.

    >>> checksum_of_row(7, "alice", "price > 5", None, 1, 2, 3, False)
    -1017231061092624744
    """
    name = None if subscriber is None else subscriber.encode()
    words = None if text is None else text.encode()
    numbers = struct.pack("<5q", sid, expires, removed, _length(name), _length(words))
    matched = zlib.crc32(words or b"", zlib.crc32(name or b"", zlib.crc32(numbers)))
    numbers = struct.pack("<4q", sid, created, sequence, _length(ticket))
    kept = zlib.crc32(ticket or b"", zlib.crc32(numbers))
    return _signed(matched << 32 | kept)


def checksum_of_tombstone(sid: int, sequence: int) -> int:
    """The checksum of what is left of a removed subscription: its other columns are 0 or NULL."""
    return checksum_of_row(sid, None, None, None, 0, 0, sequence, True)


def checksum_of_cost(sid: int, cost: int) -> int:
    """The checksum of a row of costs."""
    return zlib.crc32(struct.pack("<2q", sid, cost))


def checksum_of_details(
    sid: int,
    source: str | None,
    external: str | None,
    metadata: str | None,
    pace: str | None = None,
) -> int:
    """The checksum of a row of details. Without a pace it is the same as before there were paces."""
    said = (source, external, metadata) if pace is None else (source, external, metadata, pace)
    texts = [None if text is None else text.encode() for text in said]
    found = zlib.crc32(struct.pack(f"<{1 + len(texts)}q", sid, *map(_length, texts)))
    for text in texts:
        found = zlib.crc32(text or b"", found)
    return found


def checksums_of_rows(table: pa.Table) -> Int64s:
    """The checksums of many subscriptions: a table with all their columns, `removed` as 0 or 1.

    >>> row = {"id": 7, "subscriber": "alice", "filter": "price > 5", "ticket": None, "created": 1, "expires": 2}
    >>> table = pa.Table.from_pylist([row | {"sequence": 3, "removed": 0}])
    >>> checksums_of_rows(table)
    array([-1017231061092624744])
    """
    whole = _matched(table).astype(np.uint64) << np.uint64(32) | _kept(table)
    return whole.view(np.int64)


def rows_with_wrong_checksums(table: pa.Table) -> Int64s:
    """The positions of rows that aren't as they were written. Without tickets, only the upper half is checked."""
    found = np.asarray(table.column("checksum"), np.int64).view(np.uint64)
    wrong = (found >> np.uint64(32)).astype(np.uint32) != _matched(table)
    if "ticket" in table.column_names:
        wrong |= found.astype(np.uint32) != _kept(table)
    return np.flatnonzero(wrong)


def _length(data: bytes | None) -> int:
    return -1 if data is None else len(data)


def _signed(number: int) -> int:
    return number - (1 << 64) if number >> 63 else number


# --- many rows ---------------------------------------------------------------------------------


class _Texts(NamedTuple):
    """A column of texts or bytes; a NULL has the length -1."""

    start: Int64s
    length: Int64s
    data: Bytes


def _matched(table: pa.Table) -> UInt32s:
    name, text = _texts(table, "subscriber"), _texts(table, "filter")
    numbers = [
        *(_numbers(table, n) for n in ("id", "expires", "removed")),
        name.length,
        text.length,
    ]
    return _crcs(numbers, name, text)


def _kept(table: pa.Table) -> UInt32s:
    ticket = _texts(table, "ticket")
    numbers = [*(_numbers(table, n) for n in ("id", "created", "sequence")), ticket.length]
    return _crcs(numbers, ticket)


def _numbers(table: pa.Table, name: str) -> Int64s:
    return np.asarray(table.column(name), np.int64)


def _texts(table: pa.Table, name: str) -> _Texts:
    column = table.column(name).cast(pa.large_binary()).combine_chunks()
    array = column.chunk(0) if isinstance(column, pa.ChunkedArray) else column
    _, offsets, data = array.buffers()
    bounds = np.frombuffer(offsets, np.int64)[array.offset :][: len(array) + 1]
    there: Bools = np.asarray(array.is_valid())
    found = np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    return _Texts(bounds[:-1], np.where(there, np.diff(bounds), -1), found)


def _crcs(numbers: Sequence[Int64s], *texts: _Texts) -> UInt32s:
    """The CRC-32 of each row: its numbers, then its texts."""
    rows = np.stack(numbers, axis=1)
    if len(rows) <= _FEW:
        return np.array([_crc(rows, texts, row) for row in range(len(rows))], np.uint32)
    from penstock.registry.crc_kernels import TABLES, crcs_of_numbers, extend_crcs

    found = crcs_of_numbers(rows, TABLES)
    for text in texts:
        found = extend_crcs(found, *text, TABLES)
    return found


def _crc(rows: Int64s, texts: Sequence[_Texts], row: int) -> int:
    found = zlib.crc32(rows[row].astype("<i8").tobytes())
    for text in texts:
        start = text.start[row]
        found = zlib.crc32(text.data[start : start + max(text.length[row], 0)].tobytes(), found)
    return found
