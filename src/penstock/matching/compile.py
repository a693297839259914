"""Subscriptions -> plan.

Filters arrive grouped by shape (`language.shapes`), so the work is done on columns: for every conjunction of a shape
and every attribute in it, one kernel call intersects the sets of cells of all the filters of the group. Then

    1. discretise      the constants of all filters cut every attribute into cells
    2. intersect       per conjunction and attribute one set of cells; empty: contradiction, all cells: dropped
    3. share           each distinct predicate once, each distinct conjunction once
    4. fan out         which subscriptions a conjunction belongs to

Nothing here is a Python object per subscription, but for sets of several ranges (IN lists, negations).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.errors import FilterError
from penstock.language.literals import Bounds
from penstock.language.normal import Conjunction, SignedTest
from penstock.language.schema import Array, Attribute, Scalar, Schema
from penstock.language.shapes import Column, Group, Shapes
from penstock.language.tree import Comparison, Contains, Factor, Pattern
from penstock.matching import kernels
from penstock.matching.derived import (
    FALSE,
    TRUE,
    AttributeTest,
    DerivedAttributes,
    PatternTest,
    PlainTest,
)
from penstock.matching.domains import ByteStrings, Domain, build_domain
from penstock.matching.kernels import Int32s, Int64s
from penstock.matching.plan import Plan
from penstock.matching.rows import FOREVER, Rows
from penstock.matching.sharing import Tests, share

Progress = Callable[[int], None]
Errors = list[tuple[int, FilterError]]


def compile_plan(
    rows: Rows, schema: Schema, progress: Progress | None = None
) -> tuple[Plan, Errors]:
    """Compile subscriptions for events of a schema. Those that don't fit it are left out, and returned by id.

    >>> from penstock.matching.rows import FOREVER
    >>> rows = Rows.of([(1, "ann", "price > 5", FOREVER), (2, "bob", "prise > 5", FOREVER)])
    >>> plan, errors = compile_plan(rows, Schema.of({"price": "double"}))
    >>> plan.ids.tolist(), [sid for sid, _ in errors]
    ([1], [2])
    """
    order = np.argsort(rows.ids, kind="stable")
    ids = rows.ids[order]
    if len(ids) and (ids[1:] == ids[:-1]).any():
        raise ValueError("subscription ids are not unique")
    groups, refused = Shapes.under(schema).group(
        rows.filters.take(pa.array(order)).to_pylist(), progress
    )
    errors = [(int(ids[row]), error) for row, error in refused]
    kept = np.ones(len(ids), np.bool_)
    kept[[row for row, _ in refused]] = False
    position = np.cumsum(kept) - 1  # of a row among the subscriptions that are kept
    order = order[kept]

    plan = compile_groups(groups, schema, ids[kept], position)
    plan = replace(
        plan,
        expires=rows.expires[order],
        subscribers=_column(rows.subscribers, order),
        filters=_column(rows.filters, order),
    )
    return plan, errors


def compile_groups(
    groups: Sequence[Group], schema: Schema, ids: Int64s, position: Int64s | None = None
) -> Plan:
    """The plan of filters already parsed. `position` maps a group's row numbers to places in `ids`."""
    attributes = _discretise(groups)
    conjunctions = _Conjunctions()
    for group in groups:
        owner = group.rows if position is None else position[group.rows]
        for conjunction in group.shape.conjunctions:
            attributes.intersect(group, conjunction, owner, conjunctions)
    nobody = ByteStrings(np.zeros(len(ids) + 1, np.int64), np.empty(0, np.uint8))
    return Plan(
        schema=schema,
        domains=attributes.domains,
        derived=attributes.derived(),
        **_shared(conjunctions, attributes),
        ids=ids,
        expires=np.full(len(ids), FOREVER, np.int64),
        subscribers=nobody,
        filters=nobody,
        index={},
    )


