"""The requests of clients to their broker. Each is answered when it holds everywhere (docs/NETWORK.md, "Settled"):

subscribe   when everything told so far is settled, and no known broker is lost
advertise   when everything told so far is settled; until then events under it are held
publish     when the events are in the outbox; later if too many are under way; refused if no advertisement matches them
withdraw    when the events that were published under it are done
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.base.arrays import Int64s, offsets
from penstock.base.errors import PenstockError
from penstock.matching.live import LiveMatcher
from penstock.network.broker_settings import BrokerSettings
from penstock.network.broker_steps import (
    ID_BYTES,
    Advertise,
    Answer,
    Notice,
    Output,
    Publish,
    Start,
    Subscribe,
    Unsubscribe,
    Withdraw,
)
from penstock.network.event_passing import FEW_EVENTS, EventPassing
from penstock.network.routing import RoutingTables
from penstock.network.settling import wait_for


class ClientRequests:
    """See the module. Part of a broker, which sets `now`."""

    def __init__(
        self,
        settings: BrokerSettings,
        tables: RoutingTables,
        events: EventPassing,
        put: Callable[[Output], None],
    ) -> None:
        self._settings, self._tables, self._events, self._put = settings, tables, events, put
        self.now = 0.0
        self.settled: list[int] = []
        """Requests that wait only until no broker is lost."""
        self._slow: list[int] = []  # requests to publish that wait for room
        # Requests, their advertisements, and the number of the last events before each.
        self._withdrawals: list[tuple[int, int, int]] = []
        self.unsettled: set[int] = set()
        """The numbers of clients' advertisements that aren't settled."""
        self._announced = LiveMatcher(settings.schema, operators=settings.operators)
        self._advertisement_texts: dict[int, str] = {}

    def __len__(self) -> int:
        """How many requests wait for an answer."""
        return len(self.settled) + len(self._slow) + len(self._withdrawals)

    def restore(self, start: Start) -> None:
        """Take back what clients had asked for when the broker stopped."""
        for number, text in start.subscriptions:
            self._tried(None, self._tables.subscribe, number, text)
        for number, text in start.advertisements:
            if self._tried(None, self._tables.advertise, number, text):
                self._announce(number, text)

    def finish(self, *, is_whole: bool) -> None:
        """Answer what can be answered by now. `is_whole`: this broker has joined, and no broker is lost."""
        self._end_withdrawals()
        if is_whole:
            for request in self.settled:
                self._put(Answer(request))
            self.settled.clear()
        while self._slow and self._events.under_way <= self._settings.bounds.events_under_way:
            self._put(Answer(self._slow.pop(0)))

    def unsubscribe(self, given: Unsubscribe) -> None:
        self._tables.unsubscribe(given.subscription)
        self._put(Answer(given.request))

    def subscribe(self, given: Subscribe) -> None:
        known = self._tables.clients.get(given.subscription)
        if (known is None or known[1] != given.text) and not self._tried(
            given.request, self._tables.subscribe, given.subscription, given.text
        ):
            return
        wait_for(self._tables.links.values(), lambda: self.settled.append(given.request))

    def advertise(self, given: Advertise) -> None:
        number = given.advertisement
        again = [w for w in self._withdrawals if w[1] == number]
        self._withdrawals = [w for w in self._withdrawals if w[1] != number]
        for request, _, _ in again:
            self._put(Answer(request))
        if self._advertisement_texts.get(number) != given.text:
            if not self._tried(given.request, self._tables.advertise, number, given.text):
                return
            self._announce(number, given.text)
            self.unsettled.add(number)

        def settled() -> None:
            self.unsettled.discard(number)
            self._put(Answer(given.request))

        wait_for(self._tables.links.values(), settled)

    def _announce(self, number: int, text: str) -> None:
        self._announced.add(number, text)
        self._advertisement_texts[number] = text

    def withdraw(self, given: Withdraw) -> None:
        """Take an advertisement back as soon as nothing depends on it any longer."""
        self._withdrawals.append((given.request, given.advertisement, self._events.last))

    def _end_withdrawals(self) -> None:
        """End advertisements once the events published under them are done, since these may be matched anew."""
        waiting = []
        for request, number, last in self._withdrawals:
            oldest = self._events.oldest
            if oldest is not None and oldest <= last:
                waiting.append((request, number, last))
                continue
            self._tables.withdraw(number)
            self._announced.discard(number)
            self._advertisement_texts.pop(number, None)
            self.unsettled.discard(number)
            self._put(Answer(request))
        self._withdrawals = waiting

    def publish(self, given: Publish, *, is_joined: bool) -> None:
        bounds = self._settings.bounds
        try:
            events = self._events.read_batch(given.events)
        except (pa.ArrowException, TypeError, ValueError) as error:
            self._put(Answer(given.request, f"the events don't fit the network's schema: {error}"))
            return
        refusal = self._refusal(given.ids, events)
        if refusal is None and self._events.outbox_bytes + events.nbytes > bounds.outbox_bytes:
            refusal = (
                f"the outbox has {self._events.outbox_bytes:,} of {bounds.outbox_bytes:,} bytes, for brokers "
                "that can't be reached or are slow: publish later"
            )
            self._put(Notice("full", self._settings.name, refusal))
        if refusal is not None:
            self._put(Answer(given.request, refusal))
            return
        held = frozenset(self.unsettled) if self._must_hold(events, is_joined) else None
        self._events.publish(given.ids, events, held)
        if self._events.under_way > bounds.events_under_way:
            self._slow.append(given.request)
        else:
            self._put(Answer(given.request))

    def _refusal(self, ids: bytes, events: pa.RecordBatch) -> str | None:
        """Why events can't be published; None if they can."""
        if len(ids) != ID_BYTES * len(events):
            return (
                f"{len(events)} events need {ID_BYTES * len(events)} bytes of ids, not {len(ids)}"
            )
        largest = self._settings.bounds.message_bytes
        if len(events) and events.nbytes > largest * len(events):
            return f"events of more than {largest:,} bytes"
        if self._settings.advertisements and len(events):
            bare = np.flatnonzero(np.diff(self._announcements(events)[0]) == 0)
            if len(bare):
                return f"none of the advertisements matches event {bare[0]}: advertise what you publish"
        return None

    def _announcements(self, events: pa.RecordBatch) -> tuple[Int64s, Int64s]:
        """The advertisements of clients that match each event: where those of each begin, and their numbers."""
        moment = int(self.now * 1e6)
        if len(events) < FEW_EVENTS:
            several = [self._announced.match(event, moment) for event in events.to_pylist()]
            numbers = [number for one in several for number in one]
            return offsets(np.array(list(map(len, several)))), np.array(numbers, np.int64)
        lists = self._announced.match_batch(events, moment)
        return lists.offsets.to_numpy(), lists.flatten().to_numpy()

    def _must_hold(self, events: pa.RecordBatch, is_joined: bool) -> bool:
        """Whether events must wait: some match no settled advertisement, or this broker hasn't joined yet."""
        if not is_joined:
            return True
        if not self.unsettled or not self._settings.advertisements:
            return False
        starts, numbers = self._announcements(events)
        is_settled = ~np.isin(numbers, list(self.unsettled))
        settled = np.concatenate([[0], np.cumsum(is_settled)])[starts]
        return bool((np.diff(settled) == 0).any())

    def _tried(self, request: int | None, act: Callable[..., Any], *given: Any) -> bool:
        """Do what may be refused. Returns whether it was done."""
        try:
            act(*given)
        except PenstockError as error:
            if request is not None:
                self._put(Answer(request, str(error)))
            else:
                self._put(Notice("refused", self._settings.name, str(error)))
            return False
        return True
