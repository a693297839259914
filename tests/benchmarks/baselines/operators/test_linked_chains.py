"""An order of chains that is kept while chains come and go."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.baselines.operators.linked_chains import LinkedChains
from benchmarks.operators.chain_lists import chains_of
from benchmarks.operators.rounds import play
from penstock.base.errors import PenstockError
from penstock.operators.chains import Estimates

PREDICATES = 6
chances = st.lists(st.floats(0.0, 1.0), min_size=PREDICATES, max_size=PREDICATES)
costs = st.lists(st.floats(0.1, 10.0), min_size=PREDICATES, max_size=PREDICATES)
chain = st.lists(st.integers(0, PREDICATES - 1), min_size=1, max_size=5, unique=True)
changes = st.lists(st.one_of(chain, st.integers(0, 30)), max_size=25)


@given(st.lists(chain, max_size=6), changes, chances, costs)
@settings(deadline=None)
def test_chains_come_and_go(chains, changes, true, cost) -> None:
    """After any inserts and deletes the order has the live chains, each once, and sub-order finds what is true."""
    estimates = Estimates(np.array(true), np.array(cost))
    linked = LinkedChains(chains_of(chains, [1] * PREDICATES), estimates)
    live = dict(enumerate(chains))
    for change in changes:
        if isinstance(change, list):
            live[linked.insert(change)] = change
        elif change in live:
            linked.delete(change)
            del live[change]
        else:
            with pytest.raises(PenstockError, match="no chain"):
                linked.delete(change)
    assert sorted(linked.order()) == sorted(live)
    truth = np.array(list(itertools.product([False, True], repeat=PREDICATES)))
    played = play(linked.strategy(), linked.chains(), truth, estimates.cost)
    assert played.matches.tolist() == [
        sum(all(row[p] for p in c) for c in live.values()) for row in truth
    ]


def test_a_new_chain_goes_where_it_saves_most() -> None:
    """Right before the chain that shares its first predicate further down, though another stands first."""
    estimates = Estimates(np.array([0.1, 0.2, 0.3, 0.4, 0.05]), np.ones(5))
    linked = LinkedChains(chains_of([[4], [0, 1, 2]], [1] * 5), estimates)
    before = linked.order()
    new = linked.insert([2, 3])
    after = linked.order()
    assert after.index(new) == after.index(1) - 1
    assert [c for c in after if c != new] == before


@pytest.mark.parametrize("predicates", [[0, 0], [-1], [9]])
def test_no_such_chain(predicates: list[int]) -> None:
    """A predicate that doesn't exist, or stands twice, is refused and changes nothing."""
    linked = LinkedChains(chains_of([[0]], [1]), Estimates(np.ones(1), np.ones(1)))
    with pytest.raises(PenstockError, match="different predicates from 0 to 0"):
        linked.insert(predicates)
    assert linked.order() == [0]
