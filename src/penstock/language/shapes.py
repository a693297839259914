"""Filters of one shape share one parse.

A million saved searches are made by a few forms: their texts differ in the literals only. So the literals are lifted
out of every text with one regular expression (about a tenth of what a parse costs), what is left is the
key of the *shape*, and each distinct shape is parsed, checked and normalised once. A group is a shape with one column
of literals per slot; the compiler works on whole columns.

What the expression can't lift safely (comments, escapes, dollar quotes …) stays in the key as it is: such a filter is
parsed for itself alone. The same goes for general LIKE patterns, each of which is a predicate of its own.
"""

import bisect
import functools
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal as Choice

from penstock.errors import FilterError
from penstock.language import literals, patterns
from penstock.language.infer import infer
from penstock.language.literals import Bounds
from penstock.language.normal import Conjunction, Term, normal_form
from penstock.language.operands import SlotNeededError
from penstock.language.parser import parse
from penstock.language.schema import Array, Scalar, Schema
from penstock.language.syntax import MAX_TEXT
from penstock.language.tree import Contains, Factor, Literal, LiteralKind, Tree

# A string, a quoted identifier, or a number that is no part of a word. One group, so that `split` keeps them.
_LIFTED = re.compile(
    r"""('(?:[^']|'')*'|"(?:[^"]|"")*"|(?<![\w.$])(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?(?![\w.]))"""
)
_ODD = re.compile(r"""['"$\\#;{}\0]|--|/\*|escape""", re.IGNORECASE)
_ENDS_IN_WORD = re.compile(r"[\w]$")
_CACHED_SHAPES = 20_000
_EXACT_ERRORS = (
    1_000  # refused filters parsed once more each, so that the error has its own position
)

Key = tuple[str | int, ...]
Progress = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class PoolKey:
    """What literals have in common that are converted together: the attribute, and how they are written.

    `role` is what the literal is to the attribute: a value of it, a prefix of it, or an element it may contain.
    """

    path: tuple[str, ...]
    type: Scalar
    kind: LiteralKind
    negative: bool
    role: Choice["value", "prefix", "element"]


@dataclass(frozen=True, slots=True)
class Column:
    """One literal of a shape, and the pool that its values go to."""

    literal: Literal
    pool: PoolKey


@dataclass(frozen=True, slots=True)
class Shape:
    """What filters of one shape have in common.

    In each conjunction the terms of one attribute stand together; `columns` has the literals of all the terms, in
    that order.
    """

    tree: Tree
    conjunctions: tuple[Conjunction, ...]
    columns: tuple[Column, ...]

    @staticmethod
    def of(text: str, tree: Tree) -> "Shape":
        conjunctions = tuple(
            tuple(sorted(conjunction, key=_attribute_order))
            for conjunction in normal_form(text, tree)
        )
        columns = [c for conjunction in conjunctions for t in conjunction for c in _columns(t)]
        return Shape(tree, conjunctions, tuple(columns))


@dataclass(slots=True)
class Group:
    """The filters of one shape: their row numbers, and their literals as written, one tuple per filter."""

    shape: Shape
    rows: list[int] = field(default_factory=list)
    lifted: list[tuple[str, ...]] = field(default_factory=list)

    def texts(self, literal: Literal) -> list[str]:
        """The values of one literal, strings unquoted; a single one if it is the same for all filters."""
        slot = literal.slot
        if slot is None:
            return [literal.text]
        column = [values[slot] for values in self.lifted]
        if column[0][0] == "'":
            return [v[1:-1].replace("''", "'") if "''" in v else v[1:-1] for v in column]
        return column


@dataclass(slots=True)
class Pool:
    """The literals of one kind for one attribute, of all groups end to end, and their bounds."""

    texts: list[str] = field(default_factory=list)
    owners: list[tuple[int, Group, int]] = field(default_factory=list)  # (start, group, column)
    bounds: Bounds | None = None


@dataclass(frozen=True, slots=True)
class Grouped:
    """Filters sorted by shape. `starts[g][c]` is where the literals of column c of group g begin in their pool."""

    groups: list[Group]
    pools: dict[PoolKey, Pool]
    starts: list[list[int]]
    errors: list[tuple[int, FilterError]]


