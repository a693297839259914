"""The operations of expressions, and the type of each one's result: DuckDB's rules, in the types of attributes.

    + - *          integers give an integer, decimals a decimal without loss, with a double a double
    /              a double, whatever is divided
    // %           // divides integers; % takes any numbers, decimals of up to 18 digits
    time           timestamp - timestamp is an interval, date - date a number of days; timestamp ± interval
    map['key']     the value of a map for a key; NULL if it has none
    functions      abs round floor ceil coalesce length lower upper date_part now current_date

A decimal is as wide as its values need: `price * size` of decimal(5,2) and decimal(5,2) is decimal(10,4). DuckDB makes
some of them wider; that shows in no comparison.
"""

from collections.abc import Callable, Sequence

from penstock.language.expressions import Computation, ConstantValue, Expression
from penstock.language.intervals import Interval
from penstock.language.types import NUMBERS, TIMES, Array, Kind, Map, Scalar, Type

MAX_DIGITS = 38  # of a decimal
NARROW_DIGITS = 18  # of a decimal whose values fit 64 bits
BOOLEAN, INTEGER, DOUBLE = Scalar(Kind.BOOLEAN), Scalar(Kind.INTEGER), Scalar(Kind.DOUBLE)
STRING, DATE = Scalar(Kind.STRING), Scalar(Kind.DATE)
TIMESTAMP, INTERVAL = Scalar(Kind.TIMESTAMP), Scalar(Kind.INTERVAL)

# The parts that `date_part` takes, with all other names that DuckDB has for them.
_PARTS = {
    "year": "yr y years yrs",
    "month": "mon months mons",
    "day": "days d dayofmonth",
    "hour": "hr hours hrs h",
    "minute": "min minutes mins m",
    "second": "sec seconds secs s",
    "millisecond": "ms milliseconds msec msecs",
    "microsecond": "us microseconds usec usecs",
    "quarter": "quarters",
    "week": "weeks w weekofyear",
    "dow": "dayofweek weekday",
    "isodow": "",
    "doy": "dayofyear",
    "epoch": "",
}
PARTS = {name: part for part, others in _PARTS.items() for name in (part, *others.split())}


class NotComputableError(ValueError):
    """An operation doesn't take operands of these types. `hint` says what to do."""

    def __init__(self, reason: str, hint: str | None = None) -> None:
        super().__init__(reason)
        self.hint = hint


def compute(name: str, operands: Sequence[Expression]) -> Computation:
    """An operation on expressions, in canonical form. NotComputableError if it doesn't take these operands.

    >>> from penstock.language.expressions import FieldValue
    >>> price, size = FieldValue(("price",), DOUBLE), FieldValue(("size",), INTEGER)
    >>> str(compute("*", [size, price])), compute("*", [size, price]).type.kind
    ('price * size', <Kind.DOUBLE: 'double'>)
    """
    least, most = _COUNTS.get(name, (1, 1))
    if not least <= len(operands) <= most:
        raise NotComputableError(f"{name} doesn't take {len(operands)} arguments")
    type_ = _RULES[name](name, operands)
    if name in ("+", "*"):  # sums and products don't depend on the order, not even those of doubles
        operands = sorted(operands, key=lambda one: (isinstance(one, ConstantValue), str(one)))
    return Computation(name, tuple(operands), type_)


def decimal_of(operand: Expression) -> Scalar:
    """An exact number as a decimal."""
    type_ = operand.type
    assert isinstance(type_, Scalar)
    if type_.kind is Kind.DECIMAL:
        return type_
    if isinstance(operand, ConstantValue):
        return Scalar(Kind.DECIMAL, max(1, len(str(abs(int(str(operand.value)))))), 0)
    return Scalar(Kind.DECIMAL, 19, 0)


def unite(operands: Sequence[Expression]) -> Scalar | None:
    """A type that can hold the values of all operands; None if no type can."""
    kinds = {_kind(one) for one in operands}
    if None in kinds:
        return None
    if kinds <= NUMBERS:
        if Kind.DOUBLE in kinds:
            return DOUBLE
        if kinds == {Kind.INTEGER}:
            return INTEGER
        types = [decimal_of(one) for one in operands]
        scale = max(type_.scale for type_ in types)
        return _decimal(max(type_.precision - type_.scale for type_ in types) + scale, scale)
    if kinds <= TIMES:
        return TIMESTAMP if Kind.TIMESTAMP in kinds else DATE
    first = operands[0].type
    return first if len(kinds) == 1 and isinstance(first, Scalar) else None


def _kind(operand: Expression) -> Kind | None:
    return operand.type.kind if isinstance(operand.type, Scalar) else None


def _decimal(precision: int, scale: int) -> Scalar:
    return Scalar(Kind.DECIMAL, min(max(precision, 1, scale), MAX_DIGITS), scale)


def _refusal(name: str, operands: Sequence[Expression]) -> NotComputableError:
    types = " and ".join(str(one.type) for one in operands)
    return NotComputableError(f"{name!r} doesn't take {types}")


def _sum(name: str, operands: Sequence[Expression]) -> Scalar:
    left, right = operands
    kinds = {_kind(left), _kind(right)}
    if kinds <= NUMBERS:
        type_ = unite(operands)
        assert type_ is not None
        if type_.kind is not Kind.DECIMAL:
            return type_
        return _decimal(type_.precision + 1, type_.scale)
    if kinds & TIMES:
        found = _moved(name, left, right) or (name == "+" and _moved(name, right, left))
        if found:
            return found
        if name == "-" and kinds <= TIMES:
            return INTEGER if kinds == {Kind.DATE} else INTERVAL
    raise _refusal(name, operands)


