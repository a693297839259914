"""Feeds as server-sent events, in two forms.

`live=sse`, as in Durable Streams §5.7: batches in `data` events, after each a `control` event with the next offset.

    event: data                                        event: control
    id: 0000000000000043                               data: {"streamNextOffset":"0000000000000043",…,"upToDate":true}
    data: [{"id":"12-7",…},
    data: {"id":"13-7",…}]

`Accept: text/event-stream` without `live`, for a plain `EventSource`: each notification is a `message`, whose id is the
next offset. When the connection breaks, the browser sends the last id as `Last-Event-ID`, and goes on there.

    id: 0000000000000043
    data: {"id":"12-7",…}

A stream is a coroutine with an offset. It sends at most `event_bytes` at a time, and reads no more until the connection
has taken them. It ends after `stream_seconds`, between two events; a client that reads on must show its ticket again.
"""

import asyncio
from dataclasses import dataclass
from itertools import groupby

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from penstock.base.errors import PenstockError
from penstock.delivery.feeds import FeedPage, notification
from penstock.server.web.feed_offsets import next_cursor, offset_text
from penstock.server.web.feed_readers import FeedReader
from penstock.server.web.http_settings import HttpLimits
from penstock.server.web.live_reads import LiveReads
from penstock.server.web.problems import Problem

VARY = "Accept, Authorization, Last-Event-ID"
_RETRY = 1000  # milliseconds after which a browser comes back


@dataclass(frozen=True)
class StreamWish:
    """The offset at which a stream begins, and its form."""

    offset: int
    plain: bool
    cursor: str | None = None


class EventStream(Response):
    """An answer that goes on. Each request has one of its own."""

    def __init__(
        self,
        reader: FeedReader,
        wish: StreamWish,
        limits: HttpLimits,
        live: LiveReads,
        first: FeedPage,
    ) -> None:
        super().__init__(
            headers={
                "Content-Type": "text/event-stream; charset=utf-8",
                "Cache-Control": "no-store",
                "X-Accel-Buffering": "no",
                "Vary": VARY,
            }
        )
        del self.headers["content-length"]
        self._reader, self._wish, self._limits, self._live = reader, wish, limits, live
        self._first = first

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        head = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        await send(head)
        if scope["method"] != "HEAD":
            with self._live.reading("plain" if self._wish.plain else "sse", receive):
                await self._send_pages(self._first, send)
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send_pages(self, page: FeedPage, send: Send) -> None:
        loop = asyncio.get_running_loop()
        ends = loop.time() + self._limits.stream_seconds
        form = _plain_events if self._wish.plain else _protocol_events
        begun = False
        while True:
            text = form(page, self._wish, begun)
            if text:
                begun = True
                self._live.sent += len(page.rows)
                await send({"type": "http.response.body", "body": text.encode(), "more_body": True})
            if loop.time() >= ends or self._live.ended:
                return
            offset: int | None = page.next
            if page.up_to_date:
                offset = await self._wait(page.next, ends, send)
                if offset is None:
                    return
            assert offset is not None
            try:
                page = await self._reader.read(offset, self._limits.event_bytes)
            except (Problem, PenstockError):
                return  # a client that comes back at this offset gets the error

    async def _wait(self, offset: int, ends: float, send: Send) -> int | None:
        """Wait for more, with a sign of life now and then. None if the stream ends."""
        loop = asyncio.get_running_loop()
        while (left := ends - loop.time()) > 0 and not self._live.ended:
            found = await self._reader.wait(offset, min(left, self._limits.heartbeat_seconds))
            if found is not None:
                return found
            await send({"type": "http.response.body", "body": b": \n\n", "more_body": True})
        return None


def _protocol_events(page: FeedPage, wish: StreamWish, begun: bool) -> str:
    control = {"streamNextOffset": offset_text(page.next), "streamCursor": next_cursor(wish.cursor)}
    shown = control | ({"upToDate": True} if page.up_to_date else {})
    told = f"event: control\ndata: {msgspec.json.encode(shown).decode()}\n\n"
    if not page.rows:
        return told if not begun else ""
    rows = ",\ndata: ".join(notification(row, sid) for sid, row in page.rows)
    return f"event: data\nid: {offset_text(page.next)}\ndata: [{rows}]\n\n{told}"


def _plain_events(page: FeedPage, wish: StreamWish, begun: bool) -> str:
    """An event for each notification. Of those of one row, only the last has the offset after the row: a reader that is
    cut off between them gets all of them again."""
    events = []
    for number, same in groupby(page.rows, lambda pair: pair[1].number):
        texts = [notification(row, sid) for sid, row in same]
        for place, text in enumerate(texts, 1):
            after = number + 1 if place == len(texts) else number
            events.append(f"id: {offset_text(after)}\ndata: {text}\n\n")
    if begun:
        return "".join(events)
    if not events:
        # An id at once: a reader that is cut off before the first event comes back to here.
        events = [f"id: {offset_text(page.next)}\n\n"]
    return f"retry: {_RETRY}\n\n" + "".join(events)
