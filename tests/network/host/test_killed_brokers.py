"""Eight brokers over Zenoh, clients publishing and reading, and one broker after the other killed: nothing is lost."""

import random
import threading
import time
from collections import Counter

import pytest
from tests.network.host.broker_processes import BrokerProcess, brokers, quick_folder
from tests.server.running import until
from tests.sizes import LONG, SEED

from penstock.network.network_client import NetworkClient

pytestmark = pytest.mark.slow

TREE = {
    "b0": [],
    "b1": ["b0"],
    "b2": ["b0", "b1"],
    "b3": ["b1", "b2"],
    "b4": ["b1", "b2"],
    "b5": ["b2", "b1"],
    "b6": ["b2", "b0"],
    "b7": ["b4", "b3", "b1"],
}
"""Each with the parents that it tries: whichever is killed, the others find together again."""
PUBLISHERS = ("b3", "b5", "b7")
READERS = ("b0", "b4", "b6", "b7")
KINDS = 4


class Publisher:
    """Publishes n = 0, 1, 2 … until it is told to stop, each answered before the next."""

    def __init__(self, client: NetworkClient) -> None:
        self.client = client
        self.published = 0
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._ending.wait(0.02):
            numbers = range(self.published, self.published + 5)
            name = self.client.name
            self.client.publish([{"n": n, "publisher": name, "kind": n % KINDS} for n in numbers])
            self.published += 5

    def stop(self) -> None:
        self._ending.set()
        self._thread.join()


class Reader:
    """Takes whatever comes, and counts each event."""

    def __init__(self, client: NetworkClient, kind: int) -> None:
        self.client, self.kind = client, kind
        self.got: Counter[tuple[str, int]] = Counter()
        client.subscribe(1, f"kind = {kind} OR n < 10")
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        for mail in self.client.read():
            for event in mail.events.to_pylist():
                self.got[event["publisher"], event["n"]] += 1
            self.client.done(mail)

    def expected(self, publishers: list[Publisher]) -> set[tuple[str, int]]:
        return {
            (one.client.name, n)
            for one in publishers
            for n in range(one.published)
            if n % KINDS == self.kind or n < 10
        }


def reached(network: dict[str, BrokerProcess], names: set[str]) -> bool:
    """Whether a broker that is asked reaches all others."""
    with network["b6"].client("look") as client:
        status = client.status(None)["broker"]
    return {name for one in status["neighbours"] for name in one["reach"]} == names - {"b6"}


def test_nothing_is_lost_whoever_is_killed():
    """Every event reaches every reader whose filter it matches, once, and nobody gets another."""
    chance = random.Random(SEED)
    order = [*TREE] * LONG if LONG > 1 else ["b1", "b7", "b0", "b5"]
    if LONG > 1:
        chance.shuffle(order)
    with quick_folder() as folder, brokers(folder, TREE) as network:
        until(lambda: reached(network, set(TREE)), "all brokers together")
        clients = [network[name].client(f"publisher-{name}") for name in PUBLISHERS]
        for client in clients:
            client.advertise(1, "n >= 0")
        readers = [
            Reader(network[name].client(f"reader-{name}"), kind % KINDS)
            for kind, name in enumerate(READERS)
        ]
        publishers = [Publisher(client) for client in clients]
        for name in order:
            before = sum(one.published for one in publishers)
            network[name].kill()
            time.sleep(chance.random())  # events go on, or wait
            network[name].start()
            until(
                lambda: sum(one.published for one in publishers) > before + 20,  # noqa: B023
                f"publishing goes on after {name}",
            )
        for one in publishers:
            one.stop()
        for reader in readers:
            expected = reader.expected(publishers)
            until(
                lambda: len(reader.got) >= len(expected),  # noqa: B023
                f"{reader.client.name} has {len(reader.got)} of {len(expected)}",
            )
        for reader in readers:
            assert reader.got.keys() == reader.expected(publishers)
            assert set(reader.got.values()) == {1}
        assert all(broker.is_alive for broker in network.values())
        for one in [*publishers, *readers]:
            one.client.close()
