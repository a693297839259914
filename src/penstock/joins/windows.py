"""Tables that only ever get tuples, and forget the old ones: a window over an attribute that says when.

A tuple older than the newest one less the window's width is deleted, like any other; and a tuple that is as old as that
when it comes is late, and changes nothing. So what is in the table depends on the tuples alone, not on how they were
batched: a replay brings nothing back.
"""

import datetime
import heapq
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.errors import SchemaError
from penstock.joins.catalog import Table
from penstock.joins.changes import ChangeBatch
from penstock.joins.coordinates import row_keys
from penstock.joins.messages import Key
from penstock.language.literals import DAY
from penstock.language.types import Kind, Scalar
from penstock.matching.domains import key_column


@dataclass(frozen=True, slots=True)
class Window:
    """Tuples from the newest down to a width before it, both included. `width`: a number, or of times a timedelta."""

    attribute: str
    width: int | datetime.timedelta


@dataclass(slots=True)
class Expiry:
    """What will leave a table, and when."""

    name: str
    table: Table
    window: Window
    _newest: int | None = None
    _pending: list[tuple[int, Key, Key]] = field(
        default_factory=list
    )  # time, key as SQL compares it, its values

    def __post_init__(self) -> None:
        type_ = self._type()
        if type_.kind not in (Kind.INTEGER, Kind.TIMESTAMP, Kind.DATE):
            raise SchemaError(
                f"the window of {self.name} is over {self.window.attribute}, which is {type_}: "
                "it has to be an integer, a date or a timestamp"
            )
        if (type_.kind is Kind.INTEGER) == isinstance(self.window.width, datetime.timedelta):
            raise SchemaError(
                f"the window of {self.name} is over {self.window.attribute}, which is {type_}: "
                "the width of times is a timedelta, that of integers an integer"
            )

    def _type(self) -> Scalar:
        type_ = self.table.type(self.window.attribute)
        if not isinstance(type_, Scalar):
            raise SchemaError(
                f"table {self.name} has no attribute {self.window.attribute!r} for a window"
            )
        return type_

    def _width(self) -> int:
        width = self.window.width
        if isinstance(width, int):
            return width
        microseconds = width // datetime.timedelta(microseconds=1)
        return microseconds // DAY if self._type().kind is Kind.DATE else microseconds

    def admit(self, batch: ChangeBatch) -> ChangeBatch:
        """The batch without what is late."""
        column = batch.rows.column(self.window.attribute)
        times, valid = key_column(column, self._type(), self.window.attribute)
        assert isinstance(times, np.ndarray)
        counts = np.ones(len(times), np.bool_) if batch.deleted is None else ~batch.deleted
        if len(valid):
            counts = counts & valid
        newest: Any = np.maximum.accumulate(np.where(counts, times, np.iinfo(np.int64).min))
        if self._newest is not None:
            newest = np.maximum(newest, self._newest)
        late = counts & (times < newest - self._width())
        names = [self.table.columns.index(k) for k in self.table.key]
        values = list(zip(*[batch.rows.column(n).to_pylist() for n in names], strict=True))
        keys = row_keys(batch.rows, self.table)
        for n in np.flatnonzero(counts & ~late).tolist():
            heapq.heappush(self._pending, (int(times[n]), keys[n], values[n]))
        if counts.any():
            self._newest = int(newest[-1])
        if not late.any():
            return batch
        kept = np.flatnonzero(~late)
        place = {old: new for new, old in enumerate(kept.tolist())}
        return replace(
            batch,
            rows=batch.rows.take(pa.array(kept)),
            deleted=None if batch.deleted is None else batch.deleted[kept],
            versions=None if batch.versions is None else batch.versions[kept],
            moved_from={place[n]: k for n, k in (batch.moved_from or {}).items() if n in place}
            or None,
        )

    def expired(self, times: Any) -> ChangeBatch | None:
        """The deletions that are due. `times` says for a key which time its tuple has now; None: there is none."""
        if self._newest is None:
            return None
        limit = self._newest - self._width()
        gone: dict[Key, Key] = {}
        while self._pending and self._pending[0][0] < limit:
            time, key, values = heapq.heappop(self._pending)
            if times(key) == time:
                gone[key] = values
        if not gone:
            return None
        rows = [dict(zip(self.table.key, values, strict=True)) for values in gone.values()]
        batch = pa.RecordBatch.from_pylist(rows, schema=self.table.schema.to_arrow())
        return ChangeBatch(self.name, batch, np.ones(len(rows), np.bool_))
