"""Chooses what feeds every view, with the least utilisation within all capacities (delta §3.3).

The integer program of delta table 1 is NP-hard. With 100,000 views, HiGHS solves easy programs in minutes; on others it
still has a gap of a third after twenty minutes. So these steps are taken in order, as long as there is time:

    simplify     columns and limits that can't matter are dropped (`program`): often nine columns of ten
    relax        prices for capacities give a bound (`lagrangian`)
    repair       the prices give a choice within all limits (`repair`)
    solve        HiGHS gets the columns that can still be part of a better choice: those whose reduced cost is no more
                 than the gap. That loses no optimum, so its bound for them holds for the whole program

It ends as soon as the choice is within `WITHIN` of the bound, unless the rest is small enough to be solved exactly.
The result says how far from the optimum it is at most. All this takes no longer than `seconds`, except for one pass of
a kernel, or the time until HiGHS looks at its clock.
"""

from time import monotonic
from typing import NamedTuple

import numpy as np

from penstock.base.arrays import Int64s
from penstock.base.errors import PenstockError
from penstock.base.jit import kernel
from penstock.views.choosing.augment import augment_choice
from penstock.views.choosing.capacities import Capacities
from penstock.views.choosing.infeasible import (
    explain_infeasible,
    fewest_from_source,
    source_program,
)
from penstock.views.choosing.lagrangian import Relaxation, reduced_costs, relax
from penstock.views.choosing.program import Program, configuration_of, simplify, total
from penstock.views.choosing.repair import OPEN, greedy, improve_choice
from penstock.views.choosing.solver import solve
from penstock.views.rewriting_graph import SOURCE, Configuration, Costs, RewritingGraph

SECONDS = 60.0
WITHIN = 1e-3
_SMALL = 20_000  # columns that are solved exactly, however good the choice is already
_LARGE = 400_000  # columns that HiGHS gets at most: with more it would take too many minutes
_EQUAL = 2e-9  # share of the utilisation: twice what the order of summation may change
_LONG = 10.0  # seconds at most for an exact solution, if the choice is good enough already


class NothingFound(PenstockError):
    """Time was over before a configuration was found or proved to be impossible."""


class ConfigurationChoice(NamedTuple):
    """A configuration within all capacities, and how good it is."""

    configuration: Configuration
    utilisation: float
    bound: float
    """No configuration has less utilisation than that."""
    exact: bool
    """Whether no configuration has less utilisation than this one."""

    @property
    def gap(self) -> float:
        """How much less utilisation another configuration could have at most, as a share of this one's."""
        return (
            max(0.0, self.utilisation - self.bound) / self.utilisation if self.utilisation else 0.0
        )


def choose(
    graph: RewritingGraph,
    costs: Costs,
    capacities: Capacities,
    seconds: float = SECONDS,
) -> ConfigurationChoice:
    """The configuration of least utilisation, or one within a bound of it.

    >>> numbers = np.array([0, 0, 0, 1, 2], np.int32)
    >>> graph = RewritingGraph(np.array([0, 0, 1, 2]), np.array([0, 1, 2]), numbers[:2], numbers[2:])
    >>> costs = Costs(*map(np.array, ([1.0, 1.0], [0.0, 0.0], [9.0, 5.0, 4.0], [0.0, 0.0, 0.0])))
    >>> choice = choose(graph, costs, Capacities(np.array([1, 1, 1]), 2))
    >>> choice.configuration.chosen.tolist(), choice.utilisation, choice.exact
    ([-1, 0, -1], 14.0, True)
    """
    began = monotonic()
    until = began + seconds
    program = simplify(graph, costs, capacities)
    if np.any(program.limit < 0):
        asked = source_program(graph, capacities, began + 0.4 * seconds)
        raise explain_infeasible(graph, capacities, fewest_from_source(asked, 0, until))
    relaxed = relax(program, began + 0.4 * seconds)
    picked = _first(program, relaxed, graph, capacities, until)
    picked, bound = _solved(program, relaxed, picked, until)
    value = total(program, picked)
    exact = value - bound <= _EQUAL * abs(value)
    return ConfigurationChoice(configuration_of(program, picked), value, min(bound, value), exact)


def _first(
    program: Program,
    relaxed: Relaxation,
    graph: RewritingGraph,
    capacities: Capacities,
    until: float,
) -> Int64s:
    """A choice within all limits, by the first method that finds one; fast methods are tried first."""
    begun = greedy(program, relaxed.prices)
    if not np.any(begun == OPEN):
        return improve_choice(program, begun, until)
    asked = source_program(graph, capacities, monotonic() + 0.3 * (until - monotonic()))
    if asked.needed <= capacities.source:
        choice = augment_choice(program, begun, until=monotonic() + 0.3 * (until - monotonic()))
        if not np.any(choice == OPEN):
            return improve_choice(program, choice, until)
    fewest = fewest_from_source(asked, capacities.source, until)
    if fewest.needed > capacities.source:
        raise explain_infeasible(graph, capacities, fewest)
    if (
        fewest.chosen is not None
        and fewest.enough is not None
        and fewest.enough <= capacities.source
    ):
        return improve_choice(program, _translated(program, graph, fewest.chosen), until)
    if len(program.cost) <= _LARGE:
        found = solve(
            program, np.ones(len(program.cost), np.bool_), None, until - monotonic(), WITHIN
        )
        if found.picked is not None:
            return found.picked
        if found.bound == np.inf:
            raise explain_infeasible(graph, capacities, fewest)
    raise NothingFound(
        f"no configuration was found in time; the source may feed {capacities.source} views, must feed at least "
        f"{fewest.needed}, and {fewest.enough or 'all'} are enough: give it a capacity of that, or more seconds"
    )


def _worth_solving(value: float, bound: float, columns: int, left: float) -> bool:
    if value - bound <= _EQUAL * abs(value) or left < 1:
        return False
    return columns <= (_SMALL if value - bound <= WITHIN * value else _LARGE)


def _solved(
    program: Program, relaxed: Relaxation, picked: Int64s, until: float
) -> tuple[Int64s, float]:
    """A better choice, if HiGHS finds one, and a better bound."""
    bound = relaxed.bound
    reduced = reduced_costs(program, relaxed.prices)
    for _ in range(2):  # a better choice leaves fewer columns
        value = total(program, picked)
        keep = reduced <= value - relaxed.bound
        left = until - monotonic()
        if not _worth_solving(value, bound, int(keep.sum()), left):
            break
        close = value - bound <= WITHIN * value
        found = solve(program, keep, picked, min(left, _LONG) if close else left)
        bound = max(bound, min(found.bound, value))
        if found.picked is not None and total(program, found.picked) < value:
            picked = found.picked
    return picked, bound


@kernel
def _translated(program: Program, graph: RewritingGraph, chosen: Int64s) -> Int64s:
    """A configuration of the whole graph as a choice of the program's columns, which needs no further limited input.

    Each view gets the cheapest column whose limited inputs are all inputs of its chosen rewriting. There is one, since
    a column is dropped only if such a column is kept.
    """
    views, first, start = program.views, program.first, program.start
    picked = np.full(len(views), OPEN, np.int64)
    for n in range(len(views)):
        r = chosen[views[n]]
        for c in range(first[n], first[n + 1]):
            fits = True
            for e in range(start[c], start[c + 1]):
                view = program.limited[program.rows[e]]
                has = view == SOURCE and r == SOURCE
                if r != SOURCE and view != SOURCE:
                    for f in range(graph.start[r], graph.start[r + 1]):
                        has |= graph.inputs[f] == view
                fits &= has
            if fits:
                picked[n] = c
                break
    return picked
