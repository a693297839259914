"""One stage of the semijoins in one process: who must be sent what when tuples of a bucket change.

The subscriptions are the same for all buckets. So a process has one `Processor` for each stage, with the tuples of all
buckets that it has worked on. Buckets have no join key in common. But a tuple can be in two of them here: in the one
that it has entered, and in the one that it has left, if another process removed it there. So the bucket is part of its
key.

Before a bucket is worked on, its tuples are brought up to date with the state store (`logs`). Usually they are. If
another process has worked on the bucket, some entries of the log are read. If a micro-batch has failed, the whole
bucket is read again.

A subscription that is new to a bucket is first sent the bucket's content: its tuples are put, one table after the
other, into a processor that has the newcomers only.
"""

import gc
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from penstock.joins.axes import row_keys
from penstock.joins.catalog import Catalog, Table
from penstock.joins.changes import ChangeBatch
from penstock.joins.decompose import Decomposition
from penstock.joins.messages import TupleKey
from penstock.joins.processor import Processor
from penstock.joins.subscription import JoinEdge, SelectJoin
from penstock.language import Schema
from penstock.language.types import Kind, Scalar, Struct
from penstock.pipeline.dead_letter_files import dead_letter_of
from penstock.pipeline.joins.change_feed import DELETED
from penstock.pipeline.joins.logs import BucketLog
from penstock.pipeline.joins.notification_rows import (
    message_rows,
    positions_of,
    resets,
    with_subscribers,
)
from penstock.pipeline.joins.open_version import OpenVersion
from penstock.pipeline.joins.parcels import concatenate_rows, open_bundle, unpack_rows
from penstock.pipeline.joins.snapshots import JoinSnapshots
from penstock.pipeline.joins.stages import Stage, Stages
from penstock.pipeline.joins.tuple_stage import SEQUENCE

RowsByTable = Mapping[str, pa.RecordBatch]
"""Changes by table: rows with their sequence and whether they are deletions."""


@dataclass(frozen=True)
class OneStage(Decomposition):
    """A decomposition that keeps only the semijoins of one stage."""

    edge: JoinEdge | None = None

    def of(self, join: SelectJoin) -> tuple[tuple[str, JoinEdge | None], ...]:
        return tuple(
            (base, edge) for base, edge in Decomposition.of(self, join) if edge == self.edge
        )


@dataclass(slots=True)
class _Bucket:
    """The tuples of a bucket that the processor has: the token up to which it has read, and their keys by table."""

    token: str | None = None
    keys: dict[str, dict[TupleKey, TupleKey]] = field(default_factory=dict)


