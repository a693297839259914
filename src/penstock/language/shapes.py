"""Filters in bulk: what they have in common is read once.

A million saved searches are made of a few predicates on a few attributes; their texts differ in the literals, and in
which predicates they put together. There are two ways to make use of that:

  - a filter that is a plain conjunction, as most are, is put together from its *atoms* (`atoms`, `conjunctions`): each
    predicate without its literals is parsed once ever;
  - any other filter without its literals (`lifting`) is a *shape*, and each distinct shape is parsed once. A group is a
    shape with one column of literals per slot.

Either way the literals go into pools, and the compiler works on whole columns.
"""

import bisect
import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.base.errors import FilterError
from penstock.language.atoms import Atoms, Bound
from penstock.language.conjunctions import Conjunctions, Progress, plain_conjunctions
from penstock.language.filter_tree import Factor, Tree
from penstock.language.infer import infer_from
from penstock.language.lifting import ShapeKey, keep_literals, lift, slots_of
from penstock.language.long_texts import LONG, LongTexts, without_collections
from penstock.language.normal import Conjunction, Term, normal_form
from penstock.language.operands import SlotNeededError
from penstock.language.parser import parse_tree
from penstock.language.pools import Column, Pool, PoolKey, columns_of, width
from penstock.language.schema import Schema
from penstock.language.signatures import NO_OPERATORS, Signatures
from penstock.language.syntax import UNPRINTABLE, syntax
from penstock.language.texts import Texts

__all__ = ["Column", "Group", "Grouped", "Pool", "PoolKey", "Shape", "Shapes", "pool_shapes"]

_CACHED_SHAPES = 20_000
_UNKNOWN: Any = object()
_EXACT_ERRORS = (
    1_000  # refused filters that are parsed once more, so that the error has its position
)

Filters = Any  # Sequence[str | None] | pa.Array | pa.ChunkedArray: to mypy, Arrow has no types


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
        return Shape(tree, conjunctions, columns_of(t for c in conjunctions for t in c))


@dataclass(slots=True)
class Group:
    """The filters of one shape: their row numbers, and their literals as written, one tuple per filter."""

    shape: Shape
    rows: list[int] = field(default_factory=list)
    lifted: list[tuple[str, ...]] = field(default_factory=list)

    def texts(self, column: Column) -> list[str]:
        """The values of one literal, strings unquoted; a single one if it is the same for all filters."""
        if column.literal.slot is None:
            return [column.literal.text]
        return [column.text(lifted) for lifted in self.lifted]


@dataclass(frozen=True, slots=True)
class Grouped:
    """Filters as the compiler takes them: plain conjunctions in columns, the others by shape.

    `starts[g][c]` is where the literals of column c of group g begin in their pool.
    """

    groups: list[Group]
    pools: dict[PoolKey, Pool]
    starts: list[list[int]]
    errors: list[tuple[int, FilterError]]
    plain: Conjunctions = field(default_factory=Conjunctions.none)


