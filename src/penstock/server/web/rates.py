"""Limits what callers ask for: a bucket of tokens per key or address, and a number of connections per address.

A bucket is two numbers. When there are too many buckets, the one that was used longest ago is dropped. A caller who
comes back then gets a full bucket, which does no harm.
"""

import time
from collections import Counter, OrderedDict
from collections.abc import Callable

from penstock.server.web.problems import Problem

_MOST = 100_000  # callers that are remembered


class RequestRates:
    """Lets `per_second` requests of each caller pass in a second, and `burst` of them at once.

    >>> rates = RequestRates(1, burst=2, clock=lambda: 0.0)
    >>> [rates.seconds_to_wait("alice") for _ in range(3)]
    [0.0, 0.0, 1.0]
    """

    def __init__(
        self, per_second: float, burst: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._rate, self._burst, self._clock = per_second, burst, clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def seconds_to_wait(self, caller: str) -> float:
        """Take a token of a caller. Returns 0, or the seconds until there will be one."""
        now = self._clock()
        left, at = self._buckets.pop(caller, (float(self._burst), now))
        left = min(self._burst, left + (now - at) * self._rate)
        enough = left >= 1
        self._buckets[caller] = (left - 1 if enough else left, now)
        if len(self._buckets) > _MOST:
            self._buckets.popitem(last=False)
        return 0.0 if enough else (1 - left) / self._rate

    def check(self, caller: str) -> None:
        """Raise a Problem if a caller has to wait."""
        wait = self.seconds_to_wait(caller)
        if wait:
            raise Problem(
                "too-many-requests",
                f"more than {self._rate:g} requests a second: wait {wait:.1f} seconds",
                headers={"Retry-After": str(int(wait) + 1)},
            )


class ConnectionCounts:
    """How many connections there are, of each address and in all.

    >>> counts = ConnectionCounts(per_address=1, most=10)
    >>> counts.enter("::1"), counts.enter("::1"), counts.leave("::1"), counts.enter("::1")
    (True, False, None, True)
    """

    def __init__(self, per_address: int, most: int) -> None:
        self._per_address, self._most = per_address, most
        self._counts: Counter[str] = Counter()
        self.total = 0

    def enter(self, address: str) -> bool:
        """Count a new connection. False if there may be no more."""
        if self.total >= self._most or self._counts[address] >= self._per_address:
            return False
        self._counts[address] += 1
        self.total += 1
        return True

    def leave(self, address: str) -> None:
        """Count the end of a connection."""
        self.total -= 1
        self._counts[address] -= 1
        if not self._counts[address]:
            del self._counts[address]
