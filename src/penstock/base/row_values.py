"""Rows of Arrow batches as Python values, whatever is in them.

Arrow and Spark hold values that Python can't: a day after the year 9999, a text that isn't Unicode. Where a row is only
shown (a dead letter, a console), they become texts here. Where values are worked with, `unreadable_rows` finds the rows
that have them.
"""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

_DAY = 86_400_000_000  # microseconds
_FIRST_DAY, _LAST_DAY = -719_162 + 2, 2_932_896 - 2  # of Python's calendar, less a day for zones


def row_dicts(batch: pa.RecordBatch | pa.Table) -> list[dict[str, Any]]:
    """All rows; a value that Python can't hold is a text.

    >>> days = pa.array([0, 3_663_584], pa.int32()).cast(pa.date32())
    >>> row_dicts(pa.record_batch([days], ["d"]))
    [{'d': datetime.date(1970, 1, 1)}, {'d': '12000-07-21'}]
    """
    try:
        found: list[dict[str, Any]] = batch.to_pylist()
    except Exception:  # noqa: BLE001  (some value can't be converted; below each is tried)
        columns = [[_value(one) for one in column] for column in batch.columns]
        names = batch.schema.names
        return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
    return found


def row_dict(batch: pa.RecordBatch, row: int) -> dict[str, Any]:
    """One row."""
    return row_dicts(batch.slice(row, 1))[0]


def _value(one: pa.Scalar) -> Any:
    try:
        return one.as_py()
    except Exception:  # noqa: BLE001
        return _shown(one)


def _shown(one: pa.Scalar) -> Any:
    """What to show of a value that Python can't hold."""
    type_ = one.type
    if pa.types.is_struct(type_):
        return {field.name: _value(one[n]) for n, field in enumerate(type_)}
    if pa.types.is_map(type_):
        return [(_value(pair["key"]), _value(pair["value"])) for pair in one.values]
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        return [_value(element) for element in one.values]
    if pa.types.is_string(type_) or pa.types.is_large_string(type_):
        return one.as_buffer().to_pybytes().decode("utf-8", "backslashreplace")
    try:
        return str(one.cast(pa.string()))
    except Exception:  # noqa: BLE001
        return f"a value of type {type_} that can't be shown"


def unreadable_rows(column: pa.Array) -> list[int]:
    """The rows whose value Python can't hold.

    >>> unreadable_rows(pa.array([0, 3_663_584], pa.int32()).cast(pa.date32()))
    [1]
    """
    return [] if _is_readable(column) else list(_found(column, 0))


def _is_readable(column: pa.Array) -> bool:
    """Whether it is sure, without looking at each value, that all are readable."""
    type_ = column.type
    if pa.types.is_date32(type_):
        return _within(column.cast(pa.int32()), _FIRST_DAY, _LAST_DAY)
    if pa.types.is_timestamp(type_) and type_.unit == "us":
        return _within(column.cast(pa.int64()), _FIRST_DAY * _DAY, _LAST_DAY * _DAY)
    if pa.types.is_string(type_):
        try:
            column.validate(full=True)
        except pa.ArrowInvalid:
            return False
        return True
    return pa.types.is_primitive(type_) and not pa.types.is_temporal(type_)


def _within(numbers: pa.Array, first: int, last: int) -> bool:
    low, high = pc.min_max(numbers).values()
    return not low.is_valid or (low.as_py() >= first and high.as_py() <= last)


def _found(column: pa.Array, first: int) -> Iterator[int]:
    try:
        column.to_pylist()
    except Exception:  # noqa: BLE001  (whatever keeps a value from being one of Python's)
        if len(column) == 1:
            yield first
            return
        half = len(column) // 2  # few are bad, so most halves are good
        yield from _found(column[:half], first)
        yield from _found(column[half:], first + half)
