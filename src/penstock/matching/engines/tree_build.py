"""Building a tree, or a part of one, in one go: split the conjunctions by an attribute, and their parts again.

A part becomes a leaf when it is small, or when no attribute splits it well. That bounds the space: a node has at least
`few` conjunctions to tell apart, whatever the subscriptions look like, and a leaf takes room only for the predicates
that its path leaves open. (One level per attribute, down to single conjunctions, would have no such bound.)

The parts are split depth first, without recursion, in time linear in the predicates for every level of the tree.
"""

from typing import NamedTuple

import numpy as np

from penstock.base.arrays import Int8s, Int32s, Int64s
from penstock.base.jit import kernel
from penstock.matching.engines.tree_items import (
    HERE,
    KEY,
    NEVER,
    OF,
    POINT_WEIGHT,
    RAW,
    SEVERAL,
    Items,
    edge_predicate,
    is_point,
    weight_of,
)
from penstock.matching.engines.tree_leaves import write_leaf
from penstock.matching.engines.tree_words import (
    ANYTHING,
    EXCLUSIVE,
    STAR,
    Sets,
    Words,
    add_edge,
    bits_for,
    clear_node,
    copy_words,
    key_of,
    last_level,
    node_room,
    scatter_key,
)

# What was fastest, of leaves of 4 to 64 conjunctions. Verifying sixteen costs about as much as visiting a node.
LEAF, FEW = 32, 16


class Rules(NamedTuple):
    """How a tree is split.

    `sequence` are attributes in the order in which they are tested; if it is empty, each part is split by the attribute
    that is worth most to it. The first `factored` attributes are tested on all paths, by exclusive nodes. `every`: the
    other attributes are tested on all paths, too, even if no conjunction there tests them. A part of at most `leaf`
    conjunctions isn't split. No part is split by an attribute of which it has fewer than `few` points, where a range
    counts as a sixteenth of a point.
    """

    sequence: Int32s
    rank: Int32s  # of an attribute in the sequence
    factored: int
    every: bool
    leaf: int
    few: int


def rules_of(
    sequence: Int32s, attributes: int, factored: int, every: bool, leaf: int, few: int
) -> Rules:
    """Attributes that aren't in the sequence come last."""
    rank = np.full(attributes, len(sequence), np.int32)
    rank[sequence] = np.arange(len(sequence))
    return Rules(sequence, rank, factored, every, leaf, few)


@kernel
def build(
    words: Words,
    state: Int64s,
    slot: int,
    items: Items,
    tested: Int8s,
    rules: Rules,
    sets: Sets,
) -> Words:
    """Build a tree and put the pointer to it into a slot; gives the array, which may have moved.

    `tested` has `ABOVE` for attributes that the path to the slot tests; it is used, and left as it was.
    """
    attributes = len(tested)
    path = np.empty(attributes, np.int64)
    worth, wide = np.zeros(attributes, np.int64), np.zeros(attributes, np.int64)
    # A part has a slot, the members first .. past, and a depth. The last part has the last members.
    parts = np.empty((64, 4), np.int64)
    _set_part(parts, 0, slot, 0, len(items.number), 0)
    pending = 1 if len(items.number) else 0
    members = np.arange(len(items.number)) << 1  # the lowest bit: has it been copied?
    depth = 0
    while pending:
        pending -= 1
        slot, first, past = parts[pending, 0], parts[pending, 1], parts[pending, 2]
        while depth > parts[pending, 3]:
            depth -= 1
            tested[path[depth]] = NEVER
        a = _choice(items, members[first:past], tested, worth, wide, depth, rules)
        if a < 0:
            words = write_leaf(words, state, slot, items, members[first:past], tested)
            continue
        exclusive = depth < rules.factored
        split, keys, bounds = _split(
            items, members[first:past], a, exclusive, sets, last_level(words)
        )
        if first + len(split) > len(members):
            longer = np.empty(2 * (first + len(split)), np.int64)
            copy_words(members, 0, longer, 0, first)
            members = longer
        copy_words(split, 0, members, first, len(split))
        bits = bits_for(len(keys))
        words, node = node_room(words, state, bits)
        clear_node(words, node, a, bits + EXCLUSIVE if exclusive else bits)
        words[slot] = node
        path[depth] = a
        tested[a] = HERE
        depth += 1
        # Small parts are leaves for certain: they are written at once, so that they lie beside their node.
        for i in range(len(bounds) - 1):
            slot = node + STAR if i == 0 else add_edge(words, node, keys[i - 1]) + 1
            count = bounds[i + 1] - bounds[i]
            if count == 0:
                continue
            if count <= rules.leaf and depth >= rules.factored:
                part = members[first + bounds[i] : first + bounds[i + 1]]
                words = write_leaf(words, state, slot, items, part, tested)
                continue
            if pending == len(parts):
                more = np.empty((2 * len(parts), 4), np.int64)
                for j in range(pending):
                    for k in range(4):
                        more[j, k] = parts[j, k]
                parts = more
            _set_part(parts, pending, slot, first + bounds[i], first + bounds[i + 1], depth)
            pending += 1
    while depth:
        depth -= 1
        tested[path[depth]] = NEVER
    return words


