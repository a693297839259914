"""The figures to beat, and whether they are beaten.

Peers are other matchers, measured on one core of the same kind of machine with 100,000 subscriptions of the same
kind; they aren't run here. (DuckDB and Spark, which are, are in `contestants` and `on_spark`.) An aim is what Penstock
should reach, given what the best of them does.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from benchmarks.matching.contestants import NAIVE
from benchmarks.matching.growth import growth
from benchmarks.matching.trial import Figures, Trial

SOURCE = "best peers measured"


class Quantity(StrEnum):
    """What is measured, in which unit."""

    BATCH = "batch, µs/event"
    SINGLE = "single, µs/event"
    MEMORY = "bytes/subscription"
    COMPILE = "compile, s"
    GROWTH = "growth, exponent"


@dataclass(frozen=True, slots=True)
class Aim:
    """At most so much of a quantity, on a workload (None: on each) at a size; growth is over all sizes.

    `engine` is whose figure counts. None: that of the best engine; for growth, that of each but the naive one.
    """

    quantity: Quantity
    at_most: float
    workload: str | None = None
    subscriptions: int | None = None
    engine: str | None = None
    peers: Mapping[str, float] = field(default_factory=dict)


_FOUR_OF_1000 = {
    "be-tree (C)": 70.0,
    "Event Ruler": 218.0,
    "Quamina": 367.0,
    "plain C scan": 867.0,
}
_FOUR_OF_10 = {"be-tree (C)": 816.0, "Event Ruler": 3_600.0, "Quamina": 38_000.0}
_RANGES = {
    "HEM": 236.0,
    "TAMA": 446.0,
    "plain C scan": 1_500.0,
    "OpIndex": 3_000.0,
    "REIN": 3_300.0,
    "PS-Tree": 6_200.0,
    "be-tree (C)": 15_500.0,
}
# What Elasticsearch has published of its percolator, with 227,906 queries: 30 documents in 26.7 s.
_PERCOLATOR = {"Elasticsearch's percolator (published)": 26.7 / 30 * 1e6}
_MEMORY = {"be-tree (C)": 1_600.0, "Quamina": 5_000.0, "Event Ruler": 6_000.0}  # the least of each

# A bit-parallel loop of forty lines: to be beaten two-fold at 100,000, five-fold at a million.
_SKETCH_100K = {"sketch": 7.0}
_SKETCH_1M = {"sketch": 115.0, "sorted sketch": 60.0}

AIMS = (
    Aim(Quantity.SINGLE, 10, "equality-1000", 100_000, peers=_FOUR_OF_1000),
    Aim(Quantity.BATCH, 1, "equality-1000", 100_000, peers=_FOUR_OF_1000),
    Aim(Quantity.SINGLE, 80, "equality-10", 100_000, peers=_FOUR_OF_10),
    Aim(Quantity.BATCH, 8, "equality-10", 100_000, peers=_FOUR_OF_10),
    Aim(Quantity.SINGLE, 150, "ranges", 100_000, peers=_RANGES),
    Aim(Quantity.BATCH, 4, "ranges", 100_000, peers=_RANGES),
    Aim(Quantity.BATCH, 7 / 2, "ranges", 100_000, peers=_SKETCH_100K),
    Aim(Quantity.BATCH, 115 / 5, "ranges", 1_000_000, peers=_SKETCH_1M),
    Aim(Quantity.BATCH, 50, "search", 100_000, peers=_PERCOLATOR),
    Aim(Quantity.SINGLE, 50, "search", 100_000, peers=_PERCOLATOR),
    Aim(Quantity.MEMORY, 100, subscriptions=100_000, peers=_MEMORY),
    Aim(Quantity.COMPILE, 15, subscriptions=1_000_000),
    Aim(Quantity.GROWTH, 0.6, "equality", engine="tree"),
    Aim(Quantity.GROWTH, 1),
)

SPARK_AT_LEAST = 1.4  # times the events per second of one process without Spark
BULK_ADDS_AT_LEAST = 100_000  # per second
SINGLE_ADDS_AT_LEAST = 5_000
ADDS_OF_PEERS = {"be-tree (C)": 39_000.0, "Event Ruler": 31_000.0}  # the most of each, per second


@dataclass(frozen=True, slots=True)
class Verdict:
    """An aim, and what was measured of it."""

    aim: Aim
    workload: str
    subscriptions: int
    by: str
    measured: float

    @property
    def is_reached(self) -> bool:
        return self.measured <= self.aim.at_most

    @property
    def factor(self) -> float:
        """How many times better than the aim (reached) or worse (missed)."""
        high, low = max(self.measured, self.aim.at_most), min(self.measured, self.aim.at_most)
        return high / low if low > 0 else float("inf")

    @property
    def best_peer(self) -> tuple[str, float] | None:
        """The best peer, and how many times what we take it takes."""
        if not self.aim.peers:
            return None
        name = min(self.aim.peers, key=lambda peer: self.aim.peers[peer])
        return name, self.aim.peers[name] / self.measured


def verdicts(trials: Iterable[Trial], aims: Sequence[Aim] = AIMS) -> list[Verdict]:
    """What the trials say about the aims; nothing about those that they don't touch."""
    by_workload: dict[str, list[Trial]] = {}
    for trial in trials:
        by_workload.setdefault(trial.workload, []).append(trial)
    found: list[Verdict] = []
    for aim in aims:
        for workload, mine in by_workload.items():
            if aim.workload in (None, workload):
                found += _judged(aim, mine)
    return found


def _judged(aim: Aim, trials: Sequence[Trial]) -> Iterator[Verdict]:
    """Verdicts on one aim by the trials of one workload."""
    if aim.quantity is Quantity.GROWTH:
        for name in dict.fromkeys(f.contestant for t in trials for f in _counting(aim, t)):
            if (slope := growth(trials, name)) is not None:
                largest = max(trial.subscriptions for trial in trials)
                yield Verdict(aim, trials[0].workload, largest, name, slope)
        return
    for trial in trials:
        if aim.subscriptions not in (None, trial.subscriptions):
            continue
        if aim.quantity is Quantity.COMPILE:
            if trial.compiled is not None:
                seconds = trial.compiled.compile_seconds
                yield Verdict(aim, trial.workload, trial.subscriptions, "compiler", seconds)
            continue
        candidates = [
            (value, f.contestant)
            for f in _counting(aim, trial)
            if (value := _value(aim.quantity, f)) is not None
        ]
        if candidates:
            value, name = min(candidates)
            yield Verdict(aim, trial.workload, trial.subscriptions, name, value)


def _counting(aim: Aim, trial: Trial) -> list[Figures]:
    """Whose figures count. For memory that is the engine with the lowest batch cost: the two must be had together."""
    engines = [f for f in trial.engines if aim.engine in (None, f.engine)]
    if aim.quantity is Quantity.GROWTH:
        return [f for f in engines if f.engine != NAIVE]
    if aim.quantity is Quantity.MEMORY and engines:
        return [min(engines, key=lambda f: f.batch.us_per_event)]
    return engines


def _value(quantity: Quantity, figures: Figures) -> float | None:
    match quantity:
        case Quantity.BATCH:
            return figures.batch.us_per_event
        case Quantity.SINGLE:
            return figures.single_us
        case Quantity.MEMORY:
            return figures.bytes_per_subscription
    return None
