"""Conditions on columns, for Arrow: an expression for datasets, and the lists of lists that `read_table` takes.

Arrow compares doubles as IEEE does: NaN isn't above anything. For SQL and Penstock it is above everything. An
expression can accept NaN, too, but then files can't be skipped by such a column. The lists can accept neither NaN nor
NULL, and leave out a column where they would have to.

Timestamps of Arrow may have nanoseconds, which Penstock cuts off: `<= t` becomes `< t + 1 µs`.
"""

import datetime
import functools
import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.covering.interest.wording import ZERO, ColumnCondition, End, Range
from penstock.language.calls import COMPARISONS, Path
from penstock.language.types import Kind, Scalar

ArrowConjunction = list[tuple[Any, str, Any]]


def expression(
    boxes: Iterable[tuple[ColumnCondition, ...]], nan: bool, schema: pa.Schema | None
) -> Any:
    """Boxes as an expression. With the schema of a dataset, values are compared as its types."""
    return _any([_all([_asked(condition, nan, schema) for condition in box]) for box in boxes])


def lists(boxes: Iterable[tuple[ColumnCondition, ...]], nan: bool) -> list[ArrowConjunction] | None:
    """Boxes as lists of (column, operator, value); None is everything, the empty list nothing.

    A column within a struct is a tuple of names.
    """
    found = []
    for box in boxes:
        conjunction = [part for condition in box for part in _listed(condition, nan)]
        if not conjunction:
            return None
        found.append(conjunction)
    return found


def _any(found: Sequence[Any]) -> Any:
    return functools.reduce(operator.or_, found) if found else pc.scalar(False)


def _all(found: Sequence[Any]) -> Any:
    return functools.reduce(operator.and_, found) if found else pc.scalar(True)


def _asked(condition: ColumnCondition, nan: bool, schema: pa.Schema | None) -> Any:
    column = pc.field(*condition.path)
    typed = _typed(None if schema is None else _type_at(schema, condition.path))
    condition = _cut_off(condition)
    found = []
    if condition.null:
        found.append(column.is_null())
    # Not isin: it needs the exact type of the column.
    found += [column == pa.scalar(value) for value in condition.points]
    for low, high in condition.ranges:
        ends = [
            COMPARISONS[end.sign(is_low)](column, typed(end.value))
            for end, is_low in ((low, True), (high, False))
            if end is not None and typed(end.value) is not None
        ]
        found.append(_all(ends) if ends else column.is_valid())
    if nan and condition.has_nan:
        found.append(column.is_nan())
    return _any(found)


def _cut_off(condition: ColumnCondition) -> ColumnCondition:
    """The same, for timestamps that may also have a fraction of a microsecond."""
    if not isinstance(condition.type, Scalar) or condition.type.kind is not Kind.TIMESTAMP:
        return condition
    points = (Range(End(value, True), End(value, True)) for value in condition.points)
    ranges = tuple(Range(low, _past(high)) for low, high in (*points, *condition.ranges))
    return replace(condition, points=(), ranges=ranges)


def _past(end: End | None) -> End | None:
    if end is None or not end.included:
        return end
    if end.value >= datetime.datetime.max.replace(tzinfo=datetime.UTC):
        return end  # nanoseconds don't reach so far: there is no fraction
    return End(end.value + datetime.timedelta(microseconds=1), False)


def _type_at(schema: pa.Schema, path: Path) -> pa.DataType | None:
    found = schema.field(path[0]).type if path[0] in schema.names else None
    for step in path[1:]:
        if found is None or not pa.types.is_struct(found) or found.get_field_index(step) < 0:
            return None
        found = found.field(step).type
    return found


def _typed(type_: pa.DataType | None) -> Callable[[Any], pa.Scalar | None]:
    """What makes values scalars: of this type if it is a timestamp's, or None if they can't be, and must be left
    out."""

    def scalar(value: Any) -> pa.Scalar | None:
        found = pa.scalar(value)
        if type_ is None or not pa.types.is_timestamp(type_):
            return found
        try:
            micros = found.cast(pa.timestamp("us", "UTC")).cast(pa.int64())
            return micros.cast(pa.timestamp("us")).cast(pa.timestamp(type_.unit)).cast(type_)
        except pa.ArrowInvalid:
            return None

    return scalar


def _listed(condition: ColumnCondition, nan: bool) -> ArrowConjunction:
    if condition.null or (nan and condition.has_nan):
        return []
    condition = _cut_off(condition)
    name = condition.path[0] if len(condition.path) == 1 else condition.path
    is_decimal = isinstance(condition.type, Scalar) and condition.type.kind is Kind.DECIMAL
    if len(condition.points) == 1 and not condition.ranges:
        return [(name, "==", condition.points[0])]
    zeros = (-0.0, 0.0) if condition.ranges == (ZERO,) and condition.points else ()
    if not (is_decimal or condition.ranges) or zeros:  # of decimals, Arrow needs the exact type
        return [(name, "in", [*zeros, *condition.points])]
    low, high = (
        condition.ranges[0]
        if len(condition.ranges) == 1 and not condition.points
        else condition.hull()
    )
    ends = ((low, True), (high, False))
    return [(name, end.sign(is_low), end.value) for end, is_low in ends if end is not None]
