"""CN*: every client gets whole events, whatever is lost, and payloads cross a link once when nothing is."""

from collections.abc import Iterable
from typing import Any

import pytest
from tests.network.payload.payload_world import World, complaints, run
from tests.sizes import LONG

from penstock.network.payload.carried import CarriedEvent, PayloadHeader, carry_event, payload_id
from penstock.network.payload.directory import ENTRY_BYTES, PayloadDirectory
from penstock.network.payload.exchange import (
    AskPayload,
    DeliverEvent,
    ForwardEvent,
    PayloadAnswer,
    PayloadMissed,
    PayloadsUnderstood,
)
from penstock.network.payload.node import PayloadLimits, PayloadNode
from penstock.network.payload.questions import Questions
from penstock.network.payload.waiting import WaitingEvents

WORLDS = 300 * LONG


def test_every_client_gets_whole_events_whatever_is_lost():
    """In trees of both kinds of nodes, with evictions, lost state, lost answers and nodes that come back changed."""
    for seed in range(WORLDS):
        world = run(seed)
        assert not complaints(world), f"seed {seed}: {complaints(world)}"


class MarksUnasked(PayloadNode):
    """Takes for granted that the neighbour understands."""

    def outgoing(self, carried: CarriedEvent, links: Iterable[str], *rest: Any, **more: Any) -> Any:
        links = list(links)
        found = super().outgoing(carried, links, *rest, **more)
        for link in links:
            self.understood(link, [header.id for header in carried.headers])
        return found


class KeepsBits(PayloadNode):
    """Believes that a neighbour that comes back is the one that it was."""

    def link_up(self, link: str) -> None:
        self._links.add(link)

    def link_down(self, link: str) -> None:
        self._links.discard(link)


class NeverAsksThePublisher(PayloadNode):
    """Gives up when the source has nothing."""

    def _ask_next(self, id_: bytes, now: float, has_denied: bool) -> Any:
        publisher = self._asking.publisher(id_)
        self._asking.end(id_)
        self._waiting.miss(id_, publisher)
        return self._release(now)


@pytest.mark.parametrize("mutant", [MarksUnasked, KeepsBits, NeverAsksThePublisher])
def test_mutants_are_found(mutant: type[PayloadNode]):
    """A bit set without acknowledgement, one kept beyond a session, a publisher that nobody asks."""
    assert any(complaints(run(seed, mutant)) for seed in range(100))


def test_events_that_overtake_others_are_found(monkeypatch):
    """A link is a FIFO: what comes later waits behind what lacks a payload."""
    monkeypatch.setattr(WaitingEvents, "has", lambda *_: False)
    assert any(complaints(run(seed)) for seed in range(100))


def test_a_payload_crosses_each_link_once_when_nothing_is_lost():
    """With room for everything, and no plain nodes, a thousand events cost what the first of each payload does."""
    few = run(7, plain=0.0, losses=0.0, events=30)
    many = run(7, plain=0.0, losses=0.0, events=3_000)
    assert not complaints(few)
    assert not complaints(many)
    assert many.sent_bytes <= 6 * len(many.nodes) * 60


def neighbours(**limits: Any) -> tuple[PayloadNode, PayloadNode, CarriedEvent]:
    first, second = PayloadNode("first"), PayloadNode("second", PayloadLimits(**limits))
    first.link_up("second")
    for link in ("first", "third"):
        second.link_up(link)
    return first, second, first.publish({"k": 1, "p": "x" * 50}, [["p"]])


def sent(first: PayloadNode, event: CarriedEvent) -> CarriedEvent:
    (forward,) = first.outgoing(event, ["second"], False, None, now=0.0)
    assert isinstance(forward, ForwardEvent)
    return forward.event


