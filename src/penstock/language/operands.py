"""Reads what a predicate compares: attributes of the schema, calls of operators and literals. Checks their types.

The errors of a filter are made here, too: with the position in the text, what was expected and what was found.
"""

import re
from collections.abc import Iterable, Mapping

from sqlglot import exp

from penstock.base.errors import FilterError
from penstock.language.call_arguments import fix_literal, takes, takes_literal
from penstock.language.calls import CALL, MAX_VARIABLES, Call, Fixed, Given, Invocation
from penstock.language.computing import FUNCTIONS, as_operand, is_computation, read_expression
from penstock.language.filter_tree import Binding, Literal, LiteralKind, Span, number_kind
from penstock.language.schema import Attribute, Schema
from penstock.language.signatures import MAX_ARGUMENTS, Signature
from penstock.language.syntax import column_path
from penstock.language.types import NUMBERS, TIMES, Array, Kind, Map, Scalar, Struct, Type, Unusable

_CONDITIONS = (
    exp.Connector, exp.Not, exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Between, exp.In, exp.Like, exp.Is,
    exp.ILike, exp.StartsWith, exp.EndsWith, exp.RegexpLike, exp.Escape,
)  # fmt: skip
# SQL that is refused wherever it stands: nodes of sqlglot's tree, the reason, a hint.
_REFUSALS: tuple[tuple[tuple[type[exp.Expr], ...], str, str | None], ...] = (
    (
        _CONDITIONS,
        "a condition is not a value",
        "combine conditions with AND, OR and NOT: 1 < price AND price < 5",
    ),
    ((exp.Query, exp.Subquery, exp.Exists), "a filter has no subqueries", None),
    ((exp.Cast,), "a filter has no casts", "typed literals are DATE '…' and TIMESTAMP '…'"),
    ((exp.Literal,), "a literal is not a condition", None),
    ((exp.DPipe,), "|| is not in the language", None),
    ((exp.Bracket,), "subscripts are not in the language", None),
)
_NUMBER = re.compile(r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_TYPED = {
    exp.DataType.Type.DATE: LiteralKind.DATE,
    exp.DataType.Type.TIMESTAMP: LiteralKind.TIMESTAMP,
    exp.DataType.Type.TIMESTAMPTZ: LiteralKind.TIMESTAMPTZ,
    exp.DataType.Type.TIMESTAMPLTZ: LiteralKind.TIMESTAMPTZ,
    exp.DataType.Type.TIMESTAMPNTZ: LiteralKind.TIMESTAMP,
}
_NO_PARENTHESES = re.compile(r"\s*\(?\s*\)")


class SlotNeededError(Exception):
    """A lifted literal decides the tree itself, so filters of this shape can't share one parse.

    Those that have the same literals in these `slots` can; if there are none, each is parsed for itself.
    """

    def __init__(self, slots: Iterable[int] = ()) -> None:
        super().__init__()
        self.slots = frozenset(slots)


class Operands:
    """Reads the operands of one filter. `slots` gives the slot of each lifted literal by its offset in the text."""

    def __init__(self, text: str, schema: Schema, slots: Mapping[int, int]) -> None:
        self.text = text
        self.schema = schema
        self.slots = slots
        self.used: set[int] = set()  # the slots whose literals the tree has
        self.fixed: set[int] = set()  # the slots whose literals decide what is computed
        self.variables: set[str] = set()

    def operand(self, node: exp.Expr) -> Attribute | Literal | None:
        """An attribute, a literal, or None for NULL."""
        match node:
            case exp.Column() | exp.Dot():
                return self.attribute(node)
            case exp.Anonymous() if self.is_operator(node):
                return self.answer(node)
            case exp.Null():
                return None
            case exp.Boolean():
                return Literal(LiteralKind.BOOLEAN, str(bool(node.this)).lower(), self.span(node))
            case exp.Literal():
                return self.literal(node, False)
            case exp.Neg():
                return self.signed(node)
            case exp.Cast() if isinstance(node.this, exp.Literal) and node.this.is_string:
                kind = _TYPED.get(node.to.this)
                if kind is not None:
                    inner = self.literal(node.this, False)
                    return Literal(kind, inner.text, inner.span, inner.slot)
        if is_computation(node):
            return self.computed(node)
        raise self.refusal(node)

    def is_operator(self, node: exp.Anonymous) -> bool:
        """Whether a call is of an operator: one that is registered, or that no function is called like."""
        operators = self.schema.operators
        if not len(operators):
            return False
        return operators.find(node.name) is not None or not is_computation(node)

    def computed(self, node: exp.Expr) -> Attribute | Literal | None:
        """A computation as an attribute, or as a literal if it doesn't depend on the event; None for NULL."""
        expression = read_expression(self, node)
        if expression is None:
            return None
        try:
            return as_operand(expression, self.span(node))
        except ValueError as error:
            raise self.error(node, f"the constant can't be compared: {error}") from None

    def signed(self, node: exp.Expr) -> Attribute | Literal | None:
        negative = False
        inner = node
        while isinstance(inner, exp.Neg):  # no deeper than `syntax` allows
            negative = not negative
            inner = inner.this
        if isinstance(inner, exp.Literal) and inner.is_string:
            raise self.error(node, "'-' doesn't take string")
        if not negative:
            return self.operand(inner)
        if isinstance(inner, exp.Literal):
            return self.literal(inner, negative)
        return self.computed(node)

    def literal(self, node: exp.Literal, negative: bool) -> Literal:
        span = self.span(node)
        if "start" not in node.meta and self.slots:
            raise SlotNeededError  # made of several tokens (`.5`): sqlglot doesn't say where it stood
        slot = self.slots.get(span[0])
        if slot is not None:
            self.used.add(slot)
        if node.is_string:
            return Literal(LiteralKind.STRING, node.name, span, slot)
        text = node.name
        if not _NUMBER.fullmatch(text):
            raise self.error(node, f"{text!r} is not a number")
        return Literal(number_kind(text), text, span, slot, negative)

    def attribute(self, node: exp.Expr) -> Attribute:
        """An attribute whose values can be compared."""
        attribute = self.resolved(node)
        if isinstance(attribute.type, Unusable):
            raise self.error(
                node,
                f"no filter can test {attribute.name!r}",
                expected="a scalar, an array of scalars or a field of a struct",
                found=str(attribute.type),
                hint=f"name a key: {attribute.name}['…']"
                if isinstance(attribute.type, Map)
                else None,
            )
        return attribute

    def resolved(self, node: exp.Expr) -> Attribute:
        """An attribute of any type."""
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
            hints = [f"did you mean {close!r}?"] if close else []
            if self.text[self.span(node)[0]] == '"':
                hints.append("strings take single quotes: '" + name.replace("'", "''") + "'")
            hint = "; ".join(hints) or None
            raise self.error(node, f"unknown attribute {name!r}", hint=hint)
        return attribute

    # --- calls ---------------------------------------------------------------------------------

    def subject(self, node: exp.Expr) -> Attribute:
        """An attribute of the event, a computed attribute, or the answer of an operator."""
        if isinstance(node, exp.Anonymous) and self.is_operator(node):
            return self.answer(node)
        if is_computation(node):
            found = self.operand(node)
            if isinstance(found, Attribute):
                return found
            raise self.error(node, "nothing here depends on the event")
        return self.attribute(node)

    def not_computed_with(self, node: exp.Anonymous) -> FilterError:
        """The error of a call inside a computation."""
        if len(self.schema.operators) and self.schema.operators.find(node.name) is not None:
            return self.error(
                node,
                "an operator's answer is compared with literals only",
                hint="register an operator that computes it",
            )
        return self.refusal(node)

    def answer(self, node: exp.Anonymous) -> Attribute:
        """What an operator answers, as an attribute."""
        called = self.call(node)
        if isinstance(called, Attribute):
            return called
        raise self.error(
            node,
            f"{called.call.with_variables(called.names)!r} is a condition of its own",
            hint="it is true if there are values that fit; compare its variables instead",
        )

    def call(self, node: exp.Anonymous) -> Attribute | Binding:
        """A call as an attribute, or as a binding if it has variables."""
        signature = self.schema.operators.find(node.name)
        if signature is None:
            raise self.unregistered(node)
        inputs = len(signature.parameters)
        nodes = node.expressions
        if len(nodes) != inputs + len(signature.binds) or len(nodes) > MAX_ARGUMENTS:
            wanted = inputs + len(signature.binds)
            raise self.error(
                node,
                f"operator {signature.name!r} takes {wanted} argument{'s' * (wanted != 1)}",
                expected=signature.usage(),
                found=f"{len(nodes)} argument{'s' * (len(nodes) != 1)}",
            )
        given = tuple(
            self.argument(argument, type_, f"argument {n} of {signature.name!r}")
            for n, (argument, type_) in enumerate(
                zip(nodes[:inputs], signature.parameters, strict=True), 1
            )
        )
        names: list[str] = []
        pattern = tuple(
            self.fitting(argument, type_, signature, names)
            for argument, type_ in zip(nodes[inputs:], signature.binds, strict=True)
        )
        call = Call(Invocation(signature.name, given), pattern)
        if names:
            return Binding(call, tuple(names), self.span(node))
        return Attribute((CALL, str(call)), signature.result or Scalar(Kind.BOOLEAN), call)

    def argument(self, node: exp.Expr, type_: Type | None, place: str) -> Given | Fixed:
        """The argument of an operator for one of its parameters."""
        if isinstance(node, exp.Placeholder):
            raise self.error(
                node,
                f"{place} can't be a variable",
                expected=_shown(type_),
                hint="variables stand where an operator binds, after what it is given",
            )
        if isinstance(node, exp.Func) and not isinstance(node, exp.Cast | exp.Connector):
            raise self.error(
                node, f"{place} can't be a call", hint="register an operator that does both"
            )
        if isinstance(node, exp.Column | exp.Dot):
            attribute = self.resolved(node)
            if not takes(type_, attribute.type):
                found = f"{attribute.type} {attribute.name}"
                raise self.error(node, f"{place} doesn't fit", _shown(type_), found)
            return Given(attribute.path)
        return self._fixed_operand(node, type_, place)

    def fitting(
        self, node: exp.Expr, type_: Scalar, signature: Signature, names: list[str]
    ) -> int | Fixed:
        """One place of a call's pattern: the number of a variable, whose name is put into `names`, or a literal."""
        if isinstance(node, exp.Placeholder):
            name = self.variable(node)
            if name not in names:
                names.append(name)
            return names.index(name)
        what = f"what operator {signature.name!r} binds"
        if not isinstance(node, exp.Literal | exp.Boolean | exp.Neg | exp.Cast):
            raise self.error(
                node,
                f"{what} is a variable or a literal",
                signature.usage(),
                hint="compare the variable with what you like: boats(image, :y) AND :y = wanted",
            )
        return self._fixed_operand(node, type_, what)

    def _fixed_operand(self, node: exp.Expr, type_: Type | None, place: str) -> Fixed:
        literal = self.operand(node)
        if literal is None:
            return Fixed(None, None)
        if isinstance(literal, Attribute):
            raise self.refusal(node)
        if literal.slot is not None:
            raise SlotNeededError  # it is part of what is asked, not something to compare with
        if not takes_literal(type_, literal.kind):
            raise self.error(node, f"{place} doesn't fit", _shown(type_), str(literal.kind))
        try:
            return fix_literal(literal, type_)
        except ValueError as error:
            raise self.error(
                node, f"{place} doesn't fit: {error}", expected=_shown(type_)
            ) from None

    def variable(self, node: exp.Placeholder) -> str:
        """The name of a variable; case is ignored."""
        name = node.name.lower()
        self.variables.add(name)
        if len(self.variables) > MAX_VARIABLES:
            raise self.error(node, f"a filter has at most {MAX_VARIABLES} variables")
        return name

    # --- types ---------------------------------------------------------------------------------

    def check_literal(self, attribute: Attribute, literal: Literal) -> None:
        if takes_literal(attribute.type, literal.kind):
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
        span = self.span(left)[0], self.span(right)[1]
        reason = f"{a.name!r} can't be compared with {b.name!r}"
        raise FilterError(self.text, reason, *span, expected=str(a.type), found=str(b.type))

    # --- errors --------------------------------------------------------------------------------

    def span(self, node: exp.Expr) -> Span:
        start, end = self._bare_span(node)
        if isinstance(node, exp.Anonymous) and len(self.schema.operators):
            closing = _NO_PARENTHESES.match(self.text, end)
            end = closing.end() if closing else end
        return start, end

    def _bare_span(self, node: exp.Expr) -> Span:
        own = node.this.meta if isinstance(node, exp.Column) and not node.table else node.meta
        if "start" in own and not isinstance(node, exp.Func):
            return own["start"], own["end"] + 1
        if isinstance(node, exp.Binary) and _is_leaf(node.this) and _is_leaf(node.expression):
            (start, _), (_, end) = self._bare_span(node.this), self._bare_span(node.expression)
            return start, end
        places = [part.meta for part in node.walk() if "start" in part.meta]
        if not places:
            return 0, len(self.text)
        return min(p["start"] for p in places), max(p["end"] for p in places) + 1

    def error(
        self,
        node: exp.Expr,
        reason: str,
        expected: str | None = None,
        found: str | None = None,
        hint: str | None = None,
    ) -> FilterError:
        span = self.span(node)
        return FilterError(self.text, reason, *span, expected=expected, found=found, hint=hint)

    def refusal(self, node: exp.Expr) -> FilterError:
        """Why this piece of SQL isn't in the language, or not here."""
        if isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal):
            return self.refusal(node.this)
        for kinds, reason, hint in _REFUSALS:
            if isinstance(node, kinds):
                return self.error(node, reason, hint=hint)
        if isinstance(node, exp.Placeholder):
            return self.error(
                node,
                f"variable :{node.name} has no place here",
                hint="an operator binds it, and it is compared: boats(image, :y) AND :y > 2",
            )
        if isinstance(node, exp.Anonymous) and len(self.schema.operators):
            if self.schema.operators.find(node.name) is None:
                return self.unregistered(node)
            return self.error(node, f"a call of operator {node.name!r} has no place here")
        if isinstance(node, exp.Func):
            name = node.name if isinstance(node, exp.Anonymous) else node.sql_name()
            others = " and registered operators" if len(self.schema.operators) else ""
            return self.error(
                node,
                f"function {name.lower()!r} is not allowed",
                hint=f"there are {FUNCTIONS}{others}",
            )
        if isinstance(node, exp.Dot) and node.find(exp.Anonymous) is not None:
            return self.error(node, "a call is no step of a path")
        if is_computation(node):
            return self.error(
                node, "what is computed has no place here", hint="compare it: price * size > 5"
            )
        return self.error(node, f"{type(node).__name__.upper()} is not in the language")

    def unregistered(self, node: exp.Anonymous) -> FilterError:
        operators = self.schema.operators
        close = operators.suggestion(node.name)
        known = ", ".join(signature.name for signature in operators)
        return self.error(
            node,
            f"operator {node.name!r} isn't registered",
            hint=f"did you mean {close!r}?" if close else f"registered are: {known}",
        )


def _shown(type_: Type | None) -> str:
    return "anything" if type_ is None else str(type_)


def _is_leaf(node: exp.Expr) -> bool:
    return isinstance(node, exp.Column | exp.Literal)
