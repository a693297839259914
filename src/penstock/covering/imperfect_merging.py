"""Imperfect mergers: boxes that differ in a test or two become the box around both (section 5 of the paper).

    symbol = 'A' AND price < 100   ┐
    symbol = 'A' AND volume > 900  ┴▶  symbol = 'A'                          tests of different attributes are dropped
    x = 1 AND y = 1  ┐
    x = 2 AND y = 2  ┴▶  x IN (1, 2) AND y IN (1, 2)                         x = 1 AND y = 2 is let through for nobody

The paper drops the tests that differ; the box around both is smaller and saves the same. Its *loss* is the mass of the
announced events that are in it and in neither of the two, which independent attributes give exactly:

    mass of the box around both - mass of one - mass of the other + mass of what is in both

The losses of all mergers of a table add up to no less than what the table lets through for nobody: an event that passes
and that nobody wants is in the loss of some merger. So there is one *limit* for the sum, and it is spent where it saves
most: each two boxes that join save one, so the least loss comes first. Within a limit of 0, two boxes join only if
no announced event can lie between them; whether a chance is 0 says nothing of that.

Which two: those that have all tests but one or two in common. Hashes of a box less each one and each two of its tests
put them together in a sort, and neighbours there are looked at. A *round* joins as many pairs as it can, the cheapest
first, but leaves a pair for the next round that is dearer than one which had to wait, since what that becomes may be
cheaper.
"""

import numpy as np

from penstock.arrays import Float64s, Int64s, UInt64s
from penstock.covering.boxes import HIGHEST, NULL
from penstock.covering.chances import Chances, share
from penstock.covering.merge_pool import (
    Pool,
    drop_test,
    is_too_long,
    join,
    may_join,
    region_of,
    set_test,
    unite,
    with_ranges,
)
from penstock.covering.perfect_merging import merge_perfectly
from penstock.jit import kernel

_PAIRS = 8  # tests of a box up to which each two of them may differ, beyond it only each one
_NEAR = 3  # boxes behind each in the sort that it is paired with
_PATIENCE = 2.0  # how much dearer than one that waits a pair may be
_SMALL = 0.01  # of the limit: below that, what is dearer doesn't matter
_ROUNDS = 200


def merge_imperfectly(pool: Pool, chances: Chances, limit: float) -> Pool:
    """Join boxes as long as the sum of the losses stays within a limit."""
    left = limit
    for _ in range(_ROUNDS):
        one, other = _pairs(pool)
        cost = _costs(pool, chances, one, other, limit > 0)
        kept = np.flatnonzero(cost <= left)
        order = kept[np.argsort(cost[kept], kind="stable")]
        low, high, joined, spent = _join_cheapest(
            pool, chances, one[order], other[order], cost[order], left, _SMALL * limit
        )
        if not joined:
            break
        left -= spent
        pool = merge_perfectly(with_ranges(pool, low, high))
    return pool


def _pairs(pool: Pool) -> tuple[Int64s, Int64s]:
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
    pairs = np.unique(np.concatenate(found))
    return pairs // max(len(pool.into), 1), pairs % max(len(pool.into), 1)


@kernel
def _keys(pool: Pool) -> tuple[UInt64s, Int64s, Int64s]:
    """Of each box, the hashes of all but one or two of its tests; the box; and where the first of those begins."""
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


# --- what a pair costs ----------------------------------------------------------------------------


@kernel
def _costs(pool: Pool, chances: Chances, one: Int64s, other: Int64s, is_chance: bool) -> Float64s:
    """The loss of the box around each pair; if chances don't count, 0 or infinite."""
    found = np.zeros(len(one))
    for i in range(len(one)):
        b, c = one[i], other[i]
        for piece in range(chances.announcements):
            if is_chance:
                found[i] += _loss(pool, chances, b, c, piece)
            elif _outside(pool, chances, b, c, piece) == 2:
                found[i] = np.inf
                break
    return found


@kernel
def _loss(pool: Pool, chances: Chances, b: int, c: int, piece: int) -> float:
    """The chance of an event of an announced piece that is in the box around two boxes, and in neither."""
    announced = chances.announced
    t, t_past = pool.start[b], pool.start[b + 1]
    u, u_past = pool.start[c], pool.start[c + 1]
    v, v_past = announced.box_start[piece], announced.box_start[piece + 1]
    around = in_b = in_c = in_both = 1.0
    while True:
        while t < t_past and pool.attribute[t] < 0:
            t += 1
        while u < u_past and pool.attribute[u] < 0:
            u += 1
        a = _next_attribute(pool, t, t_past, u, u_past)
        if v < v_past and (a < 0 or announced.attribute[v] < a):
            a = announced.attribute[v]
        if a < 0:
            break
        low, high, whole = NULL, HIGHEST, 1.0
        if v < v_past and announced.attribute[v] == a:
            low, high = announced.low[v], announced.high[v]
            whole = share(chances, a, low, high)
            v += 1
        has_b = t < t_past and pool.attribute[t] == a
        has_c = u < u_past and pool.attribute[u] == a
        of_b = _share_of(pool, chances, a, t, low, high) if has_b else whole
        of_c = _share_of(pool, chances, a, u, low, high) if has_c else whole
        if has_b and has_c:
            both = _share_of_both(pool, chances, a, t, u, low, high)
            around *= of_b + of_c - both
        else:
            both = of_b if has_b else of_c
            around *= whole
        in_b *= of_b
        in_c *= of_c
        in_both *= both
        t += has_b
        u += has_c
    return max(around - in_b - in_c + in_both, 0.0)


