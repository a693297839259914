"""What a hop over Zenoh adds: from publication to delivery through chains of brokers, each a process, on loopback.

    publisher ── b0 ── b1 ── b2 ── reader

A chain's capacity is measured first; then events are published at half of it, some at a time, evenly. The publisher and
the reader have the same clock, and the same cores as the brokers. What a hop adds is the difference to a chain of one.

Brokers keep their data in memory where that is possible: what a disk takes is the same for all chains, and isn't a hop.
"""

import contextlib
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.benchmark import Section, Step
from benchmarks.plots import Plot, finish_axes
from benchmarks.sheets import Sheet, format_verdict
from penstock.network.arrow_events import batch_of
from penstock.network.network_client import NetworkClient

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NAME = "hop"
BROKERS = (1, 2, 4)
SECONDS = 5.0
AT_ONCE = 20
AIM_MS = 5.0
_START = 300.0  # seconds
_OUTSTANDING = 64  # publications under way while the capacity is measured
_SCHEMA = "{n: bigint, symbol: string, price: double}"


@dataclass(frozen=True, slots=True)
class Figure:
    """A chain: events a second that it carries at most, and milliseconds to the reader at half of that."""

    brokers: int
    capacity: float
    rate: float
    half_ms: float
    slow_ms: float
    hop_ms: float | None = None
    """of half of all events; that a hop adds to a chain of one broker"""


class _Reader:
    """Notes when each event has come."""

    def __init__(self, client: NetworkClient) -> None:
        self._client = client
        self.came: dict[int, float] = {}
        self.changed = threading.Condition()
        client.subscribe(1, "price >= 0")
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        for mail in self._client.read():
            now = time.perf_counter()
            with self.changed:
                for n in mail.events.column("n").to_pylist():
                    self.came[n] = now
                self.changed.notify_all()
            self._client.done(mail)

    def wait_for(self, count: int) -> None:
        with self.changed:
            if not self.changed.wait_for(lambda: len(self.came) >= count, _START):
                raise RuntimeError(f"{len(self.came)} of {count} events have come")


class _Publisher:
    """Publishes events with numbers of its own."""

    def __init__(self, client: NetworkClient) -> None:
        self._client = client
        self.next = 0
        client.advertise(1, "TRUE")

    def publish(self) -> Any:
        numbers = range(self.next, self.next + AT_ONCE)
        self.next += AT_ONCE
        events = [{"n": n, "symbol": "GOOG", "price": float(n % 100)} for n in numbers]
        (answer,) = self._client.publish_later(batch_of(events, self._client.arrow))
        return answer


def figures(
    step: Step, chains: Sequence[int] = BROKERS, seconds: float = SECONDS
) -> Iterator[Figure]:
    """Each chain; the first is what the others are compared with."""
    alone: float | None = None
    for brokers in chains:
        step(f"{brokers} brokers start")
        with _chain(brokers) as (first, last):
            publisher, reader = _Publisher(first), _Reader(last)
            step(f"{brokers} brokers, as much as they carry")
            _flood(publisher, reader, 0.2 * seconds)
            capacity = _flood(publisher, reader, seconds)
            step(f"{brokers} brokers, half of {capacity:,.0f} events a second")
            rate, took = _steady(publisher, reader, capacity / 2, seconds)
        half, slow = (float(np.quantile(took, share)) * 1e3 for share in (0.5, 0.99))
        hop = None if alone is None else (half - alone) / (brokers - 1)
        if brokers == 1:
            alone = half
        yield Figure(brokers, capacity, rate, half, slow, hop)


def _flood(publisher: _Publisher, reader: _Reader, seconds: float) -> float:
    began, first = time.perf_counter(), publisher.next
    answers: list[Any] = []
    while time.perf_counter() - began < seconds:
        answers.append(publisher.publish())
        if len(answers) > _OUTSTANDING:
            answers.pop(0).result()
    reader.wait_for(publisher.next)
    return (publisher.next - first) / (time.perf_counter() - began)


