"""The pipelines that match what is published: one for each of the service's logs, each with a query of its own.

    published/events        ─▶ filters          ─┐
    published/tables/<T>    ─▶ select-joins      ├─▶ feeds, and the sinks beside them
    published/documents/…   ─▶ tree patterns     │
    sources beside          ─▶ …                ─┘

Records have two attributes that the inbox adds, `_position` and `_time`: the id of an event and its time.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StringType, StructField, StructType

from penstock.base.durable import make_folder
from penstock.base.locations import path_of
from penstock.delivery.delta_sink import DeltaSink
from penstock.delivery.feeds.feed_sink import FeedSink
from penstock.delivery.file_sink import FileSink
from penstock.delivery.several_sinks import SeveralSinks, SinkWhen
from penstock.delivery.sinks import Batch, Sink
from penstock.pipeline.intakes import ViewOptions, change_schema
from penstock.pipeline.metrics import BatchMetrics
from penstock.pipeline.session import is_connect
from penstock.pipeline.sources import Source
from penstock.pipeline.streaming import Pipeline
from penstock.registry import Subscriptions
from penstock.server.publishing.kafka_mover import topic_of
from penstock.server.publishing.published import DOCUMENTS, EVENTS, POSITION, TABLES, TIME
from penstock.server.setting_parts import KafkaPart
from penstock.server.settings import Settings

_MOST_FILES = "2000"  # of a micro-batch; many wait after a while without Spark
_DOCUMENT = StructType([StructField("id", StringType()), StructField("document", StringType())])


@dataclass(frozen=True)
class ReportedSink:
    """A sink that calls a function when it has written a micro-batch, before Spark commits the micro-batch."""

    sink: Sink
    written: Callable[[], object]

    @property
    def guarantee(self) -> str:
        return self.sink.guarantee

    @property
    def explode(self) -> bool:
        return self.sink.explode

    def check(self, spark: SparkSession, columns: Sequence[str]) -> None:
        self.sink.check(spark, columns)

    def write(self, rows: DataFrame, batch: Batch) -> bool | None:
        done = self.sink.write(rows, batch)
        self.written()
        return done


@dataclass(frozen=True)
class PublishedPipelines:
    """Makes the pipelines of a service from its settings, on a Spark session.

    `report` is called with the figures of each micro-batch, `written` when its notifications are in the feeds.
    """

    settings: Settings
    registry: Subscriptions
    spark: SparkSession
    trigger: str
    report: Callable[[BatchMetrics], object]
    written: Callable[[], object]

    def events(self, schema: str) -> Pipeline:
        """The pipeline of events. `schema` is Spark's DDL, position and time included."""
        pipeline = replace(self._pipeline(), events=self._source(EVENTS, schema))
        return replace(pipeline, event_id=POSITION, event_time=TIME)

    def tables(self) -> Pipeline:
        """The pipeline of the catalogue's tables. Tables whose changes come from elsewhere are read there."""
        catalog = self.registry.catalog
        assert catalog is not None, "asked before"
        elsewhere = self.settings.sources.tables
        joins = self.settings.joins
        sources = {
            table: elsewhere.get(table)
            or self._source(f"{TABLES}{table}", change_schema(catalog, table, joins))
            for table, _ in catalog.declared
        }
        return replace(self._pipeline(), tables=sources, joins=joins, digests=None)

    def documents(self, format_: str) -> Pipeline:
        """The pipeline of the documents in a format, XML or JSON."""
        views = ViewOptions(format=format_, feeding=self.settings.views.feeding)
        log = f"{DOCUMENTS}/{format_}"
        pipeline = replace(self._pipeline(), documents=self._source(log, _DOCUMENT), views=views)
        return replace(pipeline, **self._apart(format_))

    def beside(self) -> Pipeline:
        """The pipeline of events and documents that aren't published here."""
        sources = self.settings.sources
        return replace(
            self._pipeline(),
            events=sources.events,
            event_time=sources.event_time,
            event_id=sources.event_id,
            documents=sources.documents,
            views=self.settings.views,
            **self._apart("beside"),
        )

    # --- inside --------------------------------------------------------------------------------

    def _pipeline(self) -> Pipeline:
        settings = self.settings
        folder = settings.folder
        return Pipeline(
            subscriptions=self.registry,
            sink=self._sink(""),
            checkpoint=self._checkpoint("published"),
            dead_letters=FileSink(str(folder / "dead-letters"), "json"),
            trigger=self.trigger,
            digests=settings.digests,
            metadata=bool(settings.metadata),
            engine=settings.engine,
            operators=settings.operators,
            strategy=settings.strategy,
            metrics=self.report,
            name="penstock",
            spark=self.spark,
        )

    def _apart(self, name: str) -> dict[str, Any]:
        """What a pipeline needs for itself, if another pipeline has notifications of the same kind."""
        return {
            "name": f"penstock {name}",
            "checkpoint": self._checkpoint(name),
            "sink": self._sink(name),
            "dead_letters": FileSink(str(self.settings.folder / "dead-letters" / name), "json"),
        }

    def _sink(self, stream: str) -> Sink:
        feeds: Sink = FeedSink(self.settings.feeds_url, stream)
        if not is_connect(self.spark):  # with Connect, another process writes
            feeds = ReportedSink(feeds, self.written)
        beside = [placed_apart(one, stream) for one in self.settings.sinks]
        return SeveralSinks((feeds, *beside)) if beside else feeds

    def _checkpoint(self, name: str) -> str:
        return str(path_of(self.settings.checkpoint_root) / name)

    def _source(self, log: str, schema: StructType | str) -> Source:
        where = self.settings.log
        if isinstance(where, KafkaPart):
            return Source("kafka", schema=schema, options=_kafka_options(where, log))
        options = {"maxFilesPerTrigger": _MOST_FILES}
        folder = self.settings.folder / "published" / log
        make_folder(folder)  # Spark can't read a folder that doesn't exist
        return Source("json", str(folder), schema=schema, options=options)


def placed_apart(sink: Sink | SinkWhen, stream: str) -> Sink | SinkWhen:
    """A sink for one of several pipelines: a folder or table belongs to one pipeline, so this one gets a subfolder.

    >>> placed_apart(FileSink("notifications"), "xml").path
    'notifications/xml'
    """
    if isinstance(sink, SinkWhen):
        inner = placed_apart(sink.sink, stream)
        assert not isinstance(inner, SinkWhen), "a sink has one condition"
        return replace(sink, sink=inner)
    if stream and isinstance(sink, FileSink | DeltaSink):
        return replace(sink, path=f"{sink.path.rstrip('/')}/{stream}")
    return sink


def _kafka_options(part: KafkaPart, log: str) -> Mapping[str, str]:
    """Options of Spark's reader, which reads a log from its beginning, and only committed transactions."""
    return {
        "kafka.bootstrap.servers": part.servers,
        "subscribe": topic_of(part.topic, log),
        "startingOffsets": "earliest",
        "failOnDataLoss": "true",
        "kafka.isolation.level": "read_committed",
        **part.reader_options,
    }
