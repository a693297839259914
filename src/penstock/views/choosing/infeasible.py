"""Why no configuration keeps to the capacities, in numbers that can be checked by hand.

The fewest views that the source must feed are the optimum of the same program with cost 1 for the source, 0 for
rewritings, and no limit for the source. Its Lagrangian bound proves that fewer won't do; a choice that is found says
how many are enough. The reasons are views that have no rewriting, and crowds as in Hall's theorem:

    crowded views  ──every rewriting of theirs needs one of──▶  saturated views
    |crowded| - Σ capacity[saturated]                           at least that many must be fed from the source

Saturated views are first guessed from the prices of the bound: those that are worth a place at the source. Then the
ones that the argument doesn't need are dropped one by one, as far as that is quickly done. If columns with several
inputs share them fractionally, the crowd explains less than the bound; the message gives both.
"""

import math
from time import monotonic
from typing import NamedTuple

import numpy as np

from penstock.base.arrays import Bools, Float64s, Int64s
from penstock.base.errors import PenstockError
from penstock.base.jit import kernel
from penstock.views.choosing.augment import augment_choice
from penstock.views.choosing.capacities import UNLIMITED, Capacities
from penstock.views.choosing.lagrangian import Relaxation, reduced_costs, relax
from penstock.views.choosing.program import Program, configuration_of, simplify, total
from penstock.views.choosing.repair import OPEN, greedy, improve_choice
from penstock.views.choosing.solver import solve
from penstock.views.rewriting_graph import Costs, RewritingGraph

_SHOWN = 5  # views named in a message
_SMALL = 50_000  # columns that HiGHS is given
_WORTHLESS = 0.01  # shares of a place at the source
_WHOLE = 1e-6  # a bound that is so much above a whole number is that number
_LONG = 20.0  # seconds that HiGHS is given
_PROBED = 12  # guesses of which views are saturated
_TRIED = 300  # views of the best guess that are left out for a try


class Fewest(NamedTuple):
    """How many views the source must feed, and how many are enough (None: not known)."""

    needed: int
    enough: int | None
    prices: Float64s
    """The price of each view; 0 if it has room for all."""
    chosen: Int64s | None
    """A configuration in which the source feeds `enough` views."""


class Infeasible(PenstockError):
    """No configuration keeps to the capacities: the reasons, and a capacity of the source that would be enough."""

    def __init__(
        self,
        fewest: Fewest,
        capacities: Capacities,
        alone: Int64s,
        crowded: Int64s,
        saturated: Int64s,
    ) -> None:
        super().__init__(fewest, capacities, alone, crowded, saturated)  # pickling repeats these
        self.needed, self.enough = fewest.needed, fewest.enough
        self.source = capacities.source
        self.alone, self.crowded, self.saturated = alone, crowded, saturated
        self.together = int(capacities.views[saturated].sum())

    def __str__(self) -> str:
        lines = [
            f"no configuration keeps to the capacities: the source may feed {self.source} views, "
            f"but must feed at least {self.needed}"
        ]
        if len(self.alone):
            lines.append(f"  - {len(self.alone)} have no rewriting: {_named(self.alone)}")
        if len(self.crowded):
            lines.append(
                f"  - {len(self.crowded)} have rewritings, but each needs one of {len(self.saturated)} views "
                f"that may feed {self.together} in all: {_named(self.saturated)}"
            )
        shown = len(self.alone) + max(0, len(self.crowded) - self.together)
        if shown < self.needed:
            lines.append(f"  - {self.needed - shown} more by the linear relaxation of the program")
        if self.enough is None:
            lines.append("  give the source more capacity, or those views")
        else:
            lines.append(f"  a capacity of {self.enough} would do for the source")
        return "\n".join(lines)


def _named(views: Int64s) -> str:
    names = ", ".join(f"view {view}" for view in views[:_SHOWN].tolist())
    return names + (", …" if len(views) > _SHOWN else "")


class SourceProgram(NamedTuple):
    """The program that asks for the fewest views fed from the source, and its bound."""

    program: Program
    relaxed: Relaxation

    @property
    def needed(self) -> int:
        return max(0, math.ceil(self.relaxed.bound - _WHOLE))


