"""Kernels that lay plain conjunctions out in columns. `conjunctions` says what the columns are.

All of them run over *parts*: the predicates of all filters, end to end, each with the number of its atom and with the
literals literal_start[p] .. literal_start[p + 1]. Small tables say what atoms are like: they are indexed by atom, by
term (the terms of all atoms, end to end) or by column (the columns of all terms, end to end).
"""

import numpy as np

from penstock.base.array_kernels import copy_values, sorted_places
from penstock.base.arrays import Bools, Bytes, Int32s, Int64s
from penstock.base.jit import kernel
from penstock.language.skeletons import PREFIX
from penstock.language.tokens import DOUBLE, STRING


@kernel
def agree(
    part_start: Int64s, atom: Int32s, use_start: Int64s, path: Int64s, type_: Int64s
) -> Bools:
    """Which filters use every attribute as one type.

    Atom a uses the attributes path[use_start[a]] … as the types beside them; a negative type agrees with none. A filter
    with a part that is no atom (a negative number) may get any answer.
    """
    result = np.ones(len(part_start) - 1, np.bool_)
    seen_in = np.full(len(path) + 1, -1, np.int64)
    seen_as = np.empty(len(path) + 1, np.int64)
    for text in range(len(part_start) - 1):
        for part in range(part_start[text], part_start[text + 1]):
            if atom[part] < 0:
                continue
            for use in range(use_start[atom[part]], use_start[atom[part] + 1]):
                attribute, as_type = path[use], type_[use]
                if as_type < 0 or (seen_in[attribute] == text and seen_as[attribute] != as_type):
                    result[text] = False
                seen_in[attribute], seen_as[attribute] = text, as_type
    return result


@kernel
def pool_places(
    atom: Int32s,
    literal_start: Int64s,
    repeats: Bools,
    slot_start: Int64s,
    slot_pool: Int64s,
    pools: int,
) -> tuple[Int32s, Int64s, Int64s]:
    """The pool of every literal and its position there, in the order of the filters; the sizes of the pools."""
    pool = np.empty(literal_start[-1], np.int32)
    position = np.empty(literal_start[-1], np.int64)
    sizes = np.zeros(pools, np.int64)
    for part in range(len(atom)):
        slot = slot_start[atom[part]]
        for literal in range(literal_start[part], literal_start[part + 1]):
            own = slot_pool[slot]
            pool[literal], position[literal] = own, sizes[own]
            sizes[own] += 1
            if not repeats[atom[part]]:
                slot += 1
    return pool, position, sizes


@kernel
def gather(
    data: Bytes, kind: Bytes, begin: Int64s, end: Int64s, place: Int64s
) -> tuple[Bytes, Int64s]:
    """Copy literals to their places, strings without quotes and prefixes without `%`: the texts, end to end."""
    offset = np.zeros(len(place) + 1, np.int64)
    for i in range(len(place)):
        length = end[i] - begin[i]
        if kind[i] == STRING or kind[i] > DOUBLE:
            length -= 2
            for at in range(begin[i] + 1, end[i] - 1):
                length -= data[at] == 39
            # Inside a string a quote is written twice; here all quotes have been taken off, so half of them come back.
            length += (end[i] - begin[i] - 2 - length) // 2
            if kind[i] == PREFIX:
                at = end[i] - 2
                while at > begin[i] and length > 0 and data[at] == 37:
                    length -= 1
                    at -= 1
        offset[place[i] + 1] = max(length, 0)
    for i in range(len(place)):
        offset[i + 1] += offset[i]
    out = np.empty(offset[-1], np.uint8)
    for i in range(len(place)):
        to, past = offset[place[i]], offset[place[i] + 1]
        at = begin[i] + (kind[i] == STRING or kind[i] > DOUBLE)
        while to < past and at < end[i]:
            out[to] = data[at]
            at += 2 if data[at] == 39 else 1
            to += 1
    return out, offset


@kernel
def lay_out(
    part_start: Int64s,
    atom: Int32s,
    literal_start: Int64s,
    literal_position: Int64s,
    repeats: Bools,
    term_start: Int64s,
    rank: Int64s,
    column_start: Int64s,
    slot: Int64s,
    fixed: Int64s,
) -> tuple[Int64s, Int32s, Int64s, Int32s, Int64s]:
    """`start`, `term`, `piece_start`, `piece` and `position` of the conjunctions.

    Terms stand by `rank`. Column c is the literal slot[c] of its part, or if that is negative, always the one at
    position fixed[c]. An atom that repeats has one column, which all its literals share.
    """
    terms = pieces = most = 0
    for text in range(len(part_start) - 1):
        before = terms
        for part in range(part_start[text], part_start[text + 1]):
            first, past = term_start[atom[part]], term_start[atom[part] + 1]
            terms += past - first
            if repeats[atom[part]]:
                pieces += literal_start[part + 1] - literal_start[part]
            else:
                pieces += column_start[past] - column_start[first]
        most = max(most, terms - before)
    start = np.zeros(len(part_start), np.int64)
    term = np.empty(terms, np.int32)
    piece_start = np.zeros(terms + 1, np.int64)
    piece = np.empty(pieces, np.int32)
    position = np.empty(pieces, np.int64)
    found, owner = np.empty(most, np.int64), np.empty(most, np.int64)
    height, order = np.empty(most, np.int64), np.empty(most, np.int64)
    terms = pieces = 0
    for text in range(len(part_start) - 1):
        count = 0
        for part in range(part_start[text], part_start[text + 1]):
            for t in range(term_start[atom[part]], term_start[atom[part] + 1]):
                found[count], owner[count], height[count], order[count] = t, part, rank[t], count
                count += 1
        _sort(order, height, count)
        for i in order[:count]:
            t, part = found[i], owner[i]
            first = literal_start[part]
            if repeats[atom[part]]:
                for literal in range(first, literal_start[part + 1]):
                    piece[pieces], position[pieces] = column_start[t], literal_position[literal]
                    pieces += 1
            else:
                for c in range(column_start[t], column_start[t + 1]):
                    piece[pieces] = c
                    position[pieces] = (
                        fixed[c] if slot[c] < 0 else literal_position[first + slot[c]]
                    )
                    pieces += 1
            term[terms] = t
            terms += 1
            piece_start[terms] = pieces
        start[text + 1] = terms
    return start, term, piece_start, piece, position


@kernel
def _sort(order: Int64s, height: Int64s, count: int) -> None:
    """Put 0 .. count, which `order` begins with, in order of height; those of one height stay as they are."""
    if count > 64:
        copy_values(order, 0, sorted_places(height, count), 0, count)
        return
    for i in range(1, count):
        own = order[i]
        at = i
        while at > 0 and height[order[at - 1]] > height[own]:
            order[at] = order[at - 1]
            at -= 1
        order[at] = own
