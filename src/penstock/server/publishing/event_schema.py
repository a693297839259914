"""The schema of published events: declared, or learned from them and kept in the service's database.

    version 1   price bigint                    learned from {"price": 5}
    version 2   price double, symbol string     learned from {"price": 5.5, "symbol": "GOOG"}

A learned schema is on disk before the first record that needs it, so every record in the inbox can be read. Versions
only grow. A record carries the version that it was checked against, and waits until the matching side has that version.
"""

import threading
from collections.abc import Callable
from pathlib import Path

from penstock.language import Schema, SchemaLike
from penstock.language.types import Struct
from penstock.server.publishing.attribute_types import ddl, from_text, root_of, to_text
from penstock.server.publishing.inbox_tables import connect
from penstock.server.publishing.record_shapes import RecordShape

_TABLE = """
CREATE TABLE IF NOT EXISTS learned_schemas (version INTEGER PRIMARY KEY, schema TEXT NOT NULL) STRICT
"""


class EventSchema:
    """The schema of published events, declared or learned. `shape` is the current one.

    Threads may share it: a `shape` never changes, it is replaced by a later one.
    """

    def __init__(self, path: str | Path, declared: SchemaLike | None = None) -> None:
        self.is_learned = declared is None
        self._listeners: list[Callable[[], object]] = []
        self._turn = threading.Lock()
        self._db = connect(Path(path))
        self._db.execute(_TABLE)
        if declared is None:
            found = self._db.execute(
                "SELECT schema, version FROM learned_schemas ORDER BY version DESC LIMIT 1"
            ).fetchone()
            root, version = (Struct(()), 0) if found is None else (from_text(found[0]), found[1])
            self.shape = RecordShape(root, version)
        else:
            self.shape = RecordShape(root_of(declared))

    @property
    def version(self) -> int:
        """How often a learned schema has grown; 0 if nothing is learned yet, or the schema is declared."""
        return self.shape.version

    @property
    def ddl(self) -> str:
        """The schema with which Spark reads events, position and time included."""
        return ddl(self.shape.root)

    def current(self) -> tuple[int, Schema | None]:
        """The version, and the schema as filters see it; None as long as nothing is learned."""
        shape = self.shape
        return shape.version, Schema(shape.root) if shape.root.fields else None

    def on_change(self, listener: Callable[[], object]) -> None:
        """Call a listener whenever the schema has grown, in the thread that made it grow."""
        self._listeners.append(listener)

    def adopt(self, before: RecordShape, wider: Struct) -> RecordShape | None:
        """Learn a schema that was derived from the shape `before`; None if another was learned meanwhile.

        It is on disk when this returns. To be called in a thread that may wait for the disk.
        """
        with self._turn:
            if self.shape is not before:
                return None
            shape = RecordShape(wider, before.version + 1)
            text = to_text(wider)
            self._db.execute("INSERT INTO learned_schemas VALUES (?, ?)", (shape.version, text))
            self.shape = shape
        for listener in self._listeners:
            listener()
        return shape

    def close(self) -> None:
        """Close the database."""
        self._db.close()
