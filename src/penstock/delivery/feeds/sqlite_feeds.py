"""Feeds in a file that SQLite keeps.

WAL mode: readers, in any thread or process, never wait and see one state; writers take turns (`BEGIN IMMEDIATE`).
`synchronous=FULL`: what Spark takes for delivered must outlast a power cut.
"""

import os
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from penstock.base.errors import FeedError
from penstock.delivery.feeds.feed_database import create_statements

_PATIENCE = 60.0  # seconds that a writer waits for the others
_SETTINGS = (
    "synchronous = FULL",
    "cache_size = -8192",  # KiB of each connection; the operating system has the rest
    "journal_size_limit = 67108864",  # gives the log of a large micro-batch back
    "wal_autocheckpoint = 2000",
    "trusted_schema = OFF",
)
_PAGE = 16 * 1024  # bytes: most values take one or two, and a small transaction writes few


class SQLiteFeeds:
    """A file of feeds; it is made if it isn't there."""

    def __init__(self, path: Path) -> None:
        self._path = path.expanduser().absolute()
        self._idle: list[sqlite3.Connection] = []
        self._guard = threading.Lock()
        self._closed = False
        if not self._path.parent.is_dir():
            raise FeedError(f"there is no folder {self._path.parent} for the feeds: make it first")
        with self._explained():
            self._create()

    def __repr__(self) -> str:
        return f"SQLiteFeeds({str(self._path)!r})"

    @contextmanager
    def reading(self) -> Iterator["SQLiteSession"]:
        with self._explained(), self._connection() as connection:
            connection.execute("BEGIN")
            try:
                yield SQLiteSession(connection)
            finally:
                connection.execute("ROLLBACK")

    @contextmanager
    def writing(self) -> Iterator["SQLiteSession"]:
        with self._explained(), self._connection() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield SQLiteSession(connection)
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:  # a full disk ends it by itself
                    connection.execute("ROLLBACK")
                raise

    def size(self) -> int:
        return sum(
            os.path.getsize(name)
            for name in (str(self._path), f"{self._path}-wal")
            if os.path.exists(name)
        )

    def close(self) -> None:
        with self._guard:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        """A connection that no other thread uses: there are as many as threads that work at once."""
        with self._guard:
            if self._closed:
                raise FeedError(f"the feeds at {self._path} are closed")
            connection = self._idle.pop() if self._idle else None
        connection = connection or self._connect()
        try:
            yield connection
        finally:
            with self._guard:
                keep = not self._closed and not connection.in_transaction
                if keep:
                    self._idle.append(connection)
            if not keep:
                connection.close()

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self._path, timeout=_PATIENCE, isolation_level=None, check_same_thread=False
        )
        for setting in _SETTINGS:
            connection.execute(f"PRAGMA {setting}")
        return connection

    def _create(self) -> None:
        with self._connection() as connection:
            connection.execute(f"PRAGMA page_size = {_PAGE}")
            mode = _turn_to_wal(connection)
        if mode != "wal":
            raise FeedError(
                f"can't keep feeds at {self._path}: its file system doesn't allow a write-ahead log; use a local disk, "
                "or PostgreSQL"
            )
        there = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'feed_state'"
        with self.reading() as session:
            if session.all(there):
                return  # a reader that opens the feeds doesn't wait for a writer
        with self.writing() as session:
            for statement in create_statements("BLOB"):
                session.run(statement)

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise FeedError(f"the feeds at {self._path}: {error}{_advice(str(error))}") from error


class SQLiteSession:
    """A transaction."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def all(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        return self._connection.execute(statement, values).fetchall()

    def run(self, statement: str, *values: object) -> None:
        self._connection.execute(statement, values)

    def insert(self, table: str, rows: Iterable[Sequence[object]]) -> None:
        rows = list(rows)
        if rows:
            marks = ", ".join("?" * len(rows[0]))
            self._connection.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)


def _turn_to_wal(connection: sqlite3.Connection) -> str:
    """Switch to WAL mode. This needs the file for itself for a moment, and SQLite doesn't wait for that: we do."""
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            return str(connection.execute("PRAGMA journal_mode = WAL").fetchone()[0])
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def _advice(problem: str) -> str:
    for words, advice in (
        ("readonly", "check the permissions of the file and of its folder"),
        ("unable to open", "check the permissions of the file and of its folder"),
        ("full", "nothing was added: make room on the disk"),
        ("locked", f"another process has been writing for {_PATIENCE:.0f} seconds"),
        ("not a database", "give another path"),
        ("malformed", "the file is damaged: take a backup, or begin with a new one"),
    ):
        if words in problem:
            return f" ({advice})"
    return ""
