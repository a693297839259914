"""Pools: the literals of all filters that are written alike and compared with the same attribute, converted at once."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal as Choice

import pyarrow as pa

from penstock.language import literals
from penstock.language.filter_tree import Contains, Factor, Literal, LiteralKind
from penstock.language.literals import Bounds, Unreadable
from penstock.language.normal import Term
from penstock.language.types import Array, Scalar

Role = Choice["value", "prefix", "element"]


@dataclass(frozen=True, slots=True)
class PoolKey:
    """What literals have in common that are converted together: the attribute, and how they are written.

    `role` is what the literal is to the attribute: a value of it, a prefix of it, or an element it may contain.
    """

    path: tuple[str, ...]
    type: Scalar
    kind: LiteralKind
    negative: bool
    role: Role

    def convert_one(self, text: str) -> tuple[int | bytes, int | bytes, int]:
        """What `convert` makes of a single literal. ValueError if it isn't one of its type."""
        if self.role == "prefix":
            return literals.prefix_bound(text)
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
    """The literals of one kind for one attribute, and their bounds.

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
        if key.role == "prefix":
            self.bounds = literals.prefix_bounds(texts)
            return []
        self.bounds, unreadable = literals.bounds(key.kind, key.negative, texts, key.type)
        return unreadable


def columns_of(terms: Iterable[Term]) -> tuple[Column, ...]:
    """The literals of terms, in the order in which they stand there."""
    return tuple(column for term in terms for column in _columns(term))


def width(term: Term) -> int:
    """How many literals a term has."""
    if isinstance(term, Factor):
        return len(term.pieces)
    return 1 if isinstance(term.test, Contains) else 0


def _columns(term: Term) -> list[Column]:
    if isinstance(term, Factor):
        type_, path = term.attribute.type, term.attribute.path
        if not isinstance(type_, Scalar):  # then it is IS NULL, which has no literals
            return []
        return [
            _column(p.literal, path, type_, "prefix" if p.order == "prefix" else "value")
            for p in term.pieces
        ]
    if isinstance(term.test, Contains):
        attribute = term.test.attribute
        assert isinstance(attribute.type, Array)
        return [_column(term.test.literal, attribute.path, attribute.type.element, "element")]
    return []


def _column(literal: Literal, path: tuple[str, ...], type_: Scalar, role: Role) -> Column:
    return Column(literal, PoolKey(path, type_, literal.kind, literal.negative, role))
