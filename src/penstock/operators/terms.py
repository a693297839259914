"""Conditions on variables: `:y > 2 * :z`, computed as SQL does.

NULL propagates, and a comparison with NULL is unknown. Integers and decimals are exact; mixed with a double they are
doubles. Nothing overflows here, while DuckDB stops with an error beyond 64 bits or 38 digits. `/` always gives a
double, and `%` has the sign of the dividend. Dividing by zero gives NULL: DuckDB's own answer depends on the type and
on its settings. NaN equals itself and is the greatest number. A date is compared with a timestamp as its midnight in
UTC.

A condition is turned into nested closures once, because it is evaluated for every combination of bindings.
"""

import math
import operator
from collections.abc import Callable, Sequence
from datetime import date, datetime
from decimal import Context, Decimal, InvalidOperation
from typing import Any

from penstock.language.calls import (
    COMPARISONS,
    Arithmetic,
    Condition,
    Fixed,
    Given,
    Operand,
    Path,
    Variable,
    simple_operands,
)
from penstock.operators.arguments import constant, in_utc, midnight

VariableValues = Sequence[Any]  # the value of each variable, by number
Event = Callable[[Path], Any]
TermFunction = Callable[[VariableValues, Event], Any]
ConditionTest = Callable[[VariableValues, Event], bool]
_Function = Callable[[Any, Any], Any]

_EXACT = Context(prec=400, Emax=10**6, Emin=-(10**6))


def truth_of(condition: Condition) -> ConditionTest:
    """A function that says whether a condition is true. Unknown isn't true.

    >>> test = truth_of(Condition(">", Variable(0), Arithmetic("*", Fixed(None, 2), Variable(1))))
    >>> test((5, 2), dict().get), test((5, 3), dict().get), test((5, None), dict().get)
    (True, False, False)
    """
    left = term_of(condition.left)
    if condition.order == "null":
        return lambda row, event: left(row, event) is None
    if condition.order == "not null":
        return lambda row, event: left(row, event) is not None
    assert condition.right is not None, condition
    right, order = term_of(condition.right), COMPARISONS[condition.order]

    def test(row: VariableValues, event: Event) -> bool:
        a, b = left(row, event), right(row, event)
        if a is None or b is None:
            return False
        if type(a) is not type(b) or type(a) is float:
            a, b = _comparable(a, b)
        return bool(order(a, b))

    return test


def term_of(operand: Operand) -> TermFunction:
    """A function that gives the value of a term. None is NULL."""
    match operand:
        case Variable(number):
            return lambda row, event: row[number]
        case Given(path):
            return lambda row, event: event(path)
        case Fixed():
            value = constant(operand)
            return lambda row, event: value
        case Arithmetic("-", left, None):
            negated = term_of(left)

            def negative(row: VariableValues, event: Event) -> Any:
                value = negated(row, event)
                if value is None:
                    return None
                return value.copy_negate() if type(value) is Decimal else -value

            return negative
        case Arithmetic(operation, left, right):
            assert right is not None, operand
            first, second, compute = term_of(left), term_of(right), _OPERATIONS[operation]

            def computed(row: VariableValues, event: Event) -> Any:
                a, b = first(row, event), second(row, event)
                return None if a is None or b is None else compute(a, b)

            return computed


def variables_of(condition: Condition) -> frozenset[int]:
    """The variables that a condition mentions."""
    return frozenset(o.number for o in simple_operands(condition) if isinstance(o, Variable))


def _comparable(a: Any, b: Any) -> tuple[Any, Any]:
    """Two values of different types, or two doubles, as values that order as SQL says."""
    if isinstance(a, float) or isinstance(b, float):
        return _ranked(_as_double(a)), _ranked(_as_double(b))
    if isinstance(a, date) and isinstance(b, date):
        return _as_moment(a), _as_moment(b)
    return a, b


def _ranked(number: float) -> tuple[bool, float]:
    return (True, 0.0) if number != number else (False, number)


def _as_moment(value: date) -> datetime:
    return in_utc(value) if isinstance(value, datetime) else midnight(value)


def _as_double(number: Any) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def _exactly(plain: _Function, decimal: _Function) -> _Function:
    """Arithmetic of doubles if one side is a double, else of decimals if one is, else of integers."""

    def compute(a: Any, b: Any) -> Any:
        if isinstance(a, float) or isinstance(b, float):
            return plain(_as_double(a), _as_double(b))
        if isinstance(a, Decimal) or isinstance(b, Decimal):
            return decimal(Decimal(a), Decimal(b))
        return plain(a, b)

    return compute


def _divided(a: Any, b: Any) -> float | None:
    dividend, divisor = _as_double(a), _as_double(b)
    return None if divisor == 0 else dividend / divisor


def _remainder(a: Any, b: Any) -> Any:
    if b == 0:
        return None
    if isinstance(a, float) or isinstance(b, float):
        dividend, divisor = _as_double(a), _as_double(b)
        return math.nan if math.isinf(dividend) else math.fmod(dividend, divisor)
    if isinstance(a, Decimal) or isinstance(b, Decimal):
        try:
            return _EXACT.remainder(Decimal(a), Decimal(b))
        except InvalidOperation:  # more digits than the context has
            return None
    found = abs(a) % abs(b)
    return -found if a < 0 else found


_OPERATIONS: dict[str, _Function] = {
    "+": _exactly(operator.add, _EXACT.add),
    "-": _exactly(operator.sub, _EXACT.subtract),
    "*": _exactly(operator.mul, _EXACT.multiply),
    "/": _divided,
    "%": _remainder,
}
