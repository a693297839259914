"""The matching tree in one flat array of words: nodes with their edges, and leaves with the conjunctions in them.

    pointer   0: nothing; p > 0: the node at p; p < 0: the leaf at -p
    node      attribute, don't-care pointer, levels, bits, edges, then 2**bits slots
    slot      key, pointer; an open hash table, where a key of 0 is an empty slot
    leaf      see `tree_leaves`

A node and its edges lie side by side: a visit costs a cache line or two, where an array per field would cost one each.
Edges are hashed: sorted ones would have to move whenever one is inserted.

**Result edges.** The edge of a point is labelled with its cell, so the predicate isn't verified again. Ranges overlap,
and each may be the only one of its kind: with an edge for each, the tree would end below the first attribute. So the
edge of a range is labelled with a coarser range that holds it, and the predicate is verified in the leaf. With a *unit*
of about half its length, a range that begins in unit u ends in u + 2 at the latest:

    cells of level 2   0 ─ 3  4 ─ 7  8 ─ 11  12 ─ 15         an event in unit u follows the edges u - 2, u - 1 and u
    range 5 .. 11             ░▒▒▒▒  ▒▒▒▒▒▒                  … begins in unit 1: its edge is that of the cells 4 .. 15

The edges of all levels are in one table: the unit of a cell has the key (TOP + cell) >> level, as the nodes of a binary
heap are numbered, and TOP is more than any cell. The last level has one unit. It is the edge of ranges so wide that
they tell events apart only by NULL (cell 0, which is in no range but its own point). An event looks for one key in a
node, and for three per level of ranges that the node has. An edge is one slot, whatever it accepts. An interval tree
would find exact ranges, but each look-up would go through its depth.

The array is of int32 (the cells of a plan) or of int64 (those of a `GrowingTree`); kernels are compiled for both.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from penstock.base.arrays import Int32s, Int64s
from penstock.base.jit import kernel

Words = npt.NDArray[Any]  # int32 or int64

# The first words of the array.
ROOT = 1  # the pointer to the root
ATTRIBUTES = 2  # more than the number of any attribute in the tree
FIRST = 3

SLOT = 2  # words of a slot

ATTRIBUTE, STAR, LEVELS, BITS, EDGES, SLOTS = range(6)  # of a node
EXCLUSIVE = 64  # added to `bits`: a result edge is followed instead of the don't-care edge
BITS_MASK = EXCLUSIVE - 1

BEFORE = 2  # how many units before its own an event looks for ranges
ANYTHING = 1  # the key of the last level

# The places in the `state` that a growing tree keeps of its array.
END, FREED, EXACT, NODE_LISTS, LEAF_LISTS = 0, 1, 2, 3, 67
STATE = 131


class Sets(NamedTuple):
    """Set s: the ranges start[s] .. start[s + 1] of cells of an attribute."""

    attribute: Int32s
    start: Int32s
    low: Words
    high: Words


def empty_words(dtype: type, attributes: int) -> Words:
    """An array with nothing in the tree."""
    words: Words = np.zeros(1024, dtype)
    words[ATTRIBUTES] = attributes
    return words


def empty_state(exact: bool) -> Int64s:
    """The state of an array with nothing in the tree. `exact`: leaves have no room to grow."""
    state = np.zeros(STATE, np.int64)
    state[END], state[EXACT] = FIRST, exact
    return state


# --- keys ---------------------------------------------------------------------------------------


@kernel
def last_level(words: Words) -> int:
    """The level whose unit holds all cells. They are less than 2**last_level."""
    return 8 * words.itemsize - 2


@kernel
def level_of(low: int, high: int, last: int, top_level: int) -> int:
    """The level of a predicate's edge: 0 for points, more for ranges; -1 if it has none.

    If more than half of the cells 0 .. last would follow the edge, the range is of the last level.
    """
    width = high - low
    if width <= 0:
        return 0
    if low == 0:
        return -1
    digits = 0
    while width:
        width >>= 1
        digits += 1
    level = max(1, digits - 1)
    return level if (BEFORE + 1) << level <= last >> 1 else top_level


@kernel
def key_of(cell: int, level: int, top_level: int) -> int:
    """The key of the unit that a cell is in."""
    return ((1 << top_level) + cell) >> level


@kernel
def level_of_key(key: int, top_level: int) -> int:
    """The level of a key."""
    level = top_level
    while key > 1:
        key >>= 1
        level -= 1
    return level


# --- tables -------------------------------------------------------------------------------------


@kernel
def scatter_key(key: int, bits: int) -> int:
    """A number of so many bits, at least one; neighbours come far apart (the golden ratio does that)."""
    mixed = np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)
    return int(np.int64(mixed >> np.uint64(64 - bits)))


@kernel
def bits_for(edges: int) -> int:
    """So many bits that a table is at most three quarters full."""
    bits = 1
    while 3 << bits < 4 * edges:
        bits += 1
    return bits


@kernel
def slot_of(words: Words, node: int, bits: int, key: int) -> int:
    """The slot that has a key, or the empty one where it would stand."""
    place = scatter_key(key, bits)
    slot = node + SLOTS + place * SLOT
    while words[slot] != key and words[slot] != 0:
        place = (place + 1) & ((1 << bits) - 1)
        slot = node + SLOTS + place * SLOT
    return slot


@kernel
def clear_node(words: Words, node: int, attribute: int, bits: int) -> None:
    """A node without edges."""
    words[node + ATTRIBUTE] = attribute
    words[node + STAR] = 0
    words[node + LEVELS] = 0
    words[node + BITS] = bits
    words[node + EDGES] = 0
    for i in range(node + SLOTS, node + SLOTS + (SLOT << (bits & BITS_MASK))):
        words[i] = 0


@kernel
def add_edge(words: Words, node: int, key: int) -> int:
    """A slot for a new key; there must be room. The pointer is the caller's to set."""
    slot = slot_of(words, node, words[node + BITS] & BITS_MASK, key)
    words[slot] = key
    words[slot + 1] = 0
    words[node + EDGES] += 1
    words[node + LEVELS] |= np.int64(1) << level_of_key(key, last_level(words))
    return slot


