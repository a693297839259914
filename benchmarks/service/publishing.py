"""How many events a second are accepted, that is on disk: one in a request, and a hundred; beside the matching."""

import asyncio
import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from benchmarks.benchmark import Section, Step
from benchmarks.service.served import Connection, Served, serving
from benchmarks.sheets import Sheet, format_verdict
from penstock.base.errors import PenstockError

GOALS = {1: 2_000, 100: 30_000}
"""Events a second, by events of a request."""
_CONNECTIONS = 32
_SUBSCRIPTIONS = 100


@dataclass(frozen=True, slots=True)
class Accepted:
    """Events that were answered with 202."""

    match: str
    batch: int
    events_per_second: float
    p50_ms: float
    p99_ms: float
    cpu_us: float  # of the service's own process, an event

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def measure(sides: Sequence[str], seconds: float, step: Step) -> Section:
    """Publish as fast as it is answered, on some connections."""
    found = []
    for match in sides:
        with serving(match) as service:
            for batch in GOALS:
                step(f"{match}: {batch} to a request")
                found.append(asyncio.run(_publish(service, match, batch, seconds)))
    return Section("publish", found, [_sheet(found)])


async def _publish(service: Served, match: str, batch: int, seconds: float) -> Accepted:
    await service.wait_ready()
    for number in range(_SUBSCRIPTIONS):
        await service.subscribe(f"price > {900 + number} AND symbol = 'S{number}'")
    events = [{"n": n, "symbol": f"S{n % 100}", "price": n * 7.5 % 1000} for n in range(batch)]
    body = json.dumps(events if batch > 1 else events[0]).encode()
    async with service.connections(_CONNECTIONS) as connections:
        await asyncio.gather(*[_send(one, body, time.monotonic() + 1) for one in connections])
        cpu, began = service.cpu, time.monotonic()
        ends = began + seconds
        waited = await asyncio.gather(*[_send(one, body, ends) for one in connections])
        took, used = time.monotonic() - began, service.cpu - cpu
    times = np.concatenate(waited) * 1000
    count = len(times) * batch
    p50, p99 = np.quantile(times, [0.5, 0.99]).tolist()
    return Accepted(match, batch, count / took, p50, p99, used / count * 1e6)


async def _send(connection: Connection, body: bytes, ends: float) -> "np.ndarray[Any, Any]":
    """Seconds that each request took until `ends`."""
    found = []
    while (began := time.monotonic()) < ends:
        answer = await connection.ask("POST", "/v1/events", body)
        if answer.status == 429:
            await asyncio.sleep(0.05)
            continue
        if answer.status != 202:
            raise PenstockError(f"the service answers {answer.status}: {answer.body.decode()}")
        found.append(time.monotonic() - began)
    return np.array(found)


def _sheet(found: Sequence[Accepted]) -> Sheet:
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
    remark = f"{_CONNECTIONS} connections; p50 and p99 of requests; CPU of the service's process, an event"
    return Sheet("Events accepted", columns, tuple(rows), (remark,))
