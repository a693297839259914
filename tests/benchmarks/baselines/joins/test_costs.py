"""What semijoins cost, and plans that follow it."""

import itertools
import random

import numpy as np
import pytest
from tests.joins.small_world import WORLDS, Client, Database, random_change, random_subscription
from tests.joins.tuple_changes import TupleChange, batches, sent

from benchmarks.baselines.joins.costs import parametric_cost
from benchmarks.baselines.joins.planning import PlanningProcessor
from penstock.joins.decompose import Decomposition


@pytest.mark.parametrize("j_s", [1, 3, 8])
def test_the_parametric_model_is_what_uniform_ranges_cost(j_s):
    """Uniform values and ranges, drawn at random, are affected as often as the model says."""
    rng = np.random.default_rng(j_s)
    trials, j_r = 40_000, 5
    ends = np.sort(rng.random((trials, 2)), axis=1)
    a = rng.random(trials)
    selected = (ends[:, 0] <= a) & (a <= ends[:, 1])
    c = np.sort(rng.random((trials, 2)), axis=1)
    joining, new = rng.random((trials, j_s)), rng.random(trials)
    inside = ((c[:, :1] <= joining) & (joining <= c[:, 1:])).any(axis=1)
    exposed = (c[:, 0] <= new) & (new <= c[:, 1]) & ~inside
    p_r, p_s = 0.3, 0.7
    measured = p_r * (selected & inside).mean() + p_s * j_r * selected.mean() * exposed.mean()
    assert parametric_cost(p_r, p_s, j_r, j_s) == pytest.approx(measured, rel=0.05)


def test_the_greedy_choice_is_the_best_of_all():
    """No other choice of filtering tables has a lower sum of costs (appendix E)."""
    catalog, rng = WORLDS["cycle"], random.Random(3)
    joins = [random_subscription(catalog, rng).join for _ in range(6)]
    costs = {(t, e): rng.random() for e in catalog.edges for t in (e.left, e.right)}
    greedy = sum(costs[b, e] for j in joins for b, e in Decomposition(costs).of(j) if e)
    best = 0.0
    for join in joins:
        near = [[costs[t, e] for e in join.edges if t in (e.left, e.right)] for t in join.tables]
        best += min(sum(choice) for choice in itertools.product(*(n or [0.0] for n in near)))
    assert greedy == pytest.approx(best)


@pytest.mark.parametrize("world", ["star", "cycle", "several"])
@pytest.mark.parametrize("simulate", [False, True])
def test_subscribers_stay_up_to_date_when_plans_are_made_anew(world, simulate):
    """Re-planning in the midst of changes tells subscribers what to hold instead, and the result stays DuckDB's."""
    catalog, rng = WORLDS[world], random.Random(f"{world} 0")
    asked = {n: random_subscription(catalog, rng) for n in range(8)}
    processor = PlanningProcessor(catalog, {n: s.join for n, s in asked.items()})
    clients = {n: Client(catalog, s.join) for n, s in asked.items()}
    database, moved = Database(catalog), 0
    for step in range(27):
        change = random_change(catalog, rng)
        database.apply(change)
        received = sent(processor, change)
        if step in (12, 18, 24):
            more = processor.replan(simulate)
            moved += len(more)
            assert processor.drift(simulate) == pytest.approx(1.0)
            for n, messages in more.items():
                received.setdefault(n, []).extend(messages)
        holdings = processor.holdings()
        for n, s in asked.items():
            clients[n].apply(received.get(n, []))
            assert clients[n].rows(by_result=False) == database.result(s.sql)
            held = {(t, k) for t, rows in clients[n].held.items() for k in rows}
            assert held == set(holdings[n])
    assert moved or world == "several"


def test_plans_follow_when_statistics_drift():
    """Planned anew when it costs more than it has to, S isn't filtered by the neighbour that changes all the time."""
    catalog, rng = WORLDS["chain"], random.Random(1)
    joins = {n: random_subscription(catalog, rng).join for n in range(40)}
    processor = PlanningProcessor(catalog, joins)
    chain = next(j for j in joins.values() if {"R", "S", "T"} <= set(j.tables))

    def rows(table: str, ids: range) -> list[TupleChange]:
        wanted = catalog.tables[table].columns
        values = ({"id": n, "x": n % 20, "y": n % 20, "z": 0, "a": n % 8} for n in ids)
        return [TupleChange(table, {k: v for k, v in row.items() if k in wanted}) for row in values]

    def filters_s() -> str:
        return str(dict(processor.decomposition.of(chain))["S"])

    start = rows("S", range(400)) + rows("R", range(20)) + rows("T", range(20))
    processor.process(batches(catalog, start))
    moved = {"T": [], "R": []}
    for busy, quiet in (("T", "R.x = S.x"), ("R", "S.y = T.y")):
        for _ in range(60):
            turn = [TupleChange(busy, key=(k,)) for k in range(20)] + rows(busy, range(20))
            processor.process(batches(catalog, turn * 10))
            moved[busy].append(processor.drift() > 1.15 and bool(processor.replan()))
        assert filters_s() == quiet
    assert sum(moved["R"]) == 1


def test_simulation_sees_what_the_model_cannot():
    """A neighbour whose values nobody asks for filters best; only the simulation knows."""
    catalog = WORLDS["chain"]
    processor = PlanningProcessor(catalog)
    rng = random.Random(2)
    joins = []
    while len(joins) < 30:
        found = random_subscription(catalog, rng).join
        if set(found.tables) >= {"R", "S", "T"} and all(s.ranges for s in found.sides):
            joins.append(found)
    processor.subscribe_all(enumerate(joins))
    for n in range(120):
        for table, a in (("R", n % 8), ("S", n % 8), ("T", 50)):
            row = {"id": n, "x": n % 10, "y": n % 10, "z": n % 10, "a": a}
            columns = catalog.tables[table].columns
            sent(processor, TupleChange(table, {k: v for k, v in row.items() if k in columns}))
    rs, st = catalog.edges[0], catalog.edges[1]
    model, real = processor.costs(), processor.costs(simulate=True)
    assert model["S", rs] == pytest.approx(model["S", st], rel=0.01)
    assert real["S", st] < real["S", rs] / 2
