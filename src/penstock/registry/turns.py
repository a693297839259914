"""Turns: the writing transactions of a registry, one at a time.

A turn holds the registry's one row, and with it the right to give out sequence numbers and ids.
Within a turn nobody else changes anything, so what it reads stays true until it commits; and when
it fails, the numbers it took are free again, which keeps them dense. Since the row is held until
the commit, numbers are in commit order: who sees change N+1 sees N.

It knows numbers, texts and hashes, and nothing of filters, leases or schemas: who calls it has
checked all that.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import repeat

import pyarrow as pa
from sqlalchemy import Connection, bindparam, delete, insert, not_, select, update

from penstock.errors import RegistryError
from penstock.registry.databases import Database, Row
from penstock.registry.queries import FEW, Head, Ids, among, find, present, read_head
from penstock.registry.records import Record
from penstock.registry.statements import Statement
from penstock.registry.tables import registry, subscriptions

ASSIGNED_BELOW = 2**62
"""Ids that the registry assigns stay below this. Loaded ids may be any int64."""

_CHUNK = 50_000  # rows turned from Arrow into Python at a time
_s = subscriptions.c

_add = Statement(insert(subscriptions))
_renew = Statement(
    update(subscriptions)
    .where(_s.id == bindparam("renewed"))
    .values(expires=bindparam("until"), sequence=bindparam("number"))
)
_remove = (
    update(subscriptions)
    .where(_s.id == bindparam("gone"))
    .values(subscriber=None, filter=None, ticket=None, removed=True, sequence=bindparam("number"))
)
_count = Statement(
    update(registry).values(
        schema=bindparam("now_schema"),
        sequence=bindparam("now_sequence"),
        last_id=bindparam("now_last_id"),
    )
)


class Turn:
    """A writing transaction that holds the registry's row: until it ends, only it changes things."""

    def __init__(self, database: Database, connection: Connection) -> None:
        self._database = database
        self.connection = connection
        self._before = read_head(connection, lock=True)
        self.sequence = self._before.sequence
        self.last_id = self._before.last_id
        self.schema = self._before.schema

    def find(self, sid: int, now: int) -> Record | None:
        """The live subscription with this id."""
        return find(self.connection, sid, now)

    def add(
        self, subscriber: str, text: str, ticket: bytes | None, created: int, expires: int
    ) -> int:
        """Add a subscription; its id."""
        sid = self.take_ids(1)
        _add.run(
            self.connection,
            id=sid,
            subscriber=subscriber,
            filter=text,
            ticket=ticket,
            created=created,
            expires=expires,
            sequence=self._next(),
            removed=False,
        )
        return sid

    def renew(self, record: Record, expires: int) -> Record:
        """Give a subscription a new lease end."""
        renewed = replace(record, expires=expires, sequence=self._next())
        _renew.run(self.connection, renewed=record.id, until=expires, number=renewed.sequence)
        return renewed

    def remove(self, ids: Sequence[int]) -> None:
        """Leave only tombstones of these subscriptions."""
        if ids:
            gone = [{"gone": sid, "number": self._next()} for sid in ids]
            self.connection.execute(_remove, gone)

    def expired(self, now: int) -> list[int]:
        """The ids of subscriptions whose lease has ended and that still take room."""
        wanted = select(_s.id).where(not_(_s.removed), _s.expires <= now).order_by(_s.id)
        return list(self.connection.scalars(wanted))

    def present(self, ids: Ids, now: int) -> tuple[Ids, Ids]:
        """Those of `ids` that live subscriptions have; those that dead ones have."""
        return present(self._database, self.connection, ids, now)

    def forget(self, ids: Ids) -> None:
        """Delete dead subscriptions whose ids are about to be given to new ones."""
        for start in range(0, len(ids), FEW):
            few = among(ids[start : start + FEW])
            self.connection.execute(delete(subscriptions).where(few))

    def take_ids(self, count: int) -> int:
        """Take the next `count` ids; the first of them."""
        first = self.last_id + 1
        if first + count > ASSIGNED_BELOW:
            raise RegistryError("the registry has no ids left to assign: load with ids of your own")
        self.last_id += count
        return first

    def add_many(
        self,
        ids: Ids,
        subscribers: pa.ChunkedArray,
        filters: pa.ChunkedArray,
        tickets: Sequence[bytes] | None,
        created: int,
        expires: int,
        advance: Callable[[int], None],
    ) -> None:
        """Add subscriptions in bulk; their ids must be free (see `present`, `forget`, `take_ids`).

        `advance` is told how many rows are written so far.
        """
        first = self.sequence + 1

        def rows() -> Iterator[Row]:
            for start in range(0, len(ids), _CHUNK):
                some = ids[start : start + _CHUNK].tolist()
                size = len(some)
                yield from zip(
                    some,
                    subscribers.slice(start, size).to_pylist(),
                    filters.slice(start, size).to_pylist(),
                    repeat(None, size) if tickets is None else tickets[start : start + size],
                    repeat(created, size),
                    repeat(expires, size),
                    range(first + start, first + start + size),
                    repeat(False, size),
                    strict=True,
                )
                advance(start + size)

        self._database.insert(self.connection, rows(), len(ids))
        self.sequence += len(ids)
        own = ids[ids < ASSIGNED_BELOW]
        if len(own):
            self.last_id = max(self.last_id, int(own.max()))

    def _next(self) -> int:
        self.sequence += 1
        return self.sequence

    def close(self) -> None:
        """Write the counters back, last thing before the commit."""
        after = Head(self._before.identity, self.schema, self.sequence, self.last_id)
        if after != self._before:
            _count.run(
                self.connection,
                now_schema=self.schema,
                now_sequence=self.sequence,
                now_last_id=self.last_id,
            )
