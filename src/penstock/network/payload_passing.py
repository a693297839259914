"""Events with payloads on their way: what `event_passing` does with events, with CN* (`payload.node`) in between.

    publish ─▶ payloads taken out, held ─▶ match ─▶ own clients
                                             └────▶ node ─▶ PayloadEvents, whole or with payloads left out
    PayloadEvents ─▶ node ─▶ PayloadsHad back
                      └────▶ match ─▶ node ─▶ own clients, PayloadEvents
                      wait    ↑ wait   ↑

Events wait twice at most: to be matched, if some subscription tests an attribute of a payload that isn't here, and to
be sent or delivered, if the payload isn't here then. Meanwhile their flight isn't answered. If nobody has the payload
any longer, the brokers that the events were for count as having missed them, and the publisher's broker sends the
events again, as plain `Events`, which are whole. Whatever is sent for some brokers only is sent as plain `Events`, too.

A broker may move while events wait, and must not miss them unnoticed: if it was behind a link when the events came, or
were matched, and isn't behind it when they go on, it counts as having missed them.

A broker without payloads in its settings is a plain one. It never says that it has had a payload, so it gets events
whole, and passes them on whole, with the headers.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from penstock.base.arrays import Int64s, distinct
from penstock.network.batch_bytes import write_batch
from penstock.network.broker_settings import BrokerSettings
from penstock.network.broker_steps import Deliver, Output
from penstock.network.open_link import Flight, OpenLink
from penstock.network.payload.carried import CarriedEvent
from penstock.network.payload.exchange import (
    AskPayload,
    DeliverEvent,
    ForwardEvent,
    PayloadAnswer,
    PayloadMissed,
    PayloadOutput,
    PayloadsUnderstood,
)
from penstock.network.payload.node import PayloadLimits, PayloadNode
from penstock.network.payload.stripped_batch import (
    PayloadError,
    StrippedBatch,
    check_batch,
    strip_payloads,
)
from penstock.network.routing import RoutingTables
from penstock.network.wire import (
    Events,
    PayloadAsked,
    PayloadEvents,
    PayloadGiven,
    PayloadMessage,
    PayloadsHad,
    WireError,
)

_NO_MEMORY = PayloadLimits(directory_bytes=0, repository_bytes=0)


class Passing(Protocol):
    """The part of `EventPassing` that is used here."""

    now: float

    def read(self, body: bytes, ids: bytes) -> pa.RecordBatch: ...

    def lost(self) -> set[str]: ...

    def destinations(
        self, flight: Flight, events: pa.RecordBatch
    ) -> Iterator[tuple[OpenLink | None, Int64s, Int64s]]: ...

    def answered(self, flight: Flight) -> None: ...


@dataclass(eq=False, slots=True)
class _ToMatch:
    """Events that can't be matched yet. `behind`: the brokers that were behind each of the other links."""

    flight: Flight
    batch: StrippedBatch
    behind: list[tuple[OpenLink, frozenset[str]]]


@dataclass(eq=False, slots=True)
class _ToClients:
    """Events for subscriptions here. A subscription may end meanwhile: its entry shows whether it did."""

    flight: Flight
    batch: StrippedBatch
    rows: Int64s
    subscriptions: Int64s
    entries: list[tuple[int, str]]


@dataclass(eq=False, slots=True)
class _ToLink:
    """Events for a link, and the brokers behind it when they were matched."""

    flight: Flight
    batch: StrippedBatch
    link: OpenLink
    names: frozenset[str]


