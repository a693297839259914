"""The store: the tables of one registry, opened; reading them, and taking turns to write.

It knows numbers, texts and hashes, and nothing of filters, leases or schemas: its callers have checked all that. Every
read is one transaction, so its result is one state of the registry, at one sequence number.
"""

import sys
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict

import numpy as np
import pyarrow as pa
from sqlalchemy import Connection, and_, func, insert, not_, or_, select

from penstock.base.errors import RegistryError
from penstock.matching.subscription_rows import Changes, Rows
from penstock.registry.bad_rows import BadRow
from penstock.registry.databases import Database
from penstock.registry.details import bad_details, find_details, read_details, read_paces
from penstock.registry.held_back import keep_held, read_held
from penstock.registry.history import Ended, find_end
from penstock.registry.queries import (
    Head,
    all_columns,
    find,
    is_removed,
    live,
    read_head,
)
from penstock.registry.records import NO_DETAILS, Details, Record
from penstock.registry.tables import (
    FORMAT,
    metadata,
    registry,
    resyncs,
    subscriptions,
)
from penstock.registry.turns import Turn
from penstock.registry.upgrades import upgrade

_PAGE = 1_000  # subscriptions that are read at a time
_s = subscriptions.c
_matched_columns = (_s.id, _s.subscriber, _s.filter, _s.expires, is_removed, _s.checksum)
_has_texts = or_(_s.subscriber.is_not(None), _s.filter.is_not(None))


