"""Evaluates expressions for a batch of events at once.

`Evaluator` computes column by column, in NumPy or Arrow, and every part of an expression once per batch, however many
expressions it is part of. No event makes it raise. An expression is NULL where SQL says so. It is also NULL where
DuckDB stops the query with an error: if an integer or a decimal overflows, a remainder is by zero, or a timestamp is
out of range.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.base.arrays import Bools, Int64s
from penstock.base.columns import descend
from penstock.base.errors import SchemaError
from penstock.language import arithmetic, calendar_parts, wide_decimals
from penstock.language.column_values import column_values
from penstock.language.expressions import (
    Computation,
    ConstantValue,
    Expression,
    FieldValue,
)
from penstock.language.functions import DOUBLE, decimal_of
from penstock.language.intervals import DAY, Interval
from penstock.language.literals import INT64_MAX, INT64_MIN
from penstock.language.types import Kind, Scalar, Type, arrow_type

_NARROW_DATES = 1 << 31


class Values(NamedTuple):
    """A column, as `column_values` describes it, except that decimals of more than 18 digits are scaled to integers and
    held as Arrow decimals of scale 0.

    A NumPy array may have a single value, which stands for all rows. `valid` says which rows aren't NULL; None: all.
    """

    values: Any
    valid: Bools | None = None


class Evaluator:
    """Evaluates expressions on one batch. `now`: UTC microseconds."""

    def __init__(self, batch: pa.RecordBatch, now: int) -> None:
        self.batch = batch
        self.rows = batch.num_rows
        self.now = now
        self._known: dict[Expression, Values] = {}

    def column(self, expression: Expression) -> pa.Array:
        """The value of an expression for every event, as an Arrow column."""
        with np.errstate(all="ignore"):
            found = self.values(expression)
        assert isinstance(expression.type, Scalar)
        return _arrow(found, expression.type, self.rows)

    def values(self, expression: Expression) -> Values:
        """The value of an expression for every event, in the form that other computations take."""
        found = self._known.get(expression)
        if found is None:
            found = self._known[expression] = self._evaluate(expression)
        return found

    def _evaluate(self, expression: Expression) -> Values:
        match expression:
            case FieldValue():
                return self._field(expression)
            case ConstantValue():
                return self._constant(expression)
            case Computation(name):
                return _OPERATIONS[name](self, expression)

    def _field(self, field: FieldValue) -> Values:
        column = descend(self.batch, field.path)
        if column is not None and pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        if column is None or pa.types.is_null(column.type):
            column = pa.nulls(self.rows, arrow_type(field.type))
        return _values(column, field.type, ".".join(field.path))

    def _constant(self, constant: ConstantValue) -> Values:
        value, type_ = constant.value, constant.type
        if type_.kind is Kind.STRING:
            return Values(pa.repeat(pa.scalar(value, pa.string()), self.rows))
        if type_.is_wide:
            assert isinstance(value, int)
            return Values(wide_decimals.repeat(value, self.rows))
        key = value.key if isinstance(value, Interval) else value
        return Values(np.array([key], np.float64 if type_ == DOUBLE else np.int64))

    def converted(self, operand: Expression, type_: Scalar) -> Values:
        """The values of an operand, converted to another type."""
        found = self.values(operand)
        of = operand.type
        assert isinstance(of, Scalar)
        if of == type_ or (of.kind is type_.kind and of.kind is not Kind.DECIMAL):
            return found
        if type_.kind is Kind.DOUBLE:
            return _doubles(found, of)
        if type_.kind is Kind.TIMESTAMP:
            return _checked(found.values * DAY, found.valid, _fits(found.values, DAY))
        return self._decimals(found, decimal_of(operand), type_)

    def _decimals(self, found: Values, of: Scalar, type_: Scalar) -> Values:
        """Decimals, or integers, with another scale and width."""
        shift = type_.scale - of.scale
        if not type_.is_wide:
            return Values(found.values * 10**shift, found.valid) if shift else found
        values = found.values
        if isinstance(values, np.ndarray):
            values = wide_decimals.widened(np.broadcast_to(values, (self.rows,)))
        if not shift:
            return Values(values, found.valid)
        product, fits = wide_decimals.multiply(values, wide_decimals.repeat(10**shift, self.rows))
        return _checked(product, found.valid, fits)


# --- from and to Arrow -------------------------------------------------------------------------


def _values(column: pa.Array, type_: Type, name: str) -> Values:
    valid = column.is_valid().to_numpy(zero_copy_only=False) if column.null_count else None
    if not isinstance(type_, Scalar):
        return Values(column, valid)
    values = column_values(column, type_, name)
    return Values(wide_decimals.unscaled(values) if type_.is_wide else values, valid)


def _arrow(found: Values, type_: Scalar, rows: int) -> pa.Array:
    values, valid = found
    if type_.kind is Kind.STRING:
        return values if valid is None else pc.if_else(pa.array(valid), values, None)
    if type_.is_wide:
        decimals = values.cast(pa.decimal128(38, 0)).view(pa.decimal128(38, type_.scale))
        return decimals if valid is None else pc.if_else(pa.array(valid), decimals, None)
    values = np.broadcast_to(values, (rows,))
    mask = None if valid is None else ~np.broadcast_to(valid, (rows,))
    if type_.kind is Kind.DECIMAL:
        whole = wide_decimals.widened(values).view(pa.decimal128(38, type_.scale))
        whole = whole.cast(pa.decimal128(type_.precision, type_.scale))
        return whole if mask is None else pc.if_else(pa.array(mask), None, whole)
    if type_.kind is Kind.BOOLEAN:
        values = values.astype(np.bool_)
    if type_.kind is Kind.DATE:
        outside = (values < -_NARROW_DATES) | (values >= _NARROW_DATES)
        mask = outside if mask is None else mask | outside
        values = np.where(outside, 0, values).astype(np.int32)
    array = pa.array(values, mask=mask)
    return array if type_.kind in (Kind.INTEGER, Kind.DOUBLE) else array.cast(arrow_type(type_))


def _doubles(found: Values, of: Scalar) -> Values:
    values = found.values
    if of.kind is Kind.DECIMAL:
        decimals = wide_decimals.widened(values) if isinstance(values, np.ndarray) else values
        decimals = decimals.view(pa.decimal128(38, of.scale))
        return Values(decimals.cast(pa.float64()).to_numpy(zero_copy_only=False), found.valid)
    return Values(values.astype(np.float64), found.valid)


def _checked(values: Any, valid: Bools | None, fits: Any) -> Values:
    """Values that are NULL where they don't fit."""
    return Values(values, valid if bool(np.all(fits)) else _both(valid, fits))


