"""A service in a process of its own, and a client of it that costs next to nothing.

The client speaks as much HTTP as is needed here: the machine has few cores, and a client library would take as much of
them as the service does.
"""

import asyncio
import contextlib
import json
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.base.errors import PenstockError

_START = 900.0  # seconds: Spark's on a machine that has much else to do
_HZ = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Answer:
    """What was answered to a request."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def value(self) -> Any:
        return json.loads(self.body)


class Connection:
    """One connection, kept open."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def ask(self, method: str, path: str, body: bytes = b"", **headers: str) -> Answer:
        """Send a request, and wait for its answer."""
        await self.send(method, path, body, **headers)
        status, given = await self.read_head()
        length = int(given.get("content-length", "0"))
        return Answer(status, given, await self.reader.readexactly(length) if length else b"")

    async def send(self, method: str, path: str, body: bytes = b"", **headers: str) -> None:
        lines = [f"{method} {path} HTTP/1.1", "Host: localhost", f"Content-Length: {len(body)}"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        if body and "Content_Type" not in headers:
            lines.append("Content-Type: application/json")
        self.writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
        await self.writer.drain()

    async def read_head(self) -> tuple[int, dict[str, str]]:
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        pairs = (line.partition(":") for line in head[1:] if line)
        return int(head[0].split()[1]), {name.lower(): text.strip() for name, _, text in pairs}

    def close(self) -> None:
        self.writer.close()


class Server:
    """A process that listens on loopback."""

    def __init__(self, process: subprocess.Popen[bytes], port: int) -> None:
        self._process, self.port = process, port

    async def connect(self) -> Connection:
        return Connection(*await asyncio.open_connection("127.0.0.1", self.port, limit=1 << 24))

    @contextlib.asynccontextmanager
    async def connections(self, count: int) -> AsyncIterator[list[Connection]]:
        made = [await self.connect() for _ in range(count)]
        try:
            yield made
        finally:
            for one in made:
                one.close()

    @property
    def cpu(self) -> float:
        """Seconds that its own process has computed, without Spark's."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _HZ

    @property
    def memory(self) -> int:
        """Bytes of its own process in memory."""
        return int(Path(f"/proc/{self._process.pid}/statm").read_text().split()[1]) * _PAGE


class Served(Server):
    """A running service."""

    async def subscribe(self, text: str, subscriber: str = "bench") -> dict[str, Any]:
        wish = json.dumps({"subscriber": subscriber, "subscription": text}).encode()
        connection = await self.connect()
        answer = await connection.ask("POST", "/v1/subscriptions", wish, Prefer="wait=60")
        connection.close()
        if answer.status != 201:
            raise PenstockError(f"the service doesn't take {text!r}: {answer.body.decode()}")
        found: dict[str, Any] = answer.value
        return found

    async def wait_ready(self) -> None:
        deadline = time.monotonic() + _START
        while True:
            connection = await self.connect()
            answer = await connection.ask("GET", "/readyz")
            connection.close()
            if answer.status == 200:
                return
            if time.monotonic() > deadline:
                raise PenstockError(f"the service isn't ready: {answer.body.decode()}")
            await asyncio.sleep(0.2)


def allow_connections() -> None:
    """Let this process, and those that it starts, have as many connections as it may."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


@contextlib.contextmanager
def serving(match: str, **settings: Any) -> Iterator[Served]:
    """A service with a schema of its own, in a folder that goes with it."""
    allow_connections()
    limits = {"connections": 50_000, "address_connections": 50_000, "requests": 1_000_000}
    limits |= {"burst": 1_000_000, "subscriptions": 1_000_000}
    described = {
        "data": "data",
        "port": 0,
        "match": match,
        "schema": {"n": "bigint", "symbol": "string", "price": "double"},
        "limits": limits,
        **settings,
    }
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        file, log = Path(folder) / "service.yaml", Path(folder) / "log"
        file.write_text(json.dumps(described))  # JSON is YAML
        command = [sys.executable, "-m", "penstock", "serve", str(file)]
        with log.open("wb") as said:
            process = subprocess.Popen(command, cwd=folder, stdout=said, stderr=said)
        try:
            yield Served(process, _port(process, log))
        finally:
            process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(60)
            process.kill()


def _port(process: subprocess.Popen[bytes], log: Path) -> int:
    deadline = time.monotonic() + _START
    while True:
        said = log.read_text(errors="replace")
        if found := re.search(r"http://localhost:(\d+)\.", said):
            return int(found[1])
        if process.poll() is not None or time.monotonic() > deadline:
            raise PenstockError(f"the service doesn't start: {said}")
        time.sleep(0.05)
