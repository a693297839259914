"""Turns what clients ask into requests to their broker, and its answers and deliveries into replies and mail.

It has no thread, clock or disk. Clients have numbers of their own for their subscriptions and advertisements. At the
broker each of these has a number that is never used twice. A text that replaces another is subscribed first, and the
other is taken back when that is answered, so nothing is missed in between. A client that leaves for good is answered
when all that it had is taken back.

Publications that come together go into the broker as one, so that it matches them as one batch. If that is refused,
each is tried alone.
"""

from collections import OrderedDict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from penstock.base.arrays import Int64s, distinct
from penstock.network.batch_bytes import write_batch
from penstock.network.broker_steps import (
    Advertise,
    Answer,
    Deliver,
    Publish,
    Request,
    Subscribe,
    Unsubscribe,
    Withdraw,
)
from penstock.network.client_frames import (
    AdvertiseThat,
    Ask,
    LeaveForGood,
    MailBatch,
    PublishEvents,
    Reply,
    SubscribeTo,
    UnsubscribeFrom,
    WithdrawThat,
    read_events,
)
from penstock.network.host_store import (
    ADVERTISEMENT,
    SUBSCRIPTION,
    Change,
    ClientText,
    ForgetClient,
    ForgetMail,
    ForgetText,
    Mail,
)
from penstock.network.links.link import NetworkError

_REPLIES = 1_000  # replies to a client that are kept, in case that it hasn't got them
_REPEATS = 100_000  # events sent to a client whose ids are kept, to recognise repeats
_TOGETHER = 10_000  # events that go into the broker as one publication

Turn = Request | Reply | Change
"""What is to be done: a request for the broker, a reply for a client, a change of the store."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A client that waits for an answer of the broker, and what the answer is about."""

    client: str
    ask: Ask
    text: ClientText | None = None
    replaced: ClientText | None = None
    leaving: set[int] | None = None  # requests that aren't answered: one set for all of a client
    together: tuple["_Publication", ...] = ()


@dataclass(frozen=True, eq=False, slots=True)
class _Publication:
    client: str
    ask: Ask
    ids: bytes
    events: pa.RecordBatch


@dataclass(slots=True)
class _Client:
    """What is known of a client: what it waits for in this life, and what it was sent last."""

    life: bytes = b""
    pending: set[int] = field(default_factory=set)
    replies: OrderedDict[int, Reply] = field(default_factory=OrderedDict)
    mail: int = 0
    ids: set[bytes] = field(default_factory=set)
    recent: deque[tuple[int, list[bytes]]] = field(default_factory=deque)


