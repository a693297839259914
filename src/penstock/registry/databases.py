"""The databases a registry can live in: all that differs between SQLite and PostgreSQL is here.

What differs is five things: how to connect, how a reading and a writing transaction begin, how to
keep two processes from creating the tables at once, how to move a million rows in, and what an
error means. All the rest is SQLAlchemy and the same for both.

SQLite. A file in WAL mode: readers never wait, writers take turns (`BEGIN IMMEDIATE`, so that a
transaction has the write lock before it reads what it will change; up to `PATIENCE` seconds of
waiting). `synchronous=FULL`: a commit is on disk when the call returns. `NORMAL` would save a flush
per commit, but after a power cut the last commits could be gone, and their sequence numbers would
be given out a second time to other changes: a snapshot made before the cut would then be taken for
one made after. In memory it is one connection that threads use in turn.

PostgreSQL. psycopg 3, whatever driver the URL names. Readers are REPEATABLE READ (one state from
first to last statement), writers READ COMMITTED and lock the registry's one row first. Rows go in
by `COPY`. They don't come out by it: psycopg hands over a `COPY` row by row, which was measured to
take four times as long as a plain cursor.
"""

import os
import sqlite3
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pyarrow as pa
from sqlalchemy import (
    Connection,
    Engine,
    Integer,
    LargeBinary,
    Select,
    Table,
    Text,
    create_engine,
    event,
    func,
    inspect,
    select,
    text,
)
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DataError, DBAPIError, SQLAlchemyError
from sqlalchemy.pool import StaticPool

from penstock.base.errors import RegistryError
from penstock.registry.bad_rows import BadRow, RawText, set_changed_rows_aside, sort_out
from penstock.registry.tables import subscriptions

PATIENCE = 300
"""Seconds a writer waits for its turn. Loading a million rows takes about ten, if not much else runs."""

HUNG = 60
"""Seconds after which PostgreSQL ends a writer that has its turn and does nothing with it."""

FETCH = 500
"""Rows read at a time: too few to wake the garbage collector, which would double the time."""

DatabaseRow = tuple[object, ...]

_COLUMNS = tuple(column.name for column in subscriptions.columns)


def database_of(url: str | os.PathLike[str] | URL | None) -> "Database":
    """The database that a URL or a path names; `None` is one in memory.

    >>> print(database_of("sqlite:////var/lib/subs.db"))
    sqlite:////var/lib/subs.db
    >>> print(database_of("postgresql://penstock:secret@db/subs"))
    postgresql+psycopg://penstock:***@db/subs
    """
    if url is None:
        return SQLite(None)
    if isinstance(url, str) and "://" in url:
        try:
            url = make_url(url)
        except (ArgumentError, ValueError) as error:
            raise RegistryError(f"not a registry URL ({error}): {_FORMS}") from None
    if not isinstance(url, URL):
        return SQLite(Path(url))
    family = url.get_backend_name()
    if family == "sqlite":
        in_memory = url.database in (None, "", ":memory:")
        return SQLite(None if in_memory else Path(str(url.database)))
    if family in ("postgresql", "postgres"):
        return PostgreSQL(url)
    raise RegistryError(f"a registry can't live in {family!r}: {_FORMS}")


_FORMS = "write a path (subs.db), sqlite:///subs.db or postgresql://user@host/database"


