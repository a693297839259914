"""`broker.db`: what a broker still has when it is started again, in SQLite. Many changes share one sync.

    starts           how often it was started: each start is an incarnation of its own
    client_texts     what its clients subscribed and advertised, each under a number at this broker
    outbox           events of its clients that aren't everywhere yet
    known_brokers    the brokers that it owes these events to
    mail             what its clients haven't taken yet, in the order in which they get it
    recent_mail      ids of events that clients were sent last, by which repeats are dropped
    dropped_mail     how many events of each client were dropped, since it left too much mail unread

One thread writes. `write` is a transaction: all of it is on disk when it returns, or none.
"""

import fcntl
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from penstock.base.durable import make_folder
from penstock.network.broker_steps import ID_BYTES, DropEvents, KeepEvents, KeepKnown, Kept
from penstock.network.client_frames import MailBatch
from penstock.network.links.link import NetworkError

SUBSCRIPTION, ADVERTISEMENT = "subscription", "advertisement"

_TABLES = """
CREATE TABLE IF NOT EXISTS starts (only INTEGER PRIMARY KEY CHECK (only = 0), count INTEGER NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS client_texts (
    number INTEGER NOT NULL, kind TEXT NOT NULL, client TEXT NOT NULL, own INTEGER NOT NULL, text TEXT NOT NULL,
    PRIMARY KEY (kind, number)
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS outbox (number INTEGER PRIMARY KEY, ids BLOB NOT NULL, events BLOB NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS known_brokers (
    only INTEGER PRIMARY KEY CHECK (only = 0), names TEXT NOT NULL, joined INTEGER NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS mail (
    client TEXT NOT NULL, number INTEGER NOT NULL, ids BLOB NOT NULL, events BLOB NOT NULL,
    rows BLOB NOT NULL, subscriptions BLOB NOT NULL, PRIMARY KEY (client, number)
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS recent_mail (
    client TEXT NOT NULL, number INTEGER NOT NULL, ids BLOB NOT NULL, PRIMARY KEY (client, number)
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS dropped_mail (client TEXT PRIMARY KEY, events INTEGER NOT NULL) STRICT, WITHOUT ROWID;
"""
_COUNT_DROPPED = (
    "INSERT INTO dropped_mail VALUES (?, ?) "
    "ON CONFLICT (client) DO UPDATE SET events = events + excluded.events"
)


class ClientText(NamedTuple):
    """A subscription or an advertisement of a client: its number here, and the client's own for it."""

    number: int
    kind: str
    client: str
    own: int
    text: str


class Mail(NamedTuple):
    """Events for a client."""

    client: str
    batch: MailBatch


@dataclass(frozen=True, slots=True)
class ForgetText:
    """A client has unsubscribed or withdrawn."""

    kind: str
    number: int


@dataclass(frozen=True, slots=True)
class ForgetMail:
    """A client is done with its mail up to a number. If `recent`, only the ids of that mail aren't needed any longer.

    `dropped`: how many events of it the client has never taken.
    """

    client: str
    up_to: int
    recent: bool = False
    dropped: int = 0


@dataclass(frozen=True, slots=True)
class ForgetClient:
    """A client has left for good. Only the number of its last mail is kept, so that no number is given twice."""

    client: str
    last: int


Change = (
    KeepEvents | DropEvents | KeepKnown | ClientText | ForgetText | Mail | ForgetMail | ForgetClient
)