class Shapes:
    """The shapes and atoms met so far under one schema; without one, each is read under the schema it implies."""

    def __init__(self, schema: Schema | None, operators: Signatures = NO_OPERATORS) -> None:
        if schema is not None and len(operators):
            schema = schema.with_operators(operators)
        self.schema = schema
        self.operators = operators if schema is None else schema.operators
        self._atoms = Atoms(schema, self.operators)
        self._shapes: dict[ShapeKey, Shape | FilterError | frozenset[int] | None] = {}
        self._long = LongTexts[Shape | FilterError]()

    @staticmethod
    @functools.lru_cache(maxsize=16)
    def under(schema: Schema | None, operators: Signatures = NO_OPERATORS) -> "Shapes":
        """The shared cache for a schema. A schema has its own operators, unless others are given."""
        return Shapes(schema, operators)

    def parse(self, text: str) -> Shape:
        """The shape of one filter on its own, nothing lifted: every literal is in the tree."""
        return Shape.of(text, self._tree(text))

    def _tree(self, text: str, slots: Mapping[int, int] | None = None) -> Tree:
        """The tree of a filter: sqlglot reads it once, also where its schema is inferred."""
        node = syntax(text)
        schema = self.schema
        if schema is None:
            schema = infer_from(text, node, self.operators)
        return parse_tree(text, node, schema, slots)

    def _lift(self, text: str) -> tuple[ShapeKey, tuple[str, ...]]:
        return lift(text, len(self.operators) > 0)

    def one(self, text: str) -> list[list[Bound]]:
        """The conjunctions of one filter. FilterError if the text isn't a filter; literals aren't checked."""
        plain = self._atoms.of(text)
        if plain is not None:
            return [plain]
        _, lifted, shape = self._find(text, *self._lift(text))
        if not isinstance(shape, Shape):
            raise self.error(text)
        literals = ((column, column.text(lifted)) for column in shape.columns)
        return [
            [(term, list(islice(literals, width(term)))) for term in conjunction]
            for conjunction in shape.conjunctions
        ]

    def read(self, filters: Filters, progress: Progress | None = None) -> Grouped:
        """Read filters. Those that can't be subscribed are among the errors, by row.

        >>> found = Shapes(None).read(["a > 5 AND b = 1", "a > 5 OR b = 1", "a >"])
        >>> found.plain.rows.tolist(), found.groups[0].rows, [row for row, _ in found.errors]
        ([0], [1], [2])
        """
        pools: dict[PoolKey, Pool] = {}
        plain = plain_conjunctions(Texts.of(_column(filters)), self._atoms, pools, progress)
        others = np.ones(len(filters), np.bool_)
        others[plain.rows] = False
        return self._grouped(filters, np.flatnonzero(others).tolist(), pools, plain)

    def error(self, text: str) -> FilterError:
        """Why a filter is refused: read alone, so that the position is its own."""
        if len(text) < LONG:
            return self._error(text)
        kept = self._long.get(("error", text))
        if not isinstance(kept, FilterError):
            kept = self._error(text)
            self._long.put(("error", text), kept, len(text))
        return kept

    def _error(self, text: str) -> FilterError:
        try:
            shape = self.parse(text)
        except FilterError as error:
            return error
        for column in shape.columns:
            try:
                column.pool.convert_one(column.literal.text)
            except ValueError as error:
                return FilterError(text, str(error), *column.literal.span)
        raise AssertionError(f"refused in company, accepted alone: {text[:200]!r}")

    def _grouped(
        self,
        filters: Filters,
        rows: Iterable[int],
        pools: dict[PoolKey, Pool],
        plain: Conjunctions,
    ) -> Grouped:
        gathered: dict[ShapeKey, Group] = {}
        refused: dict[int, str] = {}
        for row in rows:
            text = _text(filters, row)
            if text is None:
                refused[row] = "the filter is NULL"
                continue
            key, lifted = self._lift(text)
            group = gathered.get(key)
            if group is None:
                key, lifted, shape = self._find(text, key, lifted)
                if isinstance(shape, FilterError):
                    refused[row] = shape.reason
                    continue
                group = gathered.setdefault(key, Group(shape))
            group.rows.append(row)
            group.lifted.append(lifted)
        groups = list(gathered.values())
        starts = pool_literals(groups, pools)
        for pool_key, pool in pools.items():
            for row, reason in _unreadable(pool_key, pool, groups, plain):
                refused.setdefault(row, reason)
        return Grouped(groups, pools, starts, self._explain(filters, refused), plain)

    def _find(
        self, text: str, key: ShapeKey, lifted: tuple[str, ...]
    ) -> tuple[ShapeKey, tuple[str, ...], Shape | FilterError]:
        """The shape of a filter. If it can't share a parse after all, the text is its key, and nothing is lifted."""
        shape = self._shape(key, text)
        while isinstance(shape, frozenset):  # no slot is kept twice
            key = keep_literals(key, lifted, shape)
            shape = self._shape(key, text)
        if shape is None:
            key, lifted = (text,), ()
            shape = self._shape(key, text)
        assert shape is not None, "nothing was lifted"
        assert not isinstance(shape, frozenset), "nothing was lifted"
        return key, lifted, shape

    def _shape(self, key: ShapeKey, text: str) -> Shape | FilterError | frozenset[int] | None:
        """None if filters of this shape can't share one parse; slots, if those with the same literals there can."""
        shape: Shape | FilterError | frozenset[int] | None
        shape = self._shapes.get(key, _UNKNOWN)  # at once: another thread may clear it
        if shape is not _UNKNOWN:
            return shape
        is_long = len(text) >= LONG
        if is_long and (kept := self._long.get(key)) is not None:
            return kept
        if len(self._shapes) >= _CACHED_SHAPES:
            self._shapes.clear()
        try:
            with without_collections() if is_long else nullcontext():
                tree = self._tree(text, slots_of(text, key))
                shape = Shape.of(text, tree)
        except SlotNeededError as error:
            shape = error.slots or None
        except FilterError as error:
            shape = error
        if not is_long:
            self._shapes[key] = shape
        elif isinstance(shape, Shape | FilterError):
            self._long.put(key, shape, len(text))
        return shape

    def _explain(self, filters: Filters, refused: dict[int, str]) -> list[tuple[int, FilterError]]:
        errors: list[tuple[int, FilterError]] = []
        for row in sorted(refused):
            text = _text(filters, row)
            if text is not None and len(errors) < _EXACT_ERRORS:
                errors.append((row, self.error(text)))
            else:
                errors.append((row, FilterError(text or "", refused[row])))
        return errors


