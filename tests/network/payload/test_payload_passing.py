"""Brokers with payloads: what crosses links, who gets what, and what is refused."""

import pyarrow as pa
import pytest
from msgspec.structs import replace

from benchmarks.network.simulation.quiet_network import QuietNetwork
from penstock.base.errors import PenstockError
from penstock.language.schema import Schema
from penstock.network.broker_settings import BrokerSettings, Place
from penstock.network.broker_status import read_status
from penstock.network.broker_steps import Advertise, Notice, Publish, Subscribe
from penstock.network.payload.node import PayloadLimits
from penstock.network.payload.stripped_batch import strip_payloads
from penstock.network.wire import Packet, PayloadEvents, decode_frame, decode_message, encode

SCHEMA = Schema.of({"n": "int", "logo": "string", "price": "decimal(9,2)", "at": "timestamp"})
NAMES = ("b0", "b1", "b2", "b3")
LOGO, OTHER = "L" * 1_000, "M" * 1_000


class Chain(QuietNetwork):
    """Four brokers in a row. The first publishes."""

    def __init__(self, plain: str = "", limits: PayloadLimits | None = None) -> None:
        super().__init__(self._listen)
        self.notices: list[str] = []
        self._requests = 0
        places = [Place(n, name) for n, name in enumerate(NAMES)]
        self.start(
            [
                BrokerSettings(
                    place,
                    SCHEMA,
                    parents=tuple(places[n - 1 : n]) if n else (),
                    payloads=() if place.name in plain.split() else (("logo",),),
                    payload_limits=limits or PayloadLimits(),
                )
                for n, place in enumerate(places)
            ],
            {},
        )
        self.give("b0", Advertise(self._next(), 1, "TRUE"))

    def _listen(self, name: str, output: object) -> None:
        if isinstance(output, Notice) and output.kind in ("refused", "down"):
            self.notices.append(output.text)

    def _next(self) -> int:
        self._requests += 1
        return self._requests

    def subscribe(self, broker: str, text: str) -> None:
        self.give(broker, Subscribe(self._next(), self._requests, text))

    def publish(self, *events: dict[str, object]) -> int:
        """How many bytes that took on all links."""
        before = self.bytes
        batch = pa.RecordBatch.from_pylist(list(events), SCHEMA.to_arrow())
        request = self._next()
        ids = b"".join(f"{request:08}{n:08}".encode() for n in range(len(events)))
        self.give("b0", Publish(request, ids, batch))
        assert request not in self.errors
        return self.bytes - before

    def got(self, broker: str) -> list[object]:
        return [
            event["logo"]
            for name, delivery in self.delivered
            if name == broker
            for event in delivery.events.take(pa.array(delivery.rows)).to_pylist()
        ]

    def is_idle(self) -> bool:
        return all(broker.is_idle for broker in self.brokers.values())


@pytest.mark.parametrize("plain", ["", "b1", "b0 b1 b2 b3", "b3", "b1 b2"])
def test_everybody_gets_whole_events_whoever_is_plain(plain: str):
    """A logo crosses each link between brokers with payloads once; others get it each time."""
    chain = Chain(plain)
    for broker in ("b1", "b3"):
        chain.subscribe(broker, "n < 100")
    first = chain.publish({"n": 1, "logo": LOGO})
    again = [chain.publish({"n": n, "logo": LOGO}) for n in range(2, 6)]
    assert chain.got("b1") == chain.got("b3") == [LOGO] * 5
    assert chain.is_idle()
    assert not chain.notices
    last_hits = [n.payload_hits for n in read_status(chain.brokers["b2"]).neighbours]
    if not plain:
        assert first > 3_000
        assert max(again) < 0.7 * 3_000
        assert sum(last_hits) == 4
    if plain.startswith("b0"):
        assert min(again) > 3_000
        assert not sum(last_hits)


def test_a_payload_that_filters_test_is_matched_exactly():
    """Even where the broker has room for one of two only, so that it must ask for them before events are matched."""
    chain = Chain(limits=PayloadLimits(repository_bytes=1_500))
    chain.subscribe("b3", f"logo = '{LOGO}' AND n > 2")
    chain.subscribe("b1", "logo LIKE 'M%'")
    for n in range(5):
        chain.publish({"n": n, "logo": LOGO}, {"n": n, "logo": OTHER}, {"n": n, "logo": None})
    assert chain.got("b3") == [LOGO] * 2
    assert chain.got("b1") == [OTHER] * 5
    assert chain.is_idle()
    assert not chain.notices
    assert sum(one.events.payloads._node.counts.asked for one in chain.brokers.values()) > 0


