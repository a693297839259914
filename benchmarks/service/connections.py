"""Many readers at once: what an open connection costs, and how long it takes until all have heard of an event."""

import asyncio
import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.benchmark import Section, Step
from benchmarks.service.served import Connection, Served, serving
from benchmarks.sheets import Sheet
from penstock.base.errors import PenstockError

_AT_ONCE = 200  # connections that are being opened
_FEEDS = 100  # that they read


@dataclass(frozen=True, slots=True)
class Connected:
    """Readers by server-sent events that are connected at once."""

    connections: int
    kilobytes: float  # of the service's memory, each
    idle_cpu: float  # share of a core that all of them take while nothing happens
    all_told_ms: float  # from publication until the last of them has the event

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def measure(counts: Sequence[int], step: Step) -> Section:
    """Open connections, wait, and publish one event for all of them."""
    found = []
    for count in counts:
        step(f"{count:,} readers")
        with serving("live") as service:
            found.append(asyncio.run(_connect(service, count)))
    return Section("connections", found, [_sheet(found)])


async def _connect(service: Served, count: int) -> Connected:
    await service.wait_ready()
    feeds = [await service.subscribe("price > 5") for _ in range(_FEEDS)]
    before = service.memory
    room = asyncio.Semaphore(_AT_ONCE)
    opened = [_open(service, feeds[n % _FEEDS], room) for n in range(count)]
    connections = await asyncio.gather(*opened)
    await asyncio.sleep(2)
    memory, cpu, moment = service.memory, service.cpu, time.monotonic()
    await asyncio.sleep(5)
    idle = (service.cpu - cpu) / (time.monotonic() - moment)
    began = time.monotonic()
    told = asyncio.gather(*[_wait_for_event(one) for one in connections])
    publisher = await service.connect()
    await publisher.ask("POST", "/v1/events", json.dumps({"n": 1, "price": 7.0}).encode())
    async with asyncio.timeout(300):
        await told
    took = time.monotonic() - began
    for one in connections:
        one.close()
    return Connected(count, (memory - before) / count / 1000, idle, took * 1000)


async def _open(service: Served, feed: dict[str, Any], room: asyncio.Semaphore) -> Connection:
    async with room:
        connection = await service.connect()
        path, bearer = (
            f"{feed['feed']}?live=sse&offset={feed['offset']}",
            f"Bearer {feed['ticket']}",
        )
        await connection.send("GET", path, Authorization=bearer)
        status, _ = await connection.read_head()
        if status != 200:
            raise PenstockError(f"the service answers {status} to a reader")
        return connection


async def _wait_for_event(connection: Connection) -> None:
    while b'"event"' not in await connection.reader.readline():
        pass


def _sheet(found: Sequence[Connected]) -> Sheet:
    rows = [
        (
            f"{one.connections:,}",
            f"{one.kilobytes:,.1f}",
            f"{one.idle_cpu:.1%}",
            f"{one.all_told_ms:,.0f}",
        )
        for one in found
    ]
    columns = ("readers", "KB each", "idle, of a core", "all have an event, ms")
    remark = "server-sent events, live matching. Mercure's makers say 40,000 connections on a small machine of theirs"
    return Sheet("Readers connected", columns, tuple(rows), (remark,))
