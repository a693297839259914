"""What a pipeline takes in: events, changes of tables, documents.

    events     ─▶ matched with filters        ─▶ sink        checkpoint/events
    tables     ─▶ joined for select-joins     ─▶ sink        checkpoint/tables
    documents  ─▶ extracted for tree patterns ─▶ sink        checkpoint/documents
    ticks      ─▶ digests that are due        ─▶ sink        checkpoint/digests

Each has a query of its own. So a burst of documents doesn't keep events waiting, and each input is replayed by itself.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, ClassVar, Protocol

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import DataType, LongType, StringType, StructField, StructType

from penstock.base.errors import PipelineError
from penstock.base.locations import path_of
from penstock.delivery.notification_shape import (
    DIGEST,
    EVENT,
    MESSAGE,
    READER_LISTS,
    NotificationShape,
)
from penstock.joins.catalog import Catalog
from penstock.matching import check_engine
from penstock.matching.subscription_rows import SubscriptionSource
from penstock.operators.define import Operators, OperatorsLike
from penstock.operators.strategies import check_strategy
from penstock.pipeline.dead_letters import Records
from penstock.pipeline.digest_batches import DigestBatches, digest_field
from penstock.pipeline.event_batches import EventBatches
from penstock.pipeline.frames import check_columns, operators_of
from penstock.pipeline.joins.change_batches import ChangeBatches
from penstock.pipeline.joins.match import JoinOptions, JoinStreams, of_no_table, split_by_table
from penstock.pipeline.joins.notification_rows import message_fields
from penstock.pipeline.metrics import Reports
from penstock.pipeline.outlets import Outlet
from penstock.pipeline.revival import RevivedQuery
from penstock.pipeline.sources import (
    CARRIERS,
    REASON,
    WHOLE_FILES,
    Source,
    event_schema,
    most_values,
    separator_of,
    source_of,
)
from penstock.pipeline.streaming_queries import RunningQuery
from penstock.pipeline.triggers import Trigger, trigger_of
from penstock.pipeline.views.document_batches import DocumentBatches, document_field
from penstock.pipeline.views.match import FORMATS, id_type
from penstock.pipeline.wanted_events import WantedEvents
from penstock.views.live_views import LiveOptions

SourceLike = Source | Mapping[str, Any] | DataFrame
Registry = SubscriptionSource | str
"""A registry, or the URL of one."""


class Intake(Protocol):
    """One of the things that a pipeline takes in, checked."""

    @property
    def name(self) -> str:
        """Its name in a pipeline's description."""
        ...

    @property
    def told(self) -> StructField:
        """The column of notifications that it fills."""
        ...

    def start(
        self, outlet: Outlet, shape: NotificationShape, registry: Registry, reports: Reports
    ) -> RunningQuery:
        """Start its query."""
        ...


@dataclass(frozen=True)
class _Stream:
    """A stream of records. `records` says how they are written, to explain bad ones; None if no record is bad."""

    frame: DataFrame
    records: Records | None

    @staticmethod
    def of(source: Source | DataFrame, spark: SparkSession) -> "_Stream":
        if isinstance(source, DataFrame):
            return _Stream(source, None)
        frame = source.read(spark)
        if REASON not in frame.columns:
            return _Stream(frame, None)
        kind = source.record if source.format in CARRIERS else source.format
        options = source.options
        schema = event_schema(frame)
        return _Stream(frame, Records(kind, schema, separator_of(options), most_values(options)))

    @staticmethod
    def of_all(source: Source | DataFrame, spark: SparkSession) -> "_Stream":
        """The same for a source that must be read as a whole."""
        if isinstance(source, Source) and source.interest:
            raise PipelineError("interest is for events: leave it out of tables and documents")
        return _Stream.of(source, spark)

    @cached_property
    def schema(self) -> StructType:
        return event_schema(self.frame)


@dataclass(frozen=True)
class EventOptions:
    """How events are matched; `Pipeline` explains each option."""

    event_time: str | None
    event_id: str | None
    engine: str
    operators: OperatorsLike
    strategy: str
    snapshots: str | None


