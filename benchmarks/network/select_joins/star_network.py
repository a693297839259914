"""The same messages through nodes of CN* (joins §6.2): `penstock.network.payload` itself runs at every node.

A message has a body (its description, and of each tuple what isn't payload), and a payload for each tuple. Bytes
between nodes: body, 20 for each payload's header (its id, and its source), the payloads that aren't left out;
acknowledgements, 16 for an id; questions and answers, 20 and the payload on each link of the tree. The server holds all
payloads: they are in its database.

The *least* traffic is what the messages themselves need: their bodies, and each payload once over each link on its way
to a reader, without headers, questions or answers. A repository that is too small, or forgets, doesn't count.

Of a tuple that has just come the payload is *new*: it has to cross each link once whatever anybody does. The others are
sent *again*, for another tuple that they join with: that is what CN* is to save.

*Hop latency* is the time until a message is at a subscription, in hops: every hop takes as long, those of questions and
answers that the message has to wait for as well (figure 12).
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from benchmarks.baselines.joins.results import ResultSender
from benchmarks.baselines.joins.schemes import SchemeProcessor
from benchmarks.baselines.joins.traffic import content_bytes, description_bytes
from benchmarks.joins.published import TITLES
from benchmarks.joins.workload import Workload
from benchmarks.network.select_joins.trial import Placement
from penstock.base.arrays import Int64s
from penstock.joins.messages import ADDED, BASE, SELECTED
from penstock.joins.notifications import Notifications, Part
from penstock.joins.table_state import TableState
from penstock.network.payload.carried import CarriedEvent, PayloadHeader, payload_id
from penstock.network.payload.exchange import (
    AskPayload,
    DeliverEvent,
    ForwardEvent,
    PayloadAnswer,
    PayloadOutput,
    PayloadsUnderstood,
)
from penstock.network.payload.node import PayloadLimits, PayloadNode

HEADER, ID = 20, 16  # bytes
_InFlight = CarriedEvent | AskPayload | PayloadAnswer
_SERVER = "0"
_AT_ONCE = 16  # events


@dataclass(frozen=True, slots=True)
class StarTrial:
    """What one scheme did, per event, with nodes of CN*, whose repositories have room for some `entries`, or plain."""

    scheme: str
    is_star: bool
    entries: int
    subscriptions: int
    events: int
    traffic: float  # bytes between overlay nodes
    stress: float  # bytes that leave the server
    latency: float  # hops
    again: float  # bytes of payloads that aren't new
    least: float  # bytes between overlay nodes, if each payload crosses each link once
    asked: float  # payloads
    tuples_of_r: int

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def title(self) -> str:
        return f"{TITLES[self.scheme]}{', CN*' if self.is_star else ''}"


class StarNetwork:
    """A tree of nodes, made when the first message comes to them."""

    def __init__(self, parent: Int64s, depth: Int64s, limits: PayloadLimits, is_star: bool) -> None:
        self._is_star = is_star
        self._parent, self._depth = parent.tolist(), depth.tolist()
        self._limits = limits
        self._nodes: dict[int, PayloadNode] = {}
        self._children: dict[int, list[int]] = {}
        for node, above in enumerate(self._parent):
            if above >= 0:
                self._children.setdefault(above, []).append(node)
        self.bytes = self.stress = self.again = self.least = 0
        self._had: dict[bytes, set[int]] = {}  # by payload the nodes that have seen it
        # The message that is on its way, and where it and all that follows from it are: node, last node, what, hops.
        self._ahead: deque[tuple[int, int | None, _InFlight, int]] = deque()
        self._kids: dict[int, list[int]] = {}
        self._clients: dict[int, int] = {}
        self._body = 0
        self._new: frozenset[bytes] = frozenset()
        self.latency = 0.0
        self.readers = 0

    def node(self, number: int) -> PayloadNode:
        if number not in self._nodes:
            made = self._nodes[number] = PayloadNode(str(number), self._limits)
            for other in self._children.get(number, ()):
                made.link_up(str(other))
            if self._parent[number] >= 0:
                made.link_up(str(self._parent[number]))
        return self._nodes[number]

    def total(self, name: str) -> int:
        return sum(getattr(node.counts, name) for node in self._nodes.values())

    def send(
        self, carried: CarriedEvent, body: int, clients: dict[int, int], new: Iterable[bytes] = ()
    ) -> None:
        """A message of so many bytes without payloads, for clients at these nodes: how many there are."""
        self._kids, self._clients, self._body = self._ways(clients), clients, body
        self._new = frozenset(new)
        self._count_least(carried)
        self._ahead.append((0, None, carried, 0))
        while self._ahead:  # everything takes a hop in the same time
            number, origin, what, hops = self._ahead.popleft()
            node = self.node(number)
            match what:
                case CarriedEvent():
                    self._pass_on(number, origin, what, hops)
                case AskPayload():
                    self._do(number, node.asked(what, 0.0), hops)
                case PayloadAnswer():
                    self._do(number, node.answered(what, 0.0), hops)

    def _count_least(self, event: CarriedEvent) -> None:
        reached = {kid for kids in self._kids.values() for kid in kids}
        body = self._body if self._is_star else self._body + HEADER * len(event.headers)
        self.least += body * len(reached)
        for id_, content in event.contents.items():
            had = self._had.setdefault(id_, set())
            self.least += len(content) * len(reached - had)
            had |= reached

    def _pass_on(self, number: int, origin: int | None, event: CarriedEvent, hops: int) -> None:
        node = self.node(number)
        if origin is not None:
            event, outputs = node.incoming(str(origin), event, 0.0)
            for output in outputs:
                assert isinstance(output, PayloadsUnderstood)
                self.bytes += ID * len(output.ids) if self._is_star else 0
                self.node(origin).understood(str(number), output.ids)
        links = [str(other) for other in self._kids.get(number, ())]
        self._do(number, node.outgoing(event, links, number in self._clients, None, 0.0), hops)

    def _do(self, number: int, outputs: Iterable[PayloadOutput], hops: int) -> None:
        for output in outputs:
            match output:
                case ForwardEvent(link, sent):
                    size = self._body + HEADER * len(sent.headers) + self._contents(sent)
                    self._cross(number, int(link), size, sent, hops)
                case DeliverEvent():
                    self.latency += hops * self._clients[number]
                    self.readers += self._clients[number]
                case AskPayload(to=to):
                    self._cross(number, self._next_hop(number, int(to)), HEADER, output, hops)
                case PayloadAnswer(to=to, content=content):
                    size = len(content or b"")
                    self.again += size
                    self._cross(
                        number, self._next_hop(number, int(to)), HEADER + size, output, hops
                    )
                case _:
                    raise AssertionError(output)

    def _cross(self, number: int, other: int, size: int, what: _InFlight, hops: int) -> None:
        self.bytes += size
        self.stress += size if number == 0 else 0
        self._ahead.append((other, number, what, hops + 1))

    def _next_hop(self, number: int, to: int) -> int:
        """The neighbour of a node through which another is reached."""
        way = to
        while self._depth[way] > self._depth[number]:
            if self._parent[way] == number:
                return way
            way = self._parent[way]
        above: int = self._parent[number]
        return above

    def _contents(self, event: CarriedEvent) -> int:
        """The bytes of payloads that are there."""
        for id_, content in event.contents.items():
            self.again += 0 if id_ in self._new else len(content)
        return sum(map(len, event.contents.values()))

    def _ways(self, clients: dict[int, int]) -> dict[int, list[int]]:
        """To which children each node sends a message."""
        kids: dict[int, list[int]] = {}
        seen = {0}
        for node in clients:
            while node not in seen:
                seen.add(node)
                above = self._parent[node]
                kids.setdefault(above, []).append(node)
                node = above
        return kids


class _Payloads:
    """The payloads of tuples: different ones, as those of a real database are."""

    def __init__(self, size: int, server: PayloadNode) -> None:
        self._size, self._server = size, server
        self._known: dict[tuple[str, Any], tuple[PayloadHeader, bytes]] = {}

    def of(self, state: TableState, place: int) -> tuple[PayloadHeader, bytes]:
        row = state.rows[place]
        assert row is not None
        name = state.name, state.key_of(row)
        if name not in self._known:
            content = repr(name).encode().ljust(self._size, b"x")
            header = PayloadHeader(("p",), payload_id(content), _SERVER, _SERVER)
            self._known[name] = header, content
            self._server.repository.hold(header.id, content)
        return self._known[name]

    def new_in(
        self, part: Part, at: int, known: Sequence[tuple[PayloadHeader, bytes]]
    ) -> list[bytes]:
        """The payload of the tuple that comes: of a message about tuples that join with it, none."""
        if isinstance(part.sender, ResultSender):
            return [known[0][0].id]
        return [h.id for h, _ in known] if part.messages.form[at] in (BASE, SELECTED) else []


def try_star_network(
    workload: Workload,
    scheme: str,
    events: tuple[int, int],
    payload: int,
    placement: Placement,
    entries: int | None,
) -> StarTrial:
    """Send the messages of some events; only those after the first few are counted. `entries` None: plain nodes."""
    processor = SchemeProcessor(workload.catalog, workload.joins, scheme)
    processor.restore(workload.content)
    is_star = entries is not None
    limits = PayloadLimits(
        directory_bytes=512_000 if is_star else 0, repository_bytes=(entries or 0) * payload
    )
    tree = placement.tree
    network = StarNetwork(tree.parent, tree.depth, limits, is_star)
    payloads = _Payloads(payload, network.node(0))
    warm, counted = events
    before = _totals(network)
    for batch in workload.batches(0, warm + counted, _AT_ONCE):
        _send_all(processor.process([batch]), network, payloads, placement, payload, is_star)
        warm -= len(batch) // 2
        if warm == 0:
            before = _totals(network)
    sums = [now - then for now, then in zip(_totals(network), before, strict=True)]
    traffic, stress, again, least, asked = (total / counted for total in sums[:5])
    latency = sums[5] / max(1.0, sums[6])
    held = len(processor.tables["R"])
    return StarTrial(
        scheme, is_star, entries or 0, len(workload.joins), counted,
        traffic, stress, latency, again, least, asked, held,
    )  # fmt: skip


def _totals(network: StarNetwork) -> list[float]:
    return [
        network.bytes,
        network.stress,
        network.again,
        network.least,
        network.total("asked"),
        network.latency,
        network.readers,
    ]


def _send_all(
    notified: Notifications,
    network: StarNetwork,
    payloads: _Payloads,
    placement: Placement,
    payload: int,
    is_star: bool,
) -> None:
    for part, readers in zip(notified.parts, notified.readers(), strict=True):
        nodes = placement.node_of[notified.ids[readers.numbers]]
        states, places = _tuples(part)
        sizes = description_bytes(part.messages) + content_bytes(part) - payload * len(states)
        for at in np.flatnonzero(part.messages.kind == ADDED).tolist():
            there, counts = np.unique(
                nodes[readers.start[at] : readers.start[at + 1]], return_counts=True
            )
            clients = dict(zip(there.tolist(), counts.tolist(), strict=True))
            known = [
                payloads.of(state, int(place))
                for state, place in zip(states, places[at], strict=True)
            ]
            event = CarriedEvent(
                {}, tuple(header for header, _ in known), {h.id: c for h, c in known}
            )
            size = int(sizes[at])
            if not is_star:
                size -= HEADER * len(known)  # a plain network has no such headers
            network.send(event, size, clients, payloads.new_in(part, at, known))


def _tuples(part: Part) -> tuple[Sequence[TableState], Int64s]:
    """The tables whose tuples are in each message, and where these stand."""
    sender: Any = part.sender
    if isinstance(sender, ResultSender):
        return sender.group.states, part.messages.tuples
    return [sender.base], part.messages.tuples[:, None]
