"""Atoms: what a part of a plain conjunction means, whatever its literals.

Ten attributes and five comparisons make fifty atoms, but far too many conjunctions to parse each. So where a filter is
nothing but a conjunction of simple predicates, each predicate is read alone, once per skeleton (`skeletons`), and the
conjunction is put together from its atoms.

sqlglot reads the parts, as it reads everything. Three checks make sure that a part means the same alone and in its
conjunction:

  - the skeleton must be one of a few forms in which AND, OR and NOT have no other place than the known ones;
  - sqlglot must read it between two other conditions as it reads it alone;
  - its normal form must be a single conjunction, so that the whole is the conjunction of its parts.

A part that fails any of this has no atom, and its filter is parsed as a whole. So no error message comes from here.

A call of an operator has another atom for every list of literals among its arguments, and there may be as many such
lists as filters. Only one call of each kind is parsed; `call_atoms` makes the other atoms from it.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlglot import exp

from penstock.base.errors import FilterError
from penstock.language.call_atoms import CALLED, Template, take_apart
from penstock.language.calls import event_paths
from penstock.language.computed import fields_of_attribute
from penstock.language.filter_tree import Comparison, Factor
from penstock.language.infer import infer
from penstock.language.normal import SignedTest, Term, normal_form
from penstock.language.operands import SlotNeededError
from penstock.language.parser import parse
from penstock.language.pools import Column, columns_of
from penstock.language.schema import Attribute, Schema
from penstock.language.signatures import NO_OPERATORS, Signatures
from penstock.language.skeletons import EXACT, GENERAL, PREFIX, Skeletons, skeletons
from penstock.language.syntax import FUNCTION_NAMES, syntax
from penstock.language.texts import Texts
from penstock.language.tokens import DECIMAL, DOUBLE, INTEGER, STRING
from penstock.language.types import Type

# One literal of each kind, to have a skeleton parsed: which one it is makes no difference to the tree.
_SAMPLES = {
    STRING: "'x'",
    INTEGER: "1",
    DECIMAL: "1.5",
    DOUBLE: "1e0",
    EXACT: "'x'",
    PREFIX: "'x%'",
    GENERAL: "'%x%'",
}
_REMEMBERED = 20_000  # skeletons, with an atom or without
_LONG = 4_096  # bytes of a skeleton; long ones are rare and would fill the memory with themselves
_TRIES = 8  # skeletons of one key without an atom, before the key is given up: a bad literal must not spoil it at once
_UNKNOWN: Any = object()
_MARKER = re.compile(r"[\x01-\x07]")

_NAME = r'(?:[^\W\d]\w*|"(?:[^"]|"")+")'
_PATH = rf"{_NAME}(?:\.{_NAME})*"
_LITERAL = r"(?:[-+] ?[\x02-\x04]|[\x01-\x04]|(?:DATE|TIMESTAMP|TIMESTAMPTZ) \x01|TRUE|FALSE)"
_ORDER = r"(?:=|==|<>|!=|<|<=|>|>=)"
_GIVEN = rf"(?:(?:(?:DATE|TIMESTAMP|TIMESTAMPTZ) )?'(?:[^']|'')*'|(?:[-+] ?)?\d+(?:\.\d+)?(?:E[-+]?\d+)?|{_PATH})"
_CALL = rf"{_NAME} ?\( ?(?:{_GIVEN}(?: ?, ?{_GIVEN})* ?)?\)"
_SUBJECT = rf"(?:{_CALL}|{_PATH})"
_FORM = re.compile(
    rf"(?P<list>{_SUBJECT} (?:NOT )?IN ?\([-+]?[\x01-\x04]\))"
    rf"|{_SUBJECT} (?:NOT )?IN ?\( ?{_LITERAL}(?: ?, ?{_LITERAL})* ?\)"
    rf"|{_SUBJECT} ?{_ORDER} ?(?:{_LITERAL}|{_PATH})"
    rf"|{_LITERAL} ?{_ORDER} ?{_SUBJECT}"
    rf"|{_SUBJECT} BETWEEN ?{_LITERAL} AND ?{_LITERAL}"
    rf"|{_SUBJECT} (?:NOT )?LIKE ?(?:[\x05-\x07]|'(?:[^']|'')*')"
    rf"|{_SUBJECT} (?:NOT )?ILIKE ?\x07"
    rf"|{_SUBJECT} IS (?:NOT )?(?:NULL|TRUE|FALSE|DISTINCT FROM ?{_LITERAL})"
    rf"|(?:NOT )?(?:{'|'.join(sorted(FUNCTION_NAMES))}) ?\( ?{_PATH} ?, ?{_LITERAL}(?: ?, ?'[a-z]*')? ?\)"
    rf"|{_SUBJECT}",
    re.IGNORECASE,
)


Bound = tuple[Term, list[tuple[Column, str]]]
"""A term of one filter: its literals, and the text of each."""


@dataclass(frozen=True, slots=True)
class Atom:
    """A part of a conjunction without its literals.

    `columns` are the literals of each term. A literal's slot is its place among the literals of the text; a literal
    without a slot is the same in all texts. If `repeats`, there may be any number of literals in the text, and the
    single piece of the single term stands for all of them. `given` are the attributes among an operator's arguments.
    """

    terms: tuple[Term, ...]
    columns: tuple[tuple[Column, ...], ...]
    repeats: bool
    given: tuple[Attribute, ...] = ()

    def bind(self, written: Sequence[str]) -> list[Bound]:
        """The terms, and their literals as they are written in one text."""
        if self.repeats and len(written) > 1:
            (factor,), ((column,),) = self.terms, self.columns
            assert isinstance(factor, Factor)
            several = replace(factor, pieces=factor.pieces * len(written))
            return [(several, [(column, column.read(one)) for one in written])]
        return [
            (term, [(column, column.text(written)) for column in columns])
            for term, columns in zip(self.terms, self.columns, strict=True)
        ]

    def with_terms(self, terms: tuple[Term, ...] | None) -> "Atom | None":
        """The same atom with other terms, which call its operator with other literals; None if there are no terms."""
        if terms is None:
            return None
        return replace(self, terms=terms, columns=tuple(columns_of([t]) for t in terms))

    def attributes(self) -> set[Attribute]:
        """The attributes of the event that it looks at."""
        found = set(self.given)
        for term in self.terms:
            if not isinstance(term, SignedTest):
                found |= set() if term.attribute.asked else {term.attribute}
            elif isinstance(term.test, Comparison):
                found |= {term.test.left, term.test.right}
            else:
                found.add(term.test.attribute)
        return {field for attribute in found for field in fields_of_attribute(attribute)}


def read_atom(
    skeleton: bytes, schema: Schema | None, operators: Signatures = NO_OPERATORS
) -> Atom | None:
    """The atom of a skeleton under a schema, or under the one that it implies; None if filters with it must be
    parsed as a whole."""
    form = skeleton.decode()
    bare = form[1:-1].strip() if form[:1] == "(" and form[-1:] == ")" else form
    known = _FORM.fullmatch(bare)
    if known is None:
        return None
    text, slots = _sample(form)
    try:
        if not _reads_alike(text):
            return None
        known_schema = infer(text, operators) if schema is None else schema
        tree = parse(text, known_schema, slots)
        conjunctions = normal_form(text, tree)
    except (FilterError, SlotNeededError):
        return None
    if len(conjunctions) != 1 or not conjunctions[0]:
        return None
    terms = conjunctions[0]
    asked = [t.attribute.asked for t in terms if isinstance(t, Factor) and t.attribute.asked]
    attributes = (known_schema.find(path) for one in asked for path in event_paths(one))
    atom = Atom(
        terms,
        tuple(columns_of([t]) for t in terms),
        known["list"] is not None,
        tuple(dict.fromkeys(a for a in attributes if a is not None)),
    )
    # Without a schema, an attribute has the type of what it is compared with; two attributes leave both types open.
    return atom if schema is not None or asked or len(atom.attributes()) == 1 else None


def _sample(form: str) -> tuple[str, dict[int, int]]:
    """A text with this skeleton, and the slots of its literals by offset."""
    slots: dict[int, int] = {}
    text = ""
    last = 0
    for slot, marker in enumerate(_MARKER.finditer(form)):
        text += form[last : marker.start()]
        slots[len(text)] = slot
        text += _SAMPLES[ord(marker[0])]
        last = marker.end()
    return text + form[last:], slots


def _reads_alike(text: str) -> bool:
    """Whether sqlglot reads a condition between two others as it reads it alone."""
    whole = syntax(f"TRUE AND {text} AND TRUE")
    ends = whole.this, whole.expression
    return (
        isinstance(whole, exp.And)
        and isinstance(ends[0], exp.And)
        and isinstance(ends[0].this, exp.Boolean)
        and isinstance(ends[1], exp.Boolean)
        and bool(ends[0].expression == syntax(text))
    )


class Atoms:
    """The atoms met so far under one schema; without one, each is read under the schema it implies."""

    def __init__(self, schema: Schema | None, operators: Signatures = NO_OPERATORS) -> None:
        self.schema = schema
        self.operators = operators if schema is None else schema.operators
        self._atoms: dict[bytes, Atom | None] = {}
        self._templates: dict[str, tuple[Atom, Template]] = {}
        self._refused: Counter[str] = Counter()  # by key, skeletons without an atom

    def find(self, skeleton: bytes) -> Atom | None:
        """The atom of a skeleton, from memory if it can be."""
        atom: Atom | None
        atom = self._atoms.get(skeleton, _UNKNOWN)  # at once: another thread may clear it
        if atom is not _UNKNOWN:
            return atom
        if len(self._atoms) >= _REMEMBERED:
            self._atoms.clear()
        atom = self._read(skeleton)
        if len(skeleton) < _LONG:
            self._atoms[skeleton] = atom
        return atom

    def skeletons(self, texts: Texts) -> Skeletons:
        """The texts cut as these atoms want them."""
        return skeletons(texts, len(self.operators) > 0)

    def _read(self, skeleton: bytes) -> Atom | None:
        """The atom of a new skeleton. That of a call is made from a call with other literals, if one was parsed."""
        called = None
        if len(self.operators) and b"(" in skeleton:
            if len(skeleton) >= _LONG:
                return None  # parsed as a whole, and only once
            called = CALLED.search(skeleton.decode())
        if called is None:
            return read_atom(skeleton, self.schema, self.operators)
        key, literals = take_apart(called)
        known = self._templates.get(key)
        if known is not None:
            return known[0].with_terms(known[1].terms(known[0].terms, literals))
        if self._refused.get(key, 0) >= _TRIES:
            return None
        if len(self._templates) + len(self._refused) >= _REMEMBERED:
            self._templates.clear()
            self._refused.clear()
        atom = read_atom(skeleton, self.schema, self.operators)
        template = None if atom is None else Template.of(atom.terms, self.operators, literals)
        if atom is None:
            self._refused[key] += 1
        elif template is not None:
            self._templates[key] = atom, template
        return atom

    def of(self, text: str) -> list[Bound] | None:
        """The terms of one filter with their literals, or None if it is no plain conjunction.

        `conjunctions` does the same for many filters; for one, its arrays cost more than they save.
        """
        try:
            parts = self.skeletons(Texts.one(text))
        except UnicodeEncodeError:
            return None
        if not parts.cut[0]:
            return None
        data, offset = parts.data.tobytes(), parts.offset.tolist()
        first = parts.literal_start.tolist()
        source = text.encode()
        begin, end = parts.begin.tolist(), parts.end.tolist()
        atoms: list[Atom] = []
        found: list[Bound] = []
        for part in range(len(first) - 1):
            atom = self.find(data[offset[part] : offset[part + 1]])
            if atom is None:
                return None
            atoms.append(atom)
            literals = range(first[part], first[part + 1])
            found += atom.bind([source[begin[n] : end[n]].decode() for n in literals])
        return found if self.schema is not None or _one_type_each(atoms) else None


def _one_type_each(atoms: Iterable[Atom]) -> bool:
    """Whether atoms that were read without a schema agree on the types of their attributes."""
    types: dict[tuple[str, ...], Type] = {}
    for attribute in (attribute for atom in atoms for attribute in atom.attributes()):
        if types.setdefault(attribute.path, attribute.type) != attribute.type:
            return False
    structs = {path[:depth] for path in types for depth in range(1, len(path))}
    return structs.isdisjoint(types)
