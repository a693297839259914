"""What a predicate compares: attributes of the schema and literals, and whether the two go together.

Also where errors are made: with the position in the text, what was expected and what was found.
"""

import re
from collections.abc import Mapping

from sqlglot import exp

from penstock.errors import FilterError
from penstock.language.schema import Attribute, Schema
from penstock.language.syntax import MAX_DEPTH, column_path
from penstock.language.tree import Literal, LiteralKind, Span
from penstock.language.types import NUMBERS, TIMES, Array, Scalar, Struct, Type, Unusable

_CONDITIONS = (
    exp.Connector, exp.Not, exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Between, exp.In, exp.Like, exp.Is,
)  # fmt: skip
_NUMBER = re.compile(r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_TYPED = {
    exp.DataType.Type.DATE: LiteralKind.DATE,
    exp.DataType.Type.TIMESTAMP: LiteralKind.TIMESTAMP,
    exp.DataType.Type.TIMESTAMPTZ: LiteralKind.TIMESTAMPTZ,
    exp.DataType.Type.TIMESTAMPLTZ: LiteralKind.TIMESTAMPTZ,
    exp.DataType.Type.TIMESTAMPNTZ: LiteralKind.TIMESTAMP,
}
_NUMERIC_LITERALS = {LiteralKind.INTEGER, LiteralKind.DECIMAL, LiteralKind.DOUBLE}
_TIME_LITERALS = {
    LiteralKind.DATE,
    LiteralKind.TIMESTAMP,
    LiteralKind.TIMESTAMPTZ,
    LiteralKind.STRING,
}


class SlotNeededError(Exception):
    """A lifted literal decides the tree itself, so filters of this shape can't share one parse."""


class Operands:
    """Reads the operands of one filter. `slots` gives the slot of each lifted literal by its offset in the text."""

    def __init__(self, text: str, schema: Schema, slots: Mapping[int, int]) -> None:
        self.text = text
        self.schema = schema
        self.slots = slots
        self.used: set[int] = set()  # the slots whose literals the tree has

    def operand(self, node: exp.Expr) -> Attribute | Literal | None:
        """An attribute, a literal, or None for NULL."""
        match node:
            case exp.Column() | exp.Dot():
                return self.attribute(node)
            case exp.Null():
                return None
            case exp.Boolean():
                return Literal(LiteralKind.BOOLEAN, str(bool(node.this)).lower(), self.span(node))
            case exp.Literal():
                return self.literal(node, False)
            case exp.Neg() | exp.Paren():
                return self.signed(node)
            case exp.Cast() if isinstance(node.this, exp.Literal) and node.this.is_string:
                kind = _TYPED.get(node.to.this)
                if kind is not None:
                    inner = self.literal(node.this, False)
                    return Literal(kind, inner.text, inner.span, inner.slot)
        raise self.refusal(node)

    def signed(self, node: exp.Expr) -> Attribute | Literal | None:
        negative = False
        inner = node
        for _ in range(MAX_DEPTH):
            if isinstance(inner, exp.Neg):
                negative = not negative
            elif not isinstance(inner, exp.Paren):
                break
            inner = inner.this
        if not negative:
            return self.operand(inner)
        if isinstance(inner, exp.Literal) and not inner.is_string:
            return self.literal(inner, negative)
        raise self.error(
            node, "a minus sign stands before a number only", hint="filters don't compute"
        )

    def literal(self, node: exp.Literal, negative: bool) -> Literal:
        span = self.span(node)
        if "start" not in node.meta and self.slots:
            raise SlotNeededError  # sqlglot made it of several tokens (`.5`): nobody knows where it stood
        slot = self.slots.get(span[0])
        if slot is not None:
            self.used.add(slot)
        if node.is_string:
            return Literal(LiteralKind.STRING, node.name, span, slot)
        text = node.name
        if not _NUMBER.fullmatch(text):
            raise self.error(node, f"{text!r} is not a number")
        if "e" in text.lower():
            kind = LiteralKind.DOUBLE
        else:
            kind = LiteralKind.DECIMAL if "." in text else LiteralKind.INTEGER
        return Literal(kind, text, span, slot, negative)

    def attribute(self, node: exp.Expr) -> Attribute:
        path = column_path(node)
        if path is None:
            raise self.refusal(node)
        attribute = self.schema.find(path)
        if attribute is None:
            name = ".".join(path)
            alike = [a.name for a in self.schema.attributes() if a.name.lower() == name.lower()]
            if len(alike) > 1:
                raise self.error(
                    node, f"attribute {name!r} could be any of {', '.join(sorted(alike))}"
                )
            close = self.schema.suggestion(name)
            raise self.error(
                node,
                f"unknown attribute {name!r}",
                hint=f"did you mean {close!r}?" if close else None,
            )
        if isinstance(attribute.type, Unusable):
            raise self.error(
                node,
                f"no filter can test {attribute.name!r}",
                expected="a scalar, an array of scalars or a field of a struct",
                found=str(attribute.type),
            )
        return attribute

    # --- types ---------------------------------------------------------------------------------

    def check_literal(self, attribute: Attribute, literal: Literal) -> None:
        if _accepts(attribute.type, literal.kind):
            return
        hint = None
        if isinstance(attribute.type, Struct):
            hint = f"name one of its fields, like {attribute.name}.{attribute.type.fields[0][0]}"
        elif isinstance(attribute.type, Array):
            hint = f"use array_contains({attribute.name}, …)"
        shown = repr(literal.text) if literal.kind is LiteralKind.STRING else literal.text
        raise FilterError(
            self.text,
            f"{attribute.name!r} can't be compared with {shown}",
            *literal.span,
            expected=str(attribute.type),
            found=str(literal.kind),
            hint=hint,
        )

    def check_comparable(self, a: Attribute, b: Attribute, left: exp.Expr, right: exp.Expr) -> None:
        if isinstance(a.type, Scalar) and isinstance(b.type, Scalar):
            kinds = {a.type.kind, b.type.kind}
            if len(kinds) == 1 or kinds <= NUMBERS or kinds <= TIMES:
                return
        start, end = self.span(left)[0], self.span(right)[1]
        raise FilterError(
            self.text,
            f"{a.name!r} can't be compared with {b.name!r}",
            start,
            end,
            expected=str(a.type),
            found=str(b.type),
        )

    # --- errors --------------------------------------------------------------------------------

    def span(self, node: exp.Expr) -> Span:
        own = node.this.meta if isinstance(node, exp.Column) and not node.table else node.meta
        if "start" in own and not isinstance(node, exp.Func):
            return own["start"], own["end"] + 1
        starts: list[int] = []
        ends: list[int] = []
        for part in node.walk():
            meta = part.meta
            if "start" in meta:
                starts.append(meta["start"])
                ends.append(meta["end"] + 1)
        return (min(starts), max(ends)) if starts else (0, len(self.text))

    def error(
        self,
        node: exp.Expr,
        reason: str,
        expected: str | None = None,
        found: str | None = None,
        hint: str | None = None,
    ) -> FilterError:
        start, end = self.span(node)
        return FilterError(self.text, reason, start, end, expected=expected, found=found, hint=hint)

    def refusal(self, node: exp.Expr) -> FilterError:
        """Why this piece of SQL isn't in the language, or not here."""
        if isinstance(node.unnest(), _CONDITIONS):
            return self.error(
                node,
                "a condition is not a value",
                hint="combine conditions with AND, OR and NOT: 1 < price AND price < 5",
            )
        if isinstance(node, exp.Query | exp.Subquery | exp.Exists):
            return self.error(node, "a filter has no subqueries")
        if isinstance(node, exp.ILike):
            return self.error(node, "ILIKE is not in the language: LIKE is, and respects case")
        if isinstance(node, exp.Cast):
            return self.error(
                node, "a filter has no casts", hint="typed literals are DATE '…' and TIMESTAMP '…'"
            )
        if isinstance(node, exp.Func):
            name = node.name if isinstance(node, exp.Anonymous) else node.sql_name()
            return self.error(
                node,
                f"function {name.lower()!r} is not allowed",
                hint="the only function is array_contains(array, value)",
            )
        if isinstance(node, exp.Binary | exp.Unary) and not isinstance(node, exp.Predicate):
            return self.error(node, "filters don't compute", hint="compare attributes as they are")
        if isinstance(node, exp.Literal):
            return self.error(node, "a literal is not a condition")
        return self.error(node, f"{type(node).__name__.upper()} is not in the language")


def _accepts(type_: Type, literal: LiteralKind) -> bool:
    if not isinstance(type_, Scalar):
        return False
    if type_.kind in NUMBERS:
        return literal in _NUMERIC_LITERALS
    if type_.kind in TIMES:
        return literal in _TIME_LITERALS
    return str(literal) == str(type_.kind)
