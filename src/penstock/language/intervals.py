"""Intervals: `INTERVAL '1 day 2 hours'` as months and microseconds, as DuckDB reads it.

Months have no fixed length: added to a timestamp they move its date by the calendar. In comparisons with the difference
of two timestamps, a month is 30 days and a day 24 hours.
"""

import re
from dataclasses import dataclass

SECOND = 1_000_000  # microseconds
DAY = 86_400 * SECOND
MONTH = 30 * DAY
_MOST = (
    1 << 62
)  # microseconds, and months: far beyond all timestamps, and sums of two still have 64 bits

# The units by their first name, which is the one that is written: months, microseconds, other names.
_UNITS: dict[str, tuple[int, int, str]] = {
    "year": (12, 0, "years y yr yrs"),
    "month": (1, 0, "months mon mons"),
    "week": (0, 7 * DAY, "weeks w"),
    "day": (0, DAY, "days d dayofmonth"),
    "hour": (0, 3600 * SECOND, "hours h hr hrs"),
    "minute": (0, 60 * SECOND, "minutes m min mins"),
    "second": (0, SECOND, "seconds s sec secs"),
    "millisecond": (0, 1_000, "milliseconds ms msec msecs"),
    "microsecond": (0, 1, "microseconds us usec usecs"),
}
_NAMED = {
    name: (months, micros)
    for first, (months, micros, others) in _UNITS.items()
    for name in (first, *others.split())
}
_PART = re.compile(r"\s*([+-]?)\s*([0-9]{1,18})\s*([a-z]+)", re.IGNORECASE | re.ASCII)
_CLOCK = re.compile(
    r"\s*([+-]?)([0-9]{1,9}):([0-5][0-9])(?::([0-5][0-9])(?:\.([0-9]{1,6}))?)?", re.ASCII
)


@dataclass(frozen=True, slots=True)
class Interval:
    """A length of time."""

    months: int
    micros: int

    @property
    def key(self) -> int:
        """Microseconds, with 30 days for a month. Intervals are compared by it."""
        return self.months * MONTH + self.micros

    def negated(self) -> "Interval":
        return Interval(-self.months, -self.micros)

    def __str__(self) -> str:
        """A text that `read_interval` reads.

        >>> str(Interval(14, -5_400_000_000))
        '14 month -90 minute'
        """
        parts = [f"{self.months} month"] if self.months else []
        if self.micros or not parts:
            unit = next(
                name
                for name in ("day", "hour", "minute", "second", "millisecond", "microsecond")
                if self.micros % _UNITS[name][1] == 0
            )
            parts.append(f"{self.micros // _UNITS[unit][1]} {unit}")
        return " ".join(parts)


def read_interval(text: str) -> Interval:
    """The interval that a text stands for. ValueError if it isn't one.

    >>> read_interval("1 year -2 hours").key == 12 * MONTH - 7200 * SECOND
    True
    """
    months = micros = at = 0
    while text[at:].strip():
        part, clock = _PART.match(text, at), _CLOCK.match(text, at)
        if clock is not None:
            sign, hours, minutes, seconds, fraction = clock.groups()
            passed = (int(hours) * 60 + int(minutes)) * 60 + int(seconds or 0)
            passed = passed * SECOND + int((fraction or "0").ljust(6, "0"))
            micros += -passed if sign == "-" else passed
            at = clock.end()
            continue
        if part is None or part[3].lower() not in _NAMED:
            raise ValueError(_reason(text))
        of_months, of_micros = _NAMED[part[3].lower()]
        count = -int(part[2]) if part[1] == "-" else int(part[2])
        months, micros = months + count * of_months, micros + count * of_micros
        at = part.end()
    if not at:
        raise ValueError(_reason(text))
    found = Interval(months, micros)
    if abs(months) > 1 << 31 or abs(micros) > _MOST or abs(found.key) > _MOST:
        raise ValueError(f"the interval {text!r} is too long")
    return found


def _reason(text: str) -> str:
    return f"{text[:50]!r} is not an interval like '1 hour' or '2 days 12:30:00'"
