"""Both graphs of a set of views, by one thread per core: kernels let go of the interpreter's lock.

Each thread takes a range of views at a time, many more ranges than threads: later views take longer. On a cluster the
same functions are given their ranges by `pipeline.views.graphs`.
"""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np

from penstock.arrays import Float64s, Int32s
from penstock.views.rewriting.embedding_graph import EmbeddingGraph, embedded_into, join_parts
from penstock.views.rewriting.flat_patterns import FlatPatterns
from penstock.views.rewriting.label_trie import build_trie
from penstock.views.rewriting.rewriting import (
    Limits,
    RewritingsPart,
    join_rewritings,
    preference,
    rewritings_of_range,
)
from penstock.views.rewriting_graph import RewritingGraph

_PARTS = 16  # ranges of views per thread
Part = TypeVar("Part")


def find_embeddings(flat: FlatPatterns, threads: int | None = None) -> EmbeddingGraph:
    """The embedding graph of all views."""
    trie = build_trie(flat)
    return join_parts(
        _by_ranges(lambda first, past: embedded_into(flat, trie, first, past), flat.views, threads)
    )


def find_rewritings(
    flat: FlatPatterns,
    graph: EmbeddingGraph,
    rank: Int32s,
    limits: Limits | None = None,
    weights: Float64s | None = None,
    threads: int | None = None,
) -> RewritingGraph:
    """The rewritability graph of all views; `weights` are what views cost as inputs."""
    preferred, most = preference(rank, weights), limits or Limits.of()

    def rewrite(first: int, past: int) -> RewritingsPart:
        return rewritings_of_range(flat, graph.part(first, past), first, rank, preferred, most)

    return join_rewritings(_by_ranges(rewrite, flat.views, threads), rank)


def _by_ranges(work: Callable[[int, int], Part], views: int, threads: int | None) -> list[Part]:
    """A piece of work for all views, by threads that take a range at a time."""
    count = threads or os.cpu_count() or 1
    ends = np.linspace(0, views, _PARTS * count + 1).astype(int).tolist()
    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(work, ends[:-1], ends[1:]))
