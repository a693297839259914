"""Turns: the writing transactions of a registry, one at a time.

A turn holds the registry's one row, and with it the right to give out sequence numbers and ids. Within a turn nobody
else changes anything, so what it reads stays true until it commits. When it fails, the numbers it took are free again,
which keeps them dense. Since the row is held until the commit, numbers are in commit order: a reader that sees change
N+1 also sees N.

A turn knows numbers, texts and hashes, and nothing of filters, leases or schemas: its callers have checked all that.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from sqlalchemy import Connection, Table, bindparam, delete, insert, not_, select, update

from penstock.base.arrays import Int64s
from penstock.base.errors import RegistryError
from penstock.registry.bad_rows import BadRow
from penstock.registry.checksums import checksum_of_tombstone, checksums_of_rows
from penstock.registry.databases import Database, DatabaseRow
from penstock.registry.details import (
    DetailsRow,
    find_details,
    keep_details,
    keep_many_details,
)
from penstock.registry.history import Ending, note_end, note_ends
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
from penstock.registry.records import Details, Record
from penstock.registry.statements import Statement
from penstock.registry.tables import costs, details, held, registry, resyncs, subscriptions

ASSIGNED_BELOW = 2**62
"""Ids that the registry assigns stay below this. Loaded ids may be any int64."""

_CHUNK = 50_000  # rows turned from Arrow into Python at a time
_s = subscriptions.c

_add = Statement(insert(subscriptions))
_change = Statement(
    update(subscriptions)
    .where(_s.id == bindparam("changed"))
    .values(
        filter=bindparam("words"),
        expires=bindparam("until"),
        sequence=bindparam("number"),
        checksum=bindparam("summed"),
    )
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
_forget_one = {
    table: Statement(delete(table).where(table.c.id == bindparam("gone")))
    for table in (subscriptions, costs, details, held, resyncs)
}
_count = Statement(
    update(registry).values(
        schema=bindparam("now_schema"),
        sequence=bindparam("now_sequence"),
        last_assigned=bindparam("now_last_assigned"),
        checksum=bindparam("now_checksum"),
    )
)


class WrittenRows(NamedTuple):
    """Subscriptions to be written in bulk, in columns."""

    ids: Ids
    subscribers: pa.ChunkedArray
    filters: pa.ChunkedArray
    tickets: Sequence[bytes | None]
    created: Int64s
    expires: Int64s

    def part(self, start: int, size: int) -> "WrittenRows":
        """The `size` rows from `start` on."""
        end = start + size
        return WrittenRows(
            self.ids[start:end],
            self.subscribers.slice(start, size),
            self.filters.slice(start, size),
            self.tickets[start:end],
            self.created[start:end],
            self.expires[start:end],
        )


class Turn:
    """A writing transaction that holds the registry's row: until it ends, nobody else changes anything."""

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
    ) -> Record:
        """Add a subscription."""
        record = Record(self.take_ids(1), subscriber, text, ticket, created, expires, self._next())
        _add.run(self.connection, **record._asdict(), removed=False, checksum=record.checksum)
        return record

    def renew(self, record: Record, expires: int) -> Record:
        """Give a subscription a new lease end."""
        return self.change(record._replace(expires=expires))

    def change(self, record: Record) -> Record:
        """Write the text and the lease end of a record to its subscription."""
        changed = record._replace(sequence=self._next())
        _change.run(
            self.connection,
            changed=record.id,
            words=record.filter,
            until=record.expires,
            number=changed.sequence,
            summed=changed.checksum,
        )
        return changed

    def details(self, sid: int) -> Details:
        """What a subscription has beside its text."""
        return find_details(self.connection, sid)

    def keep_details(self, sid: int, kept: Details) -> None:
        """Give a subscription these details, in place of those that it had."""
        self._forget(details, np.array([sid], np.int64))
        keep_details(self.connection, sid, kept)

    def forget_cost(self, sid: int) -> None:
        """Forget what a subscription cost: its text is another one now."""
        self._forget(costs, np.array([sid], np.int64))

    def resync(self, record: Record) -> Record:
        """Note that a subscription is to be sent everything again: a change of it that changes nothing else."""
        noted = self.renew(record, record.expires)
        self._forget(resyncs, np.array([record.id], np.int64))
        self.connection.execute(insert(resyncs), {"id": record.id, "sequence": noted.sequence})
        return noted

    def remove(self, ids: Sequence[int], ending: Ending) -> None:
        """Reduce these subscriptions to tombstones, and note in the history how they ended."""
        if not ids:
            return
        note_ends(self._database, self.connection, np.array(ids, np.int64), ending)
        self._leave_tombstones(ids)

    def end(self, record: Record, ending: Ending) -> None:
        """The same for one subscription that was found."""
        note_end(self.connection, record, ending)
        self._leave_tombstones([record.id])

    def _leave_tombstones(self, ids: Sequence[int]) -> None:
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

    def read(self, ids: Ids) -> tuple[pa.Table, list[BadRow]]:
        """The rows of some ids, also of subscriptions that have ended; and those that can't be relied upon."""
        tables, bad = [], []
        for start in range(0, max(len(ids), 1), FEW):
            wanted = select(*all_columns).where(among(_s.id, ids[start : start + FEW]))
            table, more = self._database.fetch_rows(self.connection, wanted)
            tables.append(table)
            bad += more
        return pa.concat_tables(tables), bad

    def is_there(self, sid: int, now: int) -> bool:
        """Whether there is a live subscription with this id, or a row of it that can't be relied upon."""
        return len(self.present(np.array([sid], np.int64), now)[0]) > 0

    def present(self, ids: Ids, now: int) -> tuple[Ids, Ids]:
        """Which of `ids` live subscriptions have, or rows that can't be relied upon; and which dead ones have."""
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

    def make_room(self, ids: Ids, reread: Ids) -> None:
        """Delete the rows of subscriptions that are about to be written again; for those in `reread` the costs, too."""
        self._forget(subscriptions, ids)
        self._forget(details, ids)
        self._forget(costs, reread)

    def _forget_beside(self, ids: Ids) -> None:
        """Delete what other tables have on subscriptions."""
        for table in (costs, resyncs, details, held):
            self._forget(table, ids)

    def _forget(self, table: Table, ids: Ids) -> None:
        if len(ids) == 1:
            _forget_one[table].run(self.connection, gone=int(ids[0]))
            return
        for start in range(0, len(ids), FEW):
            few = among(table.c.id, ids[start : start + FEW])
            self.connection.execute(delete(table).where(few))

    def take_ids(self, count: int) -> int:
        """Take the next `count` ids. Returns the first of them."""
        first = self.last_assigned + 1
        if first + count > ASSIGNED_BELOW:
            raise RegistryError("the registry has no ids left to assign: load with ids of your own")
        self.last_assigned += count
        return first

    def add_many(
        self, written: WrittenRows, kept: Sequence[DetailsRow], advance: Callable[[int], None]
    ) -> None:
        """Write subscriptions in bulk under ids that must be free (see `present`, `forget`, `take_ids`), with details.

        `advance` is called with how many rows are written so far.
        """
        first, count = self.sequence + 1, len(written.ids)

        def rows() -> Iterator[DatabaseRow]:
            for start in range(0, count, _CHUNK):
                some = written.part(start, _CHUNK)
                size = len(some.ids)
                columns = {
                    "id": some.ids,
                    "subscriber": some.subscribers,
                    "filter": some.filters,
                    "ticket": pa.array(some.tickets, pa.binary()),
                    "created": some.created,
                    "expires": some.expires,
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

        self._database.insert(self.connection, subscriptions, rows(), count)
        keep_many_details(self._database, self.connection, kept)
        self.sequence += count
        own = written.ids[written.ids < ASSIGNED_BELOW]
        if len(own):
            self.last_assigned = max(self.last_assigned, int(own.max()))

    def _next(self) -> int:
        self.sequence += 1
        return self.sequence

    def close(self) -> None:
        """Write the counters back, right before the commit."""
        after = Head(self._before.identity, self.schema, self.sequence, self.last_assigned)
        if after != self._before:
            _count.run(
                self.connection,
                now_schema=self.schema,
                now_sequence=self.sequence,
                now_last_assigned=self.last_assigned,
                now_checksum=after.checksum,
            )