def test_a_broker_without_room_for_a_payload_gets_it_each_time():
    """It never says that it has had it, so nobody has to ask."""
    chain = Chain(limits=PayloadLimits(repository_bytes=500))
    chain.subscribe("b3", "TRUE")
    taken = [chain.publish({"n": n, "logo": LOGO}) for n in range(4)]
    assert chain.got("b3") == [LOGO] * 4
    assert max(taken) < 1.1 * min(taken)
    assert not sum(one.events.payloads._node.counts.asked for one in chain.brokers.values())
    assert chain.is_idle()


def test_what_several_brokers_lack_comes_to_them_together():
    """Three brokers in a row have lost a logo: the question of the last finds it where the first has got it."""
    chain = Chain()
    for broker in ("b1", "b2", "b3"):
        chain.subscribe(broker, "TRUE")
    first = chain.publish({"n": 1, "logo": LOGO})
    for broker in ("b1", "b2", "b3"):
        chain.brokers[broker].events.payloads._node.repository.clear()
    again = chain.publish({"n": 2, "logo": LOGO})
    for broker in ("b1", "b2", "b3"):
        assert chain.got(broker) == [LOGO] * 2
    assert again < first + 3 * 300, "a logo on each link, and a question"
    assert chain.is_idle()


def test_a_content_that_is_left_out_for_a_plain_broker_is_refused():
    """It never said that it had it: the session starts over, and the event comes whole."""
    chain = Chain("b3")
    chain.subscribe("b3", "TRUE")
    chain.publish({"n": 1, "logo": LOGO})
    node = chain.brokers["b2"].events.payloads._node
    for id_ in node.repository.ids():
        node.directory.mark(id_, "b3")
    chain.publish({"n": 2, "logo": LOGO})
    assert any("a payload is left out" in notice for notice in chain.notices)
    assert LOGO in chain.got("b3")


def test_hostile_payloads_are_refused():
    """Rows that aren't there, attributes that nobody has, contents that are none: a reason, never an exception."""
    schema = SCHEMA.to_arrow()
    events = pa.RecordBatch.from_pylist([{"n": 1, "logo": LOGO}], schema)
    batch = strip_payloads(b"i" * 16, events, [["logo"]], "b0")
    (header,), contents = batch.carried.headers, dict(batch.carried.contents)
    good = PayloadEvents(batch.ids, bytes(batch.events.serialize()), (header,), ((0,),), contents)
    for wrong in (
        replace(good, rows=((1,),)),
        replace(good, rows=((-1,),)),
        replace(good, rows=()),
        replace(good, headers=(replace(header, attributes=("nobody",)),)),
        replace(good, contents={header.id: b"no content"}),
        replace(good, body=b""),
    ):
        chain = Chain()
        link = chain.brokers["b1"].tables.links["b0"]
        with pytest.raises(PenstockError):
            chain.brokers["b1"].events.payloads.receive(link, 1, wrong)
    packet = Packet((1, 1), (1, 1), 1, 0, (encode(good),))
    assert decode_message(decode_frame(encode(packet)).messages[0]) == good


def test_every_type_comes_back_as_it_was():
    """Decimals, times and nulls of a group of several attributes."""
    rows = [
        {"n": 1, "logo": None, "price": 1, "at": 5},
        {"n": 2, "logo": "x", "price": None, "at": None},
        {"n": 3, "logo": None, "price": None, "at": None},
        {"n": 4, "logo": "x", "price": None, "at": None},
    ]
    events = pa.RecordBatch.from_pylist(rows, SCHEMA.to_arrow())
    batch = strip_payloads(bytes(64), events, [["logo", "price"], ["at"]], "b0")
    assert batch.rows == ((0,), (1, 3), (0,))
    assert batch.whole() == events
    assert batch.take(pa.array([1, 3]).to_numpy()).whole() == events.take(pa.array([1, 3]))


@pytest.mark.parametrize("payloads", [(("nobody",),), (("logo",), ("logo", "n")), ((),)])
def test_payloads_that_make_no_sense_are_refused(payloads):
    """Attributes that aren't in the schema, that are in two groups, groups of nothing."""
    with pytest.raises(PenstockError, match="payloads: "):
        BrokerSettings(Place(0, "b0"), SCHEMA, payloads=payloads)
