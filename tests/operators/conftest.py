"""A clock that stands still unless a test moves it, so that no call is given up because the machine is busy."""

import threading

import pytest

from penstock.operators import watched_calls as watch


class Clock:
    """What `watch` looks at in place of the real clock. `looked`: whether a caller has, who waits for a call."""

    def __init__(self) -> None:
        self.now = 0.0
        self.looked = threading.Event()

    def monotonic(self) -> float:
        if not threading.current_thread().name.startswith("penstock-"):
            self.looked.set()
        return self.now


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The time that time-outs are counted in."""
    clock = Clock()
    monkeypatch.setattr(watch, "time", clock)
    return clock
