"""Events on their way: matched, delivered, passed on, answered for; and kept by the publisher's broker until done.

    publish ─▶ outbox ─▶ match ─▶ own clients
                           └────▶ neighbours ─▶ Done(missed) ─▶ nobody missed: out of the outbox
                                                             └▶ a missed broker comes into reach: once more, for it only

A broker answers for the events of a message when its own clients have them and all neighbours that it passed them on
to have answered. `missed` are the brokers that may lack them: those that are lost here, and those behind a link that
went down meanwhile. Only the publisher's broker remembers events; the others forget them. Repeats do no harm, since
clients drop them by the event's id. Events of one message share their fate, so nothing is kept per event. Messages that
come together from one neighbour share it, too: they are matched and passed on as one batch, and are answered for
together. So the busier a broker is, the more messages wait for it at a time, and the less each of them costs.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from penstock.base.arrays import Int64s
from penstock.network.batch_bytes import read_batch, write_batch
from penstock.network.broker_settings import BrokerSettings
from penstock.network.broker_steps import (
    ID_BYTES,
    Deliver,
    DropEvents,
    KeepEvents,
    Kept,
    Output,
    ids_at,
)
from penstock.network.open_link import Flight, OpenLink
from penstock.network.payload_passing import PayloadPassing
from penstock.network.reach import KnownBrokers
from penstock.network.routing import CLIENT, RoutingTables
from penstock.network.wire import Done, Events, WireError

FEW_EVENTS = 24
"""From so many events on, they are matched as a batch."""
_EVERYBODY: frozenset[str] = frozenset()


@dataclass(eq=False, slots=True)
class _Kept:
    """Events in the outbox: on their way in so many `flights`, and owed to brokers that have missed them.

    If `held` isn't None, they haven't been sent at all: it has the advertisements that must be settled first.
    """

    ids: bytes
    body: bytes
    flights: int = 0
    owed: set[str] = field(default_factory=set)
    held: frozenset[int] | None = None

    @property
    def size(self) -> int:
        return len(self.body) + len(self.ids)

    @property
    def events(self) -> int:
        return len(self.ids) // ID_BYTES


class _Gathered(NamedTuple):
    """The events of a message that wait to be matched."""

    number: int
    message: Events
    events: pa.RecordBatch


class EventPassing:
    """See the module."""

    def __init__(
        self,
        tables: RoutingTables,
        known: KnownBrokers,
        settings: BrokerSettings,
        put: Callable[[Output], None],
    ) -> None:
        self._tables, self._known, self._me = tables, known, settings.name
        self._message_bytes, self._put = settings.bounds.message_bytes, put
        self.payloads = PayloadPassing(self, tables, settings, put)
        self._schema = tables.matcher.schema.to_arrow()
        self._kept: dict[int, _Kept] = {}
        self._held: dict[int, _Kept] = {}
        self._next = 0
        self._owed: dict[str, set[int]] = {}  # by broker
        # What came in this step, by where it came from and for whom it is.
        self._gathered: dict[tuple[OpenLink, tuple[str, ...]], list[_Gathered]] = {}
        self._gathered_bytes = 0
        self.now = 0.0
        self.outbox_bytes = 0
        self.under_way = 0  # events in flight that were published here

    # --- the outbox -------------------------------------------------------------------------------

    @property
    def kept(self) -> int:
        """How many batches are in the outbox."""
        return len(self._kept)

    @property
    def kept_events(self) -> int:
        """How many events are in the outbox."""
        return sum(kept.events for kept in self._kept.values())

    @property
    def oldest(self) -> int | None:
        """The number of the first events in the outbox."""
        return next(iter(self._kept), None)

    @property
    def last(self) -> int:
        """The number of the last events that were published."""
        return self._next - 1

    def publish(self, ids: bytes, events: pa.RecordBatch, held: frozenset[int] | None) -> None:
        """Keep events and send them, or hold them until some advertisements are settled."""
        body = write_batch(events)
        number = self._next
        self._next += 1
        self._put(KeepEvents(number, ids, body))
        kept = self._keep(number, ids, body)
        if held is None:
            self._send_new(number, kept, events)
        else:
            kept.held = held
            self._held[number] = kept

    def restore(self, kept: tuple[Kept, ...], joined: bool) -> None:
        """Take back what was in the outbox when the broker stopped: it is owed to all known brokers."""
        for one in sorted(kept, key=lambda one: one.number):
            self._next = max(self._next, one.number + 1)
            mine = self._keep(one.number, one.ids, one.events)
            if joined:
                self._owe(one.number, mine, set(self._known.known))
                self._send(one.number, mine, frozenset({self._me}))
            else:
                mine.held = frozenset()
                self._held[one.number] = mine

    def release(self, unsettled: set[int]) -> None:
        """Send the held events, except those that wait for advertisements that aren't settled."""
        if not self._held:
            return
        for number, kept in list(self._held.items()):
            assert kept.held is not None
            if not kept.held & unsettled:
                del self._held[number]
                kept.held = None
                self._send_new(number, kept, self.read(kept.body, kept.ids))

    def send_again(self) -> None:
        """Send the events that are owed to brokers in reach."""
        if not self._owed:
            return
        again: dict[int, set[str]] = {}
        for name in self._owed.keys() & self._known.in_reach:
            for number in self._owed.pop(name):
                again.setdefault(number, set()).add(name)
        for number in sorted(again):
            kept = self._kept[number]
            kept.owed -= again[number]
            self._send(number, kept, frozenset(again[number]))

    def forget(self, names: list[str]) -> None:
        """Nothing is owed to these brokers any longer."""
        for name in names:
            for number in self._owed.pop(name, ()):
                self._kept[number].owed.discard(name)
                self._drop_if_done(number)

    def _keep(self, number: int, ids: bytes, body: bytes) -> _Kept:
        kept = self._kept[number] = _Kept(ids, body)
        self.outbox_bytes += kept.size
        return kept

    def _send_new(self, number: int, kept: _Kept, events: pa.RecordBatch) -> None:
        kept.flights += 1
        self.under_way += kept.events
        flight = Flight(None, (number,), set())
        if not self.payloads.publish(flight, kept.ids, events):
            self.pass_on(flight, kept.ids, events, _EVERYBODY, kept.body)

    def _send(self, number: int, kept: _Kept, only: frozenset[str]) -> None:
        kept.flights += 1
        self.under_way += kept.events
        events = self.read(kept.body, kept.ids)
        self.pass_on(Flight(None, (number,), set()), kept.ids, events, only, kept.body)

    def _owe(self, number: int, kept: _Kept, names: set[str]) -> None:
        kept.owed |= names
        for name in names:
            self._owed.setdefault(name, set()).add(number)

    def _drop_if_done(self, number: int) -> None:
        kept = self._kept[number]
        if not kept.flights and not kept.owed and kept.held is None:
            del self._kept[number]
            self.outbox_bytes -= kept.size
            self._put(DropEvents(number))

    # --- passing on -------------------------------------------------------------------------------

    def receive(self, link: OpenLink, number: int, message: Events) -> None:
        """Take events of a neighbour; they wait for `pass_gathered`. WireError if they can't be read."""
        events = self.read(message.body, message.ids)
        link.events_in += len(events)
        mine = self._gathered.setdefault((link, message.only), [])
        mine.append(_Gathered(number, message, events))
        self._gathered_bytes += len(message.body)
        if self._gathered_bytes >= self._message_bytes:
            self.pass_gathered()

    def pass_gathered(self) -> None:
        """Pass on the events that have come from neighbours. They must be on their way before anything else is done."""
        if not self._gathered:
            return
        gathered, self._gathered, self._gathered_bytes = self._gathered, {}, 0
        for (link, only), several in gathered.items():
            flight = Flight(link, tuple(one.number for one in several), set())
            if len(several) == 1:
                ((_, message, events),) = several
                self.pass_on(flight, message.ids, events, frozenset(only), message.body)
            else:
                ids = b"".join(one.message.ids for one in several)
                events = pa.concat_batches([one.events for one in several])
                self.pass_on(flight, ids, events, frozenset(only), None)

    def pass_on(
        self,
        flight: Flight,
        ids: bytes,
        events: pa.RecordBatch,
        only: frozenset[str],
        body: bytes | None,
    ) -> None:
        """Deliver events to own clients, and send them where somebody wants them. `body`: their bytes, if known."""
        for link, rows, numbers in self.destinations(flight, events, only):
            if link is None:
                self._put(Deliver(ids, events, rows, self._tables.subscription[numbers]))
                continue
            places = distinct_rows(rows, len(events))
            if len(places) == len(events):
                body = write_batch(events) if body is None else body
                self._send_to(link, flight, ids, events, only, body)
            else:
                some = events.take(pa.array(places))
                self._send_to(link, flight, ids_at(ids, places), some, only, write_batch(some))
        self.answered(flight)

    def destinations(
        self, flight: Flight, events: pa.RecordBatch, only: frozenset[str] = _EVERYBODY
    ) -> Iterator[tuple[OpenLink | None, Int64s, Int64s]]:
        """Where events go: links, or None for own clients, each with the rows that go there.

        With each row comes the number of the region that it is in. The flight begins with this broker itself, which
        answers when it has sent the events.
        """
        known, upstream = self._known, flight.upstream
        flight.missed |= only - known.in_reach - {self._me} if only else known.lost.keys()
        flight.unanswered = 1  # this broker itself
        rows, numbers = self._match(events)
        slots = self._tables.slot[numbers]
        if upstream is not None:
            wanted = distinct_rows(rows[slots != upstream.slot], len(events))
            upstream.events_in_vain += len(events) - len(wanted)
        present: list[int] = (np.flatnonzero(np.bincount(slots - CLIENT)) + CLIENT).tolist()
        for slot in present:
            chosen = slots == slot
            if slot == CLIENT:
                if not only or self._me in only:
                    yield None, rows[chosen], numbers[chosen]
                continue
            link = self._tables.by_slot[slot]
            if link is upstream or (only and not only & link.names):
                continue
            yield link, rows[chosen], numbers[chosen]

    def lost(self) -> set[str]:
        """The brokers that can't be reached."""
        return set(self._known.lost)

    def _send_to(
        self,
        link: OpenLink,
        flight: Flight,
        ids: bytes,
        events: pa.RecordBatch,
        only: frozenset[str],
        body: bytes,
    ) -> None:
        if len(body) > self._message_bytes and len(events) > 1:
            half = len(events) // 2
            for part, mine in (
                (events.slice(0, half), ids[: half * ID_BYTES]),
                (events.slice(half), ids[half * ID_BYTES :]),
            ):
                self._send_to(link, flight, mine, part, only, write_batch(part))
            return
        number = link.send(Events(ids, tuple(sorted(only)), body))
        link.events_out += len(events)
        link.flights[number] = flight, link.names
        flight.unanswered += 1

    def done(self, link: OpenLink, message: Done) -> None:
        """A neighbour has answered for the events of a message."""
        for number in message.numbers:
            found = link.flights.pop(number, None)
            if found is None:
                raise WireError(f"message {number} had no events, or was answered for before")
            found[0].missed.update(message.missed)
            self.answered(found[0])

    def fail(self, link: OpenLink) -> None:
        """A link is down: the brokers behind it may lack what was on its way."""
        flights, link.flights = link.flights, {}
        for flight, names in flights.values():
            flight.missed |= names
            flight.missed.add(link.name)
            self.answered(flight)
        self.payloads.fail(link)

    def answered(self, flight: Flight) -> None:
        """One of those that got the events of a flight has answered; if all have, so does this broker."""
        flight.unanswered -= 1
        if flight.unanswered:
            return
        if flight.has_missed_here:
            flight.missed.add(self._me)
        else:
            flight.missed.discard(self._me)
        if flight.upstream is not None:
            if flight.upstream.is_up:
                flight.upstream.send(Done(flight.numbers, tuple(sorted(flight.missed))))
            return
        (number,) = flight.numbers
        self.payloads.accounted(number)
        kept = self._kept[number]
        kept.flights -= 1
        self.under_way -= kept.events
        self._owe(number, kept, flight.missed & self._known.known)
        self._drop_if_done(number)

    # --- matching ---------------------------------------------------------------------------------

    def _match(self, events: pa.RecordBatch) -> tuple[Int64s, Int64s]:
        """Pairs of a row and the number of a region that it is in, ascending by row."""
        matcher, moment = self._tables.matcher, int(self.now * 1e6)
        if len(events) < FEW_EVENTS:
            pairs = [
                (row, number)
                for row, event in enumerate(events.to_pylist())
                for number in matcher.match(event, moment)
            ]
            found = np.array(pairs, np.int64).reshape(-1, 2)
            return found[:, 0], found[:, 1]
        lists = matcher.match_batch(events, moment)
        rows = np.repeat(np.arange(len(events)), np.diff(lists.offsets.to_numpy()))
        return rows, lists.flatten().to_numpy()

    def read_batch(self, events: pa.RecordBatch) -> pa.RecordBatch:
        """A client's events in the network's schema. ArrowInvalid, TypeError if they don't fit it."""
        if events.schema.equals(self._schema):
            return events
        names = set(events.schema.names)
        columns = [
            events.column(f.name).cast(f.type) if f.name in names else pa.nulls(len(events), f.type)
            for f in self._schema
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def read(self, body: bytes, ids: bytes) -> pa.RecordBatch:
        """Read events. WireError if the bytes aren't events of the network's schema."""
        try:
            events = read_batch(body, self._schema)
        except (pa.ArrowException, OSError, EOFError, ValueError, KeyError) as error:
            raise WireError(f"no events: {error}") from None
        if len(ids) != ID_BYTES * len(events):
            raise WireError(f"{len(events)} events with {len(ids)} bytes of ids")
        return events


def distinct_rows(rows: Int64s, count: int) -> Int64s:
    """The distinct rows among some, ascending; `count` is how many rows the batch has.

    >>> distinct_rows(np.array([1, 1, 3]), 5).tolist()
    [1, 3]
    """
    return np.flatnonzero(np.bincount(rows, minlength=count))
