"""Trees of nodes with and without CN*, in which soft state is lost at any moment: who gets what, and in which shape."""

import random
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Any

from penstock.network.payload.carried import CarriedEvent, carry_event
from penstock.network.payload.exchange import (
    AskPayload,
    DeliverEvent,
    ForwardEvent,
    PayloadAnswer,
    PayloadsUnderstood,
)
from penstock.network.payload.node import PayloadLimits, PayloadNode


@dataclass
class World:
    """Nodes by name; a link is called by the neighbour's name. Everything in flight is in order for each pair."""

    rng: random.Random
    make: type[PayloadNode] = PayloadNode
    repository: int = 200
    directory: int = 240
    nodes: dict[str, PayloadNode | None] = field(default_factory=dict)  # None: a plain one
    near: dict[str, set[str]] = field(default_factory=dict)
    wanted: dict[str, set[str]] = field(default_factory=dict)  # topics of clients, by node
    received: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    flights: dict[tuple[str, str], deque[Any]] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    sent_bytes: int = 0
    now: float = 0.0
    loses_answers: bool = False
    lost: Counter[Any] = field(default_factory=Counter)  # questions, for whom and what
    published: dict[str, list[CarriedEvent]] = field(default_factory=dict)

    def build(self, count: int, plain: float) -> None:
        names = [f"n{n}" for n in range(count)]
        for n, name in enumerate(names):
            self.near[name] = set()
            self.received[name] = []
            self.wanted[name] = set(self.rng.sample("abc", self.rng.randint(0, 2)))
            is_plain = self.rng.random() < plain
            limits = PayloadLimits(self.directory, self.repository, patience=300.0)
            self.nodes[name] = None if is_plain else self.make(name, limits)
            if n:
                other = names[self.rng.randrange(n)]
                self.near[name].add(other)
                self.near[other].add(name)
        for name, node in self.nodes.items():
            for other in sorted(self.near[name]):
                if node is not None:
                    node.link_up(other)

    # --- who is behind which link --------------------------------------------------------------

    def behind(self, name: str, link: str) -> set[str]:
        found, ahead = {link}, [link]
        while ahead:
            here = ahead.pop()
            more = self.near[here] - found - {name}
            found |= more
            ahead += more
        return found

    def links_for(self, name: str, topic: str, came_from: str | None) -> list[str]:
        return [
            link
            for link in sorted(self.near[name] - {came_from})
            if any(topic in self.wanted[other] for other in self.behind(name, link))
        ]

    # --- what happens --------------------------------------------------------------------------

    def publish(self, name: str, event: dict[str, Any]) -> None:
        node, payloads = self.nodes[name], [["text"], ["logo"]]
        if node is None:
            carried = carry_event(event, payloads, name)
        else:
            carried = node.publish(event, payloads)
        self.published.setdefault(name, []).append(carried)
        self._go_on(name, None, carried)

    def _go_on(self, name: str, came_from: str | None, carried: CarriedEvent) -> None:
        topic, node = carried.body["topic"], self.nodes[name]
        links = self.links_for(name, topic, came_from)
        to_clients = topic in self.wanted[name]
        if node is None:
            for link in links:
                self._send(name, link, carried)
            if to_clients:
                self._deliver(name, carried)
            return
        self._do(name, node.outgoing(carried, links, to_clients, None, self.now))

    def _do(self, name: str, outputs: list[Any]) -> None:
        for output in outputs:
            match output:
                case ForwardEvent(link, event):
                    self._send(name, link, event)
                case DeliverEvent(event):
                    self._deliver(name, event)
                case PayloadsUnderstood(link=link):
                    self._send(name, link, output)
                case AskPayload() | PayloadAnswer():
                    self._pass_on(name, output)
                case _:
                    self.wrong.append(f"{name}: {output}")

    def _send(self, name: str, to: str, what: Any) -> None:
        if isinstance(what, CarriedEvent):
            self.sent_bytes += sum(map(len, what.contents.values()))
        elif isinstance(what, PayloadAnswer):
            self.sent_bytes += len(what.content or b"")
        lane = "events" if isinstance(what, CarriedEvent | PayloadsUnderstood) else "asks"
        self.flights.setdefault((name, to + lane), deque()).append((to, what))

    def _pass_on(self, name: str, what: AskPayload | PayloadAnswer) -> None:
        (link,) = [link for link in self.near[name] if what.to in self.behind(name, link)]
        self._send(name, link, what)

    def _deliver(self, name: str, carried: CarriedEvent) -> None:
        if not carried.is_whole:
            self.wrong.append(f"{name} delivers {carried.body} without {carried.headers}")
            return
        self.received[name].append(carried.whole_event())

    def step(self) -> bool:
        """Something in flight arrives; False if nothing is."""
        there = [lane for lane, flight in self.flights.items() if flight]
        if not there:
            return False
        lane = self.rng.choice(sorted(there))
        to, what = self.flights[lane].popleft()
        name, node = lane[0], self.nodes[to]
        match what:
            case CarriedEvent() if node is None:
                self._go_on(to, name, what)
            case CarriedEvent():
                arrived, outputs = node.incoming(name, what, self.now)
                self._do(to, outputs)
                self._go_on(to, name, arrived)
            case PayloadsUnderstood(ids=ids) if node is not None:
                node.understood(name, ids)
            case AskPayload(to=asked, id=id_):
                if self.loses_answers and self.lost[asked, id_] < 2 and self.rng.random() < 0.3:
                    self.lost[asked, id_] += 1
                else:
                    self._asked(to, what)
            case PayloadAnswer() if node is not None:
                self._do(to, node.answered(what, self.now))
            case PayloadAnswer():
                self._pass_on(to, what)
        return True

    def _asked(self, name: str, question: AskPayload) -> None:
        node, id_ = self.nodes[name], question.id
        if node is not None:
            self._do(name, node.asked(question, self.now))
        elif question.to != name:
            self._pass_on(name, question)
        else:
            mine = [c.contents[id_] for c in self.published.get(name, ()) if id_ in c.contents]
            self._pass_on(name, PayloadAnswer(question.asker, name, id_, mine[0] if mine else None))

    def tick(self, time: float = 2.0) -> None:
        self.now += time
        for name, node in self.nodes.items():
            if node is not None:
                self._do(name, node.tick(self.now))

    def lose_something(self) -> None:
        """A node forgets some of its soft state, or all that isn't about events that wait."""
        name = self.rng.choice(sorted(self.nodes))
        node = self.nodes[name]
        if node is None:
            return
        match self.rng.randrange(3):
            case 0:
                node.directory.clear()
            case 1:
                node.repository.clear()
            case 2:
                for id_ in node.repository.ids():
                    if self.rng.random() < 0.5:
                        node.repository.drop(id_)

    def restart_somebody(self) -> None:
        """A node with nothing in flight to or from it comes back, perhaps of the other kind: its sessions are new."""
        name = self.rng.choice(sorted(self.nodes))
        busy = {n for (n, _), f in self.flights.items() if f}
        busy |= {to for f in self.flights.values() for to, _ in f}
        if (
            name in busy
            or self.published.get(name)
            or any(n and len(n) for n in self.nodes.values())
        ):
            return
        limits = PayloadLimits(self.directory, self.repository, patience=300.0)
        node = None if self.rng.random() < 0.5 else self.make(name, limits)
        self.nodes[name] = node
        for other in sorted(self.near[name]):
            neighbour = self.nodes[other]
            if neighbour is not None:
                neighbour.link_down(name)
                neighbour.link_up(name)
            if node is not None:
                node.link_up(other)


