"""Matching as a column that Spark adds: only the attributes that filters ask for travel to Python.

    events ─┬─ what filters look at ──▶ Python: match ──▶ who gets each event ─┬─▶ events, and who gets them
            └─ all the rest, which stays in the JVM ───────────────────────────┘

An event that is handed over whole (`match_work`) goes to Python and, if it matches, back. If it has a kilobyte that no
filter looks at, that is most of the cost of matching.

Events are handed over whole in four cases:

- Tasks write the notifications themselves.
- No column that can be long would be spared (`asked_attributes`).
- Filters call operators. An event that an operator fails on becomes a dead letter, which has the whole event.
- Events have neither an id nor a place at their source. To identify them by their content, each would have to be made
  JSON, which costs more than the way to Python.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    MapType,
    StringType,
    StructType,
    VariantType,
)

from penstock.base.sql_names import quote_name
from penstock.delivery.notification_shape import READER_LISTS, READERS
from penstock.matching.snapshots import open_layers
from penstock.pipeline.match_work import MatchWork

FOUND = "_penstock_found"
"""The column that workers give: who gets an event."""

_LONG = (StringType, BinaryType, ArrayType, MapType, StructType, VariantType)


def asked_attributes(work: MatchWork, schema: StructType) -> tuple[str, ...] | None:
    """The columns that the filters of a snapshot look at; None if whole events are to be handed over.

    They are if filters look at every column that can be long, or call operators.
    """
    if not any(_can_be_long(field.dataType) for field in schema.fields):
        return None
    plans = [layer.plan for layer in open_layers(work.ref)]
    if any(plan.operators is not None for plan in plans):
        return None
    asked = {name for plan in plans for name in plan.columns}
    spared = [field for field in schema.fields if field.name not in asked]
    if not any(_can_be_long(field.dataType) for field in spared):
        return None
    return tuple(name for name in schema.names if name in asked)


def _can_be_long(type_: DataType) -> bool:
    return isinstance(type_, _LONG)


def with_found(events: DataFrame, work: MatchWork, asked: Sequence[str]) -> DataFrame:
    """Events with the column `FOUND`."""
    column = _FoundColumn(work, tuple(asked))
    given = [F.col(quote_name(name)) for name in asked] or [F.lit(True)]  # it needs an argument
    function = _arrow_function(column.run, StructType([*READER_LISTS]))
    return events.select("*", function(*given).alias(FOUND))


def _arrow_function(
    run: Callable[[Iterator[Any]], Iterator[pa.Array]], type_: StructType
) -> Callable[..., Column]:
    """A function of Spark's over Arrow columns. It counts and learns, so Spark must call it once for each event."""

    def column(arguments: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
        return run(arguments)

    make: Any = arrow_udf  # its stub knows no structs
    function: Callable[..., Column] = make(column, type_).asNondeterministic()
    return function


@dataclass(frozen=True)
class _FoundColumn:
    """On a worker: makes `FOUND` of the columns that were asked for."""

    work: MatchWork
    asked: tuple[str, ...]

    def run(self, arguments: Iterator[Any]) -> Iterator[pa.StructArray]:
        for matcher, _, found in self.work.found(map(self._events, arguments)):
            ids = found.lists()
            names = pa.ListArray.from_arrays(ids.offsets, matcher.subscribers(found.position))
            yield pa.StructArray.from_arrays([ids, names], names=[*READERS])

    def _events(self, given: Any) -> pa.RecordBatch:
        columns = list(given) if isinstance(given, tuple) else [given]
        return pa.RecordBatch.from_arrays(columns, [*(self.asked or ("",))])
