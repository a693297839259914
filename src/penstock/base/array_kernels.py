"""Copying and sorting in kernels.

In a kernel, NumPy's own copy and sort compile into much code. An assignment between slices has an error message about
their shapes, and with it comes all that Numba has for making text. A sort comes with a quicksort, an insertion sort and
a heap. Together they take two seconds in every process that compiles; these loops take a tenth of that.
"""

import numpy as np

from penstock.base.arrays import AnyArray, Int64s
from penstock.base.jit import kernel


@kernel
def copy_values(target: AnyArray, at: int, source: AnyArray, first: int, count: int) -> None:
    """`target[at : at + count] = source[first : first + count]`, for two arrays that don't overlap."""
    for i in range(count):
        target[at + i] = source[first + i]


@kernel
def longest_list(start: AnyArray, first: int) -> int:
    """The length of the longest of the lists that begin at start[first], start[first + 1], …; there is one at least."""
    longest = 0
    for i in range(first, len(start) - 1):
        longest = max(longest, start[i + 1] - start[i])
    return longest


@kernel
def sorted_places(values: AnyArray, count: int) -> Int64s:
    """The places 0 .. count in ascending order of their values; places of equal values keep their order.

    A merge sort, which begins with runs of eight places. Two runs that are in order as they stand aren't merged, so
    that sorted values take one pass.
    """
    order = np.empty(count, np.int64)
    for begin in range(0, count, 8):
        for i in range(begin, min(begin + 8, count)):
            value, at = values[i], i
            while at > begin and values[order[at - 1]] > value:
                order[at] = order[at - 1]
                at -= 1
            order[at] = i
    other = np.empty(count, np.int64)
    width = 8
    while width < count:
        for begin in range(0, count, 2 * width):
            _merge(
                values,
                order,
                other,
                begin,
                min(begin + width, count),
                min(begin + 2 * width, count),
            )
        order, other = other, order
        width *= 2
    return order


@kernel
def _merge(
    values: AnyArray, order: Int64s, into: Int64s, begin: int, middle: int, end: int
) -> None:
    """Merge the runs begin .. middle and middle .. end."""
    left, right = begin, middle
    if middle < end and values[order[middle - 1]] <= values[order[middle]]:
        copy_values(into, begin, order, begin, end - begin)
        return
    for at in range(begin, end):
        if right == end or (left < middle and values[order[left]] <= values[order[right]]):
            into[at] = order[left]
            left += 1
        else:
            into[at] = order[right]
            right += 1