@dataclass(frozen=True)
class EventIntake:
    """The intake of events."""

    name: ClassVar[str] = "events"

    stream: _Stream
    options: EventOptions
    operators: Operators
    wanted: WantedEvents | None

    @staticmethod
    def of(
        source: SourceLike, options: EventOptions, registry: Registry, spark: SparkSession
    ) -> "EventIntake":
        """Raises PipelineError if events can't be matched with these options."""
        check_engine(options.engine)
        check_strategy(options.strategy)
        given = options.operators is not None
        operators = Operators.of(options.operators) if given else operators_of(registry)
        operators.portable()  # workers must be able to import them
        known = source_of(source)
        stream = _Stream.of(known, spark)
        check_columns(stream.schema, READER_LISTS)
        named = [(role, getattr(options, role)) for role in ("event_time", "event_id")]
        wanted = None
        if isinstance(known, Source) and known.interest:
            wanted = WantedEvents(known)
            named += [("interest", path) for path in known.interest]
        for role, path in named:
            if path is not None and not _has(stream.schema, path):
                names = ", ".join(stream.schema.names)
                raise PipelineError(f"{role}: the events have no attribute {path!r}, only {names}")
        return EventIntake(stream, options, operators, wanted)

    @property
    def told(self) -> StructField:
        return StructField(EVENT, self.stream.schema)

    def start(
        self, outlet: Outlet, shape: NotificationShape, registry: Registry, reports: Reports
    ) -> RunningQuery:
        batches = EventBatches(
            subscriptions=registry,
            outlet=outlet,
            shape=shape,
            snapshots=self.options.snapshots,
            records=self.stream.records,
            reports=reports,
            digests=DIGEST in shape.columns(explode=False),
            schema=self.stream.schema,
            engine=self.options.engine,
            operators=self.operators.signatures,
            strategy=self.options.strategy,
            event_time=self.options.event_time,
            event_id=self.options.event_id,
            wanted=self.wanted,
        )
        return RunningQuery(outlet.start(self.stream.frame, batches))


@dataclass(frozen=True)
class TableIntake:
    """The intake of changes of tables."""

    name: ClassVar[str] = "tables"

    streams: Mapping[str, _Stream]
    catalog: Catalog
    options: JoinOptions
    refused: DataFrame | None = None  # changes that belong to no table

    @staticmethod
    def of(
        sources: Mapping[str, SourceLike] | DataFrame,
        catalog: Catalog,
        options: JoinOptions,
        spark: SparkSession,
    ) -> "TableIntake":
        """Raises PipelineError for a table that the catalogue doesn't have."""
        if isinstance(sources, DataFrame):
            together = _streaming(sources)
            frames = split_by_table(together, catalog)
            streams = {table: _Stream(frame, None) for table, frame in frames.items()}
            return TableIntake(streams, catalog, options, of_no_table(together, frames))
        tables = [name for name, _ in catalog.declared]
        if unknown := sorted(set(sources) - set(tables)):
            raise PipelineError(f"there is no table {unknown[0]!r}: there are {', '.join(tables)}")
        streams = {
            table: _Stream.of_all(source_of(source, change_schema(catalog, table, options)), spark)
            for table, source in sources.items()
        }
        return TableIntake(streams, catalog, options)

    @property
    def told(self) -> StructField:
        return StructField(MESSAGE, from_arrow_schema(pa.schema(message_fields(self.catalog))))

    def start(
        self, outlet: Outlet, shape: NotificationShape, registry: Registry, reports: Reports
    ) -> RunningQuery:
        url = registry if isinstance(registry, str) else getattr(registry, "url", None)
        if url is None:
            raise PipelineError(
                "a process of Spark's watches the registry, which can't see one in memory: open one by URL "
                "(penstock.Subscriptions.open)"
            )
        home = path_of(outlet.checkpoint) / "penstock" / "joins"
        letters = str(home / "letters")
        records = {name: one.records for name, one in self.streams.items() if one.records}
        frames = {name: one.frame for name, one in self.streams.items()}
        streams = JoinStreams(
            frames, self.catalog, self.options, records, self.refused, shape.metadata
        )
        found = streams.notifications(url, home, letters, explode=False)
        batches = ChangeBatches(outlet, shape, str(home), letters, reports)
        return RevivedQuery(outlet.start(_with_message(found, self.told), batches))


def _streaming(frame: DataFrame) -> DataFrame:
    found = source_of(frame)
    assert isinstance(found, DataFrame), "as it was given"
    return found


def change_schema(catalog: Catalog, table: str, options: JoinOptions) -> StructType:
    """The schema of a table's changes, for a source that is given without one."""
    columns: StructType = from_arrow_schema(dict(catalog.declared)[table].schema.to_arrow())
    beside = [
        StructField(options.op, StringType()),
        StructField(options.version, LongType()),
        StructField(options.before_image, columns),
    ]
    taken = set(columns.names)
    return StructType([*columns.fields, *[one for one in beside if one.name not in taken]])


def _with_message(found: DataFrame, told: StructField) -> DataFrame:
    """Notifications whose message fields are put together in one column."""
    assert isinstance(told.dataType, StructType), "made of fields"
    names = told.dataType.names
    rest = [name for name in found.columns if name not in names]
    return found.select(*rest, F.struct(*names).alias(told.name))


PLANNING = 10.0
"""Seconds that planning all views may take while documents wait."""


