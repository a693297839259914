"""`penstock serve` on Spark: all kinds of subscription, a schema that grows, kills, and the change from live and back.

One service for all tests of this file: it is started, killed and started again on the same folder, live at first, then
on Spark, and live at the end.
"""

import json
import random
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.server.running import (
    Publisher,
    RunningService,
    is_alive,
    kill,
    numbers,
    until,
)
from tests.sizes import LONG, SEED, SERVICE_KILLS

import penstock

pytestmark = pytest.mark.slow

LIVE = "match: live\nmetadata: true\n"
ON_SPARK = """
trigger: 1 second
digests: 1 second
metadata: true
catalog:
  tables:
    Stocks: {schema: {Symbol: string, PER: double}, key: Symbol}
    Reviews: {schema: {Id: bigint, Symbol: string, Rating: double}, key: Id}
  edges: [[Reviews, Stocks, Symbol]]
spark: {master: "local[2]"}
"""
SELECT = "SELECT * FROM Stocks JOIN Reviews USING (Symbol) WHERE PER > 45 AND Rating > 4"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    found = RunningService(tmp_path_factory.mktemp("spark"), "service.yaml")
    _describe(found, LIVE)
    try:
        yield found.start()
    finally:
        found.close()


def _describe(service: RunningService, settings: str) -> None:
    """What it is to be when it is started next."""
    (service.folder / "service.yaml").write_text(settings)


class Told:
    """Two feeds from their beginning, and what was published that is for them."""

    def __init__(self, service: RunningService) -> None:
        self._feeds = [service.subscribe("n >= 0"), service.subscribe("even", "bob")]
        self._published: dict[str, list[int]] = {}

    def check(self, *publishers: Publisher) -> None:
        """All that these and those before have published is told once, and in order."""
        self._published |= {one.name: one.answered for one in publishers}
        every, evens = self._feeds
        every.wait_for(sum(map(len, self._published.values())))
        evens.wait_for(sum(n % 2 == 0 for answered in self._published.values() for n in answered))
        for name, answered in self._published.items():
            assert numbers(every.got, name) == answered
            assert numbers(evens.got, name) == [n for n in answered if n % 2 == 0]
        for feed in self._feeds:
            ids = [one["id"] for one in feed.got]
            assert len(ids) == len(set(ids))


@pytest.fixture(scope="module")
def told(service: RunningService) -> Told:
    return Told(service)


def _wait_for_more(publisher: Publisher, count: int) -> None:
    wanted = len(publisher.answered) + count
    until(lambda: len(publisher.answered) >= wanted, f"{count} more events")


def test_it_changes_to_spark_without_loss_or_doubling(service: RunningService, told: Told):
    """Killed in the middle, with events that the live matcher has matched, has half matched, and has not seen."""
    with Publisher(service, "before", pause=0.01) as publisher:
        _change(service, publisher, ON_SPARK)
    told.check(publisher)


def _change(service: RunningService, publisher: Publisher, settings: str) -> None:
    _wait_for_more(publisher, 20)
    service.kill()
    _describe(service, settings)
    service.start(ready=False)
    _wait_for_more(publisher, 40)


def test_filters_meet_events(service: RunningService):
    feed = service.subscribe("price > 500", metadata={"email": "a@example.org"})
    plain = service.subscribe("price > 500", "bob")
    told = service.publish({"symbol": "GOOG", "price": 550.0}, {"symbol": "MSFT", "price": 3.0})
    (got,) = feed.wait_for(1)
    assert got["metadata"] == {"email": "a@example.org"}
    assert "metadata" not in plain.wait_for(1)[0]
    assert got["id"] == f"{told['first']}-{feed.id}"
    assert got["kind"] == "filter"
    assert got["event"] == {"symbol": "GOOG", "price": 550.0}