def _steady(
    publisher: _Publisher, reader: _Reader, rate: float, seconds: float
) -> tuple[float, list[float]]:
    first = publisher.next
    sent: dict[int, float] = {}
    began = time.perf_counter()
    pause = AT_ONCE / rate
    for n in range(max(1, round(seconds / pause))):
        time.sleep(max(0.0, began + n * pause - time.perf_counter()))
        now = time.perf_counter()
        sent.update(dict.fromkeys(range(publisher.next, publisher.next + AT_ONCE), now))
        publisher.publish()
    real = (publisher.next - first) / (time.perf_counter() - began)
    reader.wait_for(publisher.next)
    return real, [reader.came[n] - at for n, at in sent.items()]


@contextlib.contextmanager
def _chain(count: int) -> Iterator[tuple[NetworkClient, NetworkClient]]:
    """Clients of the first and of the last broker of a chain."""
    memory = Path("/dev/shm")
    place = memory if os.access(memory, os.W_OK) else None
    ports = [_free_port() for _ in range(count)]
    with (
        tempfile.TemporaryDirectory(prefix="penstock-hops-", dir=place) as folder,
        contextlib.ExitStack() as opened,
    ):
        for n in range(count):
            opened.callback(_stop, _start(Path(folder), n, ports))
        clients = [
            opened.enter_context(
                NetworkClient.connect(f"tcp/127.0.0.1:{ports[at]}", broker=f"b{at}", name=name)
            )
            for at, name in ((0, "publisher"), (count - 1, "reader"))
        ]
        yield clients[0], clients[1]


def _start(folder: Path, n: int, ports: Sequence[int]) -> subprocess.Popen[bytes]:
    parent = f"{{name: b{n - 1}, rank: {n - 1}, at: 'tcp/127.0.0.1:{ports[n - 1]}'}}" if n else ""
    file, log = folder / f"b{n}.yaml", folder / f"b{n}.log"
    file.write_text(
        f"name: b{n}\nrank: {n}\nlisten: ['tcp/127.0.0.1:{ports[n]}']\nneighbours: [{parent}]\n"
        f"schema: {_SCHEMA}\n"
    )
    with log.open("wb") as out:
        command = [sys.executable, "-m", "penstock", "broker", file.name]
        process = subprocess.Popen(command, stdout=out, stderr=out, cwd=folder)
    deadline = time.monotonic() + _START
    while not re.search("Ctrl-C stops it", log.read_text()):
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(log.read_text())
        time.sleep(0.05)
    return process


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        found: int = probe.getsockname()[1]
        return found


def measure_hops(step: Step) -> Section:
    """The goal: a hop adds less than 5 ms at half load."""
    found = list(figures(step))
    return Section(NAME, found, [hop_sheet(found)], Plot(partial(_paint, found)))


def hop_sheet(found: Sequence[Figure]) -> Sheet:
    rows = []
    for f in found:
        verdict = "" if f.hop_ms is None else format_verdict(f.hop_ms < AIM_MS, f.hop_ms, AIM_MS)
        hop = "–" if f.hop_ms is None else f"{f.hop_ms:,.2f}"
        rows.append(
            (
                str(f.brokers),
                *(f"{one:,.0f}" for one in (f.capacity, f.rate)),
                *(f"{one:,.2f}" for one in (f.half_ms, f.slow_ms)),
                hop,
                verdict,
            )
        )
    return Sheet(
        "Chains of brokers over Zenoh, on loopback",
        ("brokers", "at most, events/s", "events/s", "ms", "ms, 1 in 100", "ms a hop", "goal"),
        tuple(rows),
        (
            f"goal: a hop adds less than {AIM_MS:g} ms at half of what the chain carries",
            f"{AT_ONCE} events at once; brokers, publisher and reader share {os.cpu_count()} cores",
        ),
        words=0,
    )


def _paint(found: Sequence[Figure], panels: "Sequence[Axes]") -> None:
    (axes,) = panels
    brokers = [f.brokers for f in found]
    axes.plot(brokers, [f.half_ms for f in found], marker="o", label="half are faster")
    axes.plot(brokers, [f.slow_ms for f in found], marker="o", label="1 in 100 is slower")
    axes.set(xlabel="brokers", ylabel="ms from publication to reader")
    finish_axes(axes)
