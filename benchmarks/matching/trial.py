"""One workload at one size: compile, let every contestant match the same events, compare their answers.

The plan is compiled once and shared by all engines; what an engine adds to it is its index, timed apart. Compiling is
timed in two parts: reading the filters' texts, and making a plan of what was read, the normalised subscriptions.

What would take too long isn't begun. An engine that takes ten seconds to set up for 10,000 subscriptions is left out
for a million, with the reason; so are all engines if the filters take too long to read.
"""

import gc
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from benchmarks.benchmark import Step, unseen
from benchmarks.matching.contestants import (
    AUTO,
    DuckContestant,
    EngineContestant,
    duckdb_missing,
)
from benchmarks.matching.measure import BatchCost, Contestant, measure_batches, measure_singles
from benchmarks.settings import BATCH, BUDGET, PATIENCE
from benchmarks.workloads import WORKLOADS, Workload
from penstock.base.errors import PenstockError, SubscriptionErrors
from penstock.language import Shapes
from penstock.matching import ENGINES, Plan
from penstock.matching.compile import compile_groups

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EVENTS = 262_144
_EVENT_VALUES = 1 << 23  # of all attributes together: wide events are fewer
_SINGLES = 2_000
_WARM_UP = 1_000  # subscriptions that kernels are compiled with, outside the clock
_COMPILING = "penstock"

SetUp = Callable[[], Contestant]


@dataclass(frozen=True, slots=True)
class Options:
    """What to measure, and for how long."""

    engines: tuple[str, ...] = (AUTO, *ENGINES)
    duckdb: bool = True
    spark: "SparkSession | None" = None
    budget: float = BUDGET
    patience: float = PATIENCE
    batch: int = BATCH


@dataclass(frozen=True, slots=True)
class Figures:
    """What was measured of one contestant. The last ones are of engines only."""

    contestant: str
    batch: BatchCost
    setup_seconds: float  # of an engine: of its index
    engine: str | None = None
    is_auto: bool = False
    single_us: float | None = None
    bytes_per_subscription: float | None = None


@dataclass(frozen=True, slots=True)
class Trial:
    """What came of one workload at one size."""

    workload: str
    subscriptions: int
    generate_seconds: float
    compiled: "Compiled | None"
    figures: tuple[Figures, ...]
    left_out: Mapping[str, str] = field(default_factory=dict)

    def of(self, contestant: str) -> Figures | None:
        """The figures of one contestant."""
        return next((f for f in self.figures if f.contestant == contestant), None)

    @property
    def engines(self) -> list[Figures]:
        return [f for f in self.figures if f.engine is not None]

    @property
    def matches_per_event(self) -> float | None:
        """By the contestant that matched the most events."""
        if not self.figures:
            return None
        most = max(self.figures, key=lambda f: f.batch.events).batch
        return most.matches[most.events] / most.events

    @property
    def disagreements(self) -> list[str]:
        """Where contestants found different numbers of matches in the same events."""
        found: dict[int, dict[int, list[str]]] = defaultdict(lambda: defaultdict(list))
        for figures in self.figures:
            for events, matches in figures.batch.matches.items():
                found[events][matches].append(figures.contestant)
        return [
            f"{self.workload}, {self.subscriptions:,} subscriptions, {events:,} events: "
            + "; ".join(f"{n:,} matches by {', '.join(who)}" for n, who in answers.items())
            for events, answers in found.items()
            if len(answers) > 1
        ]

    def to_dict(self) -> dict[str, Any]:
        derived = {
            "matches_per_event": self.matches_per_event,
            "disagreements": self.disagreements,
        }
        return {**asdict(self), **derived}


@dataclass(frozen=True, slots=True)
class Compiled:
    """What compiling took: reading the texts, and making a plan of what was read."""

    parse_seconds: float
    compile_seconds: float


def trials(
    name: str, sizes: Sequence[int], options: Options, step: Step = unseen
) -> Iterator[Trial]:
    """The trials of one workload, from the smallest size on, each as soon as it is done."""
    step(f"{name}: warming up")
    _warm_up(name, options)
    seen: dict[str, tuple[int, float]] = {}
    for size in sorted(sizes):
        yield _trial(name, size, options, _Patience(options.patience, size, seen), step)
        gc.collect()


# --- one trial ----------------------------------------------------------------------------------


@dataclass(slots=True)
class _Patience:
    """Foresees how long a set-up takes from how long it took at the size before: at least in proportion."""

    seconds: float
    size: int
    seen: dict[
        str, tuple[int, float]
    ]  # by what was set up: for how many subscriptions, in how many seconds

    def objection(self, what: str) -> str | None:
        size, seconds = self.seen.get(what, (self.size, 0.0))
        expected = seconds * self.size / size
        if expected <= self.seconds:
            return None
        return f"would take about {expected:,.0f} s to set up: it took {seconds:,.0f} s for {size:,} subscriptions"

    def note(self, what: str, seconds: float) -> None:
        self.seen[what] = (self.size, seconds)


