"""A broker by itself and with a neighbour: what is refused, what waits, what is forgotten, and what can't harm it."""

import random

import pyarrow as pa
import pytest

from benchmarks.network.simulation.quiet_network import QuietNetwork
from penstock.language import Schema
from penstock.network.broker import Broker
from penstock.network.broker_settings import Bounds, BrokerSettings, Place, Times
from penstock.network.broker_steps import (
    Advertise,
    Answer,
    Deliver,
    DropEvents,
    FrameFrom,
    FrameTo,
    KeepEvents,
    Kept,
    Notice,
    Publish,
    Start,
    Subscribe,
    Tick,
    Unsubscribe,
    Withdraw,
)
from penstock.network.wire import decode_frame, decode_message

SCHEMA = Schema.of({"a": "int", "s": "string"})
ROOT, LEAF = Place(0, "root"), Place(1, "leaf")
EVENT = pa.RecordBatch.from_pylist([{"a": 5, "s": "x"}], SCHEMA.to_arrow())
ID = bytes(range(16))


def lone(**given):
    broker = Broker(BrokerSettings(ROOT, SCHEMA, **given))
    broker.step(Start(), 0.0)
    return broker


def pair(**given):
    network = QuietNetwork()
    network.start(
        [
            BrokerSettings(ROOT, SCHEMA, **given),
            BrokerSettings(LEAF, SCHEMA, parents=(ROOT,), **given),
        ],
        {},
    )
    return network


def test_an_event_goes_where_it_is_wanted():
    """Subscribe at the leaf, publish at the root: delivered once, and out of the outbox."""
    network = pair()
    network.give("leaf", Subscribe(1, 7, "a > 3"))
    network.give("root", Advertise(2, 1, "a > 0"))
    network.give("root", Publish(3, ID, EVENT))
    assert set(network.answers) == {1, 2, 3}
    assert not network.errors
    ((name, delivery),) = network.delivered
    assert (name, delivery.subscriptions.tolist(), delivery.id(0)) == ("leaf", [7], ID)
    assert network.brokers["root"].is_idle
    network.give("leaf", Unsubscribe(4, 7))
    network.give("root", Publish(5, ID, EVENT))
    assert len(network.delivered) == 1


def frames_of_leaf(several):
    """A leaf and a root that wants `a > 3`; and what the leaf sends when it takes each of these by itself."""
    network = pair()
    network.give("root", Subscribe(1, 7, "a > 3"))
    network.give("leaf", Advertise(2, 1, "TRUE"))
    network.delivered.clear()
    leaf = network.brokers["leaf"]
    outputs = [output for one in several for output in leaf.step(one, network.now)]
    return network, [FrameFrom("leaf", o.frame) for o in outputs if isinstance(o, FrameTo)]


def publications(values):
    """One event in each."""
    return [
        Publish(n, bytes([n]) * 16, pa.RecordBatch.from_pylist([{"a": a}], SCHEMA.to_arrow()))
        for n, a in enumerate(values, 10)
    ]


def deliveries(outputs):
    """The subscription and the id of each event, in order."""
    return [
        (subscription, o.id(row))
        for o in outputs
        if isinstance(o, Deliver)
        for row, subscription in zip(o.rows.tolist(), o.subscriptions.tolist(), strict=True)
    ]


@pytest.mark.parametrize("count", [2, 5, 40])
def test_events_that_wait_go_as_one_batch(count):
    """The same is delivered as of steps of their own; one delivery, one answer, and the leaf is done with all."""
    values = [3 + n % 3 for n in range(count)]
    wanted = [bytes([n]) * 16 for n, a in enumerate(values, 10) if a > 3]
    network, frames = frames_of_leaf(publications(values))
    out = network.brokers["root"].step_all(frames, network.now)
    assert deliveries(out) == [(7, id_) for id_ in wanted]
    assert len([o for o in out if isinstance(o, Deliver)]) == 1
    (answer,) = [o for o in out if isinstance(o, FrameTo)]
    (message,) = decode_frame(answer.frame).messages
    assert len(decode_message(message).numbers) == len(wanted)
    leaf = network.brokers["leaf"]
    gone = leaf.step(FrameFrom("root", answer.frame), network.now)
    assert len([o for o in gone if isinstance(o, DropEvents)]) == len(wanted)
    assert leaf.is_idle


def test_events_are_matched_with_the_tables_of_the_moment():
    """What comes between waiting events counts for the later ones only, whoever it is from."""
    first, second = publications([5, 6])
    network, (one, two) = frames_of_leaf([first, second])
    root = network.brokers["root"]
    out = root.step_all([one, Unsubscribe(3, 7), Subscribe(4, 8, "a > 4"), two], network.now)
    assert deliveries(out) == [(7, first.ids), (8, second.ids)]


def test_a_neighbour_that_fails_has_had_what_came_before():
    """A frame that can't be read ends the session; events that came in the same step are delivered."""
    network, frames = frames_of_leaf(publications([5, 6]))
    root = network.brokers["root"]
    out = root.step_all([*frames, FrameFrom("leaf", b"\xc1")], network.now)
    assert len(deliveries(out)) == 2
    assert [o.kind for o in out if isinstance(o, Notice)][:2] == ["refused", "down"]
    assert not root.pending()["unanswered"]


