"""Columns of events as plain values: what keys are made of, and what expressions compute with.

    booleans, integers, dates (days), timestamps and intervals (microseconds)      64-bit integers
    decimals up to 18 digits                                                       64-bit integers, scaled
    decimals of more digits                                                        Arrow decimals of 38 digits
    doubles                                                                        doubles
    strings                                                                        Arrow strings

A NULL becomes zero or empty here; whoever reads the column must know from elsewhere which values are NULL.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.base.arrays import Int64s
from penstock.base.errors import SchemaError
from penstock.language.types import Kind, Scalar

ColumnValues = Any  # Int64s | npt.NDArray[np.float64] | pa.Array

_PER_MICROSECOND = {"s": 1_000_000, "ms": 1_000, "us": 1}
_TEXT_TYPES = (pa.string(), pa.large_string(), pa.string_view())


def column_values(column: pa.Array, type_: Scalar, name: str) -> ColumnValues:
    """The values of an Arrow column, which must not be dictionary-encoded. SchemaError if it is of another type."""
    values, has_values, read = _READERS[type_.kind]
    try:
        if not has_values(column.type):
            raise TypeError(f"not {values}")
        return read(column, type_)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, TypeError) as error:
        raise SchemaError(
            f"attribute {name!r} is {type_} in the schema, but the events have {column.type}: {error}"
        ) from error


def decimal_words(column: pa.Array) -> Int64s:
    """The two halves of every 128-bit decimal, the less significant first."""
    words = np.frombuffer(column.buffers()[1], np.int64).reshape(-1, 2)
    return words[column.offset : column.offset + len(column)]


def _integers(column: pa.Array, _: Scalar) -> Int64s:
    return _filled(column.cast(pa.int64()))


def _booleans(column: pa.Array, _: Scalar) -> Int64s:
    return _filled(column.cast(pa.int8()).cast(pa.int64()))


def _doubles(column: pa.Array, _: Scalar) -> npt.NDArray[np.float64]:
    filled = pc.fill_null(column.cast(pa.float64()), 0.0)
    values: npt.NDArray[np.float64] = filled.to_numpy(zero_copy_only=False)
    return values


def _decimals(column: pa.Array, type_: Scalar) -> ColumnValues:
    column = column.cast(pa.decimal128(38 if type_.is_wide else 18, type_.scale))
    return column if type_.is_wide else np.ascontiguousarray(decimal_words(column)[:, 0])


def _strings(column: pa.Array, _: Scalar) -> pa.Array:
    return column


def _dates(column: pa.Array, _: Scalar) -> Int64s:
    return _filled(column.cast(pa.date32()).cast(pa.int32()).cast(pa.int64()))


def _timestamps(column: pa.Array, _: Scalar) -> Int64s:
    values = _filled(column.cast(pa.int64()))
    if column.type.unit == "ns":
        return values // 1_000
    factor = _PER_MICROSECOND[column.type.unit]
    return values if factor == 1 else values * factor


def _filled(column: pa.Array) -> Int64s:
    filled: Int64s = pc.fill_null(column, 0).to_numpy(zero_copy_only=False)
    return filled


# How the values of a kind are called, whether Arrow's type has them, and how they are read.
_READERS: dict[Kind, tuple[str, Callable[[Any], bool], Callable[[pa.Array, Scalar], Any]]] = {
    Kind.BOOLEAN: ("booleans", pa.types.is_boolean, _booleans),
    Kind.INTEGER: ("integers", pa.types.is_integer, _integers),
    Kind.DOUBLE: ("doubles", pa.types.is_floating, _doubles),
    Kind.DECIMAL: ("decimals", pa.types.is_decimal, _decimals),
    Kind.STRING: ("strings", _TEXT_TYPES.__contains__, _strings),
    Kind.DATE: ("dates", pa.types.is_date, _dates),
    Kind.TIMESTAMP: ("timestamps", pa.types.is_timestamp, _timestamps),
    Kind.INTERVAL: ("intervals", pa.types.is_duration, _timestamps),
}
