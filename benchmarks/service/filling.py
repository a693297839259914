"""Notifications through the whole service: published, matched, in feeds; and a reader who comes back after them.

A peer in the same run, if it can be had: a Mercure hub (`mercure`), which is given as many updates as a reader is to
catch up with, one to a request, since it takes them in no other way.
"""

import asyncio
import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.benchmark import Section, Step
from benchmarks.service import mercure
from benchmarks.service.served import Connection, Served, serving
from benchmarks.service.storing import AWAY, GOAL
from benchmarks.sheets import Sheet, format_verdict
from penstock.base.errors import PenstockError

_SUBSCRIPTIONS = 200  # that get each event
_BATCH = 100  # events in a request
_CONNECTIONS = 4
_NOTE = "x" * 140
_MERCURE = 10_000  # updates: it takes one in a request
_AT_ONCE = 32  # requests to it


@dataclass(frozen=True, slots=True)
class Through:
    """What went through, from the first request until the last was there."""

    what: str
    notifications: int
    seconds: float
    goal: int | None = None

    @property
    def per_second(self) -> float:
        return self.notifications / self.seconds

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "per_second": self.per_second}


def measure(sides: Sequence[str], step: Step) -> Section:
    """Fill feeds on each side, read one of them from its beginning, and do the same with a peer."""
    found: list[Through] = []
    remarks = [
        f"each event for {_SUBSCRIPTIONS} subscriptions; about 200 bytes each; pages of a megabyte"
    ]
    for match in sides:
        step(f"{match}: {AWAY:,} events for one reader, {_SUBSCRIPTIONS} get some")
        with serving(match) as service:
            found += asyncio.run(_fill(service, match))
    step("a Mercure hub")
    try:
        with mercure.mercure() as port:
            found += asyncio.run(_peer(port))
    except mercure.NoPeer as reason:
        remarks.append(f"no Mercure hub: {reason}")
    return Section("through", found, [_sheet(found, remarks)])


async def _fill(service: Served, match: str) -> list[Through]:
    await service.wait_ready()
    for _ in range(_SUBSCRIPTIONS):
        last = await service.subscribe("price > 5")
    reader = await service.subscribe("n >= 0")
    many = AWAY // _SUBSCRIPTIONS * 10
    into = await _publish(service, last, range(many), price=9.0)
    found = [Through(f"{match}: into feeds", many * _SUBSCRIPTIONS, into, GOAL)]
    await _publish(service, reader, range(many, AWAY), price=1.0)
    connection = await service.connect()
    began, offset, count = time.monotonic(), "-1", 0
    while True:
        page = await _read(connection, reader, offset)
        count += len(json.loads(page.body))
        offset = page.headers["stream-next-offset"]
        if page.headers.get("stream-up-to-date") == "true":
            break
    found.append(Through(f"{match}: catch-up over HTTP", count, time.monotonic() - began))
    return found


async def _publish(
    service: Served, feed: dict[str, Any], numbers: Sequence[int], price: float
) -> float:
    """Publish events; seconds until the last of them is in a feed, which gets all from number 0 on."""
    bodies = [
        json.dumps(
            [{"n": n, "symbol": _NOTE, "price": price} for n in numbers[first : first + _BATCH]]
        ).encode()
        for first in range(0, len(numbers), _BATCH)
    ]
    began = time.monotonic()
    async with service.connections(_CONNECTIONS) as connections:
        shares = [bodies[n::_CONNECTIONS] for n in range(_CONNECTIONS)]
        await asyncio.gather(*[_send(*pair) for pair in zip(connections, shares, strict=True)])
    connection, left, offset = await service.connect(), numbers[-1] + 1, feed["offset"]
    while left > 0:
        page = await _read(connection, feed, offset, live=True)
        if page.status == 200:
            left -= len(json.loads(page.body))
        offset = page.headers["stream-next-offset"]
    return time.monotonic() - began


async def _send(connection: Connection, bodies: Sequence[bytes]) -> None:
    for body in bodies:
        while (answer := await connection.ask("POST", "/v1/events", body)).status != 202:
            if answer.status not in (429, 503):
                raise PenstockError(f"the service answers {answer.status}: {answer.body.decode()}")
            await asyncio.sleep(0.05)


async def _read(
    connection: Connection, feed: dict[str, Any], offset: str, live: bool = False
) -> Any:
    path = f"{feed['feed']}?offset={offset}{'&live=long-poll' if live else ''}"
    answer = await connection.ask("GET", path, Authorization=f"Bearer {feed['ticket']}")
    if answer.status not in (200, 204):
        raise PenstockError(f"the service answers {answer.status}: {answer.body.decode()}")
    return answer


async def _peer(port: int) -> list[Through]:
    body = json.dumps({"event": {"n": 1, "symbol": _NOTE, "price": 1.0}})

    async def connect() -> Connection:
        return Connection(*await asyncio.open_connection("127.0.0.1", port, limit=1 << 24))

    async def send(count: int) -> None:
        connection = await connect()
        for _ in range(count):
            await mercure.publish(connection, body)
        connection.close()

    began = time.monotonic()
    await asyncio.gather(*[send(_MERCURE // _AT_ONCE) for _ in range(_AT_ONCE)])
    took, count = time.monotonic() - began, _MERCURE // _AT_ONCE * _AT_ONCE
    caught_up = await mercure.catch_up(await connect(), count)
    return [
        Through("Mercure: into its history", count, took),
        Through("Mercure: catch-up over HTTP", count, caught_up),
    ]


def _sheet(found: Sequence[Through], remarks: Sequence[str]) -> Sheet:
    rows = [
        (
            one.what,
            f"{one.notifications:,}",
            f"{one.seconds:,.2f}",
            f"{one.per_second:,.0f}",
            ""
            if one.goal is None
            else format_verdict(one.per_second >= one.goal, one.per_second, one.goal),
        )
        for one in found
    ]
    columns = ("what", "notifications", "seconds", "a second", "goal")
    return Sheet("Through the service", columns, tuple(rows), tuple(remarks))
