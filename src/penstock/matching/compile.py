"""Subscriptions -> plan.

Filters arrive grouped by shape (`language.shapes`), their literals in pools, so the work is done on columns:

    1. discretise      the constants of all filters cut every attribute into cells; literals become cell numbers
    2. intersect       per conjunction and attribute one set of cells; an empty one is a contradiction
    3. canonical       equal filters become equal conjunctions, however they are written
    4. share           each distinct conjunction once, its predicates beside it, with its subscriptions

There is no Python object per subscription, but for sets of several ranges (IN lists, negations).
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.base.arrays import Int32s, Int64s, offsets
from penstock.base.errors import FilterError
from penstock.language.calls import Path
from penstock.language.conjunctions import Conjunctions, Progress
from penstock.language.filter_tree import Comparison, Contains, Factor, Pattern
from penstock.language.literals import Bounds
from penstock.language.normal import Conjunction, SignedTest, Term
from penstock.language.pools import width
from penstock.language.schema import Attribute, Schema
from penstock.language.shapes import Group, Grouped, PoolKey, Shape, Shapes, pool_shapes
from penstock.matching.canonical import canonical
from penstock.matching.derived import (
    FALSE,
    TRUE,
    AttributeTest,
    DerivedAttributes,
    PatternTest,
    PlainTest,
)
from penstock.matching.domains import ByteStrings, Cuts, Domain, build_domain
from penstock.matching.filled_cells import Snap, filled_cells
from penstock.matching.intersect import (
    AT_LEAST,
    AT_MOST,
    EQUAL,
    LESS,
    MORE,
    FilterBlocks,
    Pieces,
    intersect,
)
from penstock.matching.operator_tests import separate_operators
from penstock.matching.plan import Plan
from penstock.matching.sharing import CellTests, share, without_tautologies
from penstock.matching.subscription_rows import FOREVER, Rows

Errors = list[tuple[int, FilterError]]

_FROM_PIECE = -(1 << 62)  # instead of the place of a membership: its literal says which one it is
_ORDERS = {
    "=": EQUAL,
    "prefix": EQUAL,
    "<": LESS,
    "<=": AT_MOST,
    ">": MORE,
    ">=": AT_LEAST,
}


def compile_plan(
    rows: Rows, schema: Schema, progress: Progress | None = None
) -> tuple[Plan, Errors]:
    """Compile subscriptions for events of a schema. Those that don't fit it, or couldn't be read, are returned by id.

    >>> rows = Rows.of([(1, "ann", "price > 5", FOREVER), (2, "bob", "prise > 5", FOREVER)])
    >>> plan, errors = compile_plan(rows, Schema.of({"price": "double"}))
    >>> plan.ids.tolist(), [sid for sid, _ in errors]
    ([1], [2])
    """
    order = np.argsort(rows.ids, kind="stable")
    ids = rows.ids[order]
    if len(ids) and (ids[1:] == ids[:-1]).any():
        raise ValueError("subscription ids are not unique")
    grouped = Shapes.under(schema).read(rows.filters.take(pa.array(order)), progress)
    kept = np.ones(len(ids), np.bool_)
    kept[[row for row, _ in grouped.errors]] = False
    order = order[kept]
    plan = compile_groups(grouped, schema, ids[kept], np.where(kept, np.cumsum(kept) - 1, -1))
    plan = replace(
        plan,
        expires=rows.expires[order],
        subscribers=_strings(rows.subscribers, order),
        filters=_strings(rows.filters, order),
    )
    return plan, [*rows.errors, *((int(ids[row]), error) for row, error in grouped.errors)]


def compile_shapes(shapes: Sequence[Shape], schema: Schema) -> Plan:
    """The plan of filters that were parsed alone: subscription s is the shape at position s."""
    return compile_groups(pool_shapes(shapes), schema, np.arange(len(shapes)))


def compile_groups(
    grouped: Grouped, schema: Schema, ids: Int64s, position: Int64s | None = None
) -> Plan:
    """The plan of filters already parsed. `position` is where in `ids` a row stands; negative: nowhere."""
    domains, asked, elements = _discretise(grouped)
    every = [*domains, *asked.values()]
    pools = _Pools(grouped, every, elements)
    blocks = _Blocks(pools, {domain.path: n for n, domain in enumerate(every)})
    for group, starts in zip(grouped.groups, grouped.starts, strict=True):
        blocks.add(group, starts)
    blocks.add_plain(grouped.plain)
    rows = _joined(blocks.rows, np.int64)
    owners, conjunction, attribute, ranges, low, high = intersect(
        blocks.pack(),
        rows if position is None else position[rows],
        np.array([d.last for d in every], np.int64),
    )
    derived = DerivedAttributes(tuple(blocks.plain), tuple(elements), *pools.memberships)
    last_cells = np.array([d.last for d in every] + [TRUE] * len(derived), np.int64)
    tests = CellTests(conjunction, attribute, ranges, low, high)
    operators = None
    if asked:
        # Before cells without values are taken off: what accepts all cells of an answer isn't even asked for.
        tests = without_tautologies(tests, last_cells)
    truths = np.ones(TRUE + 1, np.bool_)
    snap = Snap([*map(filled_cells, every), *[truths] * len(derived)])
    tests, owners = canonical(tests, owners, snap)
    last_cells = snap.top.astype(np.int64)
    if asked:
        operators, tests, owners = separate_operators(
            tests, owners, last_cells, len(domains), asked, schema.operators, len(ids)
        )
        last_cells = np.delete(last_cells, np.arange(len(domains), len(every)))
    shared = share(tests, owners, last_cells, derived_from=len(domains))
    nobody = ByteStrings(np.zeros(len(ids) + 1, np.int64), np.empty(0, np.uint8))
    return Plan(
        schema=schema,
        domains=tuple(domains),
        cuts=Cuts.of(domains),
        derived=derived,
        ids=ids,
        expires=np.full(len(ids), FOREVER, np.int64),
        subscribers=nobody,
        filters=nobody,
        index={},
        operators=operators,
        **vars(shared),
    )


def _strings(strings: pa.StringArray, order: Int64s) -> ByteStrings:
    found = ByteStrings.of(strings.take(pa.array(order)))
    return ByteStrings(found.offsets.copy(), found.data.copy())


def _joined(parts: Sequence[Any], dtype: type) -> npt.NDArray[Any]:
    return np.concatenate(parts).astype(dtype, copy=False) if parts else np.empty(0, dtype)


# --- 1. discretise -----------------------------------------------------------------------------


def _discretise(
    grouped: Grouped,
) -> tuple[list[Domain], dict[Attribute, Domain], list[Domain]]:
    """Cut every attribute, all that is asked of operators, and the elements of every array, at the constants they are
    compared with."""
    attributes: dict[Path, Attribute] = {}
    shapes = {id(g.shape): g.shape for g in grouped.groups}.values()
    shaped = (
        term for shape in shapes for conjunction in shape.conjunctions for term in conjunction
    )
    for term in itertools.chain(shaped, grouped.plain.terms):
        if isinstance(term, Factor):
            attributes.setdefault(term.attribute.path, term.attribute)
    bounds: dict[Path, list[Bounds]] = {path: [] for path in attributes}
    elements: dict[Path, tuple[PoolKey, list[Bounds]]] = {}
    for key, pool in grouped.pools.items():
        assert pool.bounds is not None
        if key.role == "element":
            elements.setdefault(key.path, (key, []))[1].append(pool.bounds)
        else:
            bounds[key.path].append(pool.bounds)
    built = {path: build_domain(path, attributes[path].type, b) for path, b in bounds.items()}
    return (
        [domain for path, domain in built.items() if attributes[path].asked is None],
        {attributes[p]: domain for p, domain in built.items() if attributes[p].asked is not None},
        [build_domain(path, key.type, found) for path, (key, found) in elements.items()],
    )


class _Pools:
    """All pools end to end, their literals as cells; for array membership as derived attributes."""

    def __init__(
        self, grouped: Grouped, domains: Sequence[Domain], elements: Sequence[Domain]
    ) -> None:
        self.start: dict[PoolKey, int] = {}
        by_path = {domain.path: domain for domain in domains}
        element_number = {domain.path: n for n, domain in enumerate(elements)}
        low: list[Int32s] = []
        high: list[Int32s] = []
        self.member: list[Int32s] = []  # the membership of each literal of the element pools
        numbers: dict[tuple[int, int, int], int] = {}
        total = 0
        for key, pool in grouped.pools.items():
            assert pool.bounds is not None
            if key.role == "element":
                element = element_number[key.path]
                self.start[key] = sum(map(len, self.member))
                self.member.append(_memberships(element, elements[element], pool.bounds, numbers))
                continue
            domain = by_path[key.path]
            cells = domain.prefix_cells if key.role == "prefix" else domain.bound_cells
            for column, found in zip((low, high), cells(pool.bounds), strict=True):
                column.append(found)
            self.start[key] = total
            total += len(pool)
        self.low, self.high = _joined(low, np.int32), _joined(high, np.int32)
        keys = np.array(list(numbers), np.int32).reshape(-1, 3)
        self.memberships = [np.ascontiguousarray(keys[:, i]) for i in range(3)]


def _memberships(
    element: int, domain: Domain, bounds: Bounds, numbers: dict[tuple[int, int, int], int]
) -> Int32s:
    """Number the distinct values that arrays are searched for: far fewer than the filters that do."""
    pairs, inverse = np.unique(
        np.stack(domain.bound_cells(bounds), axis=1), axis=0, return_inverse=True
    )
    found = [numbers.setdefault((element, int(a), int(b)), len(numbers)) for a, b in pairs]
    return np.array(found, np.int32)[inverse.reshape(-1)]


# --- 2. intersect ------------------------------------------------------------------------------


@dataclass(slots=True)
class _Blocks:
    """The blocks of `intersect`, which explains them, on their way into arrays."""

    pools: _Pools
    number: dict[Path, int]
    plain: dict[PlainTest, int] = field(default_factory=dict)
    rows: list[Any] = field(default_factory=list)
    shape_rows: list[int] = field(default_factory=list)  # how many, per block of a shape
    factors: list[int] = field(default_factory=list)  # per block
    attribute: list[int] = field(default_factory=list)
    negated: list[bool] = field(default_factory=list)
    null: list[bool] = field(default_factory=list)
    pieces: list[int] = field(default_factory=list)  # per factor
    order: list[int] = field(default_factory=list)
    place: list[int] = field(default_factory=list)
    stride: list[int] = field(default_factory=list)
    fixed: list[int] = field(default_factory=list)  # per block
    fixed_place: list[int] = field(default_factory=list)  # of a plain test its number, as -1, -2 …
    fixed_stride: list[int] = field(default_factory=list)
    fixed_cell: list[int] = field(default_factory=list)
    plain_arrays: dict[str, npt.NDArray[Any]] = field(default_factory=dict)

    def add(self, group: Group, starts: Sequence[int]) -> None:
        """One block for each conjunction of a shape."""
        places = [
            (self.pools.start[column.pool] + start, 0 if column.literal.slot is None else 1)
            for column, start in zip(group.shape.columns, starts, strict=True)
        ]
        literal = iter(places)
        for conjunction in group.shape.conjunctions:
            self._add_block(conjunction, literal)
            self.rows.append(group.rows)
            self.shape_rows.append(len(group.rows))

    def add_plain(self, plain: Conjunctions) -> None:
        """One block of one row for each plain conjunction: what `add` would make of them, in columns."""
        if not len(plain):
            return
        self.rows.append(plain.rows)
        # Each distinct term once, as if it were a block of its own; then copied to where it is used.
        terms = _Blocks(self.pools, self.number, self.plain)
        for term in plain.terms:
            terms.add_term(term)
        factor = np.array([isinstance(term, Factor) for term in plain.terms], np.bool_)
        number = np.where(factor, np.cumsum(factor), np.cumsum(~factor)) - 1  # among its kind
        is_factor = factor[plain.term]
        used_factor, used_fixed = number[plain.term[is_factor]], number[plain.term[~is_factor]]
        base = np.array([self.pools.start[c.pool] for c in plain.columns], np.int64)
        place = base[plain.piece] + plain.position if len(base) else np.empty(0, np.int64)
        pieces = np.diff(plain.piece_start)
        of_factor = np.repeat(is_factor, pieces)
        first_piece = plain.piece_start[:-1][~is_factor]
        fixed_place = np.array(terms.fixed_place, np.int64)[used_fixed]
        contains = fixed_place == _FROM_PIECE
        fixed_place[contains] = place[first_piece[contains]]
        factors = offsets(is_factor.astype(np.int64))[plain.start]
        lengths = np.diff(plain.start)
        self.plain_arrays = {
            "rows": np.ones(len(plain), np.int64),
            "factors": np.diff(factors),
            "attribute": np.array(terms.attribute, np.int64)[used_factor],
            "negated": np.array(terms.negated, np.bool_)[used_factor],
            "null": np.array(terms.null, np.bool_)[used_factor],
            "pieces": pieces[is_factor],
            "order": np.array(_orders(plain), np.int64)[plain.piece[of_factor]],
            "place": place[of_factor],
            "stride": np.zeros(int(of_factor.sum()), np.int64),
            "fixed": lengths - np.diff(factors),
            "fixed_place": fixed_place,
            "fixed_stride": np.zeros(len(fixed_place), np.int64),
            "fixed_cell": np.array(terms.fixed_cell, np.int64)[used_fixed],
        }

    def add_term(self, term: Term) -> None:
        """A term without its literals."""
        if isinstance(term, SignedTest):
            self._add_fixed(term, itertools.repeat((_FROM_PIECE, 0)))
        else:
            self._add_factor(term)

    def _add_factor(self, factor: Factor) -> None:
        self.attribute.append(self.number[factor.attribute.path])
        self.negated.append(factor.negated)
        self.null.append(factor.null)

    def _add_block(self, conjunction: Conjunction, literal: Any) -> None:
        factors = 0
        for term in conjunction:
            if isinstance(term, SignedTest):
                self._add_fixed(term, literal)
                continue
            factors += 1
            self._add_factor(term)
            self.pieces.append(len(term.pieces))
            for piece in term.pieces:
                place, stride = next(literal)
                self.order.append(_ORDERS[piece.order])
                self.place.append(place)
                self.stride.append(stride)
        self.factors.append(factors)
        self.fixed.append(len(conjunction) - factors)

    def _add_fixed(self, term: SignedTest, literal: Any) -> None:
        match term.test:
            case Contains():
                place, stride = next(literal)
            case Pattern(attribute, pattern, escape):
                place, stride = self._plain(PatternTest(attribute.path, pattern, escape)), 0
            case Comparison(left, order, right):
                place, stride = self._plain(AttributeTest(left, order, right)), 0
        self.fixed_place.append(place)
        self.fixed_stride.append(stride)
        self.fixed_cell.append(TRUE if term.holds else FALSE)

    def _plain(self, test: PlainTest) -> int:
        return -1 - self.plain.setdefault(test, len(self.plain))

    def pack(self) -> FilterBlocks:
        """The arrays that the kernel reads."""
        # `derived` is all memberships, then all plain tests; attributes are numbered the other way round.
        member = _joined(self.pools.member, np.int32)
        domains, plain = len(self.number), len(self.plain)
        place = self._column("fixed_place", np.int64)
        return FilterBlocks(
            row_start=offsets(self._column("rows", np.int64)),
            factor_start=offsets(self._column("factors", np.int64)),
            attribute=self._column("attribute", np.int32),
            negated=self._column("negated", np.bool_),
            null=self._column("null", np.bool_),
            pieces=Pieces(
                start=offsets(self._column("pieces", np.int64)),
                order=self._column("order", np.int8),
                place=self._column("place", np.int64),
                stride=self._column("stride", np.int8),
                low=self.pools.low,
                high=self.pools.high,
            ),
            fixed_start=offsets(self._column("fixed", np.int64)),
            fixed_place=np.where(place < 0, len(member) - 1 - place, place),
            fixed_stride=self._column("fixed_stride", np.int8),
            fixed_cell=self._column("fixed_cell", np.int8),
            derived=np.concatenate(
                [member + (domains + plain), np.arange(domains, domains + plain, dtype=np.int32)]
            ).astype(np.int32),
        )

    def _column(self, name: str, dtype: type) -> npt.NDArray[Any]:
        """A column of the blocks of shapes, then of plain conjunctions."""
        mine = self.shape_rows if name == "rows" else getattr(self, name)
        other = self.plain_arrays.get(name, np.empty(0, dtype))
        return np.concatenate([np.array(mine, dtype), other.astype(dtype)])


def _orders(plain: Conjunctions) -> list[int]:
    """The order of each column's piece; 0, which nobody reads, for literals of other tests."""
    found: list[int] = []
    for term in plain.terms:
        if isinstance(term, Factor):
            found += [_ORDERS[piece.order] for piece in term.pieces]
        else:
            found += [0] * width(term)
    return found
