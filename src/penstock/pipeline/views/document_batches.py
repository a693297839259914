"""Micro-batches of documents, of which the tree patterns of a registry are views."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import ArrayType, DataType, StringType, StructField, StructType

from penstock.base.durable import delete_folder
from penstock.base.durations import utc_now
from penstock.base.errors import SnapshotError
from penstock.base.locations import path_of
from penstock.base.remote_paths import AnyPath
from penstock.base.sql_names import quote_name
from penstock.delivery.notification_shape import DOCUMENT, ID, NAMED_READERS, READERS
from penstock.delivery.task_rows import TaskRows
from penstock.matching import SnapshotRef
from penstock.pipeline.metrics import Errors
from penstock.pipeline.micro_batches import SNAPSHOTS_KEPT, MicroBatches, log
from penstock.pipeline.pins import Pin
from penstock.pipeline.running_costs import FOR_A_NODE, RunningCosts, cost_folder
from penstock.pipeline.sources import KEY
from penstock.pipeline.views.levels import levels_in
from penstock.pipeline.views.match import ViewWork, choose_columns
from penstock.pipeline.views.snapshots import (
    ViewPublisher,
    ViewSnapshots,
    open_views,
    read_patterns,
)
from penstock.registry.kinds import TREE_PATTERN
from penstock.views.live_views import LiveOptions, LiveViews


@dataclass(kw_only=True)
class DocumentBatches(MicroBatches):
    """Delivers micro-batches of documents."""

    kind: ClassVar[str] = TREE_PATTERN.name

    document: str  # the column with the texts of documents
    id: str  # the column with their ids
    id_type: DataType
    format: str
    options: LiveOptions

    def _publish(self, query: str) -> tuple[SnapshotRef, Errors]:
        publisher = self._state.kept.get("publisher")
        if publisher is None:
            publisher = self._state.kept["publisher"] = ViewPublisher(
                self._store(query), self.options
            )
        found: tuple[SnapshotRef, Errors] = publisher.publish(self._source().patterns, utc_now())
        return found

    def _latest(self, query: str) -> SnapshotRef | None:
        return self._store(query).latest()

    def _restore(self, pin: Pin) -> None:
        store = ViewSnapshots(pin.snapshot.path)
        if (damage := store.damage(pin.snapshot)) is None:
            return
        source = self._source().patterns
        if source.sequence() != pin.snapshot.sequence:
            raise SnapshotError(
                f"micro-batch {pin.batch} can't be replayed: {damage}; the registry has changed since"
            )
        log.warning("the snapshot of micro-batch %d is made again: %s", pin.batch, damage)
        patterns, _, _ = read_patterns(source, pin.now)
        views = LiveViews(LiveOptions(plan="direct"))  # every plan gives the same tuples
        refused = views.update({sid: one.text for sid, one in patterns.items()}, ())
        served = {sid: one for sid, one in patterns.items() if sid not in refused}
        store.restore(pin.snapshot, served, views.plan())

    def _match(
        self, frame: DataFrame, pin: Pin, query: str, failures: AnyPath, *, isolate: bool
    ) -> TaskRows:
        work = _DocumentWork(
            format=self.format,
            levels=str(_level_folder(pin)),
            letters=str(failures),
            costs=cost_folder(pin.snapshot, pin.batch),
            ref=pin.snapshot,
        )
        name = self._name(frame, pin, query).alias("name")
        records = choose_columns(frame, self.document, self.id, name)
        told = StructType([*NAMED_READERS, self._told()])
        return TaskRows(records, work.run, told)

    def _told(self) -> StructField:
        return document_field(self.id_type)

    def _name(self, frame: DataFrame, pin: Pin, query: str) -> Column:
        """The id of a document's notifications: from its place at the source, else from its content and micro-batch."""
        if KEY in frame.columns:
            place = [F.col(KEY)]
        else:
            content = F.sha2(F.col(quote_name(self.document)).cast("binary"), 256)
            place = [F.lit(str(pin.batch)), F.col(quote_name(self.id)).cast("string"), content]
        return F.substring(F.sha2(F.concat_ws("\x1f", F.lit(query), *place), 256), 1, 32)

    def _judge_costs(self, pin: Pin, counts: Mapping[str, Any] | None) -> None:
        costs: RunningCosts = self._state.kept.setdefault("costs", RunningCosts(unit=FOR_A_NODE))
        self._set_aside_expensive(costs, cost_folder(pin.snapshot, pin.batch), None, pin.batch)

    def _figures(self, pin: Pin, failures: AnyPath) -> dict[str, Any]:
        folder = _level_folder(pin)
        found = levels_in(folder)
        delete_folder(folder)
        return {"levels": tuple(asdict(level) for level in found)}

    def _prune_snapshots(self, query: str, needed: frozenset[int]) -> None:
        self._store(query).prune(SNAPSHOTS_KEPT, needed)

    def _store(self, query: str) -> ViewSnapshots:
        return ViewSnapshots(self._snapshot_folder(query))


def document_field(id_type: DataType) -> StructField:
    """The column of notifications that is for tree patterns."""
    tuples = StructField("tuples", ArrayType(ArrayType(StringType())))
    return StructField(DOCUMENT, StructType([StructField("id", id_type), tuples]))


def _level_folder(pin: Pin) -> AnyPath:
    """The folder to which workers write the figures of levels in a micro-batch."""
    return path_of(pin.snapshot.path) / "levels" / str(pin.batch)


@dataclass(frozen=True)
class _DocumentWork(ViewWork):
    """What a worker does with documents. Its batches have a column `name` beside `id` and `text`."""

    ref: SnapshotRef

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        network, names = open_views(self.ref)
        for rows in self.work(network, batches):
            views = rows.column("views")
            told = pa.StructArray.from_arrays(
                [rows.column("id"), rows.column("tuples")], names=["id", "tuples"]
            )
            yield pa.RecordBatch.from_arrays(
                [rows.column(ID), views, names.lists(views), told],
                names=[ID, *READERS, DOCUMENT],
            )

    def _names(self, batch: pa.RecordBatch) -> pa.Array:
        return batch.column("name")