@kernel
def _set_part(parts: Int64s, at: int, slot: int, first: int, past: int, depth: int) -> None:
    parts[at, 0], parts[at, 1], parts[at, 2], parts[at, 3] = slot, first, past, depth


@kernel
def _choice(
    items: Items,
    members: Int64s,
    tested: Int8s,
    worth: Int64s,
    wide: Int64s,
    depth: int,
    rules: Rules,
) -> int:
    """The attribute to split by; -1 for a leaf. `worth` and `wide` are zeros to count in."""
    if depth < rules.factored:
        return int(rules.sequence[depth])
    if len(members) <= rules.leaf:
        return -1
    if rules.every:
        return int(rules.sequence[depth]) if depth < len(rules.sequence) else -1
    for member in members:
        c = member >> 1
        for p in range(items.start[c], items.start[c + 1]):
            a, key = items.predicates[p, OF], items.predicates[p, KEY]
            if tested[a] == NEVER and not (member & 1 and key == SEVERAL):
                worth[a] += weight_of(items.predicates, p)
                wide[a] += key == ANYTHING
    best = -1
    for a in range(len(worth)):
        if worth[a] >= rules.few * POINT_WEIGHT and (best < 0 or _before(a, best, worth, rules)):
            best = a
    if best < 0:
        # Where each of many attributes is asked for by some, most events will be without it.
        for a in range(len(wide)):
            if rules.few <= wide[a] <= len(members) >> 1 and (best < 0 or wide[a] > wide[best]):
                best = a
    for a in range(len(worth)):
        worth[a], wide[a] = 0, 0
    return best


@kernel
def _before(a: int, b: int, worth: Int64s, rules: Rules) -> bool:
    if len(rules.rank):
        return bool(rules.rank[a] < rules.rank[b])
    return bool(worth[a] > worth[b])


@kernel
def _split(
    items: Items, members: Int64s, a: int, exclusive: bool, sets: Sets, top_level: int
) -> tuple[Int64s, Int64s, Int64s]:
    """Members by the edge that they follow, first those of the don't-care edge; the keys of edges; the parts' bounds.

    Edges stand in the order in which members come to them. In an exclusive node only points have edges, and the part of
    each edge begins with the members that don't care.
    """
    chosen = np.empty(len(members), np.int64)  # the predicate that decides; -1: doesn't care
    staying, moving = 0, 0
    for i in range(len(members)):
        p = edge_predicate(items, members[i] >> 1, a, bool(members[i] & 1))
        if p >= 0 and exclusive and not is_point(items.predicates, p):
            p = -1
        chosen[i] = p
        if p < 0:
            staying += 1
        elif items.predicates[p, KEY] == SEVERAL:
            s = ~items.predicates[p, RAW]
            moving += sets.start[s + 1] - sets.start[s]
        else:
            moving += 1
    bits = bits_for(moving)
    table, numbers = np.zeros(1 << bits, np.int64), np.empty(1 << bits, np.int64)
    keys, counts = np.empty(moving, np.int64), np.zeros(moving, np.int64)
    edge, moved, stayed = np.empty(moving, np.int64), np.empty(moving, np.int64), chosen
    edges, staying, moving = 0, 0, 0
    for i in range(len(members)):
        member, p = members[i], chosen[i]
        if p < 0:
            stayed[staying] = member  # in the place of a choice that has been read
            staying += 1
            continue
        first, past = 0, 1
        key = items.predicates[p, KEY]
        several = key == SEVERAL
        if several:
            s = ~items.predicates[p, RAW]
            first, past = sets.start[s], sets.start[s + 1]
            member |= 1
        for r in range(first, past):
            if several:
                key = key_of(sets.low[r], 0, top_level)
            place = scatter_key(key, bits)
            while table[place] != key and table[place] != 0:
                place = (place + 1) & ((1 << bits) - 1)
            if table[place] == 0:
                table[place], numbers[place], keys[edges] = key, edges, key
                edges += 1
            edge[moving], moved[moving] = numbers[place], member
            counts[numbers[place]] += 1
            moving += 1
    everywhere = staying if exclusive else 0
    bounds = np.empty(edges + 2, np.int64)
    bounds[0], bounds[1] = 0, staying
    for i in range(edges):
        bounds[i + 2] = bounds[i + 1] + everywhere + counts[i]
    split = np.empty(bounds[-1], np.int64)
    copy_words(stayed, 0, split, 0, staying)
    for i in range(edges):
        copy_words(stayed, 0, split, bounds[i + 1], everywhere)
        counts[i] = bounds[i + 1] + everywhere  # where the next one goes
    for i in range(moving):
        split[counts[edge[i]]] = moved[i]
        counts[edge[i]] += 1
    return split, keys[:edges], bounds
