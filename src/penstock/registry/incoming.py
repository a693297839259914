"""Reads the source of a bulk load: anything that holds a table becomes a few Arrow columns.

A source is a Spark DataFrame, an Arrow table, batch, reader or dataset, a pandas, Polars or DuckDB frame (by the Arrow
C stream they all speak), a Parquet file or folder, or a file of JSON lines or CSV (`incoming_files`). Columns that
aren't asked for by name are metadata. A fault of the whole table (a missing column, ids that aren't integers, broken
JSON) is a `RegistryError`; faults of single rows are found by `load`, all at once.
"""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from penstock.base.arrays import Int64s
from penstock.base.errors import RegistryError
from penstock.language.syntax import nearest_name
from penstock.registry.incoming_files import FILES, from_file

_KINDS = f"a DataFrame, an Arrow table, a Parquet file or folder, or a file of {FILES}"


@dataclass(frozen=True, eq=False, slots=True)
class Incoming:
    """Subscriptions to be loaded, in columns; a column that the source lacks is None.

    Without `ids` the registry assigns them. `metadata` are JSON objects, as `details.metadata_text` writes them.
    Subscriptions keep their metadata if `metadata` is None, and their paces if `paces` is None.
    """

    subscribers: pa.ChunkedArray
    filters: pa.ChunkedArray
    ids: pa.ChunkedArray | None = None
    externals: pa.ChunkedArray | None = None
    metadata: pa.ChunkedArray | None = None
    paces: pa.ChunkedArray | None = None

    def __len__(self) -> int:
        return len(self.filters)

    def take(self, rows: Int64s) -> "Incoming":
        """Some of the rows."""
        columns = (
            self.subscribers,
            self.filters,
            self.ids,
            self.externals,
            self.metadata,
            self.paces,
        )
        return Incoming(*(None if one is None else one.take(rows) for one in columns))

    def with_paces(self, paces: pa.ChunkedArray) -> "Incoming":
        """The same with other paces."""
        return replace(self, paces=paces)


class SourceColumns(NamedTuple):
    """The names of the source's columns. `id` is None if the registry is to assign the ids.

    `metadata` None stands for all columns that aren't named here.
    """

    id: str | None = "id"
    subscriber: str = "subscriber"
    filter: str = "filter"
    external: str | None = None
    metadata: Sequence[str] | None = ()
    pace: str | None = None

    def told(self) -> list[str]:
        """The columns that have a meaning of their own."""
        named = (self.id, self.subscriber, self.filter, self.external, self.pace)
        return [name for name in named if name is not None]

    def wanted(self, there: Sequence[str]) -> list[str]:
        """Which of the columns that are `there` are read. RegistryError if one is missing."""
        _check_names(self, there)
        if self.metadata is None:
            return list(there)
        return [name for name in there if name in self.told() or name in self.metadata]


def read_source(source: Any, names: SourceColumns) -> Incoming:
    """The columns of these names. If the column of ids is named `id`, it may be missing; all others must be there."""
    try:
        table = _table(source, names)
        _check_names(names, table.column_names)
        has_ids = names.id is not None and names.id in table.column_names
        return Incoming(
            _column(table, names.subscriber, pa.string(), "text"),
            _column(table, names.filter, pa.string(), "text"),
            _column(table, str(names.id), pa.int64(), "integers") if has_ids else None,
            None if names.external is None else as_texts(table.column(names.external)),
            _metadata(table, names),
            None if names.pace is None else as_texts(table.column(names.pace)),
        )
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        shown = source if isinstance(source, str | os.PathLike) else f"a {type(source).__name__}"
        raise RegistryError(f"can't read the subscriptions from {shown}: {error}") from error


def _check_names(names: SourceColumns, there: Sequence[str]) -> None:
    """RegistryError if a column is missing, or there twice: one error for the table, not one for each row."""
    for name in [*names.told(), *(names.metadata or ())]:
        found = list(there).count(name)
        if found > 1:
            raise RegistryError(f"the source has {found} columns {name!r}: rename all but one")
        if not found and (name, names.id) != ("id", "id"):
            close = nearest_name(name, there)
            hint = f" (did you mean {close!r}?)" if close else ""
            columns = ", ".join(there) or "none"
            raise RegistryError(f"the source has no column {name!r}{hint}; its columns: {columns}")


def _table(source: Any, names: SourceColumns) -> pa.Table:
    if isinstance(source, str | os.PathLike):
        return _from_path(Path(source), names)
    if isinstance(source, pa.Table):
        return source
    if hasattr(source, "toArrow"):  # Spark: only the columns we need leave the cluster
        table: pa.Table = source.select(*names.wanted(source.columns)).toArrow()
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
    texts = [names.subscriber, names.filter, *filter(None, (names.external, names.pace))]
    table = from_file(path, texts, names.id, extra=names.metadata != ())
    if table is None:
        raise RegistryError(f"can't tell what {path} is by its name: give {_KINDS}")
    return table


def _from_dataset(dataset: Any, names: SourceColumns) -> pa.Table:
    table: pa.Table = dataset.to_table(columns=names.wanted(dataset.schema.names))
    return table


def _metadata(table: pa.Table, names: SourceColumns) -> pa.ChunkedArray | None:
    """The metadata of each row as one JSON object, without NULLs."""
    if names.metadata == ():
        return None
    told = names.told()
    chosen = [name for name in names.wanted(table.column_names) if name not in told]
    if names.metadata is not None:
        chosen = list(dict.fromkeys(names.metadata))
    if not chosen:
        return pa.chunked_array([pa.repeat("{}", len(table))])
    chosen.sort()
    columns = [as_texts(table.column(name)).to_pylist() for name in chosen]
    texts = [
        json.dumps(
            {name: value for name, value in zip(chosen, row, strict=True) if value is not None},
            ensure_ascii=False,
            separators=(",", ":"),
        )
        for row in zip(*columns, strict=True)
    ]
    return pa.chunked_array([pa.array(texts, pa.string())])


def as_texts(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Values of any type as texts: numbers and times as Arrow writes them, lists and structs in JSON."""
    if isinstance(column.type, pa.DictionaryType):
        column = column.cast(column.type.value_type)
    if pa.types.is_nested(column.type) or pa.types.is_binary(column.type):
        texts = [
            None if value is None else json.dumps(value, ensure_ascii=False, default=str)
            for value in column.to_pylist()
        ]
        return pa.chunked_array([pa.array(texts, pa.string())])
    found = column.cast(pa.string())
    found.validate(full=True)
    return found


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
