"""Imperfect mergers: boxes that differ in a test or two become the box around both (mbd §5.3).

    symbol = 'A' AND price < 100   ┐
    symbol = 'A' AND volume > 900  ┴▶  symbol = 'A'                          tests of different attributes are dropped
    x = 1 AND y = 1  ┐
    x = 2 AND y = 2  ┴▶  x IN (1, 2) AND y IN (1, 2)                         x = 1 AND y = 2 is let through in vain

mbd §5.1.1 drops the tests that differ; the box around both is smaller and saves as much. Its *loss* is the mass of the
announced events that are in it and in neither of the two (`merge_loss`).

An event that passes the table although no subscription matches it is in the loss of some merger. So the sum of all
losses bounds the mass of such events, and there is one *limit* for the sum. It is spent where it saves most: each two
boxes that join save one, so the pair with the least loss comes first. Within a limit of 0, two boxes join only if no
event can be lost (`lies_outside`); that its chance is 0 isn't enough.

Only boxes are paired that have all tests but one or two in common. To find them, the hashes of each box without any
one, and any two, of its tests are sorted, and neighbours are looked at. A *round* joins each box at most once, the
cheapest pairs first. It ends at pairs that cost much more than the first pair that has to wait because one of its boxes
is taken: the next round may find cheaper ones.
"""

from typing import NamedTuple

import numpy as np

from penstock.base.arrays import Float64s, Int64s, UInt64s, distinct
from penstock.base.jit import kernel
from penstock.covering.chances import Chances
from penstock.covering.merge_loss import costs, lies_outside
from penstock.covering.merge_pool import (
    MergePool,
    Ranges,
    drop_test,
    is_too_long,
    join,
    may_join,
    region_of,
    room_for,
    set_test,
    unite,
    with_ranges,
)
from penstock.covering.perfect_merging import merge_perfectly

_PAIRS = 8  # up to so many tests of a box any two may differ, with more only any one
_NEAR = 3  # each box is paired with so many that follow it in the sort
_PATIENCE = 2.0  # times the cost of the first pair that waits: a costlier pair ends a round
_SMALL = 0.01  # of the limit: cheaper pairs never end a round
_ROUNDS = 200


def merge_imperfectly(pool: MergePool, chances: Chances, limit: float) -> MergePool:
    """Join boxes as long as the sum of the losses stays within a limit."""
    left = limit
    for _ in range(_ROUNDS):
        one, other = _pairs(pool)
        cost = costs(pool, chances, one, other, limit > 0)
        kept = np.flatnonzero(cost <= left)
        order = kept[np.argsort(cost[kept], kind="stable")]
        pairs = _Pairs(one[order], other[order], cost[order])
        made, joined, spent = _join_cheapest(pool, chances, pairs, left, _SMALL * limit)
        if not joined:
            break
        left -= spent
        pool = merge_perfectly(with_ranges(pool, made))
    return pool


def _pairs(pool: MergePool) -> tuple[Int64s, Int64s]:
    """Boxes that have all tests but one or two in common, each pair once."""
    keys, boxes, begins = _keys(pool)
    order = np.lexsort((begins, keys))
    keys, boxes = keys[order], boxes[order]
    found = [np.empty(0, np.int64)]
    for step in range(1, _NEAR + 1):
        same = np.flatnonzero(keys[step:] == keys[:-step])
        one, other = boxes[same], boxes[same + step]
        pair = np.minimum(one, other) * len(pool.into) + np.maximum(one, other)
        found.append(pair[one != other])
    pairs = distinct(np.concatenate(found))
    return pairs // max(len(pool.into), 1), pairs % max(len(pool.into), 1)


