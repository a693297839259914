"""Whether a view embeds into another, where its nodes can go, and which items of the other it covers (delta §4.1).

An embedding takes the nodes of a view u to nodes of a view q: to the same label (`*` to any element), a child edge to a
child edge, a descendant edge to any path down, an outermost node with a child edge to another such node; and the
predicate of the image implies the node's own. Nodes of q are bits of one word:

    u = //a[b]//c          q = //a/a[b//c]/c        q's nodes  a0 a1 b2 c3 c4
    bottom up              c  c3 c4      b  b2      a  a1                      what the subtree of each node allows
    top down               a  a1         b  b2      c  c3 c4                   and what the nodes above allow as well

**Exact.** After the first pass a word has exactly the images that a node can have if only its own subtree counts: its
label and predicate fit, and each child has some image below. The children of a node don't depend on each other, so each
may choose on its own (induction from the leaves). In the second pass an image is kept if it lies below a kept image of
the parent. Such an image extends to a whole embedding: upwards along the images that kept it, and from there down to
all other nodes as the first pass has shown. Conversely every embedding survives both passes.
So u embeds if no word is empty after the first pass; and after the second each word is the set of images over *all*
embeddings.

delta §4.1 forbids predicates to contradict each other; then `//a[. = 5]` would embed into `//a`, and lose tuples.

**Coverage.** The items of q are the ID of each node, val and cont where it returns them, and its predicate. Of an image
n, node m of u covers the ID, if it has n's own label (`*` knows no label); val, if it returns val or cont or must equal
a text; cont, if it returns that; n's predicate, if its own implies it or it knows the value.
"""

from typing import NamedTuple

import numpy as np
from numba.cpython.unsafe.numbers import trailing_zeros

from penstock.base.arrays import Int64s, UInt64s
from penstock.base.jit import kernel
from penstock.views.rewriting.flat_patterns import (
    ANY_LABEL,
    MOST_NODES,
    FlatPatterns,
    is_descendant_in,
    label_in,
    parent_in,
    predicate_in,
)
from penstock.views.rewriting.predicate_table import NEVER, NO_PREDICATE, OTHER, RANGE, Implications
from penstock.views.tree_pattern import Returns

_VAL, _CONT = int(Returns.VAL), int(Returns.CONT)
_ONE = np.uint64(1)
_NONE = np.uint64(0)

WORDS = 4
"""Words of 64 items each, enough for all that a view can have: ID, val, cont and predicate of 64 nodes."""


class Target(NamedTuple):
    """A view to embed into, as bits of its nodes. Scratch: filled by `aim`, emptied by `release`.

    `with_label[l]` are the nodes that a node with label l can go to; of node n `above[n]` are all nodes above it,
    `parent[n]` its parent if it is a child (`/`), `below[n]` and `children[n]` the same downwards; `outermost[0]` are
    the nodes that are children of the document.
    """

    with_label: UInt64s
    above: UInt64s
    parent: UInt64s
    below: UInt64s
    children: UInt64s
    outermost: UInt64s


@kernel
def new_target(labels: int) -> Target:
    """Room for a view among this many labels."""
    return Target(
        np.zeros(labels, np.uint64),
        np.zeros(MOST_NODES, np.uint64),
        np.zeros(MOST_NODES, np.uint64),
        np.zeros(MOST_NODES, np.uint64),
        np.zeros(MOST_NODES, np.uint64),
        np.zeros(1, np.uint64),
    )


@kernel
def aim(flat: FlatPatterns, q: int, target: Target) -> None:
    """Make view q the target."""
    first = flat.start[q]
    target.outermost[0] = _NONE
    for n in range(flat.start[q + 1] - first):
        bit = _ONE << np.uint64(n)
        label, above = flat.label[first + n], flat.parent[first + n]
        target.with_label[label] |= bit
        if label != ANY_LABEL and not flat.attribute[label]:
            target.with_label[ANY_LABEL] |= bit
        target.above[n] = target.parent[n] = target.below[n] = target.children[n] = _NONE
        if above < 0:
            if not flat.descendant[first + n]:
                target.outermost[0] |= bit
            continue
        if not flat.descendant[first + n]:
            target.parent[n] = _ONE << np.uint64(above)
            target.children[above] |= bit
        target.above[n] = target.above[above] | (_ONE << np.uint64(above))
        while above >= 0:
            target.below[above] |= bit
            above = flat.parent[first + above]


@kernel
def release(flat: FlatPatterns, q: int, target: Target) -> None:
    """Empty the target of view q."""
    target.with_label[ANY_LABEL] = _NONE
    for i in range(flat.start[q], flat.start[q + 1]):
        target.with_label[flat.label[i]] = _NONE


@kernel
def implies_predicate(known: Implications, left: int, right: int) -> bool:
    """Whether a predicate implies another: see `predicate_table`."""
    if left == right or right == NO_PREDICATE or known.kind[left] == NEVER:
        return True
    if known.kind[right] == RANGE and known.kind[left] != OTHER:
        # A predicate without cuts, such as a text that isn't a number, lies in no range: see `predicate_table`.
        return bool(known.low[right] <= known.low[left] and known.high[left] <= known.high[right])
    low, high = known.start[left], known.start[left + 1]
    while low < high:
        middle = (low + high) >> 1
        if known.implied[middle] < right:
            low = middle + 1
        else:
            high = middle
    return bool(low < known.start[left + 1] and known.implied[low] == right)


