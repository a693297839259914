"""sqlglot's tree of a computation -> an expression, with its constants folded.

`price * (2 + 3)` becomes `price * 5`: an operation on literals alone is computed here, by the same code that computes
for events (`evaluator`), and becomes a literal. An expression may also be compared with such a literal.

A literal inside an expression is part of the computation. So it can't be lifted out of the text: the reader notes its
slot (`Operands.fixed`), and filters share a parse only if they have the same literal there (`shapes`).
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol, cast

from sqlglot import exp

from penstock.base.errors import FilterError
from penstock.language.evaluator import can_fold, fold
from penstock.language.expressions import (
    COMPUTED,
    Computation,
    ConstantValue,
    Expression,
    FieldValue,
    constant_text,
    is_now,
    uses_now,
)
from penstock.language.filter_tree import Literal, LiteralKind, Span
from penstock.language.functions import (
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER,
    INTERVAL,
    MAX_DIGITS,
    PARTS,
    STRING,
    TIMESTAMP,
    NotComputableError,
    compute,
)
from penstock.language.intervals import DAY, Interval, read_interval
from penstock.language.literals import INT64_MAX, INT64_MIN, literal_bound
from penstock.language.schema import Attribute, Schema
from penstock.language.types import TIMES, Kind, Scalar, Struct

MAX_PARTS, MAX_LEVELS = 250, 50  # of one expression; `a + b + c` has two levels

_OPERATORS: dict[type[exp.Expr], str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.IntDiv: "//",
    exp.Mod: "%",
}
_FUNCTIONS: dict[type[exp.Expr], str] = {
    exp.Abs: "abs",
    exp.Round: "round",
    exp.Floor: "floor",
    exp.Ceil: "ceil",
    exp.Coalesce: "coalesce",
    exp.Length: "length",
    exp.ArraySize: "length",
    exp.Lower: "lower",
    exp.Upper: "upper",
    exp.CurrentTimestamp: "now",
    exp.CurrentDate: "current_date",
}
_PART_FUNCTIONS: dict[type[exp.Expr], str] = {
    exp.Year: "year",
    exp.Month: "month",
    exp.Day: "day",
    exp.Hour: "hour",
    exp.Minute: "minute",
    exp.Second: "second",
    exp.Quarter: "quarter",
    exp.Week: "week",
    exp.DayOfWeek: "dow",
    exp.DayOfYear: "doy",
}
_NAMED = {"now": 0, "get_current_timestamp": 0, "date_part": 2, "datepart": 2}
# Arguments of sqlglot's nodes that are read here, or don't matter. A node with any other is refused.
_ARGUMENTS = frozenset({"this", "expression", "expressions", "decimals", "typed", "safe", "unit"})
FUNCTIONS = (
    "abs, round, floor, ceil, coalesce, length, lower, upper, extract, date_part, now, current_date, "
    "array_contains, contains, starts_with, ends_with, regexp_matches"
)


class FilterReader(Protocol):
    """Reads the attributes and literals of a filter, and makes its errors (`operands`)."""

    schema: Schema
    fixed: set[int]

    def operand(self, node: exp.Expr) -> Attribute | Literal | None: ...

    def attribute(self, node: exp.Expr) -> Attribute: ...

    def resolved(self, node: exp.Expr) -> Attribute: ...

    def error(self, node: exp.Expr, reason: str, *, hint: str | None = None) -> FilterError: ...

    def refusal(self, node: exp.Expr) -> FilterError: ...

    def not_computed_with(self, node: exp.Anonymous) -> FilterError: ...


def is_computation(node: exp.Expr) -> bool:
    """Whether a node computes something, or is a constant that only computations have."""
    if isinstance(node, exp.Anonymous):
        return _NAMED.get(node.name.lower()) == len(node.expressions)
    return (
        isinstance(node, exp.Neg | exp.Extract | exp.Interval | exp.Bracket)
        or type(node) in _OPERATORS
        or type(node) in _FUNCTIONS
        or type(node) in _PART_FUNCTIONS
    )


def is_time_part(node: exp.Expr) -> bool:
    """Whether a node is a function that gives a part of a time, like `hour(at)`."""
    return type(node) in _PART_FUNCTIONS


def read_expression(operands: FilterReader, node: exp.Expr) -> Expression | None:
    """The expression that a node stands for; None if it is NULL for every event. FilterError if it isn't one."""
    pending = [(node, 0)]
    count = 0
    while pending:
        one, level = pending.pop()
        count += 1
        if count > MAX_PARTS or level > MAX_LEVELS:
            raise operands.error(
                node,
                f"the expression is too large: at most {MAX_PARTS} parts and {MAX_LEVELS} levels",
            )
        if not isinstance(one, exp.Column | exp.Dot):
            pending += [(child, level + 1) for child in one.iter_expressions()]
    return _Reader(operands).read(node)


