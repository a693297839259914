"""Equal filters, equal conjunctions: however they are written.

    i > 5 AND i < 8         i BETWEEN 6 AND 7        of integers: ranges begin and end in cells that have a value
    i NOT IN (5), i <> 5    i < 5 OR i > 5           what only empty cells lie between is one range
    i > 5 AND i < 6         (nothing)                a range of empty cells is a contradiction
    i > 3 OR i > 5 AND b    i > 3                    an alternative that another one includes isn't needed

The results are shared (`sharing`): each distinct conjunction once, with all the subscriptions that it belongs to. This
module doesn't find alternatives that are equal only together, as `b AND i > 1 OR NOT b AND i > 1` is to `b IS NOT NULL
AND i > 1`.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from penstock.base.arrays import Bools, Int32s, Int64s, offsets
from penstock.base.jit import kernel
from penstock.matching.filled_cells import Snap
from penstock.matching.sharing import CellTests

# Alternatives of one filter are compared in pairs, unless there are more: it may have a thousand.
_MOST_ALTERNATIVES = 32


def canonical(tests: CellTests, owners: Int64s, snap: Snap) -> tuple[CellTests, Int64s]:
    """Conjunctions in canonical form, and their owners. Contradictions and needless alternatives are left out."""
    tests, possible = _in_filled_cells(tests, len(owners), snap)
    wanted = possible & _needed(tests, owners, possible)
    if wanted.all():
        return tests, owners
    number = np.cumsum(wanted) - 1
    kept = tests.where(wanted[tests.conjunction])
    return replace(kept, conjunction=number[kept.conjunction]), owners[wanted]


def _in_filled_cells(tests: CellTests, count: int, snap: Snap) -> tuple[CellTests, Bools]:
    """The same tests with ranges that begin and end in filled cells, and which of so many conjunctions can be true."""
    single = len(tests.low) == len(tests.ranges)
    of = tests.attribute if single else np.repeat(tests.attribute, tests.ranges)
    low, high = snap.up(of, tests.low), snap.down(of, tests.high)
    possible = np.ones(count, np.bool_)
    if single:
        possible[tests.conjunction[low > high]] = False
        return replace(tests, low=low, high=high), possible
    after = snap.up(of, np.minimum(tests.high + 1, snap.last[of]))
    start, low, high = close_gaps(offsets(tests.ranges), low, high, after)
    ranges = np.diff(start)
    possible[tests.conjunction[ranges == 0]] = False
    return replace(tests, ranges=ranges, low=low, high=high), possible


@kernel
def close_gaps(
    start: Int64s, low: Int32s, high: Int32s, after: Int32s
) -> tuple[Int64s, Int32s, Int32s]:
    """Lists of ranges without the empty ones, and with one where only empty cells were between two.

    `after` is the first filled cell past each range.
    """
    new_start = np.zeros(len(start), np.int64)
    new_low, new_high = np.empty(len(low), np.int32), np.empty(len(low), np.int32)
    total = 0
    for s in range(len(start) - 1):
        first = total
        behind = -1
        for i in range(start[s], start[s + 1]):
            if low[i] > high[i]:
                continue
            if total > first and low[i] == behind:
                new_high[total - 1] = high[i]
            else:
                new_low[total], new_high[total] = low[i], high[i]
                total += 1
            behind = after[i]
        new_start[s + 1] = total
    return new_start, new_low[:total].copy(), new_high[:total].copy()


# --- alternatives ------------------------------------------------------------------------------


def _needed(tests: CellTests, owners: Int64s, possible: Bools) -> Bools:
    """Which conjunctions aren't included by another of the same owner."""
    needed = np.ones(len(owners), np.bool_)
    several = np.flatnonzero((np.bincount(owners)[owners] > 1) & possible)
    if len(several):
        order = several[np.argsort(owners[several], kind="stable")]
        start = np.searchsorted(tests.conjunction, np.arange(len(owners) + 1))
        ranges = offsets(tests.ranges)
        found = _TestRanges(start, tests.attribute, ranges, tests.low, tests.high)
        _drop_included(order, owners, found, needed)
    return needed


class _TestRanges(NamedTuple):
    """Conjunction c has the tests start[c] .. start[c + 1].

    Test t is of attribute[t] and has the ranges first[t] .. first[t + 1].
    """

    start: Int64s
    attribute: Int64s
    first: Int64s
    low: Int32s
    high: Int32s


@kernel
def _drop_included(order: Int64s, owners: Int64s, tests: _TestRanges, needed: Bools) -> None:
    """Unmark what is included by another. Of equal ones the first stays."""
    begin = 0
    while begin < len(order):
        end = begin
        while end < len(order) and owners[order[end]] == owners[order[begin]]:
            end += 1
        if end - begin <= _MOST_ALTERNATIVES:
            for i in range(begin, end):
                for j in range(begin, end):
                    if i != j and needed[order[i]] and needed[order[j]]:
                        needed[order[j]] = not _includes(order[i], order[j], tests)
        begin = end


@kernel
def _includes(a: int, b: int, tests: _TestRanges) -> bool:
    """Whether conjunction a is true wherever b is, test by test."""
    for t in range(tests.start[a], tests.start[a + 1]):
        found = False
        for u in range(tests.start[b], tests.start[b + 1]):
            if tests.attribute[u] == tests.attribute[t] and _accepts(t, u, tests):
                found = True
                break
        if not found:
            return False
    return True


@kernel
def _accepts(t: int, u: int, tests: _TestRanges) -> bool:
    """Whether each range of test u lies in one of test t."""
    first, low, high = tests.first, tests.low, tests.high
    i = first[t]
    for j in range(first[u], first[u + 1]):
        while i < first[t + 1] and high[i] < low[j]:
            i += 1
        if i == first[t + 1] or low[i] > low[j] or high[i] < high[j]:
            return False
    return True
