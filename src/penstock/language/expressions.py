"""Expressions over the attributes of an event: `price * size`, `lower(symbol)`, `at - now()`.

The value of an expression is an attribute like any other, a *computed attribute*: it has a type, its values have keys
and are cut into cells, so engines, snapshots and covering need to know nothing of expressions. Its path is `COMPUTED`
and the text of the expression. That text is canonical, so equal expressions have one path and are computed once per
batch for all subscriptions (`computed`):

    size*price > 5,  price * (size) < 7        ("\\0computed", "price * size")

The text is SQL: read under the same schema it gives the same expression (`computing`), so a plan keeps nothing but the
text. `functions` says which operations there are and the types of their results, `evaluator` computes them.
"""

import datetime
import functools
from collections.abc import Iterator
from dataclasses import dataclass, field

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from penstock.language.calls import Path
from penstock.language.intervals import Interval
from penstock.language.syntax import DIALECT
from penstock.language.types import Kind, Scalar, Type

COMPUTED = "\0computed"  # the first step of a path that leads to a computed attribute

_INFIX = frozenset({"+", "-", "*", "/", "//", "%"})
_WORDS = frozenset({"current_date"})  # functions without parentheses
_EPOCH = datetime.datetime(1970, 1, 1)


@dataclass(frozen=True, slots=True)
class FieldValue:
    """The value of an attribute of the event."""

    path: Path
    type: Type

    def __str__(self) -> str:
        return ".".join(map(written_name, self.path))


@dataclass(frozen=True, slots=True)
class ConstantValue:
    """A literal, or what literals alone give.

    A decimal is an integer, to be divided by ten to its scale; dates are days, timestamps microseconds since 1970.
    """

    type: Scalar
    value: bool | int | float | str | Interval

    def __str__(self) -> str:
        return _constant_text(self)


@dataclass(frozen=True, slots=True)
class Computation:
    """An operation on what expressions give. `name` is an operator (`+`) or a function (`abs`)."""

    name: str
    operands: tuple["Expression", ...]
    type: Scalar
    text: str = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", _text(self.name, self.operands))

    def __str__(self) -> str:
        return self.text

    def __hash__(self) -> int:
        return hash(self.text)


Expression = FieldValue | ConstantValue | Computation


def fields_of(expression: Expression) -> Iterator[FieldValue]:
    """The attributes of the event that an expression looks at, some of them more than once."""
    for one in parts_of(expression):
        if isinstance(one, FieldValue):
            yield one


def parts_of(expression: Expression) -> Iterator[Expression]:
    """The expression and all that it is made of, from left to right."""
    pending: list[Expression] = [expression]
    while pending:
        one = pending.pop()
        yield one
        if isinstance(one, Computation):
            pending += reversed(one.operands)


def uses_now(expression: Expression) -> bool:
    """Whether an expression depends on the time of the match."""
    return any(isinstance(one, Computation) and is_now(one) for one in parts_of(expression))


def is_now(expression: Computation) -> bool:
    """Whether an operation gives the time of the match."""
    return expression.name in ("now", "current_date")


@functools.lru_cache(maxsize=10_000)
def written_name(name: str) -> str:
    """A name as SQL reads it: in quotes if it must be.

    >>> written_name("price"), written_name("odd name"), written_name("true")
    ('price', '"odd name"', '"true"')
    """
    if name.isascii() and name.isidentifier():
        try:
            read = sqlglot.parse_one(f"{name} + 1", dialect=DIALECT)
        except SqlglotError:
            read = exp.Null()
        if read == exp.Add(this=exp.column(name), expression=exp.Literal.number(1)):
            return name
    return '"' + name.replace('"', '""') + '"'


def constant_text(constant: ConstantValue) -> str:
    """The value of a constant as a literal has it, without quotes and keywords. ValueError if no literal has it."""
    value = constant.value
    match constant.type.kind:
        case Kind.BOOLEAN:
            return str(bool(value)).lower()
        case Kind.DECIMAL:
            assert isinstance(value, int)
            return _decimal_text(value, constant.type.scale)
        case Kind.DOUBLE:
            assert isinstance(value, float)
            if value != value or value in (float("inf"), float("-inf")):
                raise ValueError(f"{value} has no literal")
            text = repr(value)
            return text if "e" in text else text + "e0"
        case Kind.DATE | Kind.TIMESTAMP:
            assert isinstance(value, int)
            return _time_text(value, constant.type.kind)
    return str(value)


def _constant_text(constant: ConstantValue) -> str:
    text = constant_text(constant)
    match constant.type.kind:
        case Kind.BOOLEAN:
            return text.upper()
        case Kind.STRING:
            return "'" + text.replace("'", "''") + "'"
        case Kind.DATE | Kind.TIMESTAMP | Kind.INTERVAL:
            return f"{constant.type.kind.upper()} '{text}'"
    return text


def _decimal_text(unscaled: int, scale: int) -> str:
    digits = str(abs(unscaled)).rjust(scale + 1, "0")
    whole, fraction = digits[: len(digits) - scale], digits[len(digits) - scale :]
    return f"{'-' if unscaled < 0 else ''}{whole}.{fraction}"


def _time_text(value: int, kind: Kind) -> str:
    try:
        if kind is Kind.DATE:
            return (_EPOCH + datetime.timedelta(days=value)).date().isoformat()
        return (_EPOCH + datetime.timedelta(microseconds=value)).isoformat(" ")
    except OverflowError:
        raise ValueError("the time is outside the years 1 to 9999") from None


def _text(name: str, operands: tuple[Expression, ...]) -> str:
    if name in _WORDS:
        return name
    if name == "part":
        return f"date_part({operands[0]}, {operands[1]})"
    if name == "element":
        return f"{operands[0]}[{operands[1]}]"
    if name == "negate":
        return f"-{_inner(operands[0])}"
    if name in _INFIX:
        return f" {name} ".join(map(_inner, operands))
    return f"{name}({', '.join(map(str, operands))})"


def _inner(operand: Expression) -> str:
    """An operand of an operator: in parentheses, if it has an operator itself or a sign."""
    text = str(operand)
    is_infix = isinstance(operand, Computation) and operand.name in {*_INFIX, "negate"}
    return f"({text})" if is_infix or text[:1] == "-" else text