def test_who_lacks_a_payload_asks_the_source_and_then_the_publisher():
    """Algorithm 1, line 10; what waits goes when it has come."""
    first, second, event = neighbours(repository_bytes=0)
    (header,) = event.headers
    away = event.with_contents({}, {header.id: "elsewhere"})
    arrived, outputs = second.incoming("first", away, now=0.0)
    assert not outputs
    assert second.outgoing(arrived, ["third"], True, "e", 0.0) == [
        AskPayload("elsewhere", "second", header.id)
    ]
    denied = PayloadAnswer("second", "elsewhere", header.id, None)
    (question,) = second.answered(denied, 1.0)
    assert question == AskPayload("first", "second", header.id)
    assert second.answered(denied, 1.0) == [], "late, and not who is asked now"
    (answer,) = first.asked(question, 1.0)
    assert isinstance(answer, PayloadAnswer)
    forward, deliver = second.answered(answer, 2.0)
    assert isinstance(forward, ForwardEvent)
    assert isinstance(deliver, DeliverEvent)
    assert forward.event.is_whole
    assert deliver.event.whole_event() == {"k": 1, "p": "x" * 50}
    assert forward.event.headers[0].source == "elsewhere", "it has no copy of its own"


def test_a_node_that_answers_nothing_is_not_waited_for_long():
    """After its patience the next is asked; at last the broker hears that the payload is missed."""
    _, second, event = neighbours(patience=2.0)
    (header,) = event.headers
    arrived, _ = second.incoming("first", event.with_contents({}, {header.id: "gone"}), now=0.0)
    asked = second.outgoing(arrived, ["third"], False, "e", 0.0)
    assert second.tick(1.9) == []
    while second.next_tick() is not None:
        asked += second.tick(second.next_tick() or 0.0)
    whom = [one.to for one in asked if isinstance(one, AskPayload)]
    assert whom == ["gone", "first", "first", "first"]
    assert isinstance(asked[-1], PayloadMissed)
    assert asked[-1].token == "e"
    assert not len(second)


def test_questions_on_their_way_are_asked_once_and_answered_together():
    """A node between passes on the first of them; the answer is for all who asked, itself included, and is kept."""
    first, second, event = neighbours()
    (header,) = event.headers
    early, late = (AskPayload("first", asker, header.id) for asker in ("third", "fourth"))
    assert second.asked(early, 0.0) == [early]
    assert second.asked(late, 0.0) == []
    stripped = event.with_contents({}, {})
    assert second.outgoing(stripped, [], True, "e", 0.0) == [], "its own question waits, too"
    assert second.asked(early, 0.1) == [early], "who asks again isn't kept waiting"
    (answer,) = first.asked(early, 0.2)
    assert isinstance(answer, PayloadAnswer)
    *passed, deliver = second.answered(answer, 0.3)
    assert passed == [
        PayloadAnswer(who, "first", header.id, answer.content) for who in ("third", "fourth")
    ]
    assert isinstance(deliver, DeliverEvent)
    assert second.asked(late, 0.4) == [PayloadAnswer("fourth", "second", header.id, answer.content)]


def test_a_denial_on_its_way_is_for_those_who_asked_the_same_node():
    """The others wait for the one that they asked."""
    _, second, event = neighbours()
    (header,) = event.headers
    for asker, to in (("a", "source"), ("b", "source"), ("c", "first")):
        second.asked(AskPayload(to, asker, header.id), 0.0)
    denied = PayloadAnswer("a", "source", header.id, None)
    found = second.answered(denied, 0.1)
    assert [one.to for one in found if isinstance(one, PayloadAnswer)] == ["a", "b"]
    given = PayloadAnswer("c", "first", header.id, event.contents[header.id])
    assert second.answered(given, 0.2) == [given]


def test_only_so_many_questions_and_askers_are_remembered():
    """Whatever a neighbour sends: what isn't remembered goes on, as if it were the first."""
    questions = Questions(patience=2.0)
    ids = [n.to_bytes(16, "big") for n in range(3_000)]
    assert all(questions.goes_on("a", "source", id_, 0.0) for id_ in ids)
    waits = [not questions.goes_on("b", "source", id_, 0.0) for id_ in ids]
    assert waits == [n < 1_024 for n in range(len(ids))]
    askers = [f"asker {n}" for n in range(1_000)]
    going = [questions.goes_on(asker, "source", ids[0], 0.0) for asker in askers]
    assert going.index(True) < 64
    assert len(questions.answered("a", ids[0], None)) < 64
    asked = [questions.goes_on("a", f"node {n}", ids[1], 0.0) for n in range(1_000)]
    assert all(asked)
    assert questions.goes_on("a", "source", ids[-1], 3.0), "old ones make room"
    assert not questions.goes_on("b", "source", ids[-1], 3.0)


