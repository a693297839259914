"""Statements that never change, put into words once.

SQLAlchemy takes 30 to 200 µs to build a statement, to find that it knows it, and to wrap what it gives: several times
what SQLite takes to execute it. Where a subscription is added, renewed or found, the words go straight to the driver.
"""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ClauseElement, Connection


class Statement:
    """A statement with parameters; its words for each dialect that it has been run in."""

    def __init__(self, clause: ClauseElement) -> None:
        self._clause = clause
        self._words: dict[str, tuple[str, Sequence[str] | None]] = {}

    def run(self, connection: Connection, **values: object) -> Any:
        """Execute it within the connection's transaction. The first row that it gives; None if it gives none."""
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
