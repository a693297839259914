"""A network of brokers as a sink: what a pipeline's filters match reaches the network's clients, once."""

from collections.abc import Iterator

import pytest
from tests.network.host.broker_processes import BrokerProcess, brokers, quick_folder
from tests.pipeline.scenes import forget_commit, market, pipeline, run, tick, write_events

from penstock import NetworkSink, PipelineError

pytestmark = pytest.mark.spark

SCHEMA = {"id": "bigint", "symbol": "string", "price": "double"}
COLUMNS = ["notification_id", "kind", "subscriptions", "subscribers", "position", "event"]


@pytest.fixture(scope="module")
def network() -> Iterator[dict[str, BrokerProcess]]:
    tree: dict[str, list[str]] = {"north": [], "south": ["north"]}
    with quick_folder() as folder, brokers(folder, tree, schema=SCHEMA) as found:
        yield found


def at(broker: BrokerProcess) -> str:
    place: str = broker.described["listen"][0]
    return place


def test_events_reach_the_network_once(spark, tmp_path, network):
    """At the other broker, if a filter there wants them; a replay brings none again."""
    subs = market()
    subs.subscribe("alice", "price > 5")
    subs.subscribe("bob", "symbol = 'B'")
    write_events(tmp_path / "in", "1.json", [tick(1, price=6), tick(2, "B", 7), tick(3, "A", 1)])
    sink = NetworkSink("south", at(network["south"]), advertise="id > 0")

    def go():
        return run(pipeline(tmp_path, spark, subs, sink=sink)).batches[-1].report

    with network["north"].client("reader") as reader:
        reader.subscribe(1, "price >= 6")
        assert go().notifications == 3
        forget_commit(tmp_path, 0)
        assert go().replayed
        with network["south"].client("last") as last:
            last.advertise(1, "TRUE")
            last.publish([{"id": 99, "price": 6.0}])
        got: list[int] = []
        for mail in reader.read():
            got += mail.events.column("id").to_pylist()
            reader.done(mail)
            if 99 in got:
                break
    assert sorted(got) == [1, 2, 99]


def test_what_cannot_work_is_said_before_it_starts(spark, network):
    """A filter that the network refuses, rows without events, a broker that isn't there, a name that can't be."""
    place = at(network["south"])
    with pytest.raises(PipelineError, match="unknown attribute 'prize'"):
        NetworkSink("south", place, advertise="prize > 5").check(spark, COLUMNS)
    with pytest.raises(PipelineError, match="these rows have no event"):
        NetworkSink("south", place).check(spark, COLUMNS[:-1])
    with pytest.raises(PipelineError, match=r"no broker answers at tcp/127\.0\.0\.1:1"):
        NetworkSink("south", "tcp/127.0.0.1:1").check(spark, COLUMNS)
    with pytest.raises(PipelineError, match="can't be a name"):
        NetworkSink("so uth", place)
    with pytest.raises(PipelineError, match="patience 'long'"):
        NetworkSink("south", place, patience="long")
