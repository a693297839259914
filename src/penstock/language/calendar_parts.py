"""Parts of timestamps, and timestamps moved by months: the Gregorian calendar over arrays, for any year.

Timestamps are microseconds since 1970-01-01 UTC. Days become years, months and days by counting in eras of 400 years
from 1 March of the year 0, after which all months but the last have a fixed place.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from penstock.base.arrays import Int64s
from penstock.language.intervals import DAY, SECOND

_ERA = 146_097  # days in 400 years
_SHIFT = 719_468  # days from 0000-03-01 to 1970-01-01


def move_months(times: Int64s, months: int) -> Int64s:
    """The same day so many months later, or the last of that month if there is none."""
    days = times // DAY
    year, month, day = _civil(days)
    count = year * 12 + (month - 1) + months
    year, month = count // 12, count % 12 + 1
    following = count + 1
    last = _days(following // 12, following % 12 + 1, 1) - _days(year, month, 1)
    return _days(year, month, np.minimum(day, last)) * DAY + times % DAY


def _civil(days: Int64s) -> tuple[Int64s, Int64s, Int64s]:
    """Year, month and day of the month."""
    shifted = days + _SHIFT
    era, day = shifted // _ERA, shifted % _ERA
    year = (day - day // 1_460 + day // 36_524 - day // 146_096) // 365
    of_year = day - (365 * year + year // 4 - year // 100)
    place = (5 * of_year + 2) // 153
    month = np.where(place < 10, place + 3, place - 9)
    return year + era * 400 + (month <= 2), month, of_year - (153 * place + 2) // 5 + 1


def _days(year: Int64s, month: Int64s, day: Any) -> Int64s:
    """Days since 1970-01-01 of years, months and days of the month: the inverse of `_civil`."""
    year = year - (month <= 2)
    era, of_era = year // 400, year % 400
    of_year = (153 * np.where(month > 2, month - 3, month + 9) + 2) // 5 + day - 1
    days: Int64s = era * _ERA + of_era * 365 + of_era // 4 - of_era // 100 + of_year - _SHIFT
    return days


def _day_of_year(times: Int64s) -> Int64s:
    days = times // DAY
    year, _, _ = _civil(days)
    first = np.ones_like(year)
    return days - _days(year, first, 1) + 1


def _iso_day(times: Int64s) -> Int64s:
    """The day of the ISO week; 1 is Monday."""
    return (times // DAY + 3) % 7 + 1


def _iso_week(times: Int64s) -> Int64s:
    """The ISO week of each time: the number of the week's Thursday among the Thursdays of its year."""
    thursday = (times // DAY - _iso_day(times) + 4) * DAY
    return (_day_of_year(thursday) - 1) // 7 + 1


PARTS: dict[str, Callable[[Int64s], Any]] = {
    "year": lambda times: _civil(times // DAY)[0],
    "month": lambda times: _civil(times // DAY)[1],
    "day": lambda times: _civil(times // DAY)[2],
    "hour": lambda times: times % DAY // (3600 * SECOND),
    "minute": lambda times: times % (3600 * SECOND) // (60 * SECOND),
    "second": lambda times: times % (60 * SECOND) // SECOND,
    "millisecond": lambda times: times % (60 * SECOND) // 1_000,
    "microsecond": lambda times: times % (60 * SECOND),
    "quarter": lambda times: (_civil(times // DAY)[1] - 1) // 3 + 1,
    "week": _iso_week,
    "dow": lambda times: (times // DAY + 4) % 7,
    "isodow": _iso_day,
    "doy": _day_of_year,
    "epoch": lambda times: times / 1e6,
}
