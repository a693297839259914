"""How many views each view may feed, and how many the source (delta §2.2, constraints).

A capacity is a number of rewritings that a view takes part in: its outdegree in a configuration. `UNLIMITED` is one,
larger than any outdegree.
"""

import math
from typing import NamedTuple

import numpy as np

from penstock.base.arrays import Int64s
from penstock.base.errors import PenstockError

UNLIMITED = 1 << 60
"""No bound. Also written ∞ or `inf`."""


class CapacityError(PenstockError):
    """A capacity that isn't a number of views."""


class Capacities(NamedTuple):
    """How many rewritings each view may take part in, and how many views the source may feed."""

    views: Int64s
    source: int

    def widen_views(self, factor: float) -> "Capacities":
        """Capacities with room for shorter paths: views may feed more, rounded down; the source may not."""
        if not 1 <= factor < math.inf:
            raise CapacityError(f"capacities are widened by a factor from 1 on, not by {factor}")
        wide = np.minimum(np.floor(self.views * float(factor)), float(UNLIMITED))
        return Capacities(
            np.where(self.views >= UNLIMITED, UNLIMITED, wide).astype(np.int64), self.source
        )


def capacities(views: int, each: str | float, source: str | float) -> Capacities:
    """One capacity for all views, and the source's."""
    return Capacities(np.full(views, capacity(each), np.int64), capacity(source))


def capacity(value: str | float) -> int:
    """A capacity from a number or its text.

    >>> capacity("30"), capacity(float("inf")) == UNLIMITED
    (30, True)
    >>> capacity(-1)
    Traceback (most recent call last):
    penstock.views.choosing.capacities.CapacityError: a capacity is a whole number from 0 on, or ∞, not -1
    """
    try:
        number = math.inf if value in ("∞", "unlimited") else float(value)
    except ValueError:
        number = math.nan
    if not number >= 0 or (number != math.inf and number != int(number)):
        raise CapacityError(f"a capacity is a whole number from 0 on, or ∞, not {str(value)[:40]}")
    return UNLIMITED if number >= UNLIMITED else int(number)


def capacity_text(value: int) -> str:
    """A capacity as people read it.

    >>> capacity_text(30), capacity_text(UNLIMITED)
    ('30', '∞')
    """
    return "∞" if value >= UNLIMITED else str(value)