def _trial(name: str, size: int, options: Options, patience: _Patience, step: Step) -> Trial:
    where = f"{name}, {size:,} subscriptions"
    step(f"{where}: drawing them")
    began = time.perf_counter()
    workload = WORKLOADS[name](size, _event_count(name))
    generated = time.perf_counter() - began
    left_out: dict[str, str] = {}
    set_ups: dict[str, SetUp] = {}
    compiled: Compiled | None = None
    if reason := patience.objection(_COMPILING):
        left_out["penstock's engines"] = reason.replace("set up", "compile")
    else:
        step(f"{where}: compiling")
        plan, compiled = compile_timed(workload)
        patience.note(_COMPILING, compiled.parse_seconds + compiled.compile_seconds)
        set_ups |= _engines(plan, options)
    set_ups |= _peers(workload, options, left_out)
    figures: list[Figures] = []
    for what, set_up in set_ups.items():
        if any(f.is_auto and f.engine == what for f in figures):
            continue
        if reason := patience.objection(what):
            left_out[what] = reason
            continue
        step(f"{where}: {what}, setting up")
        began = time.perf_counter()
        try:
            contestant = set_up()
        except PenstockError as error:
            left_out[what] = str(error)
            continue
        seconds = time.perf_counter() - began
        patience.note(what, seconds)
        step(f"{where}: {what}")
        with closing(contestant):
            figures.append(_figures(contestant, workload, seconds, options))
        del contestant
        gc.collect()
    return Trial(name, size, generated, compiled, tuple(figures), left_out)


def compile_timed(workload: Workload) -> tuple[Plan, Compiled]:
    """The plan of a workload, and what it took. Shapes are read anew: what an earlier size has left doesn't count."""
    began = time.perf_counter()
    grouped = Shapes(workload.schema).read(workload.rows.filters)
    parsed = time.perf_counter()
    if grouped.errors:
        raise SubscriptionErrors(grouped.errors)
    plan = compile_groups(grouped, workload.schema, workload.rows.ids)
    done = time.perf_counter()
    return plan, Compiled(parsed - began, done - parsed)


def _engines(plan: Plan, options: Options) -> dict[str, SetUp]:
    """By engine. What `auto` picks comes first, and isn't measured twice."""

    def set_up(engine: str) -> SetUp:
        return lambda: EngineContestant(plan, engine, options.batch)

    return {e: set_up(e) for e in sorted(options.engines, key=lambda engine: engine != AUTO)}


def _peers(workload: Workload, options: Options, left_out: dict[str, str]) -> dict[str, SetUp]:
    found: dict[str, SetUp] = {}
    if options.duckdb and (missing := duckdb_missing()):
        left_out[DuckContestant.name] = missing
    elif options.duckdb:
        found[DuckContestant.name] = lambda: DuckContestant(workload)
    if (spark := options.spark) is not None:
        from benchmarks.matching.on_spark import SparkJoinContestant, SparkMatchContestant

        found[SparkMatchContestant.name] = lambda: SparkMatchContestant(workload, spark)
        found[SparkJoinContestant.name] = lambda: SparkJoinContestant(workload, spark)
    return found


def _figures(
    contestant: Contestant, workload: Workload, setup_seconds: float, options: Options
) -> Figures:
    cost = measure_batches(contestant, workload.events, options.budget)
    if not isinstance(contestant, EngineContestant):
        return Figures(contestant.name, cost, setup_seconds)
    singles = [
        {name: value for name, value in event.items() if value is not None}
        for event in workload.events.slice(0, _SINGLES).to_pylist()
    ]
    return Figures(
        contestant.name,
        cost,
        contestant.index_seconds,
        engine=contestant.engine,
        is_auto=contestant.is_auto,
        single_us=measure_singles(contestant.match, singles, options.budget / 2),
        bytes_per_subscription=contestant.bytes_per_subscription,
    )


def _event_count(name: str) -> int:
    attributes: int = WORKLOADS[name](1, 1).events.num_columns
    return min(EVENTS, _EVENT_VALUES // attributes)


def _warm_up(name: str, options: Options) -> None:
    """Have every kernel compiled, or read from Numba's cache, before the clock runs."""
    workload = WORKLOADS[name](_WARM_UP, 64)
    plan, _ = compile_timed(workload)
    for set_up in _engines(plan, options).values():
        try:
            contestant = set_up()
        except PenstockError:
            continue  # the trial will say why
        contestant.load(workload.events)
        contestant.matches()
