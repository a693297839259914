"""A set of views with all that is found out before a configuration is chosen, and how long that took.

    views ──▶ embedding graph ──▶ rank ──▶ rewritability graph ──▶ costs
                 Table 2                        Table 2          from tuples and bytes per document

What views have on documents (`volumes`) isn't timed: a running system knows it.
"""

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from benchmarks.benchmark import Step
from benchmarks.views.documents import draw_documents
from benchmarks.views.drawing import Recipe, draw_views
from penstock.base.arrays import Int32s, Int64s
from penstock.base.jit import kernel
from penstock.views.choosing.cost_model import costs, statistics
from penstock.views.documents.xml_documents import read_xml
from penstock.views.extraction.volumes import volumes
from penstock.views.rewriting.embedding_graph import EmbeddingGraph, rank_views
from penstock.views.rewriting.flat_patterns import FlatPatterns, flatten
from penstock.views.rewriting.graphs import find_embeddings, find_rewritings
from penstock.views.rewriting_graph import Costs, RewritingGraph
from penstock.views.tree_pattern import TreePattern

_SAMPLED = 8  # documents that tuples and bytes are counted on


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
    graph = find_embeddings(flat, threads)
    rank = rank_views(flat, graph)
    graph_at = time.perf_counter()
    step(f"rewritings, from {graph.edges:,} embeddings")
    rewritings = find_rewritings(flat, graph, rank, weights=found.size, threads=threads)
    done = time.perf_counter()
    priced = costs(rewritings, statistics(found.tuples, found.size))
    seconds = flat_at - began, graph_at - flat_at, done - graph_at
    grown = _grown(views, flat, graph, edges_left_out(graph, rank), rewritings, seconds, threads)
    return Instance(views, rewritings, priced, grown)


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


@kernel
def edges_left_out(graph: EmbeddingGraph, rank: Int32s) -> int:
    """How many edges the order leaves out."""
    count = 0
    for v in range(len(graph.start) - 1):
        for i in range(graph.start[v], graph.start[v + 1]):
            if rank[graph.views[i]] > rank[v]:
                count += 1
    return count