def test_an_attribute_that_is_new_is_matched_from_its_first_event_on(service: RunningService):
    """Spark's query is started anew with the wider schema before the record that brought it is read."""
    feed = service.subscribe("size > 5")
    service.publish({"symbol": "A", "size": 6})
    service.publish({"symbol": "B", "size": 7.5})  # and a wider type of an attribute
    assert [one["event"]["symbol"] for one in feed.wait_for(2)] == ["A", "B"]


def test_a_digest_has_what_was_gathered_while_the_schema_grew(service: RunningService):
    feed = service.subscribe(
        "price > 700", pace="digest per 5 seconds", metadata={"email": "a@example.org"}
    )
    first = service.publish({"price": 701})["first"]
    second = service.publish({"price": 702.5, "venue": {"country": "NL"}})["first"]
    until(
        lambda: feed.read("long-poll") >= 0 and sum(d["digest"]["count"] for d in feed.got) >= 2,
        f"digests: {feed.got}",
    )
    for one in feed.got:
        assert one["kind"] == "digest"
        assert one["metadata"] == {"email": "a@example.org"}
        assert one["digest"]["since"] < one["digest"]["until"]
    inside = [entry for one in feed.got for entry in one["digest"]["notifications"]]
    assert [entry.pop("published") for entry in inside if "published" in entry] != []
    assert inside == [
        {"id": f"{first}-{feed.id}", "event": {"price": 701.0}},
        {"id": f"{second}-{feed.id}", "event": {"price": 702.5, "venue": {"country": "NL"}}},
    ]


@pytest.fixture(scope="module")
def client(service: RunningService) -> Iterator[penstock.Client]:
    with penstock.Client(service.url, patience="20 minutes") as found:
        yield found


class Joined:
    """Somebody with a view of a select-join, in a file; and whoever changes its tables."""

    def __init__(self, service: RunningService, client: penstock.Client) -> None:
        self.client, self.file = client, service.folder / "mine.view"
        self.mine = client.subscribe("alice", SELECT, metadata={"email": "a@example.org"})
        self.rows: set[tuple[str, float, int, float]] = set()

    def publish(self, symbol: str, per: float, number: int, rating: float) -> None:
        self.client.publish_changes("Stocks", {"Symbol": symbol, "PER": per})
        self.client.publish_changes("Reviews", [{"Id": number, "Symbol": symbol, "Rating": rating}])
        assert self.client.flush().accepted >= 2
        if per > 45 and rating > 4:
            self.rows.add((symbol, per, number, rating))

    def check(self) -> None:
        """The view in the file becomes what the SELECT gives."""
        with self.client.view(self.mine.id, self.mine.ticket, store=self.file) as view:

            def rows() -> set[tuple[str, float, int, float]]:
                found = view.catch_up().rows().to_pylist()
                return {(r["Symbol"], r["PER"], r["Id"], r["Rating"]) for r in found}

            until(lambda: rows() == self.rows, f"{self.rows}, not {rows()}")


@pytest.fixture(scope="module")
def joined(service: RunningService, client: penstock.Client) -> Joined:
    return Joined(service, client)


def test_select_joins_meet_changes_of_tables(joined: Joined):
    """By the client: changes are published, and its view is what the SELECT gives. The service tells it the tables."""
    joined.publish("GOOG", 50.0, 1, 4.5)
    joined.publish("MSFT", 40.0, 2, 5.0)
    joined.check()
    with joined.client.follow(joined.mine.id, joined.mine.ticket, live=None) as feed:
        got = list(feed)
    assert {one.kind for one in got} == {"select-join"}
    assert all(one.metadata == {"email": "a@example.org"} for one in got)
    assert not any("MSFT" in json.dumps(one.content) for one in got)


