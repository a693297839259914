"""Compares two versions of the tables, and sends what subscribers lack who know the first one. No state, no stream.

Every tuple goes to one bucket of each edge of its table, marked with its version. A bucket takes in the first version
without sending anything. Then it applies the differences, deletions first, table by table, as the streaming stages do.
"""

import functools
import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from penstock.base.durations import utc_now
from penstock.base.errors import SchemaError
from penstock.base.locations import path_of
from penstock.base.remote_paths import AnyPath
from penstock.base.sql_names import quote_name
from penstock.joins.axes import row_keys
from penstock.pipeline.frames import scratch_folder
from penstock.pipeline.joins.change_feed import DELETED, parcel_rows
from penstock.pipeline.joins.following import Publisher, misfits
from penstock.pipeline.joins.notification_rows import (
    explode_notifications,
    notification_schema,
    spark_schema,
)
from penstock.pipeline.joins.parcels import (
    buckets_of,
    concatenate_rows,
    pack_rows,
    split_by_bucket,
    unpack_rows,
)
from penstock.pipeline.joins.registry_source import ROW
from penstock.pipeline.joins.snapshots import JoinSnapshots
from penstock.pipeline.joins.spread import by_bucket
from penstock.pipeline.joins.stage_work import work_of
from penstock.pipeline.joins.stages import Stages
from penstock.pipeline.joins.tuple_stage import SEQUENCE
from penstock.registry import Subscriptions

if TYPE_CHECKING:
    from penstock.joins.catalog import Table

log = logging.getLogger("penstock.pipeline")

_BEFORE, _AFTER = "before", "after"
_MARK = " "  # between the version and the name of the table


def compare_versions(
    after: Mapping[str, DataFrame],
    before: Mapping[str, DataFrame],
    subscriptions: Subscriptions | str,
    stages: Stages,
    explode: bool,
    snapshots: str | Path | None,
) -> DataFrame:
    """The notifications that lead from one version of the tables to another."""
    home, version = _published(subscriptions, stages, snapshots)
    parcels = []
    for mark, frames in ((_BEFORE, before), (_AFTER, after)):
        for name, frame in frames.items():
            table = dict(stages.catalog.declared).get(name)
            if table is None:
                raise SchemaError(f"there is no table {name!r}")
            missing = [column for column in table.columns if column not in frame.schema.names]
            if missing:
                raise SchemaError(f"{name} has no column {missing[0]!r}")
            columns = [F.col(quote_name(column)) for column in table.columns]
            sorter = _Sorter(stages, name, mark)
            parcels.append(frame.select(*columns).mapInArrow(sorter.run, ROW))
    together = functools.reduce(DataFrame.union, parcels)
    compare = _Compare(stages, str(home), version, explode)

    def run(key: tuple[pa.Scalar, ...], rows: pa.Table) -> pa.Table:
        return compare.run(key, rows)

    return by_bucket(together, stages).applyInArrow(run, spark_schema(stages.catalog, explode))


def _published(
    subscriptions: Subscriptions | str, stages: Stages, snapshots: str | Path | None
) -> tuple[AnyPath, int]:
    if isinstance(subscriptions, str):
        with Subscriptions.open(subscriptions, create=False) as opened:
            return _published(opened, stages, snapshots)
    root = scratch_folder(subscriptions) if snapshots is None else path_of(snapshots).absolute()
    home = root / "select-joins"
    publisher = Publisher(
        JoinSnapshots(home), subscriptions.selects, lambda texts: misfits(texts, stages), utc_now
    )
    version = publisher.publish().number
    for sid, reason in publisher.misfits.items():
        log.warning("subscription %d is set aside: %s", sid, reason)
    return home, version


