"""LOGA: less latency, within capacities, and latencies that are those of the definition."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.views.instances import made_up
from tests.views.small_graphs import Problem, configurations, problems, slow_latency

from benchmarks.views.checks import check, loads
from penstock.views.choosing.capacities import capacities
from penstock.views.choosing.choosing import choose
from penstock.views.choosing.configuration import (
    InvalidConfiguration,
    inputs_of,
    latencies,
    levels_of,
)
from penstock.views.choosing.cost_model import costs, statistics, utilisation_of
from penstock.views.choosing.feeding import feeding, spread_latency
from penstock.views.choosing.loga import count_paths, shorten
from penstock.views.choosing.user_lists import use
from penstock.views.rewriting_graph import SOURCE, Configuration

few = settings(deadline=None, max_examples=60)


def of_large(views: int, **shape: float) -> tuple[Problem, Configuration]:
    made = made_up(views, **shape)
    found = costs(made.graph, statistics(made.tuples, made.size))
    problem = Problem(made.graph, found, capacities(views, 5, views))
    tight = capacities(views, 5, 2 * int(np.count_nonzero(np.diff(made.graph.first) == 0)))
    return problem, choose(made.graph, found, tight, seconds=1).configuration


@few
@given(problems(tight=False), st.data())
def test_loga_never_makes_it_worse(problem, data):
    """Latency doesn't grow, capacities are kept, nobody goes back to the source, and all figures are right."""
    _, chosen = data.draw(st.sampled_from(list(configurations(problem))[:200]))
    before = Configuration(np.array(chosen, np.int64))
    found = shorten(
        problem.graph, before, problem.costs, problem.capacities,
        thrift=data.draw(st.sampled_from([0.0, 0.3, 5.0])),
    )  # fmt: skip
    check(problem.graph, found.configuration, problem.capacities)
    assert found.latency <= found.latency_before + 1e-9
    assert found.latency == pytest.approx(
        sum(slow_latency(problem, found.configuration, v) for v in range(len(chosen)))
    )
    assert found.latency_before == pytest.approx(
        sum(slow_latency(problem, before, v) for v in range(len(chosen)))
    )
    assert found.utilisation == pytest.approx(utilisation_of(found.configuration, problem.costs))
    assert set(np.flatnonzero(found.configuration.chosen == SOURCE)) == set(
        np.flatnonzero(before.chosen == SOURCE)
    )


@few
@given(problems(tight=False), st.data())
def test_no_single_replacement_is_left_that_helps(problem, data):
    """The paper's algorithm ends where no view has a rewriting with room by which the sum of latencies is less."""
    _, chosen = data.draw(st.sampled_from(list(configurations(problem))[:200]))
    before = Configuration(np.array(chosen, np.int64))
    found = shorten(problem.graph, before, problem.costs, problem.capacities, thrift=0.0)
    for view in range(len(chosen)):
        if found.configuration.chosen[view] == SOURCE:
            continue
        for r in range(problem.graph.first[view], problem.graph.first[view + 1]):
            other = Configuration(found.configuration.chosen.copy())
            other.chosen[view] = r
            try:
                check(problem.graph, other, problem.capacities)
            except InvalidConfiguration:
                continue
            total = float(latencies(problem.graph, other, problem.costs).sum())
            assert total >= found.latency - 1e-9


@few
@given(problems(), st.data())
def test_latencies_follow_every_replacement(problem, data):
    """After each of many replacements, latencies and loads are those of a configuration looked at anew."""
    graph = problem.graph
    views = len(graph.rank)
    none = Configuration(np.full(views, SOURCE, np.int64))
    feed = feeding(graph, none, problem.costs, problem.capacities)
    for _ in range(data.draw(st.integers(1, 12))):
        view = data.draw(st.integers(0, views - 1))
        ways = [SOURCE, *range(graph.first[view], graph.first[view + 1])]
        use(feed, view, data.draw(st.sampled_from(ways)))
        spread_latency(feed, view)
        now = Configuration(feed.chosen)
        slow = [slow_latency(problem, now, v) for v in range(views)]
        assert feed.latency == pytest.approx(slow)
        assert np.array_equal(feed.load, loads(graph, now).views)
        assert not feed.queued.any()