class PayloadPassing:
    """See the module."""

    def __init__(
        self,
        passing: Passing,
        tables: RoutingTables,
        settings: BrokerSettings,
        put: Callable[[Output], None],
    ) -> None:
        self._passing, self._tables, self._put = passing, tables, put
        self._me, self._message_bytes = settings.name, settings.bounds.message_bytes
        self._payloads = settings.payloads
        self._is_plain = not settings.payloads
        self._node = PayloadNode(
            settings.name, _NO_MEMORY if self._is_plain else settings.payload_limits
        )
        self._held: dict[int, CarriedEvent] = {}  # of the outbox, by number
        self._to_link: dict[str, dict[_ToLink, None]] = {}

    def __len__(self) -> int:
        """How many batches wait for a payload, once for each destination."""
        return len(self._node)

    # --- the broker's own events -------------------------------------------------------------------

    def publish(self, flight: Flight, ids: bytes, events: pa.RecordBatch) -> bool:
        """Send new events of the outbox with their payloads apart. False, and nothing is sent, if they have none."""
        if self._is_plain:
            return False
        batch = strip_payloads(ids, events, self._payloads, self._me)
        if not batch.carried.headers:
            return False
        self._held[flight.numbers[0]] = batch.carried
        self._node.hold(batch.carried)
        for link, rows, numbers in self._passing.destinations(flight, events):
            if link is None:
                self._put(Deliver(ids, events, rows, self._tables.subscription[numbers]))
            else:
                self._send_to(link, flight, batch.take(distinct(rows)))
        self._passing.answered(flight)
        return True

    def accounted(self, number: int) -> None:
        """Events of the outbox aren't on their way any longer. Brokers that missed them get them whole."""
        carried = self._held.pop(number, None)
        if carried is not None:
            self._node.published(carried)

    # --- links, time ---------------------------------------------------------------------------------

    def link_up(self, link: OpenLink) -> None:
        self._node.link_up(link.name)

    def fail(self, link: OpenLink) -> None:
        """A link is down: the brokers behind it count as having missed what waits for it."""
        self._node.link_down(link.name)
        for waiting in self._to_link.pop(link.name, ()):
            waiting.flight.missed |= waiting.names
            self._passing.answered(waiting.flight)

    def tick(self) -> None:
        """Time has passed: stop waiting for brokers that haven't given a payload in time."""
        self._do(self._node.tick(self._passing.now))

    def next_time(self) -> float | None:
        """When `tick` is wanted next."""
        return self._node.next_tick()

    # --- what neighbours say -------------------------------------------------------------------------

    def receive(self, link: OpenLink, number: int, message: PayloadMessage) -> None:
        """Take a message of a neighbour. WireError if it can't be read."""
        match message:
            case PayloadEvents():
                self._receive_events(link, number, message)
            case PayloadsHad(ids):
                self._node.understood(link.name, ids)
            case PayloadAsked() | PayloadGiven() if self._is_plain and message.to != self._me:
                self._route(message, link)
            case PayloadAsked(to, asker, id_):
                question = AskPayload(to, asker, id_)
                self._do(self._node.asked(question, self._passing.now), link)
            case PayloadGiven(to, giver, id_, content):
                answer = PayloadAnswer(to, giver, id_, content)
                self._do(self._node.answered(answer, self._passing.now))

    def _route(self, message: PayloadAsked | PayloadGiven, origin: OpenLink | None = None) -> None:
        """Pass on towards the broker that it is for, or drop it if that is out of reach: no asker waits for ever."""
        for link in self._tables.links.values():
            if message.to in link.names and link is not origin:
                link.send(message)
                return

    def _receive_events(self, link: OpenLink, number: int, message: PayloadEvents) -> None:
        events = self._passing.read(message.body, message.ids)
        carried = CarriedEvent({}, message.headers, message.contents)
        batch = StrippedBatch(message.ids, events, message.rows, carried)
        try:
            check_batch(batch)
        except PayloadError as error:
            raise WireError(str(error)) from None
        if self._is_plain and not carried.is_whole:
            raise WireError("a payload is left out, and this broker hasn't said that it had it")
        link.events_in += len(events)
        carried, outputs = self._node.incoming(link.name, carried, self._passing.now)
        self._do(outputs)
        batch = batch.with_carried(self._node.content_of(carried))
        flight = Flight(link, (number,), set())
        if not self._tables.tests({name for one in carried.headers for name in one.attributes}):
            self._pass_on(flight, batch, batch.events)
            return
        flight.missed |= self._passing.lost()
        behind = [
            (other, other.names | {other.name})
            for other in self._tables.links.values()
            if other is not link
        ]
        waiting = _ToMatch(flight, batch, behind)
        self._do(self._node.outgoing(batch.carried, [], True, waiting, self._passing.now))

    # --- passing on ----------------------------------------------------------------------------------

    def _pass_on(self, flight: Flight, batch: StrippedBatch, events: pa.RecordBatch) -> None:
        """Match a batch by `events`, which have all attributes that are tested, and send it where it is wanted."""
        for link, rows, numbers in self._passing.destinations(flight, events):
            places = distinct(rows)
            some = batch.take(places)
            if link is not None:
                self._send_to(link, flight, some)
                continue
            subscriptions = self._tables.subscription[numbers]
            entries = [self._tables.clients[one] for one in subscriptions.tolist()]
            waiting = _ToClients(
                flight, some, np.searchsorted(places, rows), subscriptions, entries
            )
            flight.unanswered += 1
            self._do(self._node.outgoing(some.carried, [], True, waiting, self._passing.now))
        self._passing.answered(flight)

    def _send_to(self, link: OpenLink, flight: Flight, batch: StrippedBatch) -> None:
        count = len(batch.events)
        if batch.size > self._message_bytes and count > 1:
            self._send_to(link, flight, batch.take(np.arange(count // 2)))
            self._send_to(link, flight, batch.take(np.arange(count // 2, count)))
            return
        flight.unanswered += 1
        waiting = _ToLink(flight, batch, link, link.names | {link.name})
        self._to_link.setdefault(link.name, {})[waiting] = None
        now = self._passing.now
        self._do(self._node.outgoing(batch.carried, [link.name], False, waiting, now))

    def _do(self, outputs: list[PayloadOutput], origin: OpenLink | None = None) -> None:
        """Do what the node says. A question doesn't go back to the link that it came from (`origin`)."""
        for output in outputs:
            match output:
                case PayloadsUnderstood(link, ids):
                    if not self._is_plain:
                        self._tables.links[link].send(PayloadsHad(ids))
                case AskPayload(to, asker, id_):
                    self._route(PayloadAsked(to, asker, id_), origin)
                case PayloadAnswer(to, giver, id_, content):
                    self._route(PayloadGiven(to, giver, id_, content))
                case ForwardEvent(_, event, token):
                    self._forward(token, event)
                case DeliverEvent(event, token):
                    self._complete(token, event)
                case PayloadMissed(_, _, token):
                    self._miss(token)

    def _forward(self, waiting: _ToLink, event: CarriedEvent) -> None:
        link, batch, flight = waiting.link, waiting.batch, waiting.flight
        del self._to_link[link.name][waiting]
        body = write_batch(batch.events)
        if event.headers:
            message = PayloadEvents(
                batch.ids, body, event.headers, batch.rows, dict(event.contents)
            )
            number = link.send(message)
        else:
            number = link.send(Events(batch.ids, (), body))
        link.events_out += len(batch.events)
        link.payloads_spared += len(event.headers) - len(event.contents)
        link.flights[number] = flight, waiting.names
        flight.missed |= waiting.names - link.names - {link.name}

    def _complete(self, waiting: _ToMatch | _ToClients, event: CarriedEvent) -> None:
        """Events are whole now: match them, or deliver them."""
        batch = waiting.batch.with_carried(event)
        try:
            events = batch.whole()
        except PayloadError:  # a header is wrong: the publisher still has the events
            self._miss(waiting)
            return
        if isinstance(waiting, _ToMatch):
            for link, names in waiting.behind:
                still = link.names | {link.name} if link.is_up else frozenset[str]()
                waiting.flight.missed |= names - still
            self._pass_on(waiting.flight, batch, events)
            return
        known = self._tables.clients
        pairs = zip(waiting.subscriptions.tolist(), waiting.entries, strict=True)
        stay = np.array([known.get(number) is entry for number, entry in pairs], bool)
        if stay.any():
            found = Deliver(batch.ids, events, waiting.rows[stay], waiting.subscriptions[stay])
            self._put(found)
        self._passing.answered(waiting.flight)

    def _miss(self, waiting: _ToMatch | _ToClients | _ToLink) -> None:
        """Nobody but their publisher has a payload of these events any longer."""
        flight = waiting.flight
        match waiting:
            case _ToLink(link=link, names=names):
                del self._to_link[link.name][waiting]
                flight.missed |= names
            case _ToMatch(behind=behind):
                flight.missed |= {name for _, names in behind for name in names}
                flight.has_missed_here = True
                flight.unanswered = 1
            case _ToClients():
                flight.has_missed_here = True
        self._passing.answered(flight)
