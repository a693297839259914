"""All embeddings of one pattern in a batch of documents, from the bits of its states (delta §4.1).

Nodes of the pattern are bound one after the other, parents before children. Each is bound to those nodes of its state's
bits that lie within the node its parent is bound to. A label's nodes stand in document order, so those within a node
are one run of its list, and the embeddings come out sorted. For a child edge, a node that isn't a child is skipped,
together with all that lies below the same child of the parent.

    bound    news ── item ── topic          depth 2 has no node left: the next item, then
               3       4       5            its topics again

Every binding leads to an embedding: below a node on which a state holds there is one, and a document without a node for
one of the pattern's outermost nodes is skipped first. But three branches over 1,000 siblings are a billion embeddings.
So embeddings, the bytes of their texts and the nodes that are skipped are counted per document. A document past a bound
gives no embeddings, and is reported.
"""

from typing import NamedTuple

import numpy as np
from numba.cpython.unsafe.numbers import trailing_zeros

from penstock.base.array_kernels import copy_values, longest_list
from penstock.base.arrays import Int32s, Int64s, UInt64s
from penstock.base.jit import kernel
from penstock.views.array_room import with_room
from penstock.views.extraction.pattern_holds import Holds, LabelLists
from penstock.views.extraction.pattern_states import Patterns
from penstock.views.tree_pattern import DOCUMENT, Returns

_VAL, _CONT = int(Returns.VAL), int(Returns.CONT)
_STEPS_PER_TUPLE = 64


class Forest(NamedTuple):
    """The parts of `Documents` that are needed to bind nodes."""

    first: Int64s
    parents: Int32s
    last: Int32s
    sizes: Int64s
    """Per node the bytes of its value, and of its content."""


class ExtractionLimits(NamedTuple):
    """The most that one pattern may have of one document: embeddings, and bytes of the texts they return."""

    tuples: int = 100_000
    bytes: int = 16 << 20


class Room(NamedTuple):
    """Arrays to which one run of embeddings after the other is written: fresh memory costs more than writing to it."""

    nodes: Int32s
    documents: Int32s


class Embeddings(NamedTuple):
    """The embeddings of a run of patterns: rows of document nodes, one per node of the pattern.

    They stand in the room that was given for them, or in a larger one that took its place.
    """

    room: Room

    past: int
    """The pattern after the last one."""
    first_row: Int64s
    """Pattern of the run -> its rows first_row[p] .. first_row[p + 1]."""
    first_cell: Int64s
    """Pattern of the run -> where in `nodes` they stand."""
    nodes: Int32s
    documents: Int32s
    """Row -> the place of its document."""
    texts: Int64s
    """Pattern of the run -> the bytes of its texts."""
    overflowing: Int32s
    """Pairs of a pattern and a document that had too many."""


class Ground(NamedTuple):
    """All that a search for embeddings needs: the same for all patterns."""

    patterns: Patterns
    state_label: Int32s
    holds: Holds
    lists: LabelLists
    forest: Forest
    limits: ExtractionLimits


@kernel
def embeddings(
    low: int, most_cells: int, most_bytes: int, ground: Ground, room: Room
) -> Embeddings:
    """The embeddings of the patterns from `low` on, up to the one that brings them to so many cells or bytes."""
    patterns = ground.patterns
    past = len(patterns.first) - 1
    scratch = np.empty((7, longest_list(patterns.first, low)), np.int64)
    first_row, first_cell = np.zeros(past - low + 1, np.int64), np.zeros(past - low + 1, np.int64)
    rows, documents = room.nodes, room.documents
    overflowing = np.empty(0, np.int32)
    texts = np.zeros(past - low, np.int64)
    size = 0
    pattern = low
    while pattern < past and size < most_bytes and first_cell[pattern - low] < most_cells:
        place = pattern - low
        rows, documents, overflowing, count, more = _search(
            pattern,
            ground,
            scratch,
            rows,
            documents,
            overflowing,
            first_row[place],
            first_cell[place],
        )
        width = patterns.first[pattern + 1] - patterns.first[pattern]
        first_row[place + 1] = first_row[place] + count
        first_cell[place + 1] = first_cell[place] + count * width
        texts[place] = more
        size += more
        pattern += 1
    count = pattern - low
    return Embeddings(
        Room(rows, documents),
        pattern,
        first_row[: count + 1],
        first_cell[: count + 1],
        rows[: first_cell[count]],
        documents[: first_row[count]],
        texts[:count],
        overflowing,
    )