def _both(a: Bools | None, b: Bools | None) -> Bools | None:
    if a is None or b is None:
        return b if a is None else a
    both: Bools = a & b
    return both


def _fits(values: Int64s, factor: int) -> Bools:
    """Whether integers can be multiplied with a factor."""
    fits: Bools = np.abs(values.astype(np.float64)) <= 9.2e18 / factor
    return fits


# --- numbers -----------------------------------------------------------------------------------


def _arithmetic(evaluator: Evaluator, node: Computation) -> Values:
    """`+ - * %` of numbers."""
    if node.type.kind is Kind.DOUBLE:
        a, b = (evaluator.converted(one, DOUBLE) for one in node.operands)
        return Values(arithmetic.DOUBLES[node.name](a.values, b.values), _both(a.valid, b.valid))
    if node.type.kind is Kind.DECIMAL:
        return _exact(evaluator, node)
    a, b = map(evaluator.values, node.operands)
    values, fits = arithmetic.INTEGERS[node.name](a.values, b.values)
    return _checked(values, _both(a.valid, b.valid), fits)


def _exact(evaluator: Evaluator, node: Computation) -> Values:
    """`+ - * %` of decimals: they are computed as integers of a common scale; a product has the sum of both scales."""
    types = [decimal_of(one) for one in node.operands]
    scales = [t.scale if node.name == "*" else node.type.scale for t in types]
    wide = 38 if node.type.is_wide else 18
    a, b = (
        evaluator.converted(one, Scalar(Kind.DECIMAL, wide, scale))
        for one, scale in zip(node.operands, scales, strict=True)
    )
    operation = (
        wide_decimals.OPERATIONS[node.name] if node.type.is_wide else arithmetic.INTEGERS[node.name]
    )
    values, fits = operation(a.values, b.values)
    return _checked(values, _both(a.valid, b.valid), fits)


def _negated(evaluator: Evaluator, node: Computation) -> Values:
    values, valid = evaluator.values(node.operands[0])
    if isinstance(values, pa.Array):
        return Values(pc.negate(values), valid)
    fits = True if node.type.kind is Kind.DOUBLE else values != INT64_MIN
    return _checked(-values, valid, fits)


