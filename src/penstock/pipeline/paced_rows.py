"""Finds, counts and holds back paced subscriptions in the rows that tasks make. All in Arrow.

    notifications ─▶ ArrivalWork ─▶ the first of each paced subscription, and how many there are     to the driver
                 └─▶ HoldWork ────▶ the same rows without the subscriptions that don't get them      to the sink

The order in which notifications arrive is defined so that it is the same in a replay: by the time of the event if the
pipeline knows it, then by id. Of each subscription only as many are kept as may go out. So paces, not events, bound
what a task holds.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.base.arrays import Bools, Int64s
from penstock.delivery.notification_shape import ID, READER, READERS
from penstock.delivery.task_rows import Batches

TIME, COUNT = "arrival_time", "count"
_TOGETHER = 1 << 16  # rows beyond which all but the first of each subscription are dropped

Ids = frozenset[str]


@dataclass(frozen=True, eq=False)
class ArrivalWork:
    """What a task does to find the arrivals of paced subscriptions, in rows of notifications that also have `TIME`.

    `most`: how many arrivals are wanted, by subscription. `told`: the column that says what a subscriber is told; it is
    kept for subscriptions in `digests` only.
    """

    most: Mapping[int, int]
    digests: frozenset[int]
    told: str

    def run(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        paced = np.array(sorted(self.most), np.int64)
        kept: list[pa.Table] = []
        size = 0
        for rows in batches:
            hits = _hits(rows, paced)
            if not hits.any():
                continue
            kept.append(self._arrivals(rows, hits))
            size += len(kept[-1])
            if size > _TOGETHER:
                kept = [first_arrivals(pa.concat_tables(kept), self.most)]
                size = len(kept[0])
        if kept:
            yield from first_arrivals(pa.concat_tables(kept), self.most).to_batches()

    def _arrivals(self, rows: pa.RecordBatch, hits: Bools) -> pa.Table:
        lists = rows.column(READERS[0])
        ids = lists.flatten().filter(pa.array(hits))
        place = _parents(lists)[hits]
        for_digests = np.isin(np.asarray(ids), list(self.digests))
        told = rows.column(self.told).take(pa.array(place, mask=~for_digests))
        return pa.table(
            {
                READER[0]: ids,
                READER[1]: rows.column(READERS[1]).flatten().filter(pa.array(hits)),
                TIME: rows.column(TIME).take(pa.array(place)),
                ID: rows.column(ID).take(pa.array(place)),
                self.told: told,
                COUNT: np.ones(len(ids), np.int64),
            }
        )


def first_arrivals(arrivals: pa.Table, most: Mapping[int, int]) -> pa.Table:
    """The first arrivals of each subscription, in order. The first row of each also counts those that were dropped."""
    order = [(READER[0], "ascending"), (TIME, "ascending"), (ID, "ascending")]
    arrivals = arrivals.take(pc.sort_indices(arrivals, sort_keys=order))
    ids = arrivals.column(READER[0]).to_numpy()
    begins = np.flatnonzero(np.diff(ids, prepend=ids[:1] - 1)) if len(ids) else np.empty(0, int)
    sizes = np.diff(begins, append=len(ids))
    rank = np.arange(len(ids)) - np.repeat(begins, sizes)
    counts = np.zeros(len(ids), np.int64)
    if len(ids):
        counts[begins] = np.add.reduceat(arrivals.column(COUNT).to_numpy(), begins)
    limits = np.repeat([most[sid] for sid in ids[begins].tolist()], sizes)
    place = arrivals.column_names.index(COUNT)
    counted = arrivals.set_column(place, COUNT, pa.array(counts))
    return counted.filter(pa.array(rank < np.maximum(limits, 1)))


@dataclass(frozen=True, eq=False)
class HoldWork:
    """What a task does to drop paced subscriptions from rows of notifications that they don't get.

    `through` has all paced subscriptions, with the ids of the notifications that they get.
    """

    through: Mapping[int, Ids]

    def run(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        paced = np.array(sorted(self.through), np.int64)
        for rows in batches:
            hits = _hits(rows, paced)
            if hits.any():
                rows = self._without(rows, hits)
            if rows.num_rows:
                yield rows

    def _without(self, rows: pa.RecordBatch, hits: Bools) -> pa.RecordBatch:
        lists = rows.column(READERS[0])
        ids = lists.flatten()
        place = _parents(lists)
        names = rows.column(ID)
        kept = ~hits
        for at in np.flatnonzero(hits).tolist():
            kept[at] = names[int(place[at])].as_py() in self.through[ids[at].as_py()]
        sizes = np.bincount(place[kept], minlength=rows.num_rows)
        offsets = pa.array(np.append(0, np.cumsum(sizes)).astype(np.int32))
        for name in READERS:
            at = rows.schema.names.index(name)
            column = rows.column(name).flatten().filter(pa.array(kept))
            rows = rows.set_column(at, name, pa.ListArray.from_arrays(offsets, column))
        return rows.filter(pa.array(sizes > 0))


def _parents(lists: pa.ListArray) -> Int64s:
    """The row of each element."""
    return np.repeat(np.arange(len(lists)), np.asarray(pc.list_value_length(lists)))


def _hits(rows: pa.RecordBatch, paced: Int64s) -> Bools:
    """For the subscriptions of all rows, one after the other: whether it is paced. `paced` is sorted."""
    ids = np.asarray(rows.column(READERS[0]).flatten())
    at = np.minimum(np.searchsorted(paced, ids), len(paced) - 1)
    found: Bools = paced[at] == ids
    return found
