"""Precomputed successors: what a don't-care path would find out again is written at the result edge.

An event that follows a result edge to u and the don't-care edge beside it to w asks both for the same key, if they test
the same attribute. So each edge of u carries a *link*: where the edge of w with the same key leads, or nothing. Then u
and w are visited together, and w is searched only for what u has no edge for.

            v
      result╱ ╲*             slot of u:  key | child of u | link = child of w with the same key
          u     w
       k ╱       ╲ k

It is the successor set of tree §5, cut down to its nearest member: there, earlier results of the path are replaced by
don't-care as well, one or several, and there are two to the power of the path's length of these. One link per edge
keeps space linear. For ranges nothing changes: whatever a key stands for, an edge of u knows the edge of w with the
same key.

It saves a quarter of the searches on the load that it was made for, and no time: a search is a look at a cache line or
two, and w must be looked at anyway, for its own don't-care edge.
"""

import numpy as np
from numba.cpython.unsafe.numbers import trailing_zeros

from penstock.base.arrays import Int32s, Int64s
from penstock.base.jit import kernel
from penstock.matching.engines.tree_leaves import conjunctions_in
from penstock.matching.engines.tree_match import ROOM, RUN, verify
from penstock.matching.engines.tree_words import (
    ATTRIBUTE,
    ATTRIBUTES,
    BEFORE,
    BITS,
    BITS_MASK,
    EXCLUSIVE,
    LEVELS,
    ROOT,
    SLOTS,
    STAR,
    Sets,
    Words,
    key_of,
    last_level,
    slot_of,
)
from penstock.matching.kernels import grow_array

LINKED = 3  # words of a slot with a link


@kernel
def link(words: Words) -> None:
    """Set the links of all edges."""
    stack = np.empty(2 * ROOM, np.int64)
    stack[0] = words[ROOT]
    pending = 1
    while pending:
        pending -= 1
        node = stack[pending]
        if node <= 0:
            continue
        slots = 1 << (words[node + BITS] & BITS_MASK)
        if pending + slots + 1 > len(stack):
            stack = grow_array(stack, pending + slots + 1)
        star = words[node + STAR]
        stack[pending] = star
        pending += 1
        for slot in range(node + SLOTS, node + SLOTS + slots * LINKED, LINKED):
            if words[slot] != 0:
                child = words[slot + 1]
                stack[pending] = child
                pending += 1
                if _are_twins(words, child, star):
                    _link_twins(words, child, star)


@kernel
def _are_twins(words: Words, u: int, w: int) -> bool:
    """Two nodes that test the same attribute, and follow all edges that they can."""
    return (
        u > 0
        and w > 0
        and words[u + ATTRIBUTE] == words[w + ATTRIBUTE]
        and words[u + BITS] < EXCLUSIVE
        and words[w + BITS] < EXCLUSIVE
    )


@kernel
def _link_twins(words: Words, u: int, w: int) -> None:
    slots = 1 << words[u + BITS]
    for slot in range(u + SLOTS, u + SLOTS + slots * LINKED, LINKED):
        if words[slot] != 0:
            twin = slot_of(words, w, words[w + BITS], LINKED, words[slot])
            words[slot + 2] = words[twin + 1] if words[twin] != 0 else 0


@kernel
def match_linked(
    words: Words, sets: Sets, cells: Words, order: Int32s, most: int
) -> tuple[Int32s, Int32s, int, int, int]:
    """As `tree_match.match`, in a tree with links. The stack has pairs: a child and the don't-care child beside it."""
    event, found = np.empty(64, np.int32), np.empty(64, np.int32)
    count, nodes, searches, verified = 0, 0, 0, 0
    values = np.zeros(max(cells.shape[0], words[ATTRIBUTES]), words.dtype)
    stack = np.empty(8 * ROOM, np.int64)
    some = np.empty(RUN, np.int64)
    for turn in range(cells.shape[1]):
        if count > most:
            break
        e = order[turn] if len(order) else turn
        for a in range(cells.shape[0]):
            values[a] = cells[a, e]
        pending = _push(stack, 0, words[ROOT], 0)
        while pending:
            pending -= 2
            u, w = stack[pending], stack[pending + 1]
            if pending + 4 * ROOM > len(stack):
                stack = grow_array(stack, pending + 4 * ROOM)
            if not _are_twins(words, u, w):
                pending = _push(stack, pending, w, 0)
                w = 0
            if u > 0:
                nodes += 2 if w else 1
                pending, asked = _follow(words, u, w, values[words[u + ATTRIBUTE]], stack, pending)
                searches += asked
            else:
                here = conjunctions_in(words, -u)
                if count + here > len(found):
                    event, found = grow_array(event, count + here), grow_array(found, count + here)
                count, tried = verify(words, -u, sets, values, some, e, event, found, count)
                verified += tried
    return event[:count], found[:count], nodes, searches, verified


@kernel
def _push(stack: Int64s, pending: int, u: int, w: int) -> int:
    """Put a pair onto the stack, if there is any in it."""
    if u == 0:
        u, w = w, 0
    if u != 0:
        stack[pending], stack[pending + 1] = u, w
        pending += 2
    return pending


@kernel
def _follow(
    words: Words, u: int, w: int, cell: int, stack: Int64s, pending: int
) -> tuple[int, int]:
    """Visit a node, and its twin if there is one (w != 0), together."""
    top_level = last_level(words)
    star, star_beside = words[u + STAR], 0
    levels = np.int64(words[u + LEVELS])
    if w != 0:
        star_beside = words[w + STAR]
        levels |= words[w + LEVELS]
    if cell == 0:
        levels &= 1
    searches = 0
    while levels:
        level = int(trailing_zeros(levels))
        levels &= levels - 1
        unit = key_of(cell, level, top_level)
        lowest = max(unit - BEFORE, key_of(0, level, top_level)) if level else unit
        for key in range(lowest, unit + 1):
            slot = slot_of(words, u, words[u + BITS] & BITS_MASK, LINKED, key)
            searches += 1
            beside = 0
            if words[slot] != 0:
                if words[u + BITS] >= EXCLUSIVE:
                    star = 0
                # A don't-care child is the twin of one child at most.
                pending = _push(stack, pending, words[slot + 1], star)
                star = 0
                if w != 0:
                    beside = words[slot + 2]
            elif w != 0:
                slot = slot_of(words, w, words[w + BITS], LINKED, key)
                searches += 1
                beside = words[slot + 1] if words[slot] != 0 else 0
            if beside != 0:
                pending = _push(stack, pending, beside, star_beside)
                star_beside = 0
    pending = _push(stack, pending, star, 0)
    return _push(stack, pending, star_beside, 0), searches
