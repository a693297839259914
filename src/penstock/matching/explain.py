"""Why an event matches a subscription, or doesn't.

Every leaf of the filter, and its negation, is compiled as if it were a subscription of its own, and the event is
matched against them: so the answer comes from the very code that matches, not from a second opinion. A leaf that
neither holds nor fails is unknown, which is what NULL does.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock.language.parser import parse
from penstock.language.schema import Attribute, Schema
from penstock.language.shapes import Shape
from penstock.language.tree import (
    And,
    Comparison,
    Constant,
    Contains,
    Factor,
    Leaf,
    Literal,
    LiteralKind,
    Not,
    Or,
    Pattern,
    Tree,
    leaves,
)
from penstock.matching.compile import compile_shapes
from penstock.matching.engines.naive import NaiveEngine
from penstock.matching.events import event_batch

Truth = bool | None
_MARKS: dict[Truth, str] = {True: "✓", False: "✗", None: "?"}
_WORDS: dict[Truth, str] = {True: "holds", False: "fails", None: "is unknown"}
_SHOWN = 10  # literals of an IN list


@dataclass(frozen=True, slots=True)
class Verdict:
    """One predicate of the filter, and what the event made of it."""

    predicate: str
    truth: Truth
    values: dict[str, Any]

    def __str__(self) -> str:
        shown = ", ".join(f"{name} is {_shown(value)}" for name, value in self.values.items())
        return f"{_MARKS[self.truth]} {self.predicate}  {_WORDS[self.truth]}" + (
            f": {shown}" if shown else ""
        )


@dataclass(frozen=True, slots=True)
class Explanation:
    """The answer to "why did I get this?" and to "why didn't I?"."""

    subscription: int
    filter: str
    truth: Truth
    verdicts: tuple[Verdict, ...]
    lease_ended: bool

    @property
    def matched(self) -> bool:
        """Whether the event matches: the filter is true and the lease hasn't ended."""
        return self.truth is True and not self.lease_ended

    def __str__(self) -> str:
        head = f"subscription {self.subscription} {'matches' if self.matched else 'does not match'}"
        if self.lease_ended:
            head += ": its lease has ended"
        elif self.truth is None:
            head += ": the filter is unknown, because of a NULL"
        return "\n".join([head, f"  {self.filter}"] + [f"  {v}" for v in self.verdicts])

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "subscription": self.subscription,
            "filter": self.filter,
            "matched": self.matched,
            "truth": self.truth,
            "lease_ended": self.lease_ended,
            "predicates": [
                {
                    "predicate": v.predicate,
                    "truth": v.truth,
                    "values": {name: _plain(value) for name, value in v.values.items()},
                }
                for v in self.verdicts
            ],
        }


def explain(
    sid: int, text: str, schema: Schema, event: Mapping[str, Any], lease_end: int, now: int
) -> Explanation:
    """Explain one filter on one event.

    >>> schema = Schema.of({"symbol": "string", "price": "double"})
    >>> print(explain(1, "symbol = 'A' AND price > 5", schema, {"symbol": "A", "price": 4}, 2, now=1))
    subscription 1 does not match
      symbol = 'A' AND price > 5
      ✓ symbol = 'A'  holds: symbol is 'A'
      ✗ price > 5  fails: price is 4
    """
    tree = parse(text, schema)
    found = leaves(tree)
    forms = [form for leaf, _ in found for form in (leaf, Not(leaf))]
    plan = compile_shapes([Shape.of(text, form) for form in forms], schema)
    batch = event_batch(event, schema, plan.columns)
    engine = NaiveEngine(plan, {})
    satisfied = engine.match(plan.encode(batch)).conjunction
    true_rows = set()
    for conjunction in satisfied:
        first, past = plan.fan_start[conjunction], plan.fan_start[conjunction + 1]
        true_rows.update(plan.fan_subscription[first:past].tolist())
    truths = [
        True if 2 * n in true_rows else False if 2 * n + 1 in true_rows else None
        for n in range(len(found))
    ]
    verdicts = tuple(
        Verdict(
            describe(leaf, holds),
            truth if holds else _not(truth),
            {a.name: _lookup(event, a) for a in _attributes(leaf)},
        )
        for (leaf, holds), truth in zip(found, truths, strict=True)
    )
    return Explanation(sid, text, _truth(tree, iter(truths)), verdicts, lease_end <= now)


