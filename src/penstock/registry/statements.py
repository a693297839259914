"""SQL statements that never change, compiled to text once.

SQLAlchemy takes 30 to 200 µs to build a statement, to find it in its cache, and to wrap the result: several times as
long as SQLite takes to execute it. So where a subscription is added, renewed or found, the text of the statement goes
straight to the driver.
"""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ClauseElement, Connection


class Statement:
    """A statement with parameters, and its text in each dialect that it has been run in."""

    def __init__(self, clause: ClauseElement) -> None:
        self._clause = clause
        self._words: dict[str, tuple[str, Sequence[str] | None]] = {}

    def run(self, connection: Connection, **values: object) -> Any:
        """Execute it within the connection's transaction. Returns the first row of the result; None without rows."""
        words = self._words.get(connection.dialect.name)
        if words is None:
            compiled = self._clause.compile(dialect=connection.dialect)
            words = str(compiled), getattr(compiled, "positiontup", None)
            self._words[connection.dialect.name] = words
        text, names = words
        cursor: Any = connection.connection.cursor()
        try:
            cursor.execute(text, values if names is None else [values[name] for name in names])
            return None if cursor.description is None else cursor.fetchone()
        finally:
            cursor.close()
