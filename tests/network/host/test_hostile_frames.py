"""Frames that nobody meant: a host drops them, and goes on."""

import random
from pathlib import Path

import pytest
from tests.server.running import until
from tests.sizes import LONG, SEED

from penstock.language import Schema
from penstock.network.arrow_events import batch_of
from penstock.network.batch_bytes import write_batch
from penstock.network.broker_settings import BrokerSettings, Place
from penstock.network.client_frames import (
    MOST_BYTES,
    Ask,
    Describe,
    PublishEvents,
    SubscribeTo,
    Take,
    encode_frame,
    read_asked,
)
from penstock.network.host import BrokerHost
from penstock.network.links.in_process_link import Switchboard
from penstock.network.links.link import NetworkError, Receiver
from penstock.network.network_client import NetworkClient

SCHEMA = Schema.of({"n": "bigint", "text": "string"})


def nothing(*_: object) -> None:
    """Hears, and does nothing."""


def test_frames_of_chance_stop_nobody(tmp_path: Path):
    """Whatever comes as a client's or a neighbour's frame, clients go on being served."""
    chance = random.Random(SEED)
    outside = Switchboard()
    events = batch_of([{"n": 1, "text": "x"}], SCHEMA.to_arrow())
    whole = [
        encode_frame(Ask(b"12345678", 1, PublishEvents(b"i" * 16, write_batch(events)))),
        encode_frame(Ask(b"12345678", 2, SubscribeTo(1, "n > 5"))),
        encode_frame(Ask(b"12345678", 3, Describe())),
        encode_frame(Take(b"12345678", 5, 5, True)),
    ]
    settings = BrokerSettings(Place(0, "b1"), SCHEMA)
    host = BrokerHost(settings, tmp_path, lambda receiver: outside.join("b1", receiver))
    try:
        senders = [outside.join(name, Receiver(nothing, nothing)) for name in ("~mad", "b9", "x")]
        for _ in range(300 * LONG):
            frame = bytearray(chance.choice(whole))
            for _ in range(chance.randint(0, 4)):
                frame[chance.randrange(len(frame))] = chance.randrange(256)
            cut = chance.randrange(len(frame)) if chance.random() < 0.3 else len(frame)
            chance.choice(senders).send("b1", bytes(frame[:cut]))
        with NetworkClient(host.join_here, "b1", "sane") as client:
            client.subscribe(1, "n > 5")
            client.advertise(1, "TRUE")
            client.publish([{"n": 7, "text": "here"}])
            mail = next(client.read())
            assert mail.events.to_pylist() == [{"n": 7, "text": "here"}]
            client.done(mail)
            until(lambda: client.status()["clients"]["mail"], "mail is counted")
        assert host.failed is None
    finally:
        host.close()


def test_a_frame_that_is_too_large_is_refused():
    """Before it is read."""
    with pytest.raises(NetworkError, match="at most"):
        read_asked(b"x" * (MOST_BYTES + 1))
