"""Micro-batches of events: matched with the filters of a registry."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import StructField, StructType

from penstock.base.remote_paths import AnyPath
from penstock.base.sql_names import quote_name, quote_path
from penstock.delivery.notification_shape import EVENT, ID, NAMED_READERS, READERS
from penstock.delivery.task_rows import Batches, TaskRows
from penstock.language import Schema
from penstock.language.signatures import Signatures
from penstock.matching import SnapshotRef, SnapshotStore
from penstock.pipeline.asked_attributes import FOUND, asked_attributes, with_found
from penstock.pipeline.dead_letter_files import count_dead_letters
from penstock.pipeline.equal_keys import EqualKeys
from penstock.pipeline.feedback import gather_learned
from penstock.pipeline.frames import snapshot_store
from penstock.pipeline.match_work import Form, MatchWork, match_rows
from penstock.pipeline.metrics import Errors
from penstock.pipeline.micro_batches import SNAPSHOTS_KEPT, MicroBatches, log
from penstock.pipeline.operator_calls import read_calls
from penstock.pipeline.pins import Pin
from penstock.pipeline.running_costs import RunningCosts, cost_folder
from penstock.pipeline.sources import KEY
from penstock.pipeline.wanted_events import WantedEvents
from penstock.registry.kinds import FILTER

_IN_PART = "in-part"  # the folder for failures of workers that were handed a part of each event


@dataclass(kw_only=True)
class EventBatches(MicroBatches):
    """Delivers micro-batches of events."""

    kind: ClassVar[str] = FILTER.name

    schema: StructType
    engine: str
    operators: Signatures
    strategy: str
    event_time: str | None
    event_id: str | None
    wanted: WantedEvents | None = None  # None: all events are read

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
    ) -> TaskRows:
        work = self._work(pin, failures, isolate)
        whole = self._match_whole(frame, work, pin, query)
        if self._by_content(frame):
            return whole
        asked = asked_attributes(work, self.schema)
        if asked is None:
            return whole
        part = replace(work, failure_folder=str(failures / _IN_PART))
        return replace(
            whole, by_column=lambda: self._match_by_column(frame, part, asked, pin, query)
        )

    def _work(self, pin: Pin, failures: AnyPath, isolate: bool) -> MatchWork:
        return MatchWork(
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

    def _match_whole(self, frame: DataFrame, work: MatchWork, pin: Pin, query: str) -> TaskRows:
        """Match events that are handed to workers whole."""
        events = [quote_name(column) for column in self.schema.names]
        told = StructType([*NAMED_READERS, self._told()])
        name = f"{self._name(frame, pin, query)} AS {quote_name(KEY)}"
        rows = match_rows(frame.selectExpr(*events, name), work)
        return rows.then(_tell_apart if self._by_content(frame) else _tell, told)

    def _match_by_column(
        self, frame: DataFrame, work: MatchWork, asked: Sequence[str], pin: Pin, query: str
    ) -> DataFrame:
        """The same, but workers are handed only the attributes that filters ask for. Events that match get an id."""
        event = ", ".join(quote_name(column) for column in self.schema.names)
        readers = [f"{FOUND}.{column}" for column in READERS]
        found = with_found(frame, work, asked).where(f"size({readers[0]}) > 0")
        name = f"{self._name(frame, pin, query)} AS {ID}"
        return found.selectExpr(name, *readers, f"struct({event}) AS {EVENT}")

    def _find_failures(
        self, frame: DataFrame, pin: Pin, query: str, failures: AnyPath, *, isolate: bool
    ) -> None:
        """Match whole events again if workers failed on parts of some: a dead letter has the whole event."""
        if not count_dead_letters([failures / _IN_PART]):
            return
        work = replace(self._work(pin, failures, isolate), costs=None)  # they are counted already
        events = self._good(self._wanted(frame, pin))
        rows = self._match_whole(events, work, pin, query).frame()
        rows.write.format("noop").mode("overwrite").save()

    def _name(self, frame: DataFrame, pin: Pin, query: str) -> str:
        """The id of an event's notifications, as SQL."""
        key = event_key(self.schema, self.event_id, frame.columns, pin.batch)
        return _digest(f"'{query}'", key)

    def _by_content(self, frame: DataFrame) -> bool:
        """Whether events have neither an id nor a key of their source."""
        return self.event_id is None and KEY not in frame.columns

    def _told(self) -> StructField:
        return StructField(EVENT, self.schema)

    def _wanted(self, frame: DataFrame, pin: Pin) -> DataFrame:
        return frame if self.wanted is None else self.wanted.of(frame, pin, self.outlet.checkpoint)

    def _times(self) -> str | None:
        return self.event_time

    def _figures(self, pin: Pin, failures: AnyPath) -> dict[str, Any]:
        return {"operators": read_calls(failures)}

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


def _tell(batches: Batches) -> Iterator[pa.RecordBatch]:
    """Make notifications of events with their readers: the event becomes one column, its key the notification's id."""
    for rows in batches:
        own = [name for name in rows.schema.names if name not in (KEY, *READERS)]
        event = pa.StructArray.from_arrays([rows.column(name) for name in own], names=own)
        readers = [rows.column(name) for name in READERS]
        yield pa.RecordBatch.from_arrays(
            [rows.column(KEY), *readers, event], names=[ID, *READERS, EVENT]
        )


def _tell_apart(batches: Batches) -> Iterator[pa.RecordBatch]:
    """The same for events that only their content identifies: equal events of a task are numbered."""
    equal = EqualKeys()
    for rows in _tell(batches):
        keys = equal.number(rows.column(ID))
        yield rows if keys is None else rows.set_column(0, ID, keys)


_PLACE = (
    "CASE WHEN input_file_name() = '' THEN cast(spark_partition_id() AS string) "
    "ELSE concat_ws(' ', input_file_name(), input_file_block_start()) END"
)
"""Where an event is read: the part of a file that a task gets; without files, the task.

Parts of files are the same in a replay, whichever tasks read them, if Spark cuts large files at the same places. It
does so with the same settings on as many cores. Tasks are the same because the source makes them of the same offsets.
"""


def event_key(schema: StructType, event_id: str | None, columns: list[str], batch: int) -> str:
    """What identifies an event: its own id, else its place at the source, else its content, micro-batch and file.

    The last is the same in a replay. Equal events that it doesn't tell apart are in one task, which numbers them
    (`equal_keys`).

    It returns SQL, because column functions would take some hundred calls to the JVM in every micro-batch.
    """
    content = f"to_json(struct({', '.join(map(quote_name, schema.names))}))"
    key = _digest("'row'", f"'{batch}'", content, _PLACE)
    if KEY in columns:
        key = f"coalesce(concat('at ', {quote_name(KEY)}), {key})"
    if event_id is not None:
        key = f"coalesce(concat('id ', cast({quote_path(event_id)} AS string)), {key})"
    return key


def _digest(*parts: str) -> str:
    """32 hexadecimal digits: 128 bits of a SHA-256."""
    return f"substring(sha2(concat_ws('\x1f', {', '.join(parts)}), 256), 1, 32)"
