"""How many events a second are accepted, that is on disk: one in a request, and a hundred; beside the matching.

A Mercure hub in the same run, if it can be had, takes updates one in a request.
"""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from benchmarks.benchmark import Section, Step
from benchmarks.service import mercure
from benchmarks.service.served import Connection, Served, Server, serving
from benchmarks.sheets import Sheet, format_verdict
from penstock.base.errors import PenstockError

GOALS = {1: 2_000, 100: 30_000}
"""Events a second, by events of a request."""
_CONNECTIONS = 32
_SUBSCRIPTIONS = 100


@dataclass(frozen=True, slots=True)
class Accepted:
    """Events that were taken."""

    match: str
    batch: int
    events_per_second: float
    p50_ms: float
    p99_ms: float
    cpu_us: float  # of the service's own process, an event

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


Send = Callable[[Connection], Awaitable[bool]]
"""Publish what there is to be published once; whether it was taken."""


def measure(sides: Sequence[str], seconds: float, step: Step) -> Section:
    """Publish as fast as it is answered, on some connections."""
    found = []
    for match in sides:
        with serving(match) as service:
            for batch in GOALS:
                step(f"{match}: {batch} to a request")
                found.append(asyncio.run(_publish(service, match, batch, seconds)))
    remarks = [
        f"{_CONNECTIONS} connections; p50 and p99 of requests; CPU of the server's process, an event"
    ]
    step("a Mercure hub: 1 to a request")
    try:
        with mercure.mercure() as hub:
            found.append(asyncio.run(_publish_to_peer(hub, seconds)))
    except mercure.NoPeer as reason:
        remarks.append(f"no Mercure hub: {reason}")
    return Section("publish", found, [_sheet(found, remarks)])


async def _publish(service: Served, match: str, batch: int, seconds: float) -> Accepted:
    await service.wait_ready()
    for number in range(_SUBSCRIPTIONS):
        await service.subscribe(f"price > {900 + number} AND symbol = 'S{number}'")
    body = _body(batch)

    async def send(connection: Connection) -> bool:
        answer = await connection.ask("POST", "/v1/events", body)
        if answer.status == 429:
            await asyncio.sleep(0.05)
        elif answer.status != 202:
            raise PenstockError(f"the service answers {answer.status}: {answer.body.decode()}")
        return answer.status == 202

    return await _repeat(service, send, match, batch, seconds)


async def _publish_to_peer(hub: mercure.Hub, seconds: float) -> Accepted:
    body = _body(1).decode()

    async def send(connection: Connection) -> bool:
        await hub.publish(connection, body)
        return True

    return await _repeat(hub, send, "Mercure", 1, seconds)


def _body(batch: int) -> bytes:
    events = [{"n": n, "symbol": f"S{n % 100}", "price": n * 7.5 % 1000} for n in range(batch)]
    return json.dumps(events if batch > 1 else events[0]).encode()


async def _repeat(server: Server, send: Send, match: str, batch: int, seconds: float) -> Accepted:
    async with server.connections(_CONNECTIONS) as connections:
        await asyncio.gather(*[_send(send, one, time.monotonic() + 1) for one in connections])
        cpu, began = server.cpu, time.monotonic()
        ends = began + seconds
        waited = await asyncio.gather(*[_send(send, one, ends) for one in connections])
        took, used = time.monotonic() - began, server.cpu - cpu
    times = np.concatenate(waited) * 1000
    count = len(times) * batch
    p50, p99 = np.quantile(times, [0.5, 0.99]).tolist()
    return Accepted(match, batch, count / took, p50, p99, used / count * 1e6)


async def _send(send: Send, connection: Connection, ends: float) -> "np.ndarray[Any, Any]":
    """Seconds that each request took until `ends`."""
    found = []
    while (began := time.monotonic()) < ends:
        if await send(connection):
            found.append(time.monotonic() - began)
    return np.array(found)


def _sheet(found: Sequence[Accepted], remarks: Sequence[str]) -> Sheet:
    rows = [
        (
            one.match,
            f"{one.batch}",
            f"{one.events_per_second:,.0f}",
            f"{one.p50_ms:,.1f}",
            f"{one.p99_ms:,.1f}",
            f"{one.cpu_us:,.0f}",
            format_verdict(
                one.events_per_second >= GOALS[one.batch],
                one.events_per_second,
                GOALS[one.batch],
            ),
        )
        for one in found
    ]
    columns = ("matching", "a request", "events/s", "p50 ms", "p99 ms", "CPU µs", "goal")
    return Sheet("Events accepted", columns, tuple(rows), tuple(remarks))
