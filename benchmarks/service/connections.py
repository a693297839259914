"""Many readers at once: what an open connection costs, and how long it takes until all have heard of an event.

A Mercure hub in the same run, if it can be had, has as many readers of one topic.
"""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.benchmark import Section, Step
from benchmarks.service import mercure
from benchmarks.service.served import Connection, Served, Server, serving
from benchmarks.sheets import Sheet
from penstock.base.errors import PenstockError

_AT_ONCE = 200  # connections that are being opened
_FEEDS = 100  # that they read


@dataclass(frozen=True, slots=True)
class Connected:
    """Readers by server-sent events that are connected at once."""

    what: str
    connections: int
    kilobytes: float  # of the server's memory, each
    idle_cpu: float  # share of a core that all of them take while nothing happens
    all_told_ms: float  # from publication until the last of them has the event

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


Open = Callable[[int], Awaitable[Connection]]
"""Connect a reader, by its number."""


def measure(counts: Sequence[int], step: Step) -> Section:
    """Open connections, wait, and publish one event for all of them."""
    found: list[Connected] = []
    remarks = ["server-sent events; the service matches live"]
    for count in counts:
        step(f"{count:,} readers")
        with serving("live") as service:
            found.append(asyncio.run(_connect(service, count)))
    try:
        for count in counts:
            step(f"a Mercure hub: {count:,} readers")
            with mercure.mercure() as hub:
                found.append(asyncio.run(_connect_to_peer(hub, count)))
    except mercure.NoPeer as reason:
        remarks.append(f"no Mercure hub: {reason}")
    return Section("connections", found, [_sheet(found, remarks)])


async def _connect(service: Served, count: int) -> Connected:
    await service.wait_ready()
    feeds = [await service.subscribe("price > 5") for _ in range(_FEEDS)]

    async def read(number: int) -> Connection:
        feed, connection = feeds[number % _FEEDS], await service.connect()
        path = f"{feed['feed']}?live=sse&offset={feed['offset']}"
        await connection.send("GET", path, Authorization=f"Bearer {feed['ticket']}")
        status, _ = await connection.read_head()
        if status != 200:
            raise PenstockError(f"the service answers {status} to a reader")
        return connection

    async def publish() -> None:
        connection = await service.connect()
        await connection.ask("POST", "/v1/events", json.dumps({"n": 1, "price": 7.0}).encode())

    return await _measure(service, "Penstock", count, read, publish)


async def _connect_to_peer(hub: mercure.Hub, count: int) -> Connected:
    async def read(number: int) -> Connection:
        return await hub.listen()

    async def publish() -> None:
        event = json.dumps({"event": {"n": 1, "price": 7.0}})
        await hub.publish(await hub.connect(), event)

    return await _measure(hub, "Mercure", count, read, publish)


async def _measure(
    server: Server, what: str, count: int, read: Open, publish: Callable[[], Awaitable[None]]
) -> Connected:
    before = server.memory
    room = asyncio.Semaphore(_AT_ONCE)

    async def connect(number: int) -> Connection:
        async with room:
            return await read(number)

    connections = await asyncio.gather(*[connect(n) for n in range(count)])
    await asyncio.sleep(2)
    memory, cpu, moment = server.memory, server.cpu, time.monotonic()
    await asyncio.sleep(5)
    idle = (server.cpu - cpu) / (time.monotonic() - moment)
    began = time.monotonic()
    told = asyncio.gather(*[_wait_for_event(one) for one in connections])
    await publish()
    async with asyncio.timeout(300):
        await told
    took = time.monotonic() - began
    for one in connections:
        one.close()
    return Connected(what, count, (memory - before) / count / 1000, idle, took * 1000)


async def _wait_for_event(connection: Connection) -> None:
    while b'"event"' not in (line := await connection.reader.readline()):
        if not line:
            raise PenstockError("the connection of a reader was ended before the event came")


def _sheet(found: Sequence[Connected], remarks: Sequence[str]) -> Sheet:
    rows = [
        (
            one.what,
            f"{one.connections:,}",
            f"{one.kilobytes:,.1f}",
            f"{one.idle_cpu:.1%}",
            f"{one.all_told_ms:,.0f}",
        )
        for one in found
    ]
    columns = ("", "readers", "KB each", "idle, of a core", "all have an event, ms")
    return Sheet("Readers connected", columns, tuple(rows), tuple(remarks))