class ClientDesk:
    """For one thread."""

    def __init__(
        self,
        schema: pa.Schema,
        texts: Sequence[ClientText],
        recent: Iterable[tuple[str, int, list[bytes]]],
    ) -> None:
        self._schema = schema
        self._clients: dict[str, _Client] = {}
        self._names: list[str] = []
        self._numbers: dict[str, int] = {}
        self._texts: dict[tuple[str, str, int], ClientText] = {}
        self._owner_of = np.full(64, -1, np.int64)
        self._own_of = np.zeros(64, np.int64)
        self._last = {SUBSCRIPTION: 0, ADVERTISEMENT: 0}
        self._requests = 0
        self._waiting: dict[int, _Waiting] = {}
        self._publications: list[_Publication] = []
        for text in texts:
            self._enter(text)
        for client, number, ids in recent:
            self._remember(self._client(client), number, ids)

    @property
    def texts(self) -> list[ClientText]:
        """What clients have subscribed and advertised. Of a text that is being replaced, only the new one."""
        return list(self._texts.values())

    @property
    def clients(self) -> list[str]:
        return list(self._clients)

    # --- what clients ask --------------------------------------------------------------------------

    def ask(self, client: str, ask: Ask) -> list[tuple[str, Turn]]:
        """Take an ask. Returns what is to be done, with the client that it is for. Publications wait for `publish`."""
        known = self._client(client)
        if known.life != ask.life:
            known.life = ask.life
            known.pending.clear()
            known.replies.clear()
        if ask.number in known.pending:
            return []
        if (reply := known.replies.get(ask.number)) is not None:
            return [(client, reply)]
        known.pending.add(ask.number)
        wish = ask.wish
        if isinstance(wish, PublishEvents):
            try:
                batch = read_events(wish.events, wish.ids, self._schema)
            except NetworkError as error:
                return [(client, self.reply(client, ask, str(error)))]
            self._publications.append(_Publication(client, ask, wish.ids, batch))
            return []
        if isinstance(wish, SubscribeTo | AdvertiseThat):
            return self._take_text(client, ask)
        if isinstance(wish, LeaveForGood):
            return self._take_everything_back(client, ask)
        assert isinstance(wish, UnsubscribeFrom | WithdrawThat), "the host answers the others"
        return self._take_back(client, ask)

    def publish(self) -> list[tuple[str, Turn]]:
        """The publications that have come since the last call, as few requests as possible."""
        found: list[tuple[str, Turn]] = []
        group: list[_Publication] = []
        for one in self._publications:
            if group and sum(p.events.num_rows for p in group) + one.events.num_rows > _TOGETHER:
                found.append(self._publication(group))
                group = []
            group.append(one)
        if group:
            found.append(self._publication(group))
        self._publications = []
        return found

    def _publication(self, group: list[_Publication]) -> tuple[str, Turn]:
        first = group[0]
        request = self._expect(_Waiting(first.client, first.ask, together=tuple(group)))
        if len(group) == 1:
            return first.client, Publish(request, first.ids, first.events)
        batch = pa.Table.from_batches([one.events for one in group]).combine_chunks().to_batches()
        return first.client, Publish(request, b"".join(one.ids for one in group), batch[0])

    def _take_text(self, client: str, ask: Ask) -> list[tuple[str, Turn]]:
        wish = ask.wish
        if isinstance(wish, SubscribeTo):
            kind, own = SUBSCRIPTION, wish.subscription
        else:
            assert isinstance(wish, AdvertiseThat)
            kind, own = ADVERTISEMENT, wish.advertisement
        before = self._texts.get((kind, client, own))
        if before is not None and before.text == wish.text:
            request = self._expect(_Waiting(client, ask))
            return [(client, _told(request, before))]
        text = ClientText(self._last[kind] + 1, kind, client, own, wish.text)
        self._enter(text)
        request = self._expect(_Waiting(client, ask, text, before))
        return [(client, text), (client, _told(request, text))]

    def _take_back(self, client: str, ask: Ask) -> list[tuple[str, Turn]]:
        wish = ask.wish
        if isinstance(wish, UnsubscribeFrom):
            key = (SUBSCRIPTION, client, wish.subscription)
        else:
            assert isinstance(wish, WithdrawThat)
            key = (ADVERTISEMENT, client, wish.advertisement)
        text = self._texts.get(key)
        if text is None:  # it is gone already: a repeat of an earlier life, perhaps
            return [(client, self.reply(client, ask))]
        self._leave(text)
        request = self._expect(_Waiting(client, ask))
        return [(client, ForgetText(text.kind, text.number)), (client, _untold(request, text))]

    def _take_everything_back(self, client: str, ask: Ask) -> list[tuple[str, Turn]]:
        texts = [text for text in self._texts.values() if text.client == client]
        leaving: set[int] = set()
        found: list[tuple[str, Turn]] = []
        for text in texts:
            self._leave(text)
            request = self._expect(_Waiting(client, ask, leaving=leaving))
            leaving.add(request)
            found += [
                (client, ForgetText(text.kind, text.number)),
                (client, _untold(request, text)),
            ]
        known = self._client(client)
        found.append((client, ForgetClient(client, known.mail)))
        known.ids.clear()
        known.recent.clear()
        if not texts:
            found.append((client, self.reply(client, ask)))
        return found

    # --- what the broker answers -------------------------------------------------------------------

    def answer(self, answer: Answer) -> list[tuple[str, Turn]]:
        """What follows from an answer of the broker."""
        waiting = self._waiting.pop(answer.request, None)
        if waiting is None:
            return []
        if len(waiting.together) > 1:
            if answer.error is not None:
                return [self._publication([one]) for one in waiting.together]
            return [(one.client, self.reply(one.client, one.ask)) for one in waiting.together]
        if waiting.leaving is not None:
            waiting.leaving.discard(answer.request)
            if waiting.leaving:
                return []
        client, text, before = waiting.client, waiting.text, waiting.replaced
        found: list[tuple[str, Turn]] = []
        if text is not None and answer.error is not None:
            self._leave(text)
            found.append((client, ForgetText(text.kind, text.number)))
            if before is not None:
                self._enter(before)
        elif before is not None:
            self._forget_number(before)
            found.append((client, ForgetText(before.kind, before.number)))
            self._requests += 1
            found.append((client, _untold(self._requests, before)))
        return [*found, (client, self.reply(client, waiting.ask, answer.error))]

    def reply(self, client: str, ask: Ask, error: str | None = None, value: bytes = b"") -> Reply:
        """The reply to an ask. It is kept, in case the ask is repeated."""
        known, reply = self._client(client), Reply(ask.life, ask.number, error, value)
        if known.life == ask.life:
            known.pending.discard(ask.number)
            if not value:
                known.replies[ask.number] = reply
            while len(known.replies) > _REPLIES:
                known.replies.popitem(last=False)
        return reply

    def deliver(self, deliver: Deliver) -> list[Change]:
        """Mail for each client that some of the events are for, without events that it was sent before."""
        found: list[Change] = []
        owners = self._owner_of[deliver.subscriptions]
        for owner in distinct(owners[owners >= 0]).tolist():
            mine = owners == owner
            rows, subscriptions = deliver.rows[mine], deliver.subscriptions[mine]
            name = self._names[owner]
            client = self._client(name)
            fresh: dict[bytes, int] = {}  # messages that come together may have an event twice
            for row in distinct(rows).tolist():
                if (id_ := deliver.id(row)) not in client.ids:
                    fresh.setdefault(id_, row)
            if not fresh:
                continue
            ids, kept = [*fresh], np.array([*fresh.values()], np.int64)
            there = np.isin(rows, kept)
            client.mail += 1
            batch = MailBatch(
                client.mail,
                b"".join(ids),
                write_batch(deliver.events.take(pa.array(kept))),
                np.searchsorted(kept, rows[there]).astype(np.int64).tobytes(),
                self._own_of[subscriptions[there]].tobytes(),
            )
            found.append(Mail(name, batch))
            if (gone := self._remember(client, client.mail, ids)) is not None:
                found.append(ForgetMail(name, gone, recent=True))
        return found

    # --- what it keeps -----------------------------------------------------------------------------

    def _client(self, name: str) -> _Client:
        if name not in self._clients:
            self._numbers[name] = len(self._names)
            self._names.append(name)
            self._clients[name] = _Client()
        return self._clients[name]

    def _expect(self, waiting: _Waiting) -> int:
        self._requests += 1
        self._waiting[self._requests] = waiting
        return self._requests

    def _enter(self, text: ClientText) -> None:
        self._client(text.client)
        self._texts[text.kind, text.client, text.own] = text
        self._last[text.kind] = max(self._last[text.kind], text.number)
        if text.kind == SUBSCRIPTION:
            self._owner_of = _grown(self._owner_of, text.number, -1)
            self._own_of = _grown(self._own_of, text.number, 0)
            self._owner_of[text.number] = self._numbers[text.client]
            self._own_of[text.number] = text.own

    def _leave(self, text: ClientText) -> None:
        self._texts.pop((text.kind, text.client, text.own), None)
        self._forget_number(text)

    def _forget_number(self, text: ClientText) -> None:
        if text.kind == SUBSCRIPTION:
            self._owner_of[text.number] = -1

    def _remember(self, client: _Client, number: int, ids: list[bytes]) -> int | None:
        """Note what a client is sent. Returns up to which mail repeats are no longer recognised, if that changes."""
        client.mail = max(client.mail, number)
        client.ids.update(ids)
        client.recent.append((number, ids))
        gone = None
        if len(client.ids) > 2 * _REPEATS:
            while len(client.ids) > _REPEATS and len(client.recent) > 1:
                gone, old = client.recent.popleft()
                client.ids.difference_update(old)
        return gone


def _told(request: int, text: ClientText) -> Request:
    if text.kind == SUBSCRIPTION:
        return Subscribe(request, text.number, text.text)
    return Advertise(request, text.number, text.text)


def _untold(request: int, text: ClientText) -> Request:
    if text.kind == SUBSCRIPTION:
        return Unsubscribe(request, text.number)
    return Withdraw(request, text.number)


def _grown(array: Int64s, index: int, fill: int) -> Int64s:
    if index < len(array):
        return array
    return np.concatenate([array, np.full(index + 1, fill, np.int64)])
