"""Makes parcels of changes from the rows of a change feed: on the workers, before anything is shuffled.

A row has the columns of its table, and beside them, if the feed has them:

    op        insert, update or delete, as Debezium (c, u, d, r) and Delta's change feed spell them, too
    version   a number that grows with each change of a tuple, by which late and repeated changes are recognised
    before    a struct with the tuple as it was: only its key is used, which an update may change

Without `op`, or where it is NULL, a row is a tuple that is there from now on. A row that isn't a change (no key, an
unknown operation, a value that the state can't hold) becomes a dead letter. Workers write dead letters to one file for
each task of a micro-batch. All tuples come in here, so the later stages meet no value that they can't work with.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql.types import StructType

from penstock.base.arrays import Bools, Int64s
from penstock.base.errors import SchemaError
from penstock.base.locations import path_of
from penstock.base.row_values import row_dict, unreadable_rows
from penstock.joins.axes import row_keys
from penstock.joins.catalog import Table
from penstock.joins.changes import DELETES, IGNORED, PUTS
from penstock.pipeline.dead_letter_files import DeadLetterFile, dead_letter_of, format_dead_letter
from penstock.pipeline.dead_letters import Records, letter_of_record
from penstock.pipeline.halving import work_in_halves
from penstock.pipeline.joins.parcels import buckets_of, concatenate_rows, pack_rows, split_by_bucket
from penstock.pipeline.joins.stages import Stages
from penstock.pipeline.sources import RAW, REASON
from penstock.pipeline.task_files import batch_folder

ORDER, VERSION, DELETED = "_order", "_version", "_deleted"
_SOURCE_BITS = 40  # rows of a task

_Found = tuple[list[tuple[pa.RecordBatch, Int64s]], list[str]]
"""Changes with the bucket of each, and the dead letters of rows that aren't changes."""


@dataclass(frozen=True, slots=True)
class Feed:
    """The columns that the rows of a change feed have beside those of the tuple."""

    op: str | None = None
    version: str | None = None
    before: str | None = None

    def of(self, schema: StructType) -> "Feed":
        """Those of the columns that the rows of one table have."""
        names = set(schema.names)
        return Feed(*[n if n in names else None for n in (self.op, self.version, self.before)])


