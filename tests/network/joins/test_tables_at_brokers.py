"""Tables at real brokers: they and the publisher are killed, mail is dropped, views stay what DuckDB gives."""

import json
import random
import threading
from pathlib import Path

import pytest
from tests.joins.select_worlds import World, bag, random_select, random_world, result, table_rows
from tests.joins.test_join_view import changed
from tests.network.host.broker_processes import BrokerProcess, brokers, quick_folder
from tests.network.joins.tables_network import change_batch, content
from tests.server.running import until
from tests.sizes import LONG, SEED

from penstock.base.errors import SchemaError
from penstock.joins.catalog import Catalog, Table
from penstock.joins.routed_messages import routed_schema
from penstock.network import NetworkClient, SelectFollower, TablePublisher
from penstock.network.broker_settings import BrokerSettings, Place
from penstock.network.host import BrokerHost, HostLimits
from penstock.network.links.in_process_link import Switchboard

pytestmark = pytest.mark.slow

TREE = {"b0": [], "b1": ["b0"], "b2": ["b0", "b1"]}
CHANGES = 15


class Reader:
    """Follows a select and reads its mail at once."""

    def __init__(self, broker: BrokerProcess, world: World, text: str) -> None:
        self.text = text
        self.client = broker.client(f"reader-{broker.name}")
        self._follower = SelectFollower(self.client, text, world.catalog)
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        for mail in self.client.read():
            with self._lock:
                self._follower.take(mail)
            self.client.done(mail)

    def rows(self) -> list[str]:
        with self._lock:
            return bag(table_rows(self._follower.view.rows()))


class Tables:
    """The tables, and whoever publishes them; `start` it, `stop` it, and again."""

    def __init__(self, broker: BrokerProcess, world: World, rng: random.Random) -> None:
        self._broker, self._world, self._rng = broker, world, rng
        self.start()

    def start(self) -> None:
        self._client = self._broker.client("tables")
        self._publisher = TablePublisher(self._client, self._world.catalog, content(self._world))

    def stop(self) -> None:
        self._publisher.close()
        self._client.close()

    def change(self) -> None:
        for _ in range(CHANGES):
            self._publisher.publish([change_batch(self._world, *changed(self._rng, self._world))])


def wait_for_views(readers: list[Reader], world: World) -> None:
    connection = world.duckdb()
    for reader in readers:
        expected = bag(result(connection, reader.text)[1])
        until(lambda: reader.rows() == expected, reader.text)  # noqa: B023


def test_views_stay_right_whoever_is_killed():
    """Brokers one after the other, then the publisher: it is given its tables again, which have changed meanwhile."""
    rng = random.Random(SEED)
    world = random_world(rng, "star", payload=True)
    described = {"schema": None, "catalog": json.loads(world.catalog.to_json())}
    with quick_folder() as folder, brokers(folder, TREE, **described) as network:
        tables = Tables(network["b1"], world, rng)
        readers = [Reader(network[name], world, random_select(rng, world)) for name in TREE]
        for name in ["b0", "b1"] * LONG:
            wait_for_views(readers, world)
            network[name].kill()
            changing = threading.Thread(target=tables.change)
            changing.start()  # it waits if this is its own broker
            network[name].start()
            changing.join()
        tables.stop()
        changed(rng, world)
        tables.start()
        tables.change()
        wait_for_views(readers, world)
        assert all(broker.is_alive for broker in network.values())
        tables.stop()
        for reader in readers:
            reader.client.close()


def test_whoever_has_missed_mail_asks_for_everything(tmp_path: Path):
    """Most of what comes for a view that nobody reads is dropped: the view is right as soon as it is read."""
    rng = random.Random(SEED)
    world = random_world(rng, "binary")
    text = "SELECT * FROM T0"
    settings = BrokerSettings(Place(0, "b0"), routed_schema(world.catalog))
    outside = Switchboard()
    host = BrokerHost(settings, tmp_path, lambda to: outside.join("b0", to), HostLimits(20_000))
    try:
        with (
            NetworkClient(host.join_here, "b0", "tables") as given,
            NetworkClient(host.join_here, "b0", "late") as late,
            TablePublisher(given, world.catalog, content(world)) as tables,
        ):
            follower = SelectFollower(late, text, world.catalog)
            for _ in range(100):
                tables.publish([change_batch(world, *changed(rng, world))])
            expected = bag(result(world.duckdb(), text)[1])
            until(
                lambda: given.status()["clients"]["mail"]["~late"]["dropped"],
                "more mail than is kept",
            )
            for _ in follower.read():
                if follower.is_complete and bag(table_rows(follower.view.rows())) == expected:
                    break
            assert late.dropped
            follower.leave()
            until(lambda: len(tables) == 0, "nobody follows")
        assert host.failed is None
    finally:
        host.close()


def test_brokers_that_do_not_carry_the_tables_say_so():
    """Whoever publishes or follows tables that aren't in the brokers' catalogue is told before anything is sent."""
    with quick_folder() as folder, brokers(folder, {"b0": []}) as network:
        other = Catalog.of({"A": Table({"k": "int"}, key="k")})
        with network["b0"].client("tables") as client:
            with pytest.raises(SchemaError, match="give the catalogue as `catalog`"):
                TablePublisher(client, other)
            with pytest.raises(SchemaError, match="don't carry these tables"):
                SelectFollower(client, "SELECT * FROM A", other)
