"""Notifications: one row of one shape, whatever the kind of subscription.

    notification_id   the same in a replay
    kind              filter, select-join or tree-pattern; digest, if it is one
    subscription      the subscription that it is for
    subscriber        the name of its subscriber
    metadata          what the subscription has beside its text, if the pipeline was asked for it: names with texts
    position          the order in which those of a micro-batch are applied; NULL where the order doesn't matter
    event             of a filter: the event
    message           of a select-join: the change of its view, `messages_of` reads it
    document          of a tree pattern: the document's id, and the tuples of the view
    digest            of a filter or tree pattern whose pace asks for it: what was gathered, and how many there were

Of the last four columns, a pipeline's notifications have those of its inputs (events, tables, documents), and `digest`
if it sends digests. In each row one of them is not NULL: it has the content of the notification.

If a sink can take it (`Sink.explode` is false), a notification for many subscribers is one row for all of them: it has
the lists `subscriptions` and `subscribers`, and `metadata` is a list as well. `explode` makes one row for each of them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import ArrayType, LongType, StringType, StructField, StructType

from penstock.base.errors import PipelineError
from penstock.base.sql_names import quote_name
from penstock.delivery.addressed_readers import (
    METADATA,
    METADATA_LISTS,
    metadata_lists,
    name_lists,
    take_apart,
)
from penstock.delivery.task_rows import Batches, TaskRows

ID, KIND, POSITION = "notification_id", "kind", "position"
READER = ("subscription", "subscriber")
READERS = ("subscriptions", "subscribers")
EVENT, MESSAGE, DOCUMENT = "event", "message", "document"
DIGEST = "digest"  # a kind, and the column that it fills
READER_LISTS = (
    StructField(READERS[0], ArrayType(LongType(), containsNull=False), nullable=False),
    StructField(READERS[1], ArrayType(StringType()), nullable=False),
)
NAMED_READERS = (StructField(ID, StringType(), nullable=False), *READER_LISTS)
"""The columns that each kind gives, beside the content."""
SENT = (ID, KIND, *READER)
"""The columns of a row for one subscriber, beside the content."""


@dataclass(frozen=True)
class NotificationShape:
    """The columns of a pipeline's notifications; `told` are those that have the content.

    With `metadata`, the subscribers of incoming rows are addresses (`registry.addresses`).
    """

    told: tuple[StructField, ...]
    metadata: bool = False

    def columns(self, *, explode: bool) -> list[str]:
        """Their names, in rows for one subscriber each (`explode`), or in rows for all."""
        described = [METADATA] if self.metadata else []
        readers = READER if explode else READERS
        return [ID, KIND, *readers, *described, POSITION, *[f.name for f in self.told]]

    def rows(self, found: DataFrame, kind: str) -> DataFrame:
        """Bring rows of one kind into this shape: they have an id, readers, perhaps a position, and the content."""
        position = F.col(POSITION) if POSITION in found.columns else F.lit(None)
        told = [self._column(field, found) for field in self.told]
        readers = [F.col(name) for name in READERS]
        if self.metadata:
            _, addresses = readers
            readers[1] = name_lists(addresses).alias(READERS[1])
            readers.append(metadata_lists(addresses).alias(METADATA))
        named = [F.col(ID), F.lit(kind).alias(KIND), *readers]
        return found.select(*named, position.cast("bigint").alias(POSITION), *told)

    def in_tasks(self, found: TaskRows, kind: str) -> TaskRows:
        """The same for rows that tasks make."""
        name, *readers = NAMED_READERS
        rest = StructField(KIND, StringType(), nullable=False), StructField(POSITION, LongType())
        metadata = self.metadata
        if metadata:
            readers.append(METADATA_LISTS)
        schema = StructType([name, rest[0], *readers, rest[1], *self.told])
        arrow = to_arrow_schema(schema, timezone="UTC")

        def run(batches: Batches) -> Iterator[pa.RecordBatch]:
            for rows in batches:
                yield _complete(_described(rows) if metadata else rows, arrow, kind)

        return found.then(run, schema)

    def _column(self, field: StructField, found: DataFrame) -> Column:
        if field.name in found.columns:
            return F.col(field.name)
        return F.lit(None).cast(field.dataType).alias(field.name)


def _described(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The rows with their addresses taken apart, into names and metadata."""
    place = rows.schema.names.index(READERS[1])
    names, metadata = take_apart(rows.column(place))
    columns = [*rows.columns[:place], names, *rows.columns[place + 1 :], metadata]
    return pa.RecordBatch.from_arrays(columns, [*rows.schema.names, METADATA])


def _complete(rows: pa.RecordBatch, schema: pa.Schema, kind: str) -> pa.RecordBatch:
    """The rows with all columns of a shape: those that they lack are NULL."""
    columns = []
    for field in schema:
        if field.name == KIND:
            columns.append(pa.repeat(kind, rows.num_rows))
        elif field.name in rows.schema.names:
            columns.append(rows.column(field.name))
        else:
            columns.append(pa.nulls(rows.num_rows, field.type))
    return pa.RecordBatch.from_arrays(columns, schema.names)


def explode(notifications: DataFrame) -> DataFrame:
    """One row for each notification and subscriber, of rows that have the lists of all subscribers.

    Files and Delta tables that a `Pipeline` writes have such lists, unless their sink was made with `explode=True`.
    """
    names = notifications.columns
    if not {ID, *READERS} <= set(names):
        lacking = ", ".join(name for name in (ID, *READERS) if name not in names)
        raise PipelineError(f"not notifications with lists of subscribers: they have no {lacking}")
    described = [METADATA] if METADATA in names else []
    rest = [f"`{name}`" for name in names if name not in (ID, KIND, *READERS, *described)]
    kind = [KIND] if KIND in names else []
    reader = F.explode(F.arrays_zip(*READERS, *described)).alias("reader")
    subscription = F.col(f"reader.{READERS[0]}")
    return notifications.select(ID, *kind, reader, *rest).select(
        F.concat_ws("-", ID, subscription.cast("string")).alias(ID),
        *kind,
        subscription.alias(READER[0]),
        F.col(f"reader.{READERS[1]}").alias(READER[1]),
        *[F.col(f"reader.{name}") for name in described],
        *rest,
    )


def check_sent(sink: str, columns: Sequence[str]) -> None:
    """`PipelineError` if rows aren't notifications for one subscriber each, for example dead letters."""
    if missing := [name for name in SENT if name not in columns]:
        raise PipelineError(
            f"{sink} takes one row for each notification and subscriber, with {', '.join(SENT)}: "
            f"these rows have no {' and no '.join(missing)}"
        )


def to_json(names: Sequence[str]) -> Column:
    """Columns as a JSON object, NULLs included."""
    whole = F.struct(*[F.col(quote_name(name)) for name in names])
    return F.to_json(whole, {"ignoreNullFields": "false"})