@dataclass(frozen=True)
class _Sorter:
    """Sorts the tuples of a declared table into the buckets of its stages."""

    stages: Stages
    name: str
    mark: str

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        table = dict(self.stages.catalog.declared)[self.name]
        schema = table.schema.to_arrow()
        for batch in batches:
            arrays = [batch.column(field.name).cast(field.type) for field in schema]
            yield parcel_rows(
                list(self._parcels(pa.RecordBatch.from_arrays(arrays, schema=schema)))
            )

    def _parcels(self, rows: pa.RecordBatch) -> Iterator[tuple[int, int, str, bytes]]:
        for part in self.stages.parts[self.name]:
            table = self.stages.catalog.tables[part]
            own = rows.select(list(table.columns))
            for name in table.key:
                if own.column(name).null_count:
                    raise SchemaError(f"a tuple of {self.name} has NULL in its key {name!r}")
            for stage in self.stages.of(part):
                by = stage.bucket_attributes(part, self.stages.catalog)
                buckets = buckets_of(own, table, by, self.stages.buckets)
                for bucket, some in split_by_bucket(own, buckets):
                    yield stage.number, bucket, f"{self.mark}{_MARK}{part}", pack_rows(some)


@dataclass(frozen=True)
class _Compare:
    """Works on one bucket: from its tuples before and after to notifications."""

    stages: Stages
    home: str
    version: int
    explode: bool

    def run(self, key: tuple[Any, ...], rows: pa.Table) -> pa.Table:
        number, bucket = key[0].as_py(), key[1].as_py()
        found: dict[str, list[pa.RecordBatch]] = {}
        for mark, parcel in zip(
            rows.column("table").to_pylist(), rows.column("parcel").to_pylist(), strict=True
        ):
            found.setdefault(mark, []).append(unpack_rows(parcel))
        work = work_of(self.stages, number, self.home)
        work.go_to(self.version)
        before = {t: _marked(concatenate_rows(p), 0) for t, p in _of_version(found, _BEFORE)}
        changes = {}
        for table in self.stages.all[number].tables:
            after = found.get(f"{_AFTER}{_MARK}{table}")
            changed = _difference(
                before.get(table),
                None if after is None else _marked(concatenate_rows(after), _COMES),
                self.stages.catalog.tables[table],
            )
            if changed is not None:
                changes[table] = changed
        sent = work.compare(before, changes, f"{number}.{bucket}")
        schema = notification_schema(self.stages.catalog, self.explode)
        if sent is None:
            return schema.empty_table()
        rows = explode_notifications(sent) if self.explode else sent
        return pa.Table.from_batches([rows]).cast(schema)


def _of_version(
    found: Mapping[str, list[pa.RecordBatch]], version: str
) -> Iterator[tuple[str, list[pa.RecordBatch]]]:
    for mark, parts in found.items():
        which, _, table = mark.partition(_MARK)
        if which == version:
            yield table, parts


_COMES = 1 << 40


def _marked(rows: pa.RecordBatch, sequence: int, deleted: bool = False) -> pa.RecordBatch:
    """Rows as changes. In all buckets, deletions have lower numbers than tuples that come."""
    count = rows.num_rows
    return pa.RecordBatch.from_arrays(
        [
            pa.array(sequence + np.arange(count)),
            pa.array(np.full(count, deleted, np.bool_)),
            *rows.columns,
        ],
        names=[SEQUENCE, DELETED, *rows.schema.names],
    )


def _difference(
    before: pa.RecordBatch | None, after: pa.RecordBatch | None, table: "Table"
) -> pa.RecordBatch | None:
    """Changes that lead from one to the other: deletions, then tuples that are new or perhaps different."""
    there = set() if after is None else set(row_keys(after, table))
    parts = []
    if before is not None:
        keys = row_keys(before, table)
        gone = np.array([n for n, key in enumerate(keys) if key not in there], np.int64)
        if len(gone):
            rows = before.take(pa.array(gone)).select(before.schema.names[2:])
            parts.append(_marked(rows, 0, deleted=True))
    if after is not None:
        parts.append(after)
    return concatenate_rows(parts) if parts else None
