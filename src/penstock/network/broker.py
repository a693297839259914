"""A broker: message and time in, messages out. No clock, thread, socket or chance inside (docs/NETWORK.md).

    frame ─▶ session ─▶ Told, Reach, Summary ─▶ tables, reach ─▶ Told, Reach to the others ─▶ Settled
                     └▶ Events, Done ─────────▶ event passing ─▶ Deliver, Events to the others ─▶ Done
                                                (events that come together are passed on together)
    request ─▶ tables, outbox ─▶ … ─▶ Answer
    tick ────▶ sessions, overlay, what is forgotten

Within a step the order of messages to a neighbour matters, and holds because a session is a FIFO. A neighbour is told
that brokers are lost before their subscriptions are taken back, and that brokers are in reach after their subscriptions
were told. `Settled` and `Done` come after everything that they are about.
"""

import hashlib
import itertools
import math
from collections.abc import Iterable

from penstock.covering.regions import Region
from penstock.network.broker_settings import BrokerSettings, Place
from penstock.network.broker_steps import (
    Advertise,
    FrameFrom,
    FrameTo,
    Input,
    KeepKnown,
    NeighbourGone,
    Notice,
    Output,
    Publish,
    Start,
    Subscribe,
    Tick,
    Unsubscribe,
    WakeAt,
    Withdraw,
)
from penstock.network.client_requests import ClientRequests
from penstock.network.event_passing import EventPassing
from penstock.network.neighbour_session import Down, Got, Greeting, Happened, Session, Up
from penstock.network.open_link import LinkTraffic, OpenLink
from penstock.network.overlay import Overlay
from penstock.network.reach import KnownBrokers
from penstock.network.routing import RoutingTables
from penstock.network.settling import wait_for
from penstock.network.wire import (
    VERSION,
    Done,
    Events,
    PayloadAsked,
    PayloadEvents,
    PayloadGiven,
    PayloadsHad,
    Reach,
    Settled,
    Summary,
    Told,
    WireError,
    decode_message,
)


