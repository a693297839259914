"""Inserting a conjunction into a tree and removing it, in place.

Both go down by the rule of `tree_items`, to the one leaf where the conjunction is or belongs: without sets there are no
copies. A leaf that outgrows its words is moved. If it is no longer small then, the caller builds it anew, and it
becomes a node with leaves if that is worth it. As the room of a leaf is a power of two of words, that is rare enough.
Leaves and edges that become empty are removed, and so are nodes that have lost all their edges.
"""

import numpy as np

from penstock.base.arrays import Int8s, Int64s
from penstock.base.errors import PenstockError
from penstock.base.jit import kernel
from penstock.matching.engines.tree_build import LEAF
from penstock.matching.engines.tree_items import (
    ABOVE,
    HERE,
    HIGH,
    KEY,
    LOW,
    OF,
    Items,
    edge_predicate,
    set_key,
)
from penstock.matching.engines.tree_leaves import (
    HEAD,
    HEADS,
    RESTS,
    SETTLED,
    SIZE,
    conjunctions_in,
    items_of,
    open_predicates,
    rest_size,
    write_leaf,
    write_record,
)
from penstock.matching.engines.tree_words import (
    ATTRIBUTE,
    ATTRIBUTES,
    BITS,
    EDGES,
    ROOT,
    SLOT,
    SLOTS,
    STAR,
    Words,
    add_edge,
    clear_node,
    copy_words,
    digits_of,
    free_leaf,
    free_node,
    last_level,
    leaf_room,
    node_room,
    scatter_key,
    slot_of,
)


@kernel
def insert(words: Words, state: Int64s, item: Items) -> tuple[Words, int, Int8s]:
    """Insert one conjunction, and set its keys.

    Gives the array, which may have moved; the slot of a leaf that should be built anew, or 0; and what the path to it
    has tested.
    """
    _set_keys(item.predicates, last_level(words))
    for p in range(len(item.predicates)):
        words[ATTRIBUTES] = max(words[ATTRIBUTES], item.predicates[p, OF] + 1)
    tested = np.zeros(words[ATTRIBUTES], np.int8)
    slot = ROOT
    while words[slot] > 0:
        node = words[slot]
        a = words[node + ATTRIBUTE]
        tested[a] = HERE
        p = edge_predicate(item, 0, a, False)
        if p < 0:
            slot = node + STAR
            continue
        key = item.predicates[p, KEY]
        edge = slot_of(words, node, words[node + BITS], key)
        if words[edge] == 0:
            if 4 * (words[node + EDGES] + 1) > 3 << words[node + BITS]:
                words, node = _with_more_slots(words, state, slot)
            edge = add_edge(words, node, key)
        slot = edge + 1
    if words[slot] == 0:
        words = write_leaf(words, state, slot, item, np.zeros(1, np.int64), tested)
        return words, 0, tested
    words, moved = _add_to_leaf(words, state, slot, item, open_predicates(item, 0, tested))
    too_many = moved and conjunctions_in(words, -words[slot]) > LEAF
    return words, slot if too_many else 0, tested


@kernel
def _set_keys(predicates: Words, top_level: int) -> None:
    past = 1 << top_level
    for p in range(len(predicates)):
        low, high = predicates[p, LOW], predicates[p, HIGH]
        if predicates[p, OF] < 0 or low < 0 or low > high or high >= past:
            raise PenstockError("attributes and cells are 0 and more, and low <= high <= LAST")
        set_key(predicates, p, past - 1, top_level)


@kernel
def _with_more_slots(words: Words, state: Int64s, slot: int) -> tuple[Words, int]:
    """Move a node to where it has twice the slots."""
    old = words[slot]
    bits = words[old + BITS]
    words, node = node_room(words, state, bits + 1)
    clear_node(words, node, words[old + ATTRIBUTE], bits + 1)
    words[node + STAR] = words[old + STAR]
    for edge in range(old + SLOTS, old + SLOTS + (SLOT << bits), SLOT):
        if words[edge] != 0:
            words[add_edge(words, node, words[edge]) + 1] = words[edge + 1]
    free_node(words, state, old)
    words[slot] = node
    return words, node


@kernel
def _add_to_leaf(
    words: Words, state: Int64s, slot: int, item: Items, predicates: Int64s
) -> tuple[Words, bool]:
    """Add a conjunction to a leaf; gives the array, and whether the leaf was moved."""
    leaf = -words[slot]
    size = words[leaf + SIZE]
    more = rest_size(item, predicates)
    larger = size + (HEAD + more if more else 1)
    moved = digits_of(larger) > digits_of(size)
    if moved:
        old = leaf
        words, leaf = leaf_room(words, state, larger)
        copy_words(words, old, words, leaf, size)
        free_leaf(words, state, old, digits_of(size))
        words[slot] = -leaf
    words[leaf + SIZE] = larger
    if more:
        rests = leaf + words[leaf + RESTS]
        _shift(words, rests, leaf + size, HEAD)
        distance = leaf + size - rests
        write_record(words, rests, leaf + size + HEAD, distance, item, 0, predicates)
        words[leaf + RESTS] += HEAD
    else:
        heads = leaf + words[leaf + HEADS]
        _shift(words, heads, leaf + size, 1)
        words[heads] = item.number[0]
        words[leaf + HEADS] += 1
        words[leaf + RESTS] += 1
    return words, moved


