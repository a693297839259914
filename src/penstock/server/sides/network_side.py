"""The service as a client of a broker. Its filters are sent into the network, and so are its events. Events that come
from there go into the inbox, then to Spark or the live matcher, and into the feeds.

    inbox ─▶ mover ─▶ network.db ─▶ broker            events that were published here, if they are advertised
    registry ─▶ broker                                filters, as they come and go
    broker ─▶ mail ─▶ inbox                           each event once, even if a process is killed

Events from the network aren't published there again. Events of this service that come back are dropped: their ids begin
with a hash of the service's name. If the broker is away, the service waits for it; no accepted event is lost meanwhile.

A subscription counts as followed when the network has settled it: it misses nothing that anybody publishes afterwards.
"""

import asyncio
import hashlib
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from penstock.base.durations import utc_now
from penstock.matching import LiveMatcher
from penstock.network.arrow_events import batch_of_json, json_of_batch
from penstock.network.client_frames import SubscribeTo, UnsubscribeFrom
from penstock.network.links.link import NetworkError
from penstock.network.network_client import NetworkClient, ReceivedMail
from penstock.registry import Subscriptions
from penstock.server.network_db import MailPlace, NetworkDatabase
from penstock.server.publishing import Publisher
from penstock.server.publishing.published import (
    EVENTS,
    InboxRow,
    Mover,
    Overloaded,
    Producer,
    ProducerError,
    StaleEpoch,
)
from penstock.server.publishing.publisher import Content, RecordsRefused

_log = logging.getLogger("penstock.server")

PRODUCER = "\x1fnetwork"
"""The producer of events from the network: no header of a request can have this value."""
_PREFIX = 8  # bytes of an event's id that say which service published it
_LOOK = 0.1  # seconds between two looks at the registry
_TRY = 1.0  # seconds between two tries to reach the broker
_TOGETHER = 1_000  # records that leave at once
_OUTSTANDING = 1_000  # subscriptions that are sent and not yet settled
_SHOWN = 10
_ANSWER = 2.0  # seconds that a broker has to report its state

OpenClient = Callable[[], NetworkClient]


@dataclass
class NetworkFigures:
    """Counts since the service started."""

    sent: int = 0
    arrived: int = 0
    returned: int = 0
    refused: int = 0
    refusals: dict[int, str] = field(default_factory=dict)
    problem: str | None = None


