"""How far from the optimum each strategy is, on random instances small enough to know it."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from benchmarks.benchmark import Step, unseen
from benchmarks.operators.chain_lists import chains_of
from benchmarks.operators.exact import expected_cost, optimal_cost
from benchmarks.workloads.draws import Draws, Floats, zipf
from penstock.operators.chains import Chains, Estimates
from penstock.operators.strategies import STRATEGIES

NAME = "optimum"
PREDICATES = 9
CHAINS = 14
INSTANCES = 60

_LENGTHS = (2, 5)


@dataclass(frozen=True, slots=True)
class Gap:
    """Expected cost by that of the optimum, over the instances of one kind: the mean, and the worst."""

    kind: str
    strategy: str
    mean: float
    worst: float


def _flat(draws: Draws) -> tuple[Chains, Estimates]:
    return _drawn(draws, np.ones(PREDICATES), 0.6 * draws.uniform(PREDICATES), _ones())


def _zipf(draws: Draws) -> tuple[Chains, Estimates]:
    return _drawn(draws, zipf(PREDICATES), 0.6 * draws.uniform(PREDICATES), _ones())


def _skewed(draws: Draws) -> tuple[Chains, Estimates]:
    true = np.where(draws.uniform(PREDICATES) < 0.5, 0.1, 0.9)
    return _drawn(draws, zipf(PREDICATES), true, _ones())


def _dear(draws: Draws) -> tuple[Chains, Estimates]:
    cost = 10.0 ** (2 * draws.uniform(PREDICATES))
    return _drawn(draws, zipf(PREDICATES), 0.6 * draws.uniform(PREDICATES), cost)


KINDS: dict[str, Callable[[Draws], tuple[Chains, Estimates]]] = {
    "uniform popularity": _flat,
    "Zipf": _zipf,
    "Zipf, skewed selectivities": _skewed,
    "Zipf, skewed costs": _dear,
}


def gaps(instances: int, step: Step = unseen) -> list[Gap]:
    """All kinds of instances, all strategies."""
    found: list[Gap] = []
    for number, (kind, draw) in enumerate(KINDS.items()):
        step(f"{NAME}: {kind}")
        ratios: dict[str, list[float]] = {name: [] for name in STRATEGIES}
        for n in range(instances):
            chains, estimates = draw(Draws(7, number, n))
            best = optimal_cost(chains, estimates)
            for name, strategy in STRATEGIES.items():
                ratios[name].append(expected_cost(strategy, chains, estimates)[1] / best)
        found += [Gap(kind, name, float(np.mean(mine)), max(mine)) for name, mine in ratios.items()]
    return found


def _ones() -> Floats:
    return np.ones(PREDICATES)


def _drawn(
    draws: Draws,
    weights: Floats,
    true: Floats,
    cost: Floats,
) -> tuple[Chains, Estimates]:
    lengths = draws.integers(_LENGTHS[0], _LENGTHS[1], CHAINS).tolist()
    chains = [draws.distinct(weights, 1, length)[0].tolist() for length in lengths]
    return chains_of(chains, [1] * PREDICATES), Estimates(true, cost)
