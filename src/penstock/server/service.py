"""The service: all parts that `penstock serve` runs, opened, started and ended in order.

    http ─▶ inbox ─▶ mover ─▶ log ─▶ Spark, a child process ─┐
                └──▶ live matcher, a thread ─────────────────┴─▶ feeds ─▶ hub ─▶ http
    registry, inbox ◀─▶ a broker of the network, if there is one

`Service` opens what is on disk, and refuses at once what can't work. Inside `async with` it runs. `serving` puts it on
the network.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

from penstock.base.durations import utc_now
from penstock.base.errors import PenstockError, UnknownSubscription
from penstock.delivery.feeds import LIVE, FeedStore, open_feeds
from penstock.pipeline.session import check_java
from penstock.pipeline.views.match import FORMATS
from penstock.registry import Subscriptions
from penstock.server.data_folder import DataFolderLock, decide_metadata
from penstock.server.hub import Hub
from penstock.server.network_db import NetworkDatabase
from penstock.server.publishing import (
    BodyLimits,
    ChangeNames,
    EventSchema,
    FileMover,
    Inbox,
    KafkaMover,
    Mover,
    Moving,
    Publisher,
)
from penstock.server.publishing.published import DOCUMENTS, EVENTS, POSITION, TABLES
from penstock.server.setting_parts import FilesPart, KafkaPart
from penstock.server.settings import Settings
from penstock.server.sides.changing_over import let_go, move_all, note_side, read_side
from penstock.server.sides.kafka_topics import KafkaTopics
from penstock.server.sides.live_side import LiveSide
from penstock.server.sides.matching_state import Matching
from penstock.server.sides.network_side import NetworkSide
from penstock.server.sides.published_segments import PublishedSegments
from penstock.server.sides.spark_side import SparkSide
from penstock.server.web.api_keys import ApiKeys
from penstock.server.web.http_settings import HttpSettings
from penstock.server.web.live_reads import LiveReads
from penstock.server.webhooks.webhook_delivery import WebhookDelivery
from penstock.server.webhooks.webhook_table import WebhookTable

_log = logging.getLogger("penstock.server")

_TIDY = 10.0  # seconds between two looks for segments that can go
_REFRESH = 60.0  # seconds between two looks at what topics of Kafka take
_PRUNE = 60.0  # seconds between two looks for notifications that can go


class Service:
    """An opened service. If a part can't be opened, a PenstockError says what to do."""

    def __init__(self, settings: Settings, say: Callable[[str], object] = _log.info) -> None:
        self.settings, self._say = settings, say
        folder = settings.folder
        if settings.match == "spark":
            check_java(settings.spark.master)
        with ExitStack() as opened:
            opened.callback(DataFolderLock(folder).release)
            settings = settings.with_metadata(decide_metadata(folder, settings.metadata))
            self.settings = settings
            self.http: HttpSettings = settings.http()
            self.keys = ApiKeys(folder / "service.db")
            opened.callback(self.keys.close)
            self._check_reach()
            self.registry = Subscriptions.open(
                settings.registry_url,
                settings.declared,
                catalog=settings.catalog,
                operators=settings.operators,
            )
            opened.enter_context(self.registry)
            self.schema = EventSchema(
                folder / "service.db", settings.declared or self.registry.schema
            )
            opened.callback(self.schema.close)
            self.feeds: FeedStore = open_feeds(settings.feeds_url)
            opened.callback(self.feeds.close)
            self.inbox = Inbox(folder / "inbox.db", settings.limits.of_inbox())
            opened.callback(self.inbox.close)
            self.hub = Hub(self.feeds)
            table = WebhookTable(folder / "service.db")
            opened.callback(table.close)
            self.webhooks = WebhookDelivery(
                table, self.hub, settings.webhooks.make(settings.is_local)
            )
            self._topics = self._kafka_topics()
            self.publisher = self._publisher()
            opened.callback(self.publisher.close)
            self.network = self._network_side(opened)
            self.live_reads = LiveReads()
            self._segments = PublishedSegments(folder, Path(settings.checkpoint_root))
            self._at_the_end = opened.pop_all()
        self._moving: Moving | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self.matching: Matching = self._side()

    @property
    def last_steps(self) -> str:
        """A message about what remains to be done at the end."""
        if self.settings.match == "live":
            return "stopping: what was accepted is matched"
        return "stopping: what was accepted goes into the log, and Spark ends after its micro-batch"

    def _check_reach(self) -> None:
        """Refuse to serve other machines without keys: anybody could do anything."""
        settings = self.settings
        if not settings.is_local and self.keys.open_to_all:
            raise PenstockError(
                f"host {settings.host} can be reached by others, and there are no keys, so anybody could do anything: "
                "make a key first (penstock keys add NAME --scope admin), or listen on 127.0.0.1"
            )

    # --- its life ----------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        try:
            await self._start()
        except BaseException:
            await self._stop()
            raise
        return self

    async def _start(self) -> None:
        await self.hub.start()
        await self.webhooks.start()
        await self._change_over()
        if self._topics is not None:
            await asyncio.to_thread(self._topics.make)
            refresh = partial(asyncio.to_thread, self._topics.refresh)
            self._tasks.append(asyncio.create_task(_repeat(refresh, _REFRESH)))
        await self.matching.start()
        if self.network is not None:
            await self.network.start()
        self._moving = self._start_moving()
        for work, pause in ((self._tidy, _TIDY), (self._prune, _PRUNE)):
            self._tasks.append(asyncio.create_task(_repeat(work, pause)))

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._stop()

    async def _stop(self) -> None:
        """Pass on what was accepted as far as possible, then close everything."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._moving is not None:
            await asyncio.to_thread(self._moving.close)
        if self.network is not None:
            await self.network.stop()
        await self.matching.stop()
        await self.webhooks.close()
        await self.hub.close()
        await asyncio.to_thread(self._at_the_end.close)

    def stop_streams(self) -> None:
        """End all requests that wait for notifications."""
        self.live_reads.stop()

    async def _change_over(self) -> None:
        """Take over from the other side, if the records went to that side before."""
        folder, side = self.settings.folder, self.settings.match
        before = read_side(folder)
        if before == "spark" and side == "live":
            self._say("Spark matches what is left, then the live matcher takes over …")
            await asyncio.to_thread(move_all, self.inbox, self._mover())
            spark = SparkSide(self.settings, self._ddl, self._committed, _nothing)
            await spark.drain()
        if before == "live" and side == "spark":
            done = await asyncio.to_thread(self.feeds.progress, LIVE)
            await asyncio.to_thread(let_go, self.inbox, done or 0)
        note_side(folder, side)

    # --- its parts ---------------------------------------------------------------------------------

    def _side(self) -> Matching:
        settings = self.settings
        if settings.match == "spark":
            side = SparkSide(settings, self._ddl, self._committed, self._open_gate)
            self.schema.on_change(lambda: self._in_loop(side.take_schema))
            return side
        return LiveSide(
            self.registry,
            self.feeds,
            self.schema.current,
            self._committed,
            engine=settings.engine,
            dead_letters=settings.folder / "dead-letters",
            metadata=bool(settings.metadata),
        )

    def _publisher(self) -> Publisher:
        joins, limits = self.settings.joins, self.http.limits
        names = ChangeNames(op=joins.op, before=joins.before_image)
        if joins.version != POSITION:
            names = replace(names, version=joins.version)
        most = BodyLimits(body=limits.body_bytes, records=limits.records)
        catalog = self.registry.catalog if self.settings.match == "spark" else None
        if self._topics is None:
            return Publisher(self.inbox, self.schema, catalog, changes=names, limits=most)
        messages = self._topics.of
        return Publisher(
            self.inbox, self.schema, catalog, changes=names, limits=most, messages=messages
        )

    def _kafka_topics(self) -> KafkaTopics | None:
        log = self.settings.log
        return KafkaTopics(log, self._logs()) if isinstance(log, KafkaPart) else None

    def _network_side(self, opened: ExitStack) -> NetworkSide | None:
        part = self.settings.network
        if part is None:
            return None
        database = NetworkDatabase(self.settings.folder / "network.db")
        opened.callback(database.close)
        return NetworkSide(
            part.name,
            part.open_client,
            database,
            self.registry,
            lambda: self.publisher,
            advertise=part.advertise,
        )

    def _start_moving(self) -> Moving:
        side = self.matching
        if isinstance(side, LiveSide):
            return Moving(self.inbox, self._with_network(side), pause=0.0)
        assert isinstance(side, SparkSide), "there are two"
        log = self.settings.log
        pause = log.seal if isinstance(log, FilesPart) else 0.05
        return Moving(self.inbox, self._mover(), pause=pause, gate=side.runs_with)

    def _mover(self) -> Mover:
        log = self.settings.log
        if isinstance(log, KafkaPart):
            letters = self.settings.folder / "dead-letters"
            return self._with_network(
                KafkaMover(log.servers, log.topic, log.producer_options, self._topics, letters)
            )
        return self._with_network(FileMover(self.settings.folder / "published"))

    def _with_network(self, mover: Mover) -> Mover:
        return mover if self.network is None else self.network.wrap(mover)

    def _logs(self) -> list[str]:
        """All logs that there may be."""
        catalog = self.registry.catalog
        tables = [] if catalog is None else [f"{TABLES}{name}" for name, _ in catalog.declared]
        return [EVENTS, *(f"{DOCUMENTS}/{format_}" for format_ in FORMATS), *tables]

    def _ddl(self) -> tuple[int, str | None]:
        """The version of the schema, and the schema as Spark gets it."""
        version, schema = self.schema.current()
        return version, None if schema is None else self.schema.ddl

    # --- what happens ------------------------------------------------------------------------------

    def _committed(self) -> None:
        """New notifications are in the feeds: wake the connections that wait for them. May be called in any thread."""
        self._in_loop(lambda: asyncio.ensure_future(self.hub.advance()))

    def _open_gate(self) -> None:
        if self._moving is not None:
            self._moving.open_gate()

    def _in_loop(self, call: Callable[[], object]) -> None:
        if self._loop is not None and not self._loop.is_closed():
            with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
                self._loop.call_soon_threadsafe(call)

    async def _tidy(self) -> None:
        await asyncio.to_thread(self._segments.delete, self.inbox.released)

    async def _prune(self) -> None:
        await self.hub.prune(utc_now(), self.settings.retention.make())
        await self.webhooks.keep_only(self._is_there)

    def _is_there(self, subscription: int) -> bool:
        try:
            self.registry.get(subscription)
        except UnknownSubscription:
            return False
        return True


def _nothing() -> None:
    """Do nothing: no gate waits for a schema."""


async def _repeat(work: Callable[[], Awaitable[None]], pause: float) -> None:
    """Do work again and again. A failure is logged, and the work is tried again."""
    while True:
        await asyncio.sleep(pause)
        try:
            await work()
        except Exception:  # noqa: BLE001  whatever it is
            _log.exception("housekeeping failed, and is tried again")
