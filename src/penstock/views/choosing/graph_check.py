"""Checks the numbers of a rewriting graph, which kernels follow unchecked."""

import numpy as np

from penstock.base.errors import PenstockError
from penstock.base.jit import kernel
from penstock.views.rewriting_graph import RewritingGraph


class GraphError(PenstockError):
    """A rewriting graph whose numbers don't fit together."""


def well_formed(graph: RewritingGraph) -> RewritingGraph:
    """The graph with arrays of the kernels' types; raises `GraphError` if its numbers don't fit together."""
    typed = RewritingGraph(
        np.ascontiguousarray(graph.first, np.int64),
        np.ascontiguousarray(graph.start, np.int64),
        np.ascontiguousarray(graph.inputs, np.int32),
        np.ascontiguousarray(graph.rank, np.int32),
    )
    views = len(typed.rank)
    for name, places, count, end in (
        ("first", typed.first, views, len(typed.start) - 1),
        ("start", typed.start, len(typed.start) - 1, len(typed.inputs)),
    ):
        fits = len(places) == count + 1 and len(places) > 0 and places[0] == 0 and places[-1] == end
        if not fits or np.any(places[1:] < places[:-1]):
            raise GraphError(f"`{name}` must ascend from 0 to {end} in {count + 1} steps")
    if np.any(typed.start[1:] == typed.start[:-1]):
        raise GraphError(
            "a rewriting without inputs is none: views are always fed from the source too"
        )
    if len(typed.inputs) and not 0 <= typed.inputs.min() <= typed.inputs.max() < views:
        raise GraphError(f"inputs must be numbers of views, 0 to {views - 1}")
    view, rewriting, used = _out_of_order(typed)
    if used >= 0:
        raise GraphError(
            f"rewriting {rewriting} of view {view} (rank {typed.rank[view]}) has view {used} (rank "
            f"{typed.rank[used]}) as an input: inputs must have a lower rank, ascend, and differ"
        )
    return typed


@kernel
def _out_of_order(graph: RewritingGraph) -> tuple[int, int, int]:
    """The first view, rewriting and input whose order is wrong, or -1."""
    first, start, inputs, rank = graph.first, graph.start, graph.inputs, graph.rank
    for view in range(len(first) - 1):
        for r in range(first[view], first[view + 1]):
            for e in range(start[r], start[r + 1]):
                again = e > start[r] and inputs[e] <= inputs[e - 1]
                if again or rank[inputs[e]] >= rank[view]:
                    return view, r, inputs[e]
    return -1, -1, -1