class Database(ABC):
    """A place for the tables. `url` is None in memory; `str()` hides the password."""

    url: URL | None
    engine: Engine

    def __init__(self) -> None:
        self._process = os.getpid()
        self._turn: AbstractContextManager[Any] = nullcontext()

    def __str__(self) -> str:
        return "in memory" if self.url is None else self.url.render_as_string(hide_password=True)

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A transaction that sees one state of the registry from first statement to last."""
        with self._turn, self._explained("read"), self._connect() as connection:
            self._begin_reading(connection)
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction that changes the registry: all of it, or on any error nothing."""
        with self._turn, self._explained("write to"), self._connect() as connection:
            self._begin_writing(connection)
            yield connection
            connection.commit()

    def tables(self, connection: Connection) -> set[str]:
        """The names of the tables in the database, ours and others."""
        return set(inspect(connection).get_table_names())

    @contextmanager
    def creating(self) -> Iterator[Connection]:
        """A writing transaction to make the tables in: one process at a time is in one."""
        self._prepare()
        with self.writing() as connection:
            self._lock_creation(connection)
            yield connection

    def fetch(self, connection: Connection, statement: Select[Any]) -> pa.Table:
        """The rows of a statement in Arrow. Its columns are text, bytes or integers."""
        types = _arrow_types(statement)
        result = connection.execute(statement)
        cursor = result.cursor  # past SQLAlchemy, which would make an object of each row
        assert cursor is not None, "a SELECT has a cursor"
        tables = [types.empty_table()]
        while rows := cursor.fetchmany(FETCH):
            columns = zip(zip(*rows, strict=True), types.types, strict=True)
            tables.append(pa.table([pa.array(c, t) for c, t in columns], schema=types))
        result.close()
        return pa.concat_tables(tables)

    def fetch_rows(
        self, connection: Connection, statement: Select[Any]
    ) -> tuple[pa.Table, list[BadRow]]:
        """The rows of a statement over subscriptions; those that aren't as they were written aside.

        Among its columns are the checksum and what is matched; with the others, all of the checksum is checked.
        """
        table, bad = self.fetch_readable(connection, statement)
        good, changed = set_changed_rows_aside(table.combine_chunks())
        return good, bad + changed

    def fetch_readable(
        self, connection: Connection, statement: Select[Any]
    ) -> tuple[pa.Table, list[BadRow]]:
        """The rows of a statement over subscriptions, whatever their checksums; those of other types aside."""
        try:
            with self._sheltered(connection):
                table = self.fetch(connection, statement)
            if any(c.null_count for c in table.columns if pa.types.is_integer(c.type)):
                raise ValueError("NULL in a column of numbers")
            return table, []
        except (pa.ArrowException, ValueError, OverflowError, *self._decoding_errors()) as error:
            types = _arrow_types(statement)
            good, bad = sort_out(self._fetch_raw(connection, statement), types)
            if not bad:
                raise error from None  # something else is wrong
            columns = zip(*good, strict=True) if good else [()] * len(types)
            return pa.table(
                [pa.array(c, f.type) for c, f in zip(columns, types, strict=True)], types
            ), bad

    def close(self) -> None:
        self.engine.dispose()

    def _sheltered(self, connection: Connection) -> AbstractContextManager[Any]:
        """Where a statement may fail, and the transaction goes on."""
        return nullcontext()

    @abstractmethod
    def _decoding_errors(self) -> tuple[type[Exception], ...]:
        """What the driver raises for text that isn't UTF-8."""

    @abstractmethod
    def _fetch_raw(self, connection: Connection, statement: Select[Any]) -> list[DatabaseRow]:
        """The rows of a statement, texts as `RawText`."""

    @abstractmethod
    def missing(self) -> str | None:
        """Why there can be no registry yet without `create`, if that is known before connecting."""

    @abstractmethod
    def is_shared(self) -> bool:
        """Whether tables of others may stand beside ours."""

    @abstractmethod
    def insert(self, connection: Connection, rows: Iterable[DatabaseRow], count: int) -> None:
        """Insert `count` subscriptions in bulk: tuples in the order of the table's columns."""

    @abstractmethod
    def set_checksums(
        self, connection: Connection, table: Table, rows: Iterable[tuple[int, int]]
    ) -> None:
        """Write the checksums of many rows: pairs of id and checksum."""

    @abstractmethod
    def _begin_reading(self, connection: Connection) -> None: ...

    @abstractmethod
    def _begin_writing(self, connection: Connection) -> None: ...

    @abstractmethod
    def _prepare(self) -> None: ...

    @abstractmethod
    def _lock_creation(self, connection: Connection) -> None: ...

    @abstractmethod
    def _advice(self, reason: str) -> str: ...

    def _connect(self) -> AbstractContextManager[Connection]:
        # A connection must not be used on both sides of a fork: the child forgets the parent's.
        if self._process != os.getpid() and self.url is not None:
            self.engine.dispose(close=False)
            self._process = os.getpid()
        return self.engine.connect()

    @contextmanager
    def _explained(self, verb: str) -> Iterator[None]:
        driver: type[BaseException] = self.engine.dialect.loaded_dbapi.Error
        try:
            yield
        except (SQLAlchemyError, driver, UnicodeDecodeError) as error:
            cause = error.orig if isinstance(error, DBAPIError) and error.orig else error
            reason = " ".join(str(cause).split())
            raise RegistryError(
                f"can't {verb} the registry {self}: {reason}{self._advice(reason)}"
            ) from error


