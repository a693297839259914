"""CN* at one node of the network: payloads that are sent over each link once (joins §5, algorithm 1 in §G, §H).

    a broker calls                                 and does what the node answers
    publish(event, payloads)                       an event of a client here
    incoming(link, carried)                        acknowledge what came, on the same link
    outgoing(carried, links, to_clients, token)    forward on links, whole or without payloads; deliver; ask
    understood(link, ids)                          a neighbour's acknowledgement
    asked(question), answered(answer)              payloads asked for and given, here or beyond this node
    link_up, link_down, tick

The node decides nothing about routing: the broker matches the body of an event and says where it goes; this node says
in which shape. It is a pure state machine, and all its state is soft: directory and repository may be lost at any time
(`forget`), or be small. At worst, a payload is then sent or asked for again.

A plain node, one without CN*, passes `CarriedEvent`s on as they came, and ignores `PayloadsUnderstood`. As it never
acknowledges anything, what it gets is always whole. Brokers of both kinds route `AskPayload` and `PayloadAnswer` to the
broker that they name, by what they know of who is behind which link. In the paper the asker contacts the source itself.
Here questions go through the tree, so a node on the way that has the payload answers, one that has passed on the same
question waits for the answer (`questions`), and all on the way keep what they pass on. Thus a payload crosses a link at
most once for an event, as without CN*, however small the repositories are.

Why everybody gets everything: a payload is left out on a link only after the neighbour has acknowledged it there in the
same session, so the neighbour has a node like this. That node asks the source, then the publisher, for payloads that it
lacks. The publisher holds a payload until the event is accounted for everywhere (`publish`, `published`).

Where filters test an attribute that some publisher calls payload, the broker has to match the whole event: `content_of`
fills in the payloads that are here, and `outgoing` to clients asks for the others. Publishers should call payload only
attributes that nobody tests.

joins §G leaves open what happens to later events while a payload is asked for. Here they wait behind the event that
needs it, link by link, so that a link stays a FIFO.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.network.payload.carried import CarriedEvent, PayloadId, carry_event, payload_id
from penstock.network.payload.directory import PayloadDirectory
from penstock.network.payload.exchange import (
    AskPayload,
    DeliverEvent,
    ForwardEvent,
    PayloadAnswer,
    PayloadMissed,
    PayloadOutput,
    PayloadsUnderstood,
)
from penstock.network.payload.questions import Questions
from penstock.network.payload.repository import PayloadRepository
from penstock.network.payload.waiting import Asking, Destination, WaitingEvent, WaitingEvents

_TRIES = 3  # how often the publisher is asked


@dataclass(frozen=True, slots=True)
class PayloadLimits:
    """How much a node remembers, and how long it waits for an answer."""

    directory_bytes: int = 512 * 1024
    repository_bytes: int = 64 * 1024 * 1024
    patience: float = 2.0


@dataclass(slots=True)
class PayloadCounts:
    """Counts of payloads on links, for a status page."""

    whole: int = 0
    left_out: int = 0
    asked: int = 0
    missed: int = 0


@dataclass(slots=True)
class _Use:
    """Where a payload came from, and whether clients here wanted it."""

    origin: str | None = None
    is_wanted: bool = False


class PayloadNode:
    """See the module.

    >>> first, second = PayloadNode("first"), PayloadNode("second")
    >>> first.link_up("east"), second.link_up("west")
    (None, None)
    >>> event = first.publish({"symbol": "GOOG", "logo": "…"}, [["logo"]])
    >>> (sent,) = first.outgoing(event, ["east"], False, "e1", now=0.0)
    >>> sent.event.is_whole
    True
    >>> arrived, (acknowledgement,) = second.incoming("west", sent.event, now=0.0)
    >>> first.understood("east", acknowledgement.ids)
    >>> (again,) = first.outgoing(event, ["east"], False, "e2", now=1.0)
    >>> again.event.is_whole, again.event.headers[0].source
    (False, 'first')
    >>> arrived, _ = second.incoming("west", again.event, now=1.0)
    >>> (delivered,) = second.outgoing(arrived, [], True, "e2", now=1.0)
    >>> delivered.event.whole_event()
    {'symbol': 'GOOG', 'logo': '…'}
    """

    def __init__(self, name: str, limits: PayloadLimits | None = None) -> None:
        limits = limits or PayloadLimits()
        self.name = name
        self.counts = PayloadCounts()
        self.directory = PayloadDirectory(limits.directory_bytes)
        self.repository = PayloadRepository(limits.repository_bytes, self._is_spread)
        self._links: set[str] = set()
        self._uses: dict[PayloadId, _Use] = {}
        self._waiting = WaitingEvents()
        self._asking = Asking(limits.patience)
        self._questions = Questions(limits.patience)

    def __len__(self) -> int:
        """How many events wait for a payload, once for each destination."""
        return len(self._waiting)

    # --- links ---------------------------------------------------------------------------------

    def link_up(self, link: str) -> None:
        """A session with a neighbour begins: it is taken for a plain one until it acknowledges something."""
        self._links.add(link)
        self.directory.forget_link(link)

    def link_down(self, link: str) -> None:
        """A session has ended. Events that waited for it are gone, just as events that were sent on it may be."""
        self._links.discard(link)
        self.directory.forget_link(link)
        self._waiting.forget(link)

    def forget(self) -> None:
        """Lose all soft state, as a crash does. The broker must send waiting events again."""
        self.directory.clear()
        self.repository.clear()
        self._uses.clear()
        self._waiting.clear()
        self._asking.clear()
        self._questions.clear()

    # --- events --------------------------------------------------------------------------------

    def publish(self, event: Mapping[str, Any], payloads: Sequence[Sequence[str]]) -> CarriedEvent:
        """An event of a client here; its payloads are held until it is `published`.

        The broker calls this again for the events of its outbox when it starts.
        """
        carried = carry_event(event, payloads, self.name)
        self.hold(carried)
        return carried

    def hold(self, carried: CarriedEvent) -> None:
        """Keep the payloads of an event that begins its way here, until it is `published`."""
        for id_, content in carried.contents.items():
            self.repository.hold(id_, content)

    def published(self, carried: CarriedEvent) -> None:
        """An event is accounted for everywhere: nobody asks for its payloads any longer."""
        for id_ in carried.contents:
            self.repository.release(id_)

    def incoming(
        self, link: str, carried: CarriedEvent, now: float
    ) -> tuple[CarriedEvent, list[PayloadOutput]]:
        """Take an event from a neighbour: keep its payloads, acknowledge them, and let go what waited for them.

        A payload that there is no room for isn't acknowledged: it comes whole again, which costs less than to ask.

        Returns the event to match and to hand to `outgoing`: without contents that aren't what their id says.
        """
        contents = {h.id: c for h in carried.headers if (c := _valid(h.id, carried)) is not None}
        if len(contents) < len(carried.contents):
            carried = carried.with_contents(contents, {})
        if not contents:
            return carried, []
        for id_, content in contents.items():
            self._use(id_).origin = link
            self.repository.put(id_, content)
            self._asking.end(id_)
        self._waiting.fill(contents)
        found = self._release(now)
        kept = tuple(id_ for id_ in contents if self.repository.has(id_))
        return carried, [PayloadsUnderstood(link, kept), *found] if kept else found

    def content_of(self, carried: CarriedEvent) -> CarriedEvent:
        """The event with all payloads that are here."""
        return carried.with_contents(self._contents(carried), {})

    def outgoing(
        self, carried: CarriedEvent, links: Iterable[str], to_clients: bool, token: Any, now: float
    ) -> list[PayloadOutput]:
        """Send an event on links, and to clients here if they are to get it, each in a shape that suits it.

        An event that lacks a payload goes as soon as the payload has come, with the same token.
        """
        contents: dict[PayloadId, bytes] | None = None
        found: list[PayloadOutput] = []
        destinations: list[Destination] = [*links]
        if to_clients:
            destinations.append(None)
            for header in carried.headers:
                self._use(header.id).is_wanted = True
        for destination in destinations:
            if contents is None:
                contents = self._contents(carried)
            waiting = WaitingEvent(destination, carried, token, contents)
            if not self._waiting.has(destination):
                sent = self._sent(waiting)
                if sent is not None:
                    found.append(sent)
                    continue
            waiting.contents = dict(contents)
            self._waiting.put(waiting)
            found += self._ask_for(waiting, now)
        return found

    # --- payloads ------------------------------------------------------------------------------

    def understood(self, link: str, ids: Iterable[PayloadId]) -> None:
        """A neighbour acknowledges payloads. This counts only while the session lasts."""
        if link in self._links:
            for id_ in ids:
                self.directory.mark(id_, link)
                self.repository.settle(id_)

    def asked(self, question: AskPayload, now: float) -> list[PayloadOutput]:
        """A node asks this one for a payload, or another one: the question goes on if there is no content here."""
        content = self.repository.get(question.id)
        if content is not None or question.to == self.name:
            return [PayloadAnswer(question.asker, self.name, question.id, content)]
        goes_on = self._questions.goes_on(question.asker, question.to, question.id, now)
        return [question] if goes_on else []

    def answered(self, answer: PayloadAnswer, now: float) -> list[PayloadOutput]:
        """A node answers this one, or another one beyond it, and with it all who wait here for the same.

        If this one lacks the payload and isn't given it, the next node is asked, unless it was asked already.
        """
        id_, content = answer.id, answer.content
        if content is not None and payload_id(content) != id_:
            answer, content = PayloadAnswer(answer.to, answer.giver, id_, None), None
        denied_by = answer.giver if content is None else None
        others = self._questions.answered(answer.to, id_, denied_by)
        found: list[PayloadOutput] = [
            PayloadAnswer(who, answer.giver, id_, content)
            for who in (answer.to, *others)
            if who != self.name
        ]
        if content is not None:
            self._asking.end(id_)
            self.repository.put(id_, content)
            self._waiting.fill({id_: content})
            found += self._release(now)
        elif id_ in self._asking and self._asking.asked_now(id_) == denied_by:
            found += self._ask_next(id_, now, has_denied=True)
        return found

    def tick(self, now: float) -> list[PayloadOutput]:
        """Time has passed: stop waiting for nodes that haven't answered in time."""
        found: list[PayloadOutput] = []
        for id_ in self._asking.overdue(now):
            found += self._ask_next(id_, now, has_denied=False)
        return found

    def next_tick(self) -> float | None:
        """When `tick` is wanted next."""
        return self._asking.next_tick()

    # --- inside --------------------------------------------------------------------------------

    def _contents(self, carried: CarriedEvent) -> dict[PayloadId, bytes]:
        """The payloads of an event that came with it, or are here."""
        found = dict(carried.contents)
        for header in carried.headers:
            if header.id not in found:
                content = self.repository.get(header.id)
                if content is not None:
                    found[header.id] = content
        return found

    def _lacking(self, waiting: WaitingEvent) -> set[PayloadId]:
        """The payloads that an event needs for its destination, and lacks."""
        ids = {header.id for header in waiting.event.headers} - waiting.contents.keys()
        link = waiting.destination
        return ids if link is None else {id_ for id_ in ids if not self.directory.has(id_, link)}

    def _sent(self, waiting: WaitingEvent) -> PayloadOutput | None:
        """An event as it goes to its destination; None if it can't yet."""
        if self._lacking(waiting):
            return None
        event, contents, link = waiting.event, waiting.contents, waiting.destination
        if link is None:
            return DeliverEvent(event.with_contents(contents, {}), waiting.token)
        kept = {id_: c for id_, c in contents.items() if not self.directory.has(id_, link)}
        here = {h.id: self.name for h in event.headers if self.repository.get(h.id) is not None}
        self.counts.whole += len(kept)
        self.counts.left_out += len(event.headers) - len(kept)
        return ForwardEvent(link, event.with_contents(kept, here), waiting.token)

    def _release(self, now: float) -> list[PayloadOutput]:
        """Let go the waiting events that can go now, or that never can."""
        found: list[PayloadOutput] = []
        is_moving = True
        while is_moving:
            is_moving = False
            for waiting in self._waiting.first_of_each():
                sent = self._sent(waiting)
                if sent is None and waiting.is_missed:
                    sent = PayloadMissed(waiting.destination, waiting.event, waiting.token)
                    self.counts.missed += 1
                if sent is not None:
                    found.append(sent)
                    self._waiting.pop(waiting.destination)
                    is_moving = True
        for waiting in self._waiting.first_of_each():
            found += self._ask_for(
                waiting, now
            )  # a directory that was lost meanwhile makes them lack more
        return found

    def _ask_for(self, waiting: WaitingEvent, now: float) -> list[PayloadOutput]:
        """Ask for what an event lacks: its source, then its publisher, which may be slow."""
        found: list[PayloadOutput] = []
        lacking = self._lacking(waiting)
        for header in waiting.event.headers:
            if header.id not in lacking or header.id in self._asking:
                continue
            others = [header.source] if header.source != header.publisher else []
            others = [who for who in (*others, *[header.publisher] * _TRIES) if who != self.name]
            first = self._asking.begin(header.id, others, header.publisher, now)
            if first is None:
                self._waiting.miss(header.id, header.publisher)
                return [*found, *self._release(now)]
            found += self._ask(first, header.id, now)
        return found

    def _ask_next(self, id_: PayloadId, now: float, has_denied: bool) -> list[PayloadOutput]:
        publisher = self._asking.publisher(id_)
        other = self._asking.next(id_, now, has_denied)
        if other is None:
            self._waiting.miss(id_, publisher)
            return self._release(now)
        return self._ask(other, id_, now)

    def _ask(self, to: str, id_: PayloadId, now: float) -> list[PayloadOutput]:
        self.counts.asked += 1
        goes_on = self._questions.goes_on(self.name, to, id_, now)
        return [AskPayload(to, self.name, id_)] if goes_on else []

    def _use(self, id_: PayloadId) -> _Use:
        if len(self._uses) > 4 * (len(self.repository) + 1_024):
            kept = set(self.repository.ids())
            self._uses = {one: use for one, use in self._uses.items() if one in kept}
        return self._uses.setdefault(id_, _Use())

    def _is_spread(self, id_: PayloadId) -> bool:
        """Whether a payload was sent on all links but the one it came from, and no client here wants it."""
        use = self._uses.get(id_, _Use())
        others = self._links - {use.origin}
        return bool(others) and not use.is_wanted and self.directory.has_all(id_, others)


def _valid(id_: PayloadId, carried: CarriedEvent) -> bytes | None:
    """The content of a payload, if it is there and is what its id says."""
    content = carried.contents.get(id_)
    return content if content is not None and payload_id(content) == id_ else None
