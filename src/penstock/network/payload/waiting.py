"""Events that wait for a payload, and the nodes that are asked for it.

    queue of a destination     event ── event ── event        in order: none overtakes one that waits
    asking for a payload       source, publisher, publisher …    one after the other, each for some time

A destination is a link, or None: clients here. An event that waits keeps the payloads that it has, so it doesn't matter
to it what the repository drops meanwhile.
"""

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.network.payload.carried import CarriedEvent, PayloadId

Destination = str | None


@dataclass(slots=True)
class WaitingEvent:
    """An event for one destination, and the payloads of it that are here."""

    destination: Destination
    event: CarriedEvent
    token: Any
    contents: dict[PayloadId, bytes]
    is_missed: bool = False


@dataclass(slots=True)
class _Asking:
    """Who is asked for a payload now, until when, and who is next."""

    now: str
    until: float
    next: list[str]
    publisher: str


@dataclass(slots=True)
class WaitingEvents:
    """The queues of all destinations."""

    _queues: dict[Destination, deque[WaitingEvent]] = field(default_factory=dict)

    def __len__(self) -> int:
        return sum(map(len, self._queues.values()))

    def has(self, destination: Destination) -> bool:
        """Whether something waits for a destination: what comes later must wait behind it."""
        return bool(self._queues.get(destination))

    def put(self, waiting: WaitingEvent) -> None:
        self._queues.setdefault(waiting.destination, deque()).append(waiting)

    def fill(self, contents: Mapping[PayloadId, bytes]) -> None:
        """Payloads have come: give them to the events that wait for them."""
        for waiting in self._all():
            for header in waiting.event.headers:
                if header.id in contents:
                    waiting.contents[header.id] = contents[header.id]

    def miss(self, id_: PayloadId, publisher: str) -> None:
        """A payload can't be got from a publisher: the publisher's events that lack it can't go."""
        for waiting in self._all():
            for header in waiting.event.headers:
                if (header.id, header.publisher) == (id_, publisher):
                    waiting.is_missed = waiting.is_missed or id_ not in waiting.contents

    def first_of_each(self) -> list[WaitingEvent]:
        """The event that is next for each destination."""
        return [queue[0] for queue in self._queues.values() if queue]

    def pop(self, destination: Destination) -> None:
        queue = self._queues[destination]
        queue.popleft()
        if not queue:
            del self._queues[destination]

    def forget(self, destination: Destination) -> None:
        """A link is gone, and with it what was to be sent there."""
        self._queues.pop(destination, None)

    def clear(self) -> None:
        self._queues.clear()

    def _all(self) -> Iterator[WaitingEvent]:
        for queue in self._queues.values():
            yield from queue


@dataclass(slots=True)
class Asking:
    """The payloads that are asked for. `patience` is how long to wait for one node."""

    patience: float
    _asked: dict[PayloadId, _Asking] = field(default_factory=dict)

    def __contains__(self, id_: PayloadId) -> bool:
        return id_ in self._asked

    def begin(self, id_: PayloadId, whom: list[str], publisher: str, now: float) -> str | None:
        """Begin to ask for a payload. Returns the node to ask first; None if there is nobody to ask."""
        if not whom:
            return None
        self._asked[id_] = _Asking(whom[0], now + self.patience, whom[1:], publisher)
        return whom[0]

    def publisher(self, id_: PayloadId) -> str:
        """The publisher of the event for which a payload is asked for."""
        return self._asked[id_].publisher

    def asked_now(self, id_: PayloadId) -> str:
        """The node that is asked at the moment: late answers of others say nothing about it."""
        return self._asked[id_].now

    def next(self, id_: PayloadId, now: float, has_denied: bool) -> str | None:
        """The node to ask after one that doesn't have the payload, or doesn't answer; None if all were asked."""
        asking = self._asked[id_]
        left = [who for who in asking.next if not has_denied or who != asking.now]
        if not left:
            del self._asked[id_]
            return None
        self._asked[id_] = _Asking(left[0], now + self.patience, left[1:], asking.publisher)
        return left[0]

    def end(self, id_: PayloadId) -> None:
        self._asked.pop(id_, None)

    def overdue(self, now: float) -> list[PayloadId]:
        return [id_ for id_, asking in self._asked.items() if asking.until <= now]

    def next_tick(self) -> float | None:
        return min((asking.until for asking in self._asked.values()), default=None)

    def clear(self) -> None:
        self._asked.clear()
