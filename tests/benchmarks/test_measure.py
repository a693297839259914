"""Measuring, with a clock that the contestants set themselves."""

import pyarrow as pa
import pytest

from benchmarks.matching import measure
from benchmarks.matching.measure import FIRST, measure_batches, measure_singles

EVENTS = pa.record_batch({"a": pa.array(range(65_536))})


class Clock:
    """Stands still but for what contestants take."""

    def __init__(self) -> None:
        self.now = 100.0

    def perf_counter(self) -> float:
        return self.now

    def perf_counter_ns(self) -> int:
        return round(self.now * 1e9)

    def process_time(self) -> float:
        return self.now / 2


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(measure, "time", found)
    return found


class Slow:
    """Takes so many seconds per call and per event; every third event has a match."""

    name = "slow"
    step = 4
    warm_ups = 1

    def __init__(self, clock: Clock, per_call: float, per_event: float, queries: bool) -> None:
        self.clock, self.per_call, self.per_event = clock, per_call, per_event
        self.has_queries = queries
        self.began = clock.now
        self.rows = 0

    def load(self, events: pa.RecordBatch) -> None:
        self.rows = events.num_rows

    def matches(self) -> int:
        self.clock.now += self.per_call + self.rows * self.per_event
        return self.rows // 3

    def close(self) -> None:
        pass


@pytest.mark.parametrize("per_event", [1e-7, 1e-5, 1e-3, 0.1, 2.0])
def test_the_cost_of_an_event(clock: Clock, per_event: float) -> None:
    """However slow: the cost is found, and the budget isn't exceeded by more than the smallest steps take."""
    contestant = Slow(clock, 0.0, per_event, queries=False)
    cost = measure_batches(contestant, EVENTS, budget=2.0)
    assert cost.us_per_event == pytest.approx(per_event * 1e6)
    assert cost.cores == pytest.approx(0.5)
    assert not cost.is_bound
    assert clock.now - contestant.began <= 3 * FIRST * per_event + 3 * 2.0


def test_the_price_of_a_query_is_told_apart(clock: Clock) -> None:
    """A query that costs a second before its first event isn't charged to the few events it is given."""
    cost = measure_batches(Slow(clock, 1.0, 1e-3, queries=True), EVENTS, budget=5.0)
    assert cost.us_per_event == pytest.approx(1e3)
    assert cost.seconds_per_call == pytest.approx(1.0, rel=0.05)
    assert not cost.is_bound


def test_an_engine_fills_its_block(clock: Clock) -> None:
    """What an engine does once for a block is spread over as many events as a budget allows, not over the first few."""
    cost = measure_batches(Slow(clock, 0.4, 1e-5, queries=False), EVENTS, budget=2.0)
    assert cost.events >= 16_384
    assert cost.us_per_event < 40


def test_a_bound_where_it_cant_be_told_apart(clock: Clock) -> None:
    """If all events together hardly take longer than few, their cost is at most the whole time's share."""
    cost = measure_batches(Slow(clock, 1.0, 1e-7, queries=True), EVENTS, budget=5.0)
    assert cost.is_bound
    assert 1e-1 <= cost.us_per_event < 20


def test_steps_are_common(clock: Clock) -> None:
    """A quick and a slow contestant, with small and large steps, have some numbers of events in common."""
    quick = measure_batches(Slow(clock, 0.0, 1e-7, queries=False), EVENTS, budget=1.0)
    slow = Slow(clock, 0.1, 1e-2, queries=True)
    slow.step = 16
    common = quick.matches.keys() & measure_batches(slow, EVENTS, budget=1.0).matches.keys()
    assert common >= {16}
    assert max(quick.matches) == EVENTS.num_rows
    assert all(quick.matches[events] == events // 3 for events in quick.matches)


@pytest.mark.parametrize("step", [4, 16, 64])
def test_the_last_step_is_the_same_for_all(clock: Clock, step: int) -> None:
    """However large its steps, a contestant that has the time does all events."""
    contestant = Slow(clock, 0.0, 1e-7, queries=True)
    contestant.step = step
    assert max(measure_batches(contestant, EVENTS, budget=1.0).matches) == EVENTS.num_rows


def test_fewer_events_than_the_first_step(clock: Clock) -> None:
    """A workload of five events is measured with five."""
    cost = measure_batches(Slow(clock, 0.0, 1e-3, queries=False), EVENTS.slice(0, 5), budget=1.0)
    assert (cost.events, cost.matches) == (5, {5: 1})
    assert cost.us_per_event == pytest.approx(1e3)


def test_the_median_of_single_events(clock: Clock) -> None:
    """One slow event among many doesn't count, and the budget ends it."""
    calls = []

    def match(event: dict) -> None:
        calls.append(event)
        clock.now += 5e-3 if event["n"] == 7 else 1e-3

    events = [{"n": n} for n in range(2_000)]
    assert measure_singles(match, events, budget=0.5) == pytest.approx(1_000)
    assert len(calls) < 600
