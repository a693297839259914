"""Configurations of least utilisation, against all of them."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.views.instances import made_up
from tests.views.small_graphs import Problem, configurations, problems

from benchmarks.views.checks import check
from penstock.views.choosing.augment import augment_choice
from penstock.views.choosing.capacities import UNLIMITED, Capacities, capacities
from penstock.views.choosing.choosing import choose
from penstock.views.choosing.cost_model import costs, statistics, utilisation_of
from penstock.views.choosing.infeasible import Infeasible, fewest_from_source, source_program
from penstock.views.choosing.lagrangian import priced, reduced_costs, relax
from penstock.views.choosing.program import configuration_of, loads, simplify, total
from penstock.views.choosing.repair import OPEN, greedy, improve_choice, users_of_rows
from penstock.views.choosing.solver import solve
from penstock.views.rewriting_graph import SOURCE, Configuration

few = settings(deadline=None, max_examples=60)


def optimum(problem: Problem) -> float | None:
    return min((value for value, _ in configurations(problem)), default=None)


def large(views: int, capacity: int, margin: float, **shape: float) -> Problem:
    made = made_up(views, **shape)
    alone = int(np.count_nonzero(np.diff(made.graph.first) == 0))
    return Problem(
        made.graph,
        costs(made.graph, statistics(made.tuples, made.size)),
        capacities(views, capacity, int(alone * margin)),
    )


@few
@given(problems())
def test_the_choice_is_the_cheapest_of_all_configurations(problem):
    """What is chosen costs as much as the cheapest by brute force; if there is none, that is said."""
    best = optimum(problem)
    if best is None:
        with pytest.raises(Infeasible):
            choose(*problem)
        return
    found = choose(*problem)
    check(problem.graph, found.configuration, problem.capacities)
    assert found.utilisation == pytest.approx(best)
    assert found.utilisation == pytest.approx(utilisation_of(found.configuration, problem.costs))
    assert found.bound <= best + 1e-9
    assert found.exact


@few
@given(problems())
def test_simplifying_loses_no_optimum(problem):
    """HiGHS finds the brute-force optimum among the columns that are left, for the program as it is."""
    program = simplify(*problem)
    best = optimum(problem)
    if np.any(program.limit < 0):
        assert best is None
        return
    if not len(program.views):
        assert best == pytest.approx(program.fixed)
        return
    found = solve(program, np.ones(len(program.cost), np.bool_), None, seconds=20)
    if best is None:
        assert found.picked is None
        assert found.bound == np.inf
    else:
        assert found.picked is not None
        assert total(program, found.picked) == pytest.approx(best)
        check(problem.graph, configuration_of(program, found.picked), problem.capacities)


@few
@given(problems(), st.data())
def test_any_prices_give_a_bound(problem, data):
    """For any prices the bound is below the optimum, and so is it for one column forced in, by its reduced cost."""
    program = simplify(*problem)
    best = optimum(problem)
    if best is None or not len(program.views):
        return
    some = st.lists(st.floats(0, 10), min_size=len(program.limit), max_size=len(program.limit))
    prices = np.array(data.draw(some), np.float64)
    bound, _ = priced(program, prices)
    assert bound <= best + 1e-9
    reduced = reduced_costs(program, prices)
    owner = np.repeat(program.views, np.diff(program.first))
    for c, rewriting in enumerate(program.column.tolist()):
        with_it = [v for v, chosen in configurations(problem) if chosen[owner[c]] == rewriting]
        if with_it:
            assert bound + reduced[c] <= min(with_it) + 1e-9


@few
@given(problems())
def test_bound_below_optimum_below_found(problem):
    """The relaxation is below the optimum, and what repairs come to is above it and within all limits."""
    program = simplify(*problem)
    best = optimum(problem)
    if np.any(program.limit < 0) or not len(program.views):
        return
    relaxed = relax(program)
    choice = improve_choice(program, augment_choice(program, greedy(program, relaxed.prices)))
    load = loads(program, choice[choice != OPEN])
    assert np.all(load <= program.limit)
    assert np.array_equal(users_of_rows(program, choice).load, load)
    if best is None:
        assert np.any(choice == OPEN)
        return
    assert relaxed.bound <= best + 1e-9
    if not np.any(choice == OPEN):
        assert total(program, choice) >= best - 1e-9


@few
@given(problems())
def test_what_the_source_needs(problem):
    """The source must feed as many views as in the configuration in which it feeds fewest."""
    free = problem._replace(capacities=Capacities(problem.capacities.views, UNLIMITED))
    fewest = min(chosen.count(SOURCE) for _, chosen in configurations(free))
    found = fewest_from_source(source_program(problem.graph, problem.capacities))
    assert found.needed <= fewest
    assert found.enough == fewest
    assert found.chosen is not None
    check(problem.graph, Configuration(found.chosen), Capacities(problem.capacities.views, fewest))


@few
@given(problems())
def test_infeasibility_is_explained_by_what_can_be_counted(problem):
    """Views said to have no rewriting have none; a crowd needs the saturated views; the numbers add up."""
    graph, _, limits = problem
    if optimum(problem) is not None:
        return
    with pytest.raises(Infeasible) as caught:
        choose(*problem)
    error = caught.value
    assert error.needed > limits.source
    assert error.enough == error.needed
    assert all(graph.first[v] == graph.first[v + 1] for v in error.alone.tolist())
    full = set(error.saturated.tolist())
    for view in error.crowded.tolist():
        for r in range(graph.first[view], graph.first[view + 1]):
            assert full & set(graph.inputs[graph.start[r] : graph.start[r + 1]].tolist())
    assert error.together == limits.views[error.saturated].sum()
    lack = max(0, len(error.crowded) - error.together)
    assert len(error.alone) + lack <= error.needed
    wide = Capacities(limits.views, error.needed)
    assert optimum(problem._replace(capacities=wide)) is not None


def test_views_without_rewriting_are_what_an_error_names():
    """Three views that only the source can feed, which may feed two."""
    problem = large(1000, 30, 0.9)
    with pytest.raises(
        Infeasible, match=r"may feed 45 views, but must feed at least 50\n.*50 have no rewriting"
    ) as caught:
        choose(*problem)
    assert "capacity of 50 would do" in str(caught.value)
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value)
    assert again.needed == 50


def test_a_crowd_before_one_view_is_explained():
    """Views that can only be fed from one view of capacity 1 are a crowd, and the message says which view it is."""
    problem = Problem(
        *large(40, 1, 1.0, rewritings=1, rewritten=1.0, nearby=1, skew=60.0),
    )
    with pytest.raises(Infeasible) as caught:
        choose(*problem)
    assert len(caught.value.crowded) > caught.value.together
    assert "each needs one of" in str(caught.value)


@pytest.mark.parametrize(
    "shape", [{}, {"general": 0.0, "skew": 4.0}, {"general": 0.0, "least": 0.7}]
)
def test_large_ones_come_close_to_their_bound(shape):
    """Tight capacities: valid, within 1 % of the bound, and no choice is known that is below the bound."""
    problem = large(1500, 5, 1.2, **shape)
    found = choose(*problem, seconds=3)
    check(problem.graph, found.configuration, problem.capacities)
    assert found.gap < 0.01
    assert found.bound <= found.utilisation
    assert found.utilisation == pytest.approx(utilisation_of(found.configuration, problem.costs))
    program = simplify(*problem)
    relaxed = solve(program, np.ones(len(program.cost), np.bool_), None, seconds=2)
    if relaxed.picked is not None:
        assert found.bound <= total(program, relaxed.picked) * (1 + 1e-9)


def test_time_that_is_over_still_gives_a_valid_choice():
    """With no time at all there's a choice within all capacities, and an honest bound."""
    problem = large(1500, 5, 1.2, general=0.0, least=0.7)
    hasty, patient = choose(*problem, seconds=0.0), choose(*problem, seconds=3)
    check(problem.graph, hasty.configuration, problem.capacities)
    assert hasty.bound <= patient.utilisation
    assert patient.utilisation <= hasty.utilisation * (1 + 1e-9)


def test_unlimited_capacities_take_the_cheapest_of_each_view():
    """Without limits nothing is shared: every view has its cheapest way, exactly."""
    problem = large(2000, 1, 1.0)
    found = choose(problem.graph, problem.costs, capacities(2000, "∞", "∞"))
    starts = problem.graph.first[:-1][np.diff(problem.graph.first) > 0]
    least = problem.costs.source_utilisation.copy()
    able = np.diff(problem.graph.first) > 0
    least[able] = np.minimum(least[able], np.minimum.reduceat(problem.costs.utilisation, starts))
    assert found.exact
    assert found.utilisation == pytest.approx(least.sum())
