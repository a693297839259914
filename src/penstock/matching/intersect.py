"""The kernel of the compiler: for every conjunction and attribute, the set of cells that satisfies it.

    conjunction c   factors factor_start[c] .. factor_start[c + 1] and fixed tests fixed_start[c] .. fixed_start[c + 1]
    factor f        pieces pieces.start[f] .. pieces.start[f + 1] of attribute[f]; those of one attribute stand together
    piece p         the literal at place[p], whose cells are low[…] .. high[…]
    fixed test d    a derived attribute, the one at fixed_place[d] of `derived`, in one cell

A factor is the union of its pieces or, negated, the rest of the cells but 0; `null` adds cell 0. The factors of one
attribute are intersected into one *test*, sorted disjoint ranges. A conjunction with an empty test contradicts itself
and is left out. What comes out are the tests of all conjunctions, end to end.
"""

from typing import NamedTuple

import numpy as np

from penstock.base.array_kernels import copy_values, sorted_places
from penstock.base.arrays import Bools, Int8s, Int32s, Int64s
from penstock.base.jit import kernel
from penstock.matching.kernels import grow_array

EQUAL, LESS, AT_MOST, MORE, AT_LEAST = range(5)


class Pieces(NamedTuple):
    """The pieces of all factors. They are a record of their own because every array makes calling `_unite` slower."""

    start: Int64s
    order: Int8s
    place: Int64s
    low: Int32s
    high: Int32s


class CellConjunctions(NamedTuple):
    """The arrays drawn above."""

    factor_start: Int64s
    attribute: Int32s
    negated: Bools
    null: Bools
    pieces: Pieces
    fixed_start: Int64s
    fixed_place: Int64s
    fixed_cell: Int8s
    derived: Int32s


@kernel
def intersect(
    found: CellConjunctions, owner: Int64s, last: Int64s
) -> tuple[Int64s, Int64s, Int64s, Int64s, Int32s, Int32s]:
    """`owner` is whose each conjunction is (negative: skip it), `last` the last cell of each attribute.

    Returns the owner of each conjunction; conjunction, attribute and number of ranges of each test; the ranges.
    """
    factor_start, attribute, pieces = found.factor_start, found.attribute, found.pieces
    negated, null = found.negated, found.null
    tests, capacity = _sizes(found)
    owners = np.empty(len(owner), np.int64)
    test_conjunction = np.empty(tests, np.int64)
    test_attribute = np.empty(tests, np.int64)
    test_ranges = np.empty(tests, np.int64)
    out_low = np.empty(tests + 16, np.int32)
    out_high = np.empty(tests + 16, np.int32)
    union_low, union_high = np.empty(capacity, np.int32), np.empty(capacity, np.int32)
    set_low, set_high = np.empty(capacity, np.int32), np.empty(capacity, np.int32)
    next_low, next_high = np.empty(capacity, np.int32), np.empty(capacity, np.int32)
    conjunctions = test = total = 0
    for c in range(len(owner)):
        if owner[c] < 0:
            continue
        first_test, first_range = test, total
        size = 1
        f = factor_start[c]
        while size and f < factor_start[c + 1]:
            a = attribute[f]
            size = 1
            set_low[0], set_high[0] = 0, last[a]
            while f < factor_start[c + 1] and attribute[f] == a:
                united = _unite(pieces, f, last[a], union_low, union_high)
                if negated[f]:
                    united = _complement(union_low, union_high, united, last[a])
                if null[f]:
                    united = _add_null(union_low, union_high, united)
                size = common_ranges(
                    set_low, set_high, size, union_low, union_high, united, next_low, next_high
                )
                set_low, next_low = next_low, set_low
                set_high, next_high = next_high, set_high
                f += 1
            if total + size > len(out_low):
                out_low = grow_array(out_low, total + size)
                out_high = grow_array(out_high, total + size)
            copy_values(out_low, total, set_low, 0, size)
            copy_values(out_high, total, set_high, 0, size)
            test_conjunction[test], test_attribute[test] = conjunctions, a
            test_ranges[test] = size
            total += size
            test += 1
        if size == 0:
            test, total = first_test, first_range
            continue
        for d in range(found.fixed_start[c], found.fixed_start[c + 1]):
            if total == len(out_low):
                out_low = grow_array(out_low, total + 1)
                out_high = grow_array(out_high, total + 1)
            out_low[total] = out_high[total] = found.fixed_cell[d]
            test_conjunction[test] = conjunctions
            test_attribute[test] = found.derived[found.fixed_place[d]]
            test_ranges[test] = 1
            total += 1
            test += 1
        owners[conjunctions] = owner[c]
        conjunctions += 1
    return (
        owners[:conjunctions],
        test_conjunction[:test],
        test_attribute[:test],
        test_ranges[:test],
        out_low[:total],
        out_high[:total],
    )


