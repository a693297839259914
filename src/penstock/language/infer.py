"""A schema guessed from a filter alone, for a registry without a schema.

An attribute has the type of what it is compared with, or of the operator's parameter that it is given for. That is
enough to find syntax errors, forbidden functions and filters that compare one attribute with a number here and a string
there; the rest is checked when a schema is known.
"""

from collections.abc import Iterator
from typing import Any

from sqlglot import exp

from penstock.base.errors import FilterError, SchemaError
from penstock.language.calls import Path
from penstock.language.schema import Schema
from penstock.language.signatures import NO_OPERATORS, Signatures, bound_variables
from penstock.language.syntax import CONTAINS_NAMES, FUNCTION_NAMES, column_path, syntax
from penstock.language.types import NUMBERS, TIMES, Array, Kind, Scalar, Struct, Type

_COMPARISONS = (
    exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ,
)  # fmt: skip
_TESTS = (exp.Between, exp.In, exp.Is)
_TEXT_TESTS = (exp.Like, exp.ILike, exp.StartsWith, exp.EndsWith, exp.RegexpLike)
_PREDICATES = (*_COMPARISONS, *_TESTS, *_TEXT_TESTS)
_LOGIC = (exp.And, exp.Or, exp.Not)
_ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.Neg)
_STRING, _DOUBLE = Scalar(Kind.STRING), Scalar(Kind.DOUBLE)
_BOOLEAN = Scalar(Kind.BOOLEAN)

Uses = Iterator[tuple[Path, Type]]


def infer(text: str, operators: Signatures = NO_OPERATORS) -> Schema:
    """The smallest schema under which the filter makes sense, in the order of the text; it has the operators, too.

    >>> print(infer("price > 5 AND venue.country = 'CH' AND array_contains(tags, 'x')"))
    struct<price: double, venue: struct<country: string>, tags: array<string>>
    """
    return infer_from(text, syntax(text), operators)


def infer_from(text: str, tree: exp.Expr, operators: Signatures = NO_OPERATORS) -> Schema:
    """The same for a text that sqlglot has read."""
    types: dict[Path, Type] = {}
    compared: list[tuple[Path, Path]] = []
    for path, type_ in _uses(tree, compared, operators):
        types[path] = _agreed(text, path, types.get(path), type_)
    for left, right in compared:
        type_ = types.get(left) or types.get(right) or _DOUBLE
        types.setdefault(left, type_)
        types.setdefault(right, type_)
    root: dict[str, Any] = {}
    structs = {path[:depth] for path in types for depth in range(1, len(path))}
    for node in tree.find_all(exp.Column, exp.Dot, bfs=False):
        spelt = None if isinstance(node.parent, exp.Dot) else column_path(node)
        if spelt is not None and (spelt in types or spelt not in structs):
            _place(text, root, spelt, types.get(spelt, _STRING))
    for path, type_ in types.items():
        _place(text, root, path, type_)
    try:
        return Schema.of(root).with_operators(operators)
    except SchemaError as error:
        raise FilterError(text, str(error)) from None


def _uses(
    tree: exp.Expr, compared: list[tuple[Path, Path]], operators: Signatures
) -> Iterator[tuple[Path, Type]]:
    """Every attribute with the type that one of its uses calls for."""
    if (path := column_path(tree)) is not None:
        yield path, _BOOLEAN
    variables: dict[str, Scalar] = {}
    for variable, type_ in bound_variables(tree, operators):
        variables.setdefault(variable.name.lower(), type_)
    for node in tree.dfs():
        if variables and isinstance(node, _PREDICATES) and _has_variable(node):
            yield from _beside_variables(node, variables)
        elif isinstance(node, _COMPARISONS):
            sides = [(column_path(side), _type(side)) for side in (node.this, node.expression)]
            (a, a_type), (b, b_type) = sides
            if a is not None and b is not None:
                compared.append((a, b))
            yield from ((p, t) for p, t in ((a, b_type), (b, a_type)) if p is not None and t)
        elif isinstance(node, _TESTS):
            path = column_path(node.this)
            others = [node.args.get("low"), node.args.get("high"), node.args.get("expression")]
            for other in [*node.expressions, *others]:
                literal = _type(other)
                if path is not None and literal:
                    yield path, literal
        elif isinstance(node, _TEXT_TESTS):
            path = column_path(node.this)
            if path is not None:
                yield path, _STRING
        elif isinstance(node, exp.ArrayContains | exp.Contains) or (
            isinstance(node, exp.Anonymous) and node.name.lower() in FUNCTION_NAMES
        ):
            yield from _function(node)
        elif isinstance(node, exp.Anonymous):
            yield from _arguments(node, operators)
        elif isinstance(node, _LOGIC):
            for child in (node.this, node.args.get("expression")):
                path = column_path(child) if isinstance(child, exp.Expr) else None
                if path is not None:
                    yield path, _BOOLEAN