class NetworkSide:
    """Runs from `start` to `stop`. Events that match the filter `advertise` go into the network; none if it is None."""

    def __init__(
        self,
        name: str,
        open_client: OpenClient,
        database: NetworkDatabase,
        registry: Subscriptions,
        publisher: Callable[[], Publisher],
        *,
        advertise: str | None = "TRUE",
    ) -> None:
        self._name, self._open, self._db = name, open_client, database
        self._registry, self._publisher, self._advertise = registry, publisher, advertise
        self._own = hashlib.blake2b(name.encode(), digest_size=_PREFIX).digest()
        self._client: NetworkClient | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ending = threading.Event()
        self._more = threading.Event()
        self._settled = threading.Condition()
        self._sequence = -1
        self._threads: list[threading.Thread] = []
        self.figures = NetworkFigures()

    # --- its life ----------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Begin. The broker needn't be in reach yet."""
        self._loop = asyncio.get_running_loop()
        self._threads = [threading.Thread(target=self._run, name="network", daemon=True)]
        self._threads[0].start()

    async def stop(self) -> None:
        """End. Events that haven't left yet wait on disk."""
        self._ending.set()
        self._more.set()
        if self._client is not None:
            await asyncio.to_thread(self._client.close)
        for thread in self._threads:
            await asyncio.to_thread(thread.join)

    async def follow(self, sequence: int, timeout: float) -> bool:
        """Wait until the network has settled all subscriptions as of a change of the registry."""

        def wait() -> bool:
            with self._settled:
                return self._settled.wait_for(lambda: self._sequence >= sequence, timeout)

        return self._sequence >= sequence or await asyncio.to_thread(wait)

    def wrap(self, mover: Mover) -> Mover:
        """A mover that also keeps the events that go into the network."""
        return _NetworkMover(self, mover)

    def state(self) -> dict[str, Any]:
        """The state of this side, as people see it."""
        figures, client = self.figures, self._client
        return {
            "name": self._name,
            "broker": None if client is None else client.broker,
            "connected": client is not None and figures.problem is None,
            "problem": figures.problem,
            "settled": self._sequence,
            "waiting": self._db.count_leaving(),
            "sent": figures.sent,
            "arrived": figures.arrived,
            "returned": figures.returned,
            "refused": figures.refused,
            "refusals": [
                f"subscription {n}: {r}" for n, r in list(figures.refusals.items())[:_SHOWN]
            ],
            "dropped": 0 if client is None else client.dropped,
        }

    def brokers(self) -> list[dict[str, Any]]:
        """The state of the broker and of all that it can reach, as far as they answer. To be called in a thread."""
        client = self._client
        if client is None:
            return []
        try:
            first = client.status(_ANSWER)
        except NetworkError:
            return []
        others = {
            name
            for neighbour in first["broker"]["neighbours"]
            for name in (neighbour["name"], *neighbour["reach"])
        } - {first["name"]}
        return [first, *client.statuses(sorted(others), _ANSWER)]

    # --- its threads -------------------------------------------------------------------------------------

    def _run(self) -> None:
        client = self._connect()
        if client is None:
            return
        works = [self._tell, self._read] + ([self._leave] if self._advertise is not None else [])
        for work in works:
            thread = threading.Thread(
                target=self._again, args=(work, client), name="network", daemon=True
            )
            self._threads.append(thread)
            thread.start()

    def _connect(self) -> NetworkClient | None:
        while not self._ending.is_set():
            try:
                self._client = client = self._open()
                return client
            except NetworkError as error:
                self._complain(str(error))
                self._ending.wait(_TRY)
        return None

    def _again(self, work: Callable[[NetworkClient], None], client: NetworkClient) -> None:
        """Do work until the end. A failure is logged, and the work is tried again."""
        while not self._ending.is_set():
            try:
                work(client)
            except Exception as error:  # noqa: BLE001  else the thread would end, and its work with it, silently
                if self._ending.is_set():
                    return
                self._complain(f"{type(error).__name__}: {error}")
                self._ending.wait(_TRY)

    def _complain(self, reason: str) -> None:
        if self.figures.problem != reason:
            _log.warning("the network: %s", reason)
        self.figures.problem = reason

    # --- filters -----------------------------------------------------------------------------------------

    def _tell(self, client: NetworkClient) -> None:
        """Keep the broker informed of the registry's filters."""
        self._tell_all(client)
        while not self._ending.wait(_LOOK):
            if self._registry.sequence() == self._sequence:
                continue
            changes = self._registry.changes(self._sequence)
            rows = changes.upserts
            texts = zip(rows.ids.tolist(), rows.filters.to_pylist(), strict=True)
            self._tell_changes(client, dict(texts), changes.removed.tolist())
            self._note_settled(changes.sequence)

    def _tell_all(self, client: NetworkClient) -> None:
        sequence = self._registry.sequence()
        rows = self._registry.active(utc_now())
        texts = dict(zip(rows.ids.tolist(), rows.filters.to_pylist(), strict=True))
        gone = [sid for sid in self._db.told() if sid not in texts]
        self._tell_changes(client, texts, gone)
        self._note_settled(sequence)

    def _tell_changes(
        self, client: NetworkClient, texts: Mapping[int, str], gone: Sequence[int]
    ) -> None:
        """Send new subscriptions, then the ids of ended ones; return when the network has settled all."""
        waiting: list[tuple[int, Future[bytes]]] = []
        self._db.note_told(texts.items())
        for sid, text in texts.items():
            waiting.append((sid, client.ask(SubscribeTo(sid, text))))
            if len(waiting) >= _OUTSTANDING:
                self._await(*waiting.pop(0))
        waiting += [(sid, client.ask(UnsubscribeFrom(sid))) for sid in gone]
        for sid, answer in waiting:
            self._await(sid, answer)
        self._db.note_told((), gone)
        for sid in gone:
            self.figures.refusals.pop(sid, None)

    def _await(self, sid: int, answer: "Future[bytes]") -> None:
        try:
            answer.result()
            self.figures.refusals.pop(sid, None)
            self.figures.problem = None
        except NetworkError as error:
            # Perhaps it doesn't fit the network's schema: then it is matched here only.
            self.figures.refusals[sid] = str(error).splitlines()[0]

    def _note_settled(self, sequence: int) -> None:
        with self._settled:
            self._sequence = sequence
            self._settled.notify_all()

    # --- events that leave ---------------------------------------------------------------------------------

    def take(self, rows: Sequence[InboxRow]) -> None:
        """Keep the events that were published here; another thread sends them."""
        if self._advertise is None:
            return
        taken = self._db.taken
        mine = [
            (position, record)
            for row in rows
            if row.log == EVENTS and row.producer != PRODUCER
            for position, record in row.records()
            if position > taken
        ]
        if rows[-1].last > taken:
            self._db.add_leaving(mine, rows[-1].last)
            self._more.set()

    def _leave(self, client: NetworkClient) -> None:
        advertise = self._advertise or "TRUE"
        client.advertise(1, advertise)
        matcher = LiveMatcher(client.schema)
        matcher.add(1, advertise)
        while not self._ending.is_set():
            self._more.clear()
            rows = self._db.leaving(0, _TOGETHER)
            if not rows:
                self._more.wait(_TRY)
                continue
            self._send(client, matcher, rows)
            self._db.remove_leaving([position for position, _ in rows])

    def _send(
        self, client: NetworkClient, matcher: LiveMatcher, rows: Sequence[tuple[int, bytes]]
    ) -> None:
        try:
            batch = batch_of_json([record for _, record in rows], client.arrow)
        except NetworkError as error:  # one of them doesn't fit the network's schema
            if len(rows) > 1:
                for row in rows:
                    self._send(client, matcher, [row])
            else:
                self.figures.refused += 1
                self._complain(f"an event that was published here: {error}")
            return
        wanted = np.flatnonzero(np.diff(matcher.match_batch(batch).offsets.to_numpy()))
        ids = [self._own + rows[n][0].to_bytes(8, "big") for n in wanted.tolist()]
        client.publish(batch.take(wanted), ids)
        self.figures.sent += len(ids)
        self.figures.problem = None

    # --- events that arrive --------------------------------------------------------------------------------

    def _read(self, client: NetworkClient) -> None:
        place = self._db.mail_place
        client.start_reading(place.mail)
        for mail in client.read():
            place = self._enter(mail, place)
            self._db.note_mail(place)
            client.done(mail)

    def _enter(self, mail: ReceivedMail, place: MailPlace) -> MailPlace:
        """Put mail into the inbox, once: its sequence number there follows from the mail's number."""
        foreign = [n for n, one in enumerate(mail.ids) if one[:_PREFIX] != self._own]
        self.figures.returned += len(mail.ids) - len(foreign)
        follows = mail.number == place.mail + 1
        epoch, seq = (place.epoch, place.seq + 1) if follows else (place.epoch + 1, 0)
        skipped = MailPlace(mail.number, epoch, seq - 1)
        if not foreign:
            return skipped
        body = b"\n".join(json_of_batch(mail.events.take(foreign)))
        while not self._ending.is_set():
            try:
                self._publish(body, Producer(PRODUCER, epoch, seq))
                self.figures.arrived += len(foreign)
                return MailPlace(mail.number, epoch, seq)
            except RecordsRefused as error:
                self.figures.refused += len(foreign)
                _log.warning("events of the network don't fit here: %s", error)
                return skipped
            except ProducerError as error:  # the inbox forgot it, or has a later epoch
                epoch = max(epoch, error.epoch if isinstance(error, StaleEpoch) else 0) + 1
                seq = 0
                skipped = MailPlace(mail.number, epoch, -1)
            except Overloaded as error:
                self._ending.wait(error.retry_after)
        raise NetworkError("the service ends")

    def _publish(self, body: bytes, producer: Producer) -> None:
        assert self._loop is not None, "started"
        content = Content(body, "application/x-ndjson")
        work = self._publisher().publish_events(content, producer, skip=True)
        answer = asyncio.run_coroutine_threadsafe(work, self._loop).result()
        if answer.refused:
            self.figures.refused += len(answer.refused)
            _log.warning("%s events of the network don't fit here", len(answer.refused))


class _NetworkMover:
    """Keeps the events that go into the network, then passes the rows to another mover."""

    def __init__(self, side: NetworkSide, mover: Mover) -> None:
        self._side, self._mover = side, mover

    def take(self, rows: Sequence[InboxRow]) -> None:
        self._side.take(rows)
        self._mover.take(rows)

    def close(self) -> None:
        self._mover.close()
