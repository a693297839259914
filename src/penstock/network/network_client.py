"""A client of a broker: subscribes, advertises, publishes, and takes its mail; from any process, or the broker's own.

    with NetworkClient.connect("tcp/127.0.0.1:7447", broker="b1", name="alice") as client:
        client.subscribe(1, "price > 500")             returns when no later event is missed
        client.advertise(1, "symbol = 'GOOG'")
        client.publish([{"symbol": "GOOG", "price": 550.0}])    returns when the broker keeps them
        for mail in client.read():                     each event once, in batches
            …
            client.done(mail)

A client repeats what it asks until the broker answers, even if the broker is killed and started again meanwhile. The
broker keeps a client's subscriptions and its mail: a client that comes back under its name goes on after the last mail
that it was done with.
"""

import os
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, NamedTuple, Self

import msgspec
import numpy as np
import pyarrow as pa

from penstock.base.arrays import Int64s
from penstock.language.schema import Schema
from penstock.network.arrow_events import batch_of
from penstock.network.batch_bytes import write_batch
from penstock.network.broker_steps import ID_BYTES
from penstock.network.client_frames import (
    LIFE_BYTES,
    AdvertiseThat,
    Ask,
    Describe,
    LeaveForGood,
    MailBatch,
    MailFrame,
    PublishEvents,
    Reply,
    Status,
    SubscribeTo,
    Take,
    UnsubscribeFrom,
    Wish,
    WithdrawThat,
    encode_frame,
    read_events,
    read_told,
)
from penstock.network.links.link import CLIENT_MARK, NETWORK, Link, NetworkError, Receiver
from penstock.network.links.zenoh_link import ZenohLink, ZenohPlace

_AGAIN = 0.5  # seconds after which an unanswered question is asked again
_ROWS = 1_000  # events of one publication
_TOLD = 16  # batches of mail after which the broker is told how far it has been read

OpenLink = Callable[[str, Receiver], Link]
"""Opens a link for a name."""


class ReceivedMail(NamedTuple):
    """Some events for this client: the event in row `rows[n]` is for its subscription `subscriptions[n]`."""

    number: int
    ids: list[bytes]
    events: pa.RecordBatch
    rows: Int64s
    subscriptions: Int64s


@dataclass(slots=True)
class _Asked:
    broker: str
    frame: bytes
    answer: "Future[bytes]"
    sent: float


