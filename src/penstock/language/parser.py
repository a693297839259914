"""Filter text -> typed tree, by way of sqlglot.

sqlglot (DuckDB's dialect) does the reading (`syntax`); this module decides what of SQL a filter may use. Anything that
isn't listed here is refused: a filter computes (`computing`), searches in texts and arrays, and calls registered
operators, but has no subqueries and no other functions. `operands` resolves attributes and operators against the schema
and checks the types of what is compared, `constraints` reads conditions on variables,
`text_conditions` those on texts.
"""

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from decimal import Decimal
from typing import cast

from sqlglot import exp

from penstock.base.errors import FilterError
from penstock.language.calls import COMPARISONS
from penstock.language.computing import as_operand, relative_to_now
from penstock.language.constraints import Constraints, has_double, with_doubles
from penstock.language.filter_tree import (
    MIRRORED,
    And,
    Comparison,
    Constant,
    Constraint,
    Contains,
    Factor,
    Literal,
    LiteralKind,
    Not,
    Or,
    Order,
    Piece,
    Span,
    Tree,
    is_true,
)
from penstock.language.joints import MAX_CONSTRAINTS
from penstock.language.literals import MAX_DIGITS, TOO_MANY_DIGITS
from penstock.language.operands import SlotNeededError
from penstock.language.schema import Attribute, Schema
from penstock.language.syntax import (
    CONTAINS_ALL_NAMES,
    CONTAINS_ANY_NAMES,
    CONTAINS_NAMES,
    FUNCTION_NAMES,
    MAX_DEPTH,
    MAX_ELEMENTS,
    syntax,
    too_deep,
    too_many_elements,
)
from penstock.language.text_conditions import TextConditions, function_name
from penstock.language.types import Array, Kind, Scalar

_ORDERS: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
# The arguments of sqlglot's nodes that are understood here. A node with another argument means something else.
_ARGUMENTS = frozenset(
    {"this", "expression", "expressions", "low", "high", "negate", "query", "field"}
    | {"table", "db", "catalog"}
)
_PREDICATES = (*_ORDERS, exp.NullSafeEQ, exp.NullSafeNEQ, exp.Between, exp.In, exp.Like, exp.ILike, exp.Is,
               exp.ArrayContains, exp.StartsWith, exp.EndsWith, exp.Contains)  # fmt: skip


def parse(text: str, schema: Schema, slots: Mapping[int, int] | None = None) -> Tree:
    """Parse and check one filter. `slots` gives the slot of each lifted literal by its offset in the text.

    >>> schema = Schema.of({"price": "double"})
    >>> parse("price > 5", schema).pieces[0].order
    '>'
    >>> parse("prise > 5", schema)
    Traceback (most recent call last):
    penstock.base.errors.FilterError: unknown attribute 'prise' at line 1, column 1
      prise > 5
      ^^^^^
      did you mean 'price'?
    """
    return parse_tree(text, syntax(text), schema, slots)


def parse_tree(
    text: str, node: exp.Expr, schema: Schema, slots: Mapping[int, int] | None = None
) -> Tree:
    """The same for a text that sqlglot has read."""
    tree, used = check_condition(text, node, schema, slots or {})
    if slots and used != set(slots.values()):
        raise SlotNeededError  # something was lifted that isn't a literal of the tree
    return tree


def check_condition(
    text: str, node: exp.Expr, schema: Schema, slots: Mapping[int, int]
) -> tuple[Tree, set[int]]:
    """Check one condition, without parentheses, that stands somewhere in a text; also which slots its literals have."""
    conditions = _Conditions(text, schema, slots)
    conditions.constraints = Constraints(conditions, node)
    try:
        tree = conditions.condition(node, 0)
    except FilterError:
        if conditions.fixed:  # it may be wrong with these literals only
            raise SlotNeededError(conditions.fixed) from None
        raise
    if conditions.fixed:
        raise SlotNeededError(conditions.fixed)
    return tree, conditions.used