def _truth(tree: Tree, truths: Any) -> Truth:
    """Three-valued logic over the leaves, left to right."""
    match tree:
        case Not(child):
            return _not(_truth(child, truths))
        case And(children):
            values = [_truth(c, truths) for c in children]
            return False if False in values else None if None in values else True
        case Or(children):
            values = [_truth(c, truths) for c in children]
            return True if True in values else None if None in values else False
        case _:
            truth: Truth = next(truths)
            return truth


def _not(truth: Truth) -> Truth:
    return None if truth is None else not truth


def describe(leaf: Leaf, holds: bool = True) -> str:
    """A leaf, or its negation, in SQL."""
    negation = "" if holds else "NOT "
    match leaf:
        case Constant(value):
            return negation + ("NULL" if value is None else str(value).upper())
        case Comparison(left, order, right):
            return f"{left.name} {order if holds else _OPPOSITE[order]} {right.name}"
        case Contains(attribute, literal):
            return f"{negation}array_contains({attribute.name}, {_literal(literal)})"
        case Pattern(attribute, pattern):
            return f"{attribute.name} {negation}LIKE '{pattern}'"
        case Factor():
            return _factor(leaf if holds else leaf.negation())


_OPPOSITE = {"=": "<>", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}


def _factor(factor: Factor) -> str:
    name = factor.attribute.name
    negation = "NOT " if factor.negated else ""
    if not factor.pieces:
        return f"{name} IS {negation}NULL"
    if len(factor.pieces) > 1:
        shown = [_literal(p.literal) for p in factor.pieces[:_SHOWN]]
        rest = ["…"] if len(factor.pieces) > _SHOWN else []
        return f"{name} {negation}IN ({', '.join(shown + rest)})"
    piece = factor.pieces[0]
    if piece.order == "prefix":
        return f"{name} {negation}LIKE '{piece.literal.text}%'"
    if factor.total:
        return (
            f"{name} IS {'' if factor.negated else 'NOT '}DISTINCT FROM {_literal(piece.literal)}"
        )
    order = _OPPOSITE[piece.order] if factor.negated else piece.order
    return f"{name} {order} {_literal(piece.literal)}"


def _literal(literal: Literal) -> str:
    quoted = "'" + literal.text.replace("'", "''") + "'"
    match literal.kind:
        case LiteralKind.STRING:
            return quoted
        case LiteralKind.DATE | LiteralKind.TIMESTAMP | LiteralKind.TIMESTAMPTZ:
            return f"{literal.kind.upper()} {quoted}"
    return ("-" if literal.negative else "") + literal.text


def _attributes(leaf: Leaf) -> list[Attribute]:
    match leaf:
        case Constant():
            return []
        case Comparison(left, _, right):
            return [left, right]
        case _:
            return [leaf.attribute]


def _lookup(event: Mapping[str, Any], attribute: Attribute) -> Any:
    value: Any = event
    for step in attribute.path:
        value = value.get(step) if isinstance(value, Mapping) else None
    return value


def _plain(value: Any) -> Any:
    """What JSON can say as it is, the rest in text."""
    if isinstance(value, Mapping):
        return {str(name): _plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    finite = not isinstance(value, float) or math.isfinite(value)
    return value if finite and isinstance(value, str | int | float | None) else str(value)


def _shown(value: Any) -> str:
    text = "NULL" if value is None else repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= 80 else text[:79] + "…"
