"""Atoms of calls that differ only in literal arguments: one is parsed, and the others are made from it.

    p(image, 'k17') > ②      the skeleton, which keeps the literals among the arguments: they are part of the invocation
    p(image, ⑰) > ②          its key, without those literals: parsed once
    'k17'                    a literal and its place among the arguments

Forty thousand distinct calls would take a minute to parse; to convert their literals takes a second. The literals are
converted as the parser does it (`call_arguments.fix_literal`). As a check, a template must reproduce the call that it
was made from.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

from penstock.language.call_arguments import fix_literal
from penstock.language.calls import CALL, Call, Fixed, Invocation
from penstock.language.filter_tree import Factor, Literal, LiteralKind, number_kind
from penstock.language.normal import Term
from penstock.language.schema import Attribute
from penstock.language.signatures import Signature, Signatures
from penstock.language.syntax import CONTAINS_NAMES

_QUOTED = r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\""
# A name and what stands between the parentheses after it, in a skeleton: there are none inside.
CALLED = re.compile(
    rf"(?<![\w.])(?!(?:IN|NOT|{'|'.join(sorted(CONTAINS_NAMES))}) ?\()"
    rf"(?:\w+|\"(?:[^\"]|\"\")*\") ?\((?P<given>(?:[^'\"()]|{_QUOTED})*)\)",
    re.IGNORECASE,
)
_LITERAL = re.compile(rf"({_QUOTED}|(?<![\w.])\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)")
_MARKS = {LiteralKind.STRING: "\x11", LiteralKind.INTEGER: "\x12", LiteralKind.DECIMAL: "\x13",
          LiteralKind.DOUBLE: "\x14"}  # fmt: skip
_TYPED = {
    "DATE": LiteralKind.DATE,
    "TIMESTAMP": LiteralKind.TIMESTAMP,
    "TIMESTAMPTZ": LiteralKind.TIMESTAMPTZ,
}
_NOWHERE = (0, 0)

Placed = tuple[int, Literal]
"""A literal and the number of its argument."""


def take_apart(called: re.Match[str]) -> tuple[str, list[Placed]]:
    """The key of a skeleton with a call, and the literals that the operator is given."""
    parts = _LITERAL.split(called["given"])
    found: list[Placed] = []
    argument = 0
    for index in range(0, len(parts) - 1, 2):
        argument += parts[index].count(",")
        written = parts[index + 1]
        if written[0] == '"':
            continue
        before = parts[index].rpartition(",")[2].strip()
        literal = _literal(written, before)
        parts[index + 1] = _MARKS[_kind(written)]
        found.append((argument, literal))
    start, end = called.span("given")
    return called.string[:start] + "".join(parts) + called.string[end:], found


def _literal(written: str, before: str) -> Literal:
    if written[0] == "'":
        kind = _TYPED.get(before.upper(), LiteralKind.STRING)
        return Literal(kind, written[1:-1].replace("''", "'"), _NOWHERE)
    return Literal(_kind(written), written, _NOWHERE, negative=before == "-")


def _kind(written: str) -> LiteralKind:
    return LiteralKind.STRING if written[0] == "'" else number_kind(written)


@dataclass(frozen=True, slots=True)
class Template:
    """A call, in which literals can be replaced by others of the same kinds."""

    attribute: Attribute
    call: Call
    signature: Signature

    @classmethod
    def of(
        cls, terms: Sequence[Term], operators: Signatures, literals: Sequence[Placed]
    ) -> Self | None:
        """The template of an atom; None if it can't be one."""
        first = terms[0]
        if not isinstance(first, Factor) or not isinstance(first.attribute.asked, Call):
            return None
        signature = operators.find(first.attribute.asked.invocation.operator)
        assert signature is not None, "it was called"
        template = cls(first.attribute, first.attribute.asked, signature)
        return template if template.terms(terms, literals) == tuple(terms) else None

    def terms(self, terms: Sequence[Term], literals: Sequence[Placed]) -> tuple[Term, ...] | None:
        """The atom's terms with other literals in the call; None if one of them isn't what the operator takes."""
        given = [*self.call.invocation.arguments, *self.call.pattern]
        inputs = len(self.signature.parameters)
        types = (*self.signature.parameters, *self.signature.binds)
        try:
            for number, literal in literals:
                if not isinstance(given[number], Fixed):
                    return None
                given[number] = fix_literal(literal, types[number])
        except ValueError:
            return None
        invocation = Invocation(self.signature.name, tuple(given[:inputs]))  # type: ignore[arg-type]
        call = Call(invocation, tuple(given[inputs:]))  # type: ignore[arg-type]
        attribute = replace(self.attribute, path=(CALL, str(call)), asked=call)
        if any(not isinstance(t, Factor) or t.attribute != self.attribute for t in terms):
            return None
        return tuple(replace(t, attribute=attribute) for t in terms if isinstance(t, Factor))
