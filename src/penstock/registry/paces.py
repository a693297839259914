"""Paces: how often a subscription wants to be notified.

    10 per hour          at most ten notifications in an hour: the first ten; the others are held back, and counted
    digest per day       one notification a day, with all that was gathered

A subscription without a pace is notified of everything, at once. This module reads the texts of paces;
`delivery.pacing` applies paces to notifications. Select-joins can't have one: their messages build on each other, and a
view that misses one differs from its SELECT.
"""

import functools
import re
from dataclasses import dataclass

from penstock.base.durations import microseconds, quote_briefly
from penstock.base.errors import RegistryError
from penstock.registry.kinds import SELECT_JOIN, kind_of

UNLIMITED = "unlimited"
"""The text by which `update` and `load` take a pace away."""
MOST = 1_000
"""The most notifications that a pace may let through in an interval: those of a micro-batch are named one by one."""
SHORTEST, LONGEST = "1 second", "366 days"
_EXAMPLES = f"write it like '10 per hour', '1 per 15 minutes', 'digest per day' or {UNLIMITED!r}"
_PACE = re.compile(r"(?P<most>[0-9]{1,9}|digest) per (?P<interval>.+)")


@dataclass(frozen=True, slots=True)
class Pace:
    """At most `most` notifications in an interval of microseconds; one digest if `most` is None."""

    most: int | None
    interval: int

    @staticmethod
    def of(text: str) -> "Pace":
        """Read the text of a pace. RegistryError if it isn't one.

        >>> Pace.of("10 per hour"), Pace.of("digest per 2 days").most
        (Pace(most=10, interval=3600000000), None)
        """
        return _read(text)


@functools.lru_cache(maxsize=1024)
def _read(text: str) -> Pace:
    said = f"the pace {quote_briefly(text)}"
    found = _PACE.fullmatch(_plain(text))
    if found is None:
        raise RegistryError(f"{said} can't be read: {_EXAMPLES}")
    interval = found["interval"]
    try:
        length = microseconds(interval if interval[0].isdigit() else f"1 {interval}")
    except ValueError as error:
        raise RegistryError(f"{said} {error}: {_EXAMPLES}") from None
    if not microseconds(SHORTEST) <= length <= microseconds(LONGEST):
        raise RegistryError(
            f"{said} has an interval that isn't between {SHORTEST} and {LONGEST}: {_EXAMPLES}"
        )
    most = None if found["most"] == "digest" else int(found["most"])
    if most is not None and not 1 <= most <= MOST:
        raise RegistryError(f"{said} lets {most:,} through: give a number from 1 to {MOST:,}")
    return Pace(most, length)


def pace_text(pace: str, filter_: str) -> str | None:
    """The form in which a pace is kept; None for no pace. RegistryError if it is wrong, or the filter can't have one.

    >>> pace_text(" 10 PER  hour", "price > 5"), pace_text("unlimited", "price > 5")
    ('10 per hour', None)
    """
    if not isinstance(pace, str):
        raise RegistryError(f"the pace {pace!r} is no text: {_EXAMPLES}")
    if (plain := _plain(pace)) in ("", UNLIMITED):
        return None
    Pace.of(plain)
    check_kind(plain, filter_)
    return plain


def check_kind(pace: str | None, filter_: str) -> None:
    """A RegistryError if a subscription of this kind can't have a pace."""
    if pace is not None and kind_of(filter_) is SELECT_JOIN:
        raise RegistryError(
            f"a select-join can't have a pace ({pace}): a message that is held back would make its view differ from "
            "the SELECT. Leave the pace out"
        )


def _plain(text: str) -> str:
    return " ".join(text.lower().split())
