"""Feeds as a sink: exactly once, by the number of the micro-batch.

Spark makes the text of each row. The driver collects the rows and appends them to the feed store, in one transaction
with the number. A micro-batch must fit the driver's memory; a row that many subscribers get is in it once.

Two attributes of an event are reserved for its publisher: `_position`, a number that says in which order events were
accepted, and `_time`, when the event was. They aren't shown as attributes. `_position` becomes the notification's id,
and the order in which rows of a micro-batch are kept; `_time` becomes `published`. The same is done to the events in a
digest.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import ArrayType, DataType, IntegralType, StructType, TimestampType

from penstock.base.errors import FeedError, PipelineError
from penstock.delivery.feeds.feed_rows import APPENDED, METADATA
from penstock.delivery.feeds.open_feeds import open_feeds
from penstock.delivery.notification_shape import (
    DIGEST,
    DOCUMENT,
    EVENT,
    ID,
    MESSAGE,
    POSITION,
    READERS,
)
from penstock.delivery.sinks import EXACTLY_ONCE, Batch

PUBLISHED_AT, PUBLISHED_AS = "_time", "_position"
_PUBLISHED = "published"  # when, as feeds call it
_ENTRIES = "notifications"  # of a digest
_MOMENT = "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"
_JSON = {
    "timestampFormat": _MOMENT,
    "timestampNTZFormat": _MOMENT.removesuffix("XXX"),
    "timeZone": "UTC",
}
_TOLD = (EVENT, MESSAGE, DOCUMENT, DIGEST)


@dataclass(frozen=True)
class FeedSink:
    """A feed store: `url` is a path (`feeds.db`), `sqlite:///feeds.db` or `postgresql://user@host/database`.

    It is made if it isn't there. A file must be on a disk of the machine that the driver runs on. If several pipelines
    write notifications of one kind to a store, each must have a `stream` of its own.
    """

    url: str
    stream: str = ""
    explode: ClassVar[bool] = False
    guarantee: ClassVar[str] = EXACTLY_ONCE

    def __post_init__(self) -> None:
        object.__setattr__(self, "url", str(self.url))  # a Path will do

    def __repr__(self) -> str:
        scheme, separator, _ = self.url.partition("://")
        shown = f"{scheme}://…" if separator else self.url  # a URL may hold a password
        return f"FeedSink({shown!r})"

    def check(self, spark: SparkSession, columns: Sequence[str]) -> None:
        """The store must be there, or let us make it."""
        if missing := [name for name in (ID, READERS[0]) if name not in columns]:
            raise PipelineError(
                f"feeds take notifications with lists of subscribers: these rows have no {' and no '.join(missing)}"
            )
        try:
            open_feeds(self.url).close()
        except FeedError as error:
            raise PipelineError(str(error)) from error

    def write(self, rows: DataFrame, batch: Batch) -> bool:
        with open_feeds(self.url) as store:
            done = store.progress(batch.query)
            if done is not None and batch.id <= done:
                return False
            store.append(feed_rows(rows).toArrow(), batch, self.stream)
        return True


def feed_rows(rows: DataFrame) -> DataFrame:
    """Notifications as rows of feeds (`APPENDED`), with their metadata if they carry them."""
    told = [name for name in _TOLD if name in rows.columns]
    event = _Published(F.col(EVENT), _fields(rows.schema, EVENT))
    parts = [_part(name, rows.schema, event) for name in told]
    body = F.to_json(F.struct(*parts, event.time.alias(_PUBLISHED)), _JSON)
    if MESSAGE in told:  # in a table's tuple, NULL is a value like others
        message = F.to_json(F.struct(MESSAGE), {**_JSON, "ignoreNullFields": "false"})
        body = F.when(F.col(MESSAGE).isNotNull(), message).otherwise(body)
    positions = [F.col(POSITION).cast("bigint"), event.position, _document_number(rows.schema)]
    columns = [
        F.coalesce(event.position.cast("string"), F.col(ID)),
        body,
        F.col(READERS[0]),
        F.coalesce(*positions),
    ]
    named = dict(zip(APPENDED.names, columns, strict=True))
    if METADATA.name in rows.columns:
        named[METADATA.name] = F.transform(METADATA.name, _text_unless_empty)
    return rows.select(*[column.alias(name) for name, column in named.items()])


@dataclass(frozen=True)
class _Published:
    """An event, and the position and time of its publication; NULL if it doesn't have them."""

    event: Column
    fields: Mapping[str, DataType]

    @property
    def position(self) -> Column:
        if isinstance(self.fields.get(PUBLISHED_AS), IntegralType):
            return self.event.getField(PUBLISHED_AS).cast("bigint")
        return F.lit(None).cast("bigint")

    @property
    def time(self) -> Column:
        if PUBLISHED_AT not in self.fields:
            return F.lit(None).cast("string")
        time = self.event.getField(PUBLISHED_AT)
        is_time = isinstance(self.fields[PUBLISHED_AT], TimestampType)
        return time if is_time else time.cast("string")

    @property
    def attributes(self) -> Column:
        """The event without the reserved attributes."""
        reserved = [name for name in (PUBLISHED_AS, PUBLISHED_AT) if name in self.fields]
        if not reserved:
            return self.event.alias(EVENT)
        kept = [self.event.getField(n).alias(n) for n in self.fields if n not in reserved]
        return F.when(self.event.isNotNull(), F.struct(*kept)).alias(EVENT)


def _part(name: str, schema: StructType, event: _Published) -> Column:
    if name == EVENT:
        return event.attributes
    return _digest(schema) if name == DIGEST else F.col(name)


def _digest(schema: StructType) -> Column:
    """A digest, whose entries are as in a feed: with the same ids, and without the reserved attributes."""
    kind = schema[DIGEST].dataType
    assert isinstance(kind, StructType)
    entries = kind[_ENTRIES].dataType
    assert isinstance(entries, ArrayType)
    assert isinstance(entries.elementType, StructType)
    inside = entries.elementType

    def entry(one: Column) -> Column:
        event = _Published(one.getField(EVENT), _fields(inside, EVENT))
        name = F.coalesce(event.position.cast("string"), one.getField(ID))
        told = [n for n in inside.names if n != ID]
        parts = [event.attributes if n == EVENT else one.getField(n).alias(n) for n in told]
        whole = F.concat_ws("-", name, F.col(READERS[0])[0].cast("string"))
        return F.struct(whole.alias("id"), *parts, event.time.alias(_PUBLISHED))

    kept = [F.col(DIGEST).getField(n).alias(n) for n in kind.names if n != _ENTRIES]
    told = F.transform(F.col(DIGEST).getField(_ENTRIES), entry).alias(_ENTRIES)
    return F.when(F.col(DIGEST).isNotNull(), F.struct(*kept, told)).alias(DIGEST)


def _text_unless_empty(metadata: Column) -> Column:
    return F.when(F.size(metadata) > 0, F.to_json(metadata))


def _document_number(schema: StructType) -> Column:
    """The id of a document, if it is a number."""
    if isinstance(_fields(schema, DOCUMENT).get("id"), IntegralType):
        return F.col(DOCUMENT).getField("id").cast("bigint")
    return F.lit(None).cast("bigint")


def _fields(schema: StructType, column: str) -> dict[str, DataType]:
    kind = schema[column].dataType if column in schema.names else None
    return {one.name: one.dataType for one in kind.fields} if isinstance(kind, StructType) else {}
