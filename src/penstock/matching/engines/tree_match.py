"""Matching: follow all edges that an event agrees with, and verify the conjunctions in the leaves.

Events are matched one after the other, each with a stack of pointers. With an `order`, events that go the same way can
follow each other, so that they find their nodes in the cache.
"""

import numpy as np
from numba.cpython.unsafe.numbers import trailing_zeros

from penstock.base.arrays import Int32s, Int64s
from penstock.base.jit import kernel
from penstock.matching.engines.tree_leaves import (
    HEAD,
    HEADS,
    POINT,
    RESTS,
    SETTLED,
    conjunctions_in,
)
from penstock.matching.engines.tree_words import (
    ATTRIBUTE,
    ATTRIBUTES,
    BEFORE,
    BITS,
    BITS_MASK,
    EXCLUSIVE,
    LEVELS,
    ROOT,
    STAR,
    Sets,
    Words,
    key_of,
    last_level,
    slot_of,
)
from penstock.matching.kernels import grow_array, in_ranges

ROOM = 64 * (BEFORE + 1) + 2  # the most pointers that one node can add to the stack
RUN = 64  # heads that are gone through at a time


@kernel
def match(
    words: Words, sets: Sets, cells: Words, order: Int32s, most: int
) -> tuple[Int32s, Int32s, int, int, int]:
    """Event and conjunction of every match; how many nodes were visited, edges searched for, conjunctions verified.

    Stops before an event once there are more than `most` matches. Without an `order` events come as they
    stand. Attributes that the events don't have are NULL.
    """
    event, found = np.empty(64, np.int32), np.empty(64, np.int32)
    count, nodes, searches, verified = 0, 0, 0, 0
    values = np.zeros(max(cells.shape[0], words[ATTRIBUTES]), words.dtype)
    stack = np.empty(2 * ROOM, np.int64)
    some = np.empty(RUN, np.int64)
    for turn in range(cells.shape[1]):
        if count > most:
            break
        e = order[turn] if len(order) else turn
        for a in range(cells.shape[0]):
            values[a] = cells[a, e]
        stack[0] = words[ROOT]
        pending = 1 if words[ROOT] else 0
        while pending:
            pending -= 1
            p = stack[pending]
            if p > 0:
                nodes += 1
                if pending + ROOM > len(stack):
                    stack = grow_array(stack, pending + ROOM)
                pending, asked = _follow(words, p, values[words[p + ATTRIBUTE]], stack, pending)
                searches += asked
            else:
                here = conjunctions_in(words, -p)
                if count + here > len(found):
                    event, found = grow_array(event, count + here), grow_array(found, count + here)
                count, tried = verify(words, -p, sets, values, some, e, event, found, count)
                verified += tried
    return event[:count], found[:count], nodes, searches, verified


@kernel
def _follow(words: Words, node: int, cell: int, stack: Int64s, pending: int) -> tuple[int, int]:
    """Put the children that an event goes to onto the stack; the new height of it, and how many edges were sought."""
    bits = words[node + BITS] & BITS_MASK
    levels, star = words[node + LEVELS], words[node + STAR]
    top_level = last_level(words)
    searches = 0
    if levels & 1:
        slot = slot_of(words, node, bits, key_of(cell, 0, top_level))
        searches += 1
        if words[slot] != 0:
            stack[pending] = words[slot + 1]
            pending += 1
            if words[node + BITS] >= EXCLUSIVE:
                star = 0
        levels ^= 1
    if cell == 0:
        levels = 0
    while levels:
        level = int(trailing_zeros(levels))
        levels &= levels - 1
        unit = key_of(cell, level, top_level)
        for key in range(max(unit - BEFORE, key_of(0, level, top_level)), unit + 1):
            slot = slot_of(words, node, bits, key)
            searches += 1
            if words[slot] != 0:
                stack[pending] = words[slot + 1]
                pending += 1
    if star != 0:
        stack[pending] = star
        pending += 1
    return pending, searches


@kernel
def verify(
    words: Words,
    leaf: int,
    sets: Sets,
    values: Words,
    some: Int64s,
    e: int,
    event: Int32s,
    found: Int32s,
    count: int,
) -> tuple[int, int]:
    """Add the conjunctions of a leaf that hold to the matches, which have room; their number, and that of the tried."""
    head = leaf + words[leaf + HEADS]
    for i in range(leaf + SETTLED, head):
        event[count], found[count] = e, words[i]
        count += 1
    rests = leaf + words[leaf + RESTS]
    tried = (rests - head) // HEAD
    while head < rests:
        n = 0
        past = min(rests, head + RUN * HEAD)
        while head < past:
            cell = values[words[head]]
            some[n] = words[head + 3]
            n += (cell >= words[head + 1]) & (cell <= words[head + 2])
            head += HEAD
        for i in range(n):
            rest = rests + some[i]
            event[count], found[count] = e, words[rest]
            count += _rest_holds(words, rest + 2, rest + words[rest + 1], sets, values)
    return count, tried


@kernel
def _rest_holds(words: Words, p: int, past: int, sets: Sets, values: Words) -> bool:
    while p < past:
        a = words[p]
        if a >= POINT:
            if values[a - POINT] != words[p + 1]:
                return False
            p += 2
            continue
        cell = values[a if a >= 0 else sets.attribute[~a]]
        if cell < words[p + 1] or cell > words[p + 2]:
            return False
        if a < 0 and not in_set(cell, ~a, sets):
            return False
        p += 3
    return True


@kernel
def in_set(cell: int, s: int, sets: Sets) -> bool:
    """Does a set have a cell?"""
    return in_ranges(cell, sets.start[s], sets.start[s + 1], sets.low, sets.high)
