"""HTTP on a connection, within limits that uvicorn leaves to a proxy in front of it.

uvicorn reads the head of a request however long it is and however slowly it comes, adds trailers to the headers, and
waits for ever for a reader that takes nothing. Here

- the head of a request has a limited size, and must arrive within seconds: also the first one of a connection;
- trailers are dropped, and bytes that aren't body (chunks' sizes, trailers) are bounded by the size of the body;
- a reader that takes nothing for a while is cut off;
- the number of connections is limited, for each address and for all together.
"""

import asyncio
from typing import Any

import msgspec
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from penstock.server.web.http_settings import HttpLimits
from penstock.server.web.problems import MEDIA_TYPE, Problem
from penstock.server.web.rates import ConnectionCounts

_PER_BODY = 16  # bytes around each byte of a body: a chunk of one byte has five or six


def limited_protocol(limits: HttpLimits) -> type[HttpToolsProtocol]:
    """The protocol for `uvicorn.Config(http=…)`; all its connections are counted together."""
    counts = ConnectionCounts(limits.connections_per_address, limits.connections)

    class Limited(_LimitedProtocol):
        _limits, _counts = limits, counts

    return Limited


class _LimitedProtocol(HttpToolsProtocol):
    _limits: HttpLimits
    _counts: ConnectionCounts
    _address: str | None = None
    _head_timer: asyncio.TimerHandle | None = None
    _stalled_timer: asyncio.TimerHandle | None = None
    _in_head = True
    _refused = False
    _head = 0  # bytes of the URL and the headers
    _around = _body = 0  # bytes of this request that aren't body, and that are
    _in_chunk = 0  # bytes of what was just received that aren't body

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        address = "unknown" if self.client is None else self.client[0]
        if not self._counts.enter(address):
            self._refuse("too-many-requests", "too many connections: close some")
            return
        self._address = address
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._address is not None:
            self._counts.leave(self._address)
            self._address = None
        self._cancel_timers()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._address is None or self.transport.is_closing():
            return
        self._around += len(data)
        self._in_chunk = len(data)
        super().data_received(data)
        if self._around > self._limits.head_bytes + _PER_BODY * self._body:
            self._refuse_head()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head = True
        self._head = self._body = 0
        self._around = self._in_chunk  # too high if requests are pipelined: then they must be short
        self._expect_head()

    def on_url(self, url: bytes) -> None:
        self._head += len(url)
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_head:
            self._head += len(name) + len(value)
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._in_head = False
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None
        if self._head > self._limits.head_bytes:
            self._refuse_head()
        if not self._refused:
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        if self._refused:
            return
        self._body += len(body)
        self._around -= len(body)
        self._in_chunk -= len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        if not self._refused:
            super().on_message_complete()

    def pause_writing(self) -> None:
        self._stalled_timer = self.loop.call_later(
            self._limits.stalled_seconds, self.transport.abort
        )
        self.flow.pause_writing()

    def resume_writing(self) -> None:
        if self._stalled_timer is not None:
            self._stalled_timer.cancel()
            self._stalled_timer = None
        self.flow.resume_writing()

    def send_400_response(self, msg: str) -> None:
        self._refuse("bad-request", msg)

    def _expect_head(self) -> None:
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(self._limits.head_seconds, self._head_is_late)

    def _head_is_late(self) -> None:
        self._head_timer = None
        if self._in_head and not self.transport.is_closing():
            self._refuse("timeout", "the head of the request didn't arrive in time")

    def _refuse_head(self) -> None:
        most = self._limits.head_bytes
        self._refuse("head-too-large", f"a request has {most:,} bytes at most besides its body")

    def _refuse(self, kind: str, detail: str) -> None:
        """Send a problem, and close. If an answer is under way, only close."""
        if self._refused:
            return
        self._refused = True
        busy = self.cycle is not None and not self.cycle.response_complete
        if not busy:
            self.transport.write(_bytes_of(Problem(kind, detail)))
        self.transport.close()
        # A client that doesn't take the answer is cut off.
        self.loop.call_later(self._limits.stalled_seconds, self.transport.abort)

    def _cancel_timers(self) -> None:
        for timer in (self._head_timer, self._stalled_timer):
            if timer is not None:
                timer.cancel()
        self._head_timer = self._stalled_timer = None


def _bytes_of(problem: Problem) -> bytes:
    """A whole answer, for requests that never get to the application."""
    body = msgspec.json.encode(problem.to_dict())
    head: list[Any] = [
        f"HTTP/1.1 {problem.status} {problem.to_dict()['title']}",
        f"content-type: {MEDIA_TYPE}",
        f"content-length: {len(body)}",
        "x-content-type-options: nosniff",
        "cache-control: no-store",
        "connection: close",
    ]
    return "\r\n".join([*head, "", ""]).encode("latin-1") + body
