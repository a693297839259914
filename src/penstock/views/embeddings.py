"""All embeddings of one pattern in a batch of documents, from the bits of its states (section 4.1).

Nodes of the pattern are bound one behind the other, parents before children: each to the nodes of its state's bits that
lie within the node its parent is bound to. A label's nodes stand in document order, so those within a node are one run
of its list, and the embeddings come out sorted. For a child edge, what isn't a child is skipped together with all that
lies below the same child of the parent.

    bound    news ── item ── topic          depth 2 has no node left: the next item, then
               3       4       5            its topics again

Every binding leads to an embedding, apart from the second and further outermost nodes. How many there are is not
bounded by that: three branches over 1,000 siblings are a billion embeddings. So they are counted per document, and the
bytes of the texts that they return, and a document past a bound gives none, and is reported.
"""

from typing import NamedTuple

import numpy as np
from numba.cpython.unsafe.numbers import trailing_zeros

from penstock.arrays import Bytes, Int8s, Int32s, Int64s, UInt64s
from penstock.jit import kernel
from penstock.views.pattern_holds import Holds, LabelLists
from penstock.views.pattern_states import Patterns
from penstock.views.tree_pattern import Returns

_VAL, _CONT = int(Returns.VAL), int(Returns.CONT)
_STEPS_PER_TUPLE = 64


class Forest(NamedTuple):
    """What of `Documents` is needed to bind nodes."""

    first: Int64s
    parents: Int32s
    last: Int32s
    value_start: Int64s
    value_end: Int64s
    content_start: Int64s
    content_end: Int64s


class Limits(NamedTuple):
    """What one pattern may have of one document: embeddings, and bytes of the texts they return."""

    tuples: int = 100_000
    bytes: int = 16 << 20


class Embeddings(NamedTuple):
    """Rows of document nodes, one per node of the pattern; and the documents that had too many."""

    nodes: Int32s
    documents: Int32s
    """Row -> the place of its document."""
    overflowing: Int32s


@kernel
def embeddings(
    pattern: int,
    patterns: Patterns,
    state_label: Int32s,
    holds: Holds,
    lists: LabelLists,
    forest: Forest,
    limits: Limits,
) -> Embeddings:
    """The rows of one pattern."""
    low = patterns.first[pattern]
    width = patterns.first[pattern + 1] - low
    first, parents, last = forest.first, forest.parents, forest.last
    nodes, words = lists.nodes, holds.words
    axis, above, returns = patterns.descendant[low:], patterns.parent[low:], patterns.returns[low:]
    bits, start, size = (
        np.empty(width, np.int64),
        np.empty(width, np.int64),
        np.empty(width, np.int64),
    )
    rows = np.empty(16 * width, np.int32)
    documents = np.empty(16, np.int32)
    overflowing = np.empty(0, np.int32)
    count = 0
    for depth in range(width):
        state = patterns.state[low + depth]
        bits[depth] = holds.at[state]
        start[depth] = lists.first[state_label[state]]
        size[depth] = lists.first[state_label[state] + 1] - start[depth]
        if bits[depth] < 0:
            return Embeddings(rows[:0], documents[:0], overflowing)
    bound, rank = np.zeros(width, np.int64), np.zeros(width, np.int64)
    limit = np.empty(width, np.int64)
    limit[0] = len(parents) - 1
    document, before, past = -1, 0, 0
    steps, size_of_texts = 0, 0
    depth = 0
    while depth >= 0:
        place = next_bit(words, bits[depth], rank[depth], size[depth])
        node = int(nodes[start[depth] + place]) if place < size[depth] else int(limit[depth]) + 1
        if node > limit[depth]:
            depth -= 1
            continue
        if depth == 0 and node >= past:
            while first[document + 1] <= node:
                document += 1
            past = int(first[document + 1])
            before, steps, size_of_texts = count, 0, 0
        steps += 1
        parent = int(bound[above[depth]]) if above[depth] >= 0 else -1
        if not axis[depth] and parents[node] != parent:
            while parents[node] != parent:
                node = int(parents[node])
            rank[depth] = first_past(nodes, start[depth], size[depth], place, last[node])
        else:
            bound[depth] = node
            rank[depth] = place + 1
            if depth < width - 1:
                depth += 1
                if above[depth] >= 0:
                    parent = int(bound[above[depth]])
                    limit[depth] = last[parent]
                else:
                    parent = int(first[document]) - 1
                    limit[depth] = past - 1
                rank[depth] = first_past(nodes, start[depth], size[depth], rank[depth], parent)
            else:
                rows, documents = _with_room(rows, documents, count, width)
                for column in range(width):
                    rows[count * width + column] = bound[column]
                documents[count] = document
                count += 1
                size_of_texts += _texts(bound, returns, width, forest)
        too_many = count - before > limits.tuples or size_of_texts > limits.bytes
        if too_many or steps > _STEPS_PER_TUPLE * (limits.tuples + 64):
            overflowing = np.append(overflowing, np.int32(document))
            count, depth = before, 0
            rank[0] = first_past(nodes, start[0], size[0], rank[0], past - 1)
            steps, size_of_texts = 0, 0
    return Embeddings(rows[: count * width], documents[:count], overflowing)


