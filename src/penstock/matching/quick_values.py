"""The value of an expression for one event, without Arrow: makes a Python function of the expression.

An array of one value takes a hundred times as long as the value. So for one event the sums, products and differences of
numbers and times, `abs`, `coalesce`, `length`, `lower`, `upper` and the like are functions of Python's numbers and
texts. They give what `language.evaluator` gives, to the bit; the differential tests compare them. Where that can't be
promised (decimals, rounding, letters beyond ASCII, parts of the calendar), `quick_value` is None, or the function
raises `NotQuickError`, and the evaluator computes the value.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Any

from penstock.language.expressions import Computation, ConstantValue, Expression, FieldValue
from penstock.language.intervals import DAY, SECOND, Interval
from penstock.language.literals import INT64_MAX, INT64_MIN, read_date, read_timestamp
from penstock.language.types import Array, Kind, Scalar

QuickValue = Callable[[Mapping[str, Any], int], Any]
"""The value for an event at a time, None being NULL. Dates are days, timestamps and intervals microseconds."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_FEW_DAYS = 100_000_000  # that have microseconds within 64 bits


class NotQuickError(Exception):
    """The event has a value that only the evaluator computes right."""


def quick_value(expression: Expression) -> QuickValue | None:
    """A function that gives the value of an expression; None if only the evaluator can compute it."""
    match expression:
        case FieldValue(path, type_):
            read = None if isinstance(type_, Array) else _READERS.get(_kind(expression))
            return None if read is None else _field(path, read)
        case ConstantValue(type_, value):
            if type_.kind is Kind.DECIMAL:
                return None
            constant = value.key if isinstance(value, Interval) else value
            return lambda event, now: constant
        case Computation():
            return _computation(expression)


def _computation(node: Computation) -> QuickValue | None:
    if node.name == "now":
        return lambda event, now: now
    if node.name == "current_date":
        return lambda event, now: now // DAY
    if any(isinstance(one, ConstantValue) and _has_months(one) for one in node.operands):
        return None
    found = [quick_value(one) for one in node.operands]
    operands = [one for one in found if one is not None]
    if len(operands) < len(found):
        return None
    if node.name == "coalesce":
        return _coalesced(node, operands)
    operation = _operation(node)
    if operation is None:
        return None
    if len(operands) == 1:
        return _of_one(operands[0], operation)
    return _of_two(operands[0], operands[1], operation) if len(operands) == 2 else None


def _of_one(operand: QuickValue, operation: Callable[[Any], Any]) -> QuickValue:
    def value(event: Mapping[str, Any], now: int) -> Any:
        found = operand(event, now)
        return None if found is None else operation(found)

    return value


def _of_two(a: QuickValue, b: QuickValue, operation: Callable[[Any, Any], Any]) -> QuickValue:
    def value(event: Mapping[str, Any], now: int) -> Any:
        left, right = a(event, now), b(event, now)
        return None if left is None or right is None else operation(left, right)

    return value


def _coalesced(node: Computation, operands: Sequence[QuickValue]) -> QuickValue | None:
    kinds = {_kind(one) for one in node.operands}
    if len(kinds) > 1 and node.type.kind is not Kind.DOUBLE:
        return None
    as_double = node.type.kind is Kind.DOUBLE

    def value(event: Mapping[str, Any], now: int) -> Any:
        for operand in operands:
            found = operand(event, now)
            if found is not None:
                return float(found) if as_double else found
        return None

    return value


def _operation(node: Computation) -> Callable[..., Any] | None:
    """The function that computes an operation on operands that aren't NULL; None if there is none."""
    kinds = [_kind(one) for one in node.operands]
    if node.type.kind is Kind.DOUBLE and set(kinds) <= {Kind.INTEGER, Kind.DOUBLE}:
        return _DOUBLES.get(node.name)
    if node.type.kind is Kind.INTEGER and set(kinds) == {Kind.INTEGER}:
        return _INTEGERS.get(node.name)
    if node.name in ("lower", "upper"):
        return _lower if node.name == "lower" else _upper
    if node.name == "length":
        return len
    if node.name in ("+", "-") and node.type.kind in (Kind.INTERVAL, Kind.TIMESTAMP):
        return _times(node.name, kinds, node.type.kind is Kind.INTERVAL)
    if node.name == "-" and kinds == [Kind.DATE, Kind.DATE]:
        return lambda a, b: a - b
    return None


