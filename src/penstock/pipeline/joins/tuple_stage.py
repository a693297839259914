"""The first stage keeps what is known of each tuple, by its key, so that every change counts just once.

    key ─▶ version, time, and the bucket of every stage that the tuple is in

A change whose version is no later than the known one is dropped. A tuple whose join attributes change leaves one
bucket of an edge and enters another. Only this stage knows which bucket it leaves, because it finds tuples by key. A
tuple whose time is past the window of its table leaves all its buckets. The stage sends changes that can be applied
without looking back: *put* into a bucket, or *delete* from it, with a number that grows with each change of a tuple.

Without versions, changes are applied as they come, and the key of a deleted tuple is forgotten. With versions it is
kept, because a change that comes later may be older.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Row

from penstock.base.locations import path_of
from penstock.joins.axes import row_keys
from penstock.joins.catalog import Table
from penstock.joins.messages import TupleKey
from penstock.pipeline.joins.change_feed import DELETED, VERSION, in_order
from penstock.pipeline.joins.logs import BucketLog
from penstock.pipeline.joins.parcels import (
    NO_BUCKET,
    buckets_of,
    pack_rows,
    split_by_bucket,
    unpack_rows,
)
from penstock.pipeline.joins.registry_source import WINDOWS
from penstock.pipeline.joins.replanning import leave_seen, sample_changes
from penstock.pipeline.joins.stages import Stage, Stages

SEQUENCE = "_sequence"
_ALIVE, _TIME = "_alive", "_time"
NEVER = 2**63 - 1  # a time that no window reaches
_GONE: tuple[int, ...] = ()

_Known = tuple[int, int, tuple[int, ...], TupleKey]
"""Version, time, buckets (empty if the tuple is deleted), and the values of the key."""
ValuesByKey = Mapping[TupleKey, TupleKey]
"""Keys as SQL compares them (`row_keys`), each with its values."""


@dataclass(frozen=True, slots=True)
class Slot:
    """A part of a declared table in a stage, and the columns that decide its buckets."""

    part: str
    stage: Stage
    columns: tuple[str, ...]


Moves = list[tuple[int, int, bool, int]]
"""The changes of one slot's buckets, in order: row of the batch, bucket, whether it is deleted, sequence."""


