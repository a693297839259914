"""`equality`, `equality-1000`, `equality-10`: attributes compared with constants, and nothing else.

`equality` is the kind of load that the matching tree was published with: 20 attributes of 5 values, the first tested by
almost every subscription (0.98) and each next one by 0.85 times as many; constants follow Zipf's law; events are
uniform. The other two are what peers were measured with: 4 equalities over 20 attributes, of 1,000 values (an event
matches next to nothing) or of 10 values (10 matches per event with 100,000 subscriptions); all uniform.
"""

import functools

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.workloads.draws import Draws, Integers, zipf
from benchmarks.workloads.workload import (
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
_FEW_VALUES = 5
_FIRST, _FALL = 0.98, 0.85
_SEED, _FIXED_SEED = 1, 2


def equality(subscriptions: int, events: int) -> Workload:
    """See the module. A subscription that would test nothing is drawn again."""
    draws = Draws(_SEED, 0)
    likely = _FIRST * _FALL ** np.arange(len(ATTRIBUTES))[:, None]
    tested = draws.uniform(len(ATTRIBUTES), subscriptions) < likely
    while len(again := np.flatnonzero(~tested.any(axis=0))):
        tested[:, again] = draws.uniform(len(ATTRIBUTES), len(again)) < likely
    value = draws.among(zipf(_FEW_VALUES), len(ATTRIBUTES), subscriptions)
    terms = [
        pc.if_else(pa.array(tested[i]), text(name, " = ", integer(value[i])), None)
        for i, name in enumerate(ATTRIBUTES.to_pylist())
    ]
    events_drawn = Draws(_SEED, 1).integers(0, _FEW_VALUES, len(ATTRIBUTES), events)
    return _workload("equality", conjunction(*terms), events_drawn, tested, value)


def _fixed(subscriptions: int, events: int, *, values: int) -> Workload:
    draws = Draws(_FIXED_SEED, values, 0)
    attribute = draws.distinct(np.ones(len(ATTRIBUTES)), subscriptions, TESTS)
    constant = draws.integers(0, values, subscriptions, TESTS)
    terms = [
        text(ATTRIBUTES.take(pa.array(attribute[:, i])), " = ", integer(constant[:, i]))
        for i in range(TESTS)
    ]
    events_drawn = Draws(_FIXED_SEED, values, 1).integers(0, values, len(ATTRIBUTES), events)
    tested, (value,) = spread(attribute, len(ATTRIBUTES), constant)
    return _workload(f"equality-{values}", conjunction(*terms), events_drawn, tested, value)


equality_1000 = functools.partial(_fixed, values=1_000)
equality_10 = functools.partial(_fixed, values=10)


def _workload(
    name: str,
    filters: pa.StringArray,
    events: Integers,
    tested: npt.NDArray[np.bool_],
    value: Integers,
) -> Workload:
    attributes = ATTRIBUTES.to_pylist()
    return Workload(
        name=name,
        schema=Schema.of(dict.fromkeys(attributes, "long")),
        rows=rows_of(filters),
        events=pa.record_batch(list(events), names=attributes),
        join=lambda: join_by_first(attributes, tested, {"": value}, "{e} = {r}"),
    )
