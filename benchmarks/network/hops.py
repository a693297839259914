"""What a hop over Zenoh adds: from publication to delivery along a chain of brokers, each a process, on loopback.

    publisher ── b0 ── b1 ── b2 ── b3
                  │     │     │     │
                reader reader …   a reader at each

The chain's capacity is measured first; then events are published at half of it, some at a time, evenly. Readers and
publisher have the same clock, and the same cores as the brokers. What hops add is taken event by event: when it came to
the reader behind them, less when it came to the first. So whatever else the machine does at that moment is in both.

Brokers keep their data in memory where that is possible: what a disk takes is the same for all readers, and no hop.
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
from penstock.base.arrays import Float64s
from penstock.network.arrow_events import batch_of
from penstock.network.network_client import NetworkClient

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NAME = "hop"
BROKERS = 4
SECONDS = 5.0
AT_ONCE = 20
AIM_MS = 5.0
_START = 300.0  # seconds
_OUTSTANDING = 64  # publications under way while the capacity is measured
_SCHEMA = "{n: bigint, symbol: string, price: double}"


@dataclass(frozen=True, slots=True)
class Figure:
    """A reader behind so many hops: milliseconds from publication, and those that each hop has added, of half of all
    events and of the slowest of a hundred.
    """

    hops: int
    capacity: float
    rate: float
    half_ms: float
    slow_ms: float
    hop_ms: float | None = None
    slow_hop_ms: float | None = None


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


def figures(step: Step, brokers: int = BROKERS, seconds: float = SECONDS) -> Iterator[Figure]:
    """Each reader of a chain, the nearest first."""
    step(f"{brokers} brokers start")
    with _chain(brokers) as (first, others):
        publisher, readers = _Publisher(first), [_Reader(client) for client in others]
        step("as much as they carry")
        _flood(publisher, readers, 0.2 * seconds)
        capacity = _flood(publisher, readers, seconds)
        step(f"half of {capacity:,.0f} events a second")
        rate, sent = _steady(publisher, readers, capacity / 2, seconds)
    at = np.array(list(sent.values()))
    came = [np.array([reader.came[n] for n in sent]) for reader in readers]
    for hops, mine in enumerate(came):
        half, slow = _milliseconds(mine - at)
        added = _milliseconds((mine - came[0]) / hops) if hops else (None, None)
        yield Figure(hops, capacity, rate, half, slow, *added)


def _milliseconds(took: Float64s) -> tuple[float, float]:
    half, slow = np.quantile(took, (0.5, 0.99)) * 1e3
    return float(half), float(slow)


def _flood(publisher: _Publisher, readers: Sequence[_Reader], seconds: float) -> float:
    """Events a second, until the last reader has them."""
    began, first = time.perf_counter(), publisher.next
    answers: list[Any] = []
    while time.perf_counter() - began < seconds:
        answers.append(publisher.publish())
        if len(answers) > _OUTSTANDING:
            answers.pop(0).result()
    for reader in readers:
        reader.wait_for(publisher.next)
    return (publisher.next - first) / (time.perf_counter() - began)


def _steady(
    publisher: _Publisher, readers: Sequence[_Reader], rate: float, seconds: float
) -> tuple[float, dict[int, float]]:
    """Events a second that were published, and when each was."""
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
    for reader in readers:
        reader.wait_for(publisher.next)
    return real, sent


@contextlib.contextmanager
def _chain(count: int) -> Iterator[tuple[NetworkClient, list[NetworkClient]]]:
    """A client of the first broker of a chain, to publish, and one of each, to read."""
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
            for at, name in [(0, "publisher"), *((n, "reader") for n in range(count))]
        ]
        yield clients[0], clients[1:]


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
        added, slow_added, verdict = "–", "–", ""
        if f.hop_ms is not None and f.slow_hop_ms is not None:
            added, slow_added = f"{f.hop_ms:,.2f}", f"{f.slow_hop_ms:,.2f}"
            verdict = format_verdict(0 <= f.hop_ms < AIM_MS, f.hop_ms, AIM_MS)
        took = (f"{one:,.2f}" for one in (f.half_ms, f.slow_ms))
        rows.append((str(f.hops), *took, added, slow_added, verdict))
    first = found[0]
    return Sheet(
        f"A chain of {len(found)} brokers over Zenoh, on loopback",
        ("hops", "ms", "ms, 1 in 100", "ms a hop", "ms a hop, 1 in 100", "goal"),
        tuple(rows),
        (
            f"goal: a hop adds less than {AIM_MS:g} ms at half load, to half of all events",
            f"{first.rate:,.0f} events a second, {AT_ONCE} at once; the chain carries {first.capacity:,.0f}",
            f"brokers, publisher and readers share {os.cpu_count()} cores",
        ),
        words=0,
    )


def _paint(found: Sequence[Figure], panels: "Sequence[Axes]") -> None:
    (axes,) = panels
    hops = [f.hops for f in found]
    axes.plot(hops, [f.half_ms for f in found], marker="o", label="half are faster")
    axes.plot(hops, [f.slow_ms for f in found], marker="o", label="1 in 100 is slower")
    axes.set(xlabel="hops", ylabel="ms from publication to reader")
    finish_axes(axes)