class TupleBook:
    """The tuples of one bucket of a declared table."""

    def __init__(self, stages: Stages, name: str, versioned: bool) -> None:
        self.table: Table = dict(stages.catalog.declared)[name]
        self.window = stages.windows.get(name)
        self.slots = [
            Slot(part, stage, stage.bucket_attributes(part, stages.catalog))
            for part in stages.parts[name]
            for stage in stages.of(part)
        ]
        self._stages = stages
        self._versioned = versioned
        self._known: dict[TupleKey, _Known] = {}  # by key as SQL compares it
        self.alive = 0  # tuples that aren't deleted
        schema = self.table.schema.to_arrow()
        self._state = pa.schema(
            [schema.field(name) for name in self.table.key]
            + [
                pa.field(VERSION, pa.int64()),
                pa.field(_TIME, pa.int64()),
                pa.field(_ALIVE, pa.bool_()),
            ]
            + [pa.field(f"b{n}", pa.int32()) for n in range(len(self.slots))]
        )

    def __len__(self) -> int:
        return len(self._known)

    # --- changes -------------------------------------------------------------------------------

    def apply(self, changes: pa.RecordBatch) -> tuple[list[Moves], ValuesByKey]:
        """Apply changes in their order. Returns the moves of each slot, and the keys of which something changed."""
        keys = row_keys(changes, self.table)
        values = list(zip(*[changes.column(k).to_pylist() for k in self.table.key], strict=True))
        versions = changes.column(VERSION).to_pylist()
        deleted = changes.column(DELETED).to_pylist()
        times = self._times(changes)
        buckets = [
            buckets_of(changes, self.table, slot.columns, self._stages.buckets).tolist()
            for slot in self.slots
        ]
        placed = list(zip(*buckets, strict=True)) if buckets else [_GONE] * len(keys)
        moves: list[Moves] = [[] for _ in self.slots]
        touched: dict[TupleKey, TupleKey] = {}
        for n, key in enumerate(keys):
            old = self._known.get(key)
            if self._versioned and old is not None and versions[n] <= old[0]:
                continue
            before = () if old is None else old[2]
            after = _GONE if deleted[n] else placed[n]
            if not before and not after and not self._versioned:
                continue
            touched[key] = values[n]
            self._note(key, (versions[n], times[n], after, values[n]))
            _move(moves, n, before, after, n)
        return moves, touched

    def expired_keys(self, now: int) -> ValuesByKey:
        """The keys of the tuples whose time is past the window."""
        if self.window is None:
            return {}
        last = now - self.window.length
        return {
            key: values for key, (_, time, at, values) in self._known.items() if at and time <= last
        }

    def forget(self, keys: Iterable[TupleKey], sequence: int) -> list[Moves]:
        """Take tuples out of all their buckets."""
        moves: list[Moves] = [[] for _ in self.slots]
        for n, key in enumerate(keys):
            version, time, before, values = self._known[key]
            self._note(key, (version, time, _GONE, values))
            _move(moves, n, before, _GONE, sequence + n)
        return moves

    def _note(self, key: TupleKey, known: _Known) -> None:
        old = self._known.get(key)
        self.alive += bool(known[2]) - (old is not None and bool(old[2]))
        if known[2] or self._versioned:
            self._known[key] = known
        else:
            self._known.pop(key, None)

    def _times(self, changes: pa.RecordBatch) -> list[int]:
        if self.window is None:
            return [NEVER] * changes.num_rows
        column = changes.column(self.window.column)
        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())
        return [NEVER if time is None else int(time) for time in column.to_pylist()]

    # --- state ---------------------------------------------------------------------------------

    def state_rows(self, keys: ValuesByKey) -> pa.RecordBatch:
        """What is known of some keys, as rows for the state."""
        gone = (0, NEVER, _GONE)
        rows = [self._known.get(key, (*gone, values)) for key, values in keys.items()]
        width = len(self.table.key)
        columns = list(zip(*[values for *_, values in rows], strict=True)) or [()] * width
        arrays = [pa.array(values, self._state.field(n).type) for n, values in enumerate(columns)]
        arrays += [
            pa.array([version for version, *_ in rows], pa.int64()),
            pa.array([time for _, time, *_ in rows], pa.int64()),
            pa.array([bool(at) for _, _, at, _ in rows], pa.bool_()),
        ]
        for n in range(len(self.slots)):
            at_slot = [at[n] if at else NO_BUCKET for _, _, at, _ in rows]
            arrays.append(pa.array(at_slot, pa.int32()))
        return pa.RecordBatch.from_arrays(arrays, schema=self._state)

    def read(self, written: pa.RecordBatch) -> None:
        """Take in rows that `state_rows` has made."""
        columns = [column.to_pylist() for column in written.columns]
        width = len(self.table.key)
        values = zip(*columns[:width], strict=True)
        versions, times, alive = columns[width : width + 3]
        buckets = list(zip(*columns[width + 3 :], strict=True)) or [_GONE] * len(versions)
        rows = zip(versions, times, alive, buckets, values, strict=True)
        for key, (version, time, is_alive, at, of_key) in zip(
            row_keys(written, self.table), rows, strict=True
        ):
            self._note(key, (version, time, at if is_alive else _GONE, of_key))

    def everything(self) -> pa.RecordBatch:
        """What is known of all keys, as rows for the state."""
        return self.state_rows({key: values for key, (*_, values) in self._known.items()})


def _move(
    moves: list[Moves], row: int, before: tuple[int, ...], after: tuple[int, ...], sequence: int
) -> None:
    for n, to in enumerate(moves):
        old = before[n] if before else NO_BUCKET
        new = after[n] if after else NO_BUCKET
        if old not in (NO_BUCKET, new):
            to.append((row, old, True, sequence))
        if new != NO_BUCKET:
            to.append((row, new, False, sequence))


def parcels_of(
    rows: pa.RecordBatch, moves: Moves, table: Table, bucket: int, buckets: int
) -> Iterator[tuple[int, bytes]]:
    """The parcels of a slot for the next stage: bucket, parcel. Changes from different buckets differ in number."""
    if not moves:
        return
    at, to, deleted, sequence = zip(*moves, strict=True)
    taken = rows.select(list(table.columns)).take(pa.array(at))
    changes = pa.RecordBatch.from_arrays(
        [
            pa.array(np.array(sequence, np.int64) * buckets + bucket),
            pa.array(deleted, pa.bool_()),
            *taken.columns,
        ],
        names=[SEQUENCE, DELETED, *table.columns],
    )
    for target, part in split_by_bucket(changes, np.array(to, np.int64)):
        yield target, pack_rows(part)


_books: dict[tuple[str, int, int], tuple[str | None, TupleBook]] = {}
"""In this process: the books that it has decoded, and up to which token of the log."""


class TupleStage:
    """The stage: its buckets are those of declared tables."""

    def __init__(self, stages: Stages, home: str, versioned: dict[str, bool]) -> None:
        self._stages, self._home, self._versioned = stages, home, versioned
        self._seen: list[dict[str, Any]] = []  # of this task

    def visit(self, number: int, bucket: int, rows: Iterator[Any], log: BucketLog) -> Iterator[Row]:
        """Parcels for the buckets of the next stage."""
        parcels, now = [], None
        for row in rows:
            if row.table is None:
                now = int(bytes(row.parcel).decode().removeprefix(WINDOWS))
            else:
                parcels.append(unpack_rows(bytes(row.parcel)))
        name, _ = self._stages.catalog.declared[number]
        book = self._book(name, number, bucket, log)
        changes = in_order(parcels) if parcels else None
        found, touched = _worked_off(book, self._stages, bucket, changes, now)
        if changes is not None:
            sample = sample_changes(changes, self._stages.catalog.tables[name])
            one = {"table": name, "bucket": bucket, "tuples": book.alive}
            self._seen.append({**one, "changes": changes.num_rows, "sample": sample})
        if touched:
            changed = book.state_rows(touched)
            log.append(pack_rows(changed), changed.num_rows, lambda: _merged(book))
            log.close()
        _books[self._home, number, bucket] = log.head.token, book
        for stage, to, table, parcel in found:
            yield Row(stage=stage, bucket=to, table=table, parcel=parcel)

    def end_task(self) -> None:
        """Write down what was seen of the tables (`replanning`)."""
        if self._seen:
            leave_seen(path_of(self._home), self._seen)

    def _book(self, name: str, number: int, bucket: int, log: BucketLog) -> TupleBook:
        token, book = _books.pop((self._home, number, bucket), (None, None))
        entries, known = log.since(token)
        if book is None or not known:
            book = TupleBook(self._stages, name, self._versioned[name])
        for entry in entries:
            book.read(unpack_rows(entry))
        return book


def _worked_off(
    book: TupleBook,
    stages: Stages,
    bucket: int,
    changes: pa.RecordBatch | None,
    now: int | None,
) -> tuple[list[tuple[int, int, str, bytes]], ValuesByKey]:
    """Parcels for the next stage, and the keys whose state has changed."""
    found: list[tuple[int, int, str, bytes]] = []
    touched: ValuesByKey = {}
    count = 0
    steps: list[tuple[pa.RecordBatch, list[Moves]]] = []
    if changes is not None:
        moves, touched = book.apply(changes)
        count = changes.num_rows
        steps.append((changes, moves))
    expired = {} if now is None else book.expired_keys(now)
    if expired:
        rows = _key_rows(book.table, expired.values())
        steps.append((rows, book.forget(expired, count)))
        touched = {**touched, **expired}
    for rows, of_slots in steps:
        for slot, moves_ in zip(book.slots, of_slots, strict=True):
            table = stages.catalog.tables[slot.part]
            found += [
                (slot.stage.number, to, slot.part, parcel)
                for to, parcel in parcels_of(rows, moves_, table, bucket, stages.buckets)
            ]
    return found, touched


def _key_rows(table: Table, keys: Iterable[TupleKey]) -> pa.RecordBatch:
    rows = [dict(zip(table.key, key, strict=True)) for key in keys]
    return pa.RecordBatch.from_pylist(rows, schema=table.schema.to_arrow())


def _merged(book: TupleBook) -> tuple[bytes, int]:
    everything = book.everything()
    return pack_rows(everything), everything.num_rows
