"""Subscriptions -> plan.

Filters arrive grouped by shape (`language.shapes`), their literals in pools, so the work is done on columns:

    1. discretise      the constants of all filters cut every attribute into cells; literals become cell numbers
    2. intersect       per conjunction and attribute one set of cells; an empty one is a contradiction
    3. canonical       equal filters become equal conjunctions, however they are written
    4. share           each distinct conjunction once, its predicates beside it, with its subscriptions

There is no Python object per subscription, but for sets of several ranges (IN lists, negations).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.base.arrays import Int32s, Int64s, offsets, runs
from penstock.base.errors import FilterError
from penstock.language.calls import Path
from penstock.language.conjunctions import Conjunctions, Progress
from penstock.language.filter_tree import Comparison, Contains, Factor, Pattern
from penstock.language.literals import Bounds
from penstock.language.normal import Term
from penstock.language.patterns import TextTest
from penstock.language.pools import Column, Pool, width
from penstock.language.schema import Attribute, Schema
from penstock.language.shapes import Grouped, PoolKey, Shape, Shapes, pool_shapes
from penstock.matching.canonical import canonical
from penstock.matching.derived import AttributeTest, DerivedAttributes
from penstock.matching.domains import ByteStrings, Cuts, Domain, build_domain
from penstock.matching.filled_cells import Snap, filled_cells
from penstock.matching.intersect import (
    AT_LEAST,
    AT_MOST,
    EQUAL,
    LESS,
    MORE,
    CellConjunctions,
    Pieces,
    intersect,
)
from penstock.matching.kernels import FALSE, TRUE
from penstock.matching.operator_tests import separate_operators
from penstock.matching.plan import Plan
from penstock.matching.sharing import CellTests, share, without_tautologies
from penstock.matching.subscription_rows import FOREVER, Rows
from penstock.matching.text_patterns import TextPatterns

Errors = list[tuple[int, FilterError]]

_BY_LITERAL = (
    -1
)  # instead of the place of a membership or pattern: its literal says which one it is
_ORDERS = {
    "=": EQUAL,
    "prefix": EQUAL,
    "start": EQUAL,
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
    found = _all_conjunctions(grouped)
    domains, asked, elements = _discretise(found.terms, grouped.pools)
    every = [*domains, *asked.values()]
    pools = _Pools(grouped.pools, every, elements)
    number = {domain.path: n for n, domain in enumerate(every)}
    conjunctions, plain_tests = _cell_conjunctions(found, pools, number)
    owners, conjunction, attribute, ranges, low, high = intersect(
        conjunctions,
        found.rows if position is None else position[found.rows],
        np.array([d.last for d in every], np.int64),
    )
    derived = DerivedAttributes(
        plain_tests, pools.text_patterns(), tuple(elements), *pools.memberships
    )
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
    terms: Iterable[Term], literals: Mapping[PoolKey, Pool]
) -> tuple[list[Domain], dict[Attribute, Domain], list[Domain]]:
    """Cut every attribute, the answers of every call, and the elements of every array at the constants that they are
    compared with."""
    attributes: dict[Path, Attribute] = {}
    for term in terms:
        if isinstance(term, Factor):
            attributes.setdefault(term.attribute.path, term.attribute)
    bounds: dict[Path, list[Bounds]] = {path: [] for path in attributes}
    elements: dict[Path, tuple[PoolKey, list[Bounds]]] = {}
    for key, pool in literals.items():
        assert pool.bounds is not None
        if key.role == "element":
            elements.setdefault(key.path, (key, []))[1].append(pool.bounds)
        elif not key.is_text:
            bounds[key.path].append(pool.bounds)
    built = {path: build_domain(path, attributes[path].type, b) for path, b in bounds.items()}
    return (
        [domain for path, domain in built.items() if attributes[path].asked is None],
        {attributes[p]: domain for p, domain in built.items() if attributes[p].asked is not None},
        [build_domain(path, key.type, found) for path, (key, found) in elements.items()],
    )


class _Pools:
    """All pools end to end, their literals as cells; those of memberships and patterns as derived attributes."""

    def __init__(
        self,
        literals: Mapping[PoolKey, Pool],
        domains: Sequence[Domain],
        elements: Sequence[Domain],
    ) -> None:
        self.start: dict[PoolKey, int] = {}
        by_path = {domain.path: domain for domain in domains}
        element_number = {domain.path: n for n, domain in enumerate(elements)}
        low: list[Int32s] = []
        high: list[Int32s] = []
        self.member: list[Int32s] = []  # the membership of each literal of the element pools
        self.pattern: list[Int32s] = []  # the pattern of each literal of the text pools
        self._paths: dict[Path, int] = {}  # of the attributes that are searched
        self._patterns: dict[tuple[int, TextTest], int] = {}
        numbers: dict[tuple[int, int, int], int] = {}
        total = 0
        for key, pool in literals.items():
            assert pool.bounds is not None
            if key.role == "element":
                element = element_number[key.path]
                self.start[key] = sum(map(len, self.member))
                self.member.append(_memberships(element, elements[element], pool.bounds, numbers))
                continue
            if key.is_text:
                self.start[key] = sum(map(len, self.pattern))
                self.pattern.append(self._numbered(key.path, pool.bounds))
                continue
            domain = by_path[key.path]
            cells = domain.prefix_cells if key.role in ("prefix", "start") else domain.bound_cells
            for column, found in zip((low, high), cells(pool.bounds), strict=True):
                column.append(found)
            self.start[key] = total
            total += len(pool)
        self.low, self.high = _joined(low, np.int32), _joined(high, np.int32)
        keys = np.array(list(numbers), np.int32).reshape(-1, 3)
        self.memberships = [np.ascontiguousarray(keys[:, i]) for i in range(3)]

    @property
    def patterns(self) -> int:
        """How many distinct patterns there are."""
        return len(self._patterns)

    def text_patterns(self) -> TextPatterns:
        """The distinct patterns, by number."""
        return TextPatterns.of(list(self._paths), list(self._patterns))

    def _numbered(self, path: Path, bounds: Bounds) -> Int32s:
        """The pattern of each literal of a pool."""
        attribute = self._paths.setdefault(path, len(self._paths))
        modes = [0] * len(bounds) if bounds.over is None else bounds.over.tolist()
        numbers = [
            self._patterns.setdefault((attribute, TextTest(mode, body)), len(self._patterns))
            for mode, body in zip(modes, bounds.lo.to_pylist(), strict=True)
        ]
        return np.array(numbers, np.int32)


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


def _all_conjunctions(grouped: Grouped) -> Conjunctions:
    """The conjunctions of all filters in columns: those of each shape for each of its filters, then the plain ones."""
    terms: list[Term] = []
    columns: list[Column] = []
    begins: list[int] = []  # of each column: where its literals begin in their pool
    rows: list[list[int]] = []
    spans: list[tuple[int, ...]] = []  # of a conjunction: first term, terms, first piece, pieces
    filters: list[int] = []  # how many have it
    for group, starts in zip(grouped.groups, grouped.starts, strict=True):
        piece_past = len(columns)
        columns += group.shape.columns
        begins += starts
        for conjunction in group.shape.conjunctions:
            pieces = sum(map(width, conjunction))
            spans.append((len(terms), len(conjunction), piece_past, pieces))
            terms += conjunction
            piece_past += pieces
            rows.append(group.rows)
            filters.append(len(group.rows))
    counts = np.array(filters, np.int64)
    each = np.repeat(np.array(spans, np.int64).reshape(-1, 4), counts, axis=0)
    first_term, term_count, first_piece, piece_count = each.T
    term, piece = runs(first_term, term_count), runs(first_piece, piece_count)
    nth = runs(np.zeros_like(counts), counts)  # among the filters of its shape
    is_lifted = np.array([column.literal.slot is not None for column in columns], np.bool_)
    position = np.array(begins, np.int64)[piece] + is_lifted[piece] * np.repeat(nth, piece_count)
    widths = np.array([width(term) for term in terms], np.int64)[term]
    plain = grouped.plain
    return Conjunctions(
        rows=np.concatenate([*rows, plain.rows]).astype(np.int64),
        start=offsets(np.concatenate([term_count, np.diff(plain.start)])),
        term=np.concatenate([term, plain.term + len(terms)]).astype(np.int32),
        piece_start=offsets(np.concatenate([widths, np.diff(plain.piece_start)])),
        piece=np.concatenate([piece, plain.piece + len(columns)]).astype(np.int32),
        position=np.concatenate([position, plain.position]),
        terms=(*terms, *plain.terms),
        columns=(*columns, *plain.columns),
    )


def _cell_conjunctions(
    found: Conjunctions, pools: _Pools, number: Mapping[Path, int]
) -> tuple[CellConjunctions, tuple[AttributeTest, ...]]:
    """What `intersect` reads, which explains it; and the distinct comparisons of attributes."""
    plain: dict[AttributeTest, int] = {}
    of_terms = [_numbers_of(term, number, plain) for term in found.terms]
    attribute, negated, null, test_place, test_cell = np.array(of_terms, np.int64).reshape(-1, 5).T
    is_factor = np.array([isinstance(term, Factor) for term in found.terms], np.bool_)[found.term]
    factor, test = found.term[is_factor], found.term[~is_factor]
    factor_start = offsets(is_factor)[found.start]
    pieces = np.diff(found.piece_start)
    of_factor = np.repeat(is_factor, pieces)
    # `derived` is what the literals of memberships stand for, those of patterns, then all plain tests; attributes are
    # numbered the other way round, but for patterns.
    member, pattern = _joined(pools.member, np.int32), _joined(pools.pattern, np.int32)
    shifts = [len(member) * column.pool.is_text for column in found.columns]
    starts = [pools.start[column.pool] for column in found.columns]
    place = (np.array(starts, np.int64) + np.array(shifts, np.int64))[found.piece] + found.position
    fixed_place = test_place[test] + len(member) + len(pattern)
    by_literal = test_place[test] == _BY_LITERAL
    fixed_place[by_literal] = place[found.piece_start[:-1][~is_factor][by_literal]]
    first_pattern = len(number) + len(plain)
    plain_attributes = np.arange(len(number), first_pattern, dtype=np.int32)
    first_member = first_pattern + pools.patterns
    derived = [member + np.int32(first_member), pattern + np.int32(first_pattern), plain_attributes]
    conjunctions = CellConjunctions(
        factor_start=factor_start,
        attribute=attribute[factor].astype(np.int32),
        negated=negated[factor].astype(np.bool_),
        null=null[factor].astype(np.bool_),
        pieces=Pieces(
            start=offsets(pieces[is_factor]),
            order=np.array(_orders(found.terms), np.int8)[found.piece[of_factor]],
            place=place[of_factor],
            low=pools.low,
            high=pools.high,
        ),
        fixed_start=found.start - factor_start,
        fixed_place=fixed_place,
        fixed_cell=test_cell[test].astype(np.int8),
        derived=np.concatenate(derived),
    )
    return conjunctions, tuple(plain)


def _numbers_of(
    term: Term, number: Mapping[Path, int], plain: dict[AttributeTest, int]
) -> tuple[int, ...]:
    """A term without its literals: attribute, negated and null of a factor, place and cell of a test."""
    if isinstance(term, Factor):
        return number[term.attribute.path], term.negated, term.null, 0, 0
    match term.test:
        case Contains() | Pattern():
            place = _BY_LITERAL
        case Comparison(left, order, right):
            place = plain.setdefault(AttributeTest(left, order, right), len(plain))
    return 0, False, False, place, TRUE if term.holds else FALSE


def _orders(terms: Iterable[Term]) -> list[int]:
    """The order of each column's piece; 0, which nobody reads, for literals of other tests."""
    found: list[int] = []
    for term in terms:
        if isinstance(term, Factor):
            found += [_ORDERS[piece.order] for piece in term.pieces]
        else:
            found += [0] * width(term)
    return found
