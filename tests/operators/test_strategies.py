"""What every strategy owes: the same chains as the definition, and no question that nobody needs answered."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.operators.chain_lists import chains_of
from penstock.base.errors import PenstockError
from penstock.operators.chains import Chains, Estimates
from penstock.operators.strategies import DEFAULT_STRATEGY, STRATEGIES, bytes_per_event, strategy

every = pytest.mark.parametrize("name", list(STRATEGIES))


@dataclass(frozen=True)
class Scene:
    """Chains, estimates, which chains each event needs, and what is true of it."""

    chains: list[list[int]]
    decides: list[int]
    rivals: dict[int, list[int]]
    true: list[float]
    cost: list[float]
    needs: list[list[int]]
    truth: list[list[bool]]

    def holds(self, e: int, c: int) -> bool:
        return all(self.truth[e][p] for p in self.chains[c])

    def flat(self) -> Chains:
        return chains_of(self.chains, self.decides, self.rivals)

    def estimates(self) -> Estimates:
        return Estimates(np.array(self.true), np.array(self.cost))


@st.composite
def scenes(draw: st.DrawFn) -> Scene:
    decides = draw(st.lists(st.integers(1, 3), min_size=1, max_size=8))
    predicates = sum(decides)
    chain = st.lists(st.integers(0, predicates - 1), max_size=5, unique=True)
    chains = draw(st.lists(chain, max_size=12))
    some = st.lists(st.integers(0, max(0, len(chains) - 1)), max_size=3, unique=True)
    rivals = draw(st.dictionaries(st.integers(0, 11), some, max_size=3)) if chains else {}
    chance = st.sampled_from([0.0, 0.05, 0.3, 0.5, 0.9, 1.0])
    true = draw(st.lists(chance, min_size=predicates, max_size=predicates))
    costs = st.sampled_from([0.0, 1e-3, 1.0, 100.0])
    cost = draw(st.lists(costs, min_size=len(decides), max_size=len(decides)))
    needs = draw(
        st.lists(
            st.lists(st.sampled_from(range(len(chains))), unique=True).map(sorted)
            if chains
            else st.just([]),
            max_size=5,
        )
    )
    row = st.lists(st.booleans(), min_size=predicates, max_size=predicates)
    truth = draw(st.lists(row, min_size=len(needs), max_size=len(needs)))
    rivals = {c: [r for r in found if r != c] for c, found in rivals.items()}
    return Scene(chains, decides, rivals, true, cost, needs, truth)


class Known:
    """What has been told of one event, and which chains are open by the definition."""

    def __init__(self, scene: Scene, event: int) -> None:
        self.scene, self.event = scene, event
        self.predicates: dict[int, bool] = {}

    def is_true(self, c: int) -> bool:
        return all(self.predicates.get(p, False) for p in self.scene.chains[c])

    def is_undecided(self, c: int) -> bool:
        is_false = any(not self.predicates.get(p, True) for p in self.scene.chains[c])
        return not is_false and not self.is_true(c)

    def is_open(self, c: int) -> bool:
        needs = self.scene.needs[self.event]
        return self.is_undecided(c) and not any(
            c in self.scene.rivals.get(d, ()) and self.is_true(d) for d in needs
        )

    def wanted(self) -> set[int]:
        """Unknown predicates of open chains."""
        needs = self.scene.needs[self.event]
        found = {p for c in needs if self.is_open(c) for p in self.scene.chains[c]}
        return found - self.predicates.keys()


@dataclass
class Played:
    asked: list[tuple[int, int]]
    rounds: int
    matched: list[list[int]]


def play(scene: Scene, name: str, *, strictly: bool) -> Played:
    """Run a strategy to its end; `strictly`: whatever is asked must be a predicate of an open chain."""
    chains = scene.flat()
    start = np.concatenate([[0], np.cumsum([len(n) for n in scene.needs])]).astype(np.int64)
    needed = np.array([c for n in scene.needs for c in n], np.int32)
    rounds = strategy(name)(chains, scene.estimates()).begin(start, needed)
    known = [Known(scene, e) for e in range(len(scene.needs))]
    played = Played([], 0, [])
    while True:
        events, invocations = rounds.ask()
        pairs = list(zip(events.tolist(), invocations.tolist(), strict=True))
        assert [(i, e) for e, i in pairs] == sorted((i, e) for e, i in pairs)
        if not pairs:
            break
        played.rounds += 1
        played.asked += pairs
        answers: list[bool] = []
        spans = [
            range(chains.invocation_start[i], chains.invocation_start[i + 1]) for _, i in pairs
        ]
        for (e, _), span in zip(pairs, spans, strict=True):
            if strictly:
                wanted = known[e].wanted()
                assert wanted, "asked for an event whose chains are all decided"
                assert wanted & set(span), "asked for what no open chain has"
        for (e, _), span in zip(pairs, spans, strict=True):
            known[e].predicates |= {p: scene.truth[e][p] for p in span}
            answers += [scene.truth[e][p] for p in span]
        rounds.tell(np.array(answers, np.bool_))
    assert not any(k.wanted() for k in known), "left a chain open"
    begins, found = rounds.true_chains()
    played.matched = [found[begins[e] : begins[e + 1]].tolist() for e in range(len(scene.needs))]
    return played


@every
@given(scene=scenes())
@settings(deadline=None)
def test_the_definition(name: str, scene: Scene) -> None:
    """True chains are found, no others; one may be missing only if a true chain made it needless."""
    # naive looks at no predicate but the next: one of a chain that is false further on
    played = play(scene, name, strictly=name != "naive")
    assert len(played.asked) == len(set(played.asked)), "a pair was asked for twice"
    for e, matched in enumerate(played.matched):
        true = [c for c in scene.needs[e] if scene.holds(e, c)]
        assert set(matched) <= set(true)
        assert matched == sorted(set(matched))
        for c in set(true) - set(matched):
            assert any(c in scene.rivals.get(d, ()) for d in matched)


@every
def test_an_event_at_a_time_or_all_at_once(name: str) -> None:
    """The block that an event is in changes nothing of what is asked for it."""
    rng = np.random.default_rng(3)
    chains = chains_of(
        [rng.choice(40, rng.integers(1, 6), replace=False).tolist() for _ in range(200)], [1] * 40
    )
    estimates = Estimates(rng.uniform(0, 0.6, 40), rng.uniform(0.5, 2, 40))
    truth = rng.uniform(size=(9, 40)) < estimates.true
    one = strategy(name)(chains, estimates)
    together = asked(one, truth, range(9))
    assert together == {p for e in range(9) for p in asked(one, truth, [e])}


def asked(one, truth, events) -> set[tuple[int, int]]:
    events = list(events)
    start = np.arange(len(events) + 1, dtype=np.int64) * 200
    rounds = one.begin(start, np.tile(np.arange(200, dtype=np.int32), len(events)))
    found: set[tuple[int, int]] = set()
    while len((pairs := rounds.ask())[0]):
        found |= {(events[e], i) for e, i in zip(*(p.tolist() for p in pairs), strict=True)}
        rounds.tell(truth[[events[e] for e in pairs[0]], pairs[1]])
    return found


@every
def test_one_answer_decides_several_predicates(name: str) -> None:
    """`crowd > 50` and `crowd > 100` are one invocation: it is asked for once, and both are known."""
    scene = Scene(
        chains=[[0], [1], [0, 2]],
        decides=[2, 1],
        rivals={},
        true=[0.5, 0.1, 0.5],
        cost=[1.0, 1.0],
        needs=[[0, 1, 2]],
        truth=[[True, False, True]],
    )
    played = play(scene, name, strictly=True)
    assert sorted(played.asked) == [(0, 0), (0, 1)]
    assert played.matched == [[0, 2]]


@every
def test_rivals_of_a_true_chain_cost_nothing(name: str) -> None:
    """Once one conjunction of a subscription is true, nobody evaluates the other."""
    truth = [[True, True, True]]
    scene = Scene(
        [[0], [0, 1], [0, 2]], [1, 1, 1], {0: [1]}, [0.1, 0.9, 0.9], [1.0] * 3, [[0, 1, 2]], truth
    )
    played = play(scene, name, strictly=True)
    assert played.matched == [[0, 2]]
    assert played.asked == [(0, 0), (0, 2)]


@every
def test_odds_may_be_wrong(name: str) -> None:
    """Estimates that are no estimates (learned from a damaged file, say) cost evaluations, not matches."""
    chains = chains_of([[0, 1], [1, 2]], [1, 1, 1])
    estimates = Estimates(np.array([np.nan, -3.0, np.inf]), np.array([np.nan, 0.0, -1.0]))
    rounds = strategy(name)(chains, estimates).begin(np.array([0, 2]), np.array([0, 1], np.int32))
    while len(asked := rounds.ask()[0]):
        rounds.tell(np.ones(len(asked), np.bool_))  # an answer for each: a round may ask several
    assert rounds.true_chains()[1].tolist() == [0, 1]


@every
def test_no_events(name: str) -> None:
    """A block may be empty."""
    chains = chains_of([[0]], [1])
    rounds = strategy(name)(chains, Estimates(np.ones(1), np.ones(1))).begin(
        np.zeros(1, np.int64), np.zeros(0, np.int32)
    )
    assert len(rounds.ask()[0]) == 0
    assert rounds.true_chains()[0].tolist() == [0]


def test_sequential_goes_on_in_a_chain_that_is_decided() -> None:
    """Line 9 of Algorithm 1: the rest of a picked chain is evaluated as long as another undecided chain has it."""
    scene = Scene(
        chains=[[0, 1, 2], [1, 3]],
        decides=[1, 1, 1, 1],
        rivals={},
        true=[0.5] * 4,
        cost=[1.0] * 4,
        needs=[[0, 1]],
        truth=[[False, True, True, False]],
    )
    assert play(scene, "sequential", strictly=True).asked == [(0, 0), (0, 1), (0, 3)]


def test_naive_does_not_look_ahead() -> None:
    """A predicate is evaluated although the next one of its chain is known to be false."""
    scene = Scene([[0], [1, 0]], [1, 1], {}, [0.5, 0.5], [1.0, 1.0], [[0, 1]], [[False, True]])
    assert play(scene, "naive", strictly=False).asked == [(0, 0), (0, 1)]
    assert play(scene, "sub-order", strictly=False).asked == [(0, 0)]


def test_adaptive_asks_for_what_is_independent_at_once() -> None:
    """Chains that share nothing are decided in as many rounds as the longest needs, not one after the other."""
    scene = Scene(
        chains=[[0, 1], [2, 3], [4, 5]],
        decides=[1] * 6,
        rivals={},
        true=[0.1, 0.5] * 3,
        cost=[1.0] * 6,
        needs=[[0, 1, 2]],
        truth=[[True] * 6],
    )
    played = play(scene, "adaptive", strictly=True)
    assert (played.rounds, len(played.asked)) == (2, 6)


def test_the_default_is_ours() -> None:
    """And a name that doesn't exist is told what does."""
    assert DEFAULT_STRATEGY == "adaptive"
    with pytest.raises(PenstockError, match="there are adaptive, naive, sequential, sub-order"):
        strategy("best")


@every
def test_bytes_per_event(name: str) -> None:
    """A block takes no more than it says."""
    import tracemalloc

    rng = np.random.default_rng(3)
    chains = chains_of([rng.choice(900, 3, replace=False).tolist() for _ in range(2000)], [1] * 900)
    one = strategy(name)(chains, Estimates(np.full(900, 0.3), np.ones(900)))
    events = 200
    start = np.arange(events + 1, dtype=np.int64) * 2000
    needed = np.tile(np.arange(2000, dtype=np.int32), events)
    one.begin(start[:2], needed[:2000]).ask()  # kernels are compiled
    tracemalloc.start()
    rounds = one.begin(start, needed)
    rounds.ask()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak <= events * bytes_per_event(chains) + 100_000
