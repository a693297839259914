"""Mail on its way from a broker to its clients: sent when it is on disk, kept until the client is done with it.

A client says up to which number mail has come to it, and up to which it is done with it. Mail under way to it is
bounded. So is mail that waits on disk: beyond the bound the oldest is dropped, and the client is told how many events
it has missed.
"""

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from penstock.network.broker_steps import ID_BYTES
from penstock.network.client_frames import MailFrame, Take, encode_frame
from penstock.network.host_store import ForgetMail, HostStore, Mail

_log = logging.getLogger("penstock.network")

_UNDER_WAY = 64  # batches that are sent and haven't been received
_FRAME = 256 << 10  # bytes of events in a frame that has more than one batch


class _Waiting(NamedTuple):
    number: int
    events: int
    size: int  # bytes of events


@dataclass(slots=True)
class _Box:
    """The mail of one client: what waits for it, and how far the client is."""

    waiting: deque[_Waiting] = field(default_factory=deque)
    size: int = 0  # bytes of events
    last: int = 0
    dropped: int = 0  # events
    is_present: bool = False
    life: bytes = b""
    sent: int = 0
    received: int = 0

    def add(self, waiting: _Waiting) -> None:
        self.waiting.append(waiting)
        self.size += waiting.size
        self.last = waiting.number

    def remove_first(self) -> _Waiting:
        first = self.waiting.popleft()
        self.size -= first.size
        return first


class MailDelivery:
    """For the thread that writes to the store."""

    def __init__(
        self, store: HostStore, most_bytes: int, send: Callable[[str, bytes], object]
    ) -> None:
        self._store, self._most, self._send = store, most_bytes, send
        self._boxes: dict[str, _Box] = {}
        for client, number, events, size in store.waiting():
            self._box(client).add(_Waiting(number, events, size))
        for client, dropped in store.dropped():
            self._box(client).dropped = dropped

    def figures(self) -> dict[str, dict[str, int | bool]]:
        """Figures of the mail of each client. May be called from any thread."""
        return {
            client: {
                "batches": len(box.waiting),
                "bytes": box.size,
                "dropped": box.dropped,
                "present": box.is_present,
            }
            for client, box in list(self._boxes.items())
        }

    def note_stored(self, mail: Mail) -> None:
        """More mail for a client has been stored."""
        batch = mail.batch
        waiting = _Waiting(batch.number, len(batch.ids) // ID_BYTES, len(batch.events))
        self._box(mail.client).add(waiting)

    def over_the_bound(self) -> list[ForgetMail]:
        """The mail to drop, of clients that left too much unread. The last batch stays: with it they are told."""
        found = []
        for client, box in self._boxes.items():
            if box.size <= self._most:
                continue
            before = box.dropped
            while len(box.waiting) > 1 and 2 * box.size > self._most:
                last = box.remove_first()
                box.dropped += last.events
            if dropped := box.dropped - before:
                found.append(ForgetMail(client, last.number, dropped=dropped))
                _log.warning(
                    "%s doesn't take its mail: %s events are dropped", client, f"{dropped:,}"
                )
        return found

    def take(self, client: str, take: Take) -> ForgetMail | None:
        """A client says how far it is. Returns what can be deleted, since the client is done with it."""
        box = self._box(client)
        is_new = not box.is_present or box.life != take.life
        box.is_present, box.life, box.received = True, take.life, take.received
        if is_new or take.again:
            box.sent = take.received
        gone = None
        while box.waiting and box.waiting[0].number <= take.done:
            gone = box.remove_first().number
        return None if gone is None else ForgetMail(client, gone)

    def leave(self, client: str) -> None:
        """A client has gone: nothing is sent to it until it comes back."""
        box = self._box(client)
        box.is_present = False
        if not (box.waiting or box.dropped):
            self.forget(client)

    def forget(self, client: str) -> None:
        """A client has left for good: nothing waits for it any longer."""
        self._boxes.pop(client, None)

    def push(self) -> None:
        """Send waiting mail to all clients that have room for it."""
        for client, box in self._boxes.items():
            while box.is_present and box.sent < box.last:
                room = _UNDER_WAY - (box.sent - box.received)
                batches = self._store.mail_after(client, box.sent, room, _FRAME) if room > 0 else []
                if not batches:
                    break
                frame = MailFrame(batches, box.sent, box.dropped)
                box.sent = batches[-1].number
                self._send(client, encode_frame(frame))

    def _box(self, client: str) -> _Box:
        return self._boxes.setdefault(client, _Box())
