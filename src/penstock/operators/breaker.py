"""A circuit breaker: an operator that keeps failing isn't called for a while.

    closed   calls go through; after FAILURES of them in a row have failed it opens
    open     calls fail at once, for a pause that doubles from one opening to the next, 1 s to 60 s
    trial    the pause is over: one call goes through. If it succeeds the breaker closes, else it opens again

Each failed event would otherwise wait for its own time-out, and a service in trouble would be called all the more. A
breaker can also be *held*: as long as calls that were given up still occupy as many threads as are allowed, it stays
open, however long that takes. One thread at a time records calls.

Pauses are measured on a clock that nobody sets back; messages give the time of day.
"""

import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime

FAILURES = 5
FIRST_PAUSE = 1.0  # seconds
LONGEST_PAUSE = 60.0

Clock = Callable[[], float]  # seconds

_log = logging.getLogger("penstock.operators")


class Breaker:
    """The breaker of one operator."""

    def __init__(
        self,
        name: str,
        clock: Clock = time.monotonic,
        held: Callable[[], str | None] = lambda: None,
        time_of_day: Clock = time.time,
    ) -> None:
        self.name = name
        self._clock = clock
        self._time_of_day = time_of_day  # since 1970
        self._in_row = 0
        self._pause = 0.0
        self._opened = 0.0
        self._since = 0.0  # when it last went from closed to open
        self._open_since = ""
        self._open = False
        self._trial = False
        self._reason = ""
        self._held = held  # why no call can be made at all, or None; asked while it is open

    @property
    def state(self) -> str:
        """`closed`, `open`, or `trial`: the next call decides."""
        if not self._open:
            return "closed"
        return "trial" if self._due() and self._held() is None else "open"

    def refusal(self) -> str | None:
        """Why a call mustn't be made now; None if it may be."""
        if not self._open:
            return None
        if self._due():
            held = self._held()
            if held is None:
                self._trial = True
                return None
            return f"circuit open since {self._open_since}: {held}"
        return f"circuit open since {self._open_since}, after: {self._reason}"

    def record_success(self) -> None:
        """A call was answered."""
        self._in_row = 0
        if self._open:
            self._open = self._trial = False
            self._pause = 0.0
            _log.warning(
                "operator %s: circuit closed, a call was answered after %.0f s",
                self.name,
                self._clock() - self._since,
            )

    def record_failure(self, reason: str) -> None:
        """A call failed."""
        self._in_row += 1
        self._reason = reason
        if self._trial or (not self._open and self._in_row >= FAILURES):
            self._opens()

    def open(self) -> None:
        """Open at once, whatever the number of failures."""
        if not self._open:
            self._opens()

    def _due(self) -> bool:
        return self._clock() - self._opened >= self._pause

    def _opens(self) -> None:
        again = self._open
        self._open, self._trial = True, False
        self._pause = min(max(2 * self._pause, FIRST_PAUSE), LONGEST_PAUSE)
        self._opened = self._clock()
        if not again:
            self._since, self._open_since = self._opened, _moment_text(self._time_of_day())
        _log.warning(
            "operator %s: circuit %s after %d failed calls in a row, no calls for %.0f s; the last: %s",
            self.name,
            "still open" if again else "open",
            self._in_row,
            self._pause,
            self._reason,
        )


def _moment_text(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