class StageWork:
    """One stage in one process."""

    def __init__(self, stages: Stages, stage: Stage, home: str) -> None:
        self.stages, self.stage = stages, stage
        self._decomposition = OneStage(edge=stage.edge)
        self._open = OpenVersion(JoinSnapshots(home), stages.catalog)
        self._catalog = _with_buckets(stages.catalog)
        self._processor = Processor(self._catalog, (), self._decomposition)
        self._mine: set[int] = set()  # the subscriptions that this stage is for
        self._set_aside: dict[int, str] = {}  # those that can't be served, with the reason
        self._buckets: dict[int, _Bucket] = {}
        self._newcomers: tuple[tuple[int, int], Processor] | None = None
        self._tested = 0  # tuples that were tested by residuals, and not reported yet

    # --- subscriptions -------------------------------------------------------------------------

    def go_to(self, version: int) -> None:
        """Serve the subscriptions of a version."""
        if not version:
            return
        come, gone = self._open.go_to(version)
        self._decomposition = OneStage(
            statistics=self._open.version.statistics, edge=self._decomposition.edge
        )
        for sid in gone:
            self._set_aside.pop(sid, None)
            if sid in self._mine:
                self._mine.discard(sid)
                self._processor.unsubscribe(sid)
        self._processor.decompose_by(self._decomposition)
        if come:
            self._subscribe(self._of_stage(come))
            # Spark's workers collect garbage after every task. Subscriptions are frozen, so the collector skips them.
            gc.freeze()

    def _subscribe(self, joins: dict[int, SelectJoin]) -> None:
        """Add subscriptions; those that can't be added are found by halving, and set aside."""
        try:
            self._processor.subscribe_all(joins)
        except Exception as error:  # noqa: BLE001  # whatever it is, the others must be served
            ids = list(joins)
            if len(ids) == 1:
                self._set_aside[ids[0]] = f"{type(error).__name__}: {error}"
                return
            for half in (ids[: len(ids) // 2], ids[len(ids) // 2 :]):
                self._subscribe({sid: joins[sid] for sid in half})
        else:
            self._mine |= joins.keys()

    def set_aside(self, since: int) -> list[str]:
        """Dead letters of subscriptions that came after a version and can't be served."""
        found = self._open.version.set_aside if self.stage.number == 0 else {}
        reasons = {sid: reason for sid, (at, reason) in found.items() if at > since}
        came = self._open.subscriptions
        reasons |= {s: reason for s, reason in self._set_aside.items() if came[s].since > since}
        return [
            dead_letter_of(f"subscription {sid} is set aside: {reason}", {"subscription": sid})
            for sid, reason in sorted(reasons.items())
        ]

    def newcomers(self, since: int) -> list[int]:
        """The subscriptions that came after a version, of all stages."""
        return [sid for sid, one in self._open.subscriptions.items() if one.since > since]

    def reset_newcomers(self, since: int, name: str) -> pa.RecordBatch | None:
        """The message that tells subscriptions that came after a version to forget what they hold."""
        return self._named(resets(self.newcomers(since), self.stages.catalog, name))

    def _named(self, rows: pa.RecordBatch | None) -> pa.RecordBatch | None:
        return None if rows is None else with_subscribers(rows, self._open.names)

    def first_content(self, since: int, log: BucketLog, name: str) -> pa.RecordBatch | None:
        """The content of a bucket with this log, for subscriptions that came after a version."""
        processor = self._processor_of_newcomers(since)
        if processor is None:  # there is no need to read the bucket
            return None
        content = merge_entries(log.since(None)[0], self.stages)
        found = processor.process(self._batches(0, content))
        rows = message_rows(found, None, self.stages.catalog, name)
        processor.restore(self._batches(0, {t: _gone(rows_) for t, rows_ in content.items()}))
        return self._named(rows)

    def _processor_of_newcomers(self, since: int) -> Processor | None:
        asked = since, self._open.version.number
        if self._newcomers is None or self._newcomers[0] != asked:
            joins = self._of_stage([sid for sid in self.newcomers(since) if sid in self._mine])
            made = Processor(self._catalog, joins, self._decomposition)
            self._newcomers = asked, made
        processor = self._newcomers[1]
        return processor if len(processor) else None

    def _of_stage(self, ids: Sequence[int]) -> dict[int, SelectJoin]:
        joins = self._open.joins(ids)
        return {sid: join for sid, join in joins.items() if self._decomposition.of(join)}

    def take_costs(self) -> tuple[int, dict[int, int]]:
        """Like `Processor.take_costs`, but nothing as long as no test was evaluated."""
        tuples, tests = self._processor.take_costs()
        self._tested += tuples
        if not tests:
            return 0, {}
        tested, self._tested = self._tested, 0
        return tested, tests

    # --- tuples --------------------------------------------------------------------------------

    def load(self, number: int, log: BucketLog) -> None:
        """Bring a bucket's tuples up to date with the state store."""
        bucket = self._buckets.pop(number, None) or _Bucket()
        entries, known = log.since(bucket.token)
        if not known:
            self._empty(number, bucket)
        for entry in entries:
            changes = read_entry(entry)
            self._processor.restore(self._batches(number, changes))
            self._note(bucket, changes)
        bucket.token = log.head.token
        self._buckets[number] = bucket

    def process(self, number: int, changes: RowsByTable, name: str) -> pa.RecordBatch | None:
        """Apply changes to a bucket that was loaded. Returns the notifications."""
        bucket = self._buckets.pop(number)  # if this fails, nothing uses it any more
        batches = self._batches(number, changes)
        found = self._processor.process(batches)
        order = list(self.stages.catalog.tables)
        ranks = [order.index(batch.table) for batch in batches]
        sequences = [changes[batch.table].column(SEQUENCE).to_numpy() for batch in batches]
        rows = message_rows(found, positions_of(ranks, sequences), self.stages.catalog, name)
        self._note(bucket, changes)
        self._buckets[number] = bucket
        return self._named(rows)

    def compare(
        self, before: RowsByTable, changes: RowsByTable, name: str
    ) -> pa.RecordBatch | None:
        """The notifications of a bucket's changes to subscribers who know it as it was. Nothing of it is kept."""
        bucket = _Bucket()
        self._processor.restore(self._batches(-1, before))
        self._note(bucket, before)
        self._buckets[-1] = bucket
        found = self.process(-1, changes, name)
        self._empty(-1, self._buckets.pop(-1))
        return found

    def note_token(self, number: int, token: str | None) -> None:
        """Note that the state store has the bucket as it is now, under this token."""
        self._buckets[number].token = token

    def _batches(self, number: int, changes: RowsByTable) -> list[ChangeBatch]:
        return [
            ChangeBatch(table, _in_bucket(number, changes[table]), _deleted(changes[table]))
            for table in self.stage.tables
            if table in changes
        ]

    def _note(self, bucket: _Bucket, changes: RowsByTable) -> None:
        for table, rows in changes.items():
            known, of = bucket.keys.setdefault(table, {}), self.stages.catalog.tables[table]
            values = zip(*[rows.column(k).to_pylist() for k in of.key], strict=True)
            changes_ = zip(row_keys(rows, of), values, _deleted(rows).tolist(), strict=True)
            for key, of_key, gone in changes_:
                if gone:
                    known.pop(key, None)
                else:
                    known[key] = of_key

    def _empty(self, number: int, bucket: _Bucket) -> None:
        for table, keys in bucket.keys.items():
            if keys:
                names = (_BUCKET, *self.stages.catalog.tables[table].key)
                rows = [dict(zip(names, (number, *key), strict=True)) for key in keys.values()]
                schema = self._catalog.tables[table].schema.to_arrow()
                batch = pa.RecordBatch.from_pylist(rows, schema=schema)
                self._processor.restore([ChangeBatch(table, batch, np.ones(len(rows), np.bool_))])
        bucket.keys = {}


_BUCKET = "bucket of the state"


def _with_buckets(catalog: Catalog) -> Catalog:
    """The core's tables, with the bucket as a part of the key."""
    return Catalog(
        tuple(
            (
                name,
                Table(
                    Schema(Struct(((_BUCKET, Scalar(Kind.INTEGER)), *table.schema.root.fields))),
                    (_BUCKET, *table.key),
                ),
            )
            for name, table in catalog.tables.items()
        ),
        catalog.edges,
    )


def _in_bucket(number: int, rows: pa.RecordBatch) -> pa.RecordBatch:
    names = [n for n in rows.schema.names if n not in (SEQUENCE, DELETED)]
    buckets = pa.array(np.full(rows.num_rows, number, np.int64))
    return pa.RecordBatch.from_arrays(
        [buckets, *[rows.column(n) for n in names]], names=[_BUCKET, *names]
    )


def _gone(rows: pa.RecordBatch) -> pa.RecordBatch:
    at = rows.schema.get_field_index(DELETED)
    return rows.set_column(at, DELETED, pa.array(np.ones(rows.num_rows, np.bool_)))


def _deleted(rows: pa.RecordBatch) -> "np.ndarray[tuple[int], np.dtype[np.bool_]]":
    return rows.column(DELETED).to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]


def read_entry(entry: bytes) -> dict[str, pa.RecordBatch]:
    """The changes of an entry of a log, by table."""
    return {table: unpack_rows(parcel) for table, parcel in open_bundle(entry).items()}


def merge_entries(entries: Sequence[bytes], stages: Stages) -> dict[str, pa.RecordBatch]:
    """The tuples that are left after all changes of some entries, as changes that put them."""
    by_table: dict[str, list[pa.RecordBatch]] = {}
    for entry in entries:
        for table, rows in read_entry(entry).items():
            by_table.setdefault(table, []).append(rows)
    found = {}
    for table, parts in by_table.items():
        rows = concatenate_rows(parts)
        last = {key: n for n, key in enumerate(row_keys(rows, stages.catalog.tables[table]))}
        gone = _deleted(rows)
        kept = np.array([n for n in last.values() if not gone[n]], np.int64)
        if len(kept):
            found[table] = rows.take(pa.array(kept))
    return found


_works: dict[tuple[str, int], StageWork] = {}
"""In this process: the stages that it has worked on."""


def work_of(stages: Stages, number: int, home: str) -> StageWork:
    """The work of a stage in this process."""
    if (home, number) not in _works:
        _works[home, number] = StageWork(stages, stages.all[number], home)
    return _works[home, number]