class _Conditions(TextConditions):
    """One pass over sqlglot's tree of one filter."""

    constraints: Constraints

    def condition(self, node: exp.Expr, depth: int) -> Tree:
        if depth > MAX_DEPTH:
            raise too_deep(self.text)
        if isinstance(node, _PREDICATES):
            self.check_arguments(node)
        match node:
            case exp.Not():
                return Not(self.condition(node.this, depth + 1))
            case exp.And():
                return And(tuple(self.condition(n, depth + 1) for n in _chain(node, exp.And)))
            case exp.Or():
                return Or(tuple(self.alternatives(_chain(node, exp.Or), depth + 1)))
            case exp.EQ() | exp.NEQ() | exp.LT() | exp.LTE() | exp.GT() | exp.GTE():
                return self.compare(node, _ORDERS[type(node)], node.this, node.expression)
            case exp.NullSafeEQ() | exp.NullSafeNEQ():
                return self.distinct(node)
            case exp.Between():
                return self.between(node)
            case exp.In():
                return self.membership(node)
            case exp.Like() | exp.ILike():
                return self.like(node, None)
            case exp.Escape() if isinstance(node.this, exp.Like | exp.ILike):
                return self.like(node.this, node.expression)
            case exp.Is():
                return self.is_(node)
            case exp.Column() | exp.Dot():
                return self.flag(node, self.attribute(node))
            case exp.Boolean():
                return Constant(bool(node.this), self.span(node))
            case exp.Null():
                return Constant(None, self.span(node))
            case exp.ArrayContains():
                return self.contains(node, node.this, node.expression)
            case exp.StartsWith() | exp.EndsWith() | exp.Contains():
                return self.search(node, node.this, node.expression)
            case exp.RegexpLike():
                return self.regexp(node)
            case exp.Anonymous() if (
                node.name.lower() in FUNCTION_NAMES and len(node.expressions) == 2
            ):
                if node.name.lower() in CONTAINS_NAMES:
                    return self.contains(node, *node.expressions)
                return self.search(node, *node.expressions)
            case exp.ArrayOverlaps() | exp.ArrayContainsAll() | exp.ArrayContainedBy():
                return self.overlap(node, node.this, node.expression)
            case exp.Anonymous() if (
                node.name.lower() in CONTAINS_ALL_NAMES | CONTAINS_ANY_NAMES
                and len(node.expressions) == 2
            ):
                return self.overlap(node, *node.expressions)
            case exp.Anonymous() if self.is_operator(node):
                called = self.call(node)
                return self.flag(node, called) if isinstance(called, Attribute) else called
            case exp.Coalesce():
                return self.flag(node, self.subject(node))
        raise self.refusal(node)

    def alternatives(self, nodes: list[exp.Expr], depth: int) -> Iterator[Tree]:
        """The conditions of a disjunction. Equalities of one attribute in a row are read as one condition, as IN is.

        A filter may have ten thousand of them: read one by one they would take several times as long.
        """
        for column, run in itertools.groupby(nodes, key=_equated):
            some = list(run)
            if column is None or len(some) == 1:
                yield from (self.condition(node, depth) for node in some)
            else:
                yield self.equalities(some)

    def equalities(self, nodes: list[exp.Expr]) -> Tree:
        attribute = self.attribute(nodes[0].this)
        pieces: list[Piece] = []
        for node in nodes:
            self.check_arguments(node)
            literal = cast(Literal, self.operand(node.expression))
            self.check_literal(attribute, literal)
            pieces.append(Piece("=", literal))
        return Factor(attribute, tuple(pieces), (self.span(nodes[0])[0], self.span(nodes[-1])[1]))

    def check_arguments(self, node: exp.Expr) -> None:
        """A predicate with an argument that isn't known here means something else than it seems to."""
        surplus = [name for name, value in node.args.items() if value and name not in _ARGUMENTS]
        if not surplus:
            return
        if isinstance(node, exp.ArrayContains):
            raise self.error(node, "array_contains takes two arguments: an array and a literal")
        if isinstance(node, exp.StartsWith | exp.EndsWith | exp.Contains):
            name = function_name(node)
            raise self.error(node, f"{name} takes two arguments: an attribute and a literal")
        raise self.error(node, f"{surplus[0].upper()} is not in the language")

    def compare(self, node: exp.Expr, order: str, left: exp.Expr, right: exp.Expr) -> Tree:
        if self.constraints.concern(left, right):
            return self.constraints.comparison(node, order, left, right)
        a, b = self.operand(left), self.operand(right)
        span = self.span(node)
        if a is None or b is None:
            return Constant(None, span)
        if isinstance(a, Literal) and isinstance(b, Literal):
            return self.constant(order, a, b, span)
        if isinstance(a, Literal):
            a, b, order = b, a, MIRRORED[order]
        attribute = cast(Attribute, a)
        if isinstance(b, Attribute):
            if attribute.asked or b.asked:
                raise self.error(
                    node,
                    "an operator's answer is compared with literals only",
                    hint="use an operator that binds a variable, and compare that: :y < price",
                )
            self.check_comparable(attribute, b, left, right)
            found = self.since_now(order, attribute, b, span)
            if found is not None:
                return found
            return _with_order(order, lambda o: Comparison(attribute, o, b, span))
        self.check_literal(attribute, b)
        return _with_order(order, lambda o: Factor(attribute, (Piece(o, b),), span))

    def since_now(self, order: str, a: Attribute, b: Attribute, span: Span) -> Tree | None:
        """A comparison with the time of the match as one with a constant; None if it isn't such a comparison."""
        if a.computed is not None and relative_to_now(b, a) is not None:
            a, b, order = b, a, MIRRORED[order]
        found = None if b.computed is None else relative_to_now(a, b)
        if found is None:
            return None
        attribute, constant = found
        literal = cast(Literal, as_operand(constant, span))
        return _with_order(order, lambda o: Factor(attribute, (Piece(o, literal),), span))

    def distinct(self, node: exp.Expr) -> Tree:
        a, b = self.operand(node.this), self.operand(node.expression)
        if isinstance(b, Attribute):
            a, b = b, a
        if not isinstance(a, Attribute) or isinstance(b, Attribute):
            raise self.error(node, "IS DISTINCT FROM compares an attribute with a literal")
        span = self.span(node)
        if b is None:
            equal = Factor(a, (), span, null=True, total=True)
        else:
            self.check_literal(a, b)
            equal = Factor(a, (Piece("=", b),), span, total=True)
        return equal if isinstance(node, exp.NullSafeEQ) else equal.negation()

    def between(self, node: exp.Expr) -> Tree:
        low, high = node.args["low"], node.args["high"]
        ends = [self.compare(node, ">=", node.this, low), self.compare(node, "<=", node.this, high)]
        return And(self.alike(ends))

    def alike(self, comparisons: list[Tree]) -> tuple[Tree, ...]:
        """The numbers of one BETWEEN or IN are of one type in SQL: if one is a double, all are compared as doubles."""
        if any(map(_has_double, comparisons)):
            return tuple(map(_with_doubles, comparisons))
        return tuple(comparisons)

    def membership(self, node: exp.Expr) -> Tree:
        if not node.expressions or node.args.get("query") or node.args.get("field"):
            raise self.error(
                node,
                "IN takes a list of literals",
                hint="no subquery; for membership in an array use array_contains(array, value)",
            )
        self.elements += len(node.expressions)
        if self.elements > MAX_ELEMENTS:
            raise too_many_elements(self.text)
        if self.constraints.concern(node.this, *node.expressions):
            if len(node.expressions) > MAX_CONSTRAINTS:
                raise self.error(
                    node,
                    f"a variable is compared with at most {MAX_CONSTRAINTS} values in one list",
                )
            return Or(self.alike([self.compare(node, "=", node.this, e) for e in node.expressions]))
        attribute = self.operand(node.this)
        if attribute is None:
            return Constant(None, self.span(node))
        if not isinstance(attribute, Attribute):
            raise self.error(node.this, "IN tests an attribute", found="a literal")
        pieces: list[Piece] = []
        has_null = False
        for element in node.expressions:
            literal = self.operand(element)
            if isinstance(literal, Attribute):
                raise self.error(element, "IN takes a list of literals", found=literal.name)
            if literal is None:
                has_null = True
                continue
            self.check_literal(attribute, literal)
            pieces.append(Piece("=", literal))
        factor = Factor(attribute, tuple(pieces), self.span(node))
        if _has_double(factor):
            factor = cast(Factor, _with_doubles(factor))
        # With a NULL in the list, what isn't found in it is unknown: never true, and never false either.
        return Or((factor, Constant(None, factor.span))) if has_null else factor

    def is_(self, node: exp.Expr) -> Tree:
        if self.constraints.concern(node.this):
            if isinstance(node.expression, exp.Null):
                return self.constraints.null(node)
            raise self.error(
                node, "after a variable, IS is followed by [NOT] NULL", hint="compare it: :y = TRUE"
            )
        attribute = self.subject(node.this)
        span = self.span(node)
        if isinstance(node.expression, exp.Null):
            return Factor(attribute, (), span, null=True, total=True)
        if isinstance(node.expression, exp.Boolean):
            text = str(bool(node.expression.this)).lower()
            literal = Literal(LiteralKind.BOOLEAN, text, self.span(node.expression))
            self.check_literal(attribute, literal)
            return Factor(attribute, (Piece("=", literal),), span, total=True)
        raise self.error(node, "IS is followed by [NOT] NULL, TRUE, FALSE or DISTINCT FROM")

    def flag(self, node: exp.Expr, attribute: Attribute) -> Tree:
        if attribute.type != Scalar(Kind.BOOLEAN):
            raise self.error(
                node,
                f"{attribute.name!r} is not a condition",
                "a boolean attribute or a comparison",
                str(attribute.type),
            )
        return is_true(attribute, self.span(node))

    def search(self, node: exp.Expr, subject: exp.Expr, wanted: exp.Expr) -> Tree:
        """A function that searches in a text, or in an array: `contains` does either."""
        if isinstance(node, exp.Contains) and isinstance(subject, exp.Column | exp.Dot):
            attribute = self.attribute(subject)
            if isinstance(attribute.type, Array):
                return self.contains(node, subject, wanted)
        return self.text_function(node, subject, wanted)

    def contains(self, node: exp.Expr, array: exp.Expr, value: exp.Expr) -> Tree:
        attribute = self.attribute(array)
        if not isinstance(attribute.type, Array):
            raise self.error(
                array, "array_contains looks into an array", "array", str(attribute.type)
            )
        literal = self.operand(value)
        if literal is None:
            return Constant(None, self.span(node))
        if isinstance(literal, Attribute):
            raise self.error(value, "array_contains looks for a literal", found=literal.name)
        self.check_literal(Attribute(attribute.path, attribute.type.element), literal)
        return Contains(attribute, literal, self.span(node))

    def overlap(self, node: exp.Expr, array: exp.Expr, values: exp.Expr) -> Tree:
        """Whether an array has one of several values, or all of them. NULL is no value."""
        if isinstance(node, exp.ArrayContainedBy) or isinstance(array, exp.Array):
            array, values = values, array
        if not isinstance(values, exp.Array):
            raise self.error(
                node, "an array is compared with a list of literals", hint="like tags && ['a', 'b']"
            )
        found = [self.contains(node, array, value) for value in values.expressions]
        if any(
            isinstance(one, Contains) and one.literal.kind is LiteralKind.DOUBLE for one in found
        ):
            found = [_as_double(one) for one in found]
        self.elements += len(found)
        if self.elements > MAX_ELEMENTS:
            raise too_many_elements(self.text)
        tests = tuple(one for one in found if not isinstance(one, Constant))
        if not tests:
            raise self.error(node, "the list has no values")
        has_any = isinstance(node, exp.ArrayOverlaps) or (
            isinstance(node, exp.Anonymous) and node.name.lower() in CONTAINS_ANY_NAMES
        )
        return Or(tests) if has_any else And(tests)

    def constant(self, order: str, a: Literal, b: Literal, span: Span) -> Tree:
        """A comparison of two literals, as in generated SQL (`1 = 1`): true or false whatever the event."""
        if a.slot is not None or b.slot is not None:
            raise SlotNeededError
        x, y = self.value(a), self.value(b)
        if isinstance(x, str) != isinstance(y, str):
            raise FilterError(self.text, "a number can't be compared with a string", *span)
        if isinstance(x, float) or isinstance(y, float):
            x, y = float(x), float(y)
        return Constant(bool(COMPARISONS[order](x, y)), span)

    def value(self, literal: Literal) -> Decimal | float | str:
        sign = -1 if literal.negative else 1
        if literal.kind is not LiteralKind.STRING and len(literal.text) > MAX_DIGITS:
            raise FilterError(self.text, TOO_MANY_DIGITS, *literal.span)
        match literal.kind:
            case LiteralKind.INTEGER | LiteralKind.DECIMAL:
                return sign * Decimal(literal.text)
            case LiteralKind.DOUBLE:
                return sign * float(literal.text)
            case LiteralKind.STRING:
                return literal.text
        raise FilterError(self.text, "nothing here depends on the event", *literal.span)


