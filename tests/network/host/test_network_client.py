"""A client of a broker, in the broker's own process."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.server.running import until

from penstock.language import Schema
from penstock.network.broker_settings import BrokerSettings, Place
from penstock.network.host import BrokerHost, HostLimits
from penstock.network.links.in_process_link import Switchboard
from penstock.network.network_client import NetworkClient

SCHEMA = Schema.of({"n": "bigint"})
SETTINGS = BrokerSettings(Place(0, "b1"), SCHEMA)


@pytest.fixture
def host(tmp_path: Path) -> Iterator[BrokerHost]:
    outside = Switchboard()
    found = BrokerHost(
        SETTINGS, tmp_path, lambda receiver: outside.join("b1", receiver), HostLimits(4_000)
    )
    yield found
    found.close()


def joined(host: BrokerHost, name: str) -> NetworkClient:
    return NetworkClient(host.join_here, "b1", name)


def numbers(client: NetworkClient, count: int) -> list[int]:
    """Read some events, and be done with them."""
    found: list[int] = []
    for mail in client.read():
        found += mail.events.column(0).to_pylist()
        client.done(mail)
        if len(found) >= count:
            break
    return found


def test_a_client_that_comes_back_goes_on_where_it_was(host: BrokerHost):
    """It isn't sent again what it was done with, and misses nothing that has come since."""
    with joined(host, "publisher") as publisher:
        publisher.advertise(1, "TRUE")
        with joined(host, "reader") as reader:
            reader.subscribe(1, "n >= 0")
            for n in range(3):
                publisher.publish([{"n": n}])
            assert numbers(reader, 3) == [0, 1, 2]
            until(
                lambda: not reader.status()["clients"]["mail"]["~reader"]["batches"], "it is done"
            )
        publisher.publish([{"n": 3}])
        with joined(host, "reader") as reader:
            assert numbers(reader, 1) == [3]


def test_nothing_is_kept_for_a_client_that_has_left_for_good(host: BrokerHost):
    """No mail and no subscription. Should it come back, it begins anew, and no number of its mail is given twice."""
    with joined(host, "publisher") as publisher:
        publisher.advertise(1, "TRUE")
        with joined(host, "reader") as reader:
            reader.subscribe(1, "n >= 0")
            reader.subscribe(2, "n > 5")
            reader.advertise(1, "n < 0")
            publisher.publish([{"n": 1}])
            (last,) = [mail.number for mail in reader.read(0.5)]
        publisher.publish([{"n": 2}])
        assert publisher.status()["clients"]["texts"] == {"~publisher": 1, "~reader": 3}
        with joined(host, "reader") as reader:
            reader.leave()
            reader.leave()  # once more does no harm
        publisher.publish([{"n": 3}])
        clients = publisher.status()["clients"]
        assert clients["texts"] == {"~publisher": 1}
        assert not clients["mail"].get("~reader", {}).get("batches")
        with joined(host, "reader") as reader:
            reader.subscribe(7, "n >= 0")
            publisher.publish([{"n": 4}])
            reader.start_reading(last)  # as one that remembers how far it was
            mail = next(reader.read())
            assert mail.events.column(0).to_pylist() == [4]
            assert mail.subscriptions.tolist() == [7]
            assert mail.number > last


def test_a_client_that_left_too_much_lying_is_told(host: BrokerHost):
    """It gets the newest, and how many events were dropped."""
    with joined(host, "publisher") as publisher, joined(host, "reader") as reader:
        publisher.advertise(1, "TRUE")
        reader.subscribe(1, "n >= 0")
        for n in range(60):
            publisher.publish([{"n": n}])
        found = numbers(reader, 1)
        while found[-1] < 59:
            found += numbers(reader, 1)
        assert found == list(range(reader.dropped, 60))
        assert reader.dropped > 0


def test_a_broker_that_has_nothing_to_do_does_nothing(tmp_path: Path, monkeypatch):
    """Each turn of its thread begins with a look at what has come in: there are few of them."""
    turns: list[int] = []
    look = BrokerHost._next_inputs

    def counted(host: BrokerHost) -> list[object]:
        turns.append(1)
        return look(host)

    monkeypatch.setattr(BrokerHost, "_next_inputs", counted)
    outside = Switchboard()
    host = BrokerHost(SETTINGS, tmp_path, lambda receiver: outside.join("b1", receiver))
    try:
        until(lambda: turns, "it has begun")
        time.sleep(0.2)
        assert len(turns) < 10
    finally:
        host.close()
