"""A database that a registry can live in. What differs between SQLite and PostgreSQL is in `sqlite` and `postgresql`.

Five things differ: how to connect, how a reading and a writing transaction begin, how to keep two processes from
creating the tables at once, how to move a million rows in, and what an error means. All the rest is SQLAlchemy and the
same for both.
"""

import logging
import os
import re
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, ClassVar

import pyarrow as pa
from sqlalchemy import Connection, Engine, Integer, LargeBinary, Select, Table, Text, inspect
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from penstock.base.errors import RegistryError
from penstock.registry.bad_rows import BadRow, set_changed_rows_aside, sort_out

_log = logging.getLogger("penstock.registry")
_FETCH = (
    500  # rows read at a time: too few to wake the garbage collector, which would double the time
)

DatabaseRow = tuple[object, ...]


class Database(ABC):
    """A place for the tables. `url` is None in memory; `str()` hides the password."""

    url: URL | None
    engine: Engine

    patience = 300
    """Seconds a writer waits for its turn. Loading a million rows takes about ten, if not much else runs."""

    unnoticed = 2.0
    """Seconds that a writer waits before a warning says so."""

    is_shared = False
    """Whether tables of others may stand beside ours."""

    _advice: ClassVar[dict[str, str]]
    """What to do about errors, by a pattern of their messages."""

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
            with self.waiting():
                self._begin_writing(connection)
            yield connection
            connection.commit()

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """A block in which a writer may have to wait for its turn: after a moment, a warning says so, and for what."""
        if self.url is None:
            yield
            return
        said = (
            "waiting for %s: another process is writing to it; %d seconds at most",
            self,
            self.patience,
        )
        timer = threading.Timer(self.unnoticed, _log.warning, said)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    @contextmanager
    def creating(self) -> Iterator[Connection]:
        """A writing transaction in which the tables are made: only one process at a time is in it."""
        with self.writing() as connection:
            yield connection

    def tables(self, connection: Connection) -> set[str]:
        """The names of the tables in the database, ours and others."""
        return set(inspect(connection).get_table_names())

    def missing(self) -> str | None:
        """Why there is no registry to open, if that is known before connecting."""
        return None

    # --- reading rows --------------------------------------------------------------------------

    def fetch(self, connection: Connection, statement: Select[Any]) -> pa.Table:
        """The rows of a statement in Arrow. Its columns are text, bytes or integers."""
        types = _arrow_types(statement)
        result = connection.execute(statement)
        cursor = result.cursor  # past SQLAlchemy, which would make an object of each row
        assert cursor is not None, "a SELECT has a cursor"
        tables = [types.empty_table()]
        while rows := cursor.fetchmany(_FETCH):
            tables.append(_table(rows, types))
        result.close()
        return pa.concat_tables(tables)

    def fetch_rows(
        self, connection: Connection, statement: Select[Any]
    ) -> tuple[pa.Table, list[BadRow]]:
        """The rows of a statement over subscriptions, and apart from them those that aren't as they were written.

        The statement must have the checksum and the columns of its upper half. With the columns of the lower half, too,
        all of the checksum is checked.
        """
        table, bad = self.fetch_readable(connection, statement)
        good, changed = set_changed_rows_aside(table.combine_chunks())
        return good, bad + changed

    def fetch_readable(
        self, connection: Connection, statement: Select[Any]
    ) -> tuple[pa.Table, list[BadRow]]:
        """The same, whatever the checksums are: only rows with values of wrong types are apart from the others."""
        try:
            with self._sheltered(connection):
                table = self.fetch(connection, statement)
            if any(c.null_count for c in table.columns if pa.types.is_integer(c.type)):
                raise ValueError("NULL in a column of numbers")
            return table, []
        except (pa.ArrowException, ValueError, OverflowError, self._decoding_error) as error:
            types = _arrow_types(statement)
            good, bad = sort_out(self._fetch_raw(connection, statement), types)
            if not bad:
                raise error from None  # something else is wrong
            return _table(good, types) if good else types.empty_table(), bad

    # --- what differs --------------------------------------------------------------------------

    _decoding_error: type[Exception]
    """What the driver raises for text that isn't UTF-8."""

    @abstractmethod
    def _fetch_raw(self, connection: Connection, statement: Select[Any]) -> list[DatabaseRow]:
        """The rows of a statement, texts as `RawText`."""

    @abstractmethod
    def insert(
        self, connection: Connection, table: Table, rows: Iterable[DatabaseRow], count: int
    ) -> None:
        """Insert `count` rows in bulk: tuples in the order of the table's columns."""

    @abstractmethod
    def set_checksums(
        self, connection: Connection, table: Table, rows: Iterable[tuple[int, int]]
    ) -> None:
        """Write the checksums of many rows: pairs of id and checksum."""

    @abstractmethod
    def _begin_reading(self, connection: Connection) -> None: ...

    @abstractmethod
    def _begin_writing(self, connection: Connection) -> None: ...

    def _sheltered(self, connection: Connection) -> AbstractContextManager[Any]:
        """A block in which a statement may fail without ending the transaction."""
        return nullcontext()

    # --- connections ---------------------------------------------------------------------------

    def close(self) -> None:
        self.engine.dispose()

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
            found = [what for words, what in self._advice.items() if re.search(words, reason)]
            advice = f"; {found[0].format(self.patience)}" if found else ""
            raise RegistryError(f"can't {verb} the registry {self}: {reason}{advice}") from error


def column_names(table: Table) -> str:
    """The columns of a table, in order, as SQL lists them."""
    return ", ".join(column.name for column in table.columns)


def _table(rows: Sequence[DatabaseRow], types: pa.Schema) -> pa.Table:
    columns = zip(zip(*rows, strict=True), types.types, strict=True)
    return pa.table([pa.array(values, kind) for values, kind in columns], schema=types)


def _arrow_types(statement: Select[Any]) -> pa.Schema:
    return pa.schema([(c.name, _arrow_type(c.type)) for c in statement.selected_columns])


def _arrow_type(kind: Any) -> pa.DataType:
    if isinstance(kind, LargeBinary):
        return pa.binary()
    assert isinstance(kind, Text | Integer)
    return pa.string() if isinstance(kind, Text) else pa.int64()
