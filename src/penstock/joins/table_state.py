"""The state of the tables: tuples by key, their coordinates, and an index for every way in which they are joined.

    place        0        1        2 …                  where a tuple stands; a place that is free is used again
    rows         (…)      (…)      None
    columns      PER ─▶ coordinates by place            for every attribute that has ranges
    keys         edge ─▶ join keys by place             numbers; -1: NULL, which joins with nothing
    indexes      (edge, PER) ─▶ `runs`

Join keys are numbered for each edge, the same way in both of its tables. Numbers are only ever compared for equality. A
number whose last tuple has gone is used again with the next batch; a delta's messages are made before that.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.base.arrays import Int64s, distinct, grow_array
from penstock.base.errors import SchemaError
from penstock.base.row_values import unreadable_rows
from penstock.joins.axes import NULL, Axis, key_tuples, row_keys
from penstock.joins.catalog import Table
from penstock.joins.changes import ChangeBatch
from penstock.joins.messages import TupleKey
from penstock.joins.runs import RunEntries, Runs, nothing
from penstock.joins.subscription import JoinEdge


class JoinKeys:
    """Numbers for the values of an edge's join attributes, each as long as some tuple has it.

    >>> keys = JoinKeys()
    >>> numbers = keys.of([(7,), None, (9,)])
    >>> numbers.tolist(), len(keys)
    ([0, -1, 1], 2)
    >>> keys.count(come=numbers[:1], gone=numbers[:0], named=numbers)
    >>> len(keys), keys.of([(5,)]).tolist()
    (1, [1])
    """

    def __init__(self) -> None:
        self._numbers: dict[tuple[Any, ...], int] = {}
        self._keys: list[tuple[Any, ...] | None] = []  # by number; None: it is free
        self._tuples = np.zeros(0, np.int64)  # how many have a number
        self._free: list[int] = []

    def __len__(self) -> int:
        return len(self._numbers)

    @property
    def end(self) -> int:
        """All numbers are below this one."""
        return len(self._keys)

    def of(self, keys: Sequence[tuple[Any, ...] | None]) -> Int64s:
        """A number for each; -1 for None: a key with a NULL in it. New numbers must be counted before `of` is called
        again."""
        return np.array([-1 if k is None else self._number(k) for k in keys], np.int64)

    def _number(self, key: tuple[Any, ...]) -> int:
        number = self._numbers.get(key)
        if number is None:
            if self._free:
                number = self._free.pop()
                self._keys[number] = key
            else:
                number = len(self._keys)
                self._keys.append(key)
            self._numbers[key] = number
        return number

    def count(self, come: Int64s, gone: Int64s, named: Int64s) -> None:
        """Count tuples that came and went. Of the numbers in `named` and `gone`, those that no tuple has are free
        again."""
        self._tuples = grow_array(self._tuples, len(self._keys))
        np.add.at(self._tuples, come[come >= 0], 1)
        np.subtract.at(self._tuples, gone[gone >= 0], 1)
        touched = distinct(np.concatenate([named, gone]))
        touched = touched[touched >= 0]
        for number in touched[self._tuples[touched] == 0].tolist():
            key = self._keys[number]
            if key is not None:
                del self._numbers[key]
                self._keys[number] = None
                self._free.append(number)


@dataclass(frozen=True, slots=True)
class Delta:
    """The effect of a batch: for each change that had one, where the tuple stood and where it stands; -1 is nowhere."""

    change: Int64s  # its position in the batch
    old: Int64s
    new: Int64s
    # The neighbours of the tuples lost, and of those gained, by index.
    near: dict[tuple[JoinEdge, str | None], tuple[Int64s, Int64s]]

    def __len__(self) -> int:
        return len(self.change)


class TableState:
    """The tuples of one table."""

    def __init__(self, name: str, table: Table, edges: dict[JoinEdge, JoinKeys]) -> None:
        self.name = name
        self.table = table
        self.rows: list[tuple[Any, ...] | None] = []
        self.axes: dict[str, Axis] = {}
        self._columns: dict[str | None, Int64s] = {None: np.zeros(0, np.int64)}
        self._edges = {e: k for e, k in edges.items() if name in (e.left, e.right)}
        self._keys: dict[JoinEdge, Int64s] = {e: np.zeros(0, np.int64) for e in self._edges}
        self.indexes: dict[tuple[JoinEdge, str | None], Runs] = {}
        self.revision = 0  # grows with every batch: a place may have another tuple then
        self._place: dict[TupleKey, int] = {}  # by key as SQL compares it (`row_keys`)
        self._free: list[int] = []
        self._leaving: list[int] = []
        self._key_columns = [table.columns.index(k) for k in table.key]
        self._arrow = table.schema.to_arrow()
        if set(self._arrow.names) != set(table.columns):
            missing = sorted(set(table.columns) - set(self._arrow.names))
            raise SchemaError(f"table {name}: columns of these types can't be kept: {missing}")

    def __len__(self) -> int:
        return len(self._place)

    # --- what is there -------------------------------------------------------------------------

    def key_of(self, row: tuple[Any, ...]) -> TupleKey:
        """The values of the key's columns."""
        return tuple([row[c] for c in self._key_columns])

    def as_dict(self, row: tuple[Any, ...]) -> dict[str, Any]:
        return dict(zip(self.table.columns, row, strict=True))

    def places(self) -> Int64s:
        """The places of all tuples."""
        return np.fromiter(self._place.values(), np.int64, len(self._place))

    def coordinates(self, attribute: str | None, places: Int64s) -> Int64s:
        """The coordinates of an attribute; without an attribute all are the same."""
        return self._columns[attribute][places]

    def keys(self, edge: JoinEdge, places: Int64s) -> Int64s:
        return self._keys[edge][places]

    def join_attributes(self, edge: JoinEdge) -> tuple[str, ...]:
        """This table's attributes of an edge."""
        return tuple(pair[edge.right == self.name] for pair in edge.attributes)

    def entries(self, edge: JoinEdge, attribute: str | None, places: Int64s) -> RunEntries:
        """Join key, coordinate and place of tuples; where there is no tuple, the key is -1."""
        if not len(self.rows):
            return nothing(len(places))
        keys = np.where(places >= 0, self._keys[edge][places], -1)
        return RunEntries(keys, self._columns[attribute][places], places)

    # --- what is kept of them ------------------------------------------------------------------

    def axis(self, attribute: str) -> Axis:
        """The coordinates of an attribute, kept from now on."""
        if attribute not in self.axes:
            type_ = self.table.type(attribute)
            if type_ is None:
                raise SchemaError(f"table {self.name} has no attribute {attribute!r}")
            self.axes[attribute] = Axis(attribute, type_)
            self._columns[attribute] = np.full(len(self._columns[None]), NULL, np.int64)
            self.number_anew(attribute)
        return self.axes[attribute]

    def forget_axes(self) -> None:
        """Keep no coordinates of any attribute, and no index by one."""
        self.axes = {}
        self._columns = {None: self._columns[None]}
        self.indexes = {k: runs for k, runs in self.indexes.items() if k[1] is None}

    def index(self, edge: JoinEdge, attribute: str | None) -> Runs:
        """The index by an edge's join attributes and a selection attribute, kept from now on."""
        if (edge, attribute) not in self.indexes:
            runs = self.indexes[edge, attribute] = Runs()
            places = self.places()
            runs.change(nothing(len(places)), self.entries(edge, attribute, places))
        return self.indexes[edge, attribute]

    def number_anew(self, attribute: str) -> None:
        """Compute all coordinates of an attribute again: constants have come or gone, or all have moved."""
        places = self.places()
        column = self.table.columns.index(attribute)
        type_ = self._arrow.field(attribute).type
        values = pa.array([self.rows[p][column] for p in places.tolist()], type_)
        self._columns[attribute][places] = self.axes[attribute].coordinates(values)
        self.axes[attribute].changed = self.axes[attribute].moved = False
        for edge, selection in list(self.indexes):
            if selection == attribute:
                del self.indexes[edge, selection]
                self.index(edge, selection)

    # --- changes -------------------------------------------------------------------------------

    def release(self) -> None:
        """Free the places of tuples that have gone. All messages must have been read by now."""
        self._free += self._leaving
        self._leaving = []

    def apply(self, batch: ChangeBatch) -> Delta:
        """Apply changes: all of them, or none if one can't be read."""
        rows, keys = self._read(batch)
        found = {a: axis.coordinates(batch.rows.column(a)) for a, axis in self.axes.items()}
        joined = {
            edge: numbers.of(key_tuples([
                (batch.rows.column(a), self.table.type(a), a)  # type: ignore[misc]
                for a in self.join_attributes(edge)
            ]))
            for edge, numbers in self._edges.items()
        }  # fmt: skip
        change, old, new = self._resolve(batch, rows, keys)
        self.revision += 1
        self._grow()
        come = new >= 0
        for attribute, coordinates in found.items():
            self._columns[attribute][new[come]] = coordinates[change[come]]
        for edge, numbers in joined.items():
            self._keys[edge][new[come]] = numbers[change[come]]
        near: dict[tuple[JoinEdge, str | None], tuple[Int64s, Int64s]] = {}
        for (edge, selection), runs in self.indexes.items():
            runs.cover(self._edges[edge].end)
            lost = self.entries(edge, selection, old)
            near[edge, selection] = runs.change(lost, self.entries(edge, selection, new))
        for edge, numbers in joined.items():
            by_place = self._keys[edge]
            self._edges[edge].count(by_place[new[come]], by_place[old[old >= 0]], numbers)
        return Delta(change, old, new, near)

    def _read(self, batch: ChangeBatch) -> tuple[list[tuple[Any, ...]], list[TupleKey]]:
        if batch.rows.schema.names != self._arrow.names:
            raise SchemaError(
                f"changes of {self.name} have the columns {batch.rows.schema.names}, not {self._arrow.names}"
            )
        for name in self.table.key:
            if batch.rows.column(name).null_count:
                raise SchemaError(f"a change of {self.name} has NULL in its key {name!r}")
        columns = [self._values(name, batch.rows.column(name)) for name in self._arrow.names]
        return list(zip(*columns, strict=True)), row_keys(batch.rows, self.table)

    def _values(self, name: str, column: pa.Array) -> list[Any]:
        try:
            return list(column.to_pylist())
        except Exception as error:
            row = unreadable_rows(column)[0]
            raise SchemaError(
                f"a change of {self.name} has a value in {name!r} that Python has none for ({error}), in row {row}: "
                "leave it out"
            ) from error

    def _resolve(
        self, batch: ChangeBatch, rows: list[tuple[Any, ...]], keys: list[TupleKey]
    ) -> tuple[Int64s, Int64s, Int64s]:
        """The changes that have an effect, and the places of the tuples that go and come by each."""
        found: list[tuple[int, int, int]] = []
        deleted = [False] * len(rows) if batch.deleted is None else batch.deleted.tolist()
        for n, (row, key) in enumerate(zip(rows, keys, strict=True)):
            place = self._place.get(key, -1)
            if deleted[n]:
                if place >= 0:
                    found.append((n, self._leave(key), -1))
            elif place < 0 or self.rows[place] != row:
                found.append((n, self._leave(key), self._enter(key, row)))
        change, old, new = np.array(found, np.int64).reshape(-1, 3).T
        return np.ascontiguousarray(change), np.ascontiguousarray(old), np.ascontiguousarray(new)

    def _enter(self, key: TupleKey, row: tuple[Any, ...]) -> int:
        if self._free:
            place = self._free.pop()
            self.rows[place] = row
        else:
            place = len(self.rows)
            self.rows.append(row)
        self._place[key] = place
        return place

    def _leave(self, key: TupleKey) -> int:
        """Let a tuple leave; its place. The row stays until the next batch, since messages are about it."""
        place = self._place.pop(key, -1)
        if place >= 0:
            self._leaving.append(place)
        return place

    def _grow(self) -> None:
        size = len(self.rows)
        if size > len(self._columns[None]):
            self._columns = {name: grow_array(c, size, NULL) for name, c in self._columns.items()}
            self._keys = {edge: grow_array(c, size, -1) for edge, c in self._keys.items()}
