"""A node's events as a list of words: those of its 64-bit words that aren't zero, each with its number.

All lists of a climb (see `mbd_blocks`) stand in one pair of arrays, `word` and `bits`, one behind the other: a list is
given by where it begins and ends. The list of the node below is at source .. past_source. The list of the node itself
is written from `some` on, and the functions return where it ends. No branch skips words that are zero: a zero word is
written, and the next word overwrites it.

The functions take single arrays. With tuples of them, each call would copy their descriptions, and count references.
"""

import numpy as np
from numba.cpython.unsafe.numbers import trailing_zeros

from penstock.base.arrays import Int32s, Int64s, UInt64s
from penstock.base.jit import kernel
from penstock.matching.engines.entries import PlanConjunctions, in_set
from penstock.matching.engines.mbd_tables import BANDS, UInt16s, bands


@kernel
def append_run(first: int, past: int, word: UInt64s, bits: UInt64s, some: int) -> int:
    """Append the places first .. past, which come after all that are there. Returns where the words end."""
    before = bits[some - 1] if some and word[some - 1] == first >> 6 else np.uint64(0)
    some -= before != 0
    begin = some
    for w in range(first >> 6, (past + 63) >> 6):
        word[some], bits[some] = w, ~np.uint64(0)
        some += 1
    bits[begin] &= ~np.uint64(0) << np.uint64(first & 63)
    bits[some - 1] &= ~np.uint64(0) >> np.uint64(-past & 63)
    bits[begin] |= before
    return some


@kernel
def rows_of(
    t: int, run: int, shift: int, words: int, path: Int64s, ways: int
) -> tuple[int, int, int]:
    """Where the two rows of a predicate begin in the tables. If they give a superset, the path gets longer."""
    path[ways, 0], path[ways, 1], path[ways, 2] = t, run >> 16, run & 0xFFFF
    below, up_to = bands(run, shift)
    row = int(t) * (BANDS + 1)
    return (row + below) * words, (row + up_to) * words, ways + (shift > 0)


@kernel
def and_one(
    tables: UInt64s,
    below: int,
    up_to: int,
    word: UInt64s,
    bits: UInt64s,
    source: int,
    past_source: int,
    some: int,
) -> int:
    """The words source .. past_source AND the difference of two rows, from `some` on. Returns where the words end."""
    l0, u0 = np.uint64(below), np.uint64(up_to)
    for k in range(source, past_source):
        w = word[k]
        x = bits[k] & (tables[u0 + w] ^ tables[l0 + w])
        word[some], bits[some] = w, x
        some += x != 0
    return some


@kernel
def and_three(
    tables: UInt64s,
    below: int,
    up_to: int,
    below1: int,
    up_to1: int,
    below2: int,
    up_to2: int,
    word: UInt64s,
    bits: UInt64s,
    source: int,
    past_source: int,
    some: int,
) -> int:
    """The same for three pairs of rows."""
    l0, u0, l1, u1 = np.uint64(below), np.uint64(up_to), np.uint64(below1), np.uint64(up_to1)
    l2, u2 = np.uint64(below2), np.uint64(up_to2)
    for k in range(source, past_source):
        w = word[k]
        x = (
            bits[k]
            & (tables[u0 + w] ^ tables[l0 + w])
            & (tables[u1 + w] ^ tables[l1 + w])
            & (tables[u2 + w] ^ tables[l2 + w])
        )
        word[some], bits[some] = w, x
        some += x != 0
    return some


@kernel
def and_ranges(
    tables: UInt64s,
    t: int,
    shift: int,
    words: int,
    range_run: Int32s,
    first: int,
    past: int,
    word: UInt64s,
    bits: UInt64s,
    source: int,
    past_source: int,
    some: int,
) -> int:
    """The same for a set of ranges, first .. past."""
    row = t * (BANDS + 1)
    for k in range(source, past_source):
        w = np.int64(word[k])
        x = np.uint64(0)
        for r in range(first, past):
            below, up_to = bands(range_run[r], shift)
            x |= tables[(row + up_to) * words + w] ^ tables[(row + below) * words + w]
        x &= bits[k]
        word[some], bits[some] = word[k], x
        some += x != 0
    return some


@kernel
def and_tested(
    a: int,
    low: int,
    high: int,
    s: int,
    conjunctions: PlanConjunctions,
    cells: Int32s,
    order: Int32s,
    word: UInt64s,
    bits: UInt64s,
    source: int,
    past_source: int,
    some: int,
) -> int:
    """The same for a range of cells or, if s >= 0, a set, event by event."""
    for k in range(source, past_source):
        x, kept, place = bits[k], np.uint64(0), np.int64(word[k] << np.uint64(6))
        while x:
            cell = cells[a, order[place + trailing_zeros(x)]]
            holds = (low <= cell) & (cell <= high)
            if holds and s >= 0:
                holds = in_set(cell, s, conjunctions)
            others = x & (x - np.uint64(1))
            kept |= (x ^ others) * np.uint64(holds)
            x = others
        word[some], bits[some] = word[k], kept
        some += kept != 0
    return some


@kernel
def path_holds(
    e: int,
    path: Int64s,
    ways: int,
    rank: UInt16s,
    cells: Int32s,
    set_attribute: Int32s,
    conjunctions: PlanConjunctions,
) -> bool:
    """Does an event satisfy the predicates of the path?"""
    holds = True
    for i in range(ways):
        t = path[i, 0]
        if t >= 0:
            holds &= (path[i, 1] <= rank[t, e]) & (rank[t, e] < path[i, 2])
        else:
            holds &= in_set(cells[set_attribute[~t], e], ~t, conjunctions)
    return holds
