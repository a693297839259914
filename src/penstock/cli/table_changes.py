"""Changes of tables as lines of JSON, for `penstock broker tables`.

    {"table": "Stocks", "tuple": {"Symbol": "ACME", "PER": 51.7}}              now the tuple is this
    {"table": "Stocks", "op": "delete", "tuple": {"Symbol": "ACME"}}           now there is no tuple

`op` is a word of change feeds (`joins.changes`). Without `op`, the tuple is put.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec
import numpy as np

from penstock.base.errors import SchemaError
from penstock.joins.catalog import Catalog
from penstock.joins.changes import DELETES, IGNORED, PUTS, ChangeBatch
from penstock.network.arrow_events import batch_of

_TOGETHER = 1_000  # changes of one batch


class TableLine(msgspec.Struct, forbid_unknown_fields=True):
    """A line: a table, a tuple of it, and what is done to that."""

    table: str
    tuple: dict[str, Any]
    op: str | None = None


_read = msgspec.json.Decoder(TableLine).decode


def read_changes(lines: Iterable[str], catalog: Catalog) -> Iterator[ChangeBatch]:
    """The changes of lines; those of one table that follow each other as a batch. SchemaError with the line's number.

    >>> from penstock.joins.catalog import Table
    >>> catalog = Catalog.of({"A": Table({"k": "int", "x": "int"}, key="k")})
    >>> lines = ['{"table": "A", "tuple": {"k": 1, "x": 5}}', '{"table": "A", "op": "d", "tuple": {"k": 1}}']
    >>> [(batch.table, batch.rows.to_pylist(), batch.deleted.tolist()) for batch in read_changes(lines, catalog)]
    [('A', [{'k': 1, 'x': 5}, {'k': 1, 'x': None}], [False, True])]
    """
    table, rows, deleted = "", list[Mapping[str, Any]](), list[bool]()
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        one = _read_line(number, line, catalog)
        if (one.op or PUTS[0]).lower() in IGNORED:
            continue
        if rows and (one.table != table or len(rows) == _TOGETHER):
            yield _batch(table, rows, deleted, catalog)
            rows, deleted = [], []
        table = one.table
        rows.append(one.tuple)
        deleted.append((one.op or PUTS[0]).lower() in DELETES)
    if rows:
        yield _batch(table, rows, deleted, catalog)


def _read_line(number: int, line: str, catalog: Catalog) -> TableLine:
    declared = dict(catalog.declared)
    try:
        one = _read(line)
    except msgspec.DecodeError as error:
        raise SchemaError(f'line {number} is no {{"table": …, "tuple": {{…}}}}: {error}') from None
    if one.table not in declared:
        raise SchemaError(f"line {number}: no table {one.table!r}: there are {', '.join(declared)}")
    if (one.op or PUTS[0]).lower() not in (*PUTS, *DELETES, *IGNORED):
        raise SchemaError(f"line {number}: {one.op!r} is no operation: say insert, update, delete")
    strange = one.tuple.keys() - set(declared[one.table].columns)
    if strange:
        raise SchemaError(f"line {number}: {one.table} has no column {min(strange)!r}")
    return one


def _batch(
    table: str, rows: list[Mapping[str, Any]], deleted: list[bool], catalog: Catalog
) -> ChangeBatch:
    schema = dict(catalog.declared)[table].schema.to_arrow()
    return ChangeBatch(table, batch_of(rows, schema), np.array(deleted))