def _has_double(tree: Tree) -> bool:
    if isinstance(tree, Constraint):
        return has_double(tree)
    if isinstance(tree, Comparison):
        return Scalar(Kind.DOUBLE) in (tree.left.type, tree.right.type)
    return isinstance(tree, Factor) and any(
        piece.literal.kind is LiteralKind.DOUBLE for piece in tree.pieces
    )


def _with_doubles(tree: Tree) -> Tree:
    if isinstance(tree, Constraint):
        return with_doubles(tree)
    if not isinstance(tree, Factor):
        return tree
    return replace(
        tree,
        pieces=tuple(
            replace(p, literal=replace(p.literal, kind=LiteralKind.DOUBLE)) for p in tree.pieces
        ),
    )


def _as_double(tree: Tree) -> Tree:
    """An array's element as a double: the numbers of one list are of one type."""
    if not isinstance(tree, Contains):
        return tree
    return replace(tree, literal=replace(tree.literal, kind=LiteralKind.DOUBLE))


def _equated(node: exp.Expr) -> tuple[str, bool] | None:
    """The column that a node says is equal to a literal, its name and whether it is quoted; None if it says none."""
    if not isinstance(node, exp.EQ):
        return None
    column, value = node.this, node.expression
    literal = value.this if isinstance(value, exp.Neg | exp.Cast) else value
    if not isinstance(column, exp.Column) or not isinstance(literal, exp.Literal):
        return None
    name = column.this
    if len(column.parts) > 1 or not isinstance(name, exp.Identifier):
        return None
    return name.name, bool(name.args.get("quoted"))


def _with_order(order: str, make: Callable[[Order], Tree]) -> Tree:
    return Not(make("=")) if order == "<>" else make(cast(Order, order))


def _chain(node: exp.Expr, kind: type[exp.Expr]) -> list[exp.Expr]:
    """The operands of `a AND b AND c …`, which sqlglot nests to the left, without recursion."""
    operands: list[exp.Expr] = []
    pending = [node]
    while pending:
        current = pending.pop()
        if isinstance(current, kind):
            pending += [current.expression, current.this]
        else:
            operands.append(current)
    return operands
