"""In a pipeline matching can be a column that Spark adds: then only what filters ask for travels to Python.

    events ─┬─ what filters look at ──▶ Python: match ──▶ who gets each event ─┬─▶ events, and who gets them
            └─ all the rest, which stays in the JVM ───────────────────────────┘

Handed over whole (`match_work`), an event goes to Python and, if it matches, back. Of one with a kilobyte that
no filter looks at, that is most of what matching costs.

Whole events go where tasks write them by themselves, where nothing long would be spared (`asked_attributes`), and where
filters call operators: an event that an operator fails on is a dead letter, and that has all of it. They also go where
events have no id: to be told apart by their content, each would have to be made JSON, which costs more than the way to
Python.
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

    They are if nothing is spared by less, as every column that can be long is looked at, and if filters call operators.
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
    """A function of Spark's over Arrow columns, called once for each event: it counts, and learns."""

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
