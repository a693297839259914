"""Rows that aren't as Penstock wrote them: they were changed, or have values of wrong types, which SQLite allows.

A row with a value of another type than its column's, or with a wrong checksum, is kept apart, with what is wrong and
what to do, and the others are read. A BLOB that is UTF-8 counts as its text. The fast way reads hundreds of rows at a
time and fails as a whole. Only when it has failed are rows checked one by one.
"""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from penstock.base.errors import FilterError
from penstock.registry.checksums import rows_with_wrong_checksums
from penstock.registry.tables import subscriptions

WRONG_CHECKSUM = "its checksum is wrong"
BAD_ROW_HINT = (
    "something else than Penstock has changed it: end the subscription (penstock unsubscribe {} --force), "
    "and subscribe again"
)

_INT64 = 1 << 63
_TEXTS = ("subscriber", "filter")


class RawText(NamedTuple):
    """Text as the database has it, not yet known to be UTF-8."""

    data: bytes


class BadRow(NamedTuple):
    """A row that can't be read."""

    id: int
    subscriber: str
    filter: str
    reason: str
    table: str = subscriptions.name

    def error(self) -> FilterError:
        """As the error of a subscription: which row, what is wrong with it, and what to do."""
        return FilterError(
            self.filter[:1000],
            f"row {self.id} of {self.table} can't be read: {self.reason}",
            hint=BAD_ROW_HINT.format(self.id),
        )


def sort_out(
    rows: Iterable[tuple[Any, ...]], schema: pa.Schema
) -> tuple[list[tuple[Any, ...]], list[BadRow]]:
    """The rows that are right, with their texts decoded, and the others. Texts are given as `RawText`."""
    good: list[tuple[Any, ...]] = []
    bad: list[BadRow] = []
    for row in rows:
        named = dict(zip(schema.names, row, strict=True))
        wrong = next(_faults(named, schema), None)
        if wrong is None:
            good.append(tuple(map(_decoded, row, schema.types)))
        else:
            subscriber, text = (_shown(named.get(name)) for name in _TEXTS)
            bad.append(BadRow(int(named["id"]), subscriber, text, wrong))
    return good, bad


def set_changed_rows_aside(table: pa.Table) -> tuple[pa.Table, list[BadRow]]:
    """The rows of a table of subscriptions whose checksums are right, and the others."""
    wrong = rows_with_wrong_checksums(table)
    if not len(wrong):
        return table, []
    names = ["id", *_TEXTS]
    rows = zip(*(table.column(name).take(wrong).to_pylist() for name in names), strict=True)
    bad = [BadRow(sid, who or "", text or "", WRONG_CHECKSUM) for sid, who, text in rows]
    return table.take(np.delete(np.arange(len(table)), wrong)), bad


def _data(value: Any) -> Any:
    return value.data if isinstance(value, RawText) else value


def _decoded(value: Any, kind: pa.DataType) -> Any:
    data = _data(value)
    return data.decode() if isinstance(data, bytes) and pa.types.is_string(kind) else data


def _faults(row: dict[str, Any], schema: pa.Schema) -> Iterator[str]:
    for field in schema:
        value = row[field.name]
        what = "end of the lease" if field.name == "expires" else field.name
        if pa.types.is_integer(field.type):
            if not isinstance(value, int) or not -_INT64 <= value < _INT64:
                yield f"the {what} is {_kind(value)}, not a number of 64 bits"
        elif pa.types.is_binary(field.type):
            if not isinstance(value, bytes | None):
                yield f"the {what} is {_kind(value)}, not bytes"
        elif value is not None or not row.get("removed"):
            if not isinstance(value, RawText | bytes):
                yield f"the {what} is {_kind(value)}, not text"
                continue
            data = _data(value)
            try:
                data.decode()
            except UnicodeDecodeError as error:
                found = "not UTF-8" if isinstance(value, RawText) else f"{_kind(value)}, not UTF-8"
                yield f"the {what} is {found}: byte {error.start + 1} is 0x{data[error.start]:02x}"


def _kind(value: Any) -> str:
    if isinstance(value, RawText):
        return f"the text {_shown(value)[:40]!r}"
    if isinstance(value, bytes):
        return f"a BLOB of {len(value):,} bytes"
    return "NULL" if value is None else f"the number {value!r}"


def _shown(value: Any) -> str:
    data = _data(value)
    if isinstance(data, bytes):
        return data.decode("utf-8", "replace").replace("\0", "?")
    return "" if data is None else str(data)
