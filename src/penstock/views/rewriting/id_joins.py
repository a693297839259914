"""Joins of tuples by the structural IDs of their nodes: kernels over columns (delta §4.1).

Rows of both sides are sorted by document, and so are the pairs of rows that come out. A *pair* is a row of the left and
one of the right, of the same document:

    same_nodes      rows with the same IDs: each row of the left is looked up in a hash table of the right side
    nodes_below     right (or left) nodes below left (or right) ones, or children of them

IDs sort by number. So among the sorted IDs of a document all nodes below a node are one run, and among those of one
level its children are. A structural join sorts one side once, and finds each run by two binary searches. The cost is
that of the sort and of the pairs that come out, whatever the document looks like.
"""

import numpy as np

from penstock.base.arrays import Bools, Int32s, Int64s
from penstock.base.jit import kernel
from penstock.views.array_room import with_room
from penstock.views.node_ids import (
    MOST_LEVELS,
    is_below,
    is_child,
    last_of,
    level_of,
    number_of,
)

Pairs = tuple[Int64s, Int64s]
"""Rows of the left, and rows of the right."""


# --- equal IDs -----------------------------------------------------------------------------------


@kernel
def same_nodes(left: Int64s, right: Int64s, most: int) -> Pairs:
    """Pairs of rows that are equal in all columns, of which the first is the document; in the order of the left.

    If there are more than `most` pairs, one more than that comes back.
    """
    columns, rows = left.shape
    size = 16
    while size < 2 * right.shape[1]:
        size *= 2
    head, following = _table(right, size)
    of_left, of_right = np.empty(max(rows, 16), np.int64), np.empty(max(rows, 16), np.int64)
    count = 0
    for i in range(rows):
        j = head[_hash(left, i) & (size - 1)]
        while j >= 0:
            same = True
            for c in range(columns):
                if left[c, i] != right[c, j]:
                    same = False
                    break
            if same:
                if count == len(of_left):
                    of_left = with_room(of_left, count, 1)
                    of_right = with_room(of_right, count, 1)
                of_left[count], of_right[count] = i, j
                count += 1
                if count > most:
                    return of_left[:count], of_right[:count]
            j = following[j]
    return of_left[:count], of_right[:count]


@kernel
def _table(rows: Int64s, size: int) -> tuple[Int32s, Int32s]:
    """Chains of rows by hash, ascending."""
    count = rows.shape[1]
    head, following = np.full(size, -1, np.int32), np.empty(count, np.int32)
    for j in range(count - 1, -1, -1):
        at = _hash(rows, j) & (size - 1)
        following[j] = head[at]
        head[at] = j
    return head, following


@kernel
def _hash(rows: Int64s, i: int) -> int:
    mixed = np.uint64(0)
    for c in range(rows.shape[0]):
        mixed = (mixed ^ np.uint64(rows[c, i])) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(32)
    return int(mixed >> np.uint64(1))


# --- above and below -----------------------------------------------------------------------------


def nodes_below(
    documents: Int64s,
    nodes: Int64s,
    lower_documents: Int64s,
    lower_nodes: Int64s,
    child: bool,
    most: int,
) -> Pairs:
    """Pairs of an upper row and a lower one whose node lies below the upper node, or is its child; in the order of the
    upper rows."""
    level = lower_nodes & (MOST_LEVELS - 1) if child else np.zeros(len(lower_nodes), np.int64)
    if _in_order(lower_documents, level, lower_nodes):
        order = np.arange(len(lower_nodes))
    else:
        order = np.lexsort((lower_nodes, level, lower_documents))
        level = level[order]
    return _runs_below(
        documents, nodes, lower_documents[order], level, lower_nodes[order], order, child, most
    )


@kernel
def _in_order(documents: Int64s, level: Int64s, nodes: Int64s) -> bool:
    for i in range(1, len(nodes)):
        if documents[i - 1] != documents[i]:
            continue
        if level[i - 1] > level[i] or (level[i - 1] == level[i] and nodes[i - 1] > nodes[i]):
            return False
    return True


@kernel
def _runs_below(
    documents: Int64s,
    nodes: Int64s,
    lower_documents: Int64s,
    level: Int64s,
    lower: Int64s,
    order: Int64s,
    child: bool,
    most: int,
) -> Pairs:
    begin, end = np.empty(len(nodes), np.int64), np.empty(len(nodes), np.int64)
    first, past = 0, 0
    for i in range(len(nodes)):
        if i == 0 or documents[i] != documents[i - 1]:
            first, past = _rows_of(lower_documents, documents[i], past)
        wanted = level_of(nodes[i]) + 1 if child else 0
        begin[i] = _search(level, lower, first, past, wanted, number_of(nodes[i]))
        end[i] = _search(level, lower, begin[i], past, wanted, last_of(nodes[i]))
    return _pairs_of_runs(begin, end, order, most)


@kernel
def _rows_of(documents: Int64s, document: int, first: int) -> tuple[int, int]:
    """Where the rows of a document begin and end, searched from the row `first` on."""
    while first < len(documents) and documents[first] < document:
        first += 1
    past = first
    while past < len(documents) and documents[past] == document:
        past += 1
    return first, past


@kernel
def _search(level: Int64s, nodes: Int64s, low: int, high: int, wanted: int, number: int) -> int:
    """The first row behind those of lower levels than `wanted`, and those of this level up to a number."""
    while low < high:
        middle = (low + high) >> 1
        before = level[middle] < wanted
        if before or (level[middle] == wanted and number_of(nodes[middle]) <= number):
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def same_document(left: Int64s, right: Int64s, most: int) -> Pairs:
    """All pairs of rows of the same document."""
    first, past = 0, 0
    begin, end = np.empty(len(left), np.int64), np.empty(len(left), np.int64)
    for i in range(len(left)):
        if i == 0 or left[i] != left[i - 1]:
            first, past = _rows_of(right, left[i], past)
        begin[i], end[i] = first, past
    return _pairs_of_runs(begin, end, np.arange(len(right)), most)


@kernel
def _pairs_of_runs(begin: Int64s, end: Int64s, order: Int64s, most: int) -> Pairs:
    """Pairs of row i of the left and the rows order[begin[i]:end[i]] of the right; one more than `most` at most."""
    total = min((end - begin).sum(), most + 1)
    of_left, of_right = np.empty(total, np.int64), np.empty(total, np.int64)
    count = 0
    for i in range(len(begin)):
        for j in range(begin[i], end[i]):
            if count == total:
                return of_left, of_right
            of_left[count], of_right[count] = i, order[j]
            count += 1
    return of_left, of_right


# --- checks --------------------------------------------------------------------------------------


@kernel
def are_below(upper: Int64s, lower: Int64s, child: bool) -> Bools:
    """In which rows the lower node lies below the upper, or is a child of it."""
    found = np.empty(len(upper), np.bool_)
    for i in range(len(upper)):
        found[i] = is_child(lower[i], upper[i]) if child else is_below(lower[i], upper[i])
    return found


def are_outermost(nodes: Int64s) -> Bools:
    """Which nodes are outermost."""
    found: Bools = (nodes & (MOST_LEVELS - 1)) == 0
    return found


@kernel
def rows_in_order(columns: Int64s) -> bool:
    """Whether rows are sorted by their columns, the first column first."""
    count, rows = columns.shape
    for i in range(1, rows):
        for c in range(count):
            if columns[c, i - 1] < columns[c, i]:
                break
            if columns[c, i - 1] > columns[c, i]:
                return False
    return True
