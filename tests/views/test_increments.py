"""Views that come and go: the configuration stays valid, or nothing changes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.views.small_graphs import Problem, configurations, problems

from penstock.views.choosing.capacities import UNLIMITED, Capacities
from penstock.views.choosing.configuration import InvalidConfiguration, check, latencies, loads
from penstock.views.choosing.feeding import UNFED
from penstock.views.choosing.increments import (
    Arrival,
    IncrementError,
    LiveConfiguration,
    Offer,
    Policy,
    SourceFull,
)
from penstock.views.choosing.infeasible import Infeasible
from penstock.views.rewriting_graph import SOURCE, Configuration, Costs, RewritingGraph

EMPTY = RewritingGraph(
    np.zeros(1, np.int64), np.zeros(1, np.int64), np.empty(0, np.int32), np.empty(0, np.int32)
)
NO_COSTS = Costs(*(np.empty(0) for _ in range(4)))
costs = st.integers(0, 9).map(float)


def nobody(source: int, **policy: object) -> LiveConfiguration:
    """No views yet."""
    return LiveConfiguration(
        EMPTY,
        Configuration(np.empty(0, np.int64)),
        NO_COSTS,
        Capacities(np.empty(0, np.int64), source),
        policy=Policy(**policy),  # type: ignore[arg-type]
    )


def plain(*offers: tuple[int, ...], capacity: int = UNLIMITED, site: int | None = None) -> Arrival:
    return Arrival([Offer(inputs, 1.0, 1.0) for inputs in offers], 9.0, 1.0, capacity, site)


def looked_at_anew(live: LiveConfiguration) -> None:
    """Everything that a live configuration says is true of the views that are there."""
    now = live.standing()
    wide = now.capacities.widen_views(live.policy.wider)
    check(now.graph, now.configuration, wide)
    assert live.latency[now.views] == pytest.approx(
        latencies(now.graph, now.configuration, now.costs)
    )
    load = loads(now.graph, now.configuration)
    assert np.array_equal(live.load[now.views], load.views)
    assert live.from_source == load.source
    assert np.all(live.load[~live.there] == 0)
    assert np.all(live.chosen[~live.there] == UNFED)


@st.composite
def arrivals(draw, there: list[int]) -> Arrival:
    sets = st.sets(st.sampled_from(there), min_size=1, max_size=3) if there else st.nothing()
    inputs = draw(st.lists(sets, max_size=3)) if there else []
    return Arrival(
        [Offer(tuple(some), draw(costs), draw(costs)) for some in inputs],
        draw(costs),
        draw(costs),
        draw(st.sampled_from([0, 1, 2, UNLIMITED])),
        draw(st.sampled_from([None, 0, 1, 2])),
    )


@settings(deadline=None, max_examples=40)
@given(st.data())
def test_whatever_comes_and_goes(data):
    """After every addition, withdrawal and failure the configuration is valid; a refusal changes nothing."""
    live = nobody(
        data.draw(st.integers(1, 4)),
        additions=data.draw(st.sampled_from([None, 3])),
        when_full=data.draw(st.booleans()),
        wider=data.draw(st.sampled_from([1.0, 1.5])),
        beta=data.draw(st.sampled_from([0.0, 2.0])),
        seconds=5.0,
    )
    for _ in range(data.draw(st.integers(1, 12))):
        there = np.flatnonzero(live.there).tolist()
        before = live.chosen.copy()
        what = data.draw(st.sampled_from(["add", "add", "add", "withdraw", "fail", "anew"]))
        try:
            if what == "add":
                some = data.draw(st.lists(arrivals(there), min_size=1, max_size=3))
                change = live.add(some)
                assert change.added.tolist() == list(range(len(before), len(before) + len(some)))
            elif what == "withdraw" and there:
                gone = data.draw(st.lists(st.sampled_from(there), min_size=1, max_size=3))
                change = live.withdraw(gone)
                assert not live.there[gone].any()
            elif what == "fail":
                site = data.draw(st.integers(0, 2))
                change = live.fail(site)
            else:
                change = live.choose_anew()
            changed = [
                v for v in range(len(before)) if live.there[v] and live.chosen[v] != before[v]
            ]
            assert change.fed.tolist() == changed + change.added.tolist()
        except (Infeasible, SourceFull):
            assert np.array_equal(live.chosen, before)
            assert np.flatnonzero(live.there).tolist() == there
        looked_at_anew(live)


@settings(deadline=None, max_examples=40)
@given(problems(tight=False), st.data())
def test_views_of_a_given_configuration_can_go(problem: Problem, data):
    """Any one view of any configuration goes; those that it fed are fed otherwise, the others as before."""
    _, chosen = data.draw(st.sampled_from(list(configurations(problem))[:200]))
    start = Configuration(np.array(chosen, np.int64))
    live = LiveConfiguration(*_ordered(problem, start))
    view = data.draw(st.integers(0, len(chosen) - 1))
    users = {v for v in range(len(chosen)) if v != view and view in live.inputs(v)}
    change = live.withdraw([view])
    assert set(change.fed.tolist()) == users
    looked_at_anew(live)


def _ordered(
    problem: Problem, start: Configuration
) -> tuple[RewritingGraph, Configuration, Costs, Capacities]:
    return problem.graph, start, problem.costs, problem.capacities


def test_the_cheapest_rewriting_with_room_is_taken():
    """A new view takes the cheapest; the next one like it, if that is full, the second; then the source."""
    live = nobody(4, wider=1.0)
    live.add([plain(capacity=1), plain(capacity=1)])
    like = Arrival([Offer((0,), 2.0, 1.0), Offer((1,), 1.0, 1.0)], 9.0, 1.0)
    live.add([like, like, like])
    assert [live.inputs(v) for v in (2, 3, 4)] == [(1,), (0,), ()]


def test_latency_counts_as_much_as_beta_says():
    """With β a rewriting that is dearer but faster is taken."""
    for beta, inputs in ((0.0, (1,)), (1.0, (0,))):
        live = nobody(9, beta=beta)
        live.add([plain(), plain((0,))])
        live.add([Arrival([Offer((0,), 1.5, 1.0), Offer((1,), 1.0, 1.0)], 9.0, 1.0)])
        assert live.inputs(2) == inputs


def test_a_site_takes_all_its_views_with_it():
    """Two views of one site go; what they fed together falls back to the source; numbers stay."""
    live = nobody(9)
    live.add([plain(site=7), plain(site=7), plain(site=1)])
    live.add([plain((0, 1), (0, 2), site=2)])
    change = live.fail(7)
    assert change.fed.tolist() == [3]
    assert live.there.tolist() == [False, False, True, True]
    assert live.inputs(3) == ()
    with pytest.raises(IncrementError, match="no view 0"):
        live.withdraw([0])


def test_a_full_source_makes_everything_be_chosen_anew():
    """A view that needs the full source gets its place, because another one moves to a rewriting."""
    live = nobody(2, wider=1.0)
    live.add([plain(capacity=1)])
    dear = Arrival([Offer((0,), 1.0, 1.0)], 0.5, 1.0, capacity=0)
    live.add([dear])
    assert live.inputs(1) == (0,)
    live.add([Arrival([Offer((0,), 0.1, 1.0)], 9.0, 1.0)])
    assert live.from_source == 2
    with pytest.raises(Infeasible, match="must feed at least 3"):
        live.add([plain()])
    assert len(live.chosen) == 3
    live.widen_source(3)
    assert live.add([plain()]).added.tolist() == [3]
    looked_at_anew(live)


def test_a_policy_can_refuse_instead():
    """Without choosing anew a full source refuses the view, and nothing has changed."""
    live = nobody(1, when_full=False)
    live.add([plain()])
    with pytest.raises(SourceFull, match="view 1"):
        live.add([plain()])
    assert live.chosen.tolist() == [SOURCE]
    looked_at_anew(live)


def test_everything_is_chosen_anew_after_so_many_additions():
    """The third addition is one too many for the policy, and the greedy choice is mended."""
    live = nobody(9, additions=3, wider=1.0)
    assert not live.add([plain(capacity=1)]).chosen_anew
    first = Arrival([Offer((0,), 1.0, 1.0)], 2.0, 1.0)
    assert not live.add([first]).chosen_anew
    change = live.add([Arrival([Offer((0,), 1.0, 1.0)], 50.0, 1.0)])
    assert change.chosen_anew
    assert (live.inputs(1), live.inputs(2)) == ((), (0,))
    looked_at_anew(live)


@pytest.mark.parametrize(
    ("arrival", "message"),
    [
        (plain((5,)), "needs view 5, which isn't there"),
        (plain((0, 0)), "different views"),
        (plain(()), "one or more"),
        (Arrival([Offer((0,), float("nan"), 1.0)], 1.0, 1.0), "finite"),
        (plain((0,), capacity=-1), "from 0 on"),
    ],
)
def test_what_cannot_be_meant_is_refused(arrival, message):
    """A rewriting on views that aren't there, figures that are none: refused, and nothing has changed."""
    live = nobody(9)
    live.add([plain()])
    with pytest.raises(IncrementError, match=message):
        live.add([plain((0,)), arrival])
    assert len(live.chosen) == 1
    assert live.load.tolist() == [0]
    looked_at_anew(live)


def test_only_a_valid_configuration_can_live():
    """One that exceeds the capacities is refused at the beginning."""
    live = nobody(9)
    live.add([plain(capacity=1), plain((0,))])
    now = live.standing()
    with pytest.raises(InvalidConfiguration):
        LiveConfiguration(
            now.graph, now.configuration, now.costs, Capacities(np.zeros(2, np.int64), 9)
        )