def test_a_content_that_is_not_what_its_id_says_is_not_kept():
    """Neither from a neighbour nor from an answer: it isn't acknowledged, and is asked for elsewhere."""
    _, second, event = neighbours()
    (header,) = event.headers
    forged = CarriedEvent(event.body, event.headers, {header.id: b"forged"})
    arrived, outputs = second.incoming("first", forged, now=0.0)
    assert not outputs
    assert not arrived.contents
    assert second.outgoing(arrived, [], True, "e", 0.0) == [
        AskPayload("first", "second", header.id)
    ]
    wrong = PayloadAnswer("second", "first", header.id, b"forged")
    assert isinstance(second.answered(wrong, 0.0)[0], PayloadMissed)


def test_an_acknowledgement_names_what_came_and_lets_it_be_left_out():
    """On that link, until its session ends."""
    first, second, event = neighbours()
    whole = sent(first, event)
    _, (acknowledgement,) = second.incoming("first", whole, now=0.0)
    assert acknowledgement == PayloadsUnderstood("first", (event.headers[0].id,))
    assert sent(first, event).is_whole, "not before the acknowledgement has come"
    first.understood("second", acknowledgement.ids)
    assert not sent(first, event).is_whole
    first.link_down("second")
    first.link_up("second")
    assert sent(first, event).is_whole


def test_what_was_sent_on_all_links_goes_first():
    """But not what clients here want; then the least recently used."""
    node = PayloadNode("n", PayloadLimits(repository_bytes=100))
    for link in ("in", "out"):
        node.link_up(link)
    events = [carry_event({"k": n, "p": str(n) * 30}, [["p"]], "in") for n in range(4)]
    ids = [event.headers[0].id for event in events]
    for event in events[:3]:
        arrived, _ = node.incoming("in", event, now=0.0)
        node.outgoing(arrived, ["out"], event is events[1], None, 0.0)
    node.understood("out", ids[1:3])
    node.incoming("in", events[3], now=0.0)
    assert [node.repository.get(id_) is not None for id_ in ids] == [True, True, False, True]
    assert node.repository.bytes <= 100


def test_what_is_published_here_is_held_until_it_is_accounted_for():
    """However small the repository is."""
    node = PayloadNode("n", PayloadLimits(repository_bytes=0))
    event = node.publish({"k": 1, "p": "x" * 50}, [["p"]])
    again = node.publish({"k": 2, "p": "x" * 50}, [["p"]])
    (header,) = event.headers
    assert header == PayloadHeader(("p",), payload_id(event.contents[header.id]), "n", "n")
    node.published(event)
    question = AskPayload("n", "m", header.id)
    assert node.asked(question, 0.0)[0].content is not None
    node.published(again)
    assert node.asked(question, 0.0) == [PayloadAnswer("m", "n", header.id, None)]


def test_a_directory_has_a_cap_and_reuses_the_bits_of_links():
    """The least recently used entry goes; a link that comes after another has gone starts with nothing."""
    directory = PayloadDirectory(3 * ENTRY_BYTES)
    for id_ in (b"a", b"b", b"c"):
        directory.mark(id_, "west")
    assert directory.has(b"a", "west")
    directory.mark(b"d", "east")
    assert [directory.has(id_, "west") for id_ in (b"a", b"b", b"c", b"d")] == [
        True, False, True, False,
    ]  # fmt: skip
    directory.forget_link("west")
    directory.mark(b"e", "north")
    assert not directory.has(b"a", "north")
    assert directory.has(b"d", "east")


def test_a_world_has_both_kinds_of_nodes():
    """Else the property above would say little."""
    kinds = {node is None for seed in range(20) for node in run(seed, events=1).nodes.values()}
    assert kinds == {True, False}
    assert isinstance(run(0, events=1), World)