@kernel
def _shift(words: Words, first: int, past: int, by: int) -> None:
    """Move words by so many places; backwards if negative."""
    if by > 0:
        for i in range(past - 1, first - 1, -1):
            words[i + by] = words[i]
    else:
        for i in range(first, past):
            words[i + by] = words[i]


@kernel
def take_leaf(words: Words, state: Int64s, slot: int, tested: Int8s) -> Items:
    """Take away the leaf of a slot and return its items, from which it can be built anew.

    What the path to it has tested counts as tested above from now on.
    """
    leaf = -words[slot]
    items = items_of(words, leaf)
    _set_keys(items.predicates, last_level(words))
    free_leaf(words, state, leaf, digits_of(words[leaf + SIZE]))
    for a in range(len(tested)):
        if tested[a] == HERE:
            tested[a] = ABOVE
    return items


@kernel
def remove(words: Words, state: Int64s, item: Items) -> bool:
    """Remove one conjunction, with the keys that it was inserted with; says whether it was there."""
    path = np.empty(words[ATTRIBUTES] + 1, np.int64)  # the slots on the way
    path[0] = ROOT
    depth = 0
    while words[path[depth]] > 0:
        node = words[path[depth]]
        p = edge_predicate(item, 0, words[node + ATTRIBUTE], False)
        slot = node + STAR
        if p >= 0:
            key = item.predicates[p, KEY]
            slot = slot_of(words, node, words[node + BITS], key)
            if words[slot] == 0:
                return False
            slot += 1
        depth += 1
        path[depth] = slot
    leaf = -words[path[depth]]
    if leaf == 0 or not _take_from_leaf(words, state, leaf, item.number[0]):
        return False
    if words[leaf + SIZE] > SETTLED:
        return True
    # The leaf is empty: so may be the nodes above it.
    free_leaf(words, state, leaf, digits_of(SETTLED))
    words[path[depth]] = 0
    while depth:
        depth -= 1
        node = words[path[depth]]
        if path[depth + 1] == node + STAR:
            break
        _take_edge(words, node, path[depth + 1] - 1)
        if words[node + EDGES]:
            break
        words[path[depth]] = words[node + STAR]
        free_node(words, state, node)
        if words[path[depth]] != 0:
            break
    return True


@kernel
def _take_from_leaf(words: Words, state: Int64s, leaf: int, number: int) -> bool:
    size, heads, rests = words[leaf + SIZE], words[leaf + HEADS], words[leaf + RESTS]
    found = False
    less = 0
    for i in range(leaf + SETTLED, leaf + heads):
        if words[i] == number:
            _shift(words, i + 1, leaf + size, -1)
            words[leaf + HEADS] -= 1
            words[leaf + RESTS] -= 1
            less = 1
            found = True
            break
    if not found:
        for head in range(leaf + heads, leaf + rests, HEAD):
            distance = words[head + 3]
            rest = leaf + rests + distance
            if words[rest] == number:
                length = words[rest + 1]
                for other in range(leaf + heads, leaf + rests, HEAD):
                    if words[other + 3] > distance:
                        words[other + 3] -= length
                _shift(words, rest + length, leaf + size, -length)
                _shift(words, head + HEAD, leaf + size - length, -HEAD)
                words[leaf + RESTS] -= HEAD
                less = HEAD + length
                found = True
                break
    words[leaf + SIZE] -= less
    # Halves that are no longer needed are given back.
    digits = digits_of(size)
    while digits > digits_of(size - less):
        digits -= 1
        free_leaf(words, state, leaf + (1 << digits), digits)
    return found


@kernel
def _take_edge(words: Words, node: int, slot: int) -> None:
    """Empty a slot, and move those after it that would no longer be found."""
    bits = words[node + BITS]
    mask = (1 << bits) - 1
    hole = (slot - node - SLOTS) // SLOT
    place = hole
    while True:
        place = (place + 1) & mask
        other = node + SLOTS + place * SLOT
        if words[other] == 0:
            break
        # It may move into the hole unless the place that it wants lies after the hole.
        if ((place - scatter_key(words[other], bits)) & mask) >= ((place - hole) & mask):
            empty = node + SLOTS + hole * SLOT
            words[empty], words[empty + 1] = words[other], words[other + 1]
            hole = place
    words[node + SLOTS + hole * SLOT] = 0
    words[node + EDGES] -= 1