def test_tree_patterns_meet_documents_in_xml_and_in_json(client: penstock.Client):
    mine = client.subscribe("alice", "//item[author{val}]")
    client.publish_document("<news><item><author>Ann</author></item></news>")
    client.publish_document('{"item": {"author": "Bob"}}')
    assert client.flush().accepted == 2
    with client.follow(mine.id, mine.ticket) as feed:
        got = [next(feed) for _ in range(2)]
    assert {one.kind for one in got} == {"tree-pattern"}
    assert all(name in json.dumps([one.document for one in got]) for name in ("Ann", "Bob"))


def test_segments_go_when_spark_has_read_them(service: RunningService):
    feed = service.subscribe("price > 900")
    service.publish({"price": 901.0})
    feed.wait_for(1)
    events = service.folder / "data" / "published" / "events"
    until(lambda: not list(events.glob("*.jsonl")), "what was read is deleted")


def test_figures_of_micro_batches_reach_the_service(service: RunningService):
    def filters() -> dict[str, Any] | None:
        state = service.get("/v1/status").json()["matching"]
        found: dict[str, Any] | None = state["latest"].get("filter")
        return found

    found = until(filters, "a report")
    assert found["snapshot"] >= 1
    assert found["sequence"] >= 1


# --- kills ----------------------------------------------------------------------------------------


def _kill_service(service: RunningService) -> bool:
    child = service.child()
    service.kill()
    if child is not None:
        until(lambda: not is_alive(child), "Spark's process ends with the service")
    service.start(ready=False)
    return True


STRIKES: dict[str, Callable[[RunningService], bool]] = {
    "the JVM": lambda service: kill(service.jvm()),
    "a worker": lambda service: kill(service.worker()),
    "Spark's process": lambda service: kill(service.child()),
    "the service": _kill_service,
}


@pytest.mark.skipif(LONG == 1, reason="part of make test-long")
def test_whatever_is_killed_each_event_is_told_once_and_in_order(
    service: RunningService, told: Told
):
    """The JVM, a worker, the process with Spark, the service, and random ones.

    In `make test` the service is killed when it changes to Spark and from it, and Spark's JVM when that begins.
    """
    draw = random.Random(SEED)
    feed = service.subscribe("n >= 0")
    with Publisher(service, "a", pause=0.02) as a, Publisher(service, "b", pause=0.05) as b:
        for what in (*STRIKES, *draw.choices(list(STRIKES), k=SERVICE_KILLS - len(STRIKES))):
            until(lambda: feed.read("long-poll"), f"something is told before {what} is killed")
            _wait_for_more(a, draw.randrange(10))
            until(lambda: STRIKES[what](service), f"{what} is there to be killed")  # noqa: B023
    told.check(a, b)


# --- from one side to the other -------------------------------------------------------------------


def test_it_changes_to_live_without_loss_or_doubling(
    service: RunningService, told: Told, joined: Joined
):
    """Killed in the middle, with events that Spark has matched, has half matched, and has not seen.

    Spark matches what is left, of all kinds. Its JVM is killed as soon as it is there, and started again.
    """
    joined.publish("ACME", 60.0, 3, 4.2)
    with Publisher(service, "after", pause=0.01) as publisher:
        _wait_for_more(publisher, 20)
        before = [service.child(), service.jvm()]
        service.kill()
        for pid in before:
            assert pid is not None
            until(lambda: not is_alive(pid), "Spark ends with the service")  # noqa: B023
        _describe(service, LIVE)
        starting = threading.Thread(target=service.start)
        starting.start()
        until(lambda: kill(service.jvm()), "Spark is there to be killed")
        starting.join()
        _wait_for_more(publisher, 40)
    told.check(publisher)


def test_a_view_goes_on_after_all_that(joined: Joined):
    """From its file, by a feed that a service wrote which was killed and started again meanwhile."""
    joined.check()


def test_it_changes_again_and_again(service: RunningService, told: Told):
    """In `make test-long`: there and back."""
    with Publisher(service, "often", pause=0.01) as publisher:
        for settings in (ON_SPARK, LIVE) * (min(LONG, 20) - 1):
            _change(service, publisher, settings)
    told.check(publisher)