@kernel
def _with_room(rows: Int32s, documents: Int32s, count: int, width: int) -> tuple[Int32s, Int32s]:
    if count < len(documents):
        return rows, documents
    more_rows = np.empty(4 * count * width, np.int32)
    more_rows[: count * width] = rows[: count * width]
    more_documents = np.empty(4 * count, np.int32)
    more_documents[:count] = documents[:count]
    return more_rows, more_documents


@kernel
def _texts(bound: Int64s, returns: Int8s, width: int, forest: Forest) -> int:
    """The bytes of the texts that an embedding returns."""
    size = 0
    for place in range(width):
        node = bound[place]
        if returns[place] & _VAL:
            size += max(forest.value_end[node] - max(forest.value_start[node], 0), 0)
        if returns[place] & _CONT:
            size += forest.content_end[node] - forest.content_start[node]
    return size


@kernel
def next_bit(words: UInt64s, at: int, rank: int, size: int) -> int:
    """The first set bit from a rank on; at least `size` if there is none."""
    if rank >= size:
        return size
    word = rank >> 6
    left = words[at + word] >> np.uint64(rank & 63)
    if left:
        return rank + int(trailing_zeros(left))
    past = (size + 63) >> 6
    word += 1
    while word < past:
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


# --- columns ---------------------------------------------------------------------------------


@kernel
def number_columns(found: Embeddings, width: int, numbers: Int64s, ids: Int64s) -> Int64s:
    """One row per column: the document, then the IDs of the nodes."""
    count = len(found.documents)
    columns = np.empty((width + 1, count), np.int64)
    for row in range(count):
        columns[0, row] = numbers[found.documents[row]]
    for column in range(width):
        for row in range(count):
            columns[column + 1, row] = ids[found.nodes[row * width + column]]
    return columns


@kernel
def text_column(
    nodes: Int32s, width: int, column: int, start: Int64s, end: Int64s, data: Bytes
) -> tuple[Int64s, Bytes, Bytes]:
    """The texts of one column's nodes: offsets, bytes, and a bit for each that has one."""
    count = len(nodes) // width
    offsets = np.zeros(count + 1, np.int64)
    valid = np.zeros((count + 7) >> 3, np.uint8)
    for row in range(count):
        node = nodes[row * width + column]
        size = np.int64(0)
        if start[node] >= 0:
            size = end[node] - start[node]
            valid[row >> 3] |= np.uint8(1 << (row & 7))
        offsets[row + 1] = offsets[row] + size
    texts = np.empty(offsets[count], np.uint8)
    for row in range(count):
        at = start[nodes[row * width + column]] - offsets[row]
        for byte in range(offsets[row], offsets[row + 1]):
            texts[byte] = data[at + byte]
    return offsets, texts, valid
