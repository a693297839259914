"""What rewritings cost: against every plan, written out."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.views.small_graphs import Problem, problems

from penstock.views.choosing.capacities import (
    UNLIMITED,
    Capacities,
    CapacityError,
    capacities,
    capacity,
)
from penstock.views.choosing.cost_model import (
    CostError,
    CostModel,
    Resources,
    ViewStatistics,
    Weights,
    costs,
    statistics,
    utilisation_of,
)
from penstock.views.rewriting_graph import SOURCE, Configuration, RewritingGraph

figures = st.floats(0.1, 10)


resources = st.builds(Resources, figures, figures, figures, figures)
models = st.builds(
    CostModel, resources, resources, st.builds(Weights, figures, figures, figures, figures, figures)
)


def plans(
    model: CostModel, views: ViewStatistics, view: int, inputs: list[int]
) -> list[tuple[float, float]]:
    """Utilisation and latency of every plan: the site of each input or of the view, as the place of the join."""
    res, weigh = model.sites, model.weights

    def moved(who: int, join: int) -> tuple[float, float]:
        if who == join:
            return 0.0, 0.0
        size = views.size[who]
        return size * (weigh.sent + weigh.received), 2 * res.delay + size / res.bandwidth

    found = []
    for join in (view, *inputs):
        ways = [moved(n, join) for n in inputs]
        seconds = res.cpu_per_tuple * sum(views.tuples[n] for n in (view, *inputs))
        seconds += res.cpu_per_byte * sum(views.size[n] for n in inputs)
        home, back = moved(view, join)
        used = sum(u for u, _ in ways) + weigh.cpu * seconds + home
        used += weigh.storage * views.size[view]
        found.append((used, max(s for _, s in ways) + seconds + back))
    return found


@settings(deadline=None, max_examples=60)
@given(problems(), st.data())
def test_a_rewriting_costs_what_its_cheapest_plan_does(problem: Problem, data):
    """Utilisation is the least over all plans, and the latency is that plan's."""
    graph = problem.graph
    count = len(graph.rank)
    numbers = st.lists(figures, min_size=count, max_size=count)
    views = statistics(data.draw(numbers), data.draw(numbers))
    model = data.draw(models)
    found = costs(graph, views, model)
    for view in range(count):
        for r in range(graph.first[view], graph.first[view + 1]):
            inputs = graph.inputs[graph.start[r] : graph.start[r + 1]].tolist()
            every = plans(model, views, view, inputs)
            least = min(used for used, _ in every)
            assert found.utilisation[r] == pytest.approx(least)
            close = [took for used, took in every if used == pytest.approx(least)]
            assert any(found.latency[r] == pytest.approx(took) for took in close)


def test_feeding_from_the_source_is_written_out():
    """Ten times the work at the source, by its own figures, and what the view's site takes in and stores."""
    graph = made_of_one()
    model = CostModel(
        Resources(bandwidth=4.0, delay=0.25),
        Resources(cpu_per_tuple=2.0, cpu_per_byte=0.5, bandwidth=8.0, delay=0.75),
        Weights(cpu=3.0, storage=0.25, sent=2.0, received=5.0, source=10.0),
    )
    found = costs(graph, statistics([7.0], [100.0]), model)
    work = 3.0 * 2.0 * 7 + 3.0 * 0.5 * 100 + 2.0 * 100
    assert found.source_utilisation.tolist() == [10 * work + (5.0 + 0.25) * 100]
    assert found.source_latency.tolist() == [0.75 + 0.25 + 100 / 4.0]


def made_of_one() -> RewritingGraph:
    return RewritingGraph(
        np.zeros(2, np.int64), np.zeros(1, np.int64), np.empty(0, np.int32), np.zeros(1, np.int32)
    )


@settings(deadline=None, max_examples=40)
@given(problems(), st.data())
def test_the_utilisation_of_a_configuration_adds_up(problem: Problem, data):
    """It is that of every view's rewriting, or of the way from the source."""
    graph, found, _ = problem
    ways = [
        st.sampled_from([SOURCE, *range(graph.first[v], graph.first[v + 1])])
        for v in range(len(graph.rank))
    ]
    chosen = data.draw(st.tuples(*ways))
    configuration = Configuration(np.array(chosen, np.int64))
    used = sum(
        found.source_utilisation[v] if r == SOURCE else found.utilisation[r]
        for v, r in enumerate(chosen)
    )
    assert utilisation_of(configuration, found) == pytest.approx(used)


@pytest.mark.parametrize(
    ("tuples", "size", "message"),
    [
        ([1.0, -1.0], [1.0, 1.0], "tuples of view 1 is -1.0"),
        ([1.0], [float("inf")], "bytes of view 0"),
        ([1.0, 2.0], [1.0], "tuples of 2 views, but bytes of 1"),
    ],
)
def test_statistics_that_cannot_be_meant_are_refused(tuples, size, message):
    """The message says which view has which bad figure."""
    with pytest.raises(CostError, match=message):
        statistics(tuples, size)


def test_figures_that_cannot_be_meant_are_refused():
    """A bandwidth of nothing, a weight that isn't finite, a negative delay, statistics of other views."""
    with pytest.raises(CostError, match="bandwidth must be above 0"):
        Resources(bandwidth=0.0)
    with pytest.raises(CostError, match="cpu must be 0 or more, and finite, not nan"):
        Weights(cpu=float("nan"))
    with pytest.raises(CostError, match="delay"):
        Resources(delay=-1.0)
    with pytest.raises(CostError, match="1 views, but statistics of 2"):
        costs(made_of_one(), statistics([1.0, 1.0], [1.0, 1.0]))


@given(
    st.lists(st.one_of(st.integers(0, 1 << 40), st.just(UNLIMITED)), min_size=1), st.floats(1, 4)
)
def test_widened_capacities_are_wider_and_stay_unlimited(values, factor):
    """Each grows by the factor, rounded down; ∞ stays ∞; the source isn't touched."""
    wide = Capacities(np.array(values), 3).widen_views(factor)
    assert wide.source == 3
    for before, after in zip(values, wide.views.tolist(), strict=True):
        if before == UNLIMITED:
            assert after == UNLIMITED
        else:
            assert before <= after <= before * factor < after + 1


@pytest.mark.parametrize("value", ["-1", -1, 1.5, "nan", "many", float("nan"), ""])
def test_a_capacity_is_a_whole_number_or_unlimited(value):
    """Anything else is refused and repeated."""
    with pytest.raises(CapacityError, match="a whole number from 0 on"):
        capacity(value)


def test_capacities_of_all_views():
    """One for all; infinity in any spelling."""
    assert capacities(2, 3, 4).views.tolist() == [3, 3]
    for spelling in (float("inf"), "inf", "∞", "unlimited"):
        assert capacities(1, spelling, spelling) == (UNLIMITED, UNLIMITED)