@dataclass(frozen=True)
class Reader:
    """Reads the changes of one declared table."""

    stages: Stages
    table: str
    feed: Feed
    letters: str | None  # the folder for dead letters
    records: Records | None = None  # how its source writes them, if there may be bad ones

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        number = [name for name, _ in self.stages.catalog.declared].index(self.table)
        done = 0
        folder = None if self.letters is None else batch_folder(path_of(self.letters))
        with DeadLetterFile(folder, self.table) as letters:
            for records in batches:
                batch = records
                if self.records is not None:
                    letters.add(self._bad_records(records, self.records))
                    batch = records.filter(records.column(REASON).is_null())
                    batch = batch.drop_columns([REASON, RAW])
                for part, (found, refused) in self._read_in_halves(batch, done):
                    for changes, buckets in found:
                        yield self._parcels(number, changes, buckets)
                    letters.add(refused)
                    done += part.num_rows

    def _bad_records(self, batch: pa.RecordBatch, records: Records) -> Iterator[str]:
        """Dead letters of the records of a batch that can't be read as changes."""
        bad = batch.filter(batch.column(REASON).is_valid())
        for reason, raw in zip(*[bad.column(n).to_pylist() for n in (REASON, RAW)], strict=True):
            why, text, encoding = letter_of_record(reason, raw, records)
            yield format_dead_letter(f"{self.table}: {why}", text, encoding)

    def _read_in_halves(
        self, batch: pa.RecordBatch, done: int
    ) -> Iterator[tuple[pa.RecordBatch, _Found]]:
        """The parts of a batch, and what was found in each."""

        def read(part: pa.RecordBatch) -> _Found:
            letters: list[str] = []
            return list(self.read(part, done, letters)), letters

        def refuse(part: pa.RecordBatch, reason: str) -> _Found:
            return [], [dead_letter_of(f"{self.table}: can't be read: {reason}", row_dict(part, 0))]

        for part, found in work_in_halves(batch, read, refuse, (SchemaError,)):
            yield part, found
            done += part.num_rows

    def read(
        self, batch: pa.RecordBatch, done: int, letters: list[str]
    ) -> Iterator[tuple[pa.RecordBatch, Int64s]]:
        """Changes, and the bucket of each by its key; `done` rows of the task came before."""
        table = dict(self.stages.catalog.declared)[self.table]
        deleted, problems = self._operations(batch)
        rows, misfits = _tuples(batch, table)
        problems += misfits
        versions = np.zeros(batch.num_rows, np.int64)
        if self.feed.version is not None:
            column, misfits = _cast(batch.column(self.feed.version), pa.int64(), self.feed.version)
            problems += misfits
            problems += [(n, f"{self.feed.version} is NULL") for n in _nulls(column)]
            versions = pc.fill_null(column, 0).to_numpy(zero_copy_only=False)
        for name in table.key:
            problems += [(n, f"the key {name} is NULL") for n in _nulls(rows.column(name))]
        good = np.ones(batch.num_rows, np.bool_)
        for n, reason in problems:
            if good[n] and reason:
                letters.append(dead_letter_of(f"{self.table}: {reason}", row_dict(batch, n)))
            good[n] = False
        order = (
            2 * (_task() + done + np.arange(batch.num_rows)) + 1
        )  # even: a key that it had before
        moved = self._moved(batch, rows, table, good & ~deleted)
        if moved is not None:
            where, old = moved
            gone = np.ones(len(where), np.bool_)
            yield self._placed(_changes(old, order[where] - 1, versions[where], gone), table)
        changes = _changes(rows, order, versions, deleted)
        yield self._placed(changes.filter(pa.array(good)), table)

    def _placed(self, changes: pa.RecordBatch, table: Table) -> tuple[pa.RecordBatch, Int64s]:
        return changes, buckets_of(changes, table, table.key, self.stages.buckets)

    def _operations(self, batch: pa.RecordBatch) -> tuple[Bools, list[tuple[int, str]]]:
        """Which rows are deletions; and which rows to leave out, with the reason if that is an error."""
        if self.feed.op is None:
            return np.zeros(batch.num_rows, np.bool_), []
        given = batch.column(self.feed.op).cast(pa.string())
        plain = pc.utf8_lower(given)
        deleted = pc.fill_null(pc.is_in(plain, pa.array(DELETES)), False)
        known = pc.or_(plain.is_null(), pc.is_in(plain, pa.array([*PUTS, *DELETES])))
        problems = []
        for n in np.flatnonzero(~known.to_numpy(zero_copy_only=False)).tolist():
            if plain[n].as_py() in IGNORED:
                problems.append((n, ""))
            else:
                shown = given[n].as_py()
                problems.append(
                    (n, f"{self.feed.op} is {shown!r}: expected insert, update or delete")
                )
        return deleted.to_numpy(zero_copy_only=False), problems

    def _moved(
        self, batch: pa.RecordBatch, rows: pa.RecordBatch, table: Table, good: Bools
    ) -> tuple[Int64s, pa.RecordBatch] | None:
        """The rows whose tuple had another key before, and that key."""
        if self.feed.before is None:
            return None
        before = batch.column(self.feed.before)
        complete = good & before.is_valid().to_numpy(zero_copy_only=False)
        keys = {}
        for name in table.key:
            keys[name], _ = _cast(pc.struct_field(before, name), rows.column(name).type, name)
            complete &= keys[name].is_valid().to_numpy(zero_copy_only=False)
            complete[unreadable_rows(keys[name])] = False  # no tuple has such a key
        where = np.flatnonzero(complete)
        taken = {name: keys[name].take(pa.array(where)) for name in table.key}
        old = row_keys(pa.RecordBatch.from_pydict(taken), table)
        new = row_keys(rows.take(pa.array(where)), table)
        moved = [n for n, (a, b) in enumerate(zip(old, new, strict=True)) if a != b]
        if not moved:
            return None
        where = where[moved]
        taken = {name: keys[name].take(pa.array(where)) for name in table.key}
        arrays = [
            taken[field.name] if field.name in taken else pa.nulls(len(where), field.type)
            for field in rows.schema
        ]
        return where, pa.RecordBatch.from_arrays(arrays, schema=rows.schema)

    def _parcels(self, number: int, changes: pa.RecordBatch, buckets: Int64s) -> pa.RecordBatch:
        found = [(bucket, pack_rows(part)) for bucket, part in split_by_bucket(changes, buckets)]
        return parcel_rows([(number, bucket, self.table, parcel) for bucket, parcel in found])