class NetworkClient:
    """May be used by any thread. Of two clients with the same name, the broker serves the one that spoke last."""

    def __init__(self, open_link: OpenLink, broker: str, name: str) -> None:
        self.broker, self.name = broker, name
        self._life = os.urandom(LIFE_BYTES)
        self._lock = threading.Lock()
        self._number = self._event = 0
        self._asked: dict[int, _Asked] = {}
        self._mail: queue.SimpleQueue[MailBatch | None] = queue.SimpleQueue()
        self._arrived = self._received = self._done = -1
        self._heard = 0.0
        self.dropped = 0
        self._schema: tuple[Schema, pa.Schema] | None = None
        self._ending = threading.Event()
        self._send_lock = threading.Lock()
        self._link = open_link(CLIENT_MARK + name, Receiver(self._frame, _ignore))
        self._thread = threading.Thread(target=self._repeat, name="network-client", daemon=True)
        self._thread.start()

    @staticmethod
    def connect(
        *endpoints: str,
        broker: str,
        name: str,
        network: str = NETWORK,
        config: Mapping[str, Any] | None = None,
    ) -> "NetworkClient":
        """A client over Zenoh. `config` is Zenoh's own, for TLS and who we are."""
        place = ZenohPlace(connect=endpoints, mode="client", config=config or {})

        def open_link(name: str, receiver: Receiver) -> Link:
            return ZenohLink(name, place, receiver, network=network)

        return NetworkClient(open_link, broker, name)

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
        """Close the connection. What the broker keeps for this client stays."""
        self._ending.set()
        self._mail.put(None)
        self._thread.join()
        with self._send_lock:  # a thread that still reads may be sending how far it is
            self._link.close()
        with self._lock:
            left = list(self._asked.values())
            self._asked.clear()
        for asked in left:
            asked.answer.cancel()

    @property
    def is_closed(self) -> bool:
        return self._ending.is_set()

    # --- asking --------------------------------------------------------------------------------------

    def subscribe(self, subscription: int, text: str, timeout: float | None = None) -> None:
        """Subscribe under a number of the client's own. Another text under the same number replaces it."""
        self._wait(self.ask(SubscribeTo(subscription, text)), timeout)

    def unsubscribe(self, subscription: int, timeout: float | None = None) -> None:
        self._wait(self.ask(UnsubscribeFrom(subscription)), timeout)

    def advertise(self, advertisement: int, text: str, timeout: float | None = None) -> None:
        """Say what is going to be published. Returns when all subscriptions to it have come to this broker."""
        self._wait(self.ask(AdvertiseThat(advertisement, text)), timeout)

    def withdraw(self, advertisement: int, timeout: float | None = None) -> None:
        self._wait(self.ask(WithdrawThat(advertisement)), timeout)

    def leave(self, timeout: float | None = None) -> None:
        """Leave for good: all subscriptions and advertisements are taken back, and mail that wasn't read is deleted."""
        self._wait(self.ask(LeaveForGood()), timeout)

    def publish(
        self,
        events: Sequence[Mapping[str, Any]] | pa.RecordBatch,
        ids: Sequence[bytes] | None = None,
        timeout: float | None = None,
    ) -> None:
        """Publish events. Returns when the broker keeps them. Events with the same id count as the same event."""
        for answer in self.publish_later(events, ids):
            self._wait(answer, timeout)

    def publish_later(
        self,
        events: Sequence[Mapping[str, Any]] | pa.RecordBatch,
        ids: Sequence[bytes] | None = None,
    ) -> list["Future[bytes]"]:
        """Publish events without waiting. Each answer comes when the broker keeps some of them."""
        batch = events if isinstance(events, pa.RecordBatch) else batch_of(events, self.arrow)
        if batch.schema != self.arrow:
            batch = _conform(batch, self.arrow)
        given = self._new_ids(batch.num_rows) if ids is None else list(ids)
        if len(given) != batch.num_rows or any(len(one) != ID_BYTES for one in given):
            raise NetworkError(f"{batch.num_rows:,} events need as many ids of {ID_BYTES} bytes")
        return [
            self.ask(
                PublishEvents(
                    b"".join(given[start : start + _ROWS]),
                    write_batch(batch.slice(start, _ROWS)),
                )
            )
            for start in range(0, batch.num_rows, _ROWS)
        ]

    def status(self, timeout: float | None = 10.0) -> dict[str, Any]:
        """The status of the broker."""
        found: dict[str, Any] = msgspec.json.decode(self._wait(self.ask(Status()), timeout))
        return found

    @property
    def schema(self) -> Schema:
        """The schema of the network's events."""
        return self._described()[0]

    @property
    def arrow(self) -> pa.Schema:
        """The schema of the network's events, as Arrow batches have it."""
        return self._described()[1]

    def statuses(self, brokers: Sequence[str], timeout: float) -> list[dict[str, Any]]:
        """The statuses of other brokers of the network, as far as they answer in time."""
        deadline = time.monotonic() + timeout
        found = []
        for answer in [self.ask(Status(), broker) for broker in brokers]:
            with suppress(NetworkError):
                value = self._wait(answer, max(0.0, deadline - time.monotonic()))
                found.append(msgspec.json.decode(value))
        return found

    def ask(self, wish: Wish, broker: str | None = None) -> "Future[bytes]":
        """Ask the client's broker, or another. The future has the answer, or a NetworkError if the broker refuses."""
        answer: Future[bytes] = Future()
        to = broker or self.broker
        with self._lock:
            self._number += 1
            number = self._number
            frame = encode_frame(Ask(self._life, number, wish))
            self._asked[number] = _Asked(to, frame, answer, time.monotonic())
        self._send(frame, to)
        return answer

    def _wait(self, answer: "Future[bytes]", timeout: float | None) -> bytes:
        try:
            return answer.result(timeout)
        except TimeoutError:
            with self._lock:
                left = [n for n, asked in self._asked.items() if asked.answer is answer]
                for number in left:
                    del self._asked[number]
            raise NetworkError(f"broker {self.broker} hasn't answered in {timeout} s") from None
        except CancelledError:
            raise NetworkError("the client was closed before the broker answered") from None

    def _described(self) -> tuple[Schema, pa.Schema]:
        if self._schema is None:
            schema = Schema.from_json(self._wait(self.ask(Describe()), None).decode())
            self._schema = schema, schema.to_arrow()
        return self._schema

    def _new_ids(self, count: int) -> list[bytes]:
        with self._lock:
            first = self._event
            self._event += count
        return [self._life + n.to_bytes(8, "big") for n in range(first, first + count)]

    # --- mail ----------------------------------------------------------------------------------------

    def start_reading(self, after: int = 0) -> None:
        """Ask for mail that comes after a number: 0, or the last that the client is done with."""
        self._arrived = self._received = self._done = after
        self._heard = time.monotonic()
        self._send_take(again=True)

    def read(self, timeout: float | None = None) -> Iterator[ReceivedMail]:
        """Yields mail as it comes. Ends if none comes for `timeout` seconds."""
        if self._received < 0:
            self.start_reading()
        while not self._ending.is_set():
            try:
                batch = self._mail.get(timeout=timeout)
            except queue.Empty:
                return
            if batch is not None:
                self._received = batch.number
                if batch.number % _TOLD == 0 or self._mail.empty():
                    self._send_take()
                yield self._received_mail(batch)

    @property
    def has_mail(self) -> bool:
        """Whether mail has come that wasn't read."""
        return not self._mail.empty()

    def done(self, mail: ReceivedMail | int) -> None:
        """Say that all mail up to this one is done with: it won't be sent again."""
        number = mail if isinstance(mail, int) else mail.number
        self._done = max(self._done, number)
        self._send_take()

    def _received_mail(self, batch: MailBatch) -> ReceivedMail:
        events = read_events(batch.events, batch.ids, self.arrow)
        ids = [batch.ids[at : at + ID_BYTES] for at in range(0, len(batch.ids), ID_BYTES)]
        rows, subscriptions = (
            np.frombuffer(one, np.int64) for one in (batch.rows, batch.subscriptions)
        )
        return ReceivedMail(batch.number, ids, events, rows, subscriptions)

    # --- the link ------------------------------------------------------------------------------------

    def _frame(self, sender: str, frame: bytes) -> None:
        with suppress(NetworkError):
            told = read_told(frame)
            if isinstance(told, Reply):
                self._take_reply(told)
            elif sender == self.broker:
                self._take_mail(told)

    def _take_reply(self, reply: Reply) -> None:
        if reply.life != self._life:
            return
        with self._lock:
            asked = self._asked.pop(reply.number, None)
        if asked is None or not asked.answer.set_running_or_notify_cancel():
            return
        if reply.error is None:
            asked.answer.set_result(reply.value)
        else:
            asked.answer.set_exception(NetworkError(reply.error))

    def _take_mail(self, frame: MailFrame) -> None:
        self.dropped = frame.dropped
        if self._arrived < 0:
            return
        new = [batch for batch in frame.batches if batch.number > self._arrived]
        if (
            not new or frame.after > self._arrived
        ):  # the frame before is late, or lost: it will be sent again
            return
        self._arrived = new[-1].number
        self._heard = time.monotonic()
        for batch in new:
            self._mail.put(batch)

    def _repeat(self) -> None:
        """Ask again what isn't answered, and for mail that may have been lost."""
        while not self._ending.wait(_AGAIN):
            now = time.monotonic()
            with self._lock:
                late = [asked for asked in self._asked.values() if now - asked.sent >= _AGAIN]
            for asked in late:
                asked.sent = now
                self._send(asked.frame, asked.broker)
            if self._received >= 0:
                nothing_came = now - self._heard >= _AGAIN and self._received == self._arrived
                self._send_take(again=nothing_came)

    def _send_take(self, *, again: bool = False) -> None:
        self._send(encode_frame(Take(self._life, self._received, self._done, again)))

    def _send(self, frame: bytes, broker: str | None = None) -> None:
        with self._send_lock:
            if not self._ending.is_set():
                self._link.send(broker or self.broker, frame)


def _conform(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """A batch of another schema in the network's schema: columns go by name, and those that it lacks are null."""
    try:
        columns = [
            batch.column(field.name).cast(field.type)
            if field.name in batch.schema.names
            else pa.nulls(batch.num_rows, field.type)
            for field in schema
        ]
    except pa.ArrowException as error:
        reason = str(error).splitlines()[0]
        raise NetworkError(f"events that don't fit the network's schema: {reason}") from None
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _ignore(name: str, lives: bool) -> None:
    """A client finds out by answers whether its broker is there."""