def _shared(found: "_Conjunctions", attributes: "_Attributes") -> dict[str, Any]:
    plain_end = len(attributes.domains) + len(attributes.plain)
    attribute = _joined(found.test_attribute, np.int64)
    attribute = np.where(attribute < 0, plain_end - 1 - attribute, attribute)
    tests = Tests(
        _joined(found.test_conjunction, np.int64),
        attribute,
        _joined(found.test_ranges, np.int64),
        _joined(found.low, np.int32),
        _joined(found.high, np.int32),
    )
    last = [d.last for d in attributes.domains]
    last_cells = np.array(last + [TRUE] * (attributes.count - len(last)), np.int64)
    shared = share(tests, _joined(found.subscription, np.int64), last_cells)
    return {f.name: getattr(shared, f.name) for f in fields(shared)}


def _joined(parts: Sequence[npt.NDArray[Any]], dtype: type) -> npt.NDArray[Any]:
    return np.concatenate(parts).astype(dtype, copy=False) if parts else np.empty(0, dtype)


def _column(strings: pa.StringArray, order: Int64s) -> ByteStrings:
    found = ByteStrings.of(strings.take(pa.array(order)))
    return ByteStrings(found.offsets.copy(), found.data.copy())


# --- 1 and 2: cells ----------------------------------------------------------------------------


@dataclass(slots=True)
class _Conjunctions:
    """What `intersect` found, in pieces to be joined: tests (one per conjunction and attribute) with their ranges."""

    count: int = 0
    subscription: list[Int64s] = field(default_factory=list)  # of each conjunction
    test_conjunction: list[Int64s] = field(default_factory=list)
    test_attribute: list[Int32s] = field(default_factory=list)
    test_ranges: list[Int64s] = field(default_factory=list)  # how many ranges the test has
    low: list[Int32s] = field(default_factory=list)
    high: list[Int32s] = field(default_factory=list)


class _Attributes:
    """The attributes of the plan in the making: domains by path, and the tests that become derived attributes."""

    def __init__(
        self,
        domains: Sequence[Domain],
        elements: Sequence[Domain],
    ) -> None:
        self.domains = tuple(domains)
        self.elements = tuple(elements)
        self.number = {domain.path: n for n, domain in enumerate(domains)}
        self.element_number = {domain.path: n for n, domain in enumerate(elements)}
        self.plain: dict[PlainTest, int] = {}
        self.memberships: dict[tuple[int, int, int], int] = {}

    @property
    def count(self) -> int:
        return len(self.domains) + len(self.plain) + len(self.memberships)

    def derived(self) -> DerivedAttributes:
        keys = np.array(list(self.memberships), np.int32).reshape(-1, 3)
        return DerivedAttributes(
            tuple(self.plain), self.elements, *(np.ascontiguousarray(keys[:, i]) for i in range(3))
        )

    def intersect(
        self, group: Group, conjunction: Conjunction, subscription: Int64s, out: _Conjunctions
    ) -> None:
        """Add one conjunction of every filter of a group, less those that contradict themselves."""
        rows = len(group.rows)
        alive = np.ones(rows, np.bool_)
        found: list[tuple[Int32s, Int64s, Int32s, Int32s]] = []
        for path, factors in _by_attribute(conjunction).items():
            domain = self.domains[self.number[path]]
            counts, low, high = _intersection(domain, group, factors)
            alive &= counts > 0
            attribute = np.full(rows, self.number[path], np.int32)
            found.append((attribute, counts, low, high))
        for term in conjunction:
            if isinstance(term, SignedTest):
                attribute = self._derived(group, term, rows)
                cell = np.full(rows, TRUE if term.holds else FALSE, np.int32)
                found.append((attribute, np.ones(rows, np.int64), cell, cell))
        numbers = out.count + np.cumsum(alive) - 1
        for attribute, counts, low, high in found:
            kept = np.repeat(alive, counts)
            out.test_conjunction.append(numbers[alive])
            out.test_attribute.append(attribute[alive])
            out.test_ranges.append(counts[alive])
            out.low.append(low[kept])
            out.high.append(high[kept])
        out.subscription.append(subscription[alive])
        out.count += int(alive.sum())

    def _derived(self, group: Group, term: SignedTest, rows: int) -> Int32s:
        """The derived attribute of a test, per row: memberships, which come last, as -1, -2 …"""
        match term.test:
            case Contains() as test:
                return self._membership(group, test, rows)
            case Pattern(attribute, pattern, escape):
                key: PlainTest = PatternTest(attribute.path, pattern, escape)
            case Comparison(left, order, right):
                key = AttributeTest(left, order, right)
        number = self.plain.setdefault(key, len(self.plain))
        return np.full(rows, len(self.domains) + number, np.int32)

    def _membership(self, group: Group, test: Contains, rows: int) -> Int32s:
        assert isinstance(test.attribute.type, Array)
        element = self.element_number[test.attribute.path]
        column = Column(test.literal, test.attribute.type.element, False)
        low, high = self.elements[element].bound_cells(group.bounds[column])
        # Distinct values first: there are far fewer of them than filters.
        pairs, inverse = np.unique(np.stack([low, high], axis=1), axis=0, return_inverse=True)
        numbers = [
            self.memberships.setdefault((element, int(a), int(b)), len(self.memberships))
            for a, b in pairs
        ]
        found = -1 - np.array(numbers, np.int32)[inverse.reshape(-1)]
        return np.ascontiguousarray(np.broadcast_to(found, rows))