def parcel_rows(rows: list[tuple[int, int, str | None, bytes]]) -> pa.RecordBatch:
    """Rows of (stage, bucket, table, parcel), as they travel."""
    stages, buckets, tables, parcels = zip(*rows, strict=True) if rows else ((), (), (), ())
    arrays = [
        pa.array(stages, pa.int32()),
        pa.array(buckets, pa.int32()),
        pa.array(tables, pa.string()),
        pa.array(parcels, pa.binary()),
    ]
    return pa.RecordBatch.from_arrays(arrays, names=["stage", "bucket", "table", "parcel"])


def in_order(parcels: Iterable[pa.RecordBatch]) -> pa.RecordBatch:
    """Changes of several parcels in the order of their versions; where these are equal, as they arrived."""
    changes = concatenate_rows(parcels)
    order = np.lexsort((changes.column(ORDER).to_numpy(), changes.column(VERSION).to_numpy()))
    if (np.diff(order) == 1).all():
        return changes
    return changes.take(pa.array(order))


def check_feed(schema: StructType, name: str, table: Table, feed: Feed) -> list[str]:
    """What is wrong with the columns of a change feed."""
    missing = [column for column in table.columns if column not in schema.names]
    problems = [f"the changes of {name} have no column {column!r}" for column in missing]
    clash = {feed.op, feed.version, feed.before} & set(table.columns)
    problems += [
        f"{name} has an attribute {column!r}, which is also the name of a column of the change feed: "
        "give that another (op=, version=, before=)"
        for column in sorted(c for c in clash if c is not None)
    ]
    return problems


def _tuples(batch: pa.RecordBatch, table: Table) -> tuple[pa.RecordBatch, list[tuple[int, str]]]:
    """The columns of the table, and the rows with a value that its column can't have."""
    schema = table.schema.to_arrow()
    found = [_cast(batch.column(field.name), field.type, field.name) for field in schema]
    rows = pa.RecordBatch.from_arrays([array for array, _ in found], schema=schema)
    problems = [problem for _, problems in found for problem in problems]
    for name, column in zip(schema.names, rows.columns, strict=True):
        problems += [(n, f"{name} has no value in Python") for n in unreadable_rows(column)]
    return rows, problems


def _cast(
    column: pa.Array, type_: pa.DataType, name: str
) -> tuple[pa.Array, list[tuple[int, str]]]:
    """A column of another type; NULL where a value doesn't fit into it, with the reason."""
    try:
        return column.cast(type_), []
    except pa.ArrowNotImplementedError as error:
        raise SchemaError(
            f"the changes don't have the types of the table: {name}: {error}"
        ) from error
    except pa.ArrowInvalid as error:
        if len(column) == 1:
            return pa.nulls(1, type_), [(0, f"{name} doesn't fit: {error}")]
    half = len(column) // 2  # few are bad, so most halves are good
    left, right = _cast(column[:half], type_, name), _cast(column[half:], type_, name)
    problems = left[1] + [(half + n, reason) for n, reason in right[1]]
    return pa.concat_arrays([left[0], right[0]]), problems


def _changes(
    rows: pa.RecordBatch, order: Int64s, versions: Int64s, deleted: Bools
) -> pa.RecordBatch:
    names = [ORDER, VERSION, DELETED, *rows.schema.names]
    return pa.RecordBatch.from_arrays(
        [pa.array(order), pa.array(versions), pa.array(deleted), *rows.columns], names=names
    )


def _nulls(column: pa.Array) -> list[int]:
    if not column.null_count:
        return []
    return [int(n) for n in np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))]


def _task() -> int:
    """Where the rows of this task begin in the order of a micro-batch."""
    context = TaskContext.get()
    return 0 if context is None else context.partitionId() << _SOURCE_BITS


# --- dead letters -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Refuser:
    """Makes dead letters of changes that belong to no table. They come as JSON, in rows of one column."""

    tables: tuple[str, ...]
    letters: str

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with DeadLetterFile(batch_folder(path_of(self.letters)), "") as letters:
            for batch in batches:
                letters.add(map(self._letter, batch.column(0).to_pylist()))
        yield parcel_rows([])

    def _letter(self, raw: str) -> str:
        shown = json.loads(raw).get("table")  # Spark has written it
        reason = f"there is no table {shown!r}: there are {', '.join(self.tables)}"
        return format_dead_letter(reason, raw)
