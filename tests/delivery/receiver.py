"""A receiver of webhooks: a real HTTP server on loopback, which checks signatures by an implementation of its own.

What it answers to each request is scripted: a status, or a function that is given the handler and answers itself. As a
process of its own (`ReceiverProcess`) it can be killed; what it received stands in a file.
"""

import base64
import contextlib
import hashlib
import json
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.faults.lives import Life
from tests.servers import free_port

KEY = bytes(range(32))
SECRET = "whsec_" + base64.b64encode(KEY).decode()

Answer = int | Callable[[BaseHTTPRequestHandler], None]


@dataclass(frozen=True)
class Received:
    """One request."""

    id: str
    headers: dict[str, str]
    notifications: list[dict[str, Any]]
    size: int


@dataclass
class Receiver:
    """What came, and what is answered to the n-th request."""

    url: str = ""
    script: Callable[[int], Answer] = lambda number: 204
    received: list[Received] = field(default_factory=list)
    file: Path | None = None
    """To which requests are appended before they are answered."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def ids(self) -> list[str]:
        """Of all notifications."""
        return [one["notification_id"] for got in self.received for one in got.notifications]

    def take(self, handler: BaseHTTPRequestHandler) -> None:
        body = handler.rfile.read(int(handler.headers["content-length"]))
        headers = {name.lower(): value for name, value in handler.headers.items()}
        if not is_signed(headers, body):
            raise AssertionError("a wrong signature")  # no answer: the sink fails
        with self.lock:
            number = len(self.received)
            got = Received(headers["webhook-id"], headers, json.loads(body), len(body))
            self.received.append(got)
            if self.file is not None:
                with self.file.open("a") as lines:
                    lines.write(json.dumps(asdict(got)) + "\n")
        answer = self.script(number)
        if callable(answer):
            answer(handler)
        else:
            reply(handler, answer)


def reply(handler: BaseHTTPRequestHandler, status: int, body: bytes = b"", **headers: str) -> None:
    handler.send_response(status)
    for name, value in headers.items():
        handler.send_header(name.replace("_", "-"), value)
    if status != 204:
        handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


def is_signed(headers: dict[str, str], body: bytes) -> bool:
    """HMAC by its definition, RFC 2104."""
    text = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    padded = KEY.ljust(64, b"\0")
    inner = hashlib.sha256(bytes(b ^ 0x36 for b in padded) + text).digest()
    outer = hashlib.sha256(bytes(b ^ 0x5C for b in padded) + inner).digest()
    return f"v1,{base64.b64encode(outer).decode()}" in headers["webhook-signature"].split(" ")


@contextlib.contextmanager
def receiver(
    script: Callable[[int], Answer] = lambda number: 204, port: int = 0, file: Path | None = None
) -> Iterator[Receiver]:
    found = Receiver(script=script, file=file)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            found.take(self)

        def log_message(self, *_: object) -> None:
            return

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: object) -> None:
            return  # a client that was killed, or cut off

    server = Server(("127.0.0.1", port), Handler)
    found.url = f"http://127.0.0.1:{server.server_port}/hook?a=1"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield found
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class ReceiverProcess:
    """A receiver that can be killed, and started again at the same address."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self._folder, self._file = folder, folder / "received.jsonl"
        self._port = free_port()
        self._life: Life | None = None
        self.url = f"http://127.0.0.1:{self._port}/hook"

    def start(self, answered: int | None = None) -> None:
        """Answer so many requests and no more; None: all of them."""
        numbers = [str(self._port), str(answered if answered is not None else sys.maxsize)]
        command = [sys.executable, "-m", "tests.delivery.receiver", *numbers, str(self._file)]
        self._life = Life(command, self._folder / "log")

    def kill(self) -> None:
        """As the power would."""
        if self._life is not None:
            self._life.kill()
            self._life.wait()

    @property
    def received(self) -> list[Received]:
        """All requests, of all its lives."""
        text = self._file.read_text() if self._file.exists() else ""
        lines = text[: text.rfind("\n") + 1].splitlines()  # the last one may be half written
        return [Received(**json.loads(line)) for line in lines]


def _wait(event: threading.Event) -> None:
    event.wait()


def main(port: int, answered: int, file: Path) -> None:
    """Receive until the process is killed."""
    never = threading.Event()

    def answer(number: int) -> Answer:
        return 204 if number < answered else lambda handler: _wait(never)

    with receiver(answer, port, file):
        never.wait()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
