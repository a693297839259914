"""A receiver of webhooks: a real HTTP server on loopback, which checks signatures by an implementation of its own.

What it answers to each request is scripted: a status, or a function that is given the handler and answers itself.
"""

import base64
import contextlib
import hashlib
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

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
            self.received.append(
                Received(headers["webhook-id"], headers, json.loads(body), len(body))
            )
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
def receiver(script: Callable[[int], Answer] = lambda number: 204) -> Iterator[Receiver]:
    found = Receiver(script=script)

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

    server = Server(("127.0.0.1", 0), Handler)
    found.url = f"http://127.0.0.1:{server.server_port}/hook?a=1"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield found
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