def test_what_is_not_advertised_is_refused():
    """The answer says why; so it does of filters that can't be read, and of a full outbox."""
    broker = lone(bounds=Bounds(outbox_bytes=10))
    (answer,) = [o for o in broker.step(Publish(1, ID, EVENT), 1.0) if isinstance(o, Answer)]
    assert "none of the advertisements matches event 0" in answer.error
    (answer,) = [
        o for o in broker.step(Subscribe(2, 1, "nothing = 1"), 1.0) if isinstance(o, Answer)
    ]
    assert "nothing" in answer.error
    broker.step(Advertise(3, 1, "TRUE"), 1.0)
    (answer,) = [o for o in broker.step(Publish(4, ID, EVENT), 1.0) if isinstance(o, Answer)]
    assert "outbox" in answer.error
    (answer,) = [o for o in broker.step(Publish(5, ID[:3], EVENT), 1.0) if isinstance(o, Answer)]
    assert "bytes of ids" in answer.error


def test_nothing_is_promised_before_the_network_is_known():
    """A broker that has never reached its parent keeps events, and acknowledges no subscription."""
    broker = Broker(BrokerSettings(LEAF, SCHEMA, parents=(ROOT,)))
    broker.step(Start(), 0.0)
    out = broker.step(Advertise(1, 1, "TRUE"), 0.1)
    out += broker.step(Subscribe(2, 1, "TRUE"), 0.2)
    out += broker.step(Publish(3, ID, EVENT), 0.3)
    assert {o.request for o in out if isinstance(o, Answer)} == {1, 3}
    assert [o.number for o in out if isinstance(o, KeepEvents)] == [0]
    assert not [o for o in out if isinstance(o, Deliver | DropEvents)]


def test_what_is_lost_for_long_is_forgotten():
    """Events are kept for a lost broker, and subscriptions wait, until it has been lost for too long."""
    broker = lone(advertisements=False, times=Times(forget=50.0))
    kept = Kept(3, ID, bytes(EVENT.serialize()))
    broker = Broker(BrokerSettings(ROOT, SCHEMA, advertisements=False, times=Times(forget=50.0)))
    broker.step(Start(kept=(kept,), known=("leaf",), joined=True), 0.0)
    out = broker.step(Subscribe(1, 1, "a = 5"), 10.0)
    out += broker.step(Publish(2, ID, EVENT), 20.0)
    assert [o.request for o in out if isinstance(o, Answer)] == [2]
    assert not [o for o in out if isinstance(o, DropEvents)]
    out = broker.step(Tick(), 51.0)
    assert [o.about for o in out if isinstance(o, Notice)] == ["leaf"]
    assert [o.request for o in out if isinstance(o, Answer)] == [1]
    assert {o.number for o in out if isinstance(o, DropEvents)} == {3, 4}


def test_an_advertisement_stays_until_its_events_are_done():
    """It is withdrawn when nothing that was published under it may have to be matched anew."""
    broker = Broker(BrokerSettings(ROOT, SCHEMA, times=Times(forget=50.0)))
    broker.step(Start(known=("leaf",), joined=True), 0.0)
    broker.step(Advertise(1, 1, "TRUE"), 1.0)
    broker.step(Publish(2, ID, EVENT), 2.0)
    assert not [o for o in broker.step(Withdraw(3, 1), 3.0) if isinstance(o, Answer)]
    out = broker.step(Tick(), 60.0)
    assert [o.request for o in out if isinstance(o, Answer)] == [3]


@pytest.mark.parametrize("seed", range(20))
def test_no_bytes_harm_a_broker(seed):
    """Frames of a real session with other bytes are noticed or dropped; the broker goes on."""
    dice = random.Random(seed)
    frames: list[bytes] = []

    def heard(name, output):
        if name == "leaf" and hasattr(output, "frame"):
            frames.append(output.frame)

    network = QuietNetwork(heard)
    settings = [BrokerSettings(ROOT, SCHEMA), BrokerSettings(LEAF, SCHEMA, parents=(ROOT,))]
    network.start(settings, {})
    network.give("leaf", Advertise(1, 1, "a > 0 AND s LIKE '%x'"))
    network.give("leaf", Subscribe(2, 1, "a IN (1, 5) OR s > 'b'"))
    network.give("root", Subscribe(3, 2, "a > 3"))
    network.give("leaf", Publish(4, ID, EVENT))
    root = network.brokers["root"]
    for frame in frames:
        for _ in range(5):
            changed = bytearray(frame)
            for _ in range(dice.choice((1, 1, 3))):
                changed[dice.randrange(len(changed))] = dice.randrange(256)
            root.step(FrameFrom("leaf", bytes(changed)), network.now)
    network.give("root", Subscribe(5, 3, "TRUE"))
    assert root.step(Tick(), network.now + 1) is not None