@kernel
def _search(
    pattern: int,
    ground: Ground,
    scratch: Int64s,
    rows: Int32s,
    documents: Int32s,
    overflowing: Int32s,
    row: int,
    cell: int,
) -> tuple[Int32s, Int32s, Int32s, int, int]:
    """Write the embeddings of one pattern behind the others. Returns the arrays, how many, and the bytes of texts."""
    patterns, lists, holds, limits = ground.patterns, ground.lists, ground.holds, ground.limits
    first, parents, last = ground.forest.first, ground.forest.parents, ground.forest.last
    nodes, words, sizes = lists.nodes, holds.words, ground.forest.sizes
    low = patterns.first[pattern]
    width = patterns.first[pattern + 1] - low
    axis, above, returns = patterns.descendant[low:], patterns.parent[low:], patterns.returns[low:]
    bits, start, size = scratch[0], scratch[1], scratch[2]
    bound, rank, limit, weight = scratch[3], scratch[4], scratch[5], scratch[6]
    outermost = 0
    for depth in range(width):
        state = patterns.state[low + depth]
        bits[depth] = holds.at[state]
        start[depth] = lists.first[ground.state_label[state]]
        size[depth] = lists.first[ground.state_label[state] + 1] - start[depth]
        rank[depth] = 0
        outermost += above[depth] == DOCUMENT
        if bits[depth] < 0:
            return rows, documents, overflowing, 0, 0
    limit[0] = len(parents) - 1
    document, past = -1, 0
    count, before = 0, 0
    steps, texts, all_texts = 0, 0, 0
    depth = 0
    while depth >= 0:
        end = limit[depth]
        place = next_bit(words, bits[depth], rank[depth], nodes, start[depth], size[depth], end)
        node = int(nodes[start[depth] + place]) if place < size[depth] else end + 1
        if node > end:
            depth -= 1
            continue
        parent = int(bound[above[depth]]) if above[depth] >= 0 else DOCUMENT
        if not axis[depth] and parents[node] != parent:
            while parents[node] != parent:
                node = int(parents[node])
                steps += 1
            rank[depth] = first_past(nodes, start[depth], size[depth], place, last[node])
            continue
        if depth == 0 and node >= past:
            while first[document + 1] <= node:
                document += 1
            past = int(first[document + 1])
            all_texts += texts
            before, steps, texts = count, 0, 0
            low_node = int(first[document])
            if outermost > 1 and not _has_all(ground, low, width, scratch, low_node, past):
                rank[0] = first_past(nodes, start[0], size[0], place, past - 1)
                continue
        bound[depth] = node
        rank[depth] = place + 1
        weight[depth] = weight[depth - 1] if depth else 0
        if returns[depth] & _VAL:
            weight[depth] += sizes[node, 0]
        if returns[depth] & _CONT:
            weight[depth] += sizes[node, 1]
        if depth < width - 1:
            depth += 1
            within = int(first[document]) - 1
            limit[depth] = past - 1
            if above[depth] >= 0:
                within = int(bound[above[depth]])
                limit[depth] = last[within]
            rank[depth] = first_past(nodes, start[depth], size[depth], rank[depth], within)
            continue
        if row + count == len(documents):
            documents = with_room(documents, row + count, 1)
        if cell + (count + 1) * width > len(rows):
            rows = with_room(rows, cell + count * width, width)
        at = cell + count * width
        for column in range(width):
            rows[at + column] = bound[column]
        documents[row + count] = document
        count += 1
        texts += weight[depth]
        too_many = count - before > limits.tuples or texts > limits.bytes
        if too_many or steps > _STEPS_PER_TUPLE * (limits.tuples + 64):
            longer = np.empty(len(overflowing) + 2, np.int32)
            copy_values(longer, 0, overflowing, 0, len(overflowing))
            longer[-2], longer[-1] = pattern, document
            overflowing = longer
            count, depth = before, 0
            rank[0] = first_past(nodes, start[0], size[0], rank[0], past - 1)
            steps, texts = 0, 0
    return rows, documents, overflowing, count, all_texts + texts


@kernel
def _has_all(ground: Ground, low: int, width: int, scratch: Int64s, first: int, past: int) -> bool:
    """Whether a document has a node for each of the pattern's outermost nodes after the first one."""
    patterns, nodes = ground.patterns, ground.lists.nodes
    words, parents = ground.holds.words, ground.forest.parents
    for depth in range(1, width):
        if patterns.parent[low + depth] == DOCUMENT:
            at, start, size = scratch[0, depth], scratch[1, depth], scratch[2, depth]
            rank = first_past(nodes, start, size, scratch[4, depth], first - 1)
            scratch[4, depth] = rank
            found = False
            while not found:
                place = next_bit(words, at, rank, nodes, start, size, past - 1)
                if place >= size or nodes[start + place] >= past:
                    return False
                found = (
                    patterns.descendant[low + depth] or parents[nodes[start + place]] == DOCUMENT
                )
                rank = place + 1
    return True


@kernel
def next_bit(
    words: UInt64s, at: int, rank: int, nodes: Int32s, start: int, size: int, limit: int
) -> int:
    """The first set bit from a rank on, if it belongs to a node up to the limit; else any rank behind the limit."""
    if rank >= size:
        return size
    word = rank >> 6
    left = words[at + word] >> np.uint64(rank & 63)
    if left:
        return rank + int(trailing_zeros(left))
    word += 1
    while (word << 6) < size and nodes[start + (word << 6)] <= limit:
        if words[at + word]:
            return (word << 6) + int(trailing_zeros(words[at + word]))
        word += 1
    return size


@kernel
def first_past(nodes: Int32s, start: int, size: int, hint: int, node: int) -> int:
    """The rank of the first node of a list that stands behind a node, searched from a rank on, in either direction."""
    low, high, step = hint, hint, 1
    if hint < size and nodes[start + hint] <= node:
        # nodes[low] <= node < nodes[high], or high is the end
        high = hint + 1
        while high < size and nodes[start + high] <= node:
            low = high
            high += step
            step *= 2
        high = min(high, size)
    else:
        low = hint - 1
        while low >= 0 and nodes[start + low] > node:
            high = low
            low -= step
            step *= 2
        low = max(low, -1)
    while high - low > 1:
        middle = (low + high) >> 1
        if nodes[start + middle] <= node:
            low = middle
        else:
            high = middle
    return high