@kernel
def _keys(pool: MergePool) -> tuple[UInt64s, Int64s, Int64s]:
    """The hashes of each box without one or two of its tests; the box; and where the first of these tests begins."""
    room = 0
    for b in range(len(pool.into)):
        n = pool.start[b + 1] - pool.start[b]
        room += n + (n * (n - 1) // 2 if n <= _PAIRS else 0)
    keys, boxes = np.empty(room, np.uint64), np.empty(room, np.int64)
    begins = np.empty(room, np.int64)
    count = 0
    for b in range(len(pool.into)):
        if pool.into[b] != b:
            continue
        first, past = pool.start[b], pool.start[b + 1]
        for t in range(first, past):
            if pool.attribute[t] < 0:
                continue
            begin = pool.low[pool.first[t]]
            rest = pool.whole[b] - pool.hashes[t]
            keys[count], boxes[count], begins[count] = rest, b, begin
            count += 1
            for u in range(t + 1, past):
                if pool.attribute[u] >= 0 and past - first <= _PAIRS:
                    keys[count], boxes[count], begins[count] = rest - pool.hashes[u], b, begin
                    count += 1
    return keys[:count], boxes[:count], begins[:count]


# --- joining --------------------------------------------------------------------------------------


class _Pairs(NamedTuple):
    """Boxes that may join, two and two, and the loss of each pair; ascending."""

    one: Int64s
    other: Int64s
    cost: Float64s


@kernel
def _join_cheapest(
    pool: MergePool, chances: Chances, pairs: _Pairs, left: float, small: float
) -> tuple[Ranges, int, float]:
    """Join pairs, which are sorted by cost, each box at most once; the new ranges, how many joined, their loss."""
    room = most = 0  # each box is used once at most
    for b in range(len(pool.into)):
        if pool.into[b] == b:
            room += _ranges_of(pool, b)
            most = max(most, _ranges_of(pool, b))
    union, done = room_for(2 * most), room_for(room)
    is_taken = np.zeros(len(pool.into), np.bool_)
    used = joined = 0
    spent, most_cost = 0.0, np.inf
    for i in range(len(pairs.cost)):
        b, c, cost = pairs.one[i], pairs.other[i], pairs.cost[i]
        if cost > most_cost or spent + cost > left:
            break
        if region_of(pool, b) == region_of(pool, c):
            continue  # would save no entry
        if is_taken[b] or is_taken[c]:
            if most_cost == np.inf:
                most_cost = max(cost * _PATIENCE, small)
            continue
        is_taken[b] = is_taken[c] = True
        if not may_join(pool, b, c) or not _fits(pool, b, c, union):
            continue
        where = lies_outside(pool, chances, b, c, -1)
        used = _widen(pool, b, c, union, done, used)
        join(pool, b, c)
        pool.loss[b] += pool.loss[c] + cost
        pool.is_perfect[b] &= pool.is_perfect[c] and where < 2
        spent += cost
        joined += 1
    return Ranges(done.low[:used].copy(), done.high[:used].copy()), joined, spent


@kernel
def _ranges_of(pool: MergePool, b: int) -> int:
    found = 0
    for t in range(pool.start[b], pool.start[b + 1]):
        if pool.attribute[t] >= 0:
            found += pool.past[t] - pool.first[t]
    return found


@kernel
def _test_of(pool: MergePool, b: int, attribute: int) -> int:
    """The test that a box has of an attribute, or -1."""
    for t in range(pool.start[b], pool.start[b + 1]):
        if pool.attribute[t] == attribute:
            return int(t)
    return -1


@kernel
def _fits(pool: MergePool, b: int, c: int, union: Ranges) -> bool:
    """Whether no test of the box around both has too many ranges. `union` is scratch."""
    for t in range(pool.start[b], pool.start[b + 1]):
        u = _test_of(pool, c, pool.attribute[t]) if pool.attribute[t] >= 0 else -1
        if u >= 0:
            one, other = pool.past[t] - pool.first[t], pool.past[u] - pool.first[u]
            if is_too_long(_unite_tests(pool, t, u, union), one, other):
                return False
    return True


@kernel
def _widen(pool: MergePool, b: int, c: int, union: Ranges, done: Ranges, used: int) -> int:
    """Make b the box around b and c; how many new ranges there are now."""
    for t in range(pool.start[b], pool.start[b + 1]):
        if pool.attribute[t] < 0:
            continue
        u = _test_of(pool, c, pool.attribute[t])
        if u < 0:
            drop_test(pool, b, t)
        else:
            size = _unite_tests(pool, t, u, union)
            used = set_test(pool, b, t, union, size, done, used)
    return used


@kernel
def _unite_tests(pool: MergePool, t: int, u: int, union: Ranges) -> int:
    """Write the union of the ranges of two tests into `union`; how many ranges it has."""
    first, past = pool.first[t], pool.past[t]
    own = Ranges(pool.low[first:past], pool.high[first:past])
    return unite(pool, u, own, past - first, union)