def pool_literals(groups: Sequence[Group], pools: dict[PoolKey, Pool]) -> list[list[int]]:
    """Add the literals of groups to the pools. Where those of each column of each group begin."""
    starts: list[list[int]] = []
    for number, group in enumerate(groups):
        mine: list[int] = []
        for c, column in enumerate(group.shape.columns):
            pool = pools.get(column.pool)
            if pool is None:
                pool = pools.setdefault(column.pool, Pool())
            mine.append(len(pool))
            pool.owners.append((len(pool), number, c))
            pool.texts += group.texts(column)
        starts.append(mine)
    return starts


def pool_shapes(shapes: Sequence[Shape]) -> Grouped:
    """Shapes of filters parsed alone, whose literals are all in their trees, as groups of one row each."""
    groups = [Group(shape, [row], [()]) for row, shape in enumerate(shapes)]
    pools: dict[PoolKey, Pool] = {}
    starts = pool_literals(groups, pools)
    for key, pool in pools.items():
        for unreadable in pool.convert(key):
            raise AssertionError(unreadable.reason)
    return Grouped(groups, pools, starts, [])


def _unreadable(
    key: PoolKey, pool: Pool, groups: Sequence[Group], plain: Conjunctions
) -> Iterator[tuple[int, str]]:
    """Convert a pool; the rows of the literals that can't be read, and the reasons."""
    bad = pool.convert(key)
    lifted = [one for one in bad if one.position < len(pool.lifted)]
    if lifted:
        rows = plain.rows_of(key, [one.position for one in lifted])
        yield from zip(rows, (one.reason for one in lifted), strict=True)
    for one in bad[len(lifted) :]:
        at = bisect.bisect_right(pool.owners, one.position, key=lambda owner: owner[0]) - 1
        start, number, column = pool.owners[at]
        group = groups[number]
        shared = group.shape.columns[column].literal.slot is None
        for row in group.rows if shared else [group.rows[one.position - start]]:
            yield row, one.reason


def _attribute_order(term: Term) -> tuple[bool, tuple[str, ...]]:
    return (False, term.attribute.path) if isinstance(term, Factor) else (True, ())


def _text(filters: Filters, row: int) -> str | None:
    found = filters[row]
    text: str | None = found.as_py() if isinstance(found, pa.Scalar) else found
    return text


def _column(filters: Filters) -> pa.Array:
    """Filters in Arrow; NULL where one is NULL or can't be UTF-8."""
    if isinstance(filters, pa.ChunkedArray):
        return pa.concat_arrays(filters.chunks) if filters.num_chunks else pa.array([], pa.string())
    if isinstance(filters, pa.Array):
        return filters
    try:
        return pa.array(filters, pa.large_string())
    except UnicodeEncodeError:
        valid = (None if t is None or UNPRINTABLE.search(t) else t for t in filters)
        return pa.array(valid, pa.large_string())
