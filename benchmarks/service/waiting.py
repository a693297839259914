"""How long an event takes from the publisher's request to a reader of a feed, at a thousand events a second.

A Mercure hub in the same run, if it can be had, takes events one to a request and syncs each, so it doesn't bear that
pace on every disk. It is given fewer, and so is the service beside it.
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
from benchmarks.service.served import Connection, Served, serving
from benchmarks.sheets import Sheet, format_verdict
from penstock.base.errors import PenstockError

TRIGGER_MS = 1_000
GOALS_MS = {"live": (20.0, 100.0), "spark": (1.5 * TRIGGER_MS, None)}
"""At the median, and for all but one in a hundred."""
_WARM_UP = 3.0  # seconds
_LATE = 120.0  # seconds after which an event doesn't come any more


@dataclass(frozen=True, slots=True)
class Pace:
    """Events a second, and how many are in a request."""

    rate: int
    size: int


USUAL = Pace(1_000, 10)
BESIDE_PEER = Pace(100, 1)


@dataclass(frozen=True, slots=True)
class Reached:
    """Milliseconds from the request to the reader."""

    match: str
    pace: Pace
    events: int
    p50_ms: float
    p99_ms: float

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


Send = Callable[[list[dict[str, Any]]], Awaitable[None]]
"""Publish events in one request."""


def measure(sides: Sequence[str], seconds: float, step: Step) -> Section:
    """The latency of each side, as one reader sees it."""
    found = []
    for match in sides:
        step(f"{match}: {USUAL.rate:,} events a second")
        with serving(match, trigger=f"{TRIGGER_MS} ms") as service:
            found.append(asyncio.run(_wait(service, match, USUAL, seconds)))
    remarks = ["one reader by server-sent events"]
    try:
        step(f"a Mercure hub: {BESIDE_PEER.rate:,} events a second")
        with mercure.mercure() as hub:
            found.append(asyncio.run(_wait_for_peer(hub, BESIDE_PEER, seconds)))
        if "live" in sides:
            step(f"live: {BESIDE_PEER.rate:,} events a second")
            with serving("live") as service:
                found.append(asyncio.run(_wait(service, "live", BESIDE_PEER, seconds)))
    except mercure.NoPeer as reason:
        remarks.append(f"no Mercure hub: {reason}")
    return Section("latency", found, [_sheet(found, remarks)])


async def _wait(service: Served, match: str, pace: Pace, seconds: float) -> Reached:
    await service.wait_ready()
    made = await service.subscribe("price > 0")
    came: dict[int, float] = {}
    reading = asyncio.create_task(_read(await service.connect(), made, came))
    publisher = await service.connect()

    async def send(events: list[dict[str, Any]]) -> None:
        answer = await publisher.ask("POST", "/v1/events", json.dumps(events).encode())
        if answer.status != 202:
            raise PenstockError(f"the service answers {answer.status}: {answer.body.decode()}")

    return await _publish(send, reading, came, match, pace, seconds)


async def _wait_for_peer(hub: mercure.Hub, pace: Pace, seconds: float) -> Reached:
    came: dict[int, float] = {}
    reading = asyncio.create_task(_read_updates(await hub.listen(), came))
    publisher = await hub.connect()

    async def send(events: list[dict[str, Any]]) -> None:
        for event in events:
            await hub.publish(publisher, json.dumps({"event": event}))

    return await _publish(send, reading, came, "Mercure", pace, seconds)


async def _publish(
    send: Send,
    reading: asyncio.Task[None],
    came: dict[int, float],
    match: str,
    pace: Pace,
    seconds: float,
) -> Reached:
    """Publish at a pace, and look when `reading` notes in `came` that an event has come."""
    sent: dict[int, float] = {}
    began, number = time.monotonic(), 0
    while time.monotonic() - began < _WARM_UP + seconds:
        events = [{"n": number + k, "price": 1.0} for k in range(pace.size)]
        moment = time.monotonic()
        sent.update((number + k, moment) for k in range(pace.size))
        await send(events)
        number += pace.size
        await asyncio.sleep(max(0.0, began + number / pace.rate - time.monotonic()))
    deadline = time.monotonic() + _LATE
    while len(came) < number and time.monotonic() < deadline and not reading.done():
        await asyncio.sleep(0.05)
    if reading.done():
        reading.result()  # raises what ended it
    reading.cancel()
    if len(came) < number:
        raise PenstockError(f"{number - len(came)} of {number} events never came")
    late = [n for n in sent if sent[n] - began >= _WARM_UP]
    times = np.array([came[n] - sent[n] for n in late]) * 1000
    p50, p99 = np.quantile(times, [0.5, 0.99]).tolist()
    return Reached(match, pace, len(late), p50, p99)


async def _read(connection: Connection, made: dict[str, Any], came: dict[int, float]) -> None:
    """Read a feed's server-sent events, on and on."""
    bearer = f"Bearer {made['ticket']}"
    offset = made["offset"]
    while True:
        await connection.send(
            "GET", f"{made['feed']}?live=sse&offset={offset}", Authorization=bearer
        )
        await connection.read_head()
        kind, lines = "", []
        while True:
            line = await connection.reader.readline()
            if not line:
                raise PenstockError("the connection of the reader was ended")
            text = line.strip()
            if text == b"0":  # the last chunk: the stream ends once in a while
                await connection.reader.readline()
                break
            if text.startswith(b"event:"):
                kind = text[6:].strip().decode()
            elif text.startswith(b"data:"):
                lines.append(text[5:].strip())
            elif not text and lines:
                offset = _take(kind, b"".join(lines), came) or offset
                lines = []


def _take(kind: str, data: bytes, came: dict[int, float]) -> str | None:
    """Note what came; the next offset, if this says it."""
    if kind == "control":
        return str(json.loads(data)["streamNextOffset"])
    moment = time.monotonic()
    for one in json.loads(data):
        came.setdefault(one["event"]["n"], moment)
    return None


async def _read_updates(connection: Connection, came: dict[int, float]) -> None:
    """Read a hub's server-sent events, on and on."""
    while line := await connection.reader.readline():
        if line.startswith(b"data:"):
            came.setdefault(json.loads(line[5:])["event"]["n"], time.monotonic())
    raise PenstockError("the hub ends the connection of the reader")


def _sheet(found: Sequence[Reached], remarks: Sequence[str]) -> Sheet:
    rows = []
    for one in found:
        aims = GOALS_MS.get(one.match, (None, None))
        verdicts = [
            "" if aim is None else format_verdict(value <= aim, value, aim)
            for value, aim in zip((one.p50_ms, one.p99_ms), aims, strict=True)
        ]
        pace = (f"{one.pace.rate:,}", f"{one.pace.size}", f"{one.events:,}")
        rows.append((one.match, *pace, f"{one.p50_ms:,.1f}", f"{one.p99_ms:,.1f}", *verdicts))
    columns = ("matching", "events/s", "a request", "events", "p50 ms", "p99 ms")
    goals = ("goal p50", "goal p99")
    return Sheet("From publication to a reader", columns + goals, tuple(rows), tuple(remarks))