@kernel
def _sizes(found: CellConjunctions) -> tuple[int, int]:
    """At most how many tests there can be, and how many ranges one of them."""
    factor_start, piece_start = found.factor_start, found.pieces.start
    capacity = 4
    for c in range(len(factor_start) - 1):
        first, past = factor_start[c], factor_start[c + 1]
        capacity = max(capacity, piece_start[past] - piece_start[first] + past - first + 4)
    return factor_start[-1] + found.fixed_start[-1], capacity


@kernel
def _unite(pieces: Pieces, factor: int, last: int, out_low: Int32s, out_high: Int32s) -> int:
    """The union of a factor's pieces as sorted ranges that neither touch nor overlap."""
    size = 0
    for p in range(pieces.start[factor], pieces.start[factor + 1]):
        literal = pieces.place[p]
        piece_low, piece_high = pieces.low[literal], pieces.high[literal]
        order = pieces.order[p]
        if order == LESS:
            piece_low, piece_high = 1, piece_low - 1
        elif order == AT_MOST:
            piece_low = 1
        elif order == MORE:
            piece_low, piece_high = piece_high + 1, last
        elif order == AT_LEAST:
            piece_high = last
        if piece_low <= piece_high:
            out_low[size], out_high[size] = piece_low, piece_high
            size += 1
    if size <= 1:
        return size
    ascending = sorted_places(out_low, size)
    sorted_low, sorted_high = np.empty(size, np.int32), np.empty(size, np.int32)
    for i in range(size):
        sorted_low[i], sorted_high[i] = out_low[ascending[i]], out_high[ascending[i]]
    merged = 0
    out_low[0], out_high[0] = sorted_low[0], sorted_high[0]
    for i in range(1, size):
        if sorted_low[i] <= out_high[merged] + 1:
            out_high[merged] = max(out_high[merged], sorted_high[i])
        else:
            merged += 1
            out_low[merged], out_high[merged] = sorted_low[i], sorted_high[i]
    return merged + 1


@kernel
def _complement(low: Int32s, high: Int32s, size: int, last: int) -> int:
    """The cells 1..last that aren't in the set, in place."""
    start = 1
    count = 0
    for i in range(size):
        set_low, set_high = low[i], high[i]
        if set_low > start:
            low[count], high[count] = start, set_low - 1
            count += 1
        start = max(start, set_high + 1)
    if start <= last:
        low[count], high[count] = start, last
        count += 1
    return count


@kernel
def _add_null(low: Int32s, high: Int32s, size: int) -> int:
    if size and low[0] == 1:
        low[0] = 0
        return size
    for i in range(size, 0, -1):
        low[i], high[i] = low[i - 1], high[i - 1]
    low[0], high[0] = 0, 0
    return size + 1


@kernel
def common_ranges(
    a_low: Int32s,
    a_high: Int32s,
    a_size: int,
    b_low: Int32s,
    b_high: Int32s,
    b_size: int,
    out_low: Int32s,
    out_high: Int32s,
) -> int:
    """What two lists of ranges have in common, and how many ranges that is."""
    i = j = count = 0
    while i < a_size and j < b_size:
        low, high = max(a_low[i], b_low[j]), min(a_high[i], b_high[j])
        if low <= high:
            out_low[count], out_high[count] = low, high
            count += 1
        if a_high[i] < b_high[j]:
            i += 1
        else:
            j += 1
    return count
