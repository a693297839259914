"""The arguments of operators: attributes of the event and constants, as Python values or as Arrow arrays.

Structs arrive as dicts, binary as bytes, timestamps in UTC (those without a zone are taken for UTC, as everywhere).
Where an attribute is another kind of number than the operator declared, it is converted; a number that doesn't convert
exactly to an integer fails its event. An attribute that the events don't have is NULL.
"""

from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

from penstock.base.columns import descend
from penstock.language.calls import Fixed, Path
from penstock.language.types import Kind, Scalar, Type, arrow_type, from_arrow

_UTC = pa.timestamp("us", "UTC")


def constant(fixed: Fixed) -> Any:
    """A literal as a Python value."""
    if fixed.value is None or fixed.type is None:
        return fixed.value
    match fixed.type.kind:
        case Kind.DECIMAL:
            return Decimal(str(fixed.value))
        case Kind.DATE:
            return date.fromisoformat(str(fixed.value))
        case Kind.TIMESTAMP:
            return in_utc(datetime.fromisoformat(str(fixed.value)))
        case Kind.DOUBLE:
            return float(fixed.value)
        case _:
            return fixed.value


def in_utc(moment: datetime) -> datetime:
    """A moment in UTC; without a zone it is taken for UTC."""
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def midnight(day: date) -> datetime:
    """When a day begins, in UTC."""
    return datetime(day.year, day.month, day.day, tzinfo=UTC)


class ArgumentColumn:
    """One attribute of a batch, as operators see it. Nothing is converted before it is asked for.

    >>> batch = pa.RecordBatch.from_pylist([{"at": {"lat": 40.7, "lon": -74.0}}, {"at": None}])
    >>> ArgumentColumn.of(batch, ("at",)).value(0), ArgumentColumn.of(batch, ("at", "lat")).value(1)
    ({'lat': 40.7, 'lon': -74.0}, None)
    """

    __slots__ = ("_array", "_convert", "_wanted", "has_nulls")

    def __init__(self, array: pa.Array, wanted: Type | None) -> None:
        self._array = array
        self._wanted = wanted
        self.has_nulls = bool(array.null_count)
        self._convert = _conversion(from_arrow(array.type), wanted)

    @staticmethod
    def of(batch: pa.RecordBatch, path: Path, wanted: Type | None = None) -> "ArgumentColumn":
        """The attribute at a path, converted to what a parameter wants."""
        array = descend(batch, path)
        if array is None:
            array = pa.nulls(batch.num_rows)
        if pa.types.is_dictionary(array.type):
            array = array.dictionary_decode()
        if pa.types.is_timestamp(array.type) and array.type != _UTC:
            array = array.cast(pa.timestamp("us", array.type.tz), safe=False).cast(_UTC)
        return ArgumentColumn(array, wanted)

    def value(self, row: int) -> Any:
        """The value of one event; a ValueError if it can't be converted."""
        found = self._array[row].as_py()
        if found is not None and pa.types.is_map(self._array.type):
            return dict(found)
        return found if self._convert is None or found is None else self._convert(found)

    def is_null(self, row: int) -> bool:
        return not self._array[row].is_valid

    def values(self, rows: list[int]) -> pa.Array:
        """The values of some events, of the Arrow type that the parameter's type is built with."""
        if self._convert is not None:
            assert isinstance(self._wanted, Scalar)
            return pa.array([self.value(row) for row in rows], arrow_type(self._wanted))
        taken = self._array.take(pa.array(rows, pa.int64()))
        if isinstance(self._wanted, Scalar):
            return taken.cast(arrow_type(self._wanted))
        return taken


def _conversion(found: Type, wanted: Type | None) -> Callable[[Any], Any] | None:
    if not isinstance(found, Scalar) or not isinstance(wanted, Scalar) or found.kind is wanted.kind:
        return None
    return _CONVERSIONS.get((found.kind, wanted.kind))


def _whole(value: float | Decimal) -> int:
    if value != value or value in (float("inf"), float("-inf")) or value != int(value):
        raise ValueError(f"{value} is given where an integer is wanted")
    return int(value)


def _exact(value: float) -> Decimal:
    if value != value or value in (float("inf"), float("-inf")):
        raise ValueError(f"{value} is given where a decimal is wanted")
    return Decimal(repr(value))


_CONVERSIONS: dict[tuple[Kind, Kind], Callable[[Any], Any]] = {
    (Kind.INTEGER, Kind.DOUBLE): float,
    (Kind.DECIMAL, Kind.DOUBLE): float,
    (Kind.INTEGER, Kind.DECIMAL): Decimal,
    (Kind.DOUBLE, Kind.DECIMAL): _exact,
    (Kind.DOUBLE, Kind.INTEGER): _whole,
    (Kind.DECIMAL, Kind.INTEGER): _whole,
    (Kind.DATE, Kind.TIMESTAMP): midnight,
    (Kind.TIMESTAMP, Kind.DATE): lambda value: value.date(),
}