def run(
    seed: int,
    make: type[PayloadNode] = PayloadNode,
    plain: float = 0.3,
    losses: float = 0.15,
    events: int = 40,
) -> World:
    """Publish events with few payloads from one or two nodes while state is lost, until all have come to rest."""
    rng = random.Random(seed)
    world = World(rng, make, repository=rng.choice([0, 40, 200, 10_000]))
    world.directory = rng.choice([0, 48, 240, 10_000])
    world.loses_answers = rng.random() < 0.3
    world.build(rng.randint(2, 9), plain)
    publishers = rng.sample(sorted(world.nodes), min(2, len(world.nodes)))
    for number in range(events):
        name = rng.choice(publishers)
        event = {"topic": rng.choice("abc"), "by": name, "number": number}
        event["text"] = rng.choice("xyz") * 30
        if rng.random() < 0.5:
            event["logo"] = rng.choice("pq") * 20
        world.publish(name, event)
        for _ in range(rng.randrange(12)):
            world.step()
        if rng.random() < losses:
            world.lose_something()
        if rng.random() < losses:
            world.restart_somebody()
        if rng.random() < 0.2:
            world.tick()
    for _ in range(100_000):
        if not world.step():
            if not any(node and len(node) for node in world.nodes.values()):
                break
            world.tick(300.0)
    return world


def complaints(world: World) -> list[str]:
    """What is wrong: something that isn't whole, lacks, comes twice or overtakes another of its publisher."""
    found = list(world.wrong)
    sent = [c for carried in world.published.values() for c in carried]
    for name, topics in world.wanted.items():
        for publisher in world.published:
            mine = sorted(
                (c.whole_event() for c in sent if c.body["by"] == publisher),
                key=lambda event: event["number"],
            )
            wanted = [event for event in mine if event["topic"] in topics]
            got = [event for event in world.received[name] if event["by"] == publisher]
            if got != wanted:
                found.append(f"{name} of {publisher}: {len(got)} of {len(wanted)}")
    return found
