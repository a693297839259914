"""Where a bulk load comes from: anything that holds a table becomes three Arrow columns.

A Spark DataFrame, an Arrow table, batch, reader or dataset, a pandas, Polars or DuckDB frame (by the Arrow C stream
they all speak), a Parquet file or folder, a JSON lines file. Only the columns asked for are read. A table that can't be
read as a whole (no such column, ids that are no integers, broken JSON) is a `RegistryError`; `load` finds what is wrong
with single rows, all at once.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from penstock.base.arrays import Int64s
from penstock.base.errors import RegistryError

_JSON_LINES = (".jsonl", ".ndjson", ".json", ".jsonl.gz", ".ndjson.gz", ".json.gz")
_KINDS = "a DataFrame, an Arrow table, a .parquet file or folder, or a .jsonl file"


@dataclass(frozen=True, eq=False, slots=True)
class Incoming:
    """Subscriptions to be loaded, in columns. `ids` is None if the registry is to assign them."""

    ids: pa.ChunkedArray | None
    subscribers: pa.ChunkedArray
    filters: pa.ChunkedArray

    def __len__(self) -> int:
        return len(self.filters)

    def take(self, rows: Int64s) -> "Incoming":
        """Some of the rows."""
        ids = None if self.ids is None else self.ids.take(rows)
        return Incoming(ids, self.subscribers.take(rows), self.filters.take(rows))


class SourceColumns(NamedTuple):
    """The names of the source's columns. `id` is None if the registry is to assign the ids."""

    id: str | None = "id"
    subscriber: str = "subscriber"
    filter: str = "filter"


def read_source(source: Any, names: SourceColumns) -> Incoming:
    """The columns of these names. A column `id` may be missing; one with another name must be there."""
    try:
        table = _table(source, names)
        if names.id == "id" and "id" not in table.column_names:
            names = names._replace(id=None)
        for name in filter(None, names):
            if table.column_names.count(name) != 1:
                there = ", ".join(table.column_names) or "none"
                raise RegistryError(f"the source needs one column {name!r}; its columns: {there}")
        return Incoming(
            None if names.id is None else _column(table, names.id, pa.int64(), "integers"),
            _column(table, names.subscriber, pa.string(), "text"),
            _column(table, names.filter, pa.string(), "text"),
        )
    except (pa.ArrowException, OSError) as error:
        shown = source if isinstance(source, str | os.PathLike) else f"a {type(source).__name__}"
        raise RegistryError(f"can't read the subscriptions from {shown}: {error}") from error


def _table(source: Any, names: SourceColumns) -> pa.Table:
    if isinstance(source, str | os.PathLike):
        return _from_path(Path(source), names)
    if isinstance(source, pa.Table):
        return source
    if hasattr(source, "toArrow"):  # Spark: only the columns we need leave the cluster
        wanted = [name for name in source.columns if name in names]
        table: pa.Table = source.select(*wanted).toArrow()
        return table
    if hasattr(source, "to_table") and hasattr(source, "schema"):  # an Arrow dataset
        return _from_dataset(source, names)
    if hasattr(source, "__arrow_c_stream__") or hasattr(source, "__arrow_c_array__"):
        return pa.table(source)
    raise RegistryError(f"can't load subscriptions from a {type(source).__name__}: give {_KINDS}")


def _from_path(path: Path, names: SourceColumns) -> pa.Table:
    if not path.exists():
        raise RegistryError(f"there is no {path} to load subscriptions from")
    if path.is_dir() or path.suffix == ".parquet":
        import pyarrow.dataset  # here, because it takes half a second: it imports pandas

        return _from_dataset(pyarrow.dataset.dataset(path, format="parquet"), names)
    if path.name.endswith(_JSON_LINES):
        return _from_json_lines(path, names)
    raise RegistryError(f"can't tell what {path} is by its name: give {_KINDS}")


def _from_dataset(dataset: Any, names: SourceColumns) -> pa.Table:
    table: pa.Table = dataset.to_table(columns=[n for n in dataset.schema.names if n in names])
    return table


def _from_json_lines(path: Path, names: SourceColumns) -> pa.Table:
    import pyarrow.json

    # The types are given, not guessed: a subscriber named '2026-01-01' is no timestamp.
    types: dict[str, pa.DataType] = {names.subscriber: pa.string(), names.filter: pa.string()}
    if names.id is not None:
        types[names.id] = pa.int64()
    given = pa.schema(list(types.items()))
    if path.stat().st_size == 0:
        return given.empty_table()
    lines: Any = pa.input_stream(str(path))  # unpacks .gz
    with lines:
        table = pyarrow.json.read_json(
            lines,
            # A line must fit into a block: far above the longest filter allowed.
            pyarrow.json.ReadOptions(block_size=32 << 20),
            pyarrow.json.ParseOptions(explicit_schema=given, unexpected_field_behavior="ignore"),
        )
    # A given field becomes a column even if no line has it.
    if names.id == "id" and table.column("id").null_count == len(table):
        return table.drop_columns(["id"])
    return table


def _column(table: pa.Table, name: str, kind: pa.DataType, meaning: str) -> pa.ChunkedArray:
    column = table.column(name)
    if (kind == pa.string()) != _is_text(column.type) and not pa.types.is_null(column.type):
        raise RegistryError(f"column {name!r} must hold {meaning}, it holds {column.type}")
    try:
        column = column.cast(kind)
        column.validate(full=True)  # text that isn't UTF-8
    except pa.ArrowException as error:
        raise RegistryError(f"column {name!r} must hold {meaning}: {error}") from None
    return column


def _is_text(kind: pa.DataType) -> bool:
    if isinstance(kind, pa.DictionaryType):
        kind = kind.value_type
    return bool(
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    )
