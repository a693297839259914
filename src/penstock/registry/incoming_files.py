"""Reads subscriptions from text files: JSON lines and CSV, compressed or not.

The columns that have a meaning are read with their types, so a subscriber named '2026-01-01' isn't taken for a
timestamp. All other columns are text.
"""

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from penstock.base.errors import RegistryError

FILES = "JSON lines (.jsonl) or CSV (.csv)"

_PACKED = (".gz", ".bz2", ".zst")
_JSON_LINES = (".jsonl", ".ndjson", ".json")
_SEPARATORS = {".csv": ",", ".tsv": "\t"}
_BLOCK = (
    32 << 20
)  # bytes: a line must fit into a block, which is far above the longest filter allowed


def is_text_file(path: Path) -> bool:
    """Whether a file's name is that of JSON lines or CSV.

    >>> is_text_file(Path("subs.csv.gz")), is_text_file(Path("subs.db"))
    (True, False)
    """
    return _suffix(path) in (*_JSON_LINES, *_SEPARATORS)


def from_file(
    path: Path, texts: Sequence[str], id_column: str | None, *, extra: bool
) -> pa.Table | None:
    """The table in a file; None if its name isn't that of a text file. `extra`: with all other keys of JSON lines."""
    if not is_text_file(path):
        return None
    types = dict.fromkeys(texts, pa.string())
    if id_column is not None:
        types[id_column] = pa.int64()
    if (separator := _SEPARATORS.get(_suffix(path))) is not None:
        return _from_csv(path, separator, types)
    return _from_json_lines(path, types, extra=extra)


def _suffix(path: Path) -> str:
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in _PACKED:
        suffixes.pop()
    return suffixes[-1] if suffixes else ""


def _from_csv(path: Path, separator: str, types: dict[str, pa.DataType]) -> pa.Table:
    import pyarrow.csv

    with _open(path) as lines:
        header = next(csv.reader(io.TextIOWrapper(lines, "utf-8-sig"), delimiter=separator), [])
    if len(header) == 1 and ";" in header[0]:
        raise RegistryError(
            f"{path} has one column, {header[0]!r}: values are to be separated by {separator!r}"
        )
    if not header:
        return pa.table({})
    with _open(path) as lines:
        table: pa.Table = pyarrow.csv.read_csv(
            lines,
            pyarrow.csv.ReadOptions(block_size=_BLOCK),
            pyarrow.csv.ParseOptions(delimiter=separator, newlines_in_values=True),
            pyarrow.csv.ConvertOptions(
                column_types=dict.fromkeys(header, pa.string()) | types,
                null_values=[""],
                strings_can_be_null=True,
            ),
        )
    return table


def _from_json_lines(path: Path, types: dict[str, pa.DataType], *, extra: bool) -> pa.Table:
    import pyarrow.json

    given = pa.schema(list(types.items()))
    if path.stat().st_size == 0:
        return given.empty_table()
    with _open(path) as lines:
        table = pyarrow.json.read_json(
            lines,
            pyarrow.json.ReadOptions(block_size=_BLOCK),
            pyarrow.json.ParseOptions(explicit_schema=given, unexpected_field_behavior="ignore"),
        )
    if not extra:
        return _without_absent(path, table)
    return _with_extra(path, table)


def _without_absent(path: Path, table: pa.Table) -> pa.Table:
    """A table of the keys that lines have: Arrow makes a given key a column even if no line has it."""
    empty = [name for name in table.column_names if table.column(name).null_count == len(table)]
    if not empty:
        return table
    there = list(dict.fromkeys(key for line in _objects(path) for key in line))
    more = {key: pa.nulls(len(table), pa.string()) for key in there}
    for name in table.column_names:
        if name in there:
            more[name] = table.column(name)
    return pa.table(more)


def _with_extra(path: Path, table: pa.Table) -> pa.Table:
    """The table with all other keys that lines have, as texts."""
    # Arrow would guess types of the others, and fail on a key that is a number here and a text there.
    objects = _objects(path)
    if len(objects) != len(table):
        raise RegistryError(f"{path} isn't one JSON object on each line")
    there = list(dict.fromkeys(key for line in objects for key in line))
    columns: dict[str, Any] = {}
    for key in there:
        if key in table.column_names:
            columns[key] = table.column(key)
        else:
            columns[key] = pa.array([_text(line.get(key)) for line in objects], pa.string())
    return pa.table(columns)


def _objects(path: Path) -> list[dict[str, Any]]:
    with _open(path) as lines:
        return [json.loads(line) for line in io.TextIOWrapper(lines, "utf-8") if line.strip()]


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)


def _open(path: Path) -> Any:
    return pa.input_stream(str(path))  # unpacks .gz
