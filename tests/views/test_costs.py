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


@st.composite
def models(draw, sites: int) -> CostModel:
    def per_site() -> list[float]:
        return draw(st.lists(figures, min_size=sites, max_size=sites))

    resources = Resources(per_site(), draw(figures), per_site(), per_site())
    weights = Weights(*(draw(figures) for _ in range(4)), per_site(), draw(figures))
    return CostModel(resources, Resources(*(draw(figures) for _ in range(4))), weights)


def plans(
    model: CostModel, views: ViewStatistics, view: int, inputs: list[int]
) -> list[tuple[float, float]]:
    """Utilisation and latency of every plan: each site that has an input or the view, as the place of the join."""
    site = views.site.tolist()
    res, weigh = model.sites, model.weights

    def at(figure: object, where: int) -> float:
        return float(np.broadcast_to(np.asarray(figure), max(site) + 1)[where])

    def moved(size: float, here: int, there: int) -> tuple[float, float]:
        if here == there:
            return 0.0, 0.0
        used = size * (weigh.sent * at(weigh.site, here) + weigh.received * at(weigh.site, there))
        slow = min(at(res.bandwidth, here), at(res.bandwidth, there))
        return used, at(res.delay, here) + at(res.delay, there) + size / slow

    found = []
    for join in {site[view], *(site[n] for n in inputs)}:
        ways = [moved(views.size[n], site[n], join) for n in inputs]
        seconds = at(res.cpu_per_tuple, join) * (
            views.tuples[view] + sum(views.tuples[n] for n in inputs)
        )
        seconds += at(res.cpu_per_byte, join) * sum(views.size[n] for n in inputs)
        home, back = moved(views.size[view], join, site[view])
        used = sum(u for u, _ in ways) + weigh.cpu * at(weigh.site, join) * seconds + home
        used += weigh.storage * at(weigh.site, site[view]) * views.size[view]
        found.append((used, max(s for _, s in ways) + seconds + back))
    return found


@settings(deadline=None, max_examples=60)
@given(problems(), st.data())
def test_a_rewriting_costs_what_its_cheapest_plan_does(problem: Problem, data):
    """Utilisation is the least over all plans, and the latency is that plan's."""
    graph = problem.graph
    count = len(graph.rank)
    numbers = st.lists(figures, min_size=count, max_size=count)
    site = data.draw(st.lists(st.integers(0, 3), min_size=count, max_size=count))
    views = statistics(data.draw(numbers), data.draw(numbers), site)
    model = data.draw(models(max(site) + 1))
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
    ("tuples", "size", "site", "message"),
    [
        ([1.0, -1.0], [1.0, 1.0], None, "tuples of view 1 is -1.0"),
        ([1.0], [float("inf")], None, "bytes of view 0"),
        ([1.0, 2.0], [1.0], None, "one number for each view"),
        ([1.0], [1.0], [-1], "site of view 0"),
    ],
)
def test_statistics_that_cannot_be_meant_are_refused(tuples, size, site, message):
    """The message says which view has which bad figure."""
    with pytest.raises(CostError, match=message):
        statistics(tuples, size, site)


def test_figures_that_cannot_be_meant_are_refused():
    """A bandwidth of nothing, a weight that isn't finite, figures for other sites."""
    graph, views = made_of_one(), statistics([1.0], [1.0])
    for model, message in (
        (CostModel(Resources(bandwidth=0.0)), "bandwidth must be above 0"),
        (CostModel(Resources(delay=[1.0, 2.0])), "each of 1 sites"),
        (CostModel(weights=Weights(cpu=float("nan"))), "finite"),
    ):
        with pytest.raises(CostError, match=message):
            costs(graph, views, model)
    with pytest.raises(CostError, match="1 views, but statistics of 2"):
        costs(graph, statistics([1.0, 1.0], [1.0, 1.0]))


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
