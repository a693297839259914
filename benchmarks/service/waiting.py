"""How long an event takes from the publisher's request to a reader of a feed, at a thousand events a second."""

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

RATE = 1_000  # events a second
TRIGGER_MS = 1_000
GOALS_MS = {"live": (20.0, 100.0), "spark": (1.5 * TRIGGER_MS, None)}
"""At the median, and for all but one in a hundred."""
_EVERY = 0.01  # seconds between two requests
_WARM_UP = 3.0  # seconds


@dataclass(frozen=True, slots=True)
class Reached:
    """Milliseconds from the request to the reader."""

    match: str
    events: int
    p50_ms: float
    p99_ms: float

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def measure(sides: Sequence[str], seconds: float, step: Step) -> Section:
    """The latency of each side, as one reader sees it."""
    found = []
    for match in sides:
        step(f"{match}: {RATE:,} events a second")
        with serving(match, trigger=f"{TRIGGER_MS} ms") as service:
            found.append(asyncio.run(_wait(service, match, seconds)))
    return Section("latency", found, [_sheet(found)])


async def _wait(service: Served, match: str, seconds: float) -> Reached:
    await service.wait_ready()
    made = await service.subscribe("price > 0")
    sent: dict[int, float] = {}
    came: dict[int, float] = {}
    reading = asyncio.create_task(_read(await service.connect(), made, came))
    publisher = await service.connect()
    began = time.monotonic()
    number, size = 0, int(RATE * _EVERY)
    while time.monotonic() - began < _WARM_UP + seconds:
        events = [{"n": number + k, "price": 1.0} for k in range(size)]
        moment = time.monotonic()
        sent.update((number + k, moment) for k in range(size))
        answer = await publisher.ask("POST", "/v1/events", json.dumps(events).encode())
        if answer.status != 202:
            raise PenstockError(f"the service answers {answer.status}: {answer.body.decode()}")
        number += size
        await asyncio.sleep(max(0.0, began + number / RATE - time.monotonic()))
    deadline = time.monotonic() + 120
    while len(came) < number and time.monotonic() < deadline:
        await asyncio.sleep(0.05)
    reading.cancel()
    if len(came) < number:
        raise PenstockError(f"{number - len(came)} of {number} events never came")
    late = [n for n in sent if sent[n] - began >= _WARM_UP]
    times = np.array([came[n] - sent[n] for n in late]) * 1000
    p50, p99 = np.quantile(times, [0.5, 0.99]).tolist()
    return Reached(match, len(late), p50, p99)


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


def _sheet(found: Sequence[Reached]) -> Sheet:
    rows = []
    for one in found:
        aims = GOALS_MS[one.match]
        verdicts = [
            "" if aim is None else format_verdict(value <= aim, value, aim)
            for value, aim in zip((one.p50_ms, one.p99_ms), aims, strict=True)
        ]
        rows.append(
            (one.match, f"{one.events:,}", f"{one.p50_ms:,.1f}", f"{one.p99_ms:,.1f}", *verdicts)
        )
    columns = ("matching", "events", "p50 ms", "p99 ms", "goal p50", "goal p99")
    remark = f"{RATE:,} events a second in requests of {int(RATE * _EVERY)}; one reader by server-sent events"
    return Sheet("From publication to a reader", columns, tuple(rows), (remark,))