@few
@given(problems(most=8))
def test_paths_are_those_that_can_be_walked(problem):
    """Each view counts the ways to all views that it feeds, directly or not, and to itself."""
    graph = problem.graph
    last = np.where(np.diff(graph.first) > 0, graph.first[1:] - 1, SOURCE)
    feed = feeding(graph, Configuration(last), problem.costs, problem.capacities)

    def walked(view: int) -> int:
        users = [v for v, r in enumerate(last) if r != SOURCE and view in inputs(r)]
        return 1 + sum(map(walked, users))

    def inputs(r: int) -> list[int]:
        return graph.inputs[graph.start[r] : graph.start[r + 1]].tolist()

    found = count_paths(feed, np.argsort(graph.rank))
    assert found.tolist() == [walked(view) for view in range(len(graph.rank))]


def test_a_large_configuration_gets_faster_and_thrift_keeps_it_cheap():
    """A third of the latency goes at least, levels become fewer, and thrift costs less utilisation."""
    problem, chosen = of_large(3000, general=0.0)
    graph, found, wide = problem.graph, problem.costs, problem.capacities.widen_views(1.5)
    paper, thrifty = (shorten(graph, chosen, found, wide, thrift=t) for t in (0.0, 0.3))
    for shortened in (paper, thrifty):
        check(graph, shortened.configuration, wide)
        assert shortened.reduction > 1 / 3
        before, after = (inputs_of(graph, c) for c in (chosen, shortened.configuration))
        assert levels_of(after).max() < levels_of(before).max()
        assert shortened.latency == pytest.approx(
            latencies(graph, shortened.configuration, found).sum()
        )
        slower = np.diff([latency for _, latency in shortened.course])
        assert slower.max() <= 1e-9 * shortened.latency_before
    assert thrifty.utilisation < paper.utilisation


def test_time_that_is_over_ends_it_with_what_there_is():
    """Without any time nothing changes, and what comes back is whole."""
    problem, chosen = of_large(500)
    found = shorten(problem.graph, chosen, problem.costs, problem.capacities, seconds=0.0)
    assert np.array_equal(found.configuration.chosen, chosen.chosen)
    assert found.reduction == 0


@few
@given(problems(), st.data())
def test_check_accepts_exactly_the_configurations(problem, data):
    """A choice is valid if and only if brute force has it among the configurations within the capacities."""
    graph = problem.graph
    ways = [
        st.sampled_from([SOURCE, *range(graph.first[v], graph.first[v + 1])])
        for v in range(len(graph.rank))
    ]
    chosen = list(data.draw(st.tuples(*ways)))
    valid = any(chosen == other for _, other in configurations(problem))
    try:
        check(graph, Configuration(np.array(chosen)), problem.capacities)
        assert valid
    except InvalidConfiguration:
        assert not valid


@few
@given(problems(most=6, tight=False), st.data())
def test_a_circle_is_no_configuration(problem, data):
    """A view that is fed from what it feeds, directly or not, is named; so is a rewriting of another view."""
    graph = problem.graph
    assume(len(graph.inputs))
    r = data.draw(st.integers(0, len(graph.start) - 2))
    view = int(np.searchsorted(graph.first, r, side="right")) - 1
    chosen = np.full(len(graph.rank), SOURCE, np.int64)
    chosen[view] = r
    circle = graph._replace(inputs=graph.inputs.copy())
    circle.inputs[graph.start[r]] = view
    with pytest.raises(InvalidConfiguration, match=f"view {view}.*circle"):
        check(circle, Configuration(chosen), problem.capacities.widen_views(10))
    chosen[view], chosen[view - 1] = SOURCE, r
    if len(chosen) > 1:
        with pytest.raises(InvalidConfiguration, match="isn't its own"):
            check(graph, Configuration(chosen), problem.capacities)