class Broker:
    """See the module. One caller at a time."""

    def __init__(self, settings: BrokerSettings) -> None:
        self.settings = settings
        self._now = 0.0
        self._out: list[Output] = []
        self._epochs = itertools.count(1)
        self._network = hashlib.sha256(f"{VERSION} {settings.schema}".encode()).hexdigest()[:16]
        self._sessions: dict[str, Session] = {}
        self._overlay = Overlay(settings.parents, settings.times)
        self._known = KnownBrokers(settings.name)
        self.tables = RoutingTables(settings, lambda: self._now)
        self.events = EventPassing(
            self.tables,
            self._known,
            settings,
            self._put,
        )
        self._joined = not settings.parents
        self._kept_known: tuple[frozenset[str], bool] = (frozenset(), self._joined)
        self._requests = ClientRequests(settings, self.tables, self.events, self._put)
        self._started = False
        self._parents = {parent.name for parent in settings.parents}
        self._due = 0.0  # before this time, nothing happens merely because time passes

    def step(self, given: Input, now: float) -> list[Output]:
        """Take one input. Returns what is to be done, in this order.

        `now` is in seconds since 1970, on a clock that never goes back. The first input is `Start`, given once. A frame
        or a request that can't be read never raises: it leads to a `Notice` or an `Answer`.
        """
        return self.step_all((given,), now)

    def step_all(self, given: Iterable[Input], now: float) -> list[Output]:
        """Take inputs that have come together. The effect is the same as one after the other, but costs less.

        Events of several messages are matched and passed on together, and frames are made once, at the end.
        """
        self._now = self.events.now = self._requests.now = now
        self._out = []
        for one in given:
            self._take(one)
        self.events.pass_gathered()
        self._tick()
        self._finish()
        return self._out

    def _take(self, given: Input) -> None:
        if not isinstance(given, FrameFrom):
            self.events.pass_gathered()
        match given:
            case FrameFrom(neighbour, frame):
                self._receive(neighbour, frame)
            case Tick():
                pass
            case Publish():
                self._requests.publish(given, is_joined=self._joined)
            case Subscribe():
                self._requests.subscribe(given)
            case Unsubscribe():
                self._requests.unsubscribe(given)
            case Advertise():
                self._requests.advertise(given)
            case Withdraw():
                self._requests.withdraw(given)
            case NeighbourGone(neighbour):
                if neighbour in self._sessions:
                    session = self._sessions[neighbour]
                    self._happen(neighbour, session, session.fail("the link says that it is gone"))
            case Start():
                self._start(given)

    def _put(self, output: Output) -> None:
        self._out.append(output)

    # --- looking in ---------------------------------------------------------------------------------

    @property
    def parent(self) -> str | None:
        """The neighbour that is the parent; None if there is none now."""
        name = self._overlay.parent
        return name if name in self.tables.links else None

    @property
    def in_reach(self) -> set[str]:
        """The other brokers that can be reached."""
        return set(self._known.in_reach)

    @property
    def lost(self) -> set[str]:
        """The brokers that are known and can't be reached."""
        return set(self._known.lost)

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits here: not for an answer, not for a lost broker, not in a session."""
        return not any(self.pending().values())

    def pending(self) -> dict[str, int]:
        """How much waits here, by what it waits for."""
        links = list(self._links())
        return {
            "unacknowledged": sum(link.session.unsent for link in links),
            "unsettled": sum(link.settling.outstanding for link in links),
            "unanswered": sum(len(link.flights) for link in links),
            "outbox": self.events.kept,
            "payloads": len(self.events.payloads),
            "requests": len(self._requests),
            "lost": len(self._known.lost),
        }

    def told(self) -> dict[tuple[str, str], list[Region]]:
        """What each neighbour has been told, by its name and the table's."""
        return {
            (link.name, table): regions
            for link in self._links()
            for table, regions in link.told_regions().items()
        }

    def traffic(self) -> dict[str, LinkTraffic]:
        """The traffic of each link, by neighbour."""
        return {link.name: link.traffic() for link in self._links()}

    def compact(self) -> None:
        """Compile all subscriptions anew, as the matcher does by itself after many changes."""
        self.tables.matcher.compact()

    def imperfections(self) -> dict[str, float]:
        """A bound on the share of each neighbour's events that come here for nobody."""
        return {link.name: link.told_subscriptions.imperfection() for link in self._links()}

    # --- starting -----------------------------------------------------------------------------------

    def _start(self, start: Start) -> None:
        self._started = True
        self._joined = self._joined or start.joined
        self._known.learn(start.known, self._now)
        self._kept_known = frozenset(start.known), start.joined
        self._requests.restore(start)
        self.events.restore(start.kept, self._joined)

    # --- frames ---------------------------------------------------------------------------------------

    def _receive(self, neighbour: str, frame: bytes) -> None:
        children = self.settings.children
        if neighbour not in self._parents and (
            neighbour == self.settings.name or (children is not None and neighbour not in children)
        ):
            self._put(Notice("refused", neighbour, "not a neighbour of this broker"))
            return
        session = self._session(neighbour)
        try:
            self._happen(neighbour, session, session.receive(frame, self._now))
        except WireError as error:
            self._put(Notice("refused", neighbour, str(error)))
            self._happen(neighbour, session, session.fail(str(error)))

    def _session(self, neighbour: str) -> Session:
        if neighbour not in self._sessions:
            place = self.settings.place
            greeting = Greeting(
                place.rank,
                self._network,
                lambda rank: Place(rank, neighbour) > place,
                lambda: (self.settings.incarnation, next(self._epochs)),
            )
            self._sessions[neighbour] = Session(greeting, self.settings.times, self.settings.bounds)
        return self._sessions[neighbour]

    def _happen(self, neighbour: str, session: Session, happened: Iterable[Happened]) -> None:
        for one in happened:
            if isinstance(one, Got):
                self._message(self.tables.links[neighbour], one.number, one.message)
                continue
            self.events.pass_gathered()
            match one:
                case Up():
                    self._up(neighbour, session)
                case Down(reason):
                    self._down(neighbour, reason)

    def _message(self, link: OpenLink, number: int, data: bytes) -> None:
        message = decode_message(data)
        if isinstance(message, Events):
            self.events.receive(link, number, message)
            return
        if isinstance(message, Done):
            self.events.done(link, message)
            return
        # Events are matched with the tables of the moment when they came.
        self.events.pass_gathered()
        match message:
            case PayloadEvents() | PayloadsHad() | PayloadAsked() | PayloadGiven():
                self.events.payloads.receive(link, number, message)
            case Settled(upto):
                if upto > link.settling.told:
                    raise WireError(f"message {upto} is settled that was never told")
                link.settling.settle(upto)
                self._reach_link(link)
            case Told() | Reach() | Summary():
                if isinstance(message, Told):
                    self.tables.told(link, message)
                elif isinstance(message, Reach):
                    self._reach(link, message)
                else:
                    link.goal = link.settling.told
                    self._reach_link(link)
                self._settle(link, number)

    def _settle(self, link: OpenLink, number: int) -> None:
        """Answer for a message when everything that the other neighbours were told so far is settled."""

        def settled() -> None:
            link.settle_due = max(link.settle_due, number)

        wait_for((other for other in self._links() if other is not link), settled)

    # --- neighbours come and go -------------------------------------------------------------------------

    def _links(self) -> Iterable[OpenLink]:
        return self.tables.links.values()

    def _up(self, neighbour: str, session: Session) -> None:
        self._put(Notice("up", neighbour, "a session has begun"))
        if neighbour == self._overlay.parent:
            self._overlay.connected()
            self._put(Notice("parent", neighbour, "is the parent"))
        link = self.tables.open(neighbour, session)
        self.events.payloads.link_up(link)
        # Names come first: by the time a neighbour is told of a subscription, it knows the broker.
        self._tell_reach()
        self.tables.tell_all(link)
        link.tell(Summary())

    def _down(self, neighbour: str, reason: str) -> None:
        self._put(Notice("down", neighbour, reason))
        link = self.tables.links[neighbour]
        link.is_reached = False
        self._change_reach()
        link.is_up = False
        self._tell_reach()
        self.tables.close(link)
        link.settling.give_up()
        self.events.fail(link)

    def _reach(self, link: OpenLink, message: Reach) -> None:
        link.names = (link.names - set(message.gone)) | set(message.come)
        self._known.learn(message.come, self._now)
        self._known.learn_lost(message.lost, self._now, self.settings.times.forget)
        self._change_reach()
        self._tell_reach()

    def _reach_link(self, link: OpenLink) -> None:
        """The brokers behind a link are in reach once it has settled what it was told in the summary."""
        if link.is_reached or link.goal is None or link.settling.settled < link.goal:
            return
        link.is_reached = True
        if link.name == self._overlay.parent:
            self._joined = True
        self._change_reach()
        self._tell_reach()

    def _change_reach(self) -> None:
        names = set[str]().union(*(link.names for link in self._links() if link.is_reached))
        found, gone = self._known.reached(names, self._now)
        for name in sorted(found):
            self._put(Notice("found", name, "is in reach"))
        for name in sorted(gone):
            self._put(Notice("lost", name, "is out of reach: its events are kept"))

    def _tell_reach(self) -> None:
        lost = self._known.lost
        for link in self._links():
            if not link.is_up:
                continue
            come = {self.settings.name}.union(
                *(other.names for other in self._links() if other.is_reached and other is not link)
            )
            come.discard(link.name)
            message = link.told_reach.changes(come, lost, self._now)
            if message is not None:
                link.tell(message)

    # --- time -------------------------------------------------------------------------------------------

    def _tick(self) -> None:
        if self._now >= self._due:
            for neighbour, session in list(self._sessions.items()):
                self._happen(neighbour, session, session.tick(self._now))
            self._forget(self.settings.times.forget)
            self.events.payloads.tick()
        self._try_parents()

    def _forget(self, after: float) -> None:
        forgotten = self._known.forget_old(self._now, after)
        for name in forgotten:
            text = f"lost for more than {after:g} s: nothing is kept for it"
            self._put(Notice("forgotten", name, text))
        self.events.forget(forgotten)

    def _try_parents(self) -> None:
        overlay, now = self._overlay, self._now
        if overlay.parent is None or not self._started:
            return
        session = self._session(overlay.parent)
        if not overlay.is_paused and (session.is_closed or overlay.is_too_late(now)):
            session.close()
            overlay.fail(now)
        if overlay.is_due(now):
            overlay.begin(now)
            self._session(overlay.parent).connect(now)

    # --- the end of a step ------------------------------------------------------------------------------

    def _finish(self) -> None:
        if self._joined:
            self.events.release(self._requests.unsettled)
        self.events.send_again()
        self._requests.finish(is_whole=self._joined and not self._known.lost)
        for link in self._links():
            # Before it has joined, a broker can't answer to its children for the rest of the network. To its parent
            # it can, and must: two children that join at once would otherwise wait for each other.
            is_sure = self._joined or link.name == self._overlay.parent
            if is_sure and link.settle_due > link.settle_sent:
                link.settle_sent = link.settle_due
                link.send(Settled(link.settle_due))
        kept_known = frozenset(self._known.known), self._joined
        if kept_known != self._kept_known:
            self._kept_known = kept_known
            self._put(KeepKnown(tuple(sorted(self._known.known)), self._joined))
        for neighbour, session in list(self._sessions.items()):
            for frame in session.flush(self._now):
                self._put(FrameTo(neighbour, frame))
            if session.is_closed and neighbour != self._overlay.parent:
                del self._sessions[neighbour]
        self._wake()

    def _wake(self) -> None:
        times = [session.next_time() for session in self._sessions.values()]
        times += (self._overlay.next_time(), self.events.payloads.next_time())
        times += [since + self.settings.times.forget for since in self._known.lost.values()]
        self._due = min((time for time in times if time is not None), default=math.inf)
        if self._due < math.inf:
            self._put(WakeAt(max(self._due, self._now)))