@dataclass(frozen=True)
class ViewOptions:
    """What documents are like, and how views are fed.

    - `document`, `id`: the columns with the texts and the ids of documents, by default `document` and `id`. In a source
      of format `binaryFile` each file is a document; the defaults are its content and its path.
    - `format`: "xml" or "json".
    - `feeding`: which views may feed which others, and what counts (`LiveOptions`). By default no view feeds another:
      in one process it is faster to extract all patterns together than to compute some from others.
    """

    document: str | None = None
    id: str | None = None
    format: str = "xml"
    feeding: LiveOptions = field(
        default_factory=lambda: LiveOptions(plan="direct", seconds=PLANNING)
    )


_DOCUMENT_SCHEMA = StructType(
    [StructField("id", StringType()), StructField("document", StringType())]
)


@dataclass(frozen=True)
class DocumentIntake:
    """The intake of documents."""

    name: ClassVar[str] = "documents"

    stream: _Stream
    document: str
    id: str
    id_type: DataType
    options: ViewOptions
    snapshots: str | None

    @staticmethod
    def of(
        given: SourceLike, options: ViewOptions, snapshots: str | None, spark: SparkSession
    ) -> "DocumentIntake":
        """Raises PipelineError or SchemaError if these aren't documents."""
        if options.format not in FORMATS:
            raise PipelineError(f"documents are 'xml' or 'json', not {options.format!r}")
        source = source_of(given, _DOCUMENT_SCHEMA)
        are_files = isinstance(source, Source) and source.format == WHOLE_FILES
        document = options.document or ("content" if are_files else "document")
        called = options.id or ("path" if are_files else "id")
        stream = _Stream.of_all(source, spark)
        of_ids = id_type(stream.schema, document, called)
        return DocumentIntake(stream, document, called, of_ids, options, snapshots)

    @property
    def told(self) -> StructField:
        return document_field(self.id_type)

    def start(
        self, outlet: Outlet, shape: NotificationShape, registry: Registry, reports: Reports
    ) -> RunningQuery:
        batches = DocumentBatches(
            subscriptions=registry,
            outlet=outlet,
            shape=shape,
            snapshots=self.snapshots,
            records=self.stream.records,
            reports=reports,
            digests=DIGEST in shape.columns(explode=False),
            document=self.document,
            id=self.id,
            id_type=self.id_type,
            format=self.options.format,
            options=self.options.feeding,
        )
        return RunningQuery(outlet.start(self.stream.frame, batches))


@dataclass(frozen=True)
class DigestIntake:
    """Ticks, at which digests are sent. `gathering` has the columns of the intakes that gather for them, by name."""

    name: ClassVar[str] = "digests"

    gathering: Mapping[str, StructField]
    trigger: Trigger
    spark: SparkSession

    @staticmethod
    def of(every: str, others: Sequence[Intake], spark: SparkSession) -> "DigestIntake":
        """Raises PipelineError if no intake gathers for digests, or if `every` isn't an interval."""
        trigger = trigger_of(every)
        gathering = {one.name: one.told for one in others if not isinstance(one, TableIntake)}
        if not gathering:
            raise PipelineError(
                "digests: there are none of select-joins; give events or documents, too"
            )
        if trigger.milliseconds is None:
            raise PipelineError(
                "digests: say how often to look for digests that are due, such as '1 minute'"
            )
        return DigestIntake(gathering, trigger, spark)

    @property
    def told(self) -> StructField:
        return digest_field(tuple(self.gathering.values()))

    def start(
        self, outlet: Outlet, shape: NotificationShape, registry: Registry, reports: Reports
    ) -> RunningQuery:
        folder = path_of(outlet.checkpoint).parent
        inputs = {name: (str(folder / name), told) for name, told in self.gathering.items()}
        batches = DigestBatches(outlet, shape, inputs, reports)
        ticks = self.spark.readStream.format(_TICKS).option("rowsPerBatch", 1)
        if outlet.trigger.milliseconds is not None:  # else ticks end with the pipeline
            outlet = replace(outlet, trigger=self.trigger)
        return TickingQuery(outlet.start(ticks.option("numPartitions", 1).load(), batches))


_TICKS = "rate-micro-batch"  # a source of Spark's that always has something new


class TickingQuery(RunningQuery):
    """A query whose source always has more."""

    def process_available(self) -> None:
        """Wait for the end of a tick that begins after this moment."""
        asked = datetime.now(UTC)
        while self.is_active:
            last = self.query.lastProgress
            if last is not None and datetime.fromisoformat(last["timestamp"]) >= asked:
                return
            time.sleep(_LOOK)
        super().process_available()


_LOOK = 0.02  # seconds between two looks for a tick


def _has(schema: StructType, path: str) -> bool:
    inside: Any = schema
    for step in path.split("."):
        if not isinstance(inside, StructType) or step not in inside.names:
            return False
        inside = inside[step].dataType
    return True
