"""Durations as people write them: `"1 day"`, `"90 minutes"`, `"1h 30m"`, `"20 ms"`.

Leases, costs and time-outs are all read here. A number without a unit is refused: any unit would be a guess.
Moments and durations are microseconds everywhere.
"""

import functools
import re
import time
from decimal import Decimal

_MICROSECONDS = {
    **dict.fromkeys(("us", "µs", "microsecond", "microseconds"), 1),
    **dict.fromkeys(("ms", "millis", "millisecond", "milliseconds"), 10**3),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 10**6),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60 * 10**6),
    **dict.fromkeys(("h", "hour", "hours"), 3600 * 10**6),
    **dict.fromkeys(("d", "day", "days"), 86_400 * 10**6),
    **dict.fromkeys(("w", "week", "weeks"), 7 * 86_400 * 10**6),
}
_TERM = re.compile(r"\s*([0-9]{1,18}(?:\.[0-9]{1,9})?)\s*([a-zµ]+)\s*,?")


def utc_now() -> int:
    """The wall clock in UTC microseconds since 1970.

    >>> utc_now() > 1_700_000_000_000_000
    True
    """
    return time.time_ns() // 1_000


@functools.lru_cache(maxsize=256)
def microseconds(text: str) -> int:
    """The microseconds that a text stands for. If it can't be read, a `ValueError` gives the reason.

    >>> microseconds("1h 30m") == microseconds("90 minutes"), microseconds("20 ms")
    (True, 20000)
    >>> microseconds("5 fortnights")
    Traceback (most recent call last):
    ValueError: has an unknown unit 'fortnights'
    """
    lowered = text.lower()
    total, position = Decimal(0), 0
    while match := _TERM.match(lowered, position):
        number, unit = match.groups()
        if unit not in _MICROSECONDS:
            raise ValueError(f"has an unknown unit {quote_briefly(unit)}")
        total += Decimal(number) * _MICROSECONDS[unit]
        position = match.end()
    if position == 0 or lowered[position:].strip() or lowered.rstrip().endswith(","):
        raise ValueError("can't be read")
    return int(total)


def quote_briefly(text: str) -> str:
    """A text as messages repeat it: quoted, and cut off after 40 characters.

    >>> len(quote_briefly("x" * 1000))
    43
    """
    return repr(text if len(text) <= 40 else text[:40] + "…")