def source_program(
    graph: RewritingGraph, capacities: Capacities, until: float = np.inf
) -> SourceProgram:
    """The program for the fewest views that the source must feed, with a bound that is quickly proved."""
    views = len(graph.rank)
    nothing = np.zeros(len(graph.start) - 1)
    costs = Costs(nothing, nothing, np.ones(views), np.ones(views))
    program = simplify(graph, costs, Capacities(capacities.views, UNLIMITED))
    return SourceProgram(program, relax(program, until))


def fewest_from_source(asked: SourceProgram, goal: int = 0, until: float = np.inf) -> Fewest:
    """How many views the source must feed, and how many are enough. The search ends once `goal` are enough."""
    program, relaxed = asked
    choice = augment_choice(program, greedy(program, relaxed.prices), most=_WHOLE, until=until)
    picked: Int64s | None = improve_choice(program, choice, until)
    if np.any(picked == OPEN):
        picked = None
    found = None if picked is None else round(total(program, picked))
    needed = asked.needed
    if len(program.cost) <= _SMALL and (found is None or found > max(needed, goal)):
        slack = np.inf if found is None else found - relaxed.bound
        keep = reduced_costs(program, relaxed.prices) <= slack
        better = solve(program, keep, picked, min(_LONG, until - monotonic()))
        if np.isfinite(better.bound):
            needed = max(needed, math.ceil(better.bound - _WHOLE))
        if better.picked is not None:
            picked, found = better.picked, round(total(program, better.picked))
    prices = np.zeros(len(program.settled))
    prices[program.limited] = relaxed.prices  # the source has no limit here
    chosen = None if picked is None else configuration_of(program, picked).chosen
    return Fewest(needed, found, prices, chosen)


def explain_infeasible(graph: RewritingGraph, capacities: Capacities, fewest: Fewest) -> Infeasible:
    """The error that says why the source has to feed more views than it may."""
    alone = np.diff(graph.first) == 0
    saturated = _saturated(graph, capacities, fewest.prices)
    crowded = _crowd(graph, saturated) & ~alone
    lack = _lack(graph, capacities, saturated)
    needed = max(fewest.needed, int(alone.sum()) + lack)
    found = map(np.flatnonzero, (alone, crowded & (lack > 0), saturated & (lack > 0)))
    return Infeasible(fewest._replace(needed=needed), capacities, *found)


def _saturated(graph: RewritingGraph, capacities: Capacities, prices: Float64s) -> Bools:
    """The saturated views that explain most, with few that the explanation could do without."""
    best, most = np.zeros(len(prices), np.bool_), 0
    worth = prices[prices > _WORTHLESS]
    probes = np.quantile(worth, np.linspace(0, 1, _PROBED)) if len(worth) else worth
    for least in np.unique(probes).tolist():
        guess = (prices >= least) & (capacities.views < UNLIMITED)
        lack = _lack(graph, capacities, guess)
        if lack > most:
            best, most = guess, lack
    for view in np.flatnonzero(best)[:_TRIED].tolist():
        best[view] = False
        best[view] = _lack(graph, capacities, best) < most
    return best


def _lack(graph: RewritingGraph, capacities: Capacities, saturated: Bools) -> int:
    """How many views of the crowd that needs these find no place. Views without a rewriting don't count."""
    crowd = int(np.count_nonzero(_crowd(graph, saturated) & (np.diff(graph.first) > 0)))
    return max(0, crowd - int(capacities.views[saturated].sum()))


@kernel
def _crowd(graph: RewritingGraph, saturated: Bools) -> Bools:
    """The views all of whose rewritings have a saturated input."""
    first, start, inputs = graph.first, graph.start, graph.inputs
    crowd = np.ones(len(first) - 1, np.bool_)
    for view in range(len(first) - 1):
        for r in range(first[view], first[view + 1]):
            free = True
            for e in range(start[r], start[r + 1]):
                free &= not saturated[inputs[e]]
            if free:
                crowd[view] = False
                break
    return crowd
