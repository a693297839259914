"""The optimum of small instances, and how the strategies stand to it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.operators.chain_lists import chains_of
from benchmarks.operators.exact import expected_cost, optimal_cost
from penstock.base.errors import PenstockError
from penstock.operators.chains import Estimates
from penstock.operators.strategies import STRATEGIES

PREDICATES = 5
chains = st.lists(
    st.lists(st.integers(0, PREDICATES - 1), min_size=1, max_size=4, unique=True),
    min_size=1,
    max_size=6,
)
chances = st.lists(st.floats(0.0, 1.0), min_size=PREDICATES, max_size=PREDICATES)
costs = st.lists(st.floats(0.1, 10.0), min_size=PREDICATES, max_size=PREDICATES)


def brute(lists, true, cost, known=()) -> float:
    """The optimum by its definition: try everything next."""
    seen = dict(known)
    undecided = [
        c for c in lists if all(seen.get(p, True) for p in c) and any(p not in seen for p in c)
    ]
    return min(
        (
            cost[p]
            + true[p] * brute(lists, true, cost, (*known, (p, True)))
            + (1 - true[p]) * brute(lists, true, cost, (*known, (p, False)))
            for p in {p for c in undecided for p in c} - seen.keys()
        ),
        default=0.0,
    )


@given(chains, chances, costs)
@settings(deadline=None, max_examples=30)
def test_the_optimum(lists, true, cost) -> None:
    """It is what trying all decision trees gives."""
    found = optimal_cost(
        chains_of(lists, [1] * PREDICATES), Estimates(np.array(true), np.array(cost))
    )
    assert found == pytest.approx(brute(lists[:], true, cost))


@pytest.mark.parametrize("name", list(STRATEGIES))
@given(chains, chances, costs)
@settings(deadline=None)
def test_nobody_is_below_the_optimum(name, lists, true, cost) -> None:
    """On any instance, with any costs."""
    flat, estimates = chains_of(lists, [1] * PREDICATES), Estimates(np.array(true), np.array(cost))
    assert (
        expected_cost(STRATEGIES[name], flat, estimates)[1] >= optimal_cost(flat, estimates) - 1e-9
    )


@given(chains, chances)
@settings(deadline=None)
def test_sequential_keeps_its_guarantee(lists, true) -> None:
    """Theorem 2: at most d times the optimum, d being the length of the longest chain."""
    flat, estimates = (
        chains_of(lists, [1] * PREDICATES),
        Estimates(np.array(true), np.ones(PREDICATES)),
    )
    evaluations, _ = expected_cost(STRATEGIES["sequential"], flat, estimates)
    assert evaluations <= max(map(len, lists)) * optimal_cost(flat, estimates) + 1e-9


@given(st.lists(st.integers(0, 4), min_size=1, max_size=4, unique=True), chances, costs)
@settings(deadline=None)
@pytest.mark.parametrize("name", ["sub-order", "adaptive"])
def test_one_chain_is_evaluated_at_the_optimum(name, chain, true, cost) -> None:
    """With nothing shared, the order is the known best one: by cost / (1 - selectivity)."""
    flat, estimates = (
        chains_of([chain], [1] * PREDICATES),
        Estimates(np.array(true), np.array(cost)),
    )
    assert expected_cost(STRATEGIES[name], flat, estimates)[1] == pytest.approx(
        optimal_cost(flat, estimates)
    )


def test_one_invocation_for_two_predicates() -> None:
    """It is paid once, whatever it decides."""
    flat = chains_of([[0], [1], [0, 2]], decides=[2, 1])
    estimates = Estimates(np.array([0.5, 0.5, 0.5]), np.array([1.0, 1.0]))
    assert optimal_cost(flat, estimates) == pytest.approx(1.5)


def test_too_large() -> None:
    """Three to the power of the number of predicates has a bound."""
    many = 13
    flat = chains_of([[p] for p in range(many)], [1] * many)
    with pytest.raises(PenstockError, match="at most 12 predicates"):
        optimal_cost(flat, Estimates(np.ones(many), np.ones(many)))
