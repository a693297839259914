"""One instance, decided by every strategy: how much each evaluates, and how long it thinks about it."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from benchmarks.benchmark import Step, unseen
from benchmarks.operators.clairvoyant import shown
from benchmarks.operators.experiments import Experiment, published
from benchmarks.operators.instances import Instance, Recipe, draw
from benchmarks.operators.rounds import play
from penstock.base.arrays import Int64s
from penstock.operators.strategies import STRATEGIES, bytes_per_event

_ROOM = 400_000_000  # bytes for a block of events


@dataclass(frozen=True, slots=True)
class Figures:
    """One strategy on one instance, per event, averaged over events and runs."""

    strategy: str
    evaluations: float
    error: float  # of the mean, from the spread over events
    cost: float  # seconds
    rounds: float
    order_seconds: float  # for setting the strategy up
    overhead_us: float  # of scheduling, per evaluation


@dataclass(frozen=True, slots=True)
class Trial:
    """All strategies on one instance."""

    experiment: str
    at: str  # the value of what is varied
    recipe: Recipe
    events: int
    runs: int
    matches: float  # per event
    bytes_per_event: int
    clairvoyant: float  # evaluations per event of somebody who knows all answers
    figures: tuple[Figures, ...]
    disagreements: tuple[str, ...] = ()

    def of(self, strategy: str) -> Figures | None:
        return next((f for f in self.figures if f.strategy == strategy), None)

    def to_dict(self) -> dict[str, Any]:
        paper = {f.strategy: published(self.experiment, self.at, f.strategy) for f in self.figures}
        return {**asdict(self), "published": {s: n for s, n in paper.items() if n is not None}}


def trials(
    experiment: Experiment,
    events: int,
    runs: int,
    step: Step = unseen,
    strategies: Sequence[str] = tuple(STRATEGIES),
) -> Iterator[Trial]:
    """The instances of an experiment, one after the other."""
    for at, recipe in experiment.recipes.items():
        yield trial(experiment.name, at, recipe, events, runs, step, strategies)


def trial(
    experiment: str,
    at: str,
    recipe: Recipe,
    events: int,
    runs: int,
    step: Step = unseen,
    strategies: Sequence[str] = tuple(STRATEGIES),
) -> Trial:
    """Each run draws the instance anew."""
    measured: dict[str, list[_Run]] = {name: [] for name in strategies}
    disagreements: list[str] = []
    known: list[float] = []
    room = 0
    for run in range(runs):
        step(f"{experiment} {at}: drawing, run {run + 1} of {runs}")
        instance = draw(recipe.again(run))
        room = bytes_per_event(instance.chains)
        known.append(float(shown(instance.chains, instance.events(events)).mean()))
        for name in strategies:
            step(f"{experiment} {at}: {name}, run {run + 1} of {runs}")
            measured[name].append(_decide(name, instance, events))
        first, *others = strategies
        disagreements += [
            f"{experiment} {at}, run {run + 1}: {other} finds other matches than {first}"
            for other in others
            if not np.array_equal(measured[other][-1].matches, measured[first][-1].matches)
        ]
    matches = float(np.mean([m.matches for m in measured[strategies[0]]]))
    figures = tuple(_figures(name, found) for name, found in measured.items())
    return Trial(
        experiment,
        at,
        recipe,
        events,
        runs,
        matches,
        room,
        float(np.mean(known)),
        figures,
        tuple(disagreements),
    )


@dataclass(frozen=True, slots=True)
class _Run:
    evaluations: Int64s
    matches: Int64s
    cost: float
    rounds: int
    order_seconds: float
    seconds: float


def _decide(name: str, instance: Instance, events: int) -> _Run:
    chains, estimates = instance.chains, instance.estimates
    began = time.perf_counter()
    strategy = STRATEGIES[name](chains, estimates)
    ordered = time.perf_counter() - began
    block = max(1, min(events, _ROOM // bytes_per_event(chains)))
    played = [
        play(strategy, chains, instance.events(min(block, events - first), first), estimates.cost)
        for first in range(0, events, block)
    ]
    return _Run(
        np.concatenate([p.evaluations for p in played]),
        np.concatenate([p.matches for p in played]),
        sum(float(p.cost.sum()) for p in played) / events,
        max(p.rounds for p in played),
        ordered,
        sum(p.seconds for p in played),
    )


def _figures(name: str, runs: list[_Run]) -> Figures:
    evaluations = np.concatenate([run.evaluations for run in runs])
    return Figures(
        name,
        float(evaluations.mean()),
        float(evaluations.std() / np.sqrt(len(evaluations))),
        float(np.mean([run.cost for run in runs])),
        float(np.mean([run.rounds for run in runs])),
        min(run.order_seconds for run in runs),  # the first compiles kernels
        sum(run.seconds for run in runs) / max(1, int(evaluations.sum())) * 1e6,
    )
