"""Predicates that are no range of cells: attribute against attribute, patterns (`text_patterns`), array membership.

Each distinct predicate of these kinds is a derived attribute of the event with three cells (unknown, false, true). It
is evaluated once per batch, whatever the number of subscriptions that use it; to an engine it is one more row of cells.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.base.arrays import Int32s, Int64s
from penstock.base.columns import descend
from penstock.base.jit import kernel
from penstock.language.calls import Path
from penstock.language.computed import find_attribute
from penstock.language.intervals import DAY
from penstock.language.literals import double_keys
from penstock.language.schema import Attribute, Schema
from penstock.language.types import Kind, Scalar
from penstock.matching.domains import ByteStrings, Domain, key_column
from penstock.matching.invariants import check_alike, check_numbers, check_within, require
from penstock.matching.kernels import FALSE, UNKNOWN
from penstock.matching.text_patterns import TextPatterns


@dataclass(frozen=True, slots=True)
class AttributeTest:
    """One attribute against another, by the keys of a type that both can be read as."""

    left: Attribute
    order: str
    right: Attribute

    def paths(self) -> list[Path]:
        return [self.left.path, self.right.path]

    def cells(self, batch: pa.RecordBatch, out: Int32s) -> None:
        columns = [descend(batch, a.path) for a in (self.left, self.right)]
        present = [c for c in columns if c is not None and c.null_count < len(c)]
        if len(present) < 2:
            out[:] = UNKNOWN
            return
        left, right = _comparable(present, self.left, self.right)
        holds = _ORDERS[self.order](left, right)
        if isinstance(holds, np.ndarray):
            out[:] = holds.astype(np.int32) + FALSE
            for column in present:
                if column.null_count:
                    out[~column.is_valid().to_numpy(zero_copy_only=False)] = UNKNOWN
        else:
            out[:] = pc.fill_null(holds.cast(pa.int8()), -1).to_numpy(zero_copy_only=False) + 1

    def header(self) -> dict[str, Any]:
        return {"left": list(self.left.path), "order": self.order, "right": list(self.right.path)}


@dataclass(frozen=True, slots=True)
class DerivedAttributes:
    """All the derived attributes of a plan: first those of `plain`, then `patterns`, then one per array membership.

    Membership i holds if the array of `elements[array[i]]` has an element in the cells low[i] .. high[i]: the elements
    are discretised once for all the values that anybody looks for.
    """

    plain: tuple[AttributeTest, ...]
    patterns: TextPatterns
    elements: tuple[Domain, ...]
    array: Int32s
    low: Int32s
    high: Int32s

    def __len__(self) -> int:
        return self.first_member + len(self.array)

    @property
    def first_member(self) -> int:
        """The number of the first array membership."""
        return len(self.plain) + len(self.patterns)

    def paths(self) -> list[Path]:
        """The attributes that the tests look at."""
        of_plain = [path for test in self.plain for path in test.paths()]
        return [*(domain.path for domain in self.elements), *of_plain, *self.patterns.paths]

    def cells(self, batch: pa.RecordBatch, out: Int32s) -> None:
        """Evaluate every test on a batch."""
        for number, test in enumerate(self.plain):
            test.cells(batch, out[number])
        self.patterns.cells(batch, out[len(self.plain) : self.first_member])
        self.member_cells(batch, out[self.first_member :])

    def member_cells(self, batch: pa.RecordBatch, members: Int32s) -> None:
        """Evaluate the array memberships on a batch."""
        for number, domain in enumerate(self.elements):
            mine = np.flatnonzero(self.array == number)
            column = descend(batch, domain.path)
            if column is None or pa.types.is_null(column.type):
                members[mine] = UNKNOWN
                continue
            valid = column.is_valid().to_numpy(zero_copy_only=False)
            members[mine] = np.where(valid, FALSE, UNKNOWN)
            values = column.flatten()
            cells = np.empty(len(values), np.int32)
            domain.cells(values, cells)
            lengths = pc.fill_null(pc.list_value_length(column), 0)
            events = np.repeat(np.arange(len(column)), lengths.to_numpy(zero_copy_only=False))
            mine = mine[np.argsort(self.low[mine], kind="stable")]
            _mark(cells, events, self.low[mine], self.high[mine], mine, members)

    def check(self) -> None:
        """Memberships name arrays that exist; tests compare in a known order."""
        check_numbers(np.int32, array=self.array, low=self.low, high=self.high)
        check_alike(len(self.array), low=self.low, high=self.high)
        check_within(0, len(self.elements), array=self.array)
        self.patterns.check()
        orders = {test.order for test in self.plain}
        require(orders <= _ORDERS.keys(), f"orders {orders}")

    def header(self) -> dict[str, Any]:
        searched = [list(path) for path in self.patterns.paths]
        return {"plain": [test.header() for test in self.plain], "searched": searched}

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        members = {"tests.array": self.array, "tests.low": self.low, "tests.high": self.high}
        return members | self.patterns.arrays()

    @staticmethod
    def assemble(
        header: Mapping[str, Any],
        elements: tuple[Domain, ...],
        arrays: Mapping[str, npt.NDArray[Any]],
        schema: Schema,
    ) -> "DerivedAttributes":
        plain: list[AttributeTest] = []
        for test in header["plain"]:
            left, right = (find_attribute(schema, tuple(test[side])) for side in ("left", "right"))
            assert left is not None
            assert right is not None
            plain.append(AttributeTest(left, test["order"], right))
        return DerivedAttributes(
            tuple(plain),
            TextPatterns.assemble([tuple(path) for path in header["searched"]], arrays),
            elements,
            arrays["tests.array"],
            arrays["tests.low"],
            arrays["tests.high"],
        )


@kernel
def _mark(
    cells: Int32s, events: Int64s, low: Int32s, high: Int32s, rows: Int64s, out: Int32s
) -> None:
    """Set TRUE for every membership (sorted by `low`, almost always points) that has an element."""
    widest = 0
    for i in range(len(low)):
        widest = max(widest, high[i] - low[i])
    for e in range(len(cells)):
        cell = cells[e]
        first = np.searchsorted(low, cell - widest)
        for i in range(first, len(low)):
            if low[i] > cell:
                break
            if high[i] >= cell:
                out[rows[i], events[e]] = 2


def _comparable(columns: Sequence[Any], left: Attribute, right: Attribute) -> tuple[Any, Any]:
    """Both columns as something that compares like SQL: NumPy keys, or Arrow arrays."""
    a, b = left.type, right.type
    assert isinstance(a, Scalar)
    assert isinstance(b, Scalar)
    kinds = {a.kind, b.kind}
    if kinds == {Kind.STRING}:
        return _both(columns, lambda c: c.cast(pa.large_binary()))
    if Kind.DOUBLE in kinds:
        return _both(columns, _as_doubles)
    if Kind.DECIMAL in kinds:
        scale = max(a.scale, b.scale)
        return _both(columns, lambda c: _rescaled(c, scale))
    keys = []
    for column, attribute, type_ in zip(columns, (left, right), (a, b), strict=True):
        values, _ = key_column(column, type_, attribute.name)
        assert not isinstance(values, ByteStrings)
        keys.append(values * DAY if type_.kind is Kind.DATE and len(kinds) == 2 else values)
    return keys[0], keys[1]


def _both(columns: Sequence[Any], convert: Callable[[Any], Any]) -> tuple[Any, Any]:
    return convert(columns[0]), convert(columns[1])


def _as_doubles(column: pa.Array) -> Int64s:
    # Not safe: SQL rounds integers beyond 2**53 to the nearest double, and so does this.
    filled = pc.fill_null(column.cast(pa.float64(), safe=False), 0.0)
    return double_keys(filled.to_numpy(zero_copy_only=False))


def _rescaled(column: pa.Array, scale: int) -> pa.Array:
    """Decimals and 64-bit integers with one scale, wide enough that nothing overflows."""
    if pa.types.is_integer(column.type):
        column = column.cast(pa.int64()).cast(pa.decimal128(19, 0))
    return column.cast(pa.decimal256(76, scale))


_ORDERS: dict[str, Callable[[Any, Any], Any]] = {
    "=": lambda a, b: pc.equal(a, b) if isinstance(a, pa.Array) else a == b,
    "<": lambda a, b: pc.less(a, b) if isinstance(a, pa.Array) else a < b,
    "<=": lambda a, b: pc.less_equal(a, b) if isinstance(a, pa.Array) else a <= b,
    ">": lambda a, b: pc.greater(a, b) if isinstance(a, pa.Array) else a > b,
    ">=": lambda a, b: pc.greater_equal(a, b) if isinstance(a, pa.Array) else a >= b,
}
