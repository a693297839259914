"""Writes the leaves of a filter as SQL, for people: `explain` shows which of them held."""

from penstock.language.filter_tree import (
    OPPOSITE,
    Binding,
    Comparison,
    Constant,
    Constraint,
    Contains,
    Factor,
    Leaf,
    Literal,
    LiteralKind,
    Pattern,
)

_SHOWN = 10  # literals of an IN list


def describe(leaf: Leaf, holds: bool = True) -> str:
    """A leaf, or its negation, in SQL."""
    negation = "" if holds else "NOT "
    match leaf:
        case Constant(value):
            return negation + ("NULL" if value is None else str(value).upper())
        case Comparison(left, order, right):
            return f"{left.name} {order if holds else OPPOSITE[order]} {right.name}"
        case Contains(attribute, literal):
            return f"{negation}array_contains({attribute.name}, {_literal(literal)})"
        case Pattern():
            return _pattern(leaf, negation)
        case Binding(call, names):
            return negation + call.with_variables(names)
        case Constraint():
            wanted = leaf if holds else leaf.negation()
            return wanted.condition.with_variables(wanted.names)
        case Factor():
            return _factor(leaf if holds else leaf.negation())


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
    if factor.attribute.asked and piece.literal.text == "true" and not factor.total:
        return negation + name
    if piece.order == "prefix":
        return f"{name} {negation}LIKE {_quoted(piece.literal.text + '%')}"
    if piece.order == "start":
        return f"{negation}starts_with({name}, {_literal(piece.literal)})"
    if factor.total:
        equal = "" if factor.negated else "NOT "
        return f"{name} IS {equal}DISTINCT FROM {_literal(piece.literal)}"
    order = OPPOSITE[piece.order] if factor.negated else piece.order
    return f"{name} {order} {_literal(piece.literal)}"


def _pattern(test: Pattern, negation: str) -> str:
    name, wanted = test.attribute.name, _literal(test.literal)
    match test.role:
        case "like" | "ilike":
            escape = "" if test.escape is None else f" ESCAPE {_quoted(test.escape)}"
            return f"{name} {negation}{test.role.upper()} {wanted}{escape}"
        case "infix":
            return f"{negation}contains({name}, {wanted})"
        case "suffix":
            return f"{negation}ends_with({name}, {wanted})"
    options = test.role.removeprefix("regexp").removeprefix("_")
    given = f", {_quoted(options)}" if options else ""
    return f"{negation}regexp_matches({name}, {wanted}{given})"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _literal(literal: Literal) -> str:
    quoted = _quoted(literal.text)
    match literal.kind:
        case LiteralKind.STRING:
            return quoted
        case (
            LiteralKind.DATE
            | LiteralKind.TIMESTAMP
            | LiteralKind.TIMESTAMPTZ
            | LiteralKind.INTERVAL
        ):
            return f"{literal.kind.upper()} {quoted}"
    return ("-" if literal.negative else "") + literal.text
