"""The loss of merging two boxes: the announced events in the box around both that are in neither of the two.

Attributes are taken to be independent, so the mass of these events follows from products, in one walk over the tests:

    mass of the box around both - mass of one - mass of the other + mass of their intersection

A single value of a double has the chance 0. So `lies_outside` finds without chances whether there is any such event,
however unlikely.
"""

import numpy as np

from penstock.base.arrays import Float64s, Int64s
from penstock.base.jit import kernel
from penstock.covering.boxes import HIGHEST, NULL
from penstock.covering.chances import Chances, share
from penstock.covering.merge_pool import MergePool


@kernel
def costs(
    pool: MergePool, chances: Chances, one: Int64s, other: Int64s, is_chance: bool
) -> Float64s:
    """The loss of the box around each pair. Without `is_chance` it is 0 if nothing is lost, else infinite."""
    found = np.zeros(len(one))
    for i in range(len(one)):
        b, c = one[i], other[i]
        for piece in range(chances.announcements):
            if is_chance:
                found[i] += _loss(pool, chances, b, c, piece)
            elif lies_outside(pool, chances, b, c, piece) == 2:
                found[i] = np.inf
                break
    return found


@kernel
def _loss(pool: MergePool, chances: Chances, b: int, c: int, piece: int) -> float:
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
def _next_attribute(pool: MergePool, t: int, t_past: int, u: int, u_past: int) -> int:
    """The lower of the attributes of two tests, -1 if both boxes are at their ends."""
    if t == t_past:
        return -1 if u == u_past else int(pool.attribute[u])
    if u == u_past:
        return int(pool.attribute[t])
    return int(min(pool.attribute[t], pool.attribute[u]))


@kernel
def _share_of(pool: MergePool, chances: Chances, a: int, t: int, low: int, high: int) -> float:
    """The chance of a number that a test accepts, from low to high."""
    found = 0.0
    for i in range(pool.first[t], pool.past[t]):
        found += share(chances, a, max(pool.low[i], low), min(pool.high[i], high))
    return found


@kernel
def _share_of_both(
    pool: MergePool, chances: Chances, a: int, t: int, u: int, low: int, high: int
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


# --- whether anything is lost, however unlikely ---------------------------------------------------


@kernel
def lies_outside(pool: MergePool, chances: Chances, b: int, c: int, piece: int) -> int:
    """Where the box around two boxes lies, as far as it is in an announced piece (-1: all of it counts).

    0: within one of the two; 1: within both together; 2: some of it is in neither. An event outside of b has a value
    that b doesn't accept, of an attribute of which the box around both accepts more. If b has two such attributes, or
    those of c are others, some event is outside of c, too.
    """
    announced = chances.announced
    t, t_past = pool.start[b], pool.start[b + 1]
    u, u_past = pool.start[c], pool.start[c + 1]
    v = v_past = 0
    if piece >= 0:
        v, v_past = announced.box_start[piece], announced.box_start[piece + 1]
    beside_b = beside_c = 0  # attributes of which the box around both accepts more than b, or c
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
            if not (_has_range(pool, t, high, low) or _has_range(pool, u, high, low)):
                return 0  # no number from low to high is accepted: nothing of it is announced
            more_b = not _includes(pool, t, u, low, high)
            more_c = not _includes(pool, u, t, low, high)
        else:
            can_fail = not (pool.free[a] or is_tested)
            more_b = has_b and (can_fail or not _has_range(pool, t, low, high))
            more_c = has_c and (can_fail or not _has_range(pool, u, low, high))
        beside_b += more_b
        beside_c += more_c
        are_same &= more_b == more_c
        t += has_b
        u += has_c
    if beside_b == 0 or beside_c == 0:
        return 0
    return 1 if beside_b == 1 and beside_c == 1 and are_same else 2


@kernel
def _has_range(pool: MergePool, t: int, begin: int, end: int) -> bool:
    """Whether a range of a test begins by `begin` and doesn't end before `end`."""
    for i in range(pool.first[t], pool.past[t]):  # noqa: SIM110 -- kernels have no generators
        if pool.low[i] <= begin and pool.high[i] >= end:
            return True
    return False


@kernel
def _includes(pool: MergePool, t: int, u: int, low: int, high: int) -> bool:
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
