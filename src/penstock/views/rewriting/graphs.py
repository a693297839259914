"""Both graphs of a set of views, found by one thread per core: kernels run without the interpreter's lock.

Each thread takes a range of views at a time. There are many more ranges than threads, since later views take longer.
On a cluster `pipeline.views.graphs_on_spark` gives the same functions their ranges.
"""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, TypeVar

import numpy as np

from penstock.base.arrays import Float64s, Int32s, read_only
from penstock.views.rewriting.embedding_graph import (
    EmbeddingGraph,
    embeddings_into,
    join_parts,
    rank_views,
)
from penstock.views.rewriting.flat_patterns import FlatPatterns, flatten
from penstock.views.rewriting.label_trie import build_trie
from penstock.views.rewriting.rewriting import (
    RewritingLimits,
    RewritingsPart,
    join_rewritings,
    preference,
    rewritings_of_range,
)
from penstock.views.rewriting_graph import RewritingGraph
from penstock.views.tree_pattern import TreePattern

_PARTS = 16  # ranges of views per thread
_Found = TypeVar("_Found")


class Graphs(NamedTuple):
    """Which views embed into which, and which can be computed from which."""

    embedding: EmbeddingGraph
    rewriting: RewritingGraph


def find_graphs(
    patterns: Sequence[TreePattern], limits: RewritingLimits, weights: Float64s
) -> Graphs:
    """Both graphs of some views; `weights` are the costs of views as inputs.

    >>> from penstock.views.pattern_parser import parse_pattern
    >>> views = [parse_pattern(text) for text in ("//a[b]/c", "//a/b", "//a/c")]
    >>> found = find_graphs(views, RewritingLimits.of(), np.ones(3))
    >>> found.embedding.views.tolist(), found.rewriting.first.tolist(), found.rewriting.inputs.tolist()
    ([1, 2], [0, 1, 1, 1], [1, 2])
    """
    flat = flatten(patterns)
    embedding = find_embeddings(flat)
    rank = rank_views(flat, embedding)
    return Graphs(embedding, find_rewritings(flat, embedding, rank, limits, weights))


def find_embeddings(flat: FlatPatterns, threads: int | None = None) -> EmbeddingGraph:
    """The embedding graph of all views."""
    trie = build_trie(flat)
    return join_parts(
        _by_ranges(
            lambda first, past: embeddings_into(flat, trie, first, past), flat.views, threads
        )
    )


def find_rewritings(
    flat: FlatPatterns,
    graph: EmbeddingGraph,
    rank: Int32s,
    limits: RewritingLimits | None = None,
    weights: Float64s | None = None,
    threads: int | None = None,
) -> RewritingGraph:
    """The rewritability graph of all views; `weights` are the costs of views as inputs."""
    preferred, most = preference(rank, weights), limits or RewritingLimits.of()
    places = read_only(rank)

    def rewrite(first: int, past: int) -> RewritingsPart:
        return rewritings_of_range(flat, graph.part(first, past), first, places, preferred, most)

    return join_rewritings(_by_ranges(rewrite, flat.views, threads), rank)


def _by_ranges(work: Callable[[int, int], _Found], views: int, threads: int | None) -> list[_Found]:
    """The results of some work for all views, done by threads that take a range at a time."""
    count = threads or os.cpu_count() or 1
    ends = np.linspace(0, views, _PARTS * count + 1).astype(int).tolist()
    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(work, ends[:-1], ends[1:]))
