"""Leases: how long a subscription lives unless it is renewed.

Follows operators §5.1: a subscription holds for the time that its subscriber asks for, by default one day. A lease is
given as people say it (`"1 day"`, `"90 minutes"`, `"2h"`), as a `timedelta`, or as `"forever"`. The registry keeps its
end, in UTC microseconds. Matchers compare that with the clock, so an expired subscription stops matching without any
change to the registry.

A bare number is refused, because its unit would be a guess.
"""

from datetime import timedelta

from penstock.base.durations import microseconds, quote_briefly
from penstock.base.errors import LeaseError
from penstock.matching.subscription_rows import FOREVER

Lease = str | timedelta
"""What users write: `"1 day"`, `"2h"`, `"1h 30m"`, `"forever"`, `timedelta(days=7)`."""

DEFAULT_LEASE = "1 day"
LONGEST = timedelta(days=36_525)
"""One hundred years. A longer lease is a mistake, or meant as `"forever"`."""

_EXAMPLES = "write it like '1 day', '90 minutes', '2h', '1h 30m' or 'forever'"


def lease_length(lease: Lease) -> int:
    """The length of a lease in microseconds; `FOREVER` for `"forever"`."""
    if isinstance(lease, timedelta):
        length = lease // timedelta(microseconds=1)
    elif isinstance(lease, str):
        if lease.strip().lower() == "forever":
            return FOREVER
        length = _read(lease)
    else:
        raise LeaseError(f"lease {lease!r} is neither text nor a timedelta: {_EXAMPLES}")
    shown = quote_briefly(lease) if isinstance(lease, str) else str(lease)
    if length <= 0:
        raise LeaseError(f"lease {shown} is not longer than zero: {_EXAMPLES}")
    if length > LONGEST // timedelta(microseconds=1):
        raise LeaseError(f"lease {shown} is longer than 100 years: shorten it, or say 'forever'")
    return length


def lease_end(now: int, lease: Lease) -> int:
    """When a lease that starts at `now` ends, both in UTC microseconds."""
    return min(now + lease_length(lease), FOREVER)


def _read(lease: str) -> int:
    try:
        return microseconds(lease)
    except ValueError as error:
        raise LeaseError(f"lease {quote_briefly(lease)} {error}: {_EXAMPLES}") from None
