"""A publisher of tables: changes and asks in, events out. No thread, clock or disk.

It has the tables and the selects that are followed, and a `Processor` makes messages of changes. Each message gets the
next version. A follower that asks is sent what it must hold, under a version of its own. From then on its filter does
the rest: it was settled before the ask was published, so no later message is missed.

Nothing is kept on disk. A publisher that starts again is given its tables, says that it has `STARTED`, and is asked by
all followers. Versions begin with the time, in nanoseconds, so they grow from one start to the next. A clock may have
been set back: so an ask says which version its follower has seen, and versions leap beyond that, by a century at most.
A follower that claims to have seen a higher one is refused, so nobody can drive versions beyond what an integer holds.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from penstock.base.errors import PenstockError, SchemaError
from penstock.joins.catalog import PAYLOAD, Catalog
from penstock.joins.changes import ChangeBatch
from penstock.joins.messages import ViewReset
from penstock.joins.newcomers import first_messages
from penstock.joins.processor import Processor
from penstock.joins.routed_messages import RoutedMessage, address_messages, routed_messages
from penstock.joins.selects import read_select
from penstock.joins.subscription import SelectJoin
from penstock.network.tables.table_events import ASKED, LEFT, REFUSED, STARTED

_LEAP = 1 << 40  # more messages than anybody sends between two of a follower's asks
_CENTURY = 100 * 366 * 24 * 3600 * 10**9
_MOST = 100_000  # followers


class PublishedTables:
    """See the module. Messages to be published gather in `outgoing`; they may be published in any order."""

    def __init__(self, catalog: Catalog, publisher: str, version: int) -> None:
        self.outgoing: deque[RoutedMessage] = deque()
        self._catalog, self._publisher, self._version = catalog, publisher, version
        self._latest = version + _CENTURY
        self._processor = Processor(catalog)
        self._joins: dict[int, SelectJoin] = {}  # by follower
        self._asked: dict[int, int] = {}  # by follower: the number of the last that it has said

    def __len__(self) -> int:
        """How many follow."""
        return len(self._joins)

    def fill(self, content: Iterable[ChangeBatch]) -> None:
        """Fill the tables, before anybody follows."""
        self._processor.restore(part for batch in content for part in self._parts(batch))

    def start(self) -> None:
        """Say that the publisher is there: all who follow ask again."""
        self._put({"form": STARTED}, self._next_version())

    def change(self, changes: Iterable[ChangeBatch]) -> None:
        """Apply changes of declared tables, in order. SchemaError if one can't be applied; those before it were."""
        for batch in changes:
            for part in self._parts(batch):
                for message in routed_messages(self._processor.process([part])):
                    self._put(message, self._next_version())

    def take(self, asks: Iterable[Mapping[str, Any]]) -> None:
        """Take what followers say."""
        newcomers: dict[int, SelectJoin] = {}
        for ask in asks:
            follower, asked = ask["to"], ask["asked"]
            if None in (follower, asked) or asked <= self._asked.get(follower, -1):
                continue
            self._asked[follower] = asked
            newcomers.pop(follower, None)
            if ask["form"] == LEFT:
                self._forget(follower)
            elif ask["form"] == ASKED:
                try:
                    self._leap(ask["version"] or 0)
                    newcomers[follower] = self._enter(follower, ask["text"] or "")
                except PenstockError as error:
                    refusal = {"form": REFUSED, "to": follower, "asked": asked, "text": str(error)}
                    self._put(refusal, self._next_version())
        if newcomers:
            self._send_first(newcomers)

    def _leap(self, seen: int) -> None:
        """Let versions go on beyond one that a follower has seen."""
        if seen > max(self._version, self._latest):
            raise SchemaError(
                f"the view has a message of version {seen:,}, which this publisher can't have sent: follow it anew"
            )
        if seen >= self._version:
            self._version = min(seen + _LEAP, max(seen, self._latest))

    def _enter(self, follower: int, text: str) -> SelectJoin:
        join = read_select(text, self._catalog).join
        if self._joins.get(follower) != join:
            if follower not in self._joins and len(self._joins) >= _MOST:
                raise SchemaError(f"{_MOST:,} selects are followed here, and no more can be")
            self._forget(follower)
            self._processor.subscribe_all([(follower, join)])
            self._joins[follower] = join
        return join

    def _forget(self, follower: int) -> None:
        if self._joins.pop(follower, None) is not None:
            self._processor.unsubscribe(follower)

    def _send_first(self, newcomers: Mapping[int, SelectJoin]) -> None:
        for follower, messages in first_messages(self._processor, newcomers).items():
            version, asked = self._next_version(), self._asked[follower]
            (reset,) = address_messages([ViewReset()], follower, self._catalog)
            self._put({**reset, "asked": asked, "count": len(messages)}, version)
            for n, event in enumerate(address_messages(messages, follower, self._catalog)):
                self._put({**event, "count": n}, version)

    def _parts(self, batch: ChangeBatch) -> Iterable[ChangeBatch]:
        """The changes of a declared table as changes of the core's tables: one of them may have its payload."""
        declared = [name for name, _ in self._catalog.declared]
        if batch.table not in declared:
            raise SchemaError(f"there is no table {batch.table!r}: there are {', '.join(declared)}")
        for part in (batch.table, batch.table + PAYLOAD):
            if part not in self._catalog.tables:
                continue
            schema = self._catalog.tables[part].schema.to_arrow()
            arrays = [_column(batch.rows, field.name, field.type) for field in schema]
            yield ChangeBatch(
                part, pa.RecordBatch.from_arrays(arrays, schema=schema), batch.deleted
            )

    def _next_version(self) -> int:
        self._version += 1
        return self._version

    def _put(self, message: RoutedMessage, version: int) -> None:
        self.outgoing.append({**message, "publisher": self._publisher, "version": version})


def _column(rows: pa.RecordBatch, name: str, type_: pa.DataType) -> pa.Array:
    """A column of some rows; all NULL if they don't have it. SchemaError if it is of another type."""
    if name not in rows.schema.names:
        return pa.nulls(rows.num_rows, type_)
    try:
        return rows.column(name).cast(type_)
    except pa.ArrowException as error:
        raise SchemaError(f"{name!r} is {type_}: {str(error).splitlines()[0]}") from None