def _moved(name: str, time: Expression, by: Expression) -> Scalar | None:
    """The type of a time that is moved by a constant interval, or by a number of days."""
    if _kind(time) not in TIMES or not isinstance(by, ConstantValue):
        return None
    if isinstance(by.value, Interval):
        return TIMESTAMP
    return DATE if _kind(time) is Kind.DATE and _kind(by) is Kind.INTEGER else None


def _product(name: str, operands: Sequence[Expression]) -> Scalar:
    type_ = unite(operands)
    if type_ is None or type_.kind not in NUMBERS:
        raise _refusal(name, operands)
    if type_.kind is not Kind.DECIMAL:
        return type_
    left, right = map(decimal_of, operands)
    scale = left.scale + right.scale
    if scale > MAX_DIGITS:
        raise NotComputableError(
            f"the product would have {scale} digits after the point, at most {MAX_DIGITS} are kept",
            "round one of the factors, or write it as a double, like 0.5e0",
        )
    return _decimal(left.precision + right.precision, scale)


def _quotient(name: str, operands: Sequence[Expression]) -> Scalar:
    if not {_kind(one) for one in operands} <= NUMBERS:
        raise _refusal(name, operands)
    return DOUBLE


def _whole_quotient(name: str, operands: Sequence[Expression]) -> Scalar:
    if {_kind(one) for one in operands} != {Kind.INTEGER}:
        raise NotComputableError(
            f"{name!r} divides integers", "use / for the quotient of other numbers"
        )
    return INTEGER


def _remainder(name: str, operands: Sequence[Expression]) -> Scalar:
    type_ = unite(operands)
    if type_ is None or type_.kind not in NUMBERS:
        raise _refusal(name, operands)
    if type_.is_wide:
        raise NotComputableError(
            f"'%' takes decimals of at most {NARROW_DIGITS} digits, these have {type_.precision}",
            "an integer beside a decimal has 19 digits; a double, like 2e0, takes any",
        )
    return type_


def _same_number(name: str, operands: Sequence[Expression]) -> Scalar:
    (operand,) = operands
    if _kind(operand) not in NUMBERS:
        raise _refusal("-" if name == "negate" else name, operands)
    assert isinstance(operand.type, Scalar)
    return operand.type


def _rounded(name: str, operands: Sequence[Expression]) -> Scalar:
    type_ = _same_number(name, operands[:1])
    digits = operands[1] if len(operands) == 2 else ConstantValue(INTEGER, 0)
    if not isinstance(digits, ConstantValue) or digits.type != INTEGER:
        raise NotComputableError("round takes a number, and how many digits to keep: round(x, 2)")
    assert isinstance(digits.value, int)
    if type_.kind is Kind.DECIMAL:
        return _decimal(type_.precision, min(max(digits.value, 0), type_.scale))
    return type_


def _whole(name: str, operands: Sequence[Expression]) -> Scalar:
    type_ = _same_number(name, operands)
    return _decimal(type_.precision, 0) if type_.kind is Kind.DECIMAL else DOUBLE


def _coalesced(name: str, operands: Sequence[Expression]) -> Scalar:
    type_ = unite(operands)
    if type_ is None:
        raise NotComputableError(
            "coalesce takes values of one type",
            "they are " + ", ".join(str(one.type) for one in operands),
        )
    return type_


def _length(name: str, operands: Sequence[Expression]) -> Scalar:
    (operand,) = operands
    if _kind(operand) is not Kind.STRING and not isinstance(operand.type, Array):
        raise _refusal(name, operands)
    return INTEGER


def _text(name: str, operands: Sequence[Expression]) -> Scalar:
    if {_kind(one) for one in operands} != {Kind.STRING}:
        raise _refusal(name, operands)
    return STRING


def _part(name: str, operands: Sequence[Expression]) -> Scalar:
    part, time = operands
    if _kind(time) not in TIMES:
        raise _refusal("date_part", [time])
    return DOUBLE if isinstance(part, ConstantValue) and part.value == "epoch" else INTEGER


def _element(name: str, operands: Sequence[Expression]) -> Scalar:
    held, key = operands
    if not isinstance(held.type, Map) or key.type != STRING:
        raise NotComputableError(
            f"a {held.type} has no elements by key", "a map has, by a string: attrs['colour']"
        )
    return held.type.value


_RULES: dict[str, Callable[[str, Sequence[Expression]], Scalar]] = {
    "+": _sum,
    "-": _sum,
    "*": _product,
    "/": _quotient,
    "//": _whole_quotient,
    "%": _remainder,
    "negate": _same_number,
    "abs": _same_number,
    "round": _rounded,
    "floor": _whole,
    "ceil": _whole,
    "coalesce": _coalesced,
    "length": _length,
    "lower": _text,
    "upper": _text,
    "part": _part,
    "element": _element,
    "now": lambda _, __: TIMESTAMP,
    "current_date": lambda _, __: DATE,
}

# How many operands each takes, if it isn't one.
_COUNTS = {
    **dict.fromkeys(("+", "-", "*", "/", "//", "%", "part", "element"), (2, 2)),
    **dict.fromkeys(("now", "current_date"), (0, 0)),
    "round": (1, 2),
    "coalesce": (1, 100),
}

__all__ = ["PARTS", "NotComputableError", "Type", "compute", "decimal_of", "unite"]
