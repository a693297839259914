"""The service as a client of a broker: filters are told to the network, events leave and arrive."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.network.host.broker_processes import BrokerProcess, brokers, quick_folder
from tests.server.browser import browser
from tests.server.running import until
from tests.server.web import SCHEMA, WebService, web_service
from tests.servers import NoServer

pytestmark = pytest.mark.slow

PLACES = {"north": [], "middle": ["north"], "south": ["middle", "north"]}


@pytest.fixture(scope="module")
def network() -> Iterator[dict[str, BrokerProcess]]:
    with quick_folder() as folder, brokers(folder, PLACES, schema=SCHEMA) as found:
        yield found


def part(broker: BrokerProcess, name: str, **more: Any) -> dict[str, Any]:
    return {"broker": broker.name, "at": broker.described["listen"], "name": name, **more}


@contextlib.contextmanager
def service(folder: Path, broker: BrokerProcess, name: str, **more: Any) -> Iterator[WebService]:
    with web_service(folder / name, network=part(broker, name, **more)) as web:
        yield web


def notifications(web: WebService, made: dict[str, Any]) -> list[dict[str, Any]]:
    answer = web.get(f"/v1/feeds/{made['id']}", made["ticket"], params={"offset": "-1"})
    return [one["event"] for one in answer.json()] if answer.status_code == 200 else []


def test_events_cross_the_network(network: dict[str, BrokerProcess], tmp_path: Path):
    """What is published at one service reaches the feed of another, once; what isn't advertised stays."""
    with (
        service(tmp_path, network["north"], "shop", advertise="symbol = 'GOOG'") as shop,
        service(tmp_path, network["south"], "desk") as desk,
    ):
        there = desk.subscribe("price > 500")
        here = shop.subscribe("price > 500")
        assert there["matching"]
        events = [{"symbol": "GOOG", "price": 501.0 + n, "size": n} for n in range(20)]
        assert shop.post("/v1/events", events).status_code == 202
        assert shop.post("/v1/events", {"symbol": "IBM", "price": 900.0}).status_code == 202
        assert shop.post("/v1/events", {"symbol": "GOOG", "price": 5.0}).status_code == 202
        assert desk.post("/v1/events", {"symbol": "GOOG", "price": 999.0}).status_code == 202
        until(lambda: len(notifications(desk, there)) >= 21, "all of them in the feed")
        got = notifications(desk, there)
        assert [one for one in got if one["price"] != 999.0] == events
        until(lambda: len(notifications(shop, here)) >= 21, "the shop's own")
        until(lambda: shop.get("/v1/network").json()["client"]["waiting"] == 0, "all has left")
        assert len(notifications(shop, here)) == 21, "its own events don't come back"
        state = desk.get("/v1/network").json()["client"]
        assert (state["arrived"], state["sent"]) == (20, 0)
        assert len(notifications(desk, there)) == 21


def test_a_service_that_was_away_misses_nothing(network: dict[str, BrokerProcess], tmp_path: Path):
    """Its broker keeps what comes for it; started again, it has each event once, and its filters."""
    with network["north"].client("source") as source:
        source.advertise(1, "TRUE")
        with service(tmp_path, network["south"], "sleeper") as web:
            made = web.subscribe("size >= 100")
            source.publish([{"symbol": "A", "size": 100}])
            until(lambda: len(notifications(web, made)) == 1, "the first")
        source.publish([{"symbol": "B", "size": n} for n in (99, 101, 102)])
        with service(tmp_path, network["south"], "sleeper") as web:
            until(lambda: len(notifications(web, made)) == 3, "those that it has missed")
            source.publish([{"symbol": "C", "size": 103}])
            until(lambda: len(notifications(web, made)) == 4, "and the next")
            assert [one["size"] for one in notifications(web, made)] == [100, 101, 102, 103]


def test_a_broker_that_is_killed_is_waited_for(network: dict[str, BrokerProcess], tmp_path: Path):
    """What is published meanwhile leaves when it is back."""
    with (
        service(tmp_path, network["middle"], "waiter", advertise="TRUE") as web,
        network["north"].client("sink") as sink,
    ):
        sink.subscribe(1, "symbol = 'WAIT'")
        until(lambda: web.get("/v1/network").json()["client"]["settled"] >= 0, "connected")
        network["middle"].kill()
        assert web.post("/v1/events", [{"symbol": "WAIT", "price": 1.0}] * 3).status_code == 202
        network["middle"].start()
        rows = 0
        for mail in sink.read():
            rows += mail.events.num_rows
            sink.done(mail)
            if rows == 3:
                break


def test_a_filter_that_the_network_does_not_know_is_matched_here(
    network: dict[str, BrokerProcess], tmp_path: Path
):
    """It is said which, and why; the others go on."""
    schema = {**SCHEMA, "venue": "string"}
    with web_service(tmp_path, schema=schema, network=part(network["south"], "wider")) as web:
        made = web.subscribe("venue = 'X'")
        assert made["matching"]
        state = web.get("/v1/network").json()["client"]
        assert len(state["refusals"]) == 1
        assert "unknown attribute 'venue'" in state["refusals"][0]
        web.post("/v1/events", {"venue": "X", "price": 1.0})
        until(lambda: len(notifications(web, made)) == 1, "matched here")


def test_without_a_network_there_is_none(tmp_path: Path):
    """The route says so."""
    with web_service(tmp_path) as web:
        assert web.get("/v1/network").json() == {"client": None, "brokers": []}


def test_the_dashboard_draws_the_tree(network: dict[str, BrokerProcess], tmp_path: Path):
    """Each broker is a box, each link a line; a table has what passes; the browser has nothing to complain of."""
    try:
        opened = browser()
        window = opened.__enter__()
    except NoServer as reason:
        pytest.skip(f"no browser: {reason}")
    try:
        with service(tmp_path, network["middle"], "drawn", advertise="TRUE") as web:
            web.subscribe("price > 500")
            web.post("/v1/events", [{"symbol": "GOOG", "price": 600.0}] * 3)
            window.resize(1300, 1000)
            window.open(f"{web.url}/#network")
            drawn = (
                "return [...document.querySelectorAll('svg.network .name')].map(e => e.textContent)"
            )
            window.wait(lambda: sorted(window.run(drawn)) == sorted(PLACES))
            window.wait(lambda: "(parent)" in window.text("network-tree"))
            lines = "return document.querySelectorAll('svg.network line.link:not(.down)').length"
            assert window.run(lines) == 2
            assert "This service is drawn at middle" in window.text("network-tree")
            window.run("document.getElementById('network').scrollIntoView({behavior: 'instant'})")
            window.picture(tmp_path / "network.png")
            assert window.complaints() == []
    finally:
        opened.__exit__(None, None, None)
