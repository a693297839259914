"""Letting a strategy decide events whose truth is known beforehand, and counting what it asks for."""

import time
from dataclasses import dataclass

import numpy as np

from penstock.base.arrays import Bools, Float64s, Int32s, Int64s
from penstock.operators.chains import Chains
from penstock.operators.strategies.interface import Strategy


@dataclass(frozen=True, slots=True)
class Played:
    """What a strategy asked for, by event, and what came of it."""

    evaluations: Int64s
    cost: Float64s
    matches: Int64s
    rounds: int
    seconds: float  # of a core, for deciding what comes next; answers cost nothing here


def play(strategy: Strategy, chains: Chains, truth: Bools, cost: Float64s) -> Played:
    """Every event needs every chain; `truth` has a row per event and a column per predicate.

    >>> from penstock.operators.chains import Estimates
    >>> from penstock.operators.strategies import STRATEGIES
    >>> from benchmarks.operators.chain_lists import chains_of
    >>> chains = chains_of([[0, 1], [1, 2]], decides=[1, 1, 1])
    >>> estimates = Estimates(np.array([0.5, 0.1, 0.5]), np.ones(3))
    >>> truth = np.array([[True, False, True], [True, True, True]])
    >>> play(STRATEGIES["sub-order"](chains, estimates), chains, truth, estimates.cost).evaluations.tolist()
    [1, 3]
    """
    events, many = len(truth), len(chains)
    start: Int64s = np.arange(events + 1, dtype=np.int64) * many
    needed: Int32s = np.tile(np.arange(many, dtype=np.int32), events)
    evaluations = np.zeros(events, np.int64)
    spent = np.zeros(events)
    rounds = 0
    is_plain = chains.predicates == chains.invocations  # one predicate each
    began = time.process_time()
    away = 0.0
    playing = strategy.begin(start, needed)
    while True:
        asked, invocations = playing.ask()
        if not len(asked):
            break
        left = time.process_time()
        rounds += 1
        evaluations += np.bincount(asked, minlength=events)
        spent += np.bincount(asked, cost[invocations], minlength=events)
        if is_plain:
            answers = truth[asked, invocations]
        else:
            low, high = (
                chains.invocation_start[invocations],
                chains.invocation_start[invocations + 1],
            )
            pairs = zip(asked.tolist(), low.tolist(), high.tolist(), strict=True)
            answers = np.concatenate([truth[e, a:b] for e, a, b in pairs])
        away += time.process_time() - left
        playing.tell(answers)
    found, _ = playing.true_chains()
    seconds = time.process_time() - began - away
    return Played(evaluations, spent, np.diff(found), rounds, seconds)