def _absolute(evaluator: Evaluator, node: Computation) -> Values:
    values, valid = evaluator.values(node.operands[0])
    if isinstance(values, pa.Array):
        return Values(pc.abs(values), valid)
    fits = True if node.type.kind is Kind.DOUBLE else values != INT64_MIN
    return _checked(np.abs(values), valid, fits)


def _round(evaluator: Evaluator, node: Computation) -> Values:
    """Halves away from zero."""
    operand, *rest = node.operands
    digits = int(str(rest[0])) if rest else 0
    found = evaluator.values(operand)
    assert isinstance(operand.type, Scalar)
    match operand.type.kind:
        case Kind.INTEGER:
            if digits >= 0:
                return found
            values, fits = arithmetic.round_integers(found.values, -digits)
            return _checked(values, found.valid, fits)
        case Kind.DOUBLE:
            return Values(arithmetic.round_doubles(found.values, digits), found.valid)
    return _round_decimals(found, operand.type, digits)


def _round_decimals(found: Values, of: Scalar, digits: int) -> Values:
    if digits >= of.scale:
        return found
    if of.is_wide:
        values = wide_decimals.rounded(found.values, of.scale, digits)
        return _checked(values[0], found.valid, values[1])
    places = of.scale - digits
    if places > 18:
        return Values(np.zeros_like(found.values), found.valid)
    unit = np.int64(10**places)
    size = (np.abs(found.values) + unit // 2) // unit
    kept = np.sign(found.values) * size * np.int64(10 ** max(0, -digits))
    return Values(kept, found.valid)


def _whole(evaluator: Evaluator, node: Computation) -> Values:
    """floor and ceil."""
    operand = node.operands[0]
    is_floor = node.name == "floor"
    if node.type.kind is Kind.DOUBLE:
        found = evaluator.converted(operand, DOUBLE)
        return Values((np.floor if is_floor else np.ceil)(found.values), found.valid)
    found = evaluator.values(operand)
    assert isinstance(operand.type, Scalar)
    if operand.type.is_wide:
        values, fits = wide_decimals.whole(found.values, operand.type.scale, is_floor)
        return _checked(values, found.valid, fits)
    unit = 10**operand.type.scale
    return Values(found.values // unit if is_floor else -(-found.values // unit), found.valid)


# --- times, texts and the rest -----------------------------------------------------------------


def _sum(evaluator: Evaluator, node: Computation) -> Values:
    left, right = node.operands
    if node.type.kind in (Kind.DATE, Kind.TIMESTAMP):
        if isinstance(left, ConstantValue) and node.name == "+":
            left, right = right, left
        if isinstance(right, ConstantValue):
            return _moved(evaluator, node, left, right)
    kinds = {one.type.kind for one in node.operands if isinstance(one.type, Scalar)}
    if kinds <= {Kind.DATE, Kind.TIMESTAMP}:
        return _between(evaluator, left, right, kinds == {Kind.DATE})
    return _arithmetic(evaluator, node)


def _moved(evaluator: Evaluator, node: Computation, time: Expression, by: ConstantValue) -> Values:
    """A time, an interval or a number of days later, or earlier."""
    sign = -1 if node.name == "-" else 1
    found = evaluator.converted(time, node.type)
    if not isinstance(by.value, Interval):
        values, fits = arithmetic.add(found.values, np.array([sign * int(str(by.value))]))
        fits &= (values >= -_NARROW_DATES) & (values < _NARROW_DATES)
        return _checked(values, found.valid, fits)
    values, valid = found
    if by.value.months:
        values = calendar_parts.move_months(values, sign * by.value.months)
    values, fits = arithmetic.add(values, np.array([sign * by.value.micros]))
    return _checked(values, valid, fits)


def _between(evaluator: Evaluator, left: Expression, right: Expression, days: bool) -> Values:
    """The time between two, limited to the range of 64 bits: so it compares right with any interval."""
    type_ = Scalar(Kind.DATE if days else Kind.TIMESTAMP)
    a, b = evaluator.converted(left, type_), evaluator.converted(right, type_)
    values, fits = arithmetic.subtract(a.values, b.values)
    if not np.all(fits):
        values = np.where(fits, values, np.where(a.values < 0, INT64_MIN, INT64_MAX))
    return Values(values, _both(a.valid, b.valid))


def _part(evaluator: Evaluator, node: Computation) -> Values:
    part, time = node.operands
    found = evaluator.converted(time, Scalar(Kind.TIMESTAMP))
    assert isinstance(part, ConstantValue)
    return Values(calendar_parts.PARTS[str(part.value)](found.values), found.valid)


def _coalesce(evaluator: Evaluator, node: Computation) -> Values:
    found = evaluator.converted(node.operands[0], node.type)
    for operand in node.operands[1:]:
        if found.valid is None:
            break
        found = _filled(found, evaluator.converted(operand, node.type), evaluator.rows)
    return found


def _filled(found: Values, other: Values, rows: int) -> Values:
    """Values with others in place of NULLs."""
    assert found.valid is not None
    has = np.broadcast_to(found.valid, (rows,))
    valid = None if other.valid is None else has | other.valid
    if isinstance(found.values, pa.Array):
        return Values(pc.if_else(pa.array(has), found.values, other.values), valid)
    return Values(np.where(has, found.values, other.values), valid)


def _element(evaluator: Evaluator, node: Computation) -> Values:
    """The value that each map has for a key; if a map has the key twice, the first value. One pass over all keys."""
    held, key = node.operands
    column, valid = evaluator.values(held)
    if not pa.types.is_map(column.type):
        raise SchemaError(
            f"attribute {str(held)!r} is a map in the schema, but the events have {column.type}"
        )
    start = column.offsets.to_numpy()
    assert isinstance(key, ConstantValue)
    is_key = pc.fill_null(pc.equal(column.keys.cast(pa.string()), str(key.value)), False)
    place = np.flatnonzero(is_key.to_numpy(zero_copy_only=False))
    place = place[(place >= start[0]) & (place < start[-1])][::-1]
    found = np.full(evaluator.rows, -1)
    found[np.searchsorted(start, place, "right") - 1] = place
    if valid is not None:
        found[~valid] = -1
    items = column.items.take(pa.array(found, mask=found < 0))
    return _values(items, node.type, str(held))


def _length(evaluator: Evaluator, node: Computation) -> Values:
    values, valid = evaluator.values(node.operands[0])
    is_text = node.operands[0].type == Scalar(Kind.STRING)
    lengths = _of_texts(values, pc.utf8_length) if is_text else pc.list_value_length(values)
    filled = pc.fill_null(lengths, 0).to_numpy(zero_copy_only=False)
    return Values(filled.astype(np.int64), valid)


def _changed_case(evaluator: Evaluator, node: Computation) -> Values:
    values, valid = evaluator.values(node.operands[0])
    change = pc.utf8_lower if node.name == "lower" else pc.utf8_upper
    return Values(_of_texts(values, change), valid)


def _of_texts(values: pa.Array, change: Callable[[pa.Array], pa.Array]) -> pa.Array:
    return change(values.cast(pa.string()) if values.type == pa.string_view() else values)


def _now(evaluator: Evaluator, node: Computation) -> Values:
    return Values(np.array([evaluator.now], np.int64))


def _today(evaluator: Evaluator, node: Computation) -> Values:
    return Values(np.array([evaluator.now // DAY], np.int64))


_OPERATIONS: dict[str, Callable[[Evaluator, Computation], Values]] = {
    "+": _sum,
    "-": _sum,
    "*": _arithmetic,
    "/": _arithmetic,
    "//": _arithmetic,
    "%": _arithmetic,
    "negate": _negated,
    "abs": _absolute,
    "round": _round,
    "floor": _whole,
    "ceil": _whole,
    "coalesce": _coalesce,
    "length": _length,
    "lower": _changed_case,
    "upper": _changed_case,
    "part": _part,
    "element": _element,
    "now": _now,
    "current_date": _today,
}


def fold(node: Computation) -> ConstantValue | None:
    """The value of an operation on constants; None is NULL."""
    empty = pa.RecordBatch.from_pydict({"": [0]})
    evaluator = Evaluator(empty, 0)
    with np.errstate(all="ignore"):
        values, valid = evaluator.values(node)
    if valid is not None and not valid[0]:
        return None
    value = values[0].as_py() if isinstance(values, pa.Array) else values[0].item()
    if node.type.is_wide:
        value = int(value)
    if node.type.kind is Kind.INTERVAL:
        value = Interval(0, value)
    return ConstantValue(node.type, value)


def can_fold(operands: Sequence[Expression]) -> bool:
    """Whether an operation depends on constants alone."""
    return bool(operands) and all(isinstance(one, ConstantValue) for one in operands)
