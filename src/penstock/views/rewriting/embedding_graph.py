"""Which views embed into which: the embedding graph (delta §4.2, algorithm 3), and the order that removes cycles.

    views ──▶ flat patterns ──▶ trie ──▶ for each view all that embed into it ──▶ rank

    start      view v -> views that embed into it: views[start[v]:start[v + 1]], ascending, v itself left out

`embeddings_into` is a pure function of a range of views, over arrays that can be mapped from files: a Spark job takes a
range per task, and `join_parts` puts the parts together.

**Cycles.** Embedding is a preorder: a view that embeds into u embeds into every view that u embeds into. So a view has
at least as many views embedded into it as each of those has, and exactly as many only if the two embed into each other.
Sorted by that number, a view stands after all that embed into it, except for views that embed into each other. Of these
the one that returns most comes first, and an edge that leads backwards is left out. delta §4.2 removes cycles with a
heuristic for arbitrary graphs. Here a sort is enough, and of each pair of opposite edges just one is left out.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from penstock.base.arrays import Int32s, Int64s, UInt64s, offsets, read_only
from penstock.base.errors import PenstockError
from penstock.base.jit import kernel
from penstock.views.array_room import with_room
from penstock.views.rewriting.embedding import Target, aim, embeds, new_target, release
from penstock.views.rewriting.flat_patterns import MOST_NODES, FlatPatterns
from penstock.views.rewriting.label_trie import LabelTrie
from penstock.views.tree_pattern import Returns

MOST_EDGES = 500_000_000
"""The most edges of a graph, or of a part of one: they take two gigabytes."""


class EmbeddingGraph(NamedTuple):
    """The arrays drawn above, of all views or of a range of them."""

    start: Int64s
    views: Int32s

    @property
    def edges(self) -> int:
        """How many pairs embed."""
        return len(self.views)

    def part(self, first: int, past: int) -> "EmbeddingGraph":
        """The graph of a range of views."""
        start = self.start[first : past + 1]
        return EmbeddingGraph(
            read_only(start - start[0]), read_only(self.views[start[0] : start[-1]])
        )


def embeddings_into(flat: FlatPatterns, trie: LabelTrie, first: int, last: int) -> EmbeddingGraph:
    """For each of the views first .. last all views that embed into it. Pure: ranges may be done anywhere.

    PenstockError if there are more than `MOST_EDGES` pairs: of n equal views all n * n embed.
    """
    found = _embeddings_into(flat, trie, first, last, MOST_EDGES)
    if found.edges > MOST_EDGES:
        raise PenstockError(
            f"more than {MOST_EDGES:,} pairs of views embed into each other: keep equal views once, "
            "or take a smaller range of views at a time"
        )
    return found


@kernel
def _embeddings_into(
    flat: FlatPatterns, trie: LabelTrie, first: int, last: int, most: int
) -> EmbeddingGraph:
    start = np.zeros(last - first + 1, np.int64)
    found = np.empty(1024, np.int32)
    target = new_target(len(flat.attribute))
    images = np.empty(MOST_NODES, np.uint64)
    size = 0
    for q in range(first, last):
        aim(flat, q, target)
        found, size = _find(flat, trie, q, target, images, found, size)
        release(flat, q, target)
        found[start[q - first] : size].sort()
        start[q - first + 1] = size
        if size > most:
            break
    return EmbeddingGraph(start, found[:size].copy())


@kernel
def _find(
    flat: FlatPatterns,
    trie: LabelTrie,
    q: int,
    target: Target,
    images: UInt64s,
    found: Int32s,
    size: int,
) -> tuple[Int32s, int]:
    """Put all views that embed into the target behind those found so far."""
    missing = ~flat.offers[q]
    n = 0
    while n < len(trie.label):
        if (n and not target.with_label[trie.label[n]]) or trie.common[n] & missing:
            n = trie.skip[n]
            continue
        found = with_room(found, size, trie.first[n + 1] - trie.first[n])
        for i in range(trie.first[n], trie.first[n + 1]):
            if trie.wants[i] & missing:
                continue
            count = trie.start[i + 1] - trie.start[i]
            words = trie.word[trie.start[i] :]
            if trie.views[i] != q and embeds(words, count, flat, q, target, images):
                found[size] = trie.views[i]
                size += 1
        n += 1
    return found, size


def join_parts(parts: Sequence[EmbeddingGraph]) -> EmbeddingGraph:
    """One graph of the parts for consecutive ranges of views."""
    sizes = np.concatenate([np.empty(0, np.int64), *(np.diff(part.start) for part in parts)])
    views = np.concatenate([np.empty(0, np.int32), *(part.views for part in parts)])
    return EmbeddingGraph(offsets(sizes), views)


def rank_views(flat: FlatPatterns, graph: EmbeddingGraph) -> Int32s:
    """The place of each view in an order in which views are fed by earlier ones only: see the module.

    Edges u -> v with rank[u] > rank[v] are those left out.
    """
    owner = np.repeat(np.arange(flat.views), np.diff(flat.start))
    # A node with cont has val, too: two items against one.
    worth = np.array([0, 0, 1, 1, 2, 2, 2, 2])[flat.returns & int(Returns.VAL | Returns.CONT)]
    richness = np.bincount(owner, worth, minlength=flat.views)
    order = np.lexsort((np.arange(flat.views), -richness, np.diff(graph.start)))
    rank = np.empty(flat.views, np.int32)
    rank[order] = np.arange(flat.views, dtype=np.int32)
    return rank
