"""A peer: a Mercure hub, which keeps updates in a file (Bolt) and sends them as server-sent events.

It is built from its Go module with a main function of ours (`mercure_hub/`), into the cache folder of this user. Where
there is no Go, or its modules can't be fetched, `NoPeer` says so. One process, on loopback.

It matches no content: whoever publishes names topics. What can be compared is how an update is taken, one to a request,
how long it takes to a reader, what open connections cost, and how a reader who was away is brought up to date.
"""

import asyncio
import base64
import contextlib
import hashlib
import hmac
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from urllib.parse import urlencode

from benchmarks.service.served import Connection, Server, allow_connections

TOPIC = "bench"
_SOURCE = Path(__file__).parent / "mercure_hub"
_KEY = b"secret-of-the-benchmark-32-bytes"
_BUILD = 600.0  # seconds
_START = 60.0
_CATCH_UP = 300.0
_PATH = "/.well-known/mercure"
_PAGE = 1_000
"""Updates of its history that a reader is handed at most (`outBufferLength` of its source).

With more than these it takes the reader for one that is too slow: the connection stays open for ten minutes, and no
update comes any more. A reader that knows this connects anew after so many, and names the last that it has.
"""


class NoPeer(Exception):
    """Why there is no hub to compare with."""


class Hub(Server):
    """A running hub."""

    @cached_property
    def _token(self) -> str:
        def text(value: object) -> str:
            return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()

        signed = f"{text({'alg': 'HS256', 'typ': 'JWT'})}.{text({'mercure': {'publish': ['*']}})}"
        mac = hmac.digest(_KEY, signed.encode(), hashlib.sha256)
        return f"{signed}.{base64.urlsafe_b64encode(mac).rstrip(b'=').decode()}"

    async def publish(
        self, connection: Connection, body: str, topics: Sequence[str] = (TOPIC,)
    ) -> None:
        """Publish an update, for all who read one of the topics."""
        form = urlencode([*(("topic", one) for one in topics), ("data", body)]).encode()
        said = {"Authorization": f"Bearer {self._token}"}
        said["Content_Type"] = "application/x-www-form-urlencoded"
        answer = await connection.ask("POST", _PATH, form, **said)
        if answer.status != 200:
            raise NoPeer(f"it answers {answer.status}: {answer.body.decode()}")

    async def listen(self, last: str | None = None) -> Connection:
        """A connection by which updates come: those from now on, or those after the one with this id."""
        connection = await self.connect()
        said = {} if last is None else {"Last_Event_ID": last}
        await connection.send("GET", f"{_PATH}?topic={TOPIC}", b"", **said)
        status, _ = await connection.read_head()
        if status != 200:
            raise NoPeer(f"it answers {status} to a reader")
        return connection

    async def catch_up(self, count: int) -> float:
        """Read so many updates from the first on; how many seconds that took."""
        began, found, last = time.monotonic(), 0, "earliest"
        try:
            async with asyncio.timeout(_CATCH_UP):
                while found < count:
                    connection = await self.listen(last)
                    for _ in range(min(_PAGE, count - found)):
                        last = await read_id(connection)
                        found += 1
                    connection.close()
        except TimeoutError:
            raise NoPeer(f"{found:,} of {count:,} updates came in {_CATCH_UP:.0f} s") from None
        return time.monotonic() - began


async def read_id(connection: Connection) -> str:
    """Read an update, and give its id."""
    name = ""
    while True:
        line = await connection.reader.readline()
        if not line:
            raise NoPeer("it ends the connection of a reader")
        if line.startswith(b"id:"):
            name = line[3:].strip().decode()
        elif line.startswith(b"data:"):
            return name


@contextlib.contextmanager
def mercure() -> Iterator[Hub]:
    """A hub in a process and with a file of its own, which go with it."""
    program = _built()
    allow_connections()
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        port = _free_port()
        command = [str(program), str(port), str(Path(folder) / "updates.db")]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            _await_port(port)
            yield Hub(process, port)
        finally:
            process.kill()
            process.wait()


def _built() -> Path:
    content = b"".join(file.read_bytes() for file in sorted(_SOURCE.iterdir()))
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "penstock-bench"
    program = cache / f"mercure-{hashlib.sha256(content).hexdigest()[:16]}"
    if program.exists():
        return program
    go = shutil.which("go")
    if go is None:
        raise NoPeer("there is no Go to build it with")
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        shutil.copytree(_SOURCE, folder, dirs_exist_ok=True)
        command = [go, "build", "-mod=mod", "-o", str(program), "."]
        try:
            done = subprocess.run(
                command, cwd=folder, capture_output=True, text=True, timeout=_BUILD
            )
        except subprocess.TimeoutExpired:
            raise NoPeer(f"it isn't built in {_BUILD:.0f} s") from None
    if done.returncode != 0:
        raise NoPeer((done.stderr.strip().splitlines() or ["it can't be built"])[-1])
    return program


def _free_port() -> int:
    import socket

    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def _await_port(port: int) -> None:
    import socket

    deadline = time.monotonic() + _START
    while True:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return
        if time.monotonic() > deadline:
            raise NoPeer("it doesn't start")
        time.sleep(0.05)
