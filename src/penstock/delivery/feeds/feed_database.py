"""What a feed store needs of a database: a few tables, transactions, and one writer at a time.

`sqlite_feeds` and `postgresql_feeds` provide it. All statements are the same for both; parameters are written as `?`.
"""

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

FORMAT = 1
"""The format of tables and values. A store of another format is refused."""

TABLES = {
    # One row: the number of the next feed row, of the first that isn't in a segment, of the first that is kept.
    "feed_state": "format BIGINT, next BIGINT, sealed BIGINT, oldest BIGINT",
    "feed_progress": "query TEXT PRIMARY KEY, kind TEXT, batch BIGINT",
    "feed_blocks": (
        "first BIGINT PRIMARY KEY, ends BIGINT, kind TEXT, appended BIGINT, size BIGINT, pairs BIGINT, value {value}"
    ),
    "feed_segments": (
        "first BIGINT PRIMARY KEY, ends BIGINT, level BIGINT, began BIGINT, ended BIGINT, size BIGINT, pairs BIGINT"
    ),
    "feed_postings": "segment BIGINT, subscription BIGINT, number BIGINT, value {value}",
    "feed_dropped": "bucket BIGINT PRIMARY KEY, value {value}",
    "feed_forgotten": "subscription BIGINT PRIMARY KEY, number BIGINT",
}
INDEXES = {"feed_postings_by_place": "feed_postings (segment, subscription, number)"}


class Session(Protocol):
    """A transaction."""

    def all(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """The rows that a query gives."""
        ...

    def run(self, statement: str, *values: object) -> None:
        """Run a statement."""
        ...

    def insert(self, table: str, rows: Iterable[Sequence[object]]) -> None:
        """Add rows, all columns of each."""
        ...


class FeedDatabase(Protocol):
    """Where a feed store keeps its tables."""

    def reading(self) -> AbstractContextManager[Session]:
        """A transaction that sees the database as it is when it begins, however long it reads."""
        ...

    def writing(self) -> AbstractContextManager[Session]:
        """A writing transaction: other writers wait for it. It is on disk when the block ends; undone if that raises.

        It sees what the writer before it has committed. So the numbers that writers give out are in the order in which
        readers get to see them.
        """
        ...

    def size(self) -> int:
        """The bytes that it takes."""
        ...

    def close(self) -> None:
        """Close all connections."""
        ...


def create_statements(value: str) -> list[str]:
    """The statements that make the tables; `value` is the database's type for bytes."""
    tables = [
        f"CREATE TABLE IF NOT EXISTS {name} ({columns.format(value=value)})"
        for name, columns in TABLES.items()
    ]
    indexes = [f"CREATE INDEX IF NOT EXISTS {name} ON {on}" for name, on in INDEXES.items()]
    return [*tables, *indexes]
