"""Value constraints: conditions on the variables that operators bind (operators §2.1).

They compare terms: arithmetic of variables, numbers, strings and scalar attributes of the event. A condition on
variables needs no index: it is looked at only once its operators have answered, and then costs nothing beside them.

A variable has the type that its operator binds it as. A condition may stand before the call in the text, so the calls
are looked through first.
"""

from dataclasses import replace

from sqlglot import exp

from penstock.base.errors import FilterError
from penstock.language.call_arguments import OWN_TYPES, fix_literal, number
from penstock.language.calls import Arithmetic, Condition, Fixed, Given, Operand, Variable
from penstock.language.filter_tree import Constant, Constraint, Literal, LiteralKind, Span, Tree
from penstock.language.operands import Operands, SlotNeededError
from penstock.language.schema import Attribute
from penstock.language.signatures import bound_variables
from penstock.language.syntax import DIALECT, MAX_DEPTH, too_deep
from penstock.language.types import NUMBERS, TIMES, Kind, Scalar

_OPERATIONS: dict[type[exp.Expr], str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.Mod: "%",
}
_DOUBLE = Scalar(Kind.DOUBLE)
# Of literals that aren't numbers.
_OWN_TYPES = {literal: type_ for literal, type_ in OWN_TYPES.items() if type_.kind not in NUMBERS}


class Constraints:
    """Reads the conditions on variables of one filter."""

    def __init__(self, operands: Operands, tree: exp.Expr) -> None:
        self.operands = operands
        self.any = ":" in operands.text and tree.find(exp.Placeholder) is not None
        self.types = _bound(operands, tree) if self.any else {}

    def concern(self, *nodes: exp.Expr) -> bool:
        """Whether there is a variable in what is compared, calls aside."""
        pending = [node for node in nodes if isinstance(node, exp.Expr)] if self.any else []
        while pending:
            node = pending.pop()
            if isinstance(node, exp.Placeholder):
                return True
            if not isinstance(node, exp.Anonymous):
                pending.extend(node.iter_expressions())
        return False

    def comparison(self, node: exp.Expr, order: str, left: exp.Expr, right: exp.Expr) -> Tree:
        """`left order right`, at least one of them with a variable."""
        reading = _Reading(self)
        sides = [reading.side(left, 0), reading.side(right, 0)]
        span = self.operands.span(node)
        if None in sides:
            return Constant(None, span)
        types = [reading.type_of(side) for side in sides]
        if not _comparable(types, sides):
            raise FilterError(
                self.operands.text,
                f"{reading.text(left)!r} can't be compared with {reading.text(right)!r}",
                self.operands.span(left)[0],
                self.operands.span(right)[1],
                expected=reading.shown(sides[0]),
                found=reading.shown(sides[1]),
            )
        a, b = (
            reading.read(side, other) for side, other in zip(sides, reversed(types), strict=True)
        )
        return reading.constraint(Condition(order, a, b), span)

    def null(self, node: exp.Expr) -> Tree:
        """`… IS NULL`."""
        reading = _Reading(self)
        side = reading.side(node.this, 0)
        assert isinstance(side, Variable | Arithmetic), "it has a variable"
        return reading.constraint(Condition("null", side, None), self.operands.span(node))


