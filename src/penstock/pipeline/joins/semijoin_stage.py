"""The second stage: what changes of tuples mean to subscribers, edge by edge and bucket by bucket.

A bucket is visited with what its micro-batch has for it: changes, and perhaps a new version of the subscriptions.
`stage_work` computes what that means to subscribers. This module decides in which order things are done, and what the
state store keeps of the bucket (`logs`).

    new version ─▶ dead letters of subscriptions that can't be served, resets of newcomers    by one bucket for all
                └▶ newcomers are sent the bucket's content
    changes     ─▶ who must be sent what ─▶ the bucket's log
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Row

from penstock.base.locations import path_of
from penstock.pipeline.dead_letter_files import write_dead_letters
from penstock.pipeline.joins.logs import BucketLog
from penstock.pipeline.joins.parcels import (
    bundle_parcels,
    concatenate_rows,
    pack_rows,
    unpack_rows,
)
from penstock.pipeline.joins.stage_work import RowsByTable, StageWork, merge_entries, work_of
from penstock.pipeline.joins.stages import COSTS, Stages
from penstock.pipeline.joins.tuple_stage import SEQUENCE
from penstock.pipeline.running_costs import leave_counts
from penstock.pipeline.task_files import batch_folder


class SemijoinStage:
    """The stage: its buckets are those of edges, and of tables that are selected alone."""

    def __init__(self, stages: Stages, home: str, letters: str) -> None:
        self._stages, self._home, self._letters = stages, home, letters
        self._works: set[StageWork] = set()  # of this task

    def visit(self, number: int, bucket: int, rows: Iterator[Any], log: BucketLog) -> Iterator[Row]:
        """Notifications, as parcels."""
        version = None
        parcels: dict[str, list[bytes]] = {}
        for row in rows:
            if row.table is None:
                version = int(bytes(row.parcel))
            else:
                parcels.setdefault(row.table, []).append(bytes(row.parcel))
        # Parcels come in any order. They have no tuple in common, but a replay must send the same.
        changes = {
            t: in_sequence([unpack_rows(p) for p in sorted(ps)]) for t, ps in parcels.items()
        }
        for found in self._visited(number, bucket, version, changes, log):
            yield Row(stage=number, bucket=bucket, table="", parcel=pack_rows(found))

    def _visited(
        self, number: int, bucket: int, version: int | None, changes: RowsByTable, log: BucketLog
    ) -> Iterator[pa.RecordBatch]:
        work = work_of(self._stages, number, self._home)
        self._works.add(work)
        served = log.head.version
        name = f"{number}.{bucket}.{log.head.visits}"
        log.head.version = version or served
        work.go_to(log.head.version)
        if version is not None and not bucket:  # one bucket does it for all
            letters = work.set_aside(served)
            if letters:
                write_dead_letters(path_of(self._letters), f"subscriptions-{number}", letters)
            forget = None if number else work.reset_newcomers(served, name)
            if forget is not None:
                yield forget
        if version is not None and served and version > served and log.head.entries:
            first = work.first_content(served, log, f"{name}-0")
            if first is not None:
                yield first
        if changes:
            work.load(bucket, log)
            found = work.process(bucket, changes, f"{name}-1")
            count = sum(rows.num_rows for rows in changes.values())
            entry = bundle_parcels({table: pack_rows(rows) for table, rows in changes.items()})
            log.append(entry, count, lambda: self._merged(log))
            work.note_token(bucket, log.head.token)
            if found is not None:
                yield found
        log.close()

    def end_task(self) -> None:
        """Write down the costs of subscriptions (`running_costs`)."""
        tuples, tests = 0, Counter[int]()
        for work in self._works:
            tested, of_work = work.take_costs()
            tuples += tested
            tests.update(of_work)
        if tests:
            leave_counts(batch_folder(path_of(self._home) / COSTS), tuples, tests)

    def _merged(self, log: BucketLog) -> tuple[bytes, int]:
        content = merge_entries(log.since(None)[0], self._stages)
        return (
            bundle_parcels({table: pack_rows(rows) for table, rows in content.items()}),
            sum(rows.num_rows for rows in content.values()),
        )


def in_sequence(parcels: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Changes of a bucket that come from several buckets of the stage before, in the order of their numbers."""
    rows = concatenate_rows(parcels)
    if len(parcels) == 1:
        return rows
    order = np.argsort(rows.column(SEQUENCE).to_numpy(), kind="stable")
    return rows.take(pa.array(order))
