"""The circuit breaker, with a clock that the test winds."""

import logging

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.operators.breaker import FAILURES, LONGEST_PAUSE, Breaker


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def breaker(clock: Clock) -> Breaker:
    return Breaker("crowd", clock, time_of_day=clock)


def fail(breaker: Breaker, times: int = 1) -> None:
    for _ in range(times):
        assert breaker.refusal() is None
        breaker.record_failure("ValueError: no image")


def test_it_opens_after_failures_in_a_row(breaker: Breaker):
    """One success between them starts the count again."""
    fail(breaker, FAILURES - 1)
    breaker.record_success()
    fail(breaker, FAILURES - 1)
    assert breaker.state == "closed"
    fail(breaker)
    assert breaker.state == "open"


def test_an_open_breaker_says_since_when_and_why(breaker: Breaker):
    """That is what events fail with."""
    fail(breaker, FAILURES)
    assert (
        breaker.refusal() == "circuit open since 1970-01-12T13:46:40Z, after: ValueError: no image"
    )


@pytest.mark.parametrize("hours", [-1, 1])
def test_a_clock_that_is_set_changes_no_pause(clock: Clock, hours: int):
    """The time of day jumps while the circuit is open: it is tried again after its pause, neither later nor sooner."""
    days = [0.0]
    breaker = Breaker("crowd", clock, time_of_day=lambda: days[0])
    fail(breaker, FAILURES)
    days[0] += 3600 * hours
    assert breaker.state == "open"
    clock.now += 1
    assert breaker.state == "trial"


def test_after_the_pause_one_call_decides(breaker: Breaker, clock: Clock):
    """A success closes the breaker, and forgets the pauses."""
    fail(breaker, FAILURES)
    clock.now += 0.999
    assert breaker.state == "open"
    clock.now += 0.001
    assert breaker.state == "trial"
    assert breaker.refusal() is None
    breaker.record_success()
    assert breaker.state == "closed"
    fail(breaker, FAILURES)
    clock.now += 1
    assert breaker.state == "trial"


def test_pauses_double_up_to_a_minute(breaker: Breaker, clock: Clock):
    """A trial that fails opens the breaker again at once."""
    fail(breaker, FAILURES)
    pauses = []
    for _ in range(9):
        waited = 0.0
        while breaker.refusal() is not None:
            clock.now += 0.5
            waited += 0.5
        pauses.append(waited)
        breaker.record_failure("still down")
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60, 60]


def test_a_held_breaker_stays_open_however_long(clock: Clock):
    """Until whoever holds it lets go; then a trial is due."""
    held: list[str] = ["4 calls hang"]
    breaker = Breaker("crowd", clock, held=lambda: held[0] if held else None)
    breaker.open()
    clock.now += 10 * LONGEST_PAUSE
    assert breaker.state == "open"
    assert "4 calls hang" in str(breaker.refusal())
    held.clear()
    assert breaker.state == "trial"
    assert breaker.refusal() is None


def test_opening_and_closing_is_logged(
    breaker: Breaker, clock: Clock, caplog: pytest.LogCaptureFixture
):
    """One line each, with the operator, the number of failures and the last reason."""
    caplog.set_level(logging.WARNING, "penstock.operators")
    fail(breaker, FAILURES)
    clock.now += 7
    assert breaker.refusal() is None
    breaker.record_success()
    assert [record.getMessage() for record in caplog.records] == [
        "operator crowd: circuit open after 5 failed calls in a row, no calls for 1 s; the last: ValueError: no image",
        "operator crowd: circuit closed, a call was answered after 7 s",
    ]


@given(st.lists(st.tuples(st.booleans(), st.floats(0, 100)), max_size=60))
@settings(deadline=None)
def test_a_breaker_never_lets_through_more_failures_in_a_row_than_allowed_without_a_pause(
    calls: list[tuple[bool, float]],
):
    """Whatever happens when: after FAILURES failures, and after each failed trial, at least a second passes."""
    clock = Clock()
    breaker = Breaker("crowd", clock)
    in_row, last = 0, -1e9
    for succeeds, later in calls:
        clock.now += later
        if breaker.refusal() is not None:
            continue
        assert in_row < FAILURES or clock.now - last >= 1
        if succeeds:
            breaker.record_success()
            in_row = 0
            assert breaker.state == "closed"
        else:
            breaker.record_failure("no")
            in_row, last = in_row + 1, clock.now
