"""Feeds as a sink: exactly once, by the number of the micro-batch.

Spark makes the text of each row, the driver collects them and appends them to the feed store, in one transaction with
the number. A micro-batch must fit the driver's memory; what many subscribers get is in it once.

Two attributes of an event are reserved for who publishes it: `_position`, a number that says in which order events were
accepted, and `_time`, when that was. They aren't shown as attributes. `_position` is the notification's id, and the
order in which rows of a micro-batch are kept; `_time` becomes `published`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import DataType, IntegralType, StructType, TimestampType

from penstock.base.errors import FeedError, PipelineError
from penstock.delivery.feeds.feed_rows import APPENDED
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

    It is made if it isn't there. A file must be on a disk of the machine that the driver runs on. Pipelines that write
    to one store have different names as `stream`, unless their notifications are of different kinds.
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
    """Notifications as rows of feeds (`APPENDED`)."""
    told = [name for name in _TOLD if name in rows.columns]
    number, published = _reserved(rows.schema)
    parts = [_without_reserved(rows.schema) if name == EVENT else F.col(name) for name in told]
    body = F.to_json(F.struct(*parts, published.alias("published")), _JSON)
    if MESSAGE in told:  # of a table's tuple, NULL is a value like others
        message = F.to_json(F.struct(MESSAGE), {**_JSON, "ignoreNullFields": "false"})
        body = F.when(F.col(MESSAGE).isNotNull(), message).otherwise(body)
    positions = [F.col(POSITION).cast("bigint"), number, _document_number(rows.schema)]
    columns = [
        F.coalesce(number.cast("string"), F.col(ID)),
        body,
        F.col(READERS[0]),
        F.coalesce(*positions),
    ]
    named = zip(columns, APPENDED.names, strict=True)
    return rows.select(*[column.alias(name) for column, name in named])


def _reserved(schema: StructType) -> tuple[Column, Column]:
    """The position of an event, and when it was published: NULL if it doesn't say so."""
    fields = _fields(schema, EVENT)
    position = F.lit(None).cast("bigint")
    if isinstance(fields.get(PUBLISHED_AS), IntegralType):
        position = F.col(EVENT).getField(PUBLISHED_AS).cast("bigint")
    published = F.lit(None).cast("string")
    if PUBLISHED_AT in fields:
        published = F.col(EVENT).getField(PUBLISHED_AT)
        if not isinstance(fields[PUBLISHED_AT], TimestampType):
            published = published.cast("string")
    return position, published


def _without_reserved(schema: StructType) -> Column:
    fields = _fields(schema, EVENT)
    reserved = [name for name in (PUBLISHED_AS, PUBLISHED_AT) if name in fields]
    if not reserved:
        return F.col(EVENT)
    kept = [F.col(EVENT).getField(name).alias(name) for name in fields if name not in reserved]
    return F.when(F.col(EVENT).isNotNull(), F.struct(*kept)).alias(EVENT)


def _document_number(schema: StructType) -> Column:
    """The id of a document if that is a number."""
    if isinstance(_fields(schema, DOCUMENT).get("id"), IntegralType):
        return F.col(DOCUMENT).getField("id").cast("bigint")
    return F.lit(None).cast("bigint")


def _fields(schema: StructType, column: str) -> dict[str, DataType]:
    kind = schema[column].dataType if column in schema.names else None
    return {one.name: one.dataType for one in kind.fields} if isinstance(kind, StructType) else {}
