"""What can't be beaten: the least expected cost of deciding all chains, for instances of a few predicates.

Every strategy is a decision tree: what it evaluates next depends on what it has seen. The best one follows from the
states in which each predicate is true, false or unknown (three to the power of their number), the last ones first: from
a state with an open chain, the cheapest is to evaluate the invocation that leads to the cheapest states on average.

What a strategy really costs is counted on all truth vectors, each with its probability: exact, too.
"""

import numpy as np

from benchmarks.operators.rounds import play
from penstock.base.arrays import Bools, Float64s, Int32s, Int64s
from penstock.base.errors import PenstockError
from penstock.base.jit import kernel
from penstock.operators.chains import Chains, Estimates
from penstock.operators.strategies.interface import Strategy

MOST = 12  # predicates: half a million states


def optimal_cost(chains: Chains, estimates: Estimates) -> float:
    """The expected cost of the best strategy there is.

    Two chains share a predicate that is true half the time, and have one of their own: try the shared one first.

    >>> from benchmarks.operators.chain_lists import chains_of
    >>> chains = chains_of([[0, 1], [0, 2]], decides=[1, 1, 1])
    >>> optimal_cost(chains, Estimates(np.array([0.5, 0.5, 0.5]), np.ones(3)))
    2.0
    """
    if chains.predicates > MOST or len(chains.rival):
        raise PenstockError(
            f"the optimum is found for at most {MOST} predicates and chains without rivals, not for "
            f"{chains.predicates} predicates and {len(chains.rival)} rivals: draw a smaller instance"
        )
    return float(
        _optimal(
            chains.start, chains.predicate, chains.invocation_start, estimates.true, estimates.cost
        )
    )


def expected_cost(
    strategy: type[Strategy], chains: Chains, estimates: Estimates
) -> tuple[float, float]:
    """What a strategy is expected to evaluate, and what that costs, over all that events can be."""
    many = chains.predicates
    truth: Bools = (np.arange(1 << many)[:, None] >> np.arange(many)) & 1 == 1
    chance = np.where(truth, estimates.true, 1.0 - estimates.true).prod(axis=1)
    played = play(strategy(chains, estimates), chains, truth, estimates.cost)
    return float(chance @ played.evaluations), float(chance @ played.cost)


@kernel
def _optimal(
    start: Int32s, predicate: Int32s, decides: Int32s, true: Float64s, cost: Float64s
) -> float:
    """States are numbers in base 3: digit p is 0 if predicate p is unknown, 1 if it is true, 2 if false."""
    many = decides[-1]
    power = np.ones(many + 1, np.int64)
    for p in range(many):
        power[p + 1] = 3 * power[p]
    best = np.zeros(power[many])
    for state in range(power[many] - 1, -1, -1):  # what follows from a state has a larger number
        is_useful = _useful(state, start, predicate, power)
        least = np.inf
        for i in range(len(decides) - 1):
            low, high = decides[i], decides[i + 1]
            is_wanted = False
            for p in range(low, high):
                is_wanted |= is_useful[p]
            if not is_wanted:
                continue
            expected = cost[i]
            for outcome in range(1 << (high - low)):
                chance, following = 1.0, state
                for p in range(low, high):
                    is_true = (outcome >> (p - low)) & 1
                    chance *= true[p] if is_true else 1.0 - true[p]
                    following += power[p] * (1 if is_true else 2)
                expected += chance * best[following]
            least = min(least, expected)
        best[state] = least if least < np.inf else 0.0
    return float(best[0])


@kernel
def _useful(state: int, start: Int32s, predicate: Int32s, power: Int64s) -> Bools:
    """The unknown predicates of open chains."""
    found = np.zeros(len(power) - 1, np.bool_)
    for c in range(len(start) - 1):
        is_false = False
        for k in range(start[c], start[c + 1]):
            is_false |= state // power[predicate[k]] % 3 == 2
        if not is_false:
            for k in range(start[c], start[c + 1]):
                found[predicate[k]] |= state // power[predicate[k]] % 3 == 0
    return found