@kernel
def copy_words(source: Words, first: int, target: Words, place: int, count: int) -> None:
    """Copy words that don't overlap. A slice would do the same, but every one in the code takes a second to compile."""
    for i in range(count):
        target[place + i] = source[first + i]


# --- room ---------------------------------------------------------------------------------------


@kernel
def node_room(words: Words, state: Int64s, bits: int) -> tuple[Words, int]:
    """Words for a node with 2**bits slots, and the array, which may have moved."""
    return _room(words, state, SLOTS + (SLOT << bits), NODE_LISTS + bits)


@kernel
def leaf_room(words: Words, state: Int64s, size: int) -> tuple[Words, int]:
    """Words for a leaf, and the array: exactly `size` of them, or the next power of two if the leaf may grow."""
    if state[EXACT]:
        return _room(words, state, size, 0)
    digits = digits_of(size)
    return _room(words, state, 1 << digits, LEAF_LISTS + digits)


@kernel
def free_node(words: Words, state: Int64s, node: int) -> None:
    """Give the words of a node back."""
    bits = words[node + BITS] & BITS_MASK
    _free(words, state, node, SLOTS + (SLOT << bits), NODE_LISTS + bits)


@kernel
def free_leaf(words: Words, state: Int64s, at: int, digits: int) -> None:
    """Give 2**digits words of a leaf back."""
    _free(words, state, at, 1 << digits, LEAF_LISTS + digits)


@kernel
def digits_of(size: int) -> int:
    """The exponent of the power of two that holds a size."""
    digits = 2
    while 1 << digits < size:
        digits += 1
    return digits


@kernel
def _room(words: Words, state: Int64s, size: int, free_list: int) -> tuple[Words, int]:
    at = state[free_list] if free_list else 0
    if at:
        state[free_list] = words[at]
        state[FREED] -= size
        return words, at
    at = state[END]
    if at + size > 1 << last_level(words):
        raise MemoryError("a tree has more words than its pointers can tell apart")
    if at + size > len(words):
        larger = np.empty(max(at + size, 2 * len(words)), words.dtype)
        copy_words(words, 0, larger, 0, at)
        words = larger
    state[END] = at + size
    return words, at


@kernel
def _free(words: Words, state: Int64s, at: int, size: int, free_list: int) -> None:
    words[at] = state[free_list]
    state[free_list] = at
    state[FREED] += size