class Shapes:
    """The shapes met so far under one schema; without one, each shape is read under the schema it implies."""

    def __init__(self, schema: Schema | None) -> None:
        self.schema = schema
        self._shapes: dict[Key, Shape | FilterError | None] = {}

    @staticmethod
    @functools.lru_cache(maxsize=16)
    def under(schema: Schema | None) -> "Shapes":
        """The shared cache for a schema."""
        return Shapes(schema)

    def parse(self, text: str) -> Shape:
        """The shape of one filter on its own, nothing lifted: every literal is in the tree."""
        return Shape.of(text, parse(text, self.schema or infer(text)))

    def group(self, texts: Sequence[str | None], progress: Progress | None = None) -> Grouped:
        """Sort filters by shape. Those that can't be subscribed are told by row, with the reason."""
        gathered: dict[Key, Group] = {}
        refused: list[tuple[int, str]] = []
        for row, text in enumerate(texts):
            if text is None:
                refused.append((row, "the filter is NULL"))
                continue
            key, lifted = _lift(text)
            group = gathered.get(key)
            if group is None:
                shape = self._shape(key, text, lifted)
                if shape is None:
                    key, lifted = (text,), ()
                    shape = self._shape(key, text, lifted)
                if not isinstance(shape, Shape):
                    refused.append((row, shape.reason if shape else "refused"))
                    continue
                group = gathered.setdefault(key, Group(shape))
            group.rows.append(row)
            group.lifted.append(lifted)
            if progress is not None and row % 4096 == 4095:
                progress(4096)
        errors = self._explain(texts, refused)
        groups = list(gathered.values())
        pools, starts = pool_literals(groups)
        bad: dict[int, FilterError] = {}
        for pool_key, pool in pools.items():
            for row, column, reason in _unreadable(pool, pool_key):
                if row not in bad:
                    bad[row] = self._literal_error(texts[row], column, reason)
        errors += bad.items()
        return Grouped(groups, pools, starts, sorted(errors, key=lambda e: e[0]))

    def _literal_error(self, text: str | None, column: int, reason: str) -> FilterError:
        """The error for one literal, found again in its own text by its place in the shape."""
        assert text is not None
        return FilterError(text, reason, *self.parse(text).columns[column].literal.span)

    def _shape(self, key: Key, text: str, lifted: tuple[str, ...]) -> Shape | FilterError | None:
        if key in self._shapes:
            return self._shapes[key]
        if len(self._shapes) >= _CACHED_SHAPES:
            self._shapes.clear()
        shape: Shape | FilterError | None
        try:
            tree = parse(text, self.schema or infer(text), _slots(text, lifted))
            shape = Shape.of(text, tree)
        except SlotNeededError:
            shape = None
        except FilterError as error:
            shape = error
        if len(text) < 4096:  # long texts are rare and would fill the cache with themselves
            self._shapes[key] = shape
        return shape

    def _explain(
        self, texts: Sequence[str | None], refused: Sequence[tuple[int, str]]
    ) -> list[tuple[int, FilterError]]:
        """Why each filter was refused: parsed once more alone, so that the position is its own."""
        errors: list[tuple[int, FilterError]] = []
        for row, reason in refused:
            text = texts[row]
            if text is not None and len(errors) < _EXACT_ERRORS:
                errors.append((row, self._error(text)))
            else:
                errors.append((row, FilterError(text or "", reason)))
        return errors

    def _error(self, text: str) -> FilterError:
        try:
            self.parse(text)
        except FilterError as error:
            return error
        raise AssertionError(f"refused as a shape, accepted alone: {text[:200]!r}")


def pool_literals(groups: Sequence[Group]) -> tuple[dict[PoolKey, Pool], list[list[int]]]:
    """Put the literals of all groups that are of one kind end to end, and convert them at once."""
    pools: dict[PoolKey, Pool] = {}
    starts: list[list[int]] = []
    for group in groups:
        mine: list[int] = []
        for number, column in enumerate(group.shape.columns):
            pool = pools.get(column.pool)
            if pool is None:
                pool = pools.setdefault(column.pool, Pool())
            mine.append(len(pool.texts))
            pool.owners.append((len(pool.texts), group, number))
            texts = group.texts(column.literal)
            if column.pool.role == "prefix" and column.literal.slot is not None:
                texts = [text.rstrip("%") for text in texts]
            pool.texts += texts
        starts.append(mine)
    return pools, starts


