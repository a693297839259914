"""The order of chains: pairs by the paper's formula, and paths."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.operators.chain_lists import chains_of
from benchmarks.operators.rounds import play
from penstock.operators.chains import Chains, Estimates
from penstock.operators.strategies.block import index
from penstock.operators.strategies.chain_order import nodes, order_chains, saving
from penstock.operators.strategies.sub_order import SubOrder

PREDICATES = 6
chances = st.lists(st.floats(0.0, 1.0), min_size=PREDICATES, max_size=PREDICATES)
costs = st.lists(st.floats(0.1, 10.0), min_size=PREDICATES, max_size=PREDICATES)
chain = st.lists(st.integers(0, PREDICATES - 1), min_size=1, max_size=5, unique=True)


def every_truth(many: int) -> np.ndarray:
    return np.array(list(itertools.product([False, True], repeat=many)))


def expected(chains: Chains, estimates: Estimates, order: list[int]) -> float:
    """What chains cost in an order, over all that can be."""
    truth = every_truth(PREDICATES)
    chance = np.where(truth, estimates.true, 1 - estimates.true).prod(axis=1)
    one = SubOrder(chains, estimates, np.array(order, np.int32))
    return float(chance @ play(one, chains, truth, estimates.cost).cost)


@given(chain, chain, chances, costs)
@settings(deadline=None)
def test_the_cost_difference_of_two_chains(u, v, true, cost) -> None:
    """Section 4.2.4: the formula for k links is what the two orders really differ by, costs included."""
    chains = chains_of([u, v], [1] * PREDICATES)
    estimates = Estimates(np.array(true), np.array(cost))
    at = index(chains, estimates)
    gain = saving(0, 1, at._replace(predicate=nodes(at).predicate))
    real = expected(chains, estimates, [1, 0]) - expected(chains, estimates, [0, 1])
    assert gain == pytest.approx(real, abs=1e-9)


@given(st.lists(chain, max_size=15), chances, costs)
@settings(deadline=None)
def test_an_order_has_every_chain_once(chains, true, cost) -> None:
    """Whatever edges are chosen, they make paths: no chain is lost or doubled."""
    at = index(chains_of(chains, [1] * PREDICATES), Estimates(np.array(true), np.array(cost)))
    assert sorted(order_chains(at, nodes(at)).tolist()) == list(range(len(chains)))


@given(chain, chances, costs)
@settings(deadline=None)
def test_one_chain_is_in_its_best_order(predicates, true, cost) -> None:
    """By cost / (1 - selectivity) no permutation of a single chain is cheaper."""
    at = index(chains_of([predicates], [1] * PREDICATES), Estimates(np.array(true), np.array(cost)))
    found = nodes(at)

    def alone(order) -> float:
        total, reach = 0.0, 1.0
        for p in order:
            total += reach * cost[p]
            reach *= true[p]
        return total

    assert found.cost[0] == pytest.approx(alone(found.predicate))
    assert found.cost[0] <= min(map(alone, itertools.permutations(predicates))) + 1e-9


def test_the_chain_that_reaches_the_link_goes_first() -> None:
    """Chain 1 begins with the shared predicate, chain 0 comes to it last: 1 is evaluated first."""
    chains = chains_of([[0, 1, 2], [2, 3]], [1] * 4)
    at = index(chains, Estimates(np.array([0.1, 0.2, 0.3, 0.9]), np.ones(4)))
    assert order_chains(at, nodes(at)).tolist() == [1, 0]
