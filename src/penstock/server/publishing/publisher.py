"""Everything that is published comes in here: it is read, new attributes are learned, and it goes into the inbox.

    body ─▶ read_records ─▶ (a wider schema is learned, on disk) ─▶ inbox ─▶ answer

A small body is read at once, which takes microseconds. Large bodies, and work that waits for a disk, go to a few
threads.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

from penstock.joins.catalog import Catalog
from penstock.server.publishing.change_rows import ChangeNames, change_shapes, shape_of_table
from penstock.server.publishing.document_bodies import read_document
from penstock.server.publishing.event_schema import EventSchema
from penstock.server.publishing.inbox import Inbox
from penstock.server.publishing.published import (
    EVENTS,
    TABLES,
    MessageLimit,
    Producer,
    Published,
    PublishError,
    Receipt,
)
from penstock.server.publishing.record_problems import Refused
from penstock.server.publishing.record_shapes import RecordShape
from penstock.server.publishing.request_bodies import (
    BodyLimits,
    Reading,
    TooLarge,
    read_records,
)

_AT_ONCE = 16 << 10  # bytes of a body that are read in the event loop
_THREADS = 2
_TRIES = 20  # to learn a schema while other requests change it


@dataclass(frozen=True)
class Content:
    """The body of a request, its content type, and its headers, with lower-case names."""

    body: bytes
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Answer:
    """What was accepted of a request, and what was refused."""

    receipt: Receipt
    accepted: int
    refused: Sequence[Refused] = ()


class RecordsRefused(PublishError):
    """Records that can't be published. Nothing of their request was published."""

    def __init__(self, refused: Sequence[Refused]) -> None:
        self.refused = refused
        first = refused[0]
        what = "" if first.attribute is None else f"{first.attribute}: "
        hint = "" if first.hint is None else f" ({first.hint})"
        many = "" if len(refused) == 1 else f", and {len(refused) - 1:,} more are refused"
        super().__init__(f"record {first.index}: {what}{first.reason}{hint}{many}")


class Publisher:
    """Publishes bodies of requests. With `skip`, the good records of a request are published even if others are bad."""

    def __init__(
        self,
        inbox: Inbox,
        schema: EventSchema,
        catalog: Catalog | None = None,
        *,
        changes: ChangeNames | None = None,
        limits: BodyLimits | None = None,
        messages: Callable[[str], MessageLimit | None] = lambda log: None,
    ) -> None:
        self._inbox = inbox
        self._schema = schema
        self._tables = {} if catalog is None else change_shapes(catalog, changes or ChangeNames())
        self._limits, self._messages = limits or BodyLimits(), messages
        self._threads = ThreadPoolExecutor(_THREADS, "reading")

    async def publish_events(
        self, content: Content, producer: Producer | None = None, *, skip: bool = False
    ) -> Answer:
        """Publish events. They are on disk when this returns, and will be matched."""
        for _ in range(_TRIES):
            shape = self._schema.shape
            reading = await self._read(EVENTS, content, shape, learn=self._schema.is_learned)
            if reading.wider is None or not _is_wanted(reading, skip):
                break
            learned = await self._in_thread(self._schema.adopt, shape, reading.wider)
            if learned is not None:
                shape = learned
                break
        else:
            raise PublishError("the schema changes all the time: publish again")
        return await self._publish(EVENTS, reading, producer, skip=skip, schema=shape.version)

    async def publish_changes(
        self, table: str, content: Content, producer: Producer | None = None, *, skip: bool = False
    ) -> Answer:
        """Publish changes of a table. UnknownTable if the catalogue has none of this name."""
        log, shape = TABLES + table, shape_of_table(self._tables, table)
        reading = await self._read(log, content, shape, learn=False)
        return await self._publish(log, reading, producer, skip=skip)

    async def publish_document(
        self, content: Content, producer: Producer | None = None, *, name: str | None = None
    ) -> Answer:
        """Publish a document, XML or JSON as its content type says."""
        log, reading = await self._in_thread(
            read_document, content.content_type, content.body, name, self._limits
        )
        return await self._publish(log, reading, producer)

    def close(self) -> None:
        """End the threads."""
        self._threads.shutdown()

    async def _read(
        self, log: str, content: Content, shape: RecordShape, *, learn: bool
    ) -> Reading:
        limits = replace(self._limits, message=self._messages(log))

        def read() -> Reading:
            return read_records(
                content.content_type,
                content.headers,
                content.body,
                shape,
                learn=learn,
                limits=limits,
            )

        return read() if len(content.body) <= _AT_ONCE else await self._in_thread(read)

    async def _publish(
        self,
        log: str,
        reading: Reading,
        producer: Producer | None,
        *,
        skip: bool = False,
        schema: int = 0,
    ) -> Answer:
        if not _is_wanted(reading, skip):
            # A request that was accepted before isn't refused now, even if the schema has changed since.
            repeat: Receipt | None = None
            if producer is not None:
                repeat = await self._in_thread(self._inbox.find_repeat, log, producer)
            if repeat is None:
                raise RecordsRefused(reading.refused)
            return Answer(repeat, 0)
        self._check_messages(log, reading.records)
        receipt = await self._inbox.publish(Published(log, reading.records, producer, schema))
        accepted = 0 if receipt.repeated else len(reading.records)
        return Answer(receipt, accepted, reading.refused)

    def _check_messages(self, log: str, records: Sequence[bytes]) -> None:
        """Check sizes again: records that are written anew may be larger. A document, say, becomes a text in JSON."""
        limit = self._messages(log)
        largest = max(map(len, records), default=0) if limit is not None else 0
        if limit is not None and largest > limit.bytes:
            raise TooLarge(f"a record, as it is kept, {limit.refusal(largest)}")

    async def _in_thread(self, function: Any, *arguments: Any) -> Any:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, function, *arguments)


def _is_wanted(reading: Reading, skip: bool) -> bool:
    return not reading.refused or (skip and bool(reading.records))