def pool_shapes(shapes: Sequence[Shape]) -> Grouped:
    """Shapes of filters parsed alone, whose literals are all in their trees, as groups of one row each."""
    groups = [Group(shape, [row], [()]) for row, shape in enumerate(shapes)]
    pools, starts = pool_literals(groups)
    for key, pool in pools.items():
        for _, _, reason in _unreadable(pool, key):
            raise AssertionError(reason)
    return Grouped(groups, pools, starts, [])


def _unreadable(pool: Pool, key: PoolKey) -> Iterator[tuple[int, int, str]]:
    """Convert a pool; what can't be read is told by row, column of the shape, and reason."""
    if key.role == "prefix":
        pool.bounds = literals.prefix_bounds(pool.texts)
        return
    pool.bounds, unreadable = literals.bounds(key.kind, key.negative, pool.texts, key.type)
    for one in unreadable:
        at = bisect.bisect_right(pool.owners, one.position, key=lambda owner: owner[0]) - 1
        start, group, column = pool.owners[at]
        shared = group.shape.columns[column].literal.slot is None
        for row in group.rows if shared else [group.rows[one.position - start]]:
            yield row, column, one.reason


def _attribute_order(term: Term) -> tuple[bool, tuple[str, ...]]:
    return (False, term.attribute.path) if isinstance(term, Factor) else (True, ())


def _columns(term: Term) -> list[Column]:
    if isinstance(term, Factor):
        type_, path = term.attribute.type, term.attribute.path
        if not isinstance(type_, Scalar):
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


def _column(
    literal: Literal,
    path: tuple[str, ...],
    type_: Scalar,
    role: Choice["value", "prefix", "element"],
) -> Column:
    return Column(literal, PoolKey(path, type_, literal.kind, literal.negative, role))


def _lift(text: str) -> tuple[Key, tuple[str, ...]]:
    """The key of a filter's shape and the literals taken out of it."""
    if len(text) > MAX_TEXT:
        return (text,), ()
    parts = _LIFTED.split(text)
    lifted = tuple(parts[1::2])
    if "ike" in text or "IKE" in text:
        parts[1::2] = [_like_kind(parts[i - 1], parts[i]) for i in range(1, len(parts), 2)]
    else:
        parts[1::2] = [_kind(literal) for literal in lifted]
    return tuple(parts), lifted


def _kind(literal: str) -> str | int:
    # Integers stand for the kinds, so that no kind can be mistaken for a quoted identifier, which stays as it is.
    first = literal[0]
    if first == "'":
        return 0
    if first == '"':
        return literal
    if "." in literal:
        return 3 if "e" in literal or "E" in literal else 2
    return 3 if "e" in literal or "E" in literal else 1


def _like_kind(before: str, literal: str) -> str | int:
    if literal[0] == "'" and before.rstrip()[-4:].lower() == "like":
        parts = patterns.take_apart(literal[1:-1])
        if len(literal) <= patterns.MAX_PATTERN:
            return 4 if parts.is_exact else 5 if parts.is_prefix else literal
        return literal
    return _kind(literal)


def _slots(text: str, lifted: tuple[str, ...]) -> dict[int, int]:
    """Where in the text each lifted literal begins. Nothing is lifted from a text with odd parts."""
    slots: dict[int, int] = {}
    position = 0
    for index, part in enumerate(_LIFTED.split(text) if lifted else ()):
        if index % 2:
            if part[0] != '"':
                slots[position] = index // 2
        elif _ODD.search(part):
            raise SlotNeededError
        elif (
            _ENDS_IN_WORD.search(part)
            and text[position + len(part) : position + len(part) + 1] == "'"
        ):
            raise SlotNeededError  # E'…', x'…'
        position += len(part)
    return slots
