"""Levels and latencies of a configuration, and the capacities that it exceeds (delta §2).

In a valid configuration every view is fed in one way, a path leads from the source to each, so there is no cycle, and
no view feeds more than its capacity. Everything here goes by the configuration alone, from the source down: next come
views whose inputs are all fed. It doesn't rely on ranks, so the clever parts are checked against it.

    source ──▶ v0 ──▶ v2 ──▶ v3        level of v0, v1: 1; of v2: 2; of v3: 3
         └───▶ v1 ──┘                  latency of v2: its rewriting's own + that of the slower of v0 and v1
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from penstock.base.array_kernels import copy_values
from penstock.base.arrays import Float64s, Int32s, Int64s
from penstock.base.errors import PenstockError
from penstock.base.jit import kernel
from penstock.views.choosing.capacities import Capacities
from penstock.views.choosing.cost_model import configuration_values
from penstock.views.choosing.user_lists import rows_by_input
from penstock.views.rewriting_graph import SOURCE, Configuration, Costs, RewritingGraph

_SHOWN = 5  # problems of a kind in a message


class InvalidConfiguration(PenstockError):
    """A configuration that isn't valid."""


class Inputs(NamedTuple):
    """The views that feed view v: inputs[start[v] : start[v + 1]]; no views if the source feeds it."""

    start: Int64s
    inputs: Int32s


def inputs_of(graph: RewritingGraph, configuration: Configuration) -> Inputs:
    """The inputs of each view's chosen rewriting."""
    return Inputs(*_chosen_inputs(graph.start, graph.inputs, configuration.chosen))


def levels_of(fed: Inputs) -> Int64s:
    """How many steps each view is from the source: 1 if it is fed from it."""
    ones = np.ones(len(fed.start) - 1)
    return _longest(*fed, _ordered(fed), ones).astype(np.int64)


def latencies(graph: RewritingGraph, configuration: Configuration, costs: Costs) -> Float64s:
    """λ of each view: its rewriting's own latency, and that of its slowest input."""
    own = configuration_values(configuration, costs.latency, costs.source_latency)
    return latencies_of(inputs_of(graph, configuration), own)


def latencies_of(fed: Inputs, own: Float64s) -> Float64s:
    """λ of each view, from its inputs and the latency of its rewriting by itself."""
    return _longest(*fed, _ordered(fed), own)


def capacity_problems(load: Int64s, from_source: int, capacities: Capacities) -> Iterator[str]:
    """A text for each of the first views that feed more than they may, and for the source if it does."""
    for view in np.flatnonzero(load > capacities.views)[:_SHOWN].tolist():
        yield f"view {view} feeds {load[view]}, more than its capacity of {capacities.views[view]}"
    if from_source > capacities.source:
        yield f"the source feeds {from_source} views, more than its capacity of {capacities.source}"


def _some(mask: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> str:
    views = np.flatnonzero(mask)
    more = f" and {len(views) - _SHOWN} more" if len(views) > _SHOWN else ""
    return ", ".join(f"view {v}" for v in views[:_SHOWN].tolist()) + more


def _ordered(fed: Inputs) -> Int64s:
    order = _from_source(*fed)
    if len(order) < len(fed.start) - 1:
        lost = np.ones(len(fed.start) - 1, np.bool_)
        lost[order] = False
        raise InvalidConfiguration(
            f"{_some(lost)}: no path from the source, they are fed in a circle"
        )
    return order


@kernel
def _chosen_inputs(start: Int64s, inputs: Int32s, chosen: Int64s) -> tuple[Int64s, Int32s]:
    begin = np.zeros(len(chosen) + 1, np.int64)
    for view in range(len(chosen)):
        r = chosen[view]
        begin[view + 1] = begin[view] + (0 if r == SOURCE else start[r + 1] - start[r])
    found = np.empty(begin[-1], np.int32)
    for view in range(len(chosen)):
        r = chosen[view]
        if r != SOURCE:
            copy_values(found, begin[view], inputs, start[r], start[r + 1] - start[r])
    return begin, found


@kernel
def _from_source(start: Int64s, inputs: Int32s) -> Int64s:
    """Views in an order in which each comes after all that feed it. Those in or below a circle are left out."""
    views = len(start) - 1
    users, used_by = rows_by_input(start, inputs, views)
    waits = np.empty(views, np.int64)
    for view in range(views):
        waits[view] = start[view + 1] - start[view]
    order = np.empty(views, np.int64)
    count = 0
    for view in range(views):
        if waits[view] == 0:
            order[count] = view
            count += 1
    at = 0
    while at < count:
        view = order[at]
        at += 1
        for n in range(users[view], users[view + 1]):
            waits[used_by[n]] -= 1
            if waits[used_by[n]] == 0:
                order[count] = used_by[n]
                count += 1
    return order[:count]


@kernel
def _longest(start: Int64s, inputs: Int32s, order: Int64s, own: Float64s) -> Float64s:
    """For each view its own figure, plus the largest result of its inputs."""
    found = np.zeros(len(own))
    for view in order:
        slowest = 0.0
        for e in range(start[view], start[view + 1]):
            slowest = max(slowest, found[inputs[e]])
        found[view] = own[view] + slowest
    return found
