"""Pools: literals of all filters, written alike and compared with the same attribute, are converted at once."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal as Choice

import numpy as np
import pyarrow as pa

from penstock.language import literals
from penstock.language.filter_tree import Contains, Factor, Literal, LiteralKind, Pattern
from penstock.language.literals import Bounds, Unreadable
from penstock.language.normal import Term
from penstock.language.patterns import TEXT_ROLES, TextRole, text_test
from penstock.language.types import Array, Kind, Scalar

_STRING = Scalar(Kind.STRING)

Role = Choice["value", "prefix", "start", "element"] | TextRole


@dataclass(frozen=True, slots=True)
class PoolKey:
    """What the literals of a pool have in common: the attribute, and how they are written.

    `role` is what the literal is to the attribute: a value of it, a prefix of it, an element it may contain, or what it
    is searched for, with an escape character or without.
    """

    path: tuple[str, ...]
    type: Scalar
    kind: LiteralKind
    negative: bool
    role: Role
    escape: str | None = None

    @property
    def is_text(self) -> bool:
        """Whether the literals are what texts are searched for."""
        return self.role in TEXT_ROLES

    def convert_one(self, text: str) -> tuple[int | bytes, int | bytes, int]:
        """What `convert` makes of a single literal. ValueError if it isn't one of its type."""
        if self.role in ("prefix", "start"):
            return literals.prefix_bound(text)
        if self.is_text:
            mode, body = text_test(self.role, text, self.escape)
            return body, body, mode
        return literals.literal_bound(self.kind, self.negative, text, self.type)


@dataclass(frozen=True, slots=True)
class Column:
    """One literal of a shape or of an atom, and the pool that its values go to."""

    literal: Literal
    pool: PoolKey

    def text(self, written: Sequence[str]) -> str:
        """Its text in a filter with these lifted literals."""
        slot = self.literal.slot
        return self.literal.text if slot is None else self.read(written[slot])

    def read(self, written: str) -> str:
        """A lifted literal without its quotes, a prefix without its `%`."""
        if written[0] == "'":
            written = written[1:-1].replace("''", "'")
        return written.rstrip("%") if self.pool.role == "prefix" else written


@dataclass(slots=True)
class Pool:
    """The literals of one kind for one attribute, and their bounds; of text tests, their bodies and modes instead.

    First come those that were lifted out of plain conjunctions, then `texts`: what an atom always has, and the literals
    of groups. `owners` says at which position those of a column of a group begin.
    """

    lifted: pa.LargeBinaryArray = field(default_factory=lambda: literals.column([]))
    texts: list[str] = field(default_factory=list)
    owners: list[tuple[int, int, int]] = field(default_factory=list)  # (start, group, column)
    bounds: Bounds | None = None

    def __len__(self) -> int:
        return len(self.lifted) + len(self.texts)

    def keep(self, literal: Literal) -> int:
        """Add a literal that an atom always has; its position."""
        self.texts.append(literal.text)
        return len(self) - 1

    def convert(self, key: PoolKey) -> list[Unreadable]:
        """Find the bounds. Returns the literals that can't be read."""
        texts = self.lifted
        if self.texts:
            texts = pa.concat_arrays([texts, literals.column(self.texts)])
        if key.role in ("prefix", "start"):
            self.bounds = literals.prefix_bounds(texts)
            return []
        if key.is_text:
            self.bounds, unreadable = _text_bounds(key, texts)
            return unreadable
        self.bounds, unreadable = literals.bounds(key.kind, key.negative, texts, key.type)
        return unreadable


def columns_of(terms: Iterable[Term]) -> tuple[Column, ...]:
    """The literals of terms, in the order in which they stand there."""
    return tuple(column for term in terms for column in _columns(term))


def width(term: Term) -> int:
    """How many literals a term has."""
    if isinstance(term, Factor):
        return len(term.pieces)
    return 1 if isinstance(term.test, Contains | Pattern) else 0


def _columns(term: Term) -> list[Column]:
    if isinstance(term, Factor):
        type_, path = term.attribute.type, term.attribute.path
        if not isinstance(type_, Scalar):  # then it is IS NULL, which has no literals
            return []
        return [
            _column(p.literal, path, type_, p.order if p.order in ("prefix", "start") else "value")
            for p in term.pieces
        ]
    if isinstance(term.test, Pattern):
        test = term.test
        key = PoolKey(
            test.attribute.path, _STRING, LiteralKind.STRING, False, test.role, test.escape
        )
        return [Column(test.literal, key)]
    if isinstance(term.test, Contains):
        attribute = term.test.attribute
        assert isinstance(attribute.type, Array)
        return [_column(term.test.literal, attribute.path, attribute.type.element, "element")]
    return []


def _column(literal: Literal, path: tuple[str, ...], type_: Scalar, role: Role) -> Column:
    return Column(literal, PoolKey(path, type_, literal.kind, literal.negative, role))


def _text_bounds(key: PoolKey, texts: pa.LargeBinaryArray) -> tuple[Bounds, list[Unreadable]]:
    """The bodies and modes of text tests, each distinct one read once."""
    coded = texts.dictionary_encode()
    bodies: list[bytes] = []
    modes: list[int] = []
    reasons: dict[int, str] = {}
    for number, text in enumerate(coded.dictionary.to_pylist()):
        try:
            mode, body = text_test(key.role, text.decode(), key.escape)
        except ValueError as error:
            mode, body = 0, b""
            reasons[number] = str(error)
        bodies.append(body)
        modes.append(mode)
    places = coded.indices.to_numpy()
    unreadable: list[Unreadable] = []
    if reasons:
        bad = np.flatnonzero(np.isin(places, list(reasons))).tolist()
        unreadable = [Unreadable(place, reasons[int(places[place])]) for place in bad]
    found = pa.array(bodies, pa.large_binary()).take(coded.indices)
    mode_array = np.array(modes, np.int8)[places]
    return Bounds(found, found, mode_array if mode_array.any() else None), unreadable
