"""Arguments of operators: whether an attribute or a literal fits a parameter, and a literal as a value of its type.

A filter is refused when it is subscribed, not when the operator meets its first event: so a literal that isn't exactly
a value of the parameter's type (2.5 for an integer, 'soon' for a date) is an error here.
"""

import datetime
import math
from decimal import Decimal, localcontext

from penstock.language.calls import Fixed
from penstock.language.filter_tree import Literal, LiteralKind
from penstock.language.literals import MAX_DIGITS, TOO_MANY_DIGITS, literal_bound
from penstock.language.types import NUMBERS, TIMES, Array, Kind, Scalar, Struct, Type, Unusable

_NUMERIC = {LiteralKind.INTEGER, LiteralKind.DECIMAL, LiteralKind.DOUBLE}
_TIMES = {LiteralKind.DATE, LiteralKind.TIMESTAMP, LiteralKind.TIMESTAMPTZ, LiteralKind.STRING}
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MOST_DIGITS = 38  # of a decimal
_BINARY = ("binary", "large_binary", "varbinary", "fixed_size_binary")
# A literal's own type, where the parameter takes anything.
OWN_TYPES = {
    LiteralKind.INTEGER: Scalar(Kind.INTEGER),
    LiteralKind.DECIMAL: Scalar(Kind.DOUBLE),
    LiteralKind.DOUBLE: Scalar(Kind.DOUBLE),
    LiteralKind.STRING: Scalar(Kind.STRING),
    LiteralKind.BOOLEAN: Scalar(Kind.BOOLEAN),
    LiteralKind.DATE: Scalar(Kind.DATE),
    LiteralKind.TIMESTAMP: Scalar(Kind.TIMESTAMP),
    LiteralKind.TIMESTAMPTZ: Scalar(Kind.TIMESTAMP),
}


def takes_literal(type_: Type | None, literal: LiteralKind) -> bool:
    """Whether literals of a kind can be values of a type, as far as the kind tells; None is any type."""
    if type_ is None:
        return True
    if not isinstance(type_, Scalar):
        return False
    if type_.kind in NUMBERS:
        return literal in _NUMERIC
    if type_.kind in TIMES:
        return literal in _TIMES
    return str(literal) == str(type_.kind)


def takes(parameter: Type | None, found: Type) -> bool:
    """Whether an attribute of a type can be given for a parameter; None takes anything."""
    match parameter, found:
        case None, _:
            return True
        case Scalar(a), Scalar(b):
            return a is b or {a, b} <= NUMBERS or {a, b} <= TIMES
        case Array(a), Array(b):
            return takes(a, b)
        case Struct(wanted), Struct(fields):
            have = dict(fields)
            return all(name in have and takes(type_, have[name]) for name, type_ in wanted)
        case Unusable(a), Unusable(b):
            return a == b or (a.startswith(_BINARY) and b.startswith(_BINARY))
    return False


def fix_literal(literal: Literal, type_: Type | None) -> Fixed:
    """A literal as a value of a type. ValueError, with the reason, if it isn't one."""
    wanted = OWN_TYPES[literal.kind] if type_ is None else type_
    if not isinstance(wanted, Scalar) or not takes_literal(wanted, literal.kind):
        raise ValueError(f"a literal of type {literal.kind} is no {wanted}")
    match wanted.kind:
        case Kind.STRING:
            return Fixed(wanted, literal.text)
        case Kind.BOOLEAN:
            return Fixed(wanted, literal.text == "true")
        case Kind.DATE | Kind.TIMESTAMP:
            return Fixed(wanted, _time(literal, wanted))
        case Kind.DOUBLE:
            return Fixed(wanted, _double(literal))
        case Kind.INTEGER:
            return Fixed(wanted, _scaled(literal, wanted))
    return Fixed(wanted, _decimal_text(_scaled(literal, wanted), wanted.scale))


def number(literal: Literal) -> Fixed:
    """A number as it is written: an integer or a decimal exactly, a double if it has an exponent."""
    if literal.kind is LiteralKind.DOUBLE:
        return fix_literal(literal, Scalar(Kind.DOUBLE))
    whole, _, fraction = literal.text.partition(".")
    digits = len(whole.lstrip("0")) + len(fraction)
    if literal.kind is LiteralKind.INTEGER and digits < 19:
        return fix_literal(literal, Scalar(Kind.INTEGER))
    if digits > _MOST_DIGITS:
        raise ValueError(f"an exact number has at most {_MOST_DIGITS} digits here")
    return fix_literal(literal, Scalar(Kind.DECIMAL, max(digits, 1), len(fraction)))


def _double(literal: Literal) -> float:
    if len(literal.text) > MAX_DIGITS:
        raise ValueError(TOO_MANY_DIGITS)
    value = float(literal.text)
    if math.isinf(value):
        raise ValueError("the number is too large for a double")
    return (-value if literal.negative else value) + 0.0  # + 0.0 makes -0.0 the only zero


def _scaled(literal: Literal, type_: Scalar) -> int:
    """An exact number, times ten to the scale of its type."""
    if len(literal.text) > MAX_DIGITS:
        raise ValueError(TOO_MANY_DIGITS)
    try:
        value = Decimal(literal.text)
        beyond = bool(value) and value.adjusted() > _MOST_DIGITS
    except ArithmeticError:  # an exponent that not even decimals have
        beyond = True
    limit = 1 << 63 if type_.kind is Kind.INTEGER else 10**type_.precision
    if not beyond:
        with localcontext() as context:
            context.prec = 2 * MAX_DIGITS
            exact = value.scaleb(type_.scale)
            scaled = int(exact)
            if exact != scaled or (value and not scaled):  # so little that scaling makes it zero
                raise ValueError(f"{literal.text} is no {type_}")
        scaled = -scaled if literal.negative else scaled
        if -limit <= scaled < limit and (type_.kind is Kind.INTEGER or scaled != -limit):
            return scaled
    raise ValueError(f"{literal.text[:50]} is out of the range of {type_}")


def _decimal_text(scaled: int, scale: int) -> str:
    sign, digits = "-" if scaled < 0 else "", str(abs(scaled)).rjust(scale + 1, "0")
    return sign + (f"{digits[:-scale]}.{digits[-scale:]}" if scale else digits)


def _time(literal: Literal, type_: Scalar) -> str:
    """A date, or an instant in UTC, in ISO form."""
    first, last, _ = literal_bound(literal.kind, False, literal.text, type_)
    assert isinstance(first, int)
    if first != last:
        raise ValueError(f"{literal.text!r} is not a date like '2024-01-31'")
    try:
        if type_.kind is Kind.DATE:
            return (_EPOCH + datetime.timedelta(days=first)).date().isoformat()
        return (_EPOCH + datetime.timedelta(microseconds=first)).isoformat()
    except OverflowError:
        raise ValueError(f"{literal.text!r} is outside the years 1 to 9999") from None
