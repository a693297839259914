"""`network.db`: the state of the service as a client of the network, in SQLite.

leaving   events that were published here and that the broker hasn't confirmed yet, by their position
places    taken: the position up to which records were looked at; mail, epoch, seq: the last mail that is in the
          inbox, and the number that it was published under
told      subscriptions that were sent to the broker
"""

import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

_TABLES = """
CREATE TABLE IF NOT EXISTS leaving (position INTEGER PRIMARY KEY, record BLOB NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS places (name TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS told (subscription INTEGER PRIMARY KEY, text TEXT NOT NULL) STRICT;
"""


class MailPlace(NamedTuple):
    """The last mail that is in the inbox, and the number that it was published under there."""

    mail: int = 0
    epoch: int = 0
    seq: int = -1


class NetworkDatabase:
    """Any thread may use it; a lock lets in one at a time."""

    def __init__(self, path: Path) -> None:
        self._lock = threading.Lock()
        self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = FULL")
        self._db.executescript(_TABLES)

    # --- what leaves ---------------------------------------------------------------------------------

    def add_leaving(self, records: Iterable[tuple[int, bytes]], last: int) -> None:
        """Keep records until the broker has them, and note that records up to position `last` were looked at."""
        with self._writing():
            self._db.executemany("INSERT OR IGNORE INTO leaving VALUES (?, ?)", records)
            self._db.execute("INSERT OR REPLACE INTO places VALUES ('taken', ?)", (last,))

    @property
    def taken(self) -> int:
        return self._places().get("taken", 0)

    def leaving(self, after: int, most: int) -> list[tuple[int, bytes]]:
        """The first records after a position that wait, in order."""
        with self._lock:
            return self._db.execute(
                "SELECT position, record FROM leaving WHERE position > ? ORDER BY position LIMIT ?",
                (after, most),
            ).fetchall()

    def count_leaving(self) -> int:
        with self._lock:
            found: int = self._db.execute("SELECT count(*) FROM leaving").fetchone()[0]
        return found

    def remove_leaving(self, positions: Sequence[int]) -> None:
        with self._writing():
            self._db.executemany(
                "DELETE FROM leaving WHERE position = ?", [(one,) for one in positions]
            )

    # --- what has arrived ------------------------------------------------------------------------------

    @property
    def mail_place(self) -> MailPlace:
        places = self._places()
        return MailPlace(places.get("mail", 0), places.get("epoch", 0), places.get("seq", -1))

    def note_mail(self, place: MailPlace) -> None:
        with self._writing():
            self._db.executemany(
                "INSERT OR REPLACE INTO places VALUES (?, ?)", place._asdict().items()
            )

    # --- subscriptions ---------------------------------------------------------------------------------

    def told(self) -> dict[int, str]:
        with self._lock:
            return dict(self._db.execute("SELECT subscription, text FROM told").fetchall())

    def note_told(self, texts: Iterable[tuple[int, str]], gone: Iterable[int] = ()) -> None:
        with self._writing():
            self._db.executemany("INSERT OR REPLACE INTO told VALUES (?, ?)", texts)
            self._db.executemany(
                "DELETE FROM told WHERE subscription = ?", [(one,) for one in gone]
            )

    def close(self) -> None:
        with self._lock:
            self._db.close()

    def _places(self) -> dict[str, int]:
        with self._lock:
            return dict(self._db.execute("SELECT name, value FROM places").fetchall())

    @contextmanager
    def _writing(self) -> Iterator[None]:
        with self._lock:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise
