"""A registry in a file that SQLite keeps, or in memory.

The file is in WAL mode: readers never wait, writers take turns. `BEGIN IMMEDIATE` gives a transaction the write lock
before it reads what it will change; it waits for the lock up to `patience` seconds. `synchronous=FULL`: a commit is on
disk when the call returns. `NORMAL` would save a flush per commit, but after a power cut the last commits could be
gone, and their sequence numbers would be given out a second time to other changes: a snapshot made before the cut would
then be taken for one made after. A registry in memory is one connection that threads use in turn.
"""

import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, ClassVar

from sqlalchemy import Connection, Select, Table, create_engine, event, func, select
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import StaticPool

from penstock.base.errors import RegistryError
from penstock.registry.bad_rows import RawText
from penstock.registry.databases import Database, DatabaseRow, column_names


class SQLite(Database):
    """A file (or with no path, memory) that SQLite keeps."""

    _advice: ClassVar = {
        "readonly|unable to open": "check the permissions of the file, and of its folder: SQLite writes there too",
        "full|disk I/O": "nothing was changed: make room on the disk, then try again",
        "locked": "another process has been writing for {} seconds: try again later",
        "not a database|malformed": "the file is not a Penstock registry, or is damaged: give another one",
    }
    _decoding_error = sqlite3.OperationalError

    def __init__(self, path: Path | None) -> None:
        super().__init__()
        self._path = None if path is None else path.expanduser().absolute()
        connecting: dict[str, Any] = {"timeout": self.patience, "isolation_level": None}
        options: dict[str, Any] = {"connect_args": connecting}
        if self._path is None:
            self.url = None
            self._turn = threading.Lock()
            connecting["check_same_thread"] = False
            options["poolclass"] = StaticPool
        else:
            self.url = URL.create("sqlite", database=str(self._path))
        self.engine = create_engine(self.url or "sqlite://", hide_parameters=True, **options)
        event.listen(self.engine, "connect", _tune)
        self._kept: Connection | None = None  # the only one, in memory

    def _connect(self) -> AbstractContextManager[Connection]:
        return self._in_memory() if self._path is None else super()._connect()

    @contextmanager
    def _in_memory(self) -> Iterator[Connection]:
        # The thread that has the turn has the connection. To take it from the pool and give it back would
        # take a tenth of the time of a subscription.
        if self._kept is None:
            self._kept = self.engine.connect()
        try:
            yield self._kept
        finally:
            if self._kept.in_transaction():
                self._kept.rollback()

    def close(self) -> None:
        if self._kept is not None:
            self._kept.close()
        super().close()

    def missing(self) -> str | None:
        if self._path is None or self._path.is_file():
            return None
        # Once more: another process may just have made it.
        if self._path.exists() and not self._path.is_file():
            raise RegistryError(f"{self._path} is not a file: give the path of the registry's file")
        if not self._path.parent.is_dir():
            raise RegistryError(f"there is no folder {self._path.parent}: make it first")
        return f"there is no file {self._path}"

    @contextmanager
    def creating(self) -> Iterator[Connection]:
        if self._path is not None:
            self._turn_to_wal()
        with super().creating() as connection:  # BEGIN IMMEDIATE is the lock
            yield connection

    def _turn_to_wal(self) -> None:
        """Switch to WAL mode. This needs the file for itself for a moment, and SQLite doesn't wait for that: we do."""
        deadline = time.monotonic() + self.patience
        with self._explained("create"):
            while True:
                try:
                    with self.engine.connect() as connection:
                        mode = connection.exec_driver_sql("PRAGMA journal_mode = WAL").scalar()
                    break
                except DBAPIError as error:
                    if "locked" not in str(error.orig) or time.monotonic() > deadline:
                        raise
                    time.sleep(0.01)
        if mode != "wal":
            raise RegistryError(
                f"can't keep a registry at {self._path}: its file system doesn't allow "
                "a write-ahead log; use a local disk, or PostgreSQL"
            )

    def insert(
        self, connection: Connection, table: Table, rows: Iterable[DatabaseRow], count: int
    ) -> None:
        # Many new rows: sorting an index anew is several times faster than putting each row into
        # its place.
        there = connection.scalar(select(func.count()).select_from(table)) or 0
        rebuilt = table.indexes if count > max(there // 2, 10_000) else ()
        for index in rebuilt:
            index.drop(connection)
        marks = ", ".join("?" * len(table.columns))
        _driver(connection).executemany(
            f"INSERT INTO {table.name} ({column_names(table)}) VALUES ({marks})", rows
        )
        for index in rebuilt:
            index.create(connection)

    def set_checksums(
        self, connection: Connection, table: Table, rows: Iterable[tuple[int, int]]
    ) -> None:
        words = f"UPDATE {table.name} SET checksum = ?2 WHERE id = ?1"
        _driver(connection).executemany(words, rows)

    def _fetch_raw(self, connection: Connection, statement: Select[Any]) -> list[DatabaseRow]:
        driver = _driver(connection)
        before, driver.text_factory = driver.text_factory, RawText
        try:
            with connection.execute(statement) as result:
                assert result.cursor is not None
                rows: list[DatabaseRow] = list(result.cursor.fetchall())
        finally:
            driver.text_factory = before
        return rows

    def _begin_reading(self, connection: Connection) -> None:
        _begin(connection, "BEGIN")

    def _begin_writing(self, connection: Connection) -> None:
        _begin(connection, "BEGIN IMMEDIATE")


def _begin(connection: Connection, words: str) -> None:
    connection.begin()  # for SQLAlchemy, which will end it: `isolation_level` keeps the driver from beginning one
    _driver(connection).execute(words)


def _driver(connection: Connection) -> Any:
    return connection.connection.driver_connection


def _tune(connection: sqlite3.Connection, _record: object) -> None:
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA cache_size = -65536")  # KiB, taken as needed: for bulk loads
    connection.execute("PRAGMA journal_size_limit = 67108864")  # give the log of a bulk load back
    connection.execute("PRAGMA trusted_schema = OFF")
