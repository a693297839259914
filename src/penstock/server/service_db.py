"""`service.db`: the service's own data, beside the registry, in SQLite. Each part of the service has its own tables.

Several processes may have it open: `penstock keys` changes keys while the service runs.
"""

import os
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from penstock.base.errors import PenstockError

_PATIENCE = 30_000  # milliseconds that a writer waits for another


class ServiceDatabase:
    """The opened database. Each user gives the tables that it needs. Any thread may use it, one at a time.

    >>> database = ServiceDatabase(":memory:", ["CREATE TABLE IF NOT EXISTS things (name TEXT) STRICT"])
    >>> with database.writing() as connection: _ = connection.execute("INSERT INTO things VALUES ('a')")
    >>> database.read("SELECT name FROM things")
    [('a',)]
    """

    def __init__(self, path: str | os.PathLike[str], tables: Sequence[str]) -> None:
        self._lock = threading.Lock()
        self._path = os.fspath(path)
        try:
            self._connection = sqlite3.connect(
                path, isolation_level=None, check_same_thread=False, timeout=_PATIENCE / 1000
            )
            if self._path != ":memory:":
                # It has the secrets of webhooks: nobody else may read it.
                os.chmod(self._path, 0o600)
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = FULL")
            with self.writing() as connection:
                for table in tables:
                    connection.execute(table)
        except (sqlite3.Error, OSError) as error:
            raise PenstockError(f"can't open {self._path}: {error}") from error

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """A transaction that is on disk when it ends."""
        with self._lock:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise

    def read(self, statement: str, values: Sequence[object] = ()) -> list[tuple[object, ...]]:
        """The rows of one statement."""
        with self._lock:
            return self._connection.execute(statement, values).fetchall()

    def close(self) -> None:
        with self._lock:
            self._connection.close()
