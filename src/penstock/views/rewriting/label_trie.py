"""The label sets of all views in a trie, to find the views whose labels all occur in another (delta algorithm 3).

    label sets             {a} {a b} {a b d} {a b d} {a d} {c}         views 5, 2, 0, 3, 4, 1
    nodes, depth first     a   b     d               d     c
    skip                   4   3     3               4     5           the node after all below it
    views of node n        views[first[n]:first[n + 1]]: those whose label set ends there; of the root: `*` alone

A search goes down where the label occurs in the query, else over the subtree: it meets all subsets and nothing else.
Depth-first order makes it a walk forward through five arrays that can be mapped from files; there are no pointers.
`common` holds the bits that all views at a node and below want (see `flat_patterns`): a subtree is left out as a whole
if the query lacks one. The other arrays that a search reads are in the same order as `views`: view views[i] wants
wants[i], and its nodes are word[start[i]:start[i + 1]]. So a search goes forward through memory. With nodes in the
order of the views' numbers instead, the embedding graph of 50,000 views takes 1.4 times as long.
"""

from typing import NamedTuple

import numpy as np

from penstock.base.arrays import Int32s, Int64s, UInt64s, offsets, read_only, runs
from penstock.base.jit import kernel
from penstock.views.rewriting.flat_patterns import FlatPatterns


class LabelTrie(NamedTuple):
    """The arrays drawn above; node 0 is the root, with the label -1."""

    label: Int32s
    skip: Int32s
    first: Int64s
    common: UInt64s
    views: Int32s
    wants: UInt64s
    start: Int64s
    word: Int64s


def build_trie(flat: FlatPatterns) -> LabelTrie:
    """The trie of all views' label sets."""
    sizes = np.diff(flat.label_start)
    # The label sets as rows, filled up with -1: so a set stands right before those that begin with it.
    rows = np.full((flat.views, int(sizes.max(initial=0)) + 1), -1, np.int32)
    view = np.repeat(np.arange(flat.views), sizes)
    rows[view, np.arange(len(flat.labels)) - flat.label_start[view]] = flat.labels
    order = np.lexsort((flat.wants, *rows.T[::-1]))
    label, skip, first = _nodes(rows[order])
    wants = flat.wants[order]
    common = _common_bits(skip, first, wants)
    sizes = np.diff(flat.start)[order]
    word = flat.word[runs(flat.start[order], sizes)]
    views = order.astype(np.int32)
    trie = LabelTrie(label, skip, first, common, views, wants, offsets(sizes), word)
    return as_mapped_trie(trie)


def as_mapped_trie(trie: LabelTrie) -> LabelTrie:
    """The same arrays, read-only, as those mapped from files are: so kernels are compiled once for both."""
    return LabelTrie(*map(read_only, trie._asdict().values()))


@kernel
def _nodes(rows: Int32s) -> tuple[Int32s, Int32s, Int64s]:
    """Labels, skips and first views of the nodes, from sorted label sets."""
    count, width = rows.shape
    nodes = 1
    for i in range(count):
        shared = _shared(rows, i)
        for j in range(shared, width):
            if rows[i, j] >= 0:
                nodes += 1
    label, skip = np.full(nodes, -1, np.int32), np.full(nodes, nodes, np.int32)
    first = np.zeros(nodes + 1, np.int64)
    path = np.zeros(width + 1, np.int32)  # the nodes down to the last set
    depth, made = 0, 1
    for i in range(count):
        shared = _shared(rows, i)
        while depth > shared:
            skip[path[depth]] = made
            depth -= 1
        while rows[i, depth] >= 0:
            label[made] = rows[i, depth]
            depth += 1
            path[depth] = made
            made += 1
        first[path[depth] + 1] += 1
    while depth > 0:
        skip[path[depth]] = made
        depth -= 1
    for node in range(1, len(first)):
        first[node] += first[node - 1]
    return label, skip, first


@kernel
def _shared(rows: Int32s, i: int) -> int:
    """How many labels set i has in common with the one before it, from the first on."""
    if i == 0:
        return 0
    n = 0
    while rows[i, n] >= 0 and rows[i, n] == rows[i - 1, n]:
        n += 1
    return n


@kernel
def _common_bits(skip: Int32s, first: Int64s, wants: UInt64s) -> UInt64s:
    common = np.empty(len(skip), np.uint64)
    for n in range(len(skip)):
        common[n] = ~np.uint64(0)
        for i in range(first[n], first[skip[n]]):
            common[n] &= wants[i]
    return common
