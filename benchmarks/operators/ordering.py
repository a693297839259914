"""What ordering chains beforehand takes, what its bound on pairs costs, and how far changes lead it astray."""

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.baselines.operators.linked_chains import LinkedChains
from benchmarks.benchmark import Step, unseen
from benchmarks.operators.chain_lists import chains_of
from benchmarks.operators.instances import UNIFORM, Instance, Recipe, draw
from benchmarks.operators.rounds import play
from penstock.base.arrays import Bools
from penstock.operators.chains import Chains
from penstock.operators.strategies import STRATEGIES, Strategy, bytes_per_event
from penstock.operators.strategies.block import index
from penstock.operators.strategies.chain_order import NEIGHBOURS, nodes, order_chains
from penstock.operators.strategies.sub_order import SubOrder

NAME = "order"
LARGE = {
    "uniform": Recipe(80_000, 40_000, UNIFORM),
    "Zipf": Recipe(80_000, 40_000),
}
SMALL = {"uniform": Recipe(2_000, 1_000, UNIFORM), "Zipf": Recipe(2_000, 1_000)}
CHANGED = 0.2  # of the chains are inserted one by one, and as many deleted

_BOUNDS = (1, NEIGHBOURS, 4, 16)


@dataclass(frozen=True, slots=True)
class SetUp:
    """From chains to a strategy: seconds, and bytes of what it keeps."""

    popularity: str
    strategy: str
    subscriptions: int
    predicates: int
    seconds: float
    index_bytes: int
    event_bytes: int


@dataclass(frozen=True, slots=True)
class Variant:
    """Evaluations per event of sub-order, in an order found in some other way."""

    popularity: str
    variant: str
    evaluations: float
    ratio: float  # to the order found with all pairs, or for all chains at once
    seconds: float


def set_ups(step: Step = unseen) -> list[SetUp]:
    """The largest instances of the paper."""
    found: list[SetUp] = []
    for popularity, recipe in LARGE.items():
        instance = draw(recipe)
        at = index(instance.chains, instance.estimates)
        arrays = [getattr(at, name) for name in at._fields]
        for name, strategy in STRATEGIES.items():
            step(f"{NAME}: {name}, {popularity}")
            strategy(*_small(instance))  # compiles kernels
            began = time.perf_counter()
            strategy(instance.chains, instance.estimates)
            seconds = time.perf_counter() - began
            found.append(
                SetUp(
                    popularity,
                    name,
                    recipe.subscriptions,
                    recipe.predicates,
                    seconds,
                    sum(array.nbytes for array in arrays),
                    bytes_per_event(instance.chains),
                )
            )
    return found


def bounds(events: int, step: Step = unseen) -> list[Variant]:
    """How many neighbours at a predicate are enough: small instances, against all pairs that share a predicate."""
    found: list[Variant] = []
    for popularity, recipe in SMALL.items():
        instance = draw(recipe)
        truth = instance.events(events)
        at = index(instance.chains, instance.estimates)
        base = 0.0
        for neighbours in (len(instance.chains), *_BOUNDS):
            is_all = neighbours == len(instance.chains)
            name = "all pairs" if is_all else f"the next {neighbours}"
            step(f"{NAME}: {name}, {popularity}")
            began = time.perf_counter()
            order = order_chains(at, nodes(at), neighbours)
            seconds = time.perf_counter() - began
            mean = _mean(
                SubOrder(instance.chains, instance.estimates, order), instance.chains, truth
            )
            base = mean if is_all else base
            found.append(Variant(popularity, name, mean, mean / base, seconds))
    return found


def drifts(events: int, step: Step = unseen) -> list[Variant]:
    """An order after many changes one by one, against one that is made for the same chains at once."""
    found: list[Variant] = []
    for popularity, recipe in SMALL.items():
        step(f"{NAME}: changes, {popularity}")
        instance = draw(recipe)
        many = len(instance.chains)
        kept = int(many * (1 - CHANGED))
        lists = [
            instance.chains.predicate[instance.chains.start[c] : instance.chains.start[c + 1]]
            for c in range(many)
        ]
        ones = [1] * recipe.predicates
        linked = LinkedChains(
            chains_of([c.tolist() for c in lists[:kept]], ones), instance.estimates
        )
        began = time.perf_counter()
        for chain in lists[kept:]:
            linked.insert(chain.tolist())
        inserted = time.perf_counter() - began
        for number in range(0, kept, round(1 / CHANGED)):
            linked.delete(number)
        chains = linked.chains()
        truth = instance.events(events)
        fresh = _mean(SubOrder(chains, instance.estimates), chains, truth)
        mean = _mean(linked.strategy(), chains, truth)
        found += [
            Variant(popularity, "ordered at once", fresh, 1.0, 0.0),
            Variant(
                popularity,
                f"{CHANGED:.0%} inserted, {CHANGED:.0%} deleted",
                mean,
                mean / fresh,
                inserted / (many - kept),
            ),
        ]
    return found


def _mean(strategy: Strategy, chains: Chains, truth: Bools) -> float:
    return float(play(strategy, chains, truth, np.ones(chains.predicates)).evaluations.mean())


def _small(instance: Instance) -> Any:
    few = draw(Recipe(10, 20))
    return few.chains, few.estimates
