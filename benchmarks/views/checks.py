"""Whether a configuration is one: every view fed in one way of its own, from the source down, within all capacities.

It goes by the configuration alone and doesn't rely on ranks: what chooses configurations is checked against it, in
benchmarks and in tests.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from penstock.base.arrays import Int64s
from penstock.views.choosing.capacities import Capacities
from penstock.views.choosing.configuration import (
    InvalidConfiguration,
    capacity_problems,
    inputs_of,
    levels_of,
)
from penstock.views.rewriting_graph import SOURCE, Configuration, RewritingGraph


class Loads(NamedTuple):
    """How many rewritings each view takes part in, and how many views the source feeds."""

    views: Int64s
    source: int


def loads(graph: RewritingGraph, configuration: Configuration) -> Loads:
    """How many views each view and the source feed."""
    fed = inputs_of(graph, configuration)
    return Loads(
        np.bincount(fed.inputs, minlength=len(graph.rank)),
        int(np.count_nonzero(configuration.chosen == SOURCE)),
    )


def check(graph: RewritingGraph, configuration: Configuration, capacities: Capacities) -> None:
    """Raise `InvalidConfiguration` with all that is wrong, if anything is."""
    problems = list(_problems(graph, configuration, capacities))
    if problems:
        count = f"{len(problems)} problem{'s' if len(problems) != 1 else ''} in the configuration"
        raise InvalidConfiguration("\n".join([count, *(f"  - {p}" for p in problems)]))


def _problems(
    graph: RewritingGraph, configuration: Configuration, capacities: Capacities
) -> Iterator[str]:
    chosen = configuration.chosen
    if len(chosen) != len(graph.rank):
        yield f"it has {len(chosen)} views, the graph {len(graph.rank)}"
        return
    foreign = (chosen != SOURCE) & ((chosen < graph.first[:-1]) | (chosen >= graph.first[1:]))
    if foreign.any():
        yield f"the chosen rewriting of view {np.flatnonzero(foreign)[0]} isn't its own"
        return
    try:
        levels_of(inputs_of(graph, configuration))
    except InvalidConfiguration as error:
        yield str(error)
    yield from capacity_problems(*loads(graph, configuration), capacities)
