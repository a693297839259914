"""A workload: subscriptions, what the tables hold at first, and what happens to them from then on.

An *event* is a tuple that comes, and with it the oldest tuple of the same table goes, so that tables keep their sizes
(section 6 of the paper). So the changes of a batch stand in pairs, and a batch of n rows has n / 2 events. Stretches of
changes of one table are as long as a batch: a server that gets them singly works longer.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.base.arrays import Int64s
from penstock.joins.catalog import Catalog
from penstock.joins.changes import ChangeBatch
from penstock.joins.subscription import JoinEdge, SelectJoin, Side
from penstock.language.values import Values

DOMAIN = 100_000  # values of selection attributes are 0 to this
Random = np.random.Generator
Floats = npt.NDArray[np.float64]
Ranges = Sequence[tuple[str, str, Int64s]]
"""Table, attribute, and its range in each subscription: a row of first and last key."""


@dataclass(frozen=True, eq=False)
class Workload:
    """Subscriptions and tables, always the same ones."""

    name: str
    catalog: Catalog
    joins: Sequence[tuple[int, SelectJoin]]
    content: Sequence[ChangeBatch]
    events: Sequence[ChangeBatch]

    def batches(self, first: int, past: int, at_most: int) -> Iterator[ChangeBatch]:
        """The changes of some events, so many events at a time."""
        begin = 0
        for batch in self.events:
            here = len(batch) // 2
            for at in range(max(first, begin), min(past, begin + here), at_most):
                end = min(at + at_most, past, begin + here)
                yield part(batch, 2 * (at - begin), 2 * (end - begin))
            begin += here


def part(batch: ChangeBatch, first: int, past: int) -> ChangeBatch:
    """Some rows of a batch."""
    deleted = None if batch.deleted is None else batch.deleted[first:past]
    return ChangeBatch(batch.table, batch.rows.slice(first, past - first), deleted)


def select_joins(
    edges: Sequence[JoinEdge], ranges: Ranges, first: int = 0
) -> list[tuple[int, SelectJoin]]:
    """Select-joins with a range for each table, in the catalogue's order; their ids go up from `first`.

    >>> edge = JoinEdge("R", "S", (("b", "b"),))
    >>> ((sid, join),) = select_joins([edge], [("R", "a", np.array([[1, 5]])), ("S", "c", np.array([[2, 3]]))], 7)
    >>> sid, [(name, values.intervals) for name, values in join.sides[0].ranges]
    (7, [('a', ((1, 6),))])
    """
    used = tuple(edges)
    columns = [
        [Side(table, ((name, Values(((low, high + 1),))),)) for low, high in keys.tolist()]
        for table, name, keys in ranges
    ]
    return [
        (first + n, SelectJoin(sides, used)) for n, sides in enumerate(zip(*columns, strict=True))
    ]


def rows(columns: Mapping[str, npt.NDArray[Any]], payload: int = 0) -> pa.RecordBatch:
    """Tuples, with a payload of so many bytes in `p` if there is one."""
    arrays = {name: pa.array(column) for name, column in columns.items()}
    if payload:
        count = len(next(iter(arrays.values())))
        arrays["p"] = pa.array(["x" * payload] * count)
    return pa.RecordBatch.from_pydict(arrays)


def turnover(
    table: str, come: pa.RecordBatch, gone: Sequence[int] | Int64s, key: str = "id"
) -> ChangeBatch:
    """Tuples that come, each of which drives out the one with the next of these keys.

    >>> turnover("R", pa.RecordBatch.from_pydict({"id": [3, 4], "a": [7, 8]}), [1, 2]).rows["id"].to_pylist()
    [3, 1, 4, 2]
    """
    count = come.num_rows
    twice = come.take(pa.array(np.repeat(np.arange(count), 2)))
    ids = np.stack([come[key].to_numpy(), np.asarray(gone, np.int64)], axis=1).ravel()
    place = come.schema.get_field_index(key)
    changes = twice.set_column(place, key, pa.array(ids))
    return ChangeBatch(table, changes, np.arange(2 * count) % 2 == 1)


def normal_ranges(
    random: Random,
    count: int,
    centres: tuple[int, int],
    spread: float,
    width: int,
    width_spread: float,
    cut: bool = False,
) -> Int64s:
    """Ranges about a low or a high centre, as in Table 2: a row of first and last value each.

    A width that isn't positive is drawn again, or is 1 if widths are to be `cut`; what sticks out of the domain is cut
    off in any case.
    """
    middle = random.choice(centres, count) + random.normal(0, spread, count)
    if cut:
        half = np.maximum(random.normal(width, width_spread, count), 1) / 2
    else:
        half = positive(random, count, width, width_spread) / 2
    ends = np.stack([middle - half, middle + half], axis=1)
    found: Int64s = np.clip(np.rint(ends), 0, DOMAIN).astype(np.int64)
    return found


def positive(random: Random, count: int, mean: float, spread: float) -> Floats:
    """Normal, but never 0 or less."""
    found = random.normal(mean, spread, count)
    while len(again := np.flatnonzero(found <= 0)):
        found[again] = random.normal(mean, spread, len(again))
    return found


def in_domain(values: Floats) -> Int64s:
    """As values of a selection attribute."""
    found: Int64s = np.clip(np.rint(values), 0, DOMAIN).astype(np.int64)
    return found
