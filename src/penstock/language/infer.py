"""A schema guessed from a filter alone, for a registry that hasn't been told one.

An attribute has the type of what it is compared with. That is enough to find syntax errors, forbidden functions and
filters that compare one attribute with a number here and a string there; the rest is checked when a schema is known.
"""

from collections.abc import Iterator
from typing import Any

from sqlglot import exp

from penstock.errors import FilterError, SchemaError
from penstock.language.schema import Schema
from penstock.language.syntax import CONTAINS_NAMES, column_path, syntax

_COMPARISONS = (
    exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ,
)  # fmt: skip
_LOGIC = (exp.And, exp.Or, exp.Not, exp.Paren)
_SAME = {
    ("string", "date"): "date",
    ("string", "timestamp"): "timestamp",
    ("date", "timestamp"): "timestamp",
}

Path = tuple[str, ...]


def infer(text: str) -> Schema:
    """The smallest schema under which the filter makes sense.

    >>> print(infer("price > 5 AND venue.country = 'CH' AND array_contains(tags, 'x')"))
    struct<tags: array<string>, price: double, venue: struct<country: string>>
    """
    tree = syntax(text)
    kinds: dict[Path, str] = {}
    compared: list[tuple[Path, Path]] = []
    for path, kind in _uses(tree, compared):
        kinds[path] = _agreed(text, path, kinds.get(path), kind)
    for left, right in compared:
        kind = kinds.get(left) or kinds.get(right) or "double"
        kinds.setdefault(left, kind)
        kinds.setdefault(right, kind)
    root: dict[str, Any] = {}
    for node in tree.find_all(exp.Column, exp.Dot):
        spelt = None if isinstance(node.parent, exp.Dot) else column_path(node)
        if spelt is not None:
            _place(text, root, spelt, kinds.get(spelt, "string"))
    try:
        return Schema.of(root)
    except SchemaError as error:
        raise FilterError(text, str(error)) from None


def _uses(tree: exp.Expr, compared: list[tuple[Path, Path]]) -> Iterator[tuple[Path, str]]:
    """Every attribute with the type that one of its uses calls for."""
    if (path := column_path(tree)) is not None:
        yield path, "boolean"
    for node in tree.walk():
        if isinstance(node, _COMPARISONS):
            sides = [(column_path(side), _kind(side)) for side in (node.this, node.expression)]
            (a, a_kind), (b, b_kind) = sides
            if a is not None and b is not None:
                compared.append((a, b))
            yield from ((p, k) for p, k in ((a, b_kind), (b, a_kind)) if p is not None and k)
        elif isinstance(node, exp.Between | exp.In | exp.Is | exp.Like):
            path = column_path(node.this)
            others = [node.args.get("low"), node.args.get("high"), node.args.get("expression")]
            for other in [*node.expressions, *others]:
                kind = _kind(other)
                if path is not None and kind:
                    yield path, kind
        elif isinstance(node, exp.ArrayContains) or (
            isinstance(node, exp.Anonymous) and node.name.lower() in CONTAINS_NAMES
        ):
            arguments = node.expressions or [node.this, node.expression]
            path = column_path(arguments[0])
            if path is not None:
                yield path, f"array<{_kind(arguments[-1]) or 'string'}>"
        elif isinstance(node, _LOGIC):
            for child in (node.this, node.args.get("expression")):
                path = column_path(child) if isinstance(child, exp.Expr) else None
                if path is not None and not isinstance(node, exp.Paren):
                    yield path, "boolean"


def _kind(node: exp.Expr | None) -> str | None:
    while isinstance(node, exp.Neg | exp.Paren):
        node = node.this
    match node:
        case exp.Literal():
            return "string" if node.is_string else "double"
        case exp.Boolean():
            return "boolean"
        case exp.Cast():
            return "date" if node.to.this is exp.DType.DATE else "timestamp"
    return None


def _agreed(text: str, path: Path, known: str | None, kind: str) -> str:
    if known is None or known == kind:
        return kind
    wider = _SAME.get((known, kind)) or _SAME.get((kind, known))
    if wider is None:
        name = ".".join(path)
        raise FilterError(
            text, f"{name!r} is used as {known} and as {kind}", hint="one attribute has one type"
        )
    return wider


def _place(text: str, root: dict[str, Any], path: Path, kind: str) -> None:
    fields: Any = root
    for step in path[:-1]:
        fields = fields.setdefault(step, {}) if isinstance(fields, dict) else None
    if not isinstance(fields, dict) or isinstance(fields.get(path[-1]), dict):
        raise FilterError(text, f"{'.'.join(path)!r} is used as a value and as a struct")
    fields[path[-1]] = kind
