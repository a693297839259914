"""How long a contestant takes: for a batch of events, and for one event.

A contestant may need a microsecond for an event or a second, so nobody can say beforehand how many events it should be
given. It gets 16, then 64, 256 … as long as the next step fits into its budget of seconds; the last step is repeated
and the best run counts. The steps are the same for all, so that any two contestants have done some of them both, and
must have found the same number of matches there.

A query has a price that doesn't depend on the number of events (planning, hashing a million rules, starting a job),
and a contestant that is slow gets few events to spread it over. For contestants that run queries it is therefore told
apart: the cost of an event is what the last step took longer than the first, by the events that it had more.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Protocol

import pyarrow as pa

FIRST = 16
STEP = 4
_LEAST_RUNS = 3
# The last step tells the cost of an event if it took so many times as long as the first.
_CLEARLY = 1.5
_NOISE = 0.5  # of the first step: less than that may be an accident
_DEAR = 5  # a query that takes so many budgets for the first step isn't given a second
_WARM_UP = 5  # single events before the clock runs


class Contestant(Protocol):
    """What can match events with the subscriptions of a workload, once it is set up."""

    name: str
    step: int  # how many times as many events to try next: a power of STEP
    has_queries: bool  # whether it has a price per call that is to be told apart
    warm_ups: int  # calls before the clock runs, for kernels, connections, a JVM

    def load(self, events: pa.RecordBatch) -> None:
        """Take these events to where they will be matched: this isn't timed."""
        ...

    def matches(self) -> int:
        """Match the loaded events, all of them, and say how many matches there were."""
        ...

    def close(self) -> None:
        """Give back what it holds."""
        ...


@dataclass(frozen=True, slots=True)
class BatchCost:
    """What a contestant takes for many events."""

    us_per_event: float
    is_bound: bool  # the price of the call couldn't be told apart: it costs at most this
    seconds_per_call: float  # of the smallest call: what it costs however few the events
    events: int
    cores: float  # processor time by time; only of this process, so without Spark's
    matches: Mapping[int, int]  # by number of events


def measure_batches(contestant: Contestant, events: pa.RecordBatch, budget: float) -> BatchCost:
    """Time a contestant on as many events as its budget of seconds allows."""
    matches: dict[int, int] = {}
    runs: list[_Run] = []
    for count in _steps(events.num_rows, contestant.step):
        contestant.load(events.slice(0, count))
        if not runs:
            _warm_up(contestant, budget)
        runs.append(_timed(contestant))
        if runs[-1].seconds <= _DEAR * budget and not _next_fits(contestant, runs, budget):
            runs[-1] = min(runs[-1], _timed(contestant))  # a hiccup must not end it
        matches[count] = runs[-1].matches
        if not _next_fits(contestant, runs, budget):
            break
    first = runs[0]
    run = _best(contestant, runs[-1], budget)
    if contestant.has_queries:  # once more, now that everything is warm: it is taken off the other
        contestant.load(events.slice(0, min(matches)))
        first = _best(contestant, first, budget)
    return _cost(contestant, first, run, count, matches)


def measure_singles(
    match: Callable[[Mapping[str, Any]], object],
    events: Sequence[Mapping[str, Any]],
    budget: float,
) -> float:
    """The median of the microseconds that one event takes, over as many as the budget allows."""
    for event in events[:_WARM_UP]:
        match(event)
    taken: list[int] = []
    end = time.perf_counter() + budget
    for event in events:
        began = time.perf_counter_ns()
        match(event)
        taken.append(time.perf_counter_ns() - began)
        if time.perf_counter() > end:
            break
    return median(taken) / 1_000


@dataclass(frozen=True, slots=True, order=True)
class _Run:
    seconds: float
    processor: float
    matches: int


def _timed(contestant: Contestant) -> _Run:
    began, used = time.perf_counter(), time.process_time()
    matches = contestant.matches()
    return _Run(time.perf_counter() - began, time.process_time() - used, matches)


def _warm_up(contestant: Contestant, budget: float) -> None:
    end = time.perf_counter() + budget
    for _ in range(contestant.warm_ups):
        contestant.matches()
        if time.perf_counter() > end:
            return


def _best(contestant: Contestant, run: _Run, budget: float) -> _Run:
    """The best of a few runs with what is loaded, as long as the budget isn't exceeded."""
    spent, runs = run.seconds, 1
    while runs < _LEAST_RUNS or spent < budget / 4:
        if spent + run.seconds > budget:
            break
        again = _timed(contestant)
        run, spent, runs = min(run, again), spent + again.seconds, runs + 1
    return run


def _steps(most: int, step: int) -> Iterator[int]:
    """The numbers of events; the last is the largest power of STEP that there are, whatever the contestant's step."""
    count = min(FIRST, most)
    yield count
    while count * STEP <= most:
        count *= step if count * step <= most else STEP
        yield count


def _next_fits(contestant: Contestant, runs: Sequence[_Run], budget: float) -> bool:
    """Whether the next step would stay in the budget, if what this one took longer than another is what events cost.

    An engine goes through its subscriptions once for a block, however few its events: a step that fills the block
    takes hardly longer. A query has its price, and that isn't counted at all.
    """
    first, last = runs[0], runs[-1]
    if not contestant.has_queries:
        if last is first:
            return first.seconds * contestant.step <= budget
        return last.seconds + (last.seconds - runs[-2].seconds) * contestant.step <= budget
    if last is first:
        return first.seconds <= _DEAR * budget
    more = last.seconds - first.seconds
    return more * contestant.step <= budget or more < _NOISE * min(first.seconds, budget)


def _cost(
    contestant: Contestant, first: _Run, last: _Run, count: int, matches: Mapping[int, int]
) -> BatchCost:
    seconds, events = last.seconds, count
    is_bound = False
    if contestant.has_queries:
        is_bound = last.seconds < _CLEARLY * first.seconds
        if not is_bound:
            seconds, events = last.seconds - first.seconds, count - min(matches)
    return BatchCost(
        us_per_event=1e6 * seconds / max(1, events),
        is_bound=is_bound,
        seconds_per_call=first.seconds,
        events=count,
        cores=last.processor / last.seconds,
        matches=matches,
    )
