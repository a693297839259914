"""Changes of a table as they are published: rows with the table's columns, and columns that describe the change.

    {"Symbol": "GOOG", "PER": 21.5, "op": "update", "version": 7, "before": {"Symbol": "GOOGL"}}

`op`, `version` and `before` may be left out, and may have other names, as in `pipeline.joins.change_feed`, which reads
the rows afterwards. A row without its key, or with an unknown operation, is refused here.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.joins.catalog import Catalog, Table
from penstock.joins.changes import OPERATIONS
from penstock.language.syntax import nearest_name
from penstock.language.types import Struct
from penstock.server.publishing.attribute_types import BIGINT, STRING, root_of
from penstock.server.publishing.published import PublishError
from penstock.server.publishing.record_shapes import RecordShape


class UnknownTable(PublishError):
    """A table that the catalogue doesn't have."""


@dataclass(frozen=True)
class ChangeNames:
    """The names of the columns that describe a change."""

    op: str = "op"
    version: str = "version"
    before: str = "before"


def change_shape(table: Table, names: ChangeNames = ChangeNames()) -> RecordShape:  # noqa: B008
    """The shape of a table's changes.

    >>> shape = change_shape(Table({"Symbol": "string", "PER": "double"}, key="Symbol"))
    >>> shape.read_one(b'{"op": "delete", "Symbol": "GOOG"}')
    b'{"Symbol":"GOOG","op":"delete"}'
    """
    columns = root_of(table.schema)
    more = ((names.op, STRING), (names.version, BIGINT), (names.before, columns))
    return RecordShape(
        Struct((*columns.fields, *more)),
        required=frozenset(table.key),
        words={names.op: OPERATIONS},
    )


def change_shapes(catalog: Catalog, names: ChangeNames) -> Mapping[str, RecordShape]:
    """The shapes of all tables of a catalogue."""
    return {name: change_shape(table, names) for name, table in catalog.declared}


def shape_of_table(shapes: Mapping[str, RecordShape], table: str) -> RecordShape:
    """The shape of a table's changes. UnknownTable if there is no such table."""
    if table not in shapes:
        near = nearest_name(table[:60], shapes)
        hint = f": did you mean {near!r}?" if near else ""
        raise UnknownTable(f"there is no table {table[:60]!r}{hint}")
    return shapes[table]
