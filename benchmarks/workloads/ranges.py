"""`ranges`: 20 integer attributes 0..999; each subscription has ranges on 4 of them; events are uniform.

A range begins anywhere in the domain and is 15 % of it long, times a number between 0.5 and 1.5; the end of the domain
cuts it off. So it holds for 13.8 % of the values on average, and four for 0.0367 %: 37 matches per event with 100,000
subscriptions, 367 with a million.
"""

import numpy as np
import pyarrow as pa

from benchmarks.workloads.draws import Draws, Integers
from benchmarks.workloads.workload import (
    Join,
    Workload,
    conjunction,
    integer,
    join_by_first,
    names,
    rows_of,
    spread,
    text,
)
from penstock.language import Schema

ATTRIBUTES = names("a", 20)
TESTS = 4
VALUES = 1_000
_WIDTH = 0.15
_SEED = 3


def ranges(subscriptions: int, events: int) -> Workload:
    """See the module."""
    draws = Draws(_SEED, 0)
    attribute = draws.distinct(np.ones(len(ATTRIBUTES)), subscriptions, TESTS)
    low = draws.integers(0, VALUES, subscriptions, TESTS)
    width = (_WIDTH * VALUES * (0.5 + draws.uniform(subscriptions, TESTS))).astype(np.int64)
    high = np.minimum(low + width, VALUES - 1)
    values = Draws(_SEED, 1).integers(0, VALUES, len(ATTRIBUTES), events)
    return Workload(
        name="ranges",
        schema=Schema.of(dict.fromkeys(ATTRIBUTES.to_pylist(), "long")),
        rows=rows_of(conjunction(*[_range(attribute, low, high, test) for test in range(TESTS)])),
        events=pa.record_batch(list(values), names=ATTRIBUTES.to_pylist()),
        join=lambda: _join(attribute, low, high),
    )


def _range(attribute: Integers, low: Integers, high: Integers, test: int) -> pa.StringArray:
    name = ATTRIBUTES.take(pa.array(attribute[:, test]))
    return text(name, " BETWEEN ", integer(low[:, test]), " AND ", integer(high[:, test]))


def _join(attribute: Integers, low: Integers, high: Integers) -> Join:
    tested, (wide_low, wide_high) = spread(attribute, len(ATTRIBUTES), low, high)
    bounds = {"_low": wide_low, "_high": wide_high}
    between = "{e} BETWEEN {r}_low AND {r}_high"
    return join_by_first(ATTRIBUTES.to_pylist(), tested, bounds, between)
