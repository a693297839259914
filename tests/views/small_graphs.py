"""Small random rewriting graphs, and all their configurations by brute force."""

from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st

from penstock.views.choosing.capacities import UNLIMITED, Capacities
from penstock.views.rewriting_graph import SOURCE, Configuration, Costs, RewritingGraph


class Problem(NamedTuple):
    """Everything that a choice depends on."""

    graph: RewritingGraph
    costs: Costs
    capacities: Capacities


_costs = st.integers(0, 12).map(float)
_capacity = st.one_of(st.integers(0, 3), st.just(UNLIMITED))


@st.composite
def problems(draw, most: int = 6, tight: bool = True) -> Problem:
    """Graphs of up to `most` views whose numbers aren't in order of rank; up to three rewritings each."""
    views = draw(st.integers(1, most))
    rank = np.array(draw(st.permutations(range(views))), np.int32)
    rewritings: list[list[tuple[int, ...]]] = []
    for view in range(views):
        earlier = [other for other in range(views) if rank[other] < rank[view]]
        sets = (
            st.sets(st.sampled_from(earlier), min_size=1, max_size=3) if earlier else st.nothing()
        )
        found = draw(st.lists(sets, max_size=3, unique_by=frozenset)) if earlier else []
        rewritings.append([tuple(sorted(inputs)) for inputs in found])
    flat = [inputs for group in rewritings for inputs in group]
    count = len(flat)
    graph = RewritingGraph(
        np.cumsum([0, *map(len, rewritings)], dtype=np.int64),
        np.cumsum([0, *map(len, flat)], dtype=np.int64),
        np.array([n for inputs in flat for n in inputs], np.int32),
        rank,
    )
    costs = Costs(
        *(
            np.array(draw(st.lists(_costs, min_size=size, max_size=size)), np.float64)
            for size in (count, count, views, views)
        )
    )
    capacity = _capacity if tight else st.integers(1, 3)
    limits = np.array(draw(st.lists(capacity, min_size=views, max_size=views)), np.int64)
    source = draw(st.integers(0, views) if tight else st.just(views))
    return Problem(graph, costs, Capacities(limits, source))


def configurations(problem: Problem) -> Iterator[tuple[float, list[int]]]:
    """All configurations within the capacities, and their utilisation: straight from the definition."""
    graph, costs, capacities = problem
    ways = [
        [SOURCE, *range(graph.first[view], graph.first[view + 1])]
        for view in range(len(graph.rank))
    ]
    for chosen in product(*ways):
        load = [0] * len(ways)
        for r in chosen:
            for n in [] if r == SOURCE else graph.inputs[graph.start[r] : graph.start[r + 1]]:
                load[n] += 1
        if chosen.count(SOURCE) > capacities.source:
            continue
        if all(n <= most for n, most in zip(load, capacities.views.tolist(), strict=True)):
            yield (
                sum(
                    costs.source_utilisation[view] if r == SOURCE else costs.utilisation[r]
                    for view, r in enumerate(chosen)
                ),
                list(chosen),
            )


def slow_latency(problem: Problem, chosen: Configuration, view: int) -> float:
    """λ by its definition."""
    r = chosen.chosen[view]
    if r == SOURCE:
        return float(problem.costs.source_latency[view])
    inputs = problem.graph.inputs[problem.graph.start[r] : problem.graph.start[r + 1]]
    return float(problem.costs.latency[r]) + max(
        slow_latency(problem, chosen, int(n)) for n in inputs
    )
