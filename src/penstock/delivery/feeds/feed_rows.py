"""The rows of feeds, and the form in which they are kept.

    row        what was published and matched, once for all its readers; it has a number, its place in the store
    readers    the subscriptions that get a row
    offset     of a feed: the number from which to read on
    block      rows that follow each other, as one value of the database: an Arrow batch, compressed

A notification of a feed is a row as one of its readers gets it. Its text is put together when it is sent
(`notification`), so a row that a hundred readers get is kept once.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.base.arrays import Int64s, distinct
from penstock.base.errors import FeedError

APPENDED = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("body", pa.string(), nullable=False),
        pa.field("readers", pa.list_(pa.int64()), nullable=False),
        pa.field("position", pa.int64()),
    ]
)
"""Rows as they are appended. `id` is the id of a notification without the subscription, `body` a JSON object that isn't
empty. `position` says in which order rows of a micro-batch are kept (NULL: after those that have a position)."""

METADATA = pa.field("metadata", pa.list_(pa.string()))
"""A further column that rows may have: for each of the readers the metadata of the subscription, as a JSON object, or
NULL."""

_KEPT = pa.schema(list(APPENDED)[:3])
_KEPT_WITH_METADATA = _KEPT.append(METADATA)
_MOST_BYTES = 32 * 1024  # of a block, before it is compressed: to read one row, this much is read
_ENVELOPE = 64  # bytes of a notification besides its body, about
_PAIR = 8  # bytes of a reader
_CODEC = pa.Codec("lz4")  # a third of the size; zstd: a sixth, for four times the time
_FEW = (
    16  # up to so many rows of a block are taken one by one: Arrow's `take` costs as much to begin
)
_HEADER = 8  # bytes that say how large a value is
_HAS_METADATA = 1 << 56  # in the header of a block


class RowMetadata(NamedTuple):
    """The metadata of the readers of a row. There may be many, so metadata are looked up when they are asked for."""

    readers: pa.Array
    texts: pa.Array

    def of(self, subscription: int) -> str | None:
        """The metadata of a subscription, as a JSON object."""
        place = pc.index(self.readers, subscription).as_py()
        text: str | None = self.texts[place].as_py() if place >= 0 else None
        return text


class FeedRow(NamedTuple):
    """A row. `id` is the id of its notifications without the subscription, `body` a JSON object."""

    number: int
    id: str
    kind: str
    body: str
    metadata: RowMetadata | None = None

    def metadata_of(self, subscription: int) -> str | None:
        """The metadata that a subscription had when it was matched, as a JSON object; None if it had none."""
        return None if self.metadata is None else self.metadata.of(subscription)


@dataclass(frozen=True)
class FeedPage:
    """Part of a feed, or of several: pairs of a subscription and a row that it gets, in the order of rows.

    `next` is the offset to go on at. `up_to_date`: there was no more when this was read.
    """

    rows: list[tuple[int, FeedRow]]
    next: int
    up_to_date: bool


class PageInMaking:
    """A page that is being filled, row by row, up to its bounds. It takes at least one row."""

    def __init__(self, most_rows: int, most_bytes: int) -> None:
        self.rows: list[tuple[int, FeedRow]] = []
        self.next = 0
        self._rows = most_rows
        self._bytes = most_bytes

    def add_all(self, rows: list[FeedRow], readers: list[int]) -> bool:
        """Add rows, each with one reader; a row with several readers is repeated. False if not all had room."""
        for row, reader in zip(rows, readers, strict=True):
            size = len(row.body) + len(row.metadata_of(reader) or "") + _ENVELOPE
            full = self._rows <= 0 or self._bytes < size
            if full and self.rows and row.number >= self.next:
                return False
            self.rows.append((reader, row))
            self.next = row.number + 1
            self._rows -= 1
            self._bytes -= size
        return True


def notification(row: FeedRow, subscription: int) -> str:
    """The notification that a subscription gets of a row, as a JSON object.

    >>> notification(FeedRow(5, "12", "filter", '{"event":{"price":7}}'), 3)
    '{"id":"12-3","kind":"filter","subscription":3,"event":{"price":7}}'
    """
    first = f'{{"id":"{row.id}-{subscription}","kind":"{row.kind}","subscription":{subscription},'
    if (metadata := row.metadata_of(subscription)) is not None:
        first += f'"metadata":{metadata},'
    return first + row.body[1:]


@dataclass(frozen=True)
class FeedBlock:
    """Rows that follow each other, from number `first` on."""

    first: int
    kind: str
    data: pa.RecordBatch

    @property
    def end(self) -> int:
        """The number after its last row."""
        count: int = self.data.num_rows
        return self.first + count

    @cached_property
    def size(self) -> int:
        """Bytes."""
        size: int = self.data.nbytes
        return size

    @cached_property
    def pairs(self) -> tuple[Int64s, Int64s]:
        """Subscriptions and numbers of the rows that they get, by subscription, then by number."""
        lists = self.data.column("readers")
        readers = lists.flatten().to_numpy()
        counts = np.diff(lists.offsets.to_numpy())
        numbers = np.repeat(np.arange(self.first, self.end), counts)
        order = np.argsort(readers, kind="stable")
        return readers[order], numbers[order]

    def rows(self, numbers: Int64s) -> list[FeedRow]:
        """Those with these numbers."""
        places = (numbers - self.first).tolist()
        ids, bodies = self._texts("id", places), self._texts("body", places)
        kind = self.kind
        found = zip(numbers.tolist(), ids, bodies, self._metadata(places), strict=True)
        return [FeedRow(number, name, kind, body, more) for number, name, body, more in found]

    def _texts(self, name: str, places: list[int]) -> list[str]:
        column = self.data.column(name)
        if len(places) <= _FEW:
            return [column[place].as_py() for place in places]
        found: list[str] = column.take(pa.array(places)).to_pylist()
        return found

    def _metadata(self, places: list[int]) -> list[RowMetadata | None]:
        if METADATA.name not in self.data.schema.names:
            return [None] * len(places)
        readers, texts = self.data.column("readers"), self.data.column(METADATA.name)
        return [RowMetadata(readers[place].values, texts[place].values) for place in places]


def numbers_for(pairs: tuple[Int64s, Int64s], wanted: Int64s, offset: int) -> tuple[Int64s, Int64s]:
    """The pairs of some subscriptions (sorted) from an offset on: numbers and subscriptions, by number.

    >>> pairs = np.array([3, 3, 5, 7]), np.array([1, 4, 2, 1])
    >>> [found.tolist() for found in numbers_for(pairs, np.array([3, 7]), 1)]
    [[1, 1, 4], [3, 7, 3]]
    """
    subscriptions, numbers = pairs
    if len(wanted) == 1:
        low, high = np.searchsorted(subscriptions, (wanted[0], wanted[0] + 1)).tolist()
        chosen = numbers[low:high]
        chosen = chosen[int(np.searchsorted(chosen, offset)) :]
        return chosen, np.full(len(chosen), wanted[0])
    places = np.searchsorted(wanted, subscriptions)
    places[places == len(wanted)] = 0
    kept = np.flatnonzero((wanted[places] == subscriptions) & (numbers >= offset))
    kept = kept[np.argsort(numbers[kept], kind="stable")]
    return numbers[kept], subscriptions[kept]


def divide_rows(rows: pa.Table, first: int, kind: str) -> list[FeedBlock]:
    """Divide rows that are appended into blocks, in the order of their positions, numbered from `first` on."""
    if missing := [name for name in APPENDED.names if name not in rows.schema.names]:
        raise FeedError(
            f"rows of a feed have {', '.join(APPENDED.names)}: there is no {missing[0]}"
        )
    more = METADATA.name in rows.schema.names
    appended, kept = (APPENDED.append(METADATA), _KEPT_WITH_METADATA) if more else (APPENDED, _KEPT)
    rows = rows.select(appended.names).cast(appended)
    positions = rows.column("position")
    if positions.null_count < rows.num_rows:
        rows = rows.take(pc.sort_indices(positions))
    batches = rows.select(kept.names).combine_chunks().to_batches()
    blocks = []
    for batch in batches:
        sizes = pc.add(
            pc.binary_length(batch.column("body")),
            pc.multiply(pc.list_value_length(batch.column("readers")), _PAIR),
        )
        if more:
            sizes = pc.add(sizes, _text_sizes(batch.column(METADATA.name)))
        group = np.cumsum(sizes.to_numpy(zero_copy_only=False), dtype=np.int64) // _MOST_BYTES
        cuts = [0, *(np.flatnonzero(np.diff(group)) + 1).tolist(), batch.num_rows]
        for start, end in itertools.pairwise(cuts):
            blocks.append(FeedBlock(first, kind, batch.slice(start, end - start)))
            first += end - start
    return blocks


def _text_sizes(lists: pa.ListArray) -> pa.Array:
    """Bytes of the texts of each list."""
    sizes = pc.binary_length(lists.flatten()).fill_null(0).to_numpy(zero_copy_only=False)
    ends = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
    starts = lists.offsets.to_numpy() - lists.offsets[0].as_py()
    return pa.array(np.diff(ends[starts]))


def pack(batch: pa.RecordBatch, header: int = 0) -> bytes:
    """A batch as a value of the database. `header` is a flag above the bits of its size."""
    plain = batch.serialize()
    size: int = plain.size
    packed: bytes = _CODEC.compress(plain, asbytes=True)
    return (size | header).to_bytes(_HEADER, "little") + packed


def unpack(value: bytes, schema: pa.Schema) -> pa.RecordBatch:
    """The batch in a value. FeedError if the value is damaged."""
    view = memoryview(value)
    try:
        size = int.from_bytes(view[:_HEADER], "little") & (_HAS_METADATA - 1)
        plain = _CODEC.decompress(view[_HEADER:], decompressed_size=size)
        return pa.ipc.read_record_batch(plain, schema)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise FeedError(f"a value of the feed store is damaged: {error}") from error


def pack_block(block: FeedBlock) -> bytes:
    """A block as a value of the database."""
    more = METADATA.name in block.data.schema.names
    return pack(block.data, _HAS_METADATA if more else 0)


def unpack_block(first: int, kind: str, value: bytes) -> FeedBlock:
    """The block in a value."""
    more = int.from_bytes(value[:_HEADER], "little") & _HAS_METADATA
    return FeedBlock(first, kind, unpack(value, _KEPT_WITH_METADATA if more else _KEPT))


def sorted_ids(subscriptions: Sequence[int]) -> Int64s:
    """Distinct subscriptions in order."""
    return distinct(np.asarray(subscriptions, np.int64))
