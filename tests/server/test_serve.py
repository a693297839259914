"""`penstock serve` as a person starts it, with the live matcher: first steps, its end, what it refuses, kills."""

import json
import os
import random
import re
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.server.forked import Forked
from tests.server.running import Publisher, RunningService, numbers, running, until
from tests.sizes import PATIENCE, SEED, SERVICE_KILLS

LIVE = ("--match", "live")


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    """The program itself; those of other tests are forked."""
    found = RunningService(tmp_path_factory.mktemp("live"), *LIVE)
    try:
        yield found.start(afresh=True)
    finally:
        found.close()


@dataclass(frozen=True)
class Refused:
    """The end of a service that didn't start."""

    code: int
    said: str


def serve(folder: Path, *words: str, **environment: str) -> Refused:
    """Run a service that isn't going to start; what it says."""
    said = folder / "said.txt"
    with said.open("wb") as log, open(os.devnull, "r+b") as nothing:
        process = Forked(
            "penstock.cli", ["serve", *words], (nothing, nothing, log), folder, **environment
        )
    return Refused(process.wait(PATIENCE), said.read_text())


# --- first steps ----------------------------------------------------------------------------------


def _shell(typed: str, options: str) -> str:
    """What a line shows that was typed, with more options for curl."""
    command = typed.replace("curl ", f"curl {options} ", 1)
    return subprocess.run(command, shell=True, capture_output=True, text=True).stdout


def test_it_says_where_to_look_and_what_to_type(service: RunningService):
    said = service.said()
    assert f"at {service.url}. Ctrl-C stops it." in said
    subscribe, publish, receive = re.findall(r"^  \w+ +(curl .*)$", said, re.MULTILINE)
    made = json.loads(_shell(subscribe, "-s"))
    assert json.loads(_shell(publish, "-s"))["accepted"] == 1
    typed = receive.replace("/ID?", f"/{made['id']}?").replace("TICKET", made["ticket"])
    until(lambda: "GOOG" in _shell(typed, "-s --max-time 1"), f"what {typed} shows")


def test_what_is_published_is_in_the_feed_of_who_wants_it(service: RunningService):
    feed = service.subscribe("price > 500")
    other = service.subscribe("price < 500", "bob")
    told = service.publish({"symbol": "GOOG", "price": 550.0}, {"symbol": "MSFT", "price": 3.0})
    (got,) = feed.wait_for(1)
    assert got["id"] == f"{told['first']}-{feed.id}"
    assert got["event"] == {"symbol": "GOOG", "price": 550.0}
    assert [one["event"]["symbol"] for one in other.wait_for(1)] == ["MSFT"]


def test_a_filter_on_what_nobody_has_published_yet_matches_when_somebody_does(
    service: RunningService,
):
    """The schema is learned: a new attribute is matched from its first event on."""
    feed = service.subscribe("brand_new = 'yes'")
    service.publish({"brand_new": "yes"})
    assert feed.wait_for(1)[0]["event"] == {"brand_new": "yes"}


def test_changes_of_tables_are_refused_where_nothing_matches_them(service: RunningService):
    assert service.post("/v1/tables/Stocks", {"Symbol": "GOOG"}).status_code in (404, 409)


_STALLING = """
from pathlib import Path
from penstock import operator

@operator("stalls", timeout=None)
def stalls(text: str) -> bool:
    while not Path("go").exists():
        sum(range(1000))
    return True
"""


def test_an_operator_that_computes_for_long_keeps_no_request_waiting(tmp_path: Path):
    """It computes until the test lets it go: requests are answered meanwhile, and it matches afterwards."""
    (tmp_path / "stalling.py").write_text(_STALLING)
    (tmp_path / "service.yaml").write_text("match: live\noperators: stalling\n")
    with running(tmp_path, "service.yaml") as service:
        feed = service.subscribe("stalls(symbol)")
        service.publish({"symbol": "GOOG"})
        for n in range(20):
            service.publish({"symbol": str(n)})
            assert service.get("/healthz").status_code == 200
        assert feed.read() == 0
        (tmp_path / "go").touch()
        assert len(feed.wait_for(21)) == 21


# --- its end --------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_ends_in_order_with_readers_and_goes_on_when_it_is_started_again(
    tmp_path: Path, number: int
):
    with running(tmp_path, *LIVE) as service:
        feed = service.subscribe("n >= 0")
        service.publish({"n": 1, "producer": "p"})
        feed.wait_for(1)
        ended: list[str] = []

        def stream() -> None:
            with httpx.stream(
                "GET",
                f"{service.url}/v1/feeds/{feed.id}",
                params={"offset": feed.offset, "live": "sse"},
                headers=feed.headers,
                timeout=PATIENCE,
            ) as answer:
                ended.extend(answer.iter_lines())
            ended.append("over")

        reader = threading.Thread(target=stream)
        reader.start()
        until(lambda: service.get("/v1/status").json()["readers"].get("sse"), "somebody reads")
        service.publish({"n": 2, "producer": "p"})
        assert service.stop(number) == 0
        reader.join(PATIENCE)
        assert ended[-1] == "over"
        lines = service.said().splitlines()
        assert lines[-1] == "stopped"
        assert not any("Traceback" in line or "rror" in line for line in lines)
        service.start()
        service.publish({"n": 3, "producer": "p"})
        assert numbers(feed.wait_for(3), "p") == [1, 2, 3]


