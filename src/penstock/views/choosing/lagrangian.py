"""A bound below every configuration's utilisation: capacities are bought instead of kept (for delta §3.3).

Each limited input has a price, and a column costs its utilisation and the prices of its inputs. Then every view takes
its cheapest column, by itself, in one pass. For any prices >= 0

    bound = Σ cheapest[v] - Σ price[u] limit[u]      <=  the optimum of the program and of its linear relaxation

since a choice that keeps to the limits never pays more than the limits are worth. Prices are raised where too many buy
and lowered where too few do. The classic step is along the subgradient (load - limit), with a length taken from the
gap. It creeps here, since the values of inputs differ by orders of magnitude. So each price moves by about the same
step, in the direction that its own excess has had lately (a running mean, divided by its running magnitude), and the
step shrinks geometrically. After 100 passes this is within 0.01 % of the final bound; the classic step (with
deflection, or the volume algorithm) is still 0.3 % off after 400.
"""

from time import monotonic
from typing import NamedTuple

import numpy as np

from penstock.base.arrays import Float64s, Int64s
from penstock.base.jit import kernel
from penstock.views.choosing.program import Program, loads

PASSES = 300
_FIRST_STEP, _LAST_STEP = 0.25, 2e-4  # shares of the typical loss of a view
_MEMORY, _LONG_MEMORY = 0.8, 0.95
_ROUNDING = 1e-9  # share of the bound that the order of summation may change


class Relaxation(NamedTuple):
    """A bound, and the prices that prove it."""

    bound: float
    prices: Float64s


def relax(program: Program, until: float = np.inf) -> Relaxation:
    """The best bound of `PASSES` passes, or of those that are over by `until` on the monotonic clock."""
    prices = np.zeros(len(program.limit))
    if not len(program.limit) or not len(program.views):
        return Relaxation(program.fixed + float(program.cost[program.first[:-1]].sum()), prices)
    best = Relaxation(-np.inf, prices)
    recent, magnitude = np.zeros(len(prices)), np.zeros(len(prices))
    step = _FIRST_STEP * _typical(program)
    shrink = (_LAST_STEP / _FIRST_STEP) ** (1 / PASSES)
    for _ in range(PASSES):
        value, picked = priced(program, prices)
        if value > best.bound:
            best = Relaxation(value, prices)
        excess = loads(program, picked) - program.limit
        if not np.any((excess > 0) | ((prices > 0) & (excess < 0))) or monotonic() > until:
            break
        pull = excess / np.maximum(program.limit, 1)
        pull[(prices <= 0) & (pull < 0)] = 0
        recent = _MEMORY * recent + (1 - _MEMORY) * pull
        magnitude = _LONG_MEMORY * magnitude + (1 - _LONG_MEMORY) * pull * pull
        prices = np.maximum(0, prices + step * recent / (np.sqrt(magnitude) + 1e-3))
        step *= shrink
    return best._replace(bound=best.bound - _ROUNDING * abs(best.bound))


def _typical(program: Program) -> float:
    """How much a view loses on average if it gets its most expensive column instead of its cheapest."""
    return float((program.cost[program.first[1:] - 1] - program.cost[program.first[:-1]]).mean())


def priced(program: Program, prices: Float64s) -> tuple[float, Int64s]:
    """The bound of these prices, and the column that each view takes."""
    cheapest, picked = _cheapest(program, prices)
    return program.fixed + float(cheapest.sum()) - float(prices @ program.limit), picked


@kernel
def _cheapest(program: Program, prices: Float64s) -> tuple[Float64s, Int64s]:
    first, cost = program.first, program.cost
    least = np.empty(len(first) - 1)
    picked = np.empty(len(first) - 1, np.int64)
    for view in range(len(first) - 1):
        best = np.inf
        for c in range(first[view], first[view + 1]):
            if cost[c] >= best:
                break
            worth = cost[c]
            for e in range(program.start[c], program.start[c + 1]):
                worth += prices[program.rows[e]]
            if worth < best:
                best = worth
                picked[view] = c
        least[view] = best
    return least, picked


@kernel
def reduced_costs(program: Program, prices: Float64s) -> Float64s:
    """How much more each column costs than the cheapest of its view, at these prices.

    A configuration that has a column costs at least the bound and that much more.
    """
    worth = program.cost.copy()
    for view in range(len(program.first) - 1):
        best = np.inf
        for c in range(program.first[view], program.first[view + 1]):
            for e in range(program.start[c], program.start[c + 1]):
                worth[c] += prices[program.rows[e]]
            best = min(best, worth[c])
        for c in range(program.first[view], program.first[view + 1]):
            worth[c] -= best
    return worth