@kernel
def _next_attribute(pool: Pool, t: int, t_past: int, u: int, u_past: int) -> int:
    """The lower of the attributes of two tests, -1 if both boxes are at their ends."""
    if t == t_past:
        return -1 if u == u_past else int(pool.attribute[u])
    if u == u_past:
        return int(pool.attribute[t])
    return int(min(pool.attribute[t], pool.attribute[u]))


@kernel
def _share_of(pool: Pool, chances: Chances, a: int, t: int, low: int, high: int) -> float:
    """The chance of a number that a test accepts, from low to high."""
    found = 0.0
    for i in range(pool.first[t], pool.past[t]):
        found += share(chances, a, max(pool.low[i], low), min(pool.high[i], high))
    return found


@kernel
def _share_of_both(
    pool: Pool, chances: Chances, a: int, t: int, u: int, low: int, high: int
) -> float:
    """The chance of a number that two tests accept, from low to high."""
    found = 0.0
    i, j = pool.first[t], pool.first[u]
    while i < pool.past[t] and j < pool.past[u]:
        begin = max(pool.low[i], pool.low[j], low)
        end = min(pool.high[i], pool.high[j], high)
        found += share(chances, a, begin, end)
        if pool.high[i] < pool.high[j]:
            i += 1
        else:
            j += 1
    return found


# --- whether anything is lost, be it ever so unlikely ---------------------------------------------


@kernel
def _outside(pool: Pool, chances: Chances, b: int, c: int, piece: int) -> int:
    """Where the box around two boxes lies, as far as it is in an announced piece (-1: anywhere).

    0: within one of the two; 1: within both together; 2: some of it is in neither. What is outside of b has another
    value of an attribute that b tests. So if there are two such attributes, or c has others, some of it isn't in c.
    """
    announced = chances.announced
    t, t_past = pool.start[b], pool.start[b + 1]
    u, u_past = pool.start[c], pool.start[c + 1]
    v = v_past = 0
    if piece >= 0:
        v, v_past = announced.box_start[piece], announced.box_start[piece + 1]
    beside_b = beside_c = 0  # attributes of which the box around both accepts more
    are_same = True
    while True:
        while t < t_past and pool.attribute[t] < 0:
            t += 1
        while u < u_past and pool.attribute[u] < 0:
            u += 1
        a = _next_attribute(pool, t, t_past, u, u_past)
        if a < 0:
            break
        while v < v_past and announced.attribute[v] < a:
            v += 1
        low, high, is_tested = NULL, HIGHEST, False
        if v < v_past and announced.attribute[v] == a:
            low, high, is_tested = announced.low[v], announced.high[v], True
        has_b = t < t_past and pool.attribute[t] == a
        has_c = u < u_past and pool.attribute[u] == a
        if has_b and has_c:
            if not (_meets(pool, t, low, high) or _meets(pool, u, low, high)):
                return 0  # nothing of it is announced
            more_b = not _includes(pool, t, u, low, high)
            more_c = not _includes(pool, u, t, low, high)
        else:
            can_fail = not (pool.free[a] or is_tested)
            more_b = has_b and (can_fail or not _spans(pool, t, low, high))
            more_c = has_c and (can_fail or not _spans(pool, u, low, high))
        beside_b += more_b
        beside_c += more_c
        are_same &= more_b == more_c
        t += has_b
        u += has_c
    if beside_b == 0 or beside_c == 0:
        return 0
    return 1 if beside_b == 1 and beside_c == 1 and are_same else 2


@kernel
def _meets(pool: Pool, t: int, low: int, high: int) -> bool:
    """Whether a test accepts a number from low to high."""
    for i in range(pool.first[t], pool.past[t]):  # noqa: SIM110 -- kernels have no generators
        if pool.low[i] <= high and pool.high[i] >= low:
            return True
    return False


@kernel
def _spans(pool: Pool, t: int, low: int, high: int) -> bool:
    """Whether a test accepts every number from low to high."""
    for i in range(pool.first[t], pool.past[t]):  # noqa: SIM110 -- kernels have no generators
        if pool.low[i] <= low and pool.high[i] >= high:
            return True
    return False


