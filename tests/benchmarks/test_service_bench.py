"""python -m benchmarks service: small runs of each experiment, against a real service.

The peer is built by Go from modules that must be fetched, so it is part of `make test-long` only; what it does that
matters here, a small server of ours does as well.
"""

import asyncio
import contextlib

import pytest
from tests.sizes import LONG

import penstock
from benchmarks.service import connections, filling, mercure, publishing, storing, waiting

_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n:\n"


def quiet(_):
    return


@pytest.fixture(autouse=LONG == 1)
def no_peer(monkeypatch):
    @contextlib.contextmanager
    def refuse():
        raise mercure.NoPeer("not in these tests")
        yield

    monkeypatch.setattr(mercure, "mercure", refuse)


def with_peer(*rows):
    """What is there if there is a peer."""
    return () if LONG == 1 else rows


def test_publishing_and_latency(monkeypatch):
    """Everything that was accepted reaches the reader."""
    found = publishing.measure(["live"], 0.3, quiet)
    rows = [(one.match, one.batch) for one in found.figures]
    assert rows == [("live", 1), ("live", 100), *with_peer(("Mercure", 1))]
    assert all(one.events_per_second > 0 for one in found.figures)
    monkeypatch.setattr(waiting, "_WARM_UP", 0.2)
    reached = waiting.measure(["live"], 0.5, quiet).figures
    sides = [one.match for one in reached]
    assert sides == ["live", *with_peer("Mercure", "live")]
    assert all(one.events > 0 and 0 < one.p50_ms <= one.p99_ms for one in reached)


def test_readers():
    """All of them hear of an event."""
    found = connections.measure([30], quiet).figures
    assert [one.what for one in found] == ["Penstock", *with_peer("Mercure")]
    assert all(one.connections == 30 and one.all_told_ms > 0 for one in found)


def test_feeds(monkeypatch):
    """A reader that was away gets all that it missed."""
    monkeypatch.setattr(storing, "_ROWS", 100)
    monkeypatch.setattr(storing, "AWAY", 500)
    found = storing.measure(quiet).figures
    assert [one.notifications for one in found] == [131 * 2000, 2000, 500]


def test_through(monkeypatch):
    """Nobody gets more or less than was published; without a peer, the figures of the service are there."""
    for name, value in {"_SUBSCRIPTIONS": 7, "_EVENTS": 300, "_WARM_UP": 100, "AWAY": 500}.items():
        monkeypatch.setattr(filling, name, value)
    monkeypatch.setattr(filling, "_MERCURE", 2_400)
    monkeypatch.setattr(filling, "_MERCURE_MANY", 64)
    found = filling.measure(["live"], quiet)
    own = [("live: into feeds", 2_100), ("live: catch-up over HTTP", 500)]
    peer = with_peer(
        ("Mercure: into its history", 2_400),
        ("Mercure: the same, for many topics", 448),
        ("Mercure: catch-up over HTTP", 2_400),
    )
    assert [(one.what, one.notifications) for one in found.figures] == [*own, *peer]
    (sheet,) = found.sheets
    assert LONG > 1 or "no Mercure hub: not in these tests" in sheet.remarks


async def read_from_hub(kept, gives):
    """Catch up with a server that keeps updates, and gives so many of them to a connection, which it leaves open."""

    async def answer(reader, writer):
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        last = head.partition("last-event-id: ")[2].splitlines()[0]
        first = 0 if last == "earliest" else int(last) + 1
        writer.write(_HEAD)
        for n in range(first, min(first + gives, kept)):
            writer.write(b"id: %d\ndata: {}\n\n" % n)
        await reader.read()  # until the reader goes
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        hub = mercure.Hub(None, server.sockets[0].getsockname()[1])
        return await hub.catch_up(kept)


def test_a_reader_of_a_hub_goes_on_after_a_page():
    """A hub gives a thousand updates of its history, and then says nothing more."""
    assert asyncio.run(read_from_hub(2_500, gives=1_000)) > 0


def test_a_hub_that_falls_silent_is_no_peer(monkeypatch):
    """It must not hold up the figures that are there already."""
    monkeypatch.setattr(mercure, "_CATCH_UP", 0.3)
    with pytest.raises(mercure.NoPeer, match=r"10 of 2,500 updates came in 0 s"):
        asyncio.run(read_from_hub(2_500, gives=10))


async def listen_to(told):
    """Wait for an event on a connection that ends."""

    async def answer(_, writer):
        writer.write(told)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        hub = mercure.Hub(None, server.sockets[0].getsockname()[1])
        await connections._wait_for_event(await hub.connect())


def test_a_reader_whose_connection_ends_does_not_wait_for_ever():
    asyncio.run(listen_to(b'data: {"event": 1}\n'))
    with pytest.raises(penstock.PenstockError, match="before the event came"):
        asyncio.run(listen_to(b"data: {}\n"))
