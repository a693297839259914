"""A set of views with all that is found out before a configuration is chosen, and how long that took.

    views ──▶ embedding graph ──▶ rank ──▶ rewritability graph ──▶ costs
                 Table 2                        Table 2          from tuples and bytes per document

Both graphs are made by one thread per core, each with a range of views: kernels let go of the interpreter's lock. What
views have on documents (`volumes`) isn't timed: a running system knows it.
"""

import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np

from penstock.arrays import Int64s
from penstock.bench.sections import Step
from penstock.bench.views.documents import draw_documents
from penstock.bench.views.drawing import Recipe, draw_views
from penstock.views.choosing.costs import costs, statistics
from penstock.views.documents.xml_documents import read_xml
from penstock.views.extraction.volumes import volumes
from penstock.views.rewriting.embedding_graph import (
    EmbeddingGraph,
    edges_left_out,
    embedded_into,
    join_parts,
    rank_views,
)
from penstock.views.rewriting.flat_patterns import FlatPatterns, flatten
from penstock.views.rewriting.label_trie import build_trie
from penstock.views.rewriting.rewriting import (
    Limits,
    RewritingsPart,
    join_rewritings,
    preference,
    rewritings_of_range,
)
from penstock.views.rewriting_graph import Costs, RewritingGraph
from penstock.views.tree_pattern import TreePattern

_SAMPLED = 8  # documents that tuples and bytes are counted on
_PARTS = 16  # ranges of views per core: later views take longer
Part = TypeVar("Part")


@dataclass(frozen=True, slots=True)
class Grown:
    """The figures of Table 2, ours."""

    views: int
    unique: int
    nodes: float
    returned: float
    predicates: float
    edges: int
    removed: int
    with_embedded: float
    flat_seconds: float
    graph_seconds: float
    rewritings: int
    inputs: int
    rewritten: int
    rewriting_seconds: float
    threads: int

    @property
    def seconds(self) -> float:
        return self.flat_seconds + self.graph_seconds + self.rewriting_seconds

    def to_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}


class Instance(NamedTuple):
    """What a configuration is chosen from."""

    views: list[TreePattern]
    graph: RewritingGraph
    costs: Costs
    grown: Grown

    @property
    def not_rewritten(self) -> int:
        """Views that only the source can feed."""
        return self.grown.views - self.grown.rewritten


def instance(recipe: Recipe, step: Step, threads: int | None = None) -> Instance:
    """Views drawn by a recipe, their graphs and costs."""
    threads = threads or os.cpu_count() or 1
    step(f"drawing {recipe.views:,} views")
    views = draw_views(recipe)
    step("counting their tuples")
    found = volumes(views, read_xml(draw_documents(_SAMPLED)))
    step("embedding graph")
    began = time.perf_counter()
    flat = flatten(views)
    flat_at = time.perf_counter()
    trie = build_trie(flat)
    graph = join_parts(
        _by_ranges(lambda a, b: embedded_into(flat, trie, a, b), flat.views, threads)
    )
    rank = rank_views(flat, graph)
    graph_at = time.perf_counter()
    step(f"rewritings, from {graph.edges:,} embeddings")
    preferred, limits = preference(rank, found.size), Limits.of()

    def rewrite(first: int, past: int) -> RewritingsPart:
        return rewritings_of_range(flat, _part(graph, first, past), first, rank, preferred, limits)

    rewritings = join_rewritings(_by_ranges(rewrite, flat.views, threads), rank)
    done = time.perf_counter()
    priced = costs(rewritings, statistics(found.tuples, found.size))
    seconds = flat_at - began, graph_at - flat_at, done - graph_at
    grown = _grown(views, flat, graph, edges_left_out(graph, rank), rewritings, seconds, threads)
    return Instance(views, rewritings, priced, grown)


def _by_ranges(work: Callable[[int, int], Part], views: int, threads: int) -> list[Part]:
    """A piece of work for all views, by threads that take a range at a time."""
    ends = np.linspace(0, views, _PARTS * threads + 1).astype(int).tolist()
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(work, ends[:-1], ends[1:]))


def _part(graph: EmbeddingGraph, first: int, past: int) -> EmbeddingGraph:
    """The embedding graph of a range of views."""
    start = graph.start[first : past + 1]
    return EmbeddingGraph(start - start[0], graph.views[start[0] : start[-1]])


def _grown(
    views: Sequence[TreePattern],
    flat: FlatPatterns,
    graph: EmbeddingGraph,
    removed: int,
    rewritings: RewritingGraph,
    seconds: tuple[float, float, float],
    threads: int,
) -> Grown:
    embedded: Int64s = np.diff(graph.start)
    flat_seconds, graph_seconds, rewriting_seconds = seconds
    return Grown(
        views=len(views),
        unique=len(set(views)),
        nodes=len(flat.label) / len(views),
        returned=int(np.count_nonzero(flat.returns)) / len(views),
        predicates=sum(len(node.value) for view in views for node in view.nodes) / len(views),
        edges=graph.edges,
        removed=removed,
        with_embedded=float(np.mean(embedded > 0)),
        flat_seconds=flat_seconds,
        graph_seconds=graph_seconds,
        rewritings=len(rewritings.start) - 1,
        inputs=len(rewritings.inputs),
        rewritten=int(np.count_nonzero(np.diff(rewritings.first))),
        rewriting_seconds=rewriting_seconds,
        threads=threads,
    )
