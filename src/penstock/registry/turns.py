"""Turns: the writing transactions of a registry, one at a time.

A turn holds the registry's one row, and with it the right to give out sequence numbers and ids. Within a turn nobody
else changes anything, so what it reads stays true until it commits; and when it fails, the numbers it took are free
again, which keeps them dense. Since the row is held until the commit, numbers are in commit order: whoever sees change
N+1 sees N.

It knows numbers, texts and hashes, and nothing of filters, leases or schemas: its callers have checked all that.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa
from sqlalchemy import Connection, Table, bindparam, delete, insert, not_, select, update

from penstock.base.errors import RegistryError
from penstock.registry.checksums import checksum_of_tombstone, checksums_of_rows
from penstock.registry.databases import Database, DatabaseRow
from penstock.registry.incoming import Incoming
from penstock.registry.queries import (
    FEW,
    Head,
    Ids,
    all_columns,
    among,
    find,
    present,
    read_head,
)
from penstock.registry.records import Record
from penstock.registry.statements import Statement
from penstock.registry.tables import costs, registry, resyncs, subscriptions

ASSIGNED_BELOW = 2**62
"""Ids that the registry assigns stay below this. Loaded ids may be any int64."""

_CHUNK = 50_000  # rows turned from Arrow into Python at a time
_s = subscriptions.c

_add = Statement(insert(subscriptions))
_renew = Statement(
    update(subscriptions)
    .where(_s.id == bindparam("renewed"))
    .values(expires=bindparam("until"), sequence=bindparam("number"), checksum=bindparam("summed"))
)
_remove = (
    update(subscriptions)
    .where(_s.id == bindparam("gone"))
    .values(
        subscriber=None,
        filter=None,
        ticket=None,
        created=0,
        expires=0,
        removed=True,
        sequence=bindparam("number"),
        checksum=bindparam("summed"),
    )
)
_count = Statement(
    update(registry).values(
        schema=bindparam("now_schema"),
        sequence=bindparam("now_sequence"),
        last_assigned=bindparam("now_last_assigned"),
        checksum=bindparam("now_checksum"),
    )
)


class Turn:
    """A writing transaction that holds the registry's row: until it ends, only it changes things."""

    def __init__(self, database: Database, connection: Connection) -> None:
        self._database = database
        self.connection = connection
        with database.waiting():
            self._before = read_head(connection, lock=True)
        self.sequence = self._before.sequence
        self.last_assigned = self._before.last_assigned
        self.schema = self._before.schema

    def find(self, sid: int, now: int) -> Record | None:
        """The live subscription with this id."""
        return find(self.connection, sid, now)

    def add(
        self, subscriber: str, text: str, ticket: bytes | None, created: int, expires: int
    ) -> int:
        """Add a subscription; its id."""
        record = Record(self.take_ids(1), subscriber, text, ticket, created, expires, self._next())
        _add.run(self.connection, **record._asdict(), removed=False, checksum=record.checksum)
        return record.id

    def renew(self, record: Record, expires: int) -> Record:
        """Give a subscription a new lease end."""
        renewed = record._replace(expires=expires, sequence=self._next())
        _renew.run(
            self.connection,
            renewed=record.id,
            until=expires,
            number=renewed.sequence,
            summed=renewed.checksum,
        )
        return renewed

    def resync(self, record: Record) -> Record:
        """Note that a subscription is to be sent everything again: a change of it that changes nothing else."""
        noted = self.renew(record, record.expires)
        self._forget(resyncs, np.array([record.id], np.int64))
        self.connection.execute(insert(resyncs), {"id": record.id, "sequence": noted.sequence})
        return noted

    def remove(self, ids: Sequence[int]) -> None:
        """Leave only tombstones of these subscriptions."""
        if not ids:
            return
        first, self.sequence = self.sequence + 1, self.sequence + len(ids)
        gone = [
            {"gone": sid, "number": number, "summed": checksum_of_tombstone(sid, number)}
            for number, sid in enumerate(ids, first)
        ]
        self.connection.execute(_remove, gone)
        self._forget_beside(np.array(ids, np.int64))

    def find_expired(self, now: int) -> list[int]:
        """The ids of subscriptions whose lease has ended and that still take room."""
        wanted = select(*all_columns).where(not_(_s.removed), _s.expires <= now).order_by(_s.id)
        # A row that isn't as it was written is left for its owner to see: perhaps its lease hasn't ended.
        table, _ = self._database.fetch_rows(self.connection, wanted)
        ids: list[int] = table.column("id").to_pylist()
        return ids

    def is_there(self, sid: int, now: int) -> bool:
        """Whether there is a live subscription with this id, or a row of it that can't be relied upon."""
        return len(self.present(np.array([sid], np.int64), now)[0]) > 0

    def present(self, ids: Ids, now: int) -> tuple[Ids, Ids]:
        """Those of `ids` that live subscriptions have, or rows that can't be relied upon; those that dead ones have."""
        live, dead = present(self._database, self.connection, ids, now)
        bad: list[int] = []
        for start in range(0, len(dead), FEW):
            wanted = select(*all_columns).where(among(_s.id, dead[start : start + FEW]))
            bad += [row.id for row in self._database.fetch_rows(self.connection, wanted)[1]]
        if bad:
            live, dead = np.append(live, bad), np.setdiff1d(dead, bad)
        return live, dead

    def forget(self, ids: Ids) -> None:
        """Delete dead subscriptions whose ids are about to be given to new ones."""
        self._forget(subscriptions, ids)
        self._forget_beside(ids)

    def _forget_beside(self, ids: Ids) -> None:
        """Delete what other tables know of subscriptions."""
        self._forget(costs, ids)
        self._forget(resyncs, ids)

    def _forget(self, table: Table, ids: Ids) -> None:
        for start in range(0, len(ids), FEW):
            few = among(table.c.id, ids[start : start + FEW])
            self.connection.execute(delete(table).where(few))

    def take_ids(self, count: int) -> int:
        """Take the next `count` ids; the first of them."""
        first = self.last_assigned + 1
        if first + count > ASSIGNED_BELOW:
            raise RegistryError("the registry has no ids left to assign: load with ids of your own")
        self.last_assigned += count
        return first

    def add_many(
        self,
        ids: Ids,
        incoming: Incoming,
        tickets: Sequence[bytes] | None,
        created: int,
        expires: int,
        advance: Callable[[int], None],
    ) -> None:
        """Add subscriptions in bulk under these ids, which must be free (see `present`, `forget`, `take_ids`).

        `advance` is called with how many rows are written so far.
        """
        first = self.sequence + 1

        def rows() -> Iterator[DatabaseRow]:
            for start in range(0, len(ids), _CHUNK):
                some = ids[start : start + _CHUNK]
                size = len(some)
                hashes = [None] * size if tickets is None else tickets[start : start + size]
                columns = {
                    "id": some,
                    "subscriber": incoming.subscribers.slice(start, size),
                    "filter": incoming.filters.slice(start, size),
                    "ticket": pa.array(hashes, pa.binary()),
                    "created": np.full(size, created),
                    "expires": np.full(size, expires),
                    "sequence": np.arange(first + start, first + start + size),
                    "removed": np.zeros(size, np.bool_),
                }
                checksums = checksums_of_rows(pa.table(columns))
                # NumPy's numbers as lists at once: Arrow makes an object of each.
                lists = [
                    column.tolist() if isinstance(column, np.ndarray) else column.to_pylist()
                    for column in (*columns.values(), checksums)
                ]
                yield from zip(*lists, strict=True)
                advance(start + size)

        self._database.insert(self.connection, rows(), len(ids))
        self.sequence += len(ids)
        own = ids[ids < ASSIGNED_BELOW]
        if len(own):
            self.last_assigned = max(self.last_assigned, int(own.max()))

    def _next(self) -> int:
        self.sequence += 1
        return self.sequence

    def close(self) -> None:
        """Write the counters back, last thing before the commit."""
        after = Head(self._before.identity, self.schema, self.sequence, self.last_assigned)
        if after != self._before:
            _count.run(
                self.connection,
                now_schema=self.schema,
                now_sequence=self.sequence,
                now_last_assigned=self.last_assigned,
                now_checksum=after.checksum,
            )