def _times(name: str, kinds: Sequence[Kind | None], saturates: bool) -> Callable[..., Any]:
    """Sums and differences of timestamps, dates and intervals, in microseconds."""
    scales = [DAY if kind is Kind.DATE else 1 for kind in kinds]
    sign = -1 if name == "-" else 1

    def moved(a: int, b: int) -> int | None:
        for value, scale in ((a, scales[0]), (b, scales[1])):
            if scale == DAY and abs(value) > _FEW_DAYS:
                raise NotQuickError
        found = a * scales[0] + sign * b * scales[1]
        if INT64_MIN <= found <= INT64_MAX:
            return found
        return (INT64_MIN if found < 0 else INT64_MAX) if saturates else None

    return moved


def _kind(expression: Expression) -> Kind | None:
    return expression.type.kind if isinstance(expression.type, Scalar) else None


def _has_months(constant: ConstantValue) -> bool:
    return isinstance(constant.value, Interval) and constant.value.months != 0


# --- operations --------------------------------------------------------------------------------


def _checked(found: int) -> int | None:
    return found if INT64_MIN <= found <= INT64_MAX else None


def _quotient(a: int | float, b: int | float) -> float:
    dividend, divisor = float(a), float(b)
    if divisor:
        return dividend / divisor
    if not dividend or dividend != dividend:
        return math.nan
    return math.copysign(math.inf, dividend) * math.copysign(1.0, divisor)


def _lower(text: str) -> str:
    if not text.isascii():
        raise NotQuickError
    return text.lower()


def _upper(text: str) -> str:
    if not text.isascii():
        raise NotQuickError
    return text.upper()


_INTEGERS: dict[str, Callable[..., Any]] = {
    "+": lambda a, b: _checked(a + b),
    "-": lambda a, b: _checked(a - b),
    "*": lambda a, b: _checked(a * b),
    "negate": lambda a: _checked(-a),
    "abs": lambda a: _checked(abs(a)),
}
_DOUBLES: dict[str, Callable[..., Any]] = {
    "+": lambda a, b: float(a) + float(b),
    "-": lambda a, b: float(a) - float(b),
    "*": lambda a, b: float(a) * float(b),
    "/": _quotient,
    "negate": lambda a: -a,
    "abs": abs,
}


# --- values of events --------------------------------------------------------------------------


def _field(path: tuple[str, ...], read: Callable[[Any], Any]) -> QuickValue:
    def value(event: Mapping[str, Any], now: int) -> Any:
        found: Any = event
        for step in path:
            if found is None:
                return None
            if not isinstance(found, Mapping):
                raise NotQuickError
            found = found.get(step)
        return None if found is None else read(found)

    return value


def _integer(value: Any) -> int:
    if type(value) is not int or not INT64_MIN <= value <= INT64_MAX:
        raise NotQuickError
    return value


def _double(value: Any) -> float:
    if type(value) is float:
        return value
    if type(value) is not int or not INT64_MIN <= value <= INT64_MAX:
        raise NotQuickError
    return float(value)


def _text(value: Any) -> str:
    if type(value) is not str or not value.isascii():
        raise NotQuickError
    return value


def _boolean(value: Any) -> bool:
    if type(value) is not bool:
        raise NotQuickError
    return value


def _date(value: Any) -> int:
    if type(value) is str:
        return _read(read_date, value)
    if type(value) is not date:
        raise NotQuickError
    return value.toordinal() - _EPOCH_DAY


def _read(read: Callable[[str], int], text: str) -> int:
    try:
        return read(text)
    except ValueError:
        raise NotQuickError from None


def _timestamp(value: Any) -> int:
    if type(value) is str:
        return _read(read_timestamp, value)
    if type(value) is not datetime:
        raise NotQuickError
    passed = (value if value.tzinfo is not None else value.replace(tzinfo=UTC)) - _EPOCH
    return passed.days * DAY + passed.seconds * SECOND + passed.microseconds


_READERS: dict[Kind | None, Callable[[Any], Any]] = {
    Kind.INTEGER: _integer,
    Kind.DOUBLE: _double,
    Kind.STRING: _text,
    Kind.BOOLEAN: _boolean,
    Kind.DATE: _date,
    Kind.TIMESTAMP: _timestamp,
}
