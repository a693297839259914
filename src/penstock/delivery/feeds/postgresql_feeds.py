"""Feeds in a PostgreSQL database.

Writers take turns by an advisory lock that a transaction holds until it is committed. So the rows that several
processes append become visible in the order of their numbers.
"""

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from penstock.base.errors import FeedError
from penstock.delivery.feeds.feed_database import TABLES, create_statements

if TYPE_CHECKING:
    import psycopg

    Connection = psycopg.Connection[tuple[Any, ...]]

_LOCK = 0x66656564  # an advisory lock of our own


class PostgreSQLFeeds:
    """A database of feeds; the tables are made if they aren't there."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._idle: list[Connection] = []
        self._guard = threading.Lock()
        self._closed = False
        with self.reading() as session:
            if session.all("SELECT 1 WHERE to_regclass('feed_state') IS NOT NULL"):
                return  # a reader that opens the feeds doesn't wait for a writer
        with self.writing() as session:
            for statement in create_statements("BYTEA"):
                session.run(statement)
            for table, columns in TABLES.items():
                if "{value}" in columns:  # it is compressed already
                    session.run(f"ALTER TABLE {table} ALTER COLUMN value SET STORAGE EXTERNAL")

    def __repr__(self) -> str:
        return "PostgreSQLFeeds()"  # the URL may hold a password

    @contextmanager
    def reading(self) -> Iterator["PostgreSQLSession"]:
        with self._connection() as connection:
            connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            yield PostgreSQLSession(connection)
            connection.execute("ROLLBACK")

    @contextmanager
    def writing(self) -> Iterator["PostgreSQLSession"]:
        with self._connection() as connection:
            connection.execute("BEGIN")
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
            yield PostgreSQLSession(connection)
            connection.execute("COMMIT")

    def size(self) -> int:
        names = ", ".join(f"'{name}'" for name in TABLES)
        with self.reading() as session:
            ((size,),) = session.all(
                f"SELECT CAST(sum(pg_total_relation_size(c)) AS BIGINT) FROM unnest(ARRAY[{names}]) c"
            )
        return int(size)

    def close(self) -> None:
        with self._guard:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    @contextmanager
    def _connection(self) -> Iterator["Connection"]:
        """A connection that no other thread uses. After an error it isn't used again."""
        with self._guard:
            if self._closed:
                raise FeedError("the feeds in PostgreSQL are closed")
            connection = self._idle.pop() if self._idle else None
        connection = connection or self._connect()
        import psycopg

        done = False
        try:
            yield connection
            done = True
        except psycopg.Error as error:
            reason = str(error).strip().splitlines()
            raise FeedError(
                f"the feeds in PostgreSQL: {reason[0] if reason else repr(error)}"
            ) from error
        finally:
            with self._guard:
                done = done and not self._closed
                if done:
                    self._idle.append(connection)
            if not done:
                connection.close()

    def _connect(self) -> "Connection":
        try:
            import psycopg
        except ImportError as error:
            raise FeedError(
                "feeds in PostgreSQL need psycopg: pip install 'penstock[postgres]'"
            ) from error
        try:
            return psycopg.connect(self._url, autocommit=True)
        except psycopg.Error as error:
            raise FeedError(
                f"the PostgreSQL server of the feeds can't be reached: {str(error).strip().splitlines()[0]}"
            ) from None


class PostgreSQLSession:
    """A transaction."""

    def __init__(self, connection: "Connection") -> None:
        self._connection = connection

    def all(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        cursor = self._connection.cursor(binary=True)
        return cursor.execute(_marked(statement), values).fetchall()

    def run(self, statement: str, *values: object) -> None:
        self._connection.execute(_marked(statement), values)

    def insert(self, table: str, rows: Iterable[Sequence[object]]) -> None:
        columns = TABLES[table].split(", ")
        types = [{"BIGINT": "int8", "TEXT": "text"}.get(one.split()[1], "bytea") for one in columns]
        with (
            self._connection.cursor() as cursor,
            cursor.copy(f"COPY {table} FROM STDIN (FORMAT BINARY)") as copy,
        ):
            copy.set_types(types)
            for row in rows:
                copy.write_row(row)


def _marked(statement: str) -> str:
    return statement.replace("?", "%s")
