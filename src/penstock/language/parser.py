"""Filter text -> typed tree, by way of sqlglot.

sqlglot (DuckDB's dialect) does the reading; this module decides what of SQL a filter may use, resolves attributes
against the schema, checks the type of every comparison, and says where in the text something is wrong. Anything that
isn't listed here is refused: a filter can't call a function, run a subquery or compute.
"""

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import cast

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, SqlglotError

from penstock.errors import FilterError
from penstock.language import patterns
from penstock.language.schema import (
    NUMBERS,
    TIMES,
    Array,
    Attribute,
    Kind,
    Scalar,
    Schema,
    Struct,
    Type,
    Unusable,
)
from penstock.language.tree import (
    And,
    Comparison,
    Constant,
    Contains,
    Factor,
    Literal,
    LiteralKind,
    Not,
    Or,
    Order,
    Pattern,
    Piece,
    Span,
    Tree,
)

MAX_TEXT = 1 << 20  # characters
MAX_DEPTH = 100  # levels of parentheses and NOT
MAX_ELEMENTS = 100_000  # literals in all the IN lists of one filter

DIALECT = "duckdb"
_ORDERS: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
_MIRRORED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
CONTAINS_NAMES = {"array_contains", "list_contains", "array_has", "list_has"}
_TYPED = {
    exp.DataType.Type.DATE: LiteralKind.DATE,
    exp.DataType.Type.TIMESTAMP: LiteralKind.TIMESTAMP,
    exp.DataType.Type.TIMESTAMPTZ: LiteralKind.TIMESTAMP,
    exp.DataType.Type.TIMESTAMPLTZ: LiteralKind.TIMESTAMP,
    exp.DataType.Type.TIMESTAMPNTZ: LiteralKind.TIMESTAMP,
}
_NUMERIC_LITERALS = {LiteralKind.INTEGER, LiteralKind.DECIMAL, LiteralKind.DOUBLE}
_TIME_LITERALS = {LiteralKind.DATE, LiteralKind.TIMESTAMP, LiteralKind.STRING}


class SlotNeededError(Exception):
    """A lifted literal decides the tree itself, so filters of this shape can't share one parse."""


def parse(text: str, schema: Schema, slots: Mapping[int, int] | None = None) -> Tree:
    """Parse and check one filter. `slots` gives the slot of each lifted literal by its offset in the text.

    >>> schema = Schema.of({"price": "double"})
    >>> parse("price > 5", schema).pieces[0].order
    '>'
    >>> parse("prise > 5", schema)
    Traceback (most recent call last):
    penstock.errors.FilterError: unknown attribute 'prise' at line 1, column 1
      prise > 5
      ^^^^^
      did you mean 'price'?
    """
    return _Reader(text, schema, slots or {}).condition(syntax(text), 0)


def syntax(text: str) -> exp.Expr:
    """Parse the text as a SQL condition, without looking at what it says."""
    if len(text) > MAX_TEXT:
        raise FilterError(
            text[:100],
            f"the filter is too long: {len(text):,} characters, at most {MAX_TEXT:,} are allowed",
        )
    unprintable = next(
        (i for i, c in enumerate(text) if c == "\0" or "\ud800" <= c <= "\udfff"), -1
    )
    if unprintable >= 0:
        shown = text.encode("utf-8", "replace").decode().replace("\0", "?")
        raise FilterError(
            shown, "NUL and lone surrogates are not text", unprintable, unprintable + 1
        )
    try:
        tree = sqlglot.parse_one(text, dialect=DIALECT, into=exp.Condition)
    except ParseError as error:
        raise _syntax_error(text, error) from None
    except SqlglotError:
        raise FilterError(
            text, "not SQL: a quote is not closed, or a character is not allowed"
        ) from None
    except RecursionError:
        raise _too_deep(text) from None
    if isinstance(tree, exp.Block):
        raise FilterError(text, "a filter is one condition: no ';'", text.find(";"))
    return tree


def _syntax_error(text: str, error: ParseError) -> FilterError:
    if not text.strip():
        return FilterError(text, "the filter is empty", hint="TRUE matches every event")
    details = error.errors[0] if error.errors else {}
    if not details.get("line"):
        return FilterError(text, "not a SQL condition")
    line_start = 0
    for _ in range(details["line"] - 1):
        line_start = text.find("\n", line_start) + 1
    token = details["highlight"]
    end = line_start + details["col"]
    reason = details["description"].split(" for <class")[0]
    if "Unexpected token" in reason:
        reason = f"unexpected {token!r}"
    elif reason.startswith("Required keyword"):
        reason = f"something is missing after {token!r}"
    return FilterError(text, reason, max(0, end - len(token)), end)


