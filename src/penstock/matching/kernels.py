"""Numba kernels shared by the compiler and the encoder: cell numbers, and sets of them.

A *cell* is where a value stands among the sorted constants (cuts) of its attribute's predicates: 0 is NULL, 1 below the
first cut, 2 equal to it, 3 between the first and the second, …, 2k+1 above the last of k cuts. Odd cells are gaps, even
ones points. Whatever the type was, a predicate is a set of cell numbers from here on: sorted, disjoint ranges.
"""

import numpy as np
import numpy.typing as npt

from penstock.matching.jit import kernel

Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]
Flags = npt.NDArray[np.bool_]


@kernel
def int_cells(keys: Int64s, valid: Flags, cuts: Int64s, out: Int32s) -> None:
    """The cell of every key; `valid` may be empty, meaning that all are."""
    count = len(cuts)
    for i in range(len(keys)):
        if len(valid) and not valid[i]:
            out[i] = 0
            continue
        key = keys[i]
        low, high = 0, count
        while low < high:
            middle = (low + high) >> 1
            if cuts[middle] < key:
                low = middle + 1
            else:
                high = middle
        out[i] = 2 * low + 2 if low < count and cuts[low] == key else 2 * low + 1


@kernel
def _compare(a: Bytes, a0: int, a1: int, b: Bytes, b0: int, b1: int) -> int:
    length = min(a1 - a0, b1 - b0)
    for i in range(length):
        x, y = a[a0 + i], b[b0 + i]
        if x != y:
            return -1 if x < y else 1
    if a1 - a0 == b1 - b0:
        return 0
    return -1 if a1 - a0 < b1 - b0 else 1


@kernel
def byte_cells(
    offsets: Int64s, data: Bytes, valid: Flags, cut_offsets: Int64s, cut_data: Bytes, out: Int32s
) -> None:
    """The cell of every byte string, in the order of unsigned bytes."""
    count = len(cut_offsets) - 1
    for i in range(len(offsets) - 1):
        if len(valid) and not valid[i]:
            out[i] = 0
            continue
        low, high = 0, count
        cell = -1
        while low < high:
            middle = (low + high) >> 1
            order = _compare(
                cut_data,
                cut_offsets[middle],
                cut_offsets[middle + 1],
                data,
                offsets[i],
                offsets[i + 1],
            )
            if order == 0:
                cell = 2 * middle + 2
                break
            if order < 0:
                low = middle + 1
            else:
                high = middle
        out[i] = cell if cell >= 0 else 2 * low + 1


@kernel
def intersect_factors(
    low: Int32s,
    high: Int32s,
    factor_start: Int64s,
    negated: Flags,
    null: Flags,
    last: int,
) -> tuple[Int64s, Int32s, Int32s]:
    """For every row the set of cells that all factors accept, as sorted disjoint ranges.

    `low[p, r]` to `high[p, r]` is piece p of row r (a matrix of one column serves all rows); the pieces of factor f
    are factor_start[f] to factor_start[f + 1]. A factor is the union of its pieces or, negated, the rest of the cells
    1..last; `null` adds cell 0. Returns the number of ranges per row, and the ranges.
    """
    rows = low.shape[1]
    factors = len(negated)
    most = 2
    for f in range(factors):
        most += factor_start[f + 1] - factor_start[f] + 2
    counts = np.zeros(rows, np.int64)
    out_low = np.empty(rows * 2 + 16, np.int32)
    out_high = np.empty(rows * 2 + 16, np.int32)
    total = 0
    union_low = np.empty(most, np.int32)
    union_high = np.empty(most, np.int32)
    set_low = np.empty(most, np.int32)
    set_high = np.empty(most, np.int32)
    next_low = np.empty(most, np.int32)
    next_high = np.empty(most, np.int32)
    for r in range(rows):
        size = 1
        set_low[0], set_high[0] = 0, last
        for f in range(factors):
            united = _unite(
                low, high, factor_start[f], factor_start[f + 1], r, union_low, union_high
            )
            if negated[f]:
                united = _complement(union_low, union_high, united, last)
            if null[f]:
                united = _add_null(union_low, union_high, united)
            size = _intersect(
                set_low, set_high, size, union_low, union_high, united, next_low, next_high
            )
            set_low, next_low = next_low, set_low
            set_high, next_high = next_high, set_high
            if size == 0:
                break
        counts[r] = size
        if total + size > len(out_low):
            out_low = _grown(out_low, total + size)
            out_high = _grown(out_high, total + size)
        out_low[total : total + size] = set_low[:size]
        out_high[total : total + size] = set_high[:size]
        total += size
    return counts, out_low[:total], out_high[:total]


@kernel
def _grown(array: Int32s, needed: int) -> Int32s:
    larger = np.empty(max(needed, 2 * len(array)), np.int32)
    larger[: len(array)] = array
    return larger


@kernel
def _unite(
    low: Int32s, high: Int32s, first: int, past: int, row: int, out_low: Int32s, out_high: Int32s
) -> int:
    """The union of pieces as sorted ranges that neither touch nor overlap."""
    size = 0
    for p in range(first, past):
        if low[p, row] <= high[p, row]:
            out_low[size], out_high[size] = low[p, row], high[p, row]
            size += 1
    if size <= 1:
        return size
    order = np.argsort(out_low[:size])
    sorted_low, sorted_high = out_low[order], out_high[order]
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
def _intersect(
    a_low: Int32s,
    a_high: Int32s,
    a_size: int,
    b_low: Int32s,
    b_high: Int32s,
    b_size: int,
    out_low: Int32s,
    out_high: Int32s,
) -> int:
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
