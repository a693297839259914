"""Configurations of an instance for several capacities: the program's (Table 3), then LOGA's (figures 5 to 7)."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.benchmark import Step
from benchmarks.views.checks import check, loads
from benchmarks.views.instances import Instance
from benchmarks.views.published import WIDER
from penstock.views.choosing.capacities import Capacities, capacities
from penstock.views.choosing.choosing import ConfigurationChoice, choose
from penstock.views.choosing.configuration import inputs_of, latencies, levels_of
from penstock.views.choosing.infeasible import Infeasible
from penstock.views.choosing.loga import Shortened, shorten
from penstock.views.rewriting_graph import SOURCE, Configuration

_ROOM = 1.05  # times the fewest views that the source must feed


@dataclass(frozen=True, slots=True)
class State:
    """What a configuration is like."""

    off_loaded: float
    """The share of views that other views feed."""
    utilisation: float
    latency: float
    """The sum of all views' latencies."""
    used: float
    """Views in a chosen rewriting, on average."""
    most_fed: int
    levels: tuple[int, ...]
    """How many views there are in level 1, 2, …"""

    def within(self, level: int) -> float:
        """The share of views in the first so many levels."""
        return sum(self.levels[:level]) / sum(self.levels)


@dataclass(frozen=True, slots=True)
class Configured:
    """One capacity: before LOGA and after it."""

    set_name: str
    capacity: str
    source: int
    chosen: State
    gap: float
    exact: bool
    program_seconds: float
    shortened: State
    loga_seconds: float
    course: tuple[tuple[float, float], ...]

    @property
    def latency_saved(self) -> float:
        return 1 - self.shortened.latency / self.chosen.latency

    @property
    def more_utilisation(self) -> float:
        return self.shortened.utilisation / self.chosen.utilisation - 1

    def to_dict(self) -> dict[str, Any]:
        own = {name: getattr(self, name) for name in self.__slots__}
        for name in ("chosen", "shortened"):
            state = own[name]
            own[name] = {part: getattr(state, part) for part in state.__slots__}
        return own | {
            "latency_saved": self.latency_saved,
            "more_utilisation": self.more_utilisation,
        }


def configured(
    set_name: str, given: Instance, each: Sequence[str], source: int, step: Step
) -> Iterator[Configured]:
    """One configuration after the other, each checked for what makes it one. The source feeds more if it has to."""
    for capacity in each:
        step(f"{set_name}, capacity {capacity}: the program")
        began = time.perf_counter()
        limits, choice = _chosen(given, capacity, source)
        seconds = (
            time.perf_counter() - began
        )  # with what it took to find out that the source must feed more
        check(given.graph, choice.configuration, limits)
        step(f"{set_name}, capacity {capacity}: LOGA")
        wide = limits.widen_views(WIDER)
        found = shorten(given.graph, choice.configuration, given.costs, wide)
        check(given.graph, found.configuration, wide)
        yield _told(set_name, given, capacity, limits, choice, seconds, found)


def _chosen(given: Instance, capacity: str, source: int) -> tuple[Capacities, ConfigurationChoice]:
    """A choice, if need be with a source that may feed a little more than the fewest views that it must."""
    limits = capacities(given.grown.views, capacity, source)
    try:
        return limits, choose(given.graph, given.costs, limits)
    except Infeasible as infeasible:
        if infeasible.enough is None:
            raise
        limits = limits._replace(source=round(_ROOM * infeasible.enough))
    return limits, choose(given.graph, given.costs, limits)


def _told(
    set_name: str,
    given: Instance,
    capacity: str,
    limits: Capacities,
    choice: ConfigurationChoice,
    seconds: float,
    found: Shortened,
) -> Configured:
    return Configured(
        set_name=set_name,
        capacity=capacity,
        source=limits.source,
        chosen=_state(given, choice.configuration, choice.utilisation),
        gap=choice.gap,
        exact=choice.exact,
        program_seconds=seconds,
        shortened=_state(given, found.configuration, found.utilisation),
        loga_seconds=found.seconds,
        course=found.course,
    )


def _state(given: Instance, configuration: Configuration, utilisation: float) -> State:
    fed = inputs_of(given.graph, configuration)
    sizes = np.diff(fed.start)
    others = configuration.chosen != SOURCE
    return State(
        off_loaded=float(np.mean(others)),
        utilisation=utilisation,
        latency=float(latencies(given.graph, configuration, given.costs).sum()),
        used=float(sizes[others].mean()) if others.any() else 0.0,
        most_fed=int(loads(given.graph, configuration).views.max(initial=0)),
        levels=tuple(np.bincount(levels_of(fed))[1:].tolist()),
    )