def _too_deep(text: str) -> FilterError:
    return FilterError(text, f"the filter is nested too deeply: at most {MAX_DEPTH} levels")


class _Reader:
    """One pass over sqlglot's tree of one filter."""

    def __init__(self, text: str, schema: Schema, slots: Mapping[int, int]) -> None:
        self.text = text
        self.schema = schema
        self.slots = slots
        self.elements = 0

    # --- conditions ----------------------------------------------------------------------------

    def condition(self, node: exp.Expr, depth: int) -> Tree:
        if depth > MAX_DEPTH:
            raise _too_deep(self.text)
        match node:
            case exp.Paren():
                return self.condition(node.this, depth + 1)
            case exp.Not():
                return Not(self.condition(node.this, depth + 1))
            case exp.And():
                return And(tuple(self.condition(n, depth + 1) for n in _chain(node, exp.And)))
            case exp.Or():
                return Or(tuple(self.condition(n, depth + 1) for n in _chain(node, exp.Or)))
            case exp.EQ() | exp.NEQ() | exp.LT() | exp.LTE() | exp.GT() | exp.GTE():
                return self.compare(node, _ORDERS[type(node)], node.this, node.expression)
            case exp.NullSafeEQ() | exp.NullSafeNEQ():
                return self.distinct(node)
            case exp.Between():
                return self.between(node)
            case exp.In():
                return self.membership(node)
            case exp.Like():
                return self.like(node, None)
            case exp.Escape() if isinstance(node.this, exp.Like):
                return self.like(node.this, node.expression)
            case exp.Is():
                return self.is_(node)
            case exp.Column() | exp.Dot():
                return self.flag(node)
            case exp.Boolean():
                return Constant(bool(node.this), self.span(node))
            case exp.Null():
                return Constant(None, self.span(node))
            case exp.ArrayContains():
                return self.contains(node, node.this, node.expression)
            case exp.Anonymous() if (
                node.name.lower() in CONTAINS_NAMES and len(node.expressions) == 2
            ):
                return self.contains(node, *node.expressions)
        raise self.refusal(node)

    def compare(self, node: exp.Expr, order: str, left: exp.Expr, right: exp.Expr) -> Tree:
        a, b = self.operand(left), self.operand(right)
        span = self.span(node)
        if a is None or b is None:
            return Constant(None, span)
        if isinstance(a, Literal) and isinstance(b, Literal):
            return self.constant(order, a, b, span)
        if isinstance(a, Literal):
            a, b, order = b, a, _MIRRORED[order]
        attribute = cast(Attribute, a)
        if isinstance(b, Attribute):
            self.check_comparable(attribute, b, left, right)
            return _with_order(order, lambda o: Comparison(attribute, o, b, span))
        self.check_literal(attribute, b)
        return _with_order(order, lambda o: Factor(attribute, (Piece(o, b),), span))

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
        if node.args.get("symmetric"):
            raise self.error(node, "BETWEEN SYMMETRIC is not in the language")
        low, high = node.args["low"], node.args["high"]
        return And(
            (
                self.compare(node, ">=", node.this, low),
                self.compare(node, "<=", node.this, high),
            )
        )

    def membership(self, node: exp.Expr) -> Tree:
        if not node.expressions or node.args.get("query") or node.args.get("field"):
            raise self.error(
                node,
                "IN takes a list of literals",
                hint="no subquery; for membership in an array use array_contains(array, value)",
            )
        self.elements += len(node.expressions)
        if self.elements > MAX_ELEMENTS:
            raise FilterError(
                self.text,
                f"too many literals in IN lists: at most {MAX_ELEMENTS:,} in one filter",
            )
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
        # With a NULL in the list, what isn't found in it is unknown: never true, and never false either.
        return Or((factor, Constant(None, factor.span))) if has_null else factor

    def like(self, node: exp.Expr, escape: exp.Expr | None) -> Tree:
        attribute = self.attribute(node.this)
        span = self.span(node)
        if attribute.type != Scalar(Kind.STRING):
            raise self.error(node.this, "LIKE tests a string", "string", str(attribute.type))
        literal = self.operand(node.expression)
        if literal is None:
            return Constant(None, span)
        if not isinstance(literal, Literal) or literal.kind is not LiteralKind.STRING:
            raise self.error(node.expression, "a LIKE pattern is a string literal")
        if len(literal.text) > patterns.MAX_PATTERN:
            raise self.error(
                node.expression,
                f"the pattern is too long: at most {patterns.MAX_PATTERN:,} characters",
            )
        parts, character = self.take_apart(literal, escape)
        head = Literal(LiteralKind.STRING, parts.head, literal.span, literal.slot)
        if parts.is_exact:
            return Factor(attribute, (Piece("=", head),), span)
        if parts.is_prefix:
            return Factor(attribute, (Piece("prefix", head),), span)
        if literal.slot is not None:
            raise SlotNeededError
        return Pattern(attribute, literal.text, character, span, head if parts.head else None)

    def take_apart(
        self, literal: Literal, escape: exp.Expr | None
    ) -> tuple[patterns.LikeParts, str | None]:
        character: str | None = None
        if escape is not None:
            character = escape.name if escape.is_string else ""
            if len(character) != 1:
                raise self.error(escape, "ESCAPE takes a string of one character")
        try:
            return patterns.take_apart(literal.text, character), character
        except ValueError as error:
            raise FilterError(self.text, str(error), *literal.span) from None

    def is_(self, node: exp.Expr) -> Tree:
        attribute = self.attribute(node.this)
        span = self.span(node)
        if isinstance(node.expression, exp.Null):
            return Factor(attribute, (), span, null=True, total=True)
        if isinstance(node.expression, exp.Boolean):
            text = str(bool(node.expression.this)).lower()
            literal = Literal(LiteralKind.BOOLEAN, text, self.span(node.expression))
            self.check_literal(attribute, literal)
            return Factor(attribute, (Piece("=", literal),), span, total=True)
        raise self.error(node, "IS is followed by [NOT] NULL, TRUE, FALSE or DISTINCT FROM")

    def flag(self, node: exp.Expr) -> Tree:
        attribute = self.attribute(node)
        span = self.span(node)
        if attribute.type != Scalar(Kind.BOOLEAN):
            raise self.error(
                node,
                f"{attribute.name!r} is not a condition",
                "a boolean attribute or a comparison",
                str(attribute.type),
            )
        return Factor(attribute, (Piece("=", Literal(LiteralKind.BOOLEAN, "true", span)),), span)

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

    def constant(self, order: str, a: Literal, b: Literal, span: Span) -> Tree:
        """Two literals: true or false whatever the event, as generated SQL has it (`1 = 1`)."""
        if a.slot is not None or b.slot is not None:
            raise SlotNeededError
        x, y = self.value(a), self.value(b)
        if isinstance(x, str) != isinstance(y, str):
            raise FilterError(
                self.text, "a number can't be compared with a string", span[0], span[1]
            )
        if isinstance(x, float) or isinstance(y, float):
            x, y = float(x), float(y)
        less, equal = x < y, x == y  # type: ignore[operator]
        outcome = {
            "=": equal,
            "<>": not equal,
            "<": less,
            "<=": less or equal,
            ">": not (less or equal),
            ">=": not less,
        }
        return Constant(outcome[order], span)

    def value(self, literal: Literal) -> Decimal | float | str:
        sign = -1 if literal.negative else 1
        match literal.kind:
            case LiteralKind.INTEGER | LiteralKind.DECIMAL:
                return sign * Decimal(literal.text)
            case LiteralKind.DOUBLE:
                return sign * float(literal.text)
            case LiteralKind.STRING:
                return literal.text
        raise FilterError(self.text, "nothing here depends on the event", *literal.span)

    # --- operands ------------------------------------------------------------------------------

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
        slot = self.slots.get(span[0])
        if node.is_string:
            return Literal(LiteralKind.STRING, node.name, span, slot)
        text = node.name
        if "e" in text.lower():
            if abs(float(text)) == float("inf"):
                raise self.error(node, "the number is too large for a double")
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
        """Why this piece of SQL isn't in the language."""
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


def column_path(node: exp.Expr) -> tuple[str, ...] | None:
    """The dotted path that a node spells, or None if it spells something else."""
    steps: list[str] = []
    while isinstance(node, exp.Dot):
        if not isinstance(node.expression, exp.Identifier):
            return None
        steps.append(node.expression.name)
        node = node.this
    if not isinstance(node, exp.Column) or isinstance(node.this, exp.Star):
        return None
    return (*(part.name for part in node.parts), *reversed(steps))


def _accepts(type_: Type, literal: LiteralKind) -> bool:
    if not isinstance(type_, Scalar):
        return False
    if type_.kind in NUMBERS:
        return literal in _NUMERIC_LITERALS
    if type_.kind in TIMES:
        return literal in _TIME_LITERALS
    return str(literal) == str(type_.kind)
