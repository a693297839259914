"""The inbox on disk: an SQLite file with the records that were accepted and not yet taken by the mover.

    requests   one row for each request: the positions of its records, and the records as lines
    producers  the last request of each producer in each log
    counters   given: the highest position ever given; time: the latest `_time`

A row for each record would cost four times the work. SQLite syncs its log at every commit (synchronous=FULL): what is
committed survives a power cut.
"""

import sqlite3
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from penstock.server.publishing.producer_states import ProducerState, check_producer, repeat_of
from penstock.server.publishing.published import (
    POSITION,
    TIME,
    InboxRow,
    ProducerError,
    Published,
    Receipt,
)

_TABLES = """
CREATE TABLE IF NOT EXISTS requests (
    first INTEGER PRIMARY KEY, last INTEGER NOT NULL, log TEXT NOT NULL, producer TEXT NOT NULL,
    schema INTEGER NOT NULL, lines BLOB NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS producers (
    log TEXT NOT NULL, id TEXT NOT NULL, epoch INTEGER NOT NULL, seq INTEGER NOT NULL,
    first INTEGER, last INTEGER, used INTEGER NOT NULL, PRIMARY KEY (log, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS producers_by_use ON producers (used);
CREATE TABLE IF NOT EXISTS counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT;
"""
_REMEMBERED = 10_000  # producers whose state is kept in memory
_FORGOTTEN_AFTER = 30 * 86_400_000_000  # microseconds without a request of a producer
_LEAST_FORGET = 3_600_000_000  # microseconds between two looks for such producers

Outcome = Receipt | ProducerError


@dataclass(frozen=True)
class Written:
    """What a transaction has changed: the rows that it added, and the bytes of those that it deleted."""

    rows: Sequence[InboxRow]
    freed: int


