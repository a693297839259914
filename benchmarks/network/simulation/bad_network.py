"""Brokers over bad links, from a seed: delay, loss, doubling, reordering, crashes, cuts, clocks that differ.

It runs the very brokers, in one thread, each event of the simulation at its time; the same seed gives the same run.
Each broker has a host here that keeps what a real one keeps on disk: subscriptions, advertisements, outbox, known
brokers, and what was delivered. A crash takes the broker and leaves the disk; some happen within a step, when what is
durable has been written and nothing has been sent. A host that is busy takes several frames in one step.
"""

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from benchmarks.network.simulation.scenario import SCHEMA, Action, Filter, Scenario
from penstock.network.broker import Broker
from penstock.network.broker_settings import BrokerSettings
from penstock.network.broker_steps import (
    Advertise,
    Answer,
    Deliver,
    DropEvents,
    FrameFrom,
    FrameTo,
    Input,
    KeepEvents,
    KeepKnown,
    Kept,
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

_ARROW = SCHEMA.to_arrow()
_MOST_STEPS = 10_000
_PATIENCE = 60.0  # seconds without progress, after which there will be no rest
_BUSY = 0.3  # how often a host isn't free when a frame comes


@dataclass
class Subscription:
    """A client's subscription: when it came, was acknowledged and went. Times are the simulation's."""

    broker: str
    filter: Filter
    came: float
    acknowledged: float | None = None
    went: float | None = None
    got: set[bytes] = field(default_factory=set)

    def went_before(self, time: float) -> bool:
        """Whether it had gone before a step. In the step in which it goes, frames that waited come first."""
        return self.went is not None and self.went < time


@dataclass
class PublishedEvent:
    event: dict[str, Any]
    broker: str
    time: float


@dataclass
class _Host:
    """What a real host keeps, and the broker while it runs."""

    settings: BrokerSettings
    rate: float
    offset: float
    broker: Broker | None = None
    incarnation: int = 0
    wake: int = 0  # which wake-up counts
    waiting: list[Input] = field(default_factory=list)  # frames, while it is busy
    subscriptions: dict[int, str] = field(default_factory=dict)
    advertisements: dict[int, str] = field(default_factory=dict)
    outbox: dict[int, Kept] = field(default_factory=dict)
    known: tuple[str, ...] = ()
    joined: bool = False
    open: dict[int, Input] = field(default_factory=dict)  # requests without an answer

    def clock(self, time: float) -> float:
        return self.offset + self.rate * time


class BadNetwork:
    """See the module."""

    def __init__(
        self,
        scenario: Scenario,
        broker: Callable[[BrokerSettings], Broker] = Broker,
        trace: bool = False,
    ) -> None:
        self.scenario = scenario
        self.trace: list[str] | None = [] if trace else None
        self.time = 0.0
        self.steps = 0
        self.subscriptions: dict[int, Subscription] = {}
        self.events: dict[bytes, PublishedEvent] = {}
        self.strays: list[str] = []  # what should not have happened
        self._make = broker
        self._dice = random.Random(scenario.seed ^ 0x5EED)
        self._busy = random.Random(scenario.seed ^ 0xB5)
        self.hosts = {one.name: _Host(one, *scenario.clocks[one.name]) for one in scenario.settings}
        self._cuts: set[frozenset[str]] = set()
        self._calm = False
        self._order = 0
        self._requests = 0
        self._agenda: list[tuple[float, int, Callable[[], None]]] = []
        for name, start in scenario.starts.items():
            self._at(start, lambda name=name: self._come(self.hosts[name]))  # type: ignore[misc]
        for action in scenario.actions:
            self._at(action.time, lambda action=action: self._act(action))  # type: ignore[misc]

    # --- running ----------------------------------------------------------------------------------

    def run(self) -> bool:
        """Everything that the scenario has, then calm until all is at rest; whether it came to rest."""
        self._run_until(self.scenario.end)
        self._calm = True
        self._cuts.clear()
        for host in self.hosts.values():
            if host.broker is None:
                self._start(host)
        least, ends = self._left(), self.time + _PATIENCE
        while self.time < ends:
            self._run_until(self.time + 1.0)
            if self.is_at_rest():
                return True
            if (left := self._left()) < least:
                least, ends = left, self.time + _PATIENCE
        return False

    def _left(self) -> int:
        """How much is still to be done."""
        return sum(
            len(host.outbox) + len(host.open) + sum(host.broker.pending().values())
            for host in self.hosts.values()
            if host.broker is not None
        )

    def is_at_rest(self) -> bool:
        """Whether nothing is on its way, waits, or is lost, and neighbours agree that they are neighbours."""
        names = self.hosts.keys()
        links = {
            (name, other)
            for name, host in self.hosts.items()
            for other in (host.broker.traffic() if host.broker else ())
        }
        if any((other, name) not in links for name, other in links):
            return False
        return all(
            host.broker is not None
            and not host.outbox
            and not host.open
            and host.broker.is_idle
            and host.broker.in_reach == names - {name}
            for name, host in self.hosts.items()
        )

    def _run_until(self, end: float) -> None:
        while self._agenda and self._agenda[0][0] <= end:
            self.time, _, act = heapq.heappop(self._agenda)
            act()
            if self.steps > _MOST_STEPS:
                raise AssertionError(f"no rest after {self.steps:,} steps")
        self.time = max(self.time, end)

    def _at(self, time: float, act: Callable[[], None]) -> None:
        self._order += 1
        heapq.heappush(self._agenda, (time, self._order, act))

    # --- what happens -----------------------------------------------------------------------------

    def _come(self, host: _Host) -> None:
        """A broker's first start, unless the end of the scenario came before."""
        if not host.incarnation:
            self._start(host)

    def _start(self, host: _Host) -> None:
        host.incarnation += 1
        host.broker = self._make(replace(host.settings, incarnation=host.incarnation))
        start = Start(
            tuple(host.subscriptions.items()),
            tuple(host.advertisements.items()),
            tuple(host.outbox.values()),
            host.known,
            host.joined,
        )
        self._step(host, start)
        for request in list(host.open.values()):
            self._step(host, request)

    def _restart(self, host: _Host) -> None:
        if host.broker is None:
            self._start(host)

    def _act(self, action: Action) -> None:
        host = self.hosts[action.broker]
        if action.kind == "restart":
            if host.incarnation:
                self._restart(host)
        elif action.kind == "cut":
            self._cuts.add(frozenset((action.broker, action.other)))
        elif action.kind == "heal":
            self._cuts.discard(frozenset((action.broker, action.other)))
        elif host.broker is not None:
            if action.kind == "crash":
                self._note(host, "crash")
                host.broker = None
                host.waiting.clear()
            else:
                self._request(host, action)

    def _request(self, host: _Host, action: Action) -> None:
        self._requests += 1
        request, number = self._requests, action.number
        text = action.filter.text if action.filter else ""
        given: Input
        match action.kind:
            case "subscribe":
                assert action.filter is not None
                host.subscriptions[number] = text
                self.subscriptions[number] = Subscription(action.broker, action.filter, self.time)
                given = Subscribe(request, number, text)
            case "unsubscribe":
                if number not in host.subscriptions:
                    return
                del host.subscriptions[number]
                self.subscriptions[number].went = self.time
                given = Unsubscribe(request, number)
                self._drop_open(host, number)
            case "advertise":
                host.advertisements[number] = text
                given = Advertise(request, number, text)
            case "withdraw":
                given = Withdraw(request, number)
                self._drop_open(host, number)
            case _:
                given = self._publication(host, action, request)
        host.open[request] = given
        self._step(host, given)

    def _drop_open(self, host: _Host, number: int) -> None:
        """What is taken back isn't asked for again after a crash."""
        for request, given in list(host.open.items()):
            asked = given.subscription if isinstance(given, Subscribe) else None
            if number in (asked, given.advertisement if isinstance(given, Advertise) else None):
                del host.open[request]

    def _publication(self, host: _Host, action: Action, request: int) -> Publish:
        ids = []
        for event in action.events:
            id_ = self._dice.randbytes(16)
            self.events[id_] = PublishedEvent(event, action.broker, self.time)
            ids.append(id_)
        batch = pa.RecordBatch.from_pylist(list(action.events), _ARROW)
        return Publish(request, b"".join(ids), batch)

    # --- steps ------------------------------------------------------------------------------------

    def _come_in(self, host: _Host, frame: FrameFrom) -> None:
        """A frame: taken at once, or with those that come while the host is busy."""
        if host.waiting or self._busy.random() < _BUSY:
            host.waiting.append(frame)
            if len(host.waiting) == 1:
                until = self.time + self._busy.uniform(0.0, self.scenario.delay)
                self._at(until, lambda: self._step(host))
        else:
            self._step(host, frame)

    def _step(self, host: _Host, *given: Input) -> None:
        inputs, host.waiting = [*host.waiting, *given], []
        broker = host.broker
        if broker is None or not inputs:
            return
        self.steps += 1
        outputs = broker.step_all(inputs, host.clock(self.time))
        for one in inputs[:-1]:
            self._note(host, one)
        self._note(host, inputs[-1], outputs)
        for output in outputs:
            self._keep(host, output)
        if not self._calm and self.scenario.loss and self._dice.random() < 0.0015:
            self._note(host, "crash within the step")
            host.broker = None
            delay = self._dice.uniform(0.1, 4.0)
            self._at(self.time + delay, lambda: self._restart(host))
            return
        for output in outputs:
            self._do(host, output)

    def _keep(self, host: _Host, output: Output) -> None:
        match output:
            case KeepEvents(number, ids, events):
                host.outbox[number] = Kept(number, ids, events)
            case DropEvents(number):
                del host.outbox[number]
            case KeepKnown(known, joined):
                host.known, host.joined = known, joined
            case Deliver():
                self._deliver(host, output)

    def _do(self, host: _Host, output: Output) -> None:
        match output:
            case FrameTo(neighbour, frame):
                self._send(host.settings.name, neighbour, frame)
            case WakeAt(due):
                host.wake += 1
                now, mine, broker = self.time, host.wake, host.broker
                wait = (due - host.clock(now)) / host.rate
                self._at(
                    now + max(wait, 1e-4),
                    lambda: (
                        self._step(host, Tick())
                        if host.wake == mine and host.broker is broker
                        else None
                    ),
                )
            case Answer(request, error):
                self._answer(host, request, error)
            case Notice("refused", about, text):
                self.strays.append(f"{host.settings.name} refuses what {about} says: {text}")

    def _answer(self, host: _Host, request: int, error: str | None) -> None:
        given = host.open.pop(request, None)
        match given:
            case Subscribe():
                if error is None:
                    subscription = self.subscriptions[given.subscription]
                    if subscription.acknowledged is None:
                        subscription.acknowledged = self.time
                else:
                    self.strays.append(f"{given.text!r} is refused: {error}")
            case Withdraw():
                host.advertisements.pop(given.advertisement, None)
            case Publish() if error is not None:
                # As when its advertisement is being withdrawn.
                for at in range(0, len(given.ids), 16):
                    self.events.pop(given.ids[at : at + 16], None)

    def _deliver(self, host: _Host, delivery: Deliver) -> None:
        for row, number in zip(
            delivery.rows.tolist(), delivery.subscriptions.tolist(), strict=True
        ):
            id_ = delivery.id(row)
            subscription = self.subscriptions[number]
            published = self.events.get(id_)
            if published is None:
                self.strays.append(f"an event that was refused came to subscription {number}")
            elif subscription.went_before(self.time) or subscription.broker != host.settings.name:
                self.strays.append(f"subscription {number} is gone, or elsewhere")
            elif delivery.events.slice(row, 1).to_pylist()[0] != published.event:
                self.strays.append(f"event {id_.hex()} has changed on its way")
            elif not subscription.filter.matches(published.event):
                self.strays.append(
                    f"{published.event} doesn't match {subscription.filter.text!r} ({number})"
                )
            subscription.got.add(id_)

    def _send(self, sender: str, receiver: str, frame: bytes) -> None:
        dice = self._dice
        host = self.hosts[receiver]
        copies = 1
        if not self._calm:
            if frozenset((sender, receiver)) in self._cuts:
                return
            if dice.random() < self.scenario.loss:
                return
            copies += dice.random() < self.scenario.doubling
        for _ in range(copies):
            delay = dice.uniform(0.001, self.scenario.delay)
            if not self._calm and dice.random() < 0.02:
                delay *= 20  # long after later ones, perhaps in another session
            self._at(self.time + delay, lambda: self._come_in(host, FrameFrom(sender, frame)))

    # --- for people -------------------------------------------------------------------------------

    def _note(self, host: _Host, what: object, outputs: list[Output] | None = None) -> None:
        if self.trace is not None:
            from benchmarks.network.simulation.tracing import describe

            self.trace.append(describe(self.time, host.settings.name, what, outputs or []))