@kernel
def _includes(pool: Pool, t: int, u: int, low: int, high: int) -> bool:
    """Whether test t accepts what test u does, from low to high."""
    i = pool.first[t]
    for j in range(pool.first[u], pool.past[u]):
        begin, end = max(pool.low[j], low), min(pool.high[j], high)
        if begin > end:
            continue
        while i < pool.past[t] and pool.high[i] < begin:
            i += 1
        if i == pool.past[t] or pool.low[i] > begin or pool.high[i] < end:
            return False
    return True


# --- joining --------------------------------------------------------------------------------------


@kernel
def _join_cheapest(
    pool: Pool,
    chances: Chances,
    one: Int64s,
    other: Int64s,
    cost: Float64s,
    left: float,
    small: float,
) -> tuple[Int64s, Int64s, int, float]:
    """Join pairs that come cheapest first, each box once; the new ranges, how many joined, and the loss of all."""
    room = most = 0  # each box is used once at most
    for b in range(len(pool.into)):
        if pool.into[b] == b:
            room += _ranges_of(pool, b)
            most = max(most, _ranges_of(pool, b))
    a_low, a_high = np.empty(2 * most, np.int64), np.empty(2 * most, np.int64)
    out_low, out_high = np.empty(room, np.int64), np.empty(room, np.int64)
    is_taken = np.zeros(len(pool.into), np.bool_)
    used = joined = 0
    spent, most_cost = 0.0, np.inf
    for i in range(len(one)):
        if cost[i] > most_cost or spent + cost[i] > left:
            break
        b, c = one[i], other[i]
        if region_of(pool, b) == region_of(pool, c):
            continue  # would save no entry
        if is_taken[b] or is_taken[c]:
            if most_cost == np.inf:
                most_cost = max(cost[i] * _PATIENCE, small)
            continue
        is_taken[b] = is_taken[c] = True
        if not may_join(pool, b, c) or not _fits(pool, b, c, a_low, a_high):
            continue
        where = _outside(pool, chances, b, c, -1)
        used = _widen(pool, b, c, a_low, a_high, out_low, out_high, used)
        join(pool, b, c)
        pool.loss[b] += pool.loss[c] + cost[i]
        pool.is_perfect[b] &= pool.is_perfect[c] and where < 2
        spent += cost[i]
        joined += 1
    return out_low[:used].copy(), out_high[:used].copy(), joined, spent


@kernel
def _ranges_of(pool: Pool, b: int) -> int:
    found = 0
    for t in range(pool.start[b], pool.start[b + 1]):
        if pool.attribute[t] >= 0:
            found += pool.past[t] - pool.first[t]
    return found


@kernel
def _test_of(pool: Pool, b: int, attribute: int) -> int:
    """The test that a box has of an attribute, or -1."""
    for t in range(pool.start[b], pool.start[b + 1]):
        if pool.attribute[t] == attribute:
            return int(t)
    return -1


@kernel
def _fits(pool: Pool, b: int, c: int, a_low: Int64s, a_high: Int64s) -> bool:
    """Whether no test of the box around both has too many ranges."""
    for t in range(pool.start[b], pool.start[b + 1]):
        u = _test_of(pool, c, pool.attribute[t]) if pool.attribute[t] >= 0 else -1
        if u >= 0:
            one, other = pool.past[t] - pool.first[t], pool.past[u] - pool.first[u]
            size = _unite_tests(pool, t, u, a_low, a_high)
            if is_too_long(size, one, other):
                return False
    return True


@kernel
def _widen(
    pool: Pool,
    b: int,
    c: int,
    a_low: Int64s,
    a_high: Int64s,
    out_low: Int64s,
    out_high: Int64s,
    used: int,
) -> int:
    """Make b the box around b and c; how many new ranges there are now."""
    for t in range(pool.start[b], pool.start[b + 1]):
        if pool.attribute[t] < 0:
            continue
        u = _test_of(pool, c, pool.attribute[t])
        if u < 0:
            drop_test(pool, b, t)
            continue
        size = _unite_tests(pool, t, u, a_low, a_high)
        set_test(pool, b, t, a_low, a_high, size, len(pool.low) + used)
        out_low[used : used + size] = a_low[:size]
        out_high[used : used + size] = a_high[:size]
        used += size
    return used


@kernel
def _unite_tests(pool: Pool, t: int, u: int, a_low: Int64s, a_high: Int64s) -> int:
    """The ranges of two tests together; how many these are."""
    first, past = pool.first[t], pool.past[t]
    return unite(
        pool.low[first:past],
        pool.high[first:past],
        past - first,
        pool.low,
        pool.high,
        pool.first[u],
        pool.past[u],
        a_low,
        a_high,
    )
