"""Perfect mergers: boxes that ask the same of all attributes but one become one box (mbd §5.1.1).

    symbol = 'A' AND price BETWEEN 10 AND 20  ┐
    symbol = 'A' AND price BETWEEN 21 AND 30  ┼▶  symbol = 'A' AND (price BETWEEN 10 AND 30 OR price = 35)
    symbol = 'A' AND price = 35               ┘

Of the one attribute the merger accepts what any of them does, which is ranges again: an IN list of strings, NOT NULL
from `<> 5` and `= 5`, one range from ranges that touch. So nothing is let through that none of them matches, and
whoever of them leaves takes away no more than its own values.

mbd §5.2 finds such boxes by their place in a diagram: those whose first test differs, so that the order of attributes
matters. Here it is any one attribute: each box has a hash of all its tests, from which that of one test can be taken,
and those with the same rest stand together in a sort. One *sweep* does this for one attribute; a merger may merge
again, along another, until nothing does.
"""

from typing import NamedTuple

import numpy as np

from penstock.base.arrays import Int64s, UInt64s
from penstock.base.jit import kernel
from penstock.covering.boxes import HIGHEST
from penstock.covering.merge_pool import (
    MOST_RANGES,
    MergePool,
    is_full,
    is_too_long,
    join,
    may_join,
    set_test,
    unite,
    with_ranges,
)


def merge_perfectly(pool: MergePool) -> MergePool:
    """Merge until no two boxes differ in one attribute only, but for those that would get too large."""
    attributes = pool.attributes()
    quiet = place = 0
    while quiet < len(attributes):
        pool, joined = _sweep(pool, attributes[place])
        quiet = 0 if joined else quiet + 1
        place = (place + 1) % len(attributes)
    return pool


def _sweep(pool: MergePool, attribute: int) -> tuple[MergePool, int]:
    """Merge along one attribute; how many boxes have joined others."""
    tests, owners = _tests_of(pool, attribute)
    if len(tests) < 2:
        return pool, 0
    rest = pool.whole[owners] - pool.hashes[tests]
    order = np.lexsort((pool.low[pool.first[tests]], rest))
    work = _Sweep(tests[order], owners[order], rest[order])
    low, high, joined = _join_all(pool, work)
    return with_ranges(pool, low, high), joined


class _Sweep(NamedTuple):
    """The tests of one attribute, those of boxes with the same rest together and ascending by where they begin."""

    tests: Int64s
    owners: Int64s
    rest: UInt64s


@kernel
def _tests_of(pool: MergePool, attribute: int) -> tuple[Int64s, Int64s]:
    """The tests of an attribute, of boxes that have joined none, with their boxes."""
    tests, owners = np.empty(len(pool.into), np.int64), np.empty(len(pool.into), np.int64)
    count = 0
    for b in range(len(pool.into)):
        if pool.into[b] != b:
            continue
        for t in range(pool.start[b], pool.start[b + 1]):
            if pool.attribute[t] == attribute:
                tests[count], owners[count] = t, b
                count += 1
    return tests[:count], owners[:count]


class _Room(NamedTuple):
    """Ranges on their way: those of the merger that is being made, a union of them, and all that are done."""

    low: Int64s
    high: Int64s
    union_low: Int64s
    union_high: Int64s
    done_low: Int64s
    done_high: Int64s


@kernel
def _join_all(pool: MergePool, work: _Sweep) -> tuple[Int64s, Int64s, int]:
    """Merge what can be; the new ranges, and how many boxes have joined others."""
    size = 0
    for t in work.tests:
        size += pool.past[t] - pool.first[t]
    room = _Room(
        np.empty(size, np.int64),
        np.empty(size, np.int64),
        np.empty(size, np.int64),
        np.empty(size, np.int64),
        np.empty(size, np.int64),
        np.empty(size, np.int64),
    )
    used = joined = first = 0
    while first < len(work.tests):
        past = first + 1
        while past < len(work.tests) and work.rest[past] == work.rest[first]:
            past += 1
        while first < past - 1:
            following, members, used = _join_to(pool, work, first, past, room, used)
            joined += members
            first = following
        first = past
    return room.done_low[:used].copy(), room.done_high[:used].copy(), joined


@kernel
def _join_to(
    pool: MergePool, work: _Sweep, head: int, past: int, room: _Room, used: int
) -> tuple[int, int, int]:
    """Merge into the first of a group what can be; the first that can't, how many joined, how many ranges are done."""
    b, t = work.owners[head], work.tests[head]
    size = pool.past[t] - pool.first[t]
    room.low[:size] = pool.low[pool.first[t] : pool.past[t]]
    room.high[:size] = pool.high[pool.first[t] : pool.past[t]]
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
        set_test(pool, b, t, room.low, room.high, size, len(pool.low) + used)
        room.done_low[used : used + size] = room.low[:size]
        room.done_high[used : used + size] = room.high[:size]
        used += size
    return following, members, used


@kernel
def _add_ranges(pool: MergePool, t: int, room: _Room, size: int) -> int:
    """Unite the ranges of a merger with those of one more test; how many there are then, 0 if these are too many."""
    first, past = pool.first[t], pool.past[t]
    last = room.high[size - 1]
    if past == first + 1 and last != HIGHEST and pool.low[first] > last + 1:
        # By far the most, since they come in order.
        if size >= MOST_RANGES:
            return 0
        room.low[size], room.high[size] = pool.low[first], pool.high[first]
        return size + 1
    together = unite(
        room.low, room.high, size, pool.low, pool.high, first, past, room.union_low, room.union_high
    )
    if is_too_long(together, size, past - first):
        return 0
    room.low[:together] = room.union_low[:together]
    room.high[:together] = room.union_high[:together]
    return together


@kernel
def _same_rest(pool: MergePool, b: int, of_b: int, c: int, of_c: int) -> bool:
    """Whether two boxes have the same tests but for two of one attribute."""
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
    size = pool.past[t] - pool.first[t]
    if pool.past[u] - pool.first[u] != size:
        return False
    for k in range(size):
        if pool.low[pool.first[t] + k] != pool.low[pool.first[u] + k]:
            return False
        if pool.high[pool.first[t] + k] != pool.high[pool.first[u] + k]:
            return False
    return True
