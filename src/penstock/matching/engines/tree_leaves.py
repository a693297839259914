"""Leaves: conjunctions, with the predicates that the path to them leaves open.

    leaf        size, where heads begin, where rests begin (both from the leaf's first word), then
      settled   the conjunctions of which nothing is left to verify
      heads     four words each: attribute, low and high of the first predicate; where its rest is, from the first one
      rests     conjunction, words of this rest, then the other predicates
    predicate   attribute + POINT, cell | attribute, low, high | ~set, low, high of its hull

Most conjunctions of a leaf fail by their first predicate. So the first predicates stand together, all of one length: a
loop without a branch tests them, and only the few conjunctions that are left are looked at any further. The first is
the most selective predicate on an attribute that no node on the path tests; predicates that the edge of a range has
narrowed down already come last. If the first is a set, the head has its hull, and the rest begins with the set.
"""

import numpy as np

from penstock.base.arrays import Int8s, Int64s
from penstock.base.jit import kernel
from penstock.matching.engines.tree_items import (
    FIELDS,
    HIGH,
    LOW,
    NEVER,
    OF,
    RAW,
    Items,
    is_point,
    is_settled,
)
from penstock.matching.engines.tree_words import Words, leaf_room

SIZE, HEADS, RESTS, SETTLED = range(4)  # of a leaf
HEAD = 4  # words of a head
POINT = 1 << 30  # added to the attribute of a point: more than any attribute


@kernel
def open_predicates(items: Items, c: int, tested: Int8s) -> Int64s:
    """The predicates of a conjunction that are to be verified, in the order in which they will be."""
    first, past = items.start[c], items.start[c + 1]
    found = np.empty(past - first, np.int64)
    count = 0
    for narrowed in range(2):
        for p in range(first, past):
            if (tested[items.predicates[p, OF]] != NEVER) == (narrowed == 1):
                found[count] = p
                count += not (narrowed and is_settled(items, c, p, tested))
    return found[:count]


@kernel
def rest_size(items: Items, predicates: Int64s) -> int:
    """The words of a rest; 0 if there is nothing to verify."""
    if len(predicates) == 0:
        return 0
    size = 2
    for i in range(len(predicates)):
        if i > 0 or items.predicates[predicates[i], RAW] < 0:
            size += 2 if is_point(items.predicates, predicates[i]) else 3
    return size


@kernel
def write_record(
    words: Words, head: int, rest: int, distance: int, items: Items, c: int, predicates: Int64s
) -> None:
    """Write the head and the rest of a conjunction, of which something is to be verified."""
    first = predicates[0]
    words[head] = items.predicates[first, OF]
    words[head + 1] = items.predicates[first, LOW]
    words[head + 2] = items.predicates[first, HIGH]
    words[head + 3] = distance
    words[rest] = items.number[c]
    words[rest + 1] = rest_size(items, predicates)
    out = rest + 2
    for i in range(len(predicates)):
        p = predicates[i]
        if i == 0 and items.predicates[p, RAW] >= 0:
            continue
        words[out] = items.predicates[p, RAW]
        words[out + 1] = items.predicates[p, LOW]
        if is_point(items.predicates, p):
            words[out] += POINT
            out += 2
        else:
            words[out + 2] = items.predicates[p, HIGH]
            out += 3


@kernel
def write_leaf(
    words: Words, state: Int64s, slot: int, items: Items, members: Int64s, tested: Int8s
) -> Words:
    """A leaf with some of the items, and the pointer to it in a slot; the array, which may have moved."""
    heads, rests = 0, 0
    for member in members:
        size = rest_size(items, open_predicates(items, member >> 1, tested))
        rests += size
        heads += size > 0
    settled = len(members) - heads
    size = SETTLED + settled + HEAD * heads + rests
    words, at = leaf_room(words, state, size)
    words[slot] = -at
    words[at + SIZE] = size
    words[at + HEADS] = SETTLED + settled
    words[at + RESTS] = SETTLED + settled + HEAD * heads
    number, head, first_rest = at + SETTLED, at + words[at + HEADS], at + words[at + RESTS]
    rest = first_rest
    for member in members:
        c = member >> 1
        predicates = open_predicates(items, c, tested)
        if len(predicates):
            write_record(words, head, rest, rest - first_rest, items, c, predicates)
            head += HEAD
            rest += words[rest + 1]
        else:
            words[number] = items.number[c]
            number += 1
    return words


@kernel
def conjunctions_in(words: Words, leaf: int) -> int:
    """How many conjunctions a leaf holds."""
    heads = words[leaf + HEADS]
    return int(heads - SETTLED + (words[leaf + RESTS] - heads) // HEAD)


@kernel
def items_of(words: Words, leaf: int) -> Items:
    """What a leaf without sets holds, as items without keys: for a tree in its place."""
    heads, rests = leaf + words[leaf + HEADS], leaf + words[leaf + RESTS]
    number = np.empty(conjunctions_in(words, leaf), np.int32)
    start = np.zeros(len(number) + 1, np.int32)
    predicates = np.empty((words[leaf + SIZE] // 2, FIELDS), words.dtype)
    c, out = 0, 0
    for i in range(leaf + SETTLED, heads):
        number[c] = words[i]
        c += 1
    for head in range(heads, rests, HEAD):
        rest = rests + words[head + 3]
        number[c] = words[rest]
        predicates[out, OF] = predicates[out, RAW] = words[head]
        predicates[out, LOW], predicates[out, HIGH] = words[head + 1], words[head + 2]
        out += 1
        p, past = rest + 2, rest + words[rest + 1]
        while p < past:
            point = words[p] >= POINT
            predicates[out, OF] = predicates[out, RAW] = words[p] - POINT if point else words[p]
            predicates[out, LOW], predicates[out, HIGH] = (
                words[p + 1],
                words[p + 1 if point else p + 2],
            )
            p += 2 if point else 3
            out += 1
        c += 1
        start[c] = out
    return Items(number, start, predicates[:out])
