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
from penstock.language.computing import is_computation, is_time_part
from penstock.language.schema import Schema
from penstock.language.signatures import NO_OPERATORS, Signatures, bound_variables
from penstock.language.syntax import (
    CONTAINS_ALL_NAMES,
    CONTAINS_ANY_NAMES,
    CONTAINS_NAMES,
    FUNCTION_NAMES,
    column_path,
    syntax,
)
from penstock.language.types import NUMBERS, TIMES, Array, Kind, Map, Scalar, Struct, Type

_COMPARISONS = (
    exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ,
)  # fmt: skip
_TESTS = (exp.Between, exp.In, exp.Is)
_TEXT_TESTS = (exp.Like, exp.ILike, exp.StartsWith, exp.EndsWith, exp.RegexpLike)
_PREDICATES = (*_COMPARISONS, *_TESTS, *_TEXT_TESTS)
_OVERLAPS = (exp.ArrayOverlaps, exp.ArrayContainsAll, exp.ArrayContainedBy)
_OVERLAP_NAMES = CONTAINS_ALL_NAMES | CONTAINS_ANY_NAMES
_LOGIC = (exp.And, exp.Or, exp.Not)
_ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.Neg)
_STRING, _DOUBLE = Scalar(Kind.STRING), Scalar(Kind.DOUBLE)
_TIMESTAMP = Scalar(Kind.TIMESTAMP)
_MOST_PARTS = 300  # of an expression: larger ones are refused
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
            yield from _inside(node.this, b_type)
            yield from _inside(node.expression, a_type)
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
                elif path is None:
                    yield from _inside(node.this, literal)
                if other is not None:
                    yield from _inside(other, _type(node.this))
        elif isinstance(node, _TEXT_TESTS):
            path = column_path(node.this)
            if path is not None:
                yield path, _STRING
            else:
                yield from _inside(node.this, _STRING)
        elif isinstance(node, exp.ArrayContains | exp.Contains) or (
            isinstance(node, exp.Anonymous) and node.name.lower() in FUNCTION_NAMES
        ):
            yield from _function(node)
        elif isinstance(node, _OVERLAPS) or (
            isinstance(node, exp.Anonymous) and node.name.lower() in _OVERLAP_NAMES
        ):
            arguments = node.expressions or [node.this, node.expression]
            paths = [path for path in map(column_path, arguments) if path is not None]
            lists = [one for one in arguments if isinstance(one, exp.Array)]
            types = [_type(one) for values in lists for one in values.expressions]
            yield from ((p, Array(next(filter(None, types), _STRING))) for p in paths)
        elif isinstance(node, exp.Anonymous):
            yield from _arguments(node, operators)
        elif isinstance(node, exp.Coalesce) and isinstance(node.parent, (*_LOGIC, type(None))):
            yield from _inside(node, _BOOLEAN)
        elif isinstance(node, _LOGIC):
            for child in (node.this, node.args.get("expression")):
                path = column_path(child) if isinstance(child, exp.Expr) else None
                if path is not None:
                    yield path, _BOOLEAN


def _function(node: exp.Expr) -> Uses:
    """The type of a function's first argument: `contains` with a string searches a string."""
    arguments = node.expressions or [node.this, node.expression]
    path = column_path(arguments[0])
    wanted = _type(arguments[-1]) or _STRING
    is_array = isinstance(node, exp.ArrayContains) or node.name.lower() in CONTAINS_NAMES
    is_array = is_array or (isinstance(node, exp.Contains) and wanted != _STRING)
    if path is not None:
        yield path, Array(wanted) if is_array else _STRING


def _inside(node: exp.Expr, type_: Scalar | None) -> Uses:
    """The attributes of a computation, with types. The operations tell numbers and times; any other attribute has the
    type that the whole is compared with."""
    if not is_computation(node):
        return
    given: list[tuple[exp.Expr, Scalar | None]] = [(node, type_)]
    for _ in range(_MOST_PARTS):
        if not given:
            return
        one, wanted = given.pop()
        path = column_path(one)
        if path is not None and wanted is not None:
            yield path, wanted
        elif isinstance(one, exp.Bracket):
            held = column_path(one.this)
            value = wanted or _STRING
            if held is not None:
                yield held, Map(f"map<string, {value}>", value)
        elif is_computation(one):
            wanted = _operand_type(one, wanted)
            given += [(child, wanted) for child in one.iter_expressions()]


def _operand_type(node: exp.Expr, type_: Scalar | None) -> Scalar | None:
    """The type of a computation's operands, given the type of its value."""
    match node:
        case exp.Lower() | exp.Upper() | exp.Length():
            return _STRING
        case exp.Coalesce():
            own = (_type(one) for one in node.iter_expressions())
            return type_ or next(filter(None, own), None)
        case exp.Add() | exp.Sub():
            sides = [_type(node.this), _type(node.expression), type_]
            has_time = any(side is not None and side.kind not in NUMBERS for side in sides)
            return _TIMESTAMP if has_time else _DOUBLE
        case exp.Extract() | exp.Anonymous():
            return _TIMESTAMP
        case exp.IntDiv():
            return Scalar(Kind.INTEGER)
    return _TIMESTAMP if is_time_part(node) else _DOUBLE


def _arguments(node: exp.Anonymous, operators: Signatures) -> Uses:
    """The attributes among the arguments of a call, with the types of its parameters; of a struct, its fields."""
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
        case exp.Lower() | exp.Upper():
            return _STRING
        case exp.Interval():
            return Scalar(Kind.INTERVAL)
        case exp.CurrentDate():
            return Scalar(Kind.DATE)
        case exp.CurrentTimestamp():
            return _TIMESTAMP
        case exp.Anonymous() if is_computation(node) and not node.expressions:
            return _TIMESTAMP
        case exp.Add() | exp.Sub():
            return _sum_type(node)
        case exp.Coalesce() | exp.Bracket() | exp.Column() | exp.Dot() | None:
            return None
    return _DOUBLE if is_computation(node) else None


def _sum_type(node: exp.Expr) -> Scalar | None:
    """The type of a sum or a difference, by the operands that show theirs."""
    depth = 0
    while isinstance(node, exp.Add | exp.Sub) and depth < _MOST_PARTS:
        depth += 1
        right = _type(node.expression) if not isinstance(node.expression, exp.Binary) else None
        if right is not None and right.kind not in NUMBERS:
            return _TIMESTAMP if right.kind is Kind.INTERVAL else None
        node = node.this
    left = None if isinstance(node, exp.Binary) else _type(node)
    return left if left is not None and left.kind in TIMES else _DOUBLE


def _agreed(text: str, path: Path, known: Type | None, type_: Type) -> Type:
    if known is None or known == type_:
        return type_
    if isinstance(known, Array) and isinstance(type_, Array):
        element = _agreed(text, path, known.element, type_.element)
        return Array(element) if isinstance(element, Scalar) else known
    if isinstance(known, Map) and isinstance(type_, Map):
        return known  # of several types: what each key has is only known with a schema
    if isinstance(known, Scalar) and isinstance(type_, Scalar):
        kinds = {known.kind, type_.kind}
        if kinds <= NUMBERS:
            return (
                known
                if known.kind is Kind.INTEGER
                else type_
                if type_.kind is Kind.INTEGER
                else _DOUBLE
            )
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
