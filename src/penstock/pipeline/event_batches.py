"""Micro-batches of events: matched with the filters of a registry."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType

from penstock.base.remote_paths import AnyPath
from penstock.base.sql_names import quote_name
from penstock.delivery.notification_shape import EVENT, ID, READERS
from penstock.language import Schema
from penstock.language.signatures import Signatures
from penstock.matching import SnapshotRef, SnapshotStore
from penstock.pipeline.feedback import gather_learned
from penstock.pipeline.frames import Form, MatchWork, match_frame, snapshot_store
from penstock.pipeline.metrics import Errors
from penstock.pipeline.micro_batches import SNAPSHOTS_KEPT, MicroBatches, log
from penstock.pipeline.pins import Pin
from penstock.pipeline.running_costs import RunningCosts, cost_folder
from penstock.pipeline.sources import KEY
from penstock.registry.kinds import FILTER


@dataclass(kw_only=True)
class EventBatches(MicroBatches):
    """What is done to each micro-batch of events."""

    kind: ClassVar[str] = FILTER.name

    schema: StructType
    engine: str
    operators: Signatures
    strategy: str
    event_time: str | None
    event_id: str | None

    def _publish(self, query: str) -> tuple[SnapshotRef, Errors]:
        store = self._store(query)
        gather_learned(store)
        return store.publish(self._source(), self._event_schema())

    def _latest(self, query: str) -> SnapshotRef | None:
        return self._store(query).latest()

    def _restore(self, pin: Pin) -> None:
        store = SnapshotStore(pin.snapshot.path, self.engine)
        if (damage := store.damage(pin.snapshot)) is not None:
            log.warning("the snapshot of micro-batch %d is compiled again: %s", pin.batch, damage)
            store.restore(pin.snapshot, self._source(), self._event_schema(), pin.now)

    def _match(
        self, frame: DataFrame, pin: Pin, query: str, failures: AnyPath, *, isolate: bool
    ) -> DataFrame:
        key = event_key(self.schema, self.event_id, frame.columns, pin.batch)
        work = MatchWork(
            pin.snapshot,
            pin.now,
            Form.READERS,
            self.engine,
            self.operators,
            isolate=isolate,
            strategy=self.strategy,
            failure_folder=str(failures),
            costs=cost_folder(pin.snapshot, pin.batch),
        )
        return match_frame(frame.withColumn(KEY, key), work).select(
            _digest([F.lit(query), F.col(KEY)]).alias(ID),
            *READERS,
            F.struct(*[F.col(quote_name(name)) for name in self.schema.names]).alias(EVENT),
        )

    def _times(self) -> str | None:
        return None if self.event_time is None else f"{EVENT}.{self.event_time}"

    def _judge_costs(self, pin: Pin, counts: Mapping[str, Any] | None) -> None:
        costs: RunningCosts = self._state.kept.setdefault("costs", RunningCosts())
        events = counts["published"] if counts else 0
        self._set_aside_expensive(costs, cost_folder(pin.snapshot, pin.batch), events, pin.batch)

    def _prune_snapshots(self, query: str, needed: frozenset[int]) -> None:
        self._store(query).prune(SNAPSHOTS_KEPT, needed)

    def _store(self, query: str) -> SnapshotStore:
        root = self._snapshot_folder(query)
        return snapshot_store(root, self._source(), self._event_schema(), self.engine)

    def _event_schema(self) -> Schema:
        return Schema.of(self.schema).with_operators(self.operators)


def event_key(schema: StructType, event_id: str | None, columns: list[str], batch: int) -> Column:
    """What identifies an event: its own id, else its place at the source, else its content and micro-batch.

    The last is the same in a replay, but can't tell apart two equal events in one micro-batch.
    """
    content = F.concat_ws(
        "\x1f",
        F.lit("row"),
        F.lit(str(batch)),
        F.to_json(F.struct(*[quote_name(n) for n in schema.names])),
    )
    key = _digest([content])
    if KEY in columns:
        key = F.coalesce(F.concat(F.lit("at "), F.col(KEY)), key)
    if event_id is not None:
        key = F.coalesce(F.concat(F.lit("id "), F.col(event_id).cast("string")), key)
    return key


def _digest(parts: list[Column]) -> Column:
    """32 hexadecimal digits: 128 bits of a SHA-256."""
    return F.substring(F.sha2(F.concat_ws("\x1f", *parts), 256), 1, 32)
