"""Notifications through the whole service: published, matched, in feeds; and a reader who comes back after them.

A peer in the same run, if it can be had: a Mercure hub (`mercure`). It is given updates one to a request, since it
takes them in no other way: each for one topic, for a reader to catch up with, and each for as many topics as an event
here has subscriptions.
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
_EVENTS = 5_000  # for all of them
_WARM_UP = 1_000  # events for all of them, before a clock runs: Spark's first micro-batch compiles
_BATCH = 100  # events in a request
_CONNECTIONS = 4
_NOTE = "x" * 140
_OF_MERCURE = (
    "Mercure: one update to a request, each synced; for many topics it is kept once; who catches up connects anew "
    "after 1,000 updates"
)
_MERCURE = 10_000  # updates for a reader
_MERCURE_MANY = 1_000  # updates for as many topics as there are subscriptions
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
        step(f"{match}: starting")
        with serving(match) as service:
            found += asyncio.run(_fill(service, match, step))
    step("a Mercure hub: building and starting it")
    try:
        with mercure.mercure() as hub:
            for name, part in _PEER:
                step(f"a Mercure hub: {name}")
                found.append(asyncio.run(part(hub)))
    except mercure.NoPeer as reason:
        remarks.append(f"no Mercure hub: {reason}")
    else:
        remarks.append(_OF_MERCURE)
    return Section("through", found, [_sheet(found, remarks)])


async def _fill(service: Served, match: str, step: Step) -> list[Through]:
    await service.wait_ready()
    step(f"{match}: {_SUBSCRIPTIONS} subscriptions")
    made = await asyncio.gather(*[service.subscribe("price > 5") for _ in range(_SUBSCRIPTIONS)])
    reader = await service.subscribe("price < 5")
    step(f"{match}: {_EVENTS:,} events for all of them")
    await _publish(service, made[-1], _WARM_UP, price=9.0)
    into = await _publish(service, made[-1], _EVENTS, price=9.0)
    found = [Through(f"{match}: into feeds", _EVENTS * _SUBSCRIPTIONS, into, GOAL)]
    step(f"{match}: {AWAY:,} events for one reader")
    await _publish(service, dict(reader), AWAY, price=1.0)
    step(f"{match}: the reader catches up")
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


async def _publish(service: Served, feed: dict[str, Any], count: int, price: float) -> float:
    """Publish events; seconds until the last is in a feed that gets all of them, which is read on from its offset."""
    bodies = [
        json.dumps(
            [{"n": n, "symbol": _NOTE, "price": price} for n in range(first, first + _BATCH)]
        ).encode()
        for first in range(0, count, _BATCH)
    ]
    began = time.monotonic()
    async with service.connections(_CONNECTIONS) as connections:
        shares = [bodies[n::_CONNECTIONS] for n in range(_CONNECTIONS)]
        await asyncio.gather(*[_send(*pair) for pair in zip(connections, shares, strict=True)])
    connection, left = await service.connect(), count
    while left > 0:
        page = await _read(connection, feed, feed["offset"], live=True)
        if page.status == 200:
            left -= len(json.loads(page.body))
        feed["offset"] = page.headers["stream-next-offset"]
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


async def _keep(hub: mercure.Hub) -> Through:
    count = _MERCURE // _AT_ONCE * _AT_ONCE
    took = await _give(hub, count, (mercure.TOPIC,))
    return Through("Mercure: into its history", count, took)


async def _keep_for_many(hub: mercure.Hub) -> Through:
    count = _MERCURE_MANY // _AT_ONCE * _AT_ONCE
    took = await _give(hub, count, [f"reader-{n}" for n in range(_SUBSCRIPTIONS)])
    return Through("Mercure: the same, for many topics", count * _SUBSCRIPTIONS, took)


async def _catch_up(hub: mercure.Hub) -> Through:
    count = _MERCURE // _AT_ONCE * _AT_ONCE
    return Through("Mercure: catch-up over HTTP", count, await hub.catch_up(count))


_PEER = (
    ("updates for one topic", _keep),
    ("updates for many topics", _keep_for_many),
    ("a reader catches up", _catch_up),
)


async def _give(hub: mercure.Hub, count: int, topics: Sequence[str]) -> float:
    """Publish updates on several connections; seconds until all are kept."""
    body = json.dumps({"event": {"n": 1, "symbol": _NOTE, "price": 1.0}})

    async def send(connection: Connection) -> None:
        for _ in range(count // _AT_ONCE):
            await hub.publish(connection, body, topics)

    async with hub.connections(_AT_ONCE) as connections:
        began = time.monotonic()
        await asyncio.gather(*[send(one) for one in connections])
        return time.monotonic() - began


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