class HostStore:
    """The database, opened: only one process at a time can have it."""

    def __init__(self, folder: Path) -> None:
        make_folder(folder)
        self._lock = (folder / "broker.lock").open("wb")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._lock.close()
            raise NetworkError(
                f"another broker runs in {folder}: end that one first, or give another folder"
            ) from None
        path = folder / "broker.db"
        try:
            self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = FULL")
            self._db.executescript(_TABLES)
        except sqlite3.Error as error:
            self._lock.close()
            raise NetworkError(f"can't open {path}: {error}") from error

    # --- at the start ----------------------------------------------------------------------------

    def count_start(self) -> int:
        """The number of this start: 1, 2, 3 …"""
        with self._transaction():
            self._db.execute(
                "INSERT INTO starts VALUES (0, 1) ON CONFLICT (only) DO UPDATE SET count = count + 1"
            )
        found: int = self._db.execute("SELECT count FROM starts").fetchone()[0]
        return found

    def texts(self) -> list[ClientText]:
        rows = self._db.execute(
            "SELECT number, kind, client, own, text FROM client_texts ORDER BY kind, number"
        )
        return [ClientText(*row) for row in rows]

    def kept(self) -> tuple[Kept, ...]:
        rows = self._db.execute("SELECT number, ids, events FROM outbox ORDER BY number")
        return tuple(Kept(*row) for row in rows)

    def known(self) -> tuple[tuple[str, ...], bool]:
        """The brokers that are owed events, and whether this one has ever joined the others."""
        found = self._db.execute("SELECT names, joined FROM known_brokers").fetchone()
        return (tuple(found[0].split()), bool(found[1])) if found else ((), False)

    def recent(self) -> Iterator[tuple[str, int, list[bytes]]]:
        """What clients were sent last: client, number of the mail, ids of its events."""
        rows = self._db.execute("SELECT client, number, ids FROM recent_mail ORDER BY number")
        for client, number, ids in rows:
            yield client, number, split_ids(ids)

    def waiting(self) -> Iterator[tuple[str, int, int, int]]:
        """The mail that clients haven't taken, oldest first: client, number, how many events, bytes."""
        rows = self._db.execute(
            "SELECT client, number, length(ids), length(events) FROM mail ORDER BY client, number"
        )
        for client, number, ids, size in rows:
            yield client, number, ids // ID_BYTES, size

    def dropped(self) -> list[tuple[str, int]]:
        """How many events of each client were dropped."""
        return self._db.execute("SELECT client, events FROM dropped_mail").fetchall()

    # --- while it runs ---------------------------------------------------------------------------

    def write(self, changes: Sequence[Change]) -> None:
        """Make changes, in this order. They are on disk when this returns."""
        with self._transaction():
            for statement, rows in _grouped(changes):
                self._db.executemany(statement, rows)

    def mail_after(self, client: str, number: int, most: int, most_bytes: int) -> list[MailBatch]:
        """What a client gets next: one batch at least, if there is one."""
        rows = self._db.execute(
            "SELECT number, ids, events, rows, subscriptions FROM mail WHERE client = ? AND number > ? "
            "ORDER BY number LIMIT ?",
            (client, number, most),
        )
        found: list[MailBatch] = []
        size = 0
        for row in rows:
            size += len(row[2])
            if found and size > most_bytes:
                break
            found.append(MailBatch(*row))
        return found

    def close(self) -> None:
        self._db.close()
        self._lock.close()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise


def split_ids(ids: bytes) -> list[bytes]:
    """The single ids.

    >>> split_ids(bytes(range(32)))[1][:4]
    b'\\x10\\x11\\x12\\x13'
    """
    return [ids[start : start + ID_BYTES] for start in range(0, len(ids), ID_BYTES)]


def _grouped(changes: Iterable[Change]) -> Iterator[tuple[str, list[tuple[object, ...]]]]:
    """Statements with the rows of each: changes in a row that have the same statement go together."""
    before, rows = "", list[tuple[object, ...]]()
    for change in changes:
        for statement, row in _statements(change):
            if statement != before and rows:
                yield before, rows
                rows = []
            before = statement
            rows.append(row)
    if rows:
        yield before, rows


def _statements(change: Change) -> list[tuple[str, tuple[object, ...]]]:
    match change:
        case KeepEvents(number, ids, events):
            return [("INSERT OR REPLACE INTO outbox VALUES (?, ?, ?)", (number, ids, events))]
        case DropEvents(number):
            return [("DELETE FROM outbox WHERE number = ?", (number,))]
        case KeepKnown(known, joined):
            row = (" ".join(known), int(joined))
            return [("INSERT OR REPLACE INTO known_brokers VALUES (0, ?, ?)", row)]
        case ClientText():
            return [("INSERT OR REPLACE INTO client_texts VALUES (?, ?, ?, ?, ?)", tuple(change))]
        case ForgetText(kind, number):
            row = (kind, number)
            return [("DELETE FROM client_texts WHERE kind = ? AND number = ?", row)]
        case Mail(client, b):
            kept = (client, b.number, b.ids, b.events, b.rows, b.subscriptions)
            return [
                ("INSERT INTO mail VALUES (?, ?, ?, ?, ?, ?)", kept),
                ("INSERT INTO recent_mail VALUES (?, ?, ?)", (client, b.number, b.ids)),
            ]
        case ForgetMail(client, up_to, recent, dropped):
            table = "recent_mail" if recent else "mail"
            gone = (f"DELETE FROM {table} WHERE client = ? AND number <= ?", (client, up_to))
            return [gone, (_COUNT_DROPPED, (client, dropped))] if dropped else [gone]
        case ForgetClient(client, last):
            return [
                ("DELETE FROM mail WHERE client = ?", (client,)),
                ("DELETE FROM recent_mail WHERE client = ? AND number < ?", (client, last)),
                ("DELETE FROM dropped_mail WHERE client = ?", (client,)),
            ]
