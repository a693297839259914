"""Perfect mergers: boxes whose tests differ in one attribute only become one box (mbd §5.1.1).

    symbol = 'A' AND price BETWEEN 10 AND 20  ┐
    symbol = 'A' AND price BETWEEN 21 AND 30  ┼▶  symbol = 'A' AND (price BETWEEN 10 AND 30 OR price = 35)
    symbol = 'A' AND price = 35               ┘

Of that attribute the merger accepts each value that one of its parts accepts. These are ranges again: an IN list of
strings, NOT NULL from `<> 5` and `= 5`, one range from ranges that touch. So the merger matches no event that none of
its parts matches, and a part that leaves takes away no more than its own values.

mbd §5.2 finds such boxes by their place in a diagram: only their first test may differ, so the order of attributes
matters. Here any one attribute may differ. Each box has a hash of all its tests, from which the hash of one test can be
subtracted, and a sort brings boxes with the same rest together. One *sweep* does this for one attribute. A merger may
merge again along another attribute, so sweeps go on until nothing merges.
"""

from typing import NamedTuple

import numpy as np

from penstock.base.array_kernels import copy_values
from penstock.base.arrays import Int64s, UInt64s
from penstock.base.jit import kernel
from penstock.covering.boxes import HIGHEST
from penstock.covering.merge_pool import (
    MOST_RANGES,
    MergePool,
    Ranges,
    is_full,
    is_too_long,
    join,
    may_join,
    room_for,
    set_test,
    unite,
    with_ranges,
)


def merge_perfectly(pool: MergePool) -> MergePool:
    """Merge until no two boxes differ in one attribute only, except those that would get too large."""
    attributes = pool.attributes()
    quiet = place = 0
    while quiet < len(attributes):
        pool, joined = _sweep(pool, attributes[place])
        quiet = 0 if joined else quiet + 1
        place = (place + 1) % len(attributes)
    return pool


def _sweep(pool: MergePool, attribute: int) -> tuple[MergePool, int]:
    """Merge along one attribute; how many boxes have joined others."""
    tests = np.flatnonzero(pool.attribute == attribute)
    owners = np.searchsorted(pool.start, tests, "right") - 1
    alone = pool.into[owners] == owners
    tests, owners = tests[alone], owners[alone]
    if len(tests) < 2:
        return pool, 0
    rest = pool.whole[owners] - pool.hashes[tests]
    order = np.lexsort((pool.low[pool.first[tests]], rest))
    made, joined = _join_all(pool, _Sweep(tests[order], owners[order], rest[order]))
    return with_ranges(pool, made), joined


class _Sweep(NamedTuple):
    """The tests of one attribute, those of boxes with the same rest together and ascending by where they begin."""

    tests: Int64s
    owners: Int64s
    rest: UInt64s


class _Room(NamedTuple):
    """Room for ranges: those of the merger that is being made, scratch for a union, and all that are done."""

    making: Ranges
    union: Ranges
    done: Ranges


@kernel
def _join_all(pool: MergePool, work: _Sweep) -> tuple[Ranges, int]:
    """Merge all boxes that can be; the new ranges, and how many boxes have joined others."""
    size = 0
    for t in work.tests:
        size += pool.past[t] - pool.first[t]
    room = _Room(room_for(size), room_for(size), room_for(size))
    used = joined = first = 0
    while first < len(work.tests):
        past = first + 1
        while past < len(work.tests) and work.rest[past] == work.rest[first]:
            past += 1
        while first < past - 1:
            first, members, used = _join_to(pool, work, first, past, room, used)
            joined += members
        first = past
    return Ranges(room.done.low[:used].copy(), room.done.high[:used].copy()), joined


@kernel
def _join_to(
    pool: MergePool, work: _Sweep, head: int, past: int, room: _Room, used: int
) -> tuple[int, int, int]:
    """Merge boxes of a group into the first; the first that can't be, how many joined, how many ranges are done."""
    b, t = work.owners[head], work.tests[head]
    size = pool.past[t] - pool.first[t]
    copy_values(room.making.low, 0, pool.low, pool.first[t], size)
    copy_values(room.making.high, 0, pool.high, pool.first[t], size)
    following, members = past, 0
    for place in range(head + 1, past):
        c, u = work.owners[place], work.tests[place]
        if pool.into[c] != c:
            continue
        together = 0
        if may_join(pool, b, c) and _same_rest(pool, b, t, c, u):
            together = _add_ranges(pool, u, room, size)
        if together:
            size = together
            join(pool, b, c)
            pool.loss[b] += pool.loss[c]
            pool.is_perfect[b] &= pool.is_perfect[c]
            members += 1
        elif following == past:
            following = place
        if following < past and (size >= MOST_RANGES or is_full(pool, b)):
            break
    if members:
        used = set_test(pool, b, t, room.making, size, room.done, used)
    return following, members, used


@kernel
def _add_ranges(pool: MergePool, t: int, room: _Room, size: int) -> int:
    """Unite the ranges of a merger with those of one more test; how many there are then, 0 if these are too many."""
    first, past = pool.first[t], pool.past[t]
    low, high = room.making
    if past == first + 1 and high[size - 1] != HIGHEST and pool.low[first] > high[size - 1] + 1:
        # The usual case, since tests come in order.
        if size >= MOST_RANGES:
            return 0
        low[size], high[size] = pool.low[first], pool.high[first]
        return size + 1
    together = unite(pool, t, room.making, size, room.union)
    if is_too_long(together, size, past - first):
        return 0
    copy_values(low, 0, room.union.low, 0, together)
    copy_values(high, 0, room.union.high, 0, together)
    return together


@kernel
def _same_rest(pool: MergePool, b: int, of_b: int, c: int, of_c: int) -> bool:
    """Whether two boxes have the same tests, apart from one test of each, of the same attribute."""
    t, past = pool.start[b], pool.start[b + 1]
    u, end = pool.start[c], pool.start[c + 1]
    while True:
        while t < past and (pool.attribute[t] < 0 or t == of_b):
            t += 1
        while u < end and (pool.attribute[u] < 0 or u == of_c):
            u += 1
        if t == past or u == end:
            return bool(t == past and u == end)
        if pool.attribute[t] != pool.attribute[u] or not _same_ranges(pool, t, u):
            return False
        t += 1
        u += 1


@kernel
def _same_ranges(pool: MergePool, t: int, u: int) -> bool:
    t_first, t_past, u_first, u_past = pool.first[t], pool.past[t], pool.first[u], pool.past[u]
    if t_past - t_first != u_past - u_first:
        return False
    for i in range(t_past - t_first):
        if pool.low[t_first + i] != pool.low[u_first + i]:
            return False
        if pool.high[t_first + i] != pool.high[u_first + i]:
            return False
    return True