def _discretise(groups: Sequence[Group]) -> _Attributes:
    """Cut every attribute that some filter mentions at the constants it is compared with."""
    bounds: dict[tuple[str, ...], list[Bounds]] = {}
    element_bounds: dict[tuple[str, ...], list[Bounds]] = {}
    known: dict[tuple[str, ...], Attribute] = {}
    for group in groups:
        for term in {t: None for c in group.shape.conjunctions for t in c}:
            if isinstance(term, Factor):
                known.setdefault(term.attribute.path, term.attribute)
                mine = bounds.setdefault(term.attribute.path, [])
                mine += [group.bounds[column] for column in _columns(term)]
            elif isinstance(term.test, Contains):
                attribute = term.test.attribute
                assert isinstance(attribute.type, Array)
                known.setdefault(attribute.path, attribute)
                column = Column(term.test.literal, attribute.type.element, False)
                element_bounds.setdefault(attribute.path, []).append(group.bounds[column])
    return _Attributes(
        [build_domain(path, known[path].type, b) for path, b in bounds.items()],
        [build_domain(path, _element(known[path]), b) for path, b in element_bounds.items()],
    )


def _element(attribute: Attribute) -> Scalar:
    assert isinstance(attribute.type, Array)
    return attribute.type.element


def _columns(factor: Factor) -> list[Column]:
    if not isinstance(factor.attribute.type, Scalar):
        return []
    return [Column(p.literal, factor.attribute.type, p.order == "prefix") for p in factor.pieces]


def _by_attribute(conjunction: Conjunction) -> dict[tuple[str, ...], list[Factor]]:
    found: dict[tuple[str, ...], list[Factor]] = {}
    for term in conjunction:
        if isinstance(term, Factor):
            found.setdefault(term.attribute.path, []).append(term)
    return found


def _intersection(
    domain: Domain, group: Group, factors: Sequence[Factor]
) -> tuple[Int64s, Int32s, Int32s]:
    rows = len(group.rows)
    sizes = [len(f.pieces) for f in factors]
    low = np.empty((sum(sizes), rows), np.int32)
    high = np.empty((sum(sizes), rows), np.int32)
    row = 0
    for factor in factors:
        for piece, column in zip(factor.pieces, _columns(factor), strict=True):
            low[row], high[row] = _piece_cells(domain, piece.order, group.bounds[column])
            row += 1
    return kernels.intersect_factors(
        low,
        high,
        np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        np.array([f.negated for f in factors]),
        np.array([f.null for f in factors]),
        domain.last,
    )


def _piece_cells(domain: Domain, order: str, bounds: Bounds) -> tuple[Int32s | int, Int32s | int]:
    if order == "prefix":
        return domain.prefix_cells(bounds)
    low, high = domain.bound_cells(bounds)
    match order:
        case "=":
            return low, high
        case "<":
            return 1, low - 1
        case "<=":
            return 1, high
        case ">":
            return high + 1, domain.last
        case _:
            return low, domain.last