class Store:
    """The tables of one registry, opened: made if they aren't there and `create` allows it."""

    def __init__(self, database: Database, create: bool = True) -> None:
        self.database = database
        self._open = True
        missing = database.missing()
        if missing is not None and not create:
            raise RegistryError(f"{missing}: no registry to open")
        if not self._exists():
            if not create:
                raise RegistryError(f"there is no registry in {database}")
            with database.creating() as connection:
                if registry.name not in database.tables(connection):
                    _found(connection)
        upgrade(database)
        self.identity = self.head().identity

    def head(self) -> Head:
        """What the registry is, and where its counters stand."""
        with self.reading() as connection:
            return read_head(connection)

    def find(self, sid: int, now: int) -> tuple[Record, Details] | None:
        """The live subscription with this id."""
        with self.reading() as connection:
            record = find(connection, sid, now)
            return None if record is None else (record, find_details(connection, sid))

    def find_end(self, sid: int) -> Ended | None:
        """How a subscription ended, if that is known."""
        with self.reading() as connection:
            return find_end(connection, sid)

    def ids_of(self, subscriber: str, now: int, limit: int) -> tuple[int, ...]:
        """The ids of a subscriber's live subscriptions, in order, `limit` at most."""
        wanted = select(_s.id).where(_s.subscriber == subscriber, live(now)).order_by(_s.id)
        with self.reading() as connection:
            return tuple(connection.scalars(wanted.limit(limit)))

    def records(
        self, subscriber: str | None, now: int | None, limit: int | None, after: int | None = None
    ) -> Iterator[tuple[Record, Details]]:
        """Subscriptions in order of id, read page by page: one subscriber's, or all.

        They are live at `now`; without `now` expired ones are among them.
        """
        wanted = [not_(_s.removed) if now is None else live(now)]
        if subscriber is not None:
            wanted.append(_s.subscriber == subscriber)
        statement = select(*all_columns).where(*wanted).order_by(_s.id)
        left = sys.maxsize if limit is None else limit
        while left > 0:
            size = min(left, _PAGE)
            page = statement if after is None else statement.where(_s.id > after)
            with self.reading() as connection:
                table, bad = self.database.fetch_rows(connection, page.limit(size))
                kept = read_details(connection, table.column("id").to_numpy())
            for row in table.drop_columns(["removed", "checksum"]).to_pylist():
                yield Record(**row), kept.get(row["id"], NO_DETAILS)
            ids = [*table.column("id").to_pylist(), *(row.id for row in bad)]
            if len(ids) < size:
                return
            left -= len(table)
            after = max(ids)

    def bad_rows(self) -> list[BadRow]:
        """The rows of subscriptions, removed ones included, and of their details that can't be relied upon."""
        with self.reading() as connection:
            bad = self.database.fetch_rows(connection, select(*all_columns))[1]
            bad += bad_details(connection)
        return sorted(bad, key=lambda row: row.id)

    def count(self, now: int, subscriber: str | None = None) -> int:
        """How many subscriptions are live: all, or a subscriber's."""
        wanted = live(now) if subscriber is None else and_(live(now), _s.subscriber == subscriber)
        with self.reading() as connection:
            return connection.scalar(select(func.count()).where(wanted)) or 0

    def active(self, now: int) -> Rows:
        """All live subscriptions in order of id, at one sequence number."""
        with self.reading() as connection:
            sequence = read_head(connection).sequence
            # Expired ones too, and removed ones that aren't tombstones: a damaged row may be wrong just there.
            statement = select(*_matched_columns).where(or_(not_(_s.removed), _has_texts))
            table, bad = self.database.fetch_rows(connection, statement)
        ended = np.asarray(table.column("removed"), np.bool_)
        ended |= table.column("expires").to_numpy() <= now
        return _rows(table.filter(~ended) if ended.any() else table, bad, sequence)

    def changes(self, since: int) -> Changes:
        """The last state of each subscription changed after `since`."""
        with self.reading() as connection:
            sequence = read_head(connection).sequence
            if since > sequence:
                raise RegistryError(
                    f"there are no changes since {since}: the last one in {self.database} is "
                    f"{sequence}. Was the registry restored from a backup? Then start again from "
                    "all of its subscriptions"
                )
            statement = select(*_matched_columns).where(_s.sequence > since)
            table, bad = self.database.fetch_rows(connection, statement)
        removed = np.asarray(table.column("removed"), np.bool_)
        # Subscriptions that can't be read count as removed.
        gone = [*table.column("id").to_numpy()[removed], *(row.id for row in bad)]
        upserts = _rows(table.filter(~removed) if removed.any() else table, bad, sequence)
        return Changes(sequence, upserts, np.sort(np.array(gone, np.int64)))

    def resynced(self, after: int, until: int) -> set[int]:
        """The ids whose last resync has a number above `after`, up to `until`."""
        number = resyncs.c.sequence
        with self.reading() as connection:
            wanted = select(resyncs.c.id).where(number > after, number <= until)
            return set(connection.scalars(wanted))

    def paces(self) -> list[tuple[int, str, str]]:
        """Of all subscriptions that have a pace: id, pace and text."""
        with self.reading() as connection:
            return read_paces(connection)

    def held(self, ids: Sequence[int]) -> dict[int, int]:
        """How many notifications pipelines have held back, by subscription, if there are any."""
        with self.reading() as connection:
            return read_held(connection, np.array(ids, np.int64))

    def note_held(self, pipeline: str, held: Mapping[int, int], now: int) -> None:
        """Note how many notifications a pipeline has held back in all, by subscription."""
        self._check_open()
        with self.database.writing() as connection:
            keep_held(self.database, connection, pipeline, held, now)

    @contextmanager
    def turn(self) -> Iterator[Turn]:
        """A writing transaction: committed at the end of the block, undone if the block fails."""
        self._check_open()
        with self.database.writing() as connection:
            turn = Turn(self.database, connection)
            yield turn
            turn.close()

    def close(self) -> None:
        """Give the connections back. What was committed stays, except in memory."""
        self._open = False
        self.database.close()

    def reading(self) -> AbstractContextManager[Connection]:
        """A transaction that sees one state of the registry."""
        self._check_open()
        return self.database.reading()

    def _check_open(self) -> None:
        if not self._open:
            raise RegistryError(f"the registry {self.database} is closed: open it again")

    def _exists(self) -> bool:
        with self.database.reading() as connection:
            names = self.database.tables(connection)
            if registry.name in names:
                return True
            if subscriptions.name in names:
                raise RegistryError(
                    f"{self.database} holds half a registry: "
                    f"{subscriptions.name} without {registry.name}"
                )
            if names and not self.database.is_shared:
                some = ", ".join(sorted(names)[:3])
                raise RegistryError(
                    f"{self.database} is a database of something else (tables {some}): "
                    "give the registry a file of its own"
                )
            return False


def _found(connection: Connection) -> None:
    """Make a new registry: its tables, and its one row."""
    metadata.create_all(connection)
    head = Head(str(uuid.uuid4()), None, 0, 0)
    connection.execute(
        insert(registry).values(one=1, format=FORMAT, checksum=head.checksum, **asdict(head))
    )


def _rows(table: pa.Table, bad: Sequence[BadRow], sequence: int) -> Rows:
    # In order of id, so that one state has one form. Sorted here: a database without room would
    # sort on disk.
    ids = table.column("id").to_numpy()
    if np.any(ids[1:] < ids[:-1]):
        table = table.take(np.argsort(ids))
    return Rows(
        sequence,
        table.column("id").to_numpy(),
        one_array(table.column("subscriber")),
        one_array(table.column("filter")),
        table.column("expires").to_numpy(),
        tuple((row.id, row.error()) for row in bad),
    )


def one_array(column: pa.ChunkedArray) -> pa.StringArray:
    """A column in one piece, as the compiler wants it: so at most 2 GiB of text."""
    if column.nbytes >= 2**31:
        raise RegistryError(
            f"the subscriptions hold {column.nbytes / 2**30:.1f} GiB of text, and 2 GiB is the most "
            "that one registry can hold: spread them over several"
        )
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays([pa.array([], pa.string()), *column.chunks])
