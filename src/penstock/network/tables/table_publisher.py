"""Publishes changing tables through a broker: a follower of a select over them gets just the tuples that it lacks.

    with NetworkClient.connect(…) as client, TablePublisher(client, catalog, content) as publisher:
        publisher.put("Stocks", [{"Symbol": "ACME", "PER": 51.7}])
        publisher.delete("Stocks", [{"Symbol": "ACME"}])

A thread answers the asks of followers. `put`, `delete` and `publish` return when the broker keeps the messages that
follow from the changes. Nothing is kept here: a publisher that starts again is given its tables as they are then
(`content`), and all followers get their views anew. A network has at most one publisher of a name at a time.
"""

import logging
import threading
import time
from collections.abc import Iterable
from types import TracebackType
from typing import Any, Self

import numpy as np
import pyarrow as pa

from penstock.base.arrays import distinct
from penstock.joins.catalog import Catalog
from penstock.joins.changes import ChangeBatch
from penstock.network.arrow_events import batch_of
from penstock.network.links.link import NetworkError
from penstock.network.network_client import NetworkClient, ReceivedMail
from penstock.network.tables.published_tables import PublishedTables
from penstock.network.tables.table_events import (
    PUBLISHER,
    asks_filter,
    check_schema,
    published_filter,
)

_log = logging.getLogger("penstock.network")

_LOOK = 0.2  # seconds after which the thread looks whether it must end
_AT_ONCE = 10_000  # events that are handed to the client together

Rows = Any  # Sequence[Mapping[str, Any]] | pa.RecordBatch: to mypy, Arrow has no types


class TablePublisher:
    """May be used by any thread. It reads the client's mail; `number` is that of its subscription and advertisement."""

    def __init__(
        self,
        client: NetworkClient,
        catalog: Catalog,
        content: Iterable[ChangeBatch] = (),
        *,
        name: str = PUBLISHER,
        number: int = 1,
    ) -> None:
        check_schema(client.schema, catalog)
        self.failed: BaseException | None = None
        """The error that ended the thread, if one did: nobody is answered any longer."""
        self._client, self._catalog, self._number = client, catalog, number
        self._tables = PublishedTables(catalog, name, time.time_ns())
        self._tables.fill(content)
        self._lock = threading.Lock()
        self._ending = threading.Event()
        client.subscribe(number, asks_filter(name))
        client.advertise(number, published_filter(name))
        self._dropped = client.dropped
        with self._lock:
            self._tables.start()
            self._flush()
        self._thread = threading.Thread(target=self._serve, name="table-publisher", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop answering. What was published is on its way."""
        self._ending.set()
        self._thread.join()

    def wait(self) -> None:
        """Wait until the publisher ends. Raises the error that ended it, if one did."""
        self._thread.join()
        if self.failed is not None:
            raise self.failed

    def __len__(self) -> int:
        """How many selects are followed."""
        return len(self._tables)

    def put(self, table: str, rows: Rows) -> None:
        """Put tuples into a table. Each replaces the one with the same key."""
        self.publish([ChangeBatch(table, self._batch(table, rows))])

    def delete(self, table: str, rows: Rows) -> None:
        """Delete from a table the tuples with the keys of these rows."""
        batch = self._batch(table, rows)
        self.publish([ChangeBatch(table, batch, np.ones(batch.num_rows, np.bool_))])

    def publish(self, changes: Iterable[ChangeBatch]) -> None:
        """Make changes, in order, and publish the messages that follow from them.

        SchemaError if a change can't be made; those before it were made. NetworkError if the broker refuses, for
        example because its outbox is full. Then the changes were made, and the messages that the broker didn't take are
        offered again soon.
        """
        if self.failed is not None:
            raise NetworkError(f"the publisher has ended: {self.failed}") from self.failed
        with self._lock:
            try:
                self._tables.change(changes)
            finally:
                self._flush()

    def _batch(self, table: str, rows: Rows) -> pa.RecordBatch:
        declared = dict(self._catalog.declared)
        if isinstance(rows, pa.RecordBatch) or table not in declared:
            return rows
        return batch_of(rows, declared[table].schema.to_arrow())

    def _flush(self) -> None:
        waiting = self._tables.outgoing
        while waiting:
            some = [waiting[n] for n in range(min(len(waiting), _AT_ONCE))]
            self._client.publish(some)
            for _ in some:
                waiting.popleft()

    def _serve(self) -> None:
        try:
            while not (self._ending.is_set() or self._client.is_closed):
                self._offer_again()
                for mail in self._client.read(_LOOK):
                    self._answer(mail)
                    self._client.done(mail)
                    if self._ending.is_set():
                        break
        except BaseException as error:  # noqa: BLE001  any error: `publish` and `wait` raise it
            if not self._ending.is_set():
                _log.exception("the publisher of tables ends")
                self.failed = error

    def _answer(self, mail: ReceivedMail) -> None:
        mine = distinct(mail.rows[mail.subscriptions == self._number])
        asks = mail.events.take(pa.array(mine)).to_pylist()
        with self._lock:
            self._tables.take(asks)
            if self._client.dropped != self._dropped and not self._client.has_mail:
                self._dropped = self._client.dropped
                self._tables.start()  # asks may have been lost: all followers ask again
        self._offer_again()

    def _offer_again(self) -> None:
        """Publish the messages that wait. If the broker still refuses, they wait for the next time."""
        with self._lock:
            try:
                self._flush()
            except NetworkError as error:
                _log.warning("%d messages about tables wait: %s", len(self._tables.outgoing), error)