class _Reading:
    """One condition: its variables are numbered as they are met."""

    def __init__(self, constraints: Constraints) -> None:
        self.operands = constraints.operands
        self.types = constraints.types
        self.places: dict[str, Span] = {}
        self.given: dict[Given, Scalar] = {}

    def constraint(self, condition: Condition, span: Span) -> Constraint:
        return Constraint(condition, tuple(self.places), tuple(self.places.values()), span)

    def text(self, node: exp.Expr) -> str:
        if isinstance(node, exp.Literal):
            return node.name
        if not any("start" in part.meta for part in node.walk()):
            return node.sql(DIALECT)  # TRUE: sqlglot doesn't say where it stands
        start, end = self.operands.span(node)
        return self.operands.text[start:end]

    def shown(self, side: Operand | Literal | None) -> str:
        return str(side.kind if isinstance(side, Literal) else self.type_of(side))

    def side(self, node: exp.Expr, depth: int) -> Operand | Literal | None:
        """A term; a literal as it is, because what it is compared with decides what it means; None for NULL."""
        if depth > MAX_DEPTH:
            raise too_deep(self.operands.text)
        match node:
            case exp.Placeholder():
                return self.variable(node)
            case exp.Column() | exp.Dot():
                return self.attribute(node)
            case exp.Neg() if not isinstance(node.this, exp.Literal):
                return Arithmetic("-", self.number(node.this, depth + 1), None)
            case exp.Add() | exp.Sub() | exp.Mul() | exp.Div() | exp.Mod():
                left = self.number(node.this, depth + 1)
                right = self.number(node.expression, depth + 1)
                return Arithmetic(_OPERATIONS[type(node)], left, right)
            case exp.Anonymous() if self.operands.schema.operators.find(node.name) is not None:
                raise self.operands.error(
                    node,
                    "an operator's answer can't be compared with a variable",
                    hint="compare it with a literal, or use an operator that binds a variable",
                )
            case exp.DPipe() | exp.IntDiv() | exp.Pow():
                raise self.operands.error(node, "variables are computed with + - * / % only")
        found = self.operands.operand(node)
        if isinstance(found, Attribute):
            raise self.operands.error(
                node, "what is computed by a function can't be compared with a variable"
            )
        if found is not None and found.slot is not None:
            raise SlotNeededError  # it is part of what is asked
        return found

    def variable(self, node: exp.Placeholder) -> Variable:
        name = self.operands.variable(node)
        if name not in self.types:
            raise self.operands.error(
                node,
                f"variable :{node.name} is bound by no operator",
                hint="an operator binds it, like :y in boats(image, :y) AND :y > 2",
            )
        self.places.setdefault(name, self.operands.span(node))
        return Variable(list(self.places).index(name))

    def attribute(self, node: exp.Expr) -> Given:
        attribute = self.operands.attribute(node)
        if not isinstance(attribute.type, Scalar):
            raise self.operands.error(
                node,
                f"{attribute.name!r} can't be compared with a variable",
                "a scalar",
                str(attribute.type),
            )
        given = Given(attribute.path)
        self.given[given] = attribute.type
        return given

    def number(self, node: exp.Expr, depth: int) -> Operand:
        """A part of arithmetic."""
        side = self.side(node, depth)
        type_ = None if side is None else self.type_of(side)
        if type_ is not None and type_.kind not in NUMBERS:
            raise self.operands.error(
                node, "only numbers can be computed with", "a number", str(type_)
            )
        return Fixed(None, None) if side is None else self.read(side, _DOUBLE)

    def type_of(self, side: Operand | Literal | None) -> Scalar:
        match side:
            case Variable(n):
                return self.types[list(self.places)[n]]
            case Given():
                return self.given[side]
            case Literal():
                return _OWN_TYPES.get(side.kind, _DOUBLE)
        return _DOUBLE

    def read(self, side: Operand | Literal | None, other: Scalar) -> Operand:
        """A literal as what it is compared with: a string is a date beside a date, a number is as it is written."""
        assert side is not None
        if not isinstance(side, Literal):
            return side
        try:
            if side.kind not in _OWN_TYPES:
                return number(side)
            as_time = side.kind is LiteralKind.STRING and other.kind in TIMES
            return fix_literal(side, other if as_time else _OWN_TYPES[side.kind])
        except ValueError as error:
            raise FilterError(self.operands.text, str(error), *side.span) from None


def has_double(constraint: Constraint) -> bool:
    """Whether one side is a literal with an exponent."""
    condition = constraint.condition
    return any(
        isinstance(s, Fixed) and s.type == _DOUBLE for s in (condition.left, condition.right)
    )


def with_doubles(constraint: Constraint) -> Constraint:
    """The same with numbers as doubles: those of one BETWEEN or IN are of one type."""
    condition = constraint.condition
    assert condition.right is not None
    left, right = (_as_double(side) for side in (condition.left, condition.right))
    return replace(constraint, condition=replace(condition, left=left, right=right))


def _as_double(side: Operand) -> Operand:
    exact = isinstance(side, Fixed) and side.type is not None and side.type.kind in NUMBERS
    return Fixed(_DOUBLE, float(side.value or 0)) if exact and isinstance(side, Fixed) else side


def _bound(operands: Operands, tree: exp.Expr) -> dict[str, Scalar]:
    """The type that each variable is bound as."""
    types: dict[str, Scalar] = {}
    for variable, type_ in bound_variables(tree, operands.schema.operators):
        known = types.setdefault(operands.variable(variable), type_)
        if known.kind is not type_.kind and not {known.kind, type_.kind} <= NUMBERS:
            raise operands.error(
                variable,
                f"variable :{variable.name} is bound as {known} and as {type_}",
                hint="one variable has one type",
            )
    return types


def _comparable(types: list[Scalar], sides: list[Operand | Literal | None]) -> bool:
    kinds = {type_.kind for type_ in types}
    if kinds & TIMES and any(
        isinstance(s, Literal) and s.kind is LiteralKind.STRING for s in sides
    ):
        kinds = kinds - {Kind.STRING}  # it is read as a date or timestamp
    return kinds <= NUMBERS or kinds <= TIMES or len(kinds) == 1
