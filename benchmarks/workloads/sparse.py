"""`sparse`: 500 attributes, of which an event carries 20 and a subscription tests 3.

Some attributes are more popular than others, with both: the weight of an attribute falls with the root of its rank. A
test is an equality or a range (1 : 2), on small integers; a range is a quarter to three quarters of the values.
"""

import itertools

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.workloads.draws import Draws, Integers, zipf
from benchmarks.workloads.workload import (
    Join,
    Workload,
    conjunction,
    integer,
    names,
    rows_of,
    text,
)
from penstock.language import Schema

ATTRIBUTES = names("a", 500)
CARRIED = 20
TESTS = 3
VALUES = 20
_EQUALITIES = 1 / 3
_WEIGHTS = zipf(len(ATTRIBUTES), 0.5)
_SEED = 6


def sparse(subscriptions: int, events: int) -> Workload:
    """See the module."""
    draws = Draws(_SEED, 0)
    attribute = draws.distinct(_WEIGHTS, subscriptions, TESTS)
    is_equality = draws.uniform(subscriptions, TESTS) < _EQUALITIES
    width = np.where(
        is_equality, 1, draws.integers(VALUES // 4, VALUES * 3 // 4, subscriptions, TESTS)
    )
    low = (draws.uniform(subscriptions, TESTS) * (VALUES - width + 1)).astype(np.int64)
    high = low + width - 1
    terms = [_test(attribute[:, i], is_equality[:, i], low[:, i], high[:, i]) for i in range(TESTS)]
    attributes = ATTRIBUTES.to_pylist()
    return Workload(
        name="sparse",
        schema=Schema.of(dict.fromkeys(attributes, "long")),
        rows=rows_of(conjunction(*terms)),
        events=_events(events),
        join=lambda: _join(attribute, low, high),
    )


def _test(
    attribute: Integers, is_equality: npt.NDArray[np.bool_], low: Integers, high: Integers
) -> pa.StringArray:
    name, value = ATTRIBUTES.take(pa.array(attribute)), integer(low)
    between = text(name, " BETWEEN ", value, " AND ", integer(high))
    return pc.if_else(pa.array(is_equality), text(name, " = ", value), between)


def _events(count: int) -> pa.RecordBatch:
    draws = Draws(_SEED, 1)
    carried = draws.distinct(_WEIGHTS, count, CARRIED)
    value = draws.integers(0, VALUES, count, CARRIED)
    # Sorted by attribute, an attribute's events are one run, which is scattered into its column.
    order = np.argsort(carried, axis=None, kind="stable")
    event, found = order // CARRIED, value.reshape(-1)[order]
    ends = np.searchsorted(carried.reshape(-1)[order], np.arange(len(ATTRIBUTES) + 1))
    columns = []
    for start, end in itertools.pairwise(ends):
        column = np.zeros(count, np.int64)
        missing = np.ones(count, np.bool_)
        column[event[start:end]] = found[start:end]
        missing[event[start:end]] = False
        columns.append(pa.array(column, mask=missing))
    return pa.record_batch(columns, names=ATTRIBUTES.to_pylist())


# --- the join -----------------------------------------------------------------------------------


def _join(attribute: Integers, low: Integers, high: Integers) -> Join:
    """A table of 500 columns can't be joined on "the column that the rule names". Who has such events in a database
    keeps them by attribute: a row for each value that an event carries. Each rule is then looked for three times."""
    rules = pa.table(
        {
            f"{name}{test}": column[:, test]
            for test in range(TESTS)
            for name, column in (("attribute", attribute), ("low", low), ("high", high))
        }
    )
    joins = [
        f"JOIN events e{test} ON e{test}.event = e0.event AND e{test}.attribute = r.attribute{test} "
        f"AND e{test}.value BETWEEN r.low{test} AND r.high{test}"
        for test in range(1, TESTS)
    ]
    query = (
        "SELECT /*+ BROADCAST(r) */ count(*) AS n FROM events e0 JOIN rules r "
        f"ON e0.attribute = r.attribute0 AND e0.value BETWEEN r.low0 AND r.high0 {' '.join(joins)}"
    )
    return Join({"rules": rules}, query, _by_attribute)


def _by_attribute(events: pa.RecordBatch) -> pa.Table:
    parts = []
    for number, column in enumerate(events.columns):
        event = np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False))
        attribute = np.full(len(event), number)
        value = column.drop_null().to_numpy()
        parts.append(pa.table({"event": event, "attribute": attribute, "value": value}))
    return pa.concat_tables(parts).combine_chunks()
