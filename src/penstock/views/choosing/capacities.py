"""How many views a view may feed, and the source (section 2.2, constraints).

A capacity is a number of rewritings that a view takes part in: its outdegree in a configuration. `UNLIMITED` is one,
larger than any outdegree.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from penstock.arrays import Int64s
from penstock.errors import PenstockError

UNLIMITED = 1 << 60
"""No bound. Also written ∞ or `inf`."""


class CapacityError(PenstockError):
    """A capacity that is no number of views."""


class Capacities(NamedTuple):
    """How many rewritings each view may take part in, and how many views the source may feed."""

    views: Int64s
    source: int

    def widened(self, factor: float) -> "Capacities":
        """Room for latency: views may feed more, rounded down; the source may not.

        >>> capacities(2, [5, 10], source=3).widened(1.5)
        Capacities(views=array([ 7, 15]), source=3)
        """
        if not 1 <= factor < math.inf:
            raise CapacityError(f"capacities are widened by a factor from 1 on, not by {factor}")
        wide = np.minimum(np.floor(self.views * float(factor)), float(UNLIMITED))
        return Capacities(
            np.where(self.views >= UNLIMITED, UNLIMITED, wide).astype(np.int64), self.source
        )


def capacities(
    views: int, each: str | float | Sequence[float] | npt.NDArray[np.generic], source: str | float
) -> Capacities:
    """One capacity for all views or one for each, and the source's.

    >>> capacities(2, 30, source="∞").source == UNLIMITED
    True
    """
    if isinstance(each, (str, int, float)):
        per_view = np.full(views, capacity(each), np.int64)
    else:
        per_view = np.array([capacity(float(value)) for value in np.asarray(each)], np.int64)
    if len(per_view) != views:
        raise CapacityError(f"{views} views, but {len(per_view)} capacities")
    return Capacities(per_view, capacity(source))


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


def written(value: int) -> str:
    """A capacity as people read it.

    >>> written(30), written(UNLIMITED)
    ('30', '∞')
    """
    return "∞" if value >= UNLIMITED else str(value)