def expression_of(attribute: Attribute) -> Expression:
    """The expression that gives the values of an attribute."""
    return attribute.computed or FieldValue(attribute.path, attribute.type)


def as_operand(expression: Expression, span: Span) -> Attribute | Literal:
    """An expression as an operand of predicates. ValueError if it is a constant that can't be written as a literal."""
    match expression:
        case FieldValue(path, type_):
            return Attribute(path, type_)
        case ConstantValue():
            return _literal(expression, span)
        case Computation():
            return Attribute((COMPUTED, str(expression)), expression.type, computed=expression)


def relative_to_now(
    attribute: Attribute, other: Attribute
) -> tuple[Attribute, ConstantValue] | None:
    """Turns `at` and `now() - INTERVAL '1 hour'`, which are compared, into `at - now()` and a constant: an index can
    find that. None if `other` isn't the time of the match, moved by a constant.

    Months have no fixed length, so an interval with months can't be moved to the other side.
    """
    mine = expression_of(attribute)
    found = _moved_now(other)
    if found is None or uses_now(mine):
        return None
    anchor, offset = found
    if not isinstance(mine.type, Scalar) or mine.type.kind not in TIMES or offset.months:
        return None
    passed = compute("-", [mine, anchor])
    if passed.type == INTERVAL:
        constant = ConstantValue(INTERVAL, offset)
    elif offset.micros % DAY == 0:
        constant = ConstantValue(INTEGER, offset.micros // DAY)
    else:
        return None
    return cast(Attribute, as_operand(passed, (0, 0))), constant


def _moved_now(attribute: Attribute) -> tuple[Computation, Interval] | None:
    expression = attribute.computed
    if not isinstance(expression, Computation):
        return None
    if is_now(expression):
        return expression, Interval(0, 0)
    if expression.name not in ("+", "-"):
        return None
    anchors = [one for one in expression.operands if isinstance(one, Computation) and is_now(one)]
    constants = [one for one in expression.operands if isinstance(one, ConstantValue)]
    if len(anchors) != 1 or len(constants) != 1:
        return None
    value = constants[0].value
    offset = value if isinstance(value, Interval) else Interval(0, int(str(value)) * DAY)
    return anchors[0], offset.negated() if expression.name == "-" else offset


def _literal(constant: ConstantValue, span: Span) -> Literal:
    text = constant_text(constant)
    kind = LiteralKind(str(constant.type.kind))
    if kind in (LiteralKind.INTEGER, LiteralKind.DECIMAL, LiteralKind.DOUBLE):
        return Literal(kind, text.removeprefix("-"), span, negative=text[:1] == "-")
    return Literal(kind, text, span)


class _Reader:
    """Reads one expression of a filter."""

    def __init__(self, operands: FilterReader) -> None:
        self.operands = operands

    def read(self, node: exp.Expr) -> Expression | None:
        match node:
            case exp.Column() | exp.Dot():
                attribute = self.operands.attribute(node)
                return FieldValue(attribute.path, attribute.type)
            case exp.Null():
                return None
            case exp.Neg() if not isinstance(node.this, exp.Literal):
                return self.apply(node, "negate", [node.this])
            case exp.Literal() | exp.Neg() | exp.Cast() | exp.Boolean():
                return self.constant(node)
            case exp.Interval():
                return self.interval(node)
            case exp.Bracket():
                return self.element(node)
            case exp.Extract():
                return self.part(node, node.this, node.expression)
            case exp.Anonymous() if is_computation(node):
                if node.expressions:
                    return self.part(node, *node.expressions)
                return self.apply(node, "now", [])
            case exp.Anonymous():
                raise self.operands.not_computed_with(node)
        if type(node) in _PART_FUNCTIONS:
            return self.date_part(node, _PART_FUNCTIONS[type(node)], node.this)
        name = _OPERATORS.get(type(node)) or _FUNCTIONS.get(type(node))
        if name is None:
            raise self.operands.refusal(node)
        return self.apply(node, name, _arguments(node))

    def element(self, node: exp.Bracket) -> Expression | None:
        """`attrs['colour']`: the value of a map for a key, or a field of a struct."""
        keys = node.expressions
        if len(keys) != 1 or not isinstance(keys[0], exp.Literal) or not keys[0].is_string:
            raise self.operands.error(
                node, "a subscript is a string", hint="like attrs['colour'], of a map or a struct"
            )
        held = self.held(node.this)
        name = self.constant(keys[0])
        if isinstance(held.type, Struct):
            found = self.operands.schema.find((*held.path, str(name.value)))
            if found is None:
                raise self.operands.error(node, f"{held!s} has no field {name.value!r}")
            return FieldValue(found.path, found.type)
        return self.computed(node, "element", [held, name])

    def held(self, node: exp.Expr) -> FieldValue:
        """A map or a struct, which may be a field of a struct itself."""
        if isinstance(node, exp.Bracket):
            found = self.element(node)
            if not isinstance(found, FieldValue):
                raise self.operands.error(node, "a map holds no maps here")
            return found
        attribute = self.operands.resolved(node)
        return FieldValue(attribute.path, attribute.type)

    def apply(self, node: exp.Expr, name: str, arguments: Sequence[exp.Expr]) -> Expression | None:
        """An operation. It is NULL if an argument is NULL, except for coalesce."""
        self.check_arguments(node)
        read = [self.read(argument) for argument in arguments]
        found = [one for one in read if one is not None]
        if name == "coalesce":
            found = self.alike(node, found)
            if len(found) < 2:
                return found[0] if found else None
        elif len(found) < len(read):
            return None
        return self.computed(node, name, found)

    def computed(
        self, node: exp.Expr, name: str, operands: Sequence[Expression]
    ) -> Expression | None:
        try:
            found = compute(name, operands)
        except NotComputableError as error:
            raise self.operands.error(node, str(error), hint=error.hint) from None
        if not can_fold(operands):
            return found
        if name == "negate" and isinstance(operands[0], ConstantValue):
            value = operands[0].value
            if isinstance(value, Interval):
                return replace(operands[0], value=value.negated())
        return fold(found)

    def alike(self, node: exp.Expr, operands: Sequence[Expression]) -> list[Expression]:
        """The arguments of coalesce. Strings beside times are read as times."""
        kinds = {one.type.kind for one in operands if isinstance(one.type, Scalar)}
        found: list[Expression] = []
        for one in operands:
            if kinds & TIMES and isinstance(one, ConstantValue) and one.type == STRING:
                type_ = TIMESTAMP if Kind.TIMESTAMP in kinds else DATE
                found.append(self.time(node, LiteralKind.STRING, str(one.value), type_))
            else:
                found.append(one)
        return found

    def check_arguments(self, node: exp.Expr) -> None:
        surplus = [n for n, value in node.args.items() if value and n not in _ARGUMENTS]
        if surplus and not isinstance(node, exp.Coalesce | exp.Length | exp.ArraySize):
            raise self.operands.error(node, f"{surplus[0].upper()} is not in the language")

    # --- constants -----------------------------------------------------------------------------

    def constant(self, node: exp.Expr) -> ConstantValue:
        literal = self.operands.operand(node)
        if not isinstance(literal, Literal):
            raise self.operands.refusal(node)
        if literal.slot is not None:
            self.operands.fixed.add(literal.slot)
        match literal.kind:
            case LiteralKind.BOOLEAN:
                return ConstantValue(BOOLEAN, literal.text == "true")
            case LiteralKind.STRING:
                return ConstantValue(STRING, literal.text)
            case LiteralKind.DATE:
                return self.time(node, literal.kind, literal.text, DATE)
            case LiteralKind.TIMESTAMP | LiteralKind.TIMESTAMPTZ:
                return self.time(node, literal.kind, literal.text, TIMESTAMP)
        return self.number(node, literal)

    def number(self, node: exp.Expr, literal: Literal) -> ConstantValue:
        sign = -1 if literal.negative else 1
        if literal.kind is LiteralKind.DOUBLE:
            value = sign * float(literal.text)
            if math.isinf(value):
                raise self.operands.error(node, "the number is too large for a double")
            return ConstantValue(DOUBLE, value)
        whole, _, fraction = literal.text.partition(".")
        digits = len(whole.lstrip("0")) + len(fraction)
        if digits > MAX_DIGITS:
            reason = f"an exact number has at most {MAX_DIGITS} digits here"
            raise self.operands.error(node, reason, hint="a double is written like 5e0")
        unscaled = sign * int(whole + fraction)
        if literal.kind is LiteralKind.INTEGER and INT64_MIN <= unscaled <= INT64_MAX:
            return ConstantValue(INTEGER, unscaled)
        return ConstantValue(Scalar(Kind.DECIMAL, max(digits, 1), len(fraction)), unscaled)

    def time(self, node: exp.Expr, kind: LiteralKind, text: str, type_: Scalar) -> ConstantValue:
        try:
            value, _, _ = literal_bound(kind, False, text, type_)
        except ValueError as error:
            raise self.operands.error(node, str(error)) from None
        assert isinstance(value, int)
        return ConstantValue(type_, value)

    def interval(self, node: exp.Interval) -> ConstantValue:
        amount, unit = node.this, node.args.get("unit")
        if not isinstance(amount, exp.Literal) or not (unit is None or isinstance(unit, exp.Var)):
            raise self.operands.error(
                node, "an interval is a literal", hint="like INTERVAL '1 hour'"
            )
        try:
            found = read_interval(f"{amount.name} {'' if unit is None else unit.name}".strip())
        except ValueError as error:
            raise self.operands.error(node, str(error)) from None
        return ConstantValue(INTERVAL, found)

    def part(self, node: exp.Expr, part: exp.Expr, time: exp.Expr) -> Expression | None:
        """A part of a time, named by a word or by a string."""
        if isinstance(part, exp.Literal) and part.is_string:
            return self.date_part(node, str(self.constant(part).value), time)
        if not isinstance(part, exp.Var | exp.Column):
            raise self.operands.error(node, "the part of a time is a word", hint=_PARTS_HINT)
        return self.date_part(node, part.name, time)

    def date_part(self, node: exp.Expr, name: str, time: exp.Expr) -> Expression | None:
        part = PARTS.get(name.lower())
        if part is None:
            raise self.operands.error(node, f"a time has no part {name!r}", hint=_PARTS_HINT)
        found = self.read(time)
        if found is None:
            return None
        return self.computed(node, "part", [ConstantValue(STRING, part), found])


_PARTS_HINT = "there are " + ", ".join(dict.fromkeys(PARTS.values()))


def _arguments(node: exp.Expr) -> list[exp.Expr]:
    if isinstance(node, exp.CurrentTimestamp | exp.CurrentDate):
        return []
    named = [node.args.get(name) for name in ("this", "expression", "decimals")]
    return [*(one for one in named if isinstance(one, exp.Expr)), *node.expressions]