class SQLite(Database):
    """A file (or with no path, memory) that SQLite keeps."""

    def __init__(self, path: Path | None) -> None:
        super().__init__()
        self._path = None if path is None else path.expanduser().absolute()
        options: dict[str, Any] = {"connect_args": {"timeout": PATIENCE, "isolation_level": None}}
        if self._path is None:
            self.url = None
            self._turn = threading.Lock()
            options["connect_args"]["check_same_thread"] = False
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
        # Who has the turn has the connection. To check it out of the pool and in again would be a
        # tenth of what a subscription takes.
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
        if self._path.exists():
            raise RegistryError(f"{self._path} is not a file: give the path of the registry's file")
        if not self._path.parent.is_dir():
            raise RegistryError(f"there is no folder {self._path.parent}: make it first")
        return f"there is no file {self._path}"

    def is_shared(self) -> bool:
        return False

    def insert(self, connection: Connection, rows: Iterable[DatabaseRow], count: int) -> None:
        # Many new rows: sorting an index anew is several times faster than putting each row into
        # its place.
        there = connection.scalar(select(func.count()).select_from(subscriptions)) or 0
        rebuilt = subscriptions.indexes if count > max(there // 2, 10_000) else ()
        for index in rebuilt:
            index.drop(connection)
        marks = ", ".join("?" * len(_COLUMNS))
        raw: Any = connection.connection.cursor()
        try:
            raw.executemany(
                f"INSERT INTO {subscriptions.name} ({', '.join(_COLUMNS)}) VALUES ({marks})", rows
            )
        finally:
            raw.close()
        for index in rebuilt:
            index.create(connection)

    def set_checksums(
        self, connection: Connection, table: Table, rows: Iterable[tuple[int, int]]
    ) -> None:
        driver: Any = connection.connection.driver_connection
        driver.executemany(
            f"UPDATE {table.name} SET checksum = ?2 WHERE id = ?1",
            rows,
        )

    def _decoding_errors(self) -> tuple[type[Exception], ...]:
        return (sqlite3.OperationalError,)

    def _fetch_raw(self, connection: Connection, statement: Select[Any]) -> list[DatabaseRow]:
        driver: Any = connection.connection.driver_connection
        before, driver.text_factory = driver.text_factory, RawText
        try:
            with connection.execute(statement) as result:
                assert result.cursor is not None
                rows: list[DatabaseRow] = list(result.cursor.fetchall())
        finally:
            driver.text_factory = before
        return rows

    def _begin_reading(self, connection: Connection) -> None:
        self._begin(connection, "BEGIN")

    def _begin_writing(self, connection: Connection) -> None:
        self._begin(connection, "BEGIN IMMEDIATE")

    def _begin(self, connection: Connection, words: str) -> None:
        connection.begin()  # for SQLAlchemy, which will end it; the driver has been told not to begin anything
        driver: Any = connection.connection.driver_connection
        driver.execute(words)

    def _prepare(self) -> None:
        """Turn to WAL. It needs the file for itself for a moment, and SQLite won't wait: we do."""
        if self._path is None:
            return
        deadline = time.monotonic() + PATIENCE
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

    def _lock_creation(self, connection: Connection) -> None:
        pass  # BEGIN IMMEDIATE is the lock

    def _advice(self, reason: str) -> str:
        if "readonly" in reason or "unable to open" in reason:
            return "; check the permissions of the file, and of its folder: SQLite writes there too"
        if "full" in reason or "disk I/O" in reason:
            return "; nothing was changed: make room on the disk, then try again"
        if "locked" in reason:
            return f"; another process has been writing for {PATIENCE} seconds: try again later"
        if "not a database" in reason or "malformed" in reason:
            return "; the file is not a Penstock registry, or is damaged: give another one"
        return ""


class PostgreSQL(Database):
    """A PostgreSQL database, which may hold other tables too."""

    def __init__(self, url: URL) -> None:
        super().__init__()
        self.url = url.set(drivername="postgresql+psycopg")
        options = {"connect_timeout": 10, "client_encoding": "utf8"}
        try:
            self.engine = create_engine(
                self.url,
                pool_pre_ping=True,
                hide_parameters=True,
                connect_args={name: options[name] for name in options if name not in url.query},
            )
        except ModuleNotFoundError:
            raise RegistryError("PostgreSQL needs psycopg: pip install 'psycopg[binary]'") from None

    def missing(self) -> str | None:
        return None

    def is_shared(self) -> bool:
        return True

    def insert(self, connection: Connection, rows: Iterable[DatabaseRow], count: int) -> None:
        driver: Any = connection.connection.driver_connection
        target = f"COPY {subscriptions.name} ({', '.join(_COLUMNS)}) FROM STDIN"
        with driver.cursor() as cursor, cursor.copy(target) as copy:
            for row in rows:
                copy.write_row(row)
        if count > 10_000:  # else the planner believes the table small, and scans it each time
            connection.execute(text(f"ANALYZE {subscriptions.name}"))

    def set_checksums(
        self, connection: Connection, table: Table, rows: Iterable[tuple[int, int]]
    ) -> None:
        driver: Any = connection.connection.driver_connection
        with driver.cursor() as cursor:
            cursor.execute(
                "CREATE TEMPORARY TABLE summed (id bigint, checksum bigint) ON COMMIT DROP"
            )
            with cursor.copy("COPY summed FROM STDIN") as copy:
                for row in rows:
                    copy.write_row(row)
            cursor.execute(
                f"UPDATE {table.name} SET checksum = summed.checksum FROM summed WHERE summed.id = {table.name}.id"
            )
            cursor.execute("DROP TABLE summed")

    def _sheltered(self, connection: Connection) -> AbstractContextManager[Any]:
        return connection.begin_nested()

    def _decoding_errors(self) -> tuple[type[Exception], ...]:
        return (
            DataError,
        )  # a database of the encoding SQL_ASCII takes any bytes, but doesn't give them as UTF-8

    def _fetch_raw(self, connection: Connection, statement: Select[Any]) -> list[DatabaseRow]:
        from psycopg.adapt import Loader

        class AsItIs(Loader):
            def load(self, data: Any) -> RawText:
                return RawText(bytes(data))

        words = str(statement.compile(self.engine, compile_kwargs={"literal_binds": True}))
        driver: Any = connection.connection.driver_connection
        with driver.cursor() as cursor:
            cursor.adapters.register_loader("text", AsItIs)
            cursor.execute("SET LOCAL client_encoding TO 'SQL_ASCII'")
            cursor.execute(words)
            rows: list[DatabaseRow] = cursor.fetchall()
            cursor.execute("SET LOCAL client_encoding TO 'UTF8'")
        return rows

    def _begin_reading(self, connection: Connection) -> None:
        connection.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)

    def _begin_writing(self, connection: Connection) -> None:
        connection.execution_options(isolation_level="READ COMMITTED")
        # A writer that hangs (a stopped process, a lost network) must not lock out the others for
        # ever.
        connection.execute(
            text(
                "SELECT set_config('lock_timeout', :patience, true), "
                "set_config('idle_in_transaction_session_timeout', :hung, true)"
            ),
            {"patience": f"{PATIENCE}s", "hung": f"{HUNG}s"},
        )

    def _prepare(self) -> None:
        pass

    def _lock_creation(self, connection: Connection) -> None:
        # Two CREATE TABLE IF NOT EXISTS at once can fail in PostgreSQL; hence a lock. The number is
        # arbitrary.
        connection.execute(text("SELECT pg_advisory_xact_lock(7306011201)"))

    def _advice(self, reason: str) -> str:
        if "failed" in reason and ("connection" in reason or "resolve" in reason):
            return "; check that the server runs, the host, the port and the password"
        if "lock timeout" in reason:
            return f"; another process has been writing for {PATIENCE} seconds: try again later"
        if "No space left" in reason:
            return "; nothing was changed: make room on the server's disk, then try again"
        if "permission denied" in reason or "must be owner" in reason:
            return "; open it once as a user that may create tables and owns the registry's"
        return ""


def _tune(connection: sqlite3.Connection, _record: object) -> None:
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA cache_size = -65536")  # KiB, taken as needed: for bulk loads
    connection.execute("PRAGMA journal_size_limit = 67108864")  # give the log of a bulk load back
    connection.execute("PRAGMA trusted_schema = OFF")


def _arrow_types(statement: Select[Any]) -> pa.Schema:
    return pa.schema([(c.name, _arrow_type(c.type)) for c in statement.selected_columns])


def _arrow_type(kind: Any) -> pa.DataType:
    if isinstance(kind, LargeBinary):
        return pa.binary()
    assert isinstance(kind, Text | Integer)
    return pa.string() if isinstance(kind, Text) else pa.int64()
