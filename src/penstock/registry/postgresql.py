"""A registry in PostgreSQL, reached by psycopg 3 whatever driver the URL names.

Readers are REPEATABLE READ (one state from first to last statement), writers READ COMMITTED and lock the registry's one
row first. Rows are written by `COPY`, but not read by it: psycopg hands over a `COPY` row by row, which was measured to
take four times as long as a plain cursor.
"""

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, ClassVar

from sqlalchemy import Connection, Select, Table, create_engine, text
from sqlalchemy.engine import URL
from sqlalchemy.exc import DataError

from penstock.base.errors import RegistryError
from penstock.registry.bad_rows import RawText
from penstock.registry.databases import Database, DatabaseRow, column_names

HUNG = 60
"""Seconds after which PostgreSQL ends a writer that has its turn and does nothing with it."""


class PostgreSQL(Database):
    """A PostgreSQL database, which may hold other tables too."""

    is_shared = True
    _advice: ClassVar = {
        "failed.*(connection|resolve)|(connection|resolve).*failed": "check that the server runs, the host, the port "
        "and the password",
        "lock timeout": "another process has been writing for {} seconds: try again later",
        "No space left": "nothing was changed: make room on the server's disk, then try again",
        "permission denied|must be owner": "open it once as a user that may create tables and owns the registry's",
    }
    # A database of the encoding SQL_ASCII takes any bytes, but doesn't give them as UTF-8.
    _decoding_error = DataError

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

    @contextmanager
    def creating(self) -> Iterator[Connection]:
        with super().creating() as connection:
            # Two CREATE TABLE IF NOT EXISTS at once can fail in PostgreSQL; hence a lock. The number is
            # arbitrary.
            connection.execute(text("SELECT pg_advisory_xact_lock(7306011201)"))
            yield connection

    def insert(
        self, connection: Connection, table: Table, rows: Iterable[DatabaseRow], count: int
    ) -> None:
        with _cursor(connection) as cursor:
            _copy(cursor, f"{table.name} ({column_names(table)})", rows)
        if count > 10_000:  # else the planner believes the table small, and scans it each time
            connection.execute(text(f"ANALYZE {table.name}"))

    def set_checksums(
        self, connection: Connection, table: Table, rows: Iterable[tuple[int, int]]
    ) -> None:
        with _cursor(connection) as cursor:
            cursor.execute(
                "CREATE TEMPORARY TABLE summed (id bigint, checksum bigint) ON COMMIT DROP"
            )
            _copy(cursor, "summed", rows)
            cursor.execute(
                f"UPDATE {table.name} SET checksum = summed.checksum FROM summed WHERE summed.id = {table.name}.id"
            )
            cursor.execute("DROP TABLE summed")

    def _sheltered(self, connection: Connection) -> AbstractContextManager[Any]:
        return connection.begin_nested()

    def _fetch_raw(self, connection: Connection, statement: Select[Any]) -> list[DatabaseRow]:
        from psycopg.adapt import Loader

        class AsItIs(Loader):
            def load(self, data: Any) -> RawText:
                return RawText(bytes(data))

        words = str(statement.compile(self.engine, compile_kwargs={"literal_binds": True}))
        with _cursor(connection) as cursor:
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
            {"patience": f"{self.patience}s", "hung": f"{HUNG}s"},
        )


def _cursor(connection: Connection) -> Any:
    driver: Any = connection.connection.driver_connection
    return driver.cursor()


def _copy(cursor: Any, target: str, rows: Iterable[DatabaseRow]) -> None:
    with cursor.copy(f"COPY {target} FROM STDIN") as copy:
        for row in rows:
            copy.write_row(row)
