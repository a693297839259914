"""A PostgreSQL table as a sink: exactly once, by the number of the micro-batch.

    <table>          notification_id, kind, subscription, subscriber, batch, notification (JSON: its content)
    <table>_batches  kind, query, batch: the micro-batches that are in the table
    <table>_<kind>   the stage: what workers have written of the micro-batch that runs

Workers copy their rows into the stage, each task in one transaction that first deletes what an earlier try of the task
has left there. One last transaction moves the stage into the table and notes the number: it happens once, or not at
all, and a replay that finds the number has nothing to do.
"""

import functools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from penstock.base.errors import PipelineError
from penstock.delivery.notification_shape import SENT, check_sent, to_json
from penstock.delivery.sinks import EXACTLY_ONCE, Batch

if TYPE_CHECKING:
    import psycopg

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_$]{0,53}(\.[A-Za-z_][A-Za-z0-9_$]{0,53})?")
_LOCK = 0x70656E73  # a space of advisory locks of our own


@dataclass(frozen=True)
class PostgreSQLSink:
    """A table of a PostgreSQL database, made if it isn't there. `url` is `postgresql://user@host/database`.

    Workers must reach the server, too, and have psycopg (`penstock[postgres]`).
    """

    url: str
    table: str = "notifications"
    explode: ClassVar[bool] = True
    guarantee: ClassVar[str] = EXACTLY_ONCE

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.table):
            raise PipelineError(
                f"{self.table!r} can't be the sink's table: give a name of letters, digits and _, or schema.name"
            )

    def __repr__(self) -> str:
        return f"PostgreSQLSink({self.table!r})"  # the URL may hold a password

    def check(self, spark: SparkSession, columns: Sequence[str]) -> None:
        """The server must answer, and let us make the tables."""
        check_sent("a PostgreSQL sink", columns)
        with self._connect() as connection:
            self._make_tables(connection)

    def write(self, rows: DataFrame, batch: Batch) -> bool:
        stage = self._stage(batch.kind)
        with self._connect() as connection:
            self._make_tables(connection, stage)
            if self._has(connection, batch):
                return False
            connection.execute(f"TRUNCATE {stage}")
            connection.commit()
            texts = rows.select(
                *[F.col(name).cast("string").alias(name) for name in SENT],
                to_json([n for n in rows.columns if n not in SENT]).alias("notification"),
            )
            texts.mapInArrow(functools.partial(self._copy, stage), "rows long").collect()
            connection.execute(
                f"INSERT INTO {self.table} SELECT {', '.join(SENT)}, %s, notification FROM {stage}",
                (batch.id,),
            )
            connection.execute(
                f"INSERT INTO {self._batches} (kind, query, batch) VALUES (%s, %s, %s)",
                (batch.kind, batch.query, batch.id),
            )
            connection.execute(f"TRUNCATE {stage}")
            connection.commit()
        return True

    # --- on a worker ----------------------------------------------------------------------------

    def _copy(self, stage: str, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Copy the rows of a task into the stage. Yields how many there were."""
        task = TaskContext.get()
        part = 0 if task is None else task.partitionId()
        count = 0
        into = f"COPY {stage} (part, {', '.join(SENT)}, notification) FROM STDIN"
        with self._connect() as connection, connection.cursor() as cursor:
            # If Spark runs a task twice at once, the second waits here for the first, and then deletes its rows.
            cursor.execute("SELECT pg_advisory_xact_lock(%s, %s)", (_LOCK, part))
            cursor.execute(f"DELETE FROM {stage} WHERE part = %s", (part,))
            with cursor.copy(into) as copy:
                for batch in batches:
                    columns = [column.cast(pa.binary()).to_pylist() for column in batch.columns]
                    for row in zip(*columns, strict=True):
                        copy.write_row((part, *map(_text, row)))
                    count += batch.num_rows
            connection.commit()
        yield pa.RecordBatch.from_pydict({"rows": [count]})

    # --- the database ---------------------------------------------------------------------------

    @property
    def _batches(self) -> str:
        return f"{self.table}_batches"

    def _stage(self, kind: str) -> str:
        return f"{self.table}_{kind.replace('-', '_')}"

    def _connect(self) -> "psycopg.Connection[tuple[object, ...]]":
        try:
            import psycopg
        except ImportError as error:
            raise PipelineError(
                "a PostgreSQL sink needs psycopg: pip install 'penstock[postgres]'"
            ) from error
        try:
            return psycopg.connect(self.url)
        except psycopg.Error as error:
            raise PipelineError(
                f"the PostgreSQL server of the sink can't be reached: {str(error).strip().splitlines()[0]}"
            ) from None

    def _make_tables(
        self, connection: "psycopg.Connection[tuple[object, ...]]", stage: str | None = None
    ) -> None:
        columns = "notification_id TEXT, kind TEXT, subscription BIGINT, subscriber TEXT"
        # JSON, not JSONB, which refuses the NULs that a text of an event may hold.
        tables = [
            f"TABLE IF NOT EXISTS {self.table} ({columns}, batch BIGINT, notification JSON)",
            f"TABLE IF NOT EXISTS {self._batches} "
            "(kind TEXT, query TEXT, batch BIGINT, PRIMARY KEY (query, batch))",
        ]
        if stage is not None:
            tables.append(
                f"UNLOGGED TABLE IF NOT EXISTS {stage} (part INT, {columns}, notification JSON)"
            )
        # Two queries of a pipeline may come here at once, for which IF NOT EXISTS isn't enough.
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
        for words in tables:
            connection.execute(f"CREATE {words}")
        connection.commit()

    def _has(self, connection: "psycopg.Connection[tuple[object, ...]]", batch: Batch) -> bool:
        """Whether the micro-batch is there. PipelineError if the table is another pipeline's."""
        found = connection.execute(
            f"SELECT query, batch FROM {self._batches} WHERE kind = %s LIMIT 1", (batch.kind,)
        ).fetchone()
        if found is not None and found[0] != batch.query:
            raise PipelineError(
                f"the table {self.table} belongs to another pipeline (or to this one before it lost its checkpoint "
                "folder): give another table"
            )
        wanted = f"SELECT 1 FROM {self._batches} WHERE query = %s AND batch = %s"
        return connection.execute(wanted, (batch.query, batch.id)).fetchone() is not None


def _text(value: bytes | None) -> str | None:
    """A text that PostgreSQL takes. What isn't UTF-8 is replaced: a row that can't be stored would stop everything."""
    return None if value is None else value.decode("utf-8", "replace").replace("\0", "\ufffd")
