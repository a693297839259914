"""Kernels that find cells, and others that several modules use.

A *cell* is where a value stands among the sorted constants (cuts) of its attribute's predicates: 0 is NULL, 1 below the
first cut, 2 equal to it, 3 between the first and the second, …, 2k+1 above the last of k cuts. Odd cells are gaps, even
ones points. Whatever the type was, a predicate is a set of cell numbers from here on: sorted, disjoint ranges.
"""

import numpy as np

from penstock.base.array_kernels import copy_values
from penstock.base.arrays import AnyArray, Bools, Bytes, Int32s, Int64s
from penstock.base.jit import kernel

UNKNOWN, FALSE, TRUE = 0, 1, 2  # the cells of a derived attribute


@kernel
def grow_array(array: AnyArray, needed: int) -> AnyArray:
    """A copy that is at least `needed` long, and at least twice as long as the array."""
    larger = np.empty(max(needed, 2 * len(array)), array.dtype)
    copy_values(larger, 0, array, 0, len(array))
    return larger


@kernel
def in_ranges(cell: int, first: int, past: int, low: Int32s, high: Int32s) -> bool:
    """Whether one of the ranges first .. past, ascending and disjoint, has a cell."""
    while first < past:
        middle = (first + past) >> 1
        if high[middle] < cell:
            first = middle + 1
        elif low[middle] > cell:
            past = middle
        else:
            return True
    return False


@kernel
def int_cells(keys: Int64s, valid: Bools, cuts: Int64s, out: Int32s) -> None:
    """The cell of every key; `valid` may be empty, meaning that all are.

    The first guess takes the cuts to be evenly spread, as those of whole numbers mostly are. From there on the search
    is binary.
    """
    count = len(cuts)
    if count == 0:
        for i in range(len(keys)):
            out[i] = 0 if len(valid) and not valid[i] else 1
        return
    first, last = cuts[0], cuts[count - 1]
    span = np.float64(last) - np.float64(first)  # 0 for large neighbours, too
    spread = (count - 1) / span if span > 0 else 0.0
    for i in range(len(keys)):
        if len(valid) and not valid[i]:
            out[i] = 0
            continue
        key = keys[i]
        low, high = 0, count
        if first <= key <= last:
            guess = min(count - 1, int((np.float64(key) - np.float64(first)) * spread))
            if cuts[guess] == key:
                out[i] = 2 * guess + 2
                continue
            if cuts[guess] < key:
                low = guess + 1
            else:
                high = guess
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
    offsets: Int64s, data: Bytes, valid: Bools, cut_offsets: Int64s, cut_data: Bytes, out: Int32s
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
