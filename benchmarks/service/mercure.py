"""A peer: a Mercure hub, which keeps updates in a file (Bolt) and sends them as server-sent events.

It is built from its Go module with a main function of ours (`mercure_hub/`), into the cache folder of this user. Where
there is no Go, or its modules can't be fetched, `NoPeer` says so.

It matches no content: whoever publishes names topics. What can be compared is how an update is taken, one to a request,
and how a reader who was away is brought up to date.
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
from collections.abc import Iterator
from pathlib import Path

from benchmarks.service.served import Connection

_SOURCE = Path(__file__).parent / "mercure_hub"
_KEY = b"secret-of-the-benchmark-32-bytes"
_BUILD = 600.0  # seconds
_START = 60.0
_PATH = "/.well-known/mercure"


class NoPeer(Exception):
    """Why there is no hub to compare with."""


@contextlib.contextmanager
def mercure() -> Iterator[int]:
    """A running hub: its port."""
    program = _built()
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        port = _free_port()
        command = [str(program), str(port), str(Path(folder) / "updates.db")]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            _await_port(port)
            yield port
        finally:
            process.kill()
            process.wait()


async def publish(connection: Connection, body: str) -> None:
    """Publish an update on the topic `bench`."""
    from urllib.parse import urlencode

    form = urlencode({"topic": "bench", "data": body}).encode()
    lines = [
        f"POST {_PATH} HTTP/1.1",
        "Host: localhost",
        f"Authorization: Bearer {_token()}",
        "Content-Type: application/x-www-form-urlencoded",
        f"Content-Length: {len(form)}",
    ]
    connection.writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + form)
    await connection.writer.drain()
    status, headers = await connection.read_head()
    length = int(headers.get("content-length", "0"))
    answer = await connection.reader.readexactly(length) if length else b""
    if status != 200:
        raise NoPeer(f"it answers {status}: {answer.decode()}")


async def catch_up(connection: Connection, count: int) -> float:
    """Read so many updates from the first on; how many seconds that took."""
    began, found = time.monotonic(), 0
    await connection.send("GET", f"{_PATH}?topic=bench", Last_Event_ID="earliest")
    status, _ = await connection.read_head()
    if status != 200:
        raise NoPeer(f"it answers {status} to a reader")
    async with asyncio.timeout(300):
        while found < count:
            found += b"data:" in await connection.reader.readline()
    return time.monotonic() - began


def _token() -> str:
    def text(value: object) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()

    signed = f"{text({'alg': 'HS256', 'typ': 'JWT'})}.{text({'mercure': {'publish': ['*']}})}"
    mac = hmac.digest(_KEY, signed.encode(), hashlib.sha256)
    return f"{signed}.{base64.urlsafe_b64encode(mac).rstrip(b'=').decode()}"


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
