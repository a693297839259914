"""The typed tree of a filter: the parser builds it, and the normal form is made from it.

A leaf says when it is *true*. Everything that compares one attribute with constants is one kind of leaf, `Factor`: a
union of pieces of the attribute's ordered values, or the rest of them, with or without NULL. That is enough for
comparisons, BETWEEN, IN, prefix LIKE, IS NULL, IS TRUE and IS DISTINCT FROM, and it is closed under negation.
Other predicates (patterns, array membership, attribute against attribute) are a `Test` each. An operator's answer is an
attribute, too. Filters with variables have two more leaves, `Binding` and `Constraint`; the normal form turns them into
factors.

Literals are symbolic: a literal that was lifted out of the text has a slot, and stands for as many values as there are
filters of this shape.
"""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Literal as Choice

from penstock.language.calls import Call, Condition
from penstock.language.patterns import TextRole
from penstock.language.schema import Attribute
from penstock.language.types import Kind, Scalar

Span = tuple[int, int]
Order = Choice["=", "<", "<=", ">", ">="]
# `a < b` is `b > a`, and its negation is `a >= b`.
MIRRORED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
OPPOSITE = {"=": "<>", "<>": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
_OPPOSITE_CONDITION = {**OPPOSITE, "null": "not null", "not null": "null"}


class LiteralKind(StrEnum):
    """How a literal is written, which decides what it may be compared with."""

    INTEGER = "integer"
    DECIMAL = "decimal"
    DOUBLE = "double"
    STRING = "string"
    BOOLEAN = "boolean"
    DATE = "date"
    TIMESTAMP = "timestamp"
    TIMESTAMPTZ = "timestamptz"
    INTERVAL = "interval"


def number_kind(text: str) -> LiteralKind:
    """How a number is written."""
    if "e" in text or "E" in text:
        return LiteralKind.DOUBLE
    return LiteralKind.DECIMAL if "." in text else LiteralKind.INTEGER


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant of the filter: `text` as written (strings unquoted), and the slot it was lifted from, if any."""

    kind: LiteralKind
    text: str
    span: Span
    slot: int | None = None
    negative: bool = False


@dataclass(frozen=True, slots=True)
class Piece:
    """The values that compare with the literal in this way; `prefix` or `start`: the strings that begin with it.

    A `prefix` is written as a LIKE pattern, with a `%` at its end; a `start` is written as it is.
    """

    order: Order | Choice["prefix", "start"]
    literal: Literal


@dataclass(frozen=True, slots=True)
class Factor:
    """True if the value is in one of the pieces (`negated`: not null and in none), or is NULL and `null` is set.

    `total` marks the tests that are never unknown (IS NULL, IS TRUE, IS DISTINCT FROM): their negation accepts NULL if
    they don't. The negation of any other is unknown for NULL.
    """

    attribute: Attribute
    pieces: tuple[Piece, ...]
    span: Span
    negated: bool = False
    null: bool = False
    total: bool = False

    def negation(self) -> "Factor":
        return replace(self, negated=not self.negated, null=self.total and not self.null)


@dataclass(frozen=True, slots=True)
class Pattern:
    """A string against a pattern that is more than a prefix: LIKE, ILIKE, a function or a regular expression (`role`).

    A LIKE pattern with a literal head is never lifted, because that head, with which every match begins, is a factor of
    its own.
    """

    attribute: Attribute
    literal: Literal
    role: TextRole
    span: Span
    escape: str | None = None
    prefix: Literal | None = None  # every match begins with it: an index of values can use it


@dataclass(frozen=True, slots=True)
class Contains:
    """array_contains(attribute, literal)."""

    attribute: Attribute
    literal: Literal
    span: Span


@dataclass(frozen=True, slots=True)
class Comparison:
    """An attribute against an attribute."""

    left: Attribute
    order: Order
    right: Attribute
    span: Span


Test = Pattern | Contains | Comparison


@dataclass(frozen=True, slots=True)
class Binding:
    """A call with variables: true if one of the operator's answers fits. `names[n]` is the name that variable n of the
    call has in the filter."""

    call: Call
    names: tuple[str, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Constraint:
    """A condition on variables: its variable n is `names[n]` in the filter, and first stands at `places[n]`."""

    condition: Condition
    names: tuple[str, ...]
    places: tuple[Span, ...]
    span: Span

    def negation(self) -> "Constraint":
        order = _OPPOSITE_CONDITION[self.condition.order]
        return replace(self, condition=replace(self.condition, order=order))


@dataclass(frozen=True, slots=True)
class Constant:
    """TRUE, FALSE or NULL, or a comparison that is one of them whatever the event."""

    value: bool | None
    span: Span


@dataclass(frozen=True, slots=True)
class And:
    children: tuple["Tree", ...]


@dataclass(frozen=True, slots=True)
class Or:
    children: tuple["Tree", ...]


@dataclass(frozen=True, slots=True)
class Not:
    child: "Tree"


Leaf = Factor | Pattern | Contains | Comparison | Binding | Constraint | Constant
Tree = Leaf | And | Or | Not


def is_true(attribute: Attribute, span: Span) -> Factor:
    """A boolean attribute as a condition."""
    assert attribute.type == Scalar(Kind.BOOLEAN), attribute
    return Factor(attribute, (Piece("=", Literal(LiteralKind.BOOLEAN, "true", span)),), span)


def leaves(tree: Tree) -> list[tuple[Leaf, bool]]:
    """The leaves from left to right, each with whether the filter wants it true (else it is under NOT)."""
    found: list[tuple[Leaf, bool]] = []
    pending: list[tuple[Tree, bool]] = [(tree, True)]
    while pending:
        node, holds = pending.pop()
        match node:
            case And(children) | Or(children):
                pending.extend((child, holds) for child in reversed(children))
            case Not(child):
                pending.append((child, not holds))
            case _:
                found.append((node, holds))
    return found
