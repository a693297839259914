"""What happens to tables, as it comes in: what the tuple with some key is from now on.

A change says what a tuple *is*, not what was done to it, so the same change twice is the same as once:

    TupleChange(table, row)            the tuple with the row's key is this row: an insertion, or an update
    TupleChange(table, key=key)        there is no tuple with this key: a deletion
    TupleChange(table, row, key=key)   the tuple with this key is this row, which may have another key

With a *version* (a sequence number, a time) a change older than what is known of its key, or as old, says nothing: late
and repeated changes don't matter. Without, changes are taken in the order in which they come.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.base.arrays import Bools, Int64s
from penstock.base.errors import SchemaError
from penstock.joins.catalog import Table
from penstock.joins.messages import TableRow, TupleKey


@dataclass(frozen=True, slots=True)
class TupleChange:
    """What the tuple with some key is from now on."""

    table: str
    row: TableRow | None = None
    key: TupleKey | None = None
    version: int | None = None

    def __post_init__(self) -> None:
        if self.row is None and self.key is None:
            raise ValueError(f"a change of {self.table} with neither a row nor a key says nothing")


@dataclass(frozen=True, slots=True)
class ChangeBatch:
    """Many changes of one table: rows as Arrow, of which those that are deleted need no more than their key.

    `moved_from` has, for the few rows that take the place of a tuple with another key, that key.
    """

    table: str
    rows: pa.RecordBatch
    deleted: Bools | None = None
    versions: Int64s | None = None
    moved_from: Mapping[int, TupleKey] | None = None

    def __len__(self) -> int:
        return int(self.rows.num_rows)


def batches(
    changes: Iterable[TupleChange | ChangeBatch], tables: Mapping[str, Table]
) -> Iterator[ChangeBatch]:
    """Changes in their order, those of one table that follow each other as one batch."""
    pending: list[TupleChange] = []
    for change in changes:
        if change.table not in tables:
            raise SchemaError(f"there is no table {change.table!r}: there are {', '.join(tables)}")
        if isinstance(change, ChangeBatch):
            if pending:
                yield _batch(pending, tables[pending[0].table])
                pending = []
            yield change
            continue
        if pending and (
            pending[0].table != change.table
            or (pending[0].version is None) != (change.version is None)
        ):
            yield _batch(pending, tables[pending[0].table])
            pending = []
        pending.append(change)
    if pending:
        yield _batch(pending, tables[pending[0].table])


def _batch(changes: Sequence[TupleChange], table: Table) -> ChangeBatch:
    rows: list[dict[str, Any]] = []
    moved: dict[int, TupleKey] = {}
    for position, change in enumerate(changes):
        key = None if change.key is None else dict(zip(table.key, change.key, strict=True))
        if change.row is None:
            assert key is not None
            rows.append(key)
            continue
        unknown = set(change.row) - set(table.columns)
        if unknown:
            raise SchemaError(
                f"table {change.table} has no attribute {min(unknown)!r}: it has {', '.join(table.columns)}"
            )
        rows.append(dict(change.row))
        if key is not None and any(change.row.get(k) != v for k, v in key.items()):
            moved[position] = tuple(key.values())
    try:
        batch = pa.RecordBatch.from_pylist(rows, schema=table.schema.to_arrow())
    except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError, OverflowError) as error:
        raise SchemaError(
            f"a tuple of {changes[0].table} doesn't fit its schema: {error}"
        ) from error
    versions = None
    if changes[0].version is not None:
        versions = np.array([change.version for change in changes], np.int64)
    deleted = np.array([change.row is None for change in changes], np.bool_)
    return ChangeBatch(changes[0].table, batch, deleted, versions, moved or None)