def _function(node: exp.Expr) -> Uses:
    """What a function says of its first argument: `contains` of a string looks into a string."""
    arguments = node.expressions or [node.this, node.expression]
    path = column_path(arguments[0])
    wanted = _type(arguments[-1]) or _STRING
    is_array = isinstance(node, exp.ArrayContains) or node.name.lower() in CONTAINS_NAMES
    is_array = is_array or (isinstance(node, exp.Contains) and wanted != _STRING)
    if path is not None:
        yield path, Array(wanted) if is_array else _STRING


def _arguments(node: exp.Anonymous, operators: Signatures) -> Uses:
    """What a call says of the attributes that it is given: of a struct, what it says of its fields."""
    signature = operators.find(node.name)
    parameters = () if signature is None else signature.parameters
    for argument, type_ in zip(node.expressions, parameters, strict=False):
        path = column_path(argument)
        if path is not None and type_ is not None:
            yield from _flat(path, type_)


def _flat(path: Path, type_: Type) -> Uses:
    if isinstance(type_, Struct) and type_.fields:
        for name, field in type_.fields:
            yield from _flat((*path, name), field)
    else:
        yield path, type_


def _has_variable(node: exp.Expr) -> bool:
    return node.find(exp.Placeholder) is not None


def _beside_variables(node: exp.Expr, variables: dict[str, Scalar]) -> Uses:
    """Attributes in a condition on variables: numbers if it computes, else of the type of the variables."""
    if isinstance(node.this, exp.Predicate):
        return  # a condition is not a value: it is refused, and a chain of them would be walked again and again
    types = [variables.get(p.name.lower()) for p in node.find_all(exp.Placeholder, bfs=False)]
    type_ = _DOUBLE if node.find(*_ARITHMETIC) is not None else next(filter(None, types), None)
    for column in node.find_all(exp.Column, exp.Dot):
        path = None if isinstance(column.parent, exp.Dot) else column_path(column)
        if path is not None and type_ is not None:
            yield path, type_


def _type(node: exp.Expr | None) -> Scalar | None:
    while isinstance(node, exp.Neg):
        node = node.this
    match node:
        case exp.Literal():
            return _STRING if node.is_string else _DOUBLE
        case exp.Boolean():
            return _BOOLEAN
        case exp.Cast():
            return Scalar(Kind.DATE if node.to.this is exp.DType.DATE else Kind.TIMESTAMP)
    return None


def _agreed(text: str, path: Path, known: Type | None, type_: Type) -> Type:
    if known is None or known == type_:
        return type_
    if isinstance(known, Array) and isinstance(type_, Array):
        element = _agreed(text, path, known.element, type_.element)
        return Array(element) if isinstance(element, Scalar) else known
    if isinstance(known, Scalar) and isinstance(type_, Scalar):
        kinds = {known.kind, type_.kind}
        if kinds <= NUMBERS:
            return _DOUBLE
        times = kinds & TIMES
        if times and kinds <= TIMES | {Kind.STRING}:
            return Scalar(Kind.TIMESTAMP if Kind.TIMESTAMP in times else Kind.DATE)
    name = ".".join(path)
    raise FilterError(
        text, f"{name!r} is used as {known} and as {type_}", hint="one attribute has one type"
    )


def _place(text: str, root: dict[str, Any], path: Path, type_: Type) -> None:
    fields: Any = root
    for step in path[:-1]:
        fields = fields.setdefault(step, {}) if isinstance(fields, dict) else None
    if not isinstance(fields, dict) or isinstance(fields.get(path[-1]), dict):
        raise FilterError(text, f"{'.'.join(path)!r} is used as a value and as a struct")
    fields[path[-1]] = type_