def test_a_second_signal_does_not_wait(tmp_path: Path):
    """Somebody who sends a request for ever holds up its end; a second Ctrl-C ends it."""
    with (
        running(tmp_path, *LIVE) as service,
        socket.create_connection(("localhost", service.port)) as slow,
    ):
        slow.sendall(b"POST /v1/events HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{")
        time.sleep(0.2)
        os.kill(service.pid, signal.SIGINT)
        until(lambda: "a second Ctrl-C" in service.said(), "it says so")
        assert service.stop(signal.SIGINT) in (0, 130)


# --- what it refuses ------------------------------------------------------------------------------


def test_a_second_service_on_the_same_folder_is_refused(service: RunningService, tmp_path: Path):
    data = service.folder / "data"
    found = serve(tmp_path, *LIVE, "--port", "0", "--data", str(data))
    assert found.code == 1
    assert f"data folder {data} is in use by process {service.pid}" in found.said
    assert "--data" in found.said
    assert len(found.said.splitlines()) == 1


def test_a_port_that_is_taken_is_said_in_one_line(service: RunningService, tmp_path: Path):
    found = serve(tmp_path, *LIVE, "--port", str(service.port))
    assert found.code == 1
    said = f"port {service.port}: address already in use. Stop what uses it, or give another port"
    assert said in found.said
    assert len(found.said.splitlines()) == 1
    assert not (tmp_path / "penstock-data").exists()


def test_an_address_of_another_machine_is_said_to_be_the_trouble_and_not_the_port(tmp_path: Path):
    found = serve(tmp_path, *LIVE, "--host", "203.0.113.1")
    assert (found.code, len(found.said.splitlines())) == (1, 1)
    assert "host '203.0.113.1': cannot assign requested address" in found.said
    assert "port" not in found.said


def test_without_java_it_says_so_before_anything_starts(tmp_path: Path):
    found = serve(tmp_path, "--port", "0", JAVA_HOME=str(tmp_path))
    assert found.code == 1
    assert "Spark needs Java 17 or later" in found.said
    assert len(found.said.splitlines()) == 1


def test_others_may_reach_it_only_if_there_are_keys(tmp_path: Path):
    found = serve(tmp_path, *LIVE, "--port", "0", "--host", "0.0.0.0")
    assert found.code == 1
    assert "there are no keys" in found.said
    assert "penstock keys add" in found.said


def test_all_that_is_wrong_with_a_file_is_said_at_once(tmp_path: Path):
    (tmp_path / "service.yaml").write_text("prt: 5\nmatch: life\nlog: {format: kafka}\n")
    found = serve(tmp_path, "service.yaml")
    assert found.code == 1
    assert "3 problems in the service description" in found.said
    for problem in ("did you mean 'port'?", "did you mean 'live'?", "missing key 'log.servers'"):
        assert problem in found.said


def test_a_file_can_be_checked_without_starting_anything(tmp_path: Path):
    (tmp_path / "service.yaml").write_text("match: live\nschema: {price: double}\n")
    found = serve(tmp_path, "service.yaml", "--check")
    assert (found.code, found.said.count("fine")) == (0, 1)
    assert not (tmp_path / "penstock-data").exists()


# --- kills ----------------------------------------------------------------------------------------


def test_whatever_is_killed_each_event_is_told_once_and_in_order(tmp_path: Path):
    """Two producers, two readers, and kill -9 of the service at random moments."""
    draw = random.Random(SEED)
    with running(tmp_path, *LIVE) as service:
        feeds = [service.subscribe("n >= 0"), service.subscribe("even", "bob")]
        ending = threading.Event()
        readers = [
            threading.Thread(target=read_on, args=(feed, ending), daemon=True) for feed in feeds
        ]
        for reader in readers:
            reader.start()
        with Publisher(service, "a") as a, Publisher(service, "b", pause=0.01) as b:
            for _ in range(SERVICE_KILLS):
                before = len(a.answered)
                wanted = before + draw.randrange(1, 60)
                until(lambda: len(a.answered) >= wanted, "more is published")  # noqa: B023
                service.kill()
                service.start(ready=False)
        published = {"a": a.answered, "b": b.answered}
        total = sum(map(len, published.values()))
        until(lambda: len(feeds[0].got) >= total, "all is told")
        until(lambda: len(feeds[1].got) >= sum(_evens(p) for p in published.values()), "evens")
        ending.set()
        for reader in readers:
            reader.join()
        for name, answered in published.items():
            assert numbers(feeds[0].got, name) == answered
            assert numbers(feeds[1].got, name) == [n for n in answered if n % 2 == 0]
        for feed in feeds:
            ids = [one["id"] for one in feed.got]
            assert len(ids) == len(set(ids))


def _evens(answered: list[int]) -> int:
    return sum(n % 2 == 0 for n in answered)


def read_on(feed: Any, ending: threading.Event) -> None:
    while not ending.is_set():
        if not feed.read("long-poll"):
            time.sleep(0.05)


# --- the program itself ---------------------------------------------------------------------------


def test_the_program_ends_in_order(service: RunningService):
    """The last test of this file: it ends the service of the others."""
    assert service.stop() == 0
    assert service.said().splitlines()[-1] == "stopped"