@kernel
def _united(sets: UInt64s, members: np.uint64) -> np.uint64:
    """The union of the members' sets."""
    found = _NONE
    while members:
        found |= sets[trailing_zeros(members)]
        members &= members - _ONE
    return found


@kernel
def embeds(
    words: Int64s, size: int, flat: FlatPatterns, q: int, target: Target, images: UInt64s
) -> bool:
    """Whether a view with these nodes embeds into the target q. `images` are then those of the first pass."""
    own = flat.start[q]
    for m in range(size):
        word = words[m]
        found = target.with_label[label_in(word)]
        predicate = predicate_in(word)
        if parent_in(word) < 0 and not is_descendant_in(word):
            found &= target.outermost[0]
        if predicate != NO_PREDICATE:
            rest = found
            while rest:
                n = trailing_zeros(rest)
                rest &= rest - _ONE
                if not implies_predicate(flat.implications, flat.predicate[own + n], predicate):
                    found ^= _ONE << np.uint64(n)
        if not found:
            return False
        images[m] = found
    for m in range(size - 1, 0, -1):
        above = parent_in(words[m])
        if above < 0:
            continue
        upper = target.above if is_descendant_in(words[m]) else target.parent
        images[above] &= _united(upper, images[m])
        if not images[above]:
            return False
    return True


@kernel
def narrow(words: Int64s, size: int, target: Target, images: UInt64s) -> None:
    """The second pass: reduce the images of the first pass to the exact ones."""
    for m in range(size):
        above = parent_in(words[m])
        if above < 0:
            continue
        lower = target.below if is_descendant_in(words[m]) else target.children
        images[m] &= _united(lower, images[above])


@kernel
def image_sets(flat: FlatPatterns, u: int, q: int) -> UInt64s:
    """For each node of u its images in q over all embeddings, as bits of q's nodes; empty words if there is none."""
    target = new_target(len(flat.attribute))
    images = np.zeros(MOST_NODES, np.uint64)
    aim(flat, q, target)
    size = flat.start[u + 1] - flat.start[u]
    words = flat.word[flat.start[u] :]
    if not embeds(words, size, flat, q, target, images):
        return np.zeros(size, np.uint64)
    narrow(words, size, target, images)
    return images[:size].copy()


# --- items ---------------------------------------------------------------------------------------


class ViewItems(NamedTuple):
    """The items of a view by number. Scratch: filled by `list_items`.

    IDs come first: that of node n is item n. The others are `val[n]`, `cont[n]` and `predicate[n]`, -1 if the node has
    none. `node` has the node of each item, `total[0]` is how many there are, `all` has a bit for each.
    """

    val: Int64s
    cont: Int64s
    predicate: Int64s
    node: Int64s
    total: Int64s
    all: UInt64s


@kernel
def new_items() -> ViewItems:
    """Room for the items of a view."""
    return ViewItems(
        np.empty(MOST_NODES, np.int64),
        np.empty(MOST_NODES, np.int64),
        np.empty(MOST_NODES, np.int64),
        np.empty(WORDS * MOST_NODES, np.int64),
        np.zeros(1, np.int64),
        np.zeros(WORDS, np.uint64),
    )


@kernel
def list_items(flat: FlatPatterns, q: int, items: ViewItems) -> None:
    """Number the items of view q."""
    first = flat.start[q]
    size = flat.start[q + 1] - first
    count = size
    items.all[:] = _NONE
    for n in range(size):
        items.node[n] = n
        items.val[n] = items.cont[n] = items.predicate[n] = -1
        if flat.returns[first + n] & _VAL:
            items.val[n] = count
            items.node[count] = n
            count += 1
        if flat.returns[first + n] & _CONT:
            items.cont[n] = count
            items.node[count] = n
            count += 1
        if flat.predicate[first + n] != NO_PREDICATE:
            items.predicate[n] = count
            items.node[count] = n
            count += 1
    items.total[0] = count
    for i in range(count):
        items.all[i >> 6] |= _ONE << np.uint64(i & 63)


@kernel
def cover(
    flat: FlatPatterns, u: int, q: int, images: UInt64s, items: ViewItems, covered: UInt64s
) -> None:
    """Write down the items of q that u covers, given its exact images."""
    first, own = flat.start[u], flat.start[q]
    covered[:] = _NONE
    for m in range(flat.start[u + 1] - first):
        label, predicate = flat.label[first + m], flat.predicate[first + m]
        has_cont = (flat.returns[first + m] & _CONT) != 0
        has_val = (
            has_cont
            or (flat.returns[first + m] & _VAL) != 0
            or flat.implications.known_text[predicate]
        )
        rest = images[m]
        while rest:
            n = trailing_zeros(rest)
            rest &= rest - _ONE
            if label == flat.label[own + n]:
                covered[0] |= _ONE << np.uint64(n)
            if has_val and items.val[n] >= 0:
                covered[items.val[n] >> 6] |= _ONE << np.uint64(items.val[n] & 63)
            if has_cont and items.cont[n] >= 0:
                covered[items.cont[n] >> 6] |= _ONE << np.uint64(items.cont[n] & 63)
            asked = items.predicate[n]
            if asked >= 0 and (
                has_val or implies_predicate(flat.implications, predicate, flat.predicate[own + n])
            ):
                covered[asked >> 6] |= _ONE << np.uint64(asked & 63)