class InboxTables:
    """The writing side: for one thread."""

    def __init__(self, path: Path) -> None:
        self._db = connect(path)
        self._db.executescript(_TABLES)
        self._states: dict[tuple[str, str], ProducerState | None] = {}
        counters = dict(self._db.execute("SELECT name, value FROM counters").fetchall())
        self.given: int = counters.get("given", 0)
        self._time: int = counters.get("time", 0)
        self._forgot = self._deleted = 0

    def append(self, requests: Sequence[Published], released: int) -> tuple[list[Outcome], Written]:
        """Accept requests, and delete the rows up to position `released`, which were taken, in one transaction.

        Either all of it is on disk at the end, or an error is raised and nothing has changed.
        """
        given, now = self.given, max(self._time, time.time_ns() // 1000)
        states: dict[tuple[str, str], ProducerState] = {}
        rows: list[InboxRow] = []
        outcomes: list[Outcome] = []
        stamp = _stamp(now)
        self._db.execute("BEGIN IMMEDIATE")
        try:
            for request in requests:
                outcome, row = self._judge(request, given, stamp, states)
                outcomes.append(outcome)
                if row is not None:
                    given = row.last
                    rows.append(row)
            self._write(rows, states, now)
            if rows:
                counters = [("given", given), ("time", now)]
                self._db.executemany("INSERT OR REPLACE INTO counters VALUES (?, ?)", counters)
            freed = self._delete(released)
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise
        self.given, self._time = given, now
        self._deleted = max(self._deleted, released)
        self._remember(states)
        return outcomes, Written(rows, freed)

    def _judge(
        self,
        request: Published,
        given: int,
        stamp: bytes,
        states: dict[tuple[str, str], ProducerState],
    ) -> tuple[Outcome, InboxRow | None]:
        producer, seq = request.producer, None
        if producer is not None:
            key = (request.log, producer.id)
            try:
                check_producer(producer)
                repeat = repeat_of(states.get(key) or self._state(key), producer)
            except ProducerError as error:
                return error, None
            if repeat is not None:
                return repeat, None
            seq = producer.seq
        row = None
        if request.records:
            lines = positioned_lines(request.records, given + 1, stamp)
            name = "" if producer is None else producer.id
            end = given + len(request.records)
            row = InboxRow(given + 1, end, request.log, name, request.schema, lines)
        first, last = (None, None) if row is None else (row.first, row.last)
        if producer is not None:
            states[request.log, producer.id] = ProducerState(
                producer.epoch, producer.seq, first, last
            )
        return Receipt(first, last, False, seq), row

    def _write(
        self, rows: list[InboxRow], states: dict[tuple[str, str], ProducerState], now: int
    ) -> None:
        self._db.executemany(
            "INSERT INTO requests VALUES (?, ?, ?, ?, ?, ?)",
            [(r.first, r.last, r.log, r.producer, r.schema, r.lines) for r in rows],
        )
        self._db.executemany(
            "INSERT OR REPLACE INTO producers VALUES (?, ?, ?, ?, ?, ?, ?)",
            [(*key, s.epoch, s.seq, s.first, s.last, now) for key, s in states.items()],
        )
        if now - self._forgot > _LEAST_FORGET:
            self._db.execute("DELETE FROM producers WHERE used < ?", (now - _FORGOTTEN_AFTER,))
            self._states.clear()
            self._forgot = now

    def _delete(self, released: int) -> int:
        if released <= self._deleted:
            return 0
        size = "SELECT ifnull(sum(length(lines)), 0) FROM requests WHERE first <= ?"
        freed = int(self._db.execute(size, (released,)).fetchone()[0])
        self._db.execute("DELETE FROM requests WHERE first <= ?", (released,))
        return freed

    def _state(self, key: tuple[str, str]) -> ProducerState | None:
        if key not in self._states:
            self._states[key] = _stored_state(self._db, key)
        return self._states[key]

    def _remember(self, states: dict[tuple[str, str], ProducerState]) -> None:
        if len(self._states) > _REMEMBERED:
            self._states.clear()
        self._states.update(states)

    def close(self) -> None:
        self._db.close()


class WaitingRows:
    """The reading side, for another thread: the rows that wait for the mover."""

    def __init__(self, path: Path) -> None:
        self._db = connect(path)

    def after(self, position: int, most_bytes: int) -> list[InboxRow]:
        """Rows after a position, in order: about `most_bytes` of them, and at least one if there is any."""
        found: list[InboxRow] = []
        size = 0
        rows = self._db.execute(
            "SELECT first, last, log, producer, schema, lines FROM requests WHERE first > ? ORDER BY first",
            (position,),
        )
        for row in rows:
            found.append(InboxRow(*row))
            size += len(found[-1].lines)
            if size >= most_bytes:
                break
        rows.close()  # ends the transaction: SQLite's log can't be cut during a read
        return found

    def producer_state(self, log: str, producer: str) -> ProducerState | None:
        """The last request of a producer that is on disk."""
        return _stored_state(self._db, (log, producer))

    def bytes_waiting(self) -> int:
        """How much waits, in bytes of records."""
        return int(
            self._db.execute("SELECT ifnull(sum(length(lines)), 0) FROM requests").fetchone()[0]
        )

    def close(self) -> None:
        self._db.close()


def _stored_state(db: sqlite3.Connection, key: tuple[str, str]) -> ProducerState | None:
    statement = "SELECT epoch, seq, first, last FROM producers WHERE log = ? AND id = ?"
    found = db.execute(statement, key).fetchone()
    return None if found is None else ProducerState(*found)


def connect(path: Path) -> sqlite3.Connection:
    """A connection without implicit transactions, which brings every commit to the disk."""
    db = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=60)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = FULL")
    return db


def positioned_lines(records: Sequence[bytes], first: int, stamp: bytes) -> bytes:
    """Records as lines, each with its position and the time in front.

    >>> positioned_lines([b'{"price":5}', b"{}"], 7, b',"_time":"2026-01-01T00:00:00.000000Z"').decode()
    '{"_position":7,"_time":"2026-01-01T00:00:00.000000Z","price":5}\\n{"_position":8,"_time":"2026-01-01T00:00:00.000000Z"}'
    """
    head = f'{{"{POSITION}":%d%b'.encode()
    full, empty = head + b",%b", head + b"}"
    return b"\n".join(
        [
            full % (n, stamp, record[1:]) if len(record) > 2 else empty % (n, stamp)
            for n, record in enumerate(records, first)
        ]
    )


def _stamp(microseconds: int) -> bytes:
    """The `_time` of records: when they were accepted. It never goes back, even if the clock does."""
    seconds, rest = divmod(microseconds, 1_000_000)
    at = datetime.fromtimestamp(seconds, UTC)
    return f',"{TIME}":"{at:%Y-%m-%dT%H:%M:%S}.{rest:06d}Z"'.encode()
