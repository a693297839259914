"""Routes of feeds: the read path of the Durable Streams protocol (§5.4 to 5.7, 7.1, 8), and plain `EventSource`.

Two things differ from the protocol. After a read that reaches the tail, the next offset is the tail of all feeds, not
only of this one: so a reader that gets nothing for a long time isn't behind. And caches may not reuse an answer that
reaches the tail without asking (`no-cache`), since the next notification makes it stale.
"""

import asyncio
from functools import partial
from typing import Any

from starlette.responses import Response

from penstock.delivery.feeds import FeedPage, notification
from penstock.registry.limits import subscriber_error
from penstock.server.web.event_streams import VARY, EventStream, StreamWish
from penstock.server.web.feed_offsets import is_now, next_cursor, offset_text, read_offset
from penstock.server.web.feed_readers import FeedReader, OneFeed, SubscribersFeeds
from penstock.server.web.live_reads import LiveReads
from penstock.server.web.operations import ID, Answer, Operation, Parameter
from penstock.server.web.problems import Problem
from penstock.server.web.web_calls import Call

_IMMUTABLE = "private, max-age=60, stale-while-revalidate=300"
_AT_THE_TAIL = "private, no-cache"
_EVENTS = "text/event-stream"
_MODES = ("long-poll", "sse")


async def one_feed(call: Call, live: LiveReads) -> Response:
    """The feed of one subscription, for a caller who may see it."""
    found = await call.subscription()
    return await _feed(call, live, OneFeed(call.parts.hub, found.id))


async def subscribers_feed(call: Call, live: LiveReads) -> Response:
    """All feeds of a subscriber, for a key that is bound to it or an admin's."""
    name, caller = call.request.path_params["name"], call.caller
    if caller.subscriber is None and not caller.is_admin:
        raise Problem(
            "forbidden", "this needs a key that is bound to the subscriber, or an admin's"
        )
    caller.require_subscriber(name)
    if (wrong := subscriber_error(name)) is not None:
        raise Problem("not-found", wrong)
    parts = call.parts
    most = call.limits.together
    return await _feed(
        call, live, SubscribersFeeds(parts.hub, parts.registry, call.threads, name, most)
    )


async def _feed(call: Call, live: LiveReads, reader: FeedReader) -> Response:
    given = call.query("offset", "live", "cursor", "ticket")
    mode = given.get("live")
    if mode is not None and mode not in _MODES:
        raise Problem("bad-parameter", f"live is {' or '.join(_MODES)}", parameter="live")
    last = call.request.headers.get("last-event-id")
    if mode is not None and "offset" not in given and last is None:
        raise Problem(
            "bad-parameter",
            "live reads need an offset: -1 from the oldest on, now from the tail on",
            parameter="offset",
        )
    asked = given.get("offset", "-1")
    read_offset(asked, 0)  # it must be valid, even if Last-Event-ID counts instead
    said = asked if last is None else last
    tail = await call.threads.read(call.parts.feeds.tail) if is_now(said) else 0
    offset, cursor = read_offset(said, tail), given.get("cursor")
    if call.request.method == "HEAD":
        return await _metadata(call)
    plain = mode is None and _wants_events(call.request.headers.get("accept", ""))
    if mode == "sse" or plain:
        next_cursor(cursor)  # it must be valid
        first = await reader.read(offset, call.limits.event_bytes)
        wish = StreamWish(offset, plain, cursor)
        return EventStream(reader, wish, call.limits, live, first)
    page = await reader.read(offset, call.limits.page_bytes)
    if mode == "long-poll":
        return await _long_poll(call, live, reader, page, cursor)
    if is_now(said):
        return _page(page, {"Cache-Control": "no-store", "Stream-Cursor": next_cursor(cursor)})
    tag = f'"{reader.name}:{said}:{offset_text(page.next)}"'
    headers = {
        "Cache-Control": _AT_THE_TAIL if page.up_to_date else _IMMUTABLE,
        "ETag": tag,
        "Stream-Cursor": next_cursor(cursor),
    }
    if _matches(call.request.headers.get("if-none-match", ""), tag):
        return Response(status_code=304, headers=headers | _progress(page))
    live.sent += len(page.rows)
    return _page(page, headers)


async def _metadata(call: Call) -> Response:
    tail = await call.threads.read(call.parts.feeds.tail)
    headers = {"Stream-Next-Offset": offset_text(tail), "Cache-Control": "no-store"}
    return Response(headers=headers, media_type="application/json")


async def _long_poll(
    call: Call, live: LiveReads, reader: FeedReader, page: FeedPage, cursor: str | None
) -> Response:
    loop = asyncio.get_running_loop()
    ends = loop.time() + call.limits.poll_seconds
    with live.reading("long-poll", call.request.receive):
        while not page.rows and not live.ended and (left := ends - loop.time()) > 0:
            found = await reader.wait(page.next, left)
            if found is not None:
                page = await reader.read(found, call.limits.page_bytes)
    headers = {"Stream-Cursor": next_cursor(cursor)}
    if not page.rows:
        headers |= {"Cache-Control": "no-store", "Stream-Up-To-Date": "true"}
        return Response(status_code=204, headers=headers | _progress(page))
    live.sent += len(page.rows)
    tag = f'"{reader.name}:{offset_text(page.rows[0][1].number)}:{offset_text(page.next)}"'
    headers |= {"ETag": tag, "Cache-Control": _AT_THE_TAIL if page.up_to_date else _IMMUTABLE}
    return _page(page, headers)


def _page(page: FeedPage, headers: dict[str, str]) -> Response:
    body = "[" + ",".join(notification(row, sid) for sid, row in page.rows) + "]"
    return Response(body.encode(), headers=headers | _progress(page), media_type="application/json")


def _progress(page: FeedPage) -> dict[str, str]:
    headers = {"Stream-Next-Offset": offset_text(page.next), "Vary": VARY}
    return headers | ({"Stream-Up-To-Date": "true"} if page.up_to_date else {})


def _wants_events(accept: str) -> bool:
    """Whether a plain `EventSource` asks, or another client with the same header."""
    wanted = [part.partition(";")[0].strip().lower() for part in accept.split(",")]
    return _EVENTS in wanted and "application/json" not in wanted


def _matches(given: str, tag: str) -> bool:
    tags = [one.strip().removeprefix("W/") for one in given.split(",")]
    return given.strip() == "*" or tag in tags


def feed_operations(live: LiveReads) -> list[Operation]:
    """The operations of feeds."""
    text = {"type": "string"}
    parameters = [
        Parameter(
            "offset",
            "query",
            "From where to read: -1 for the oldest that is kept, now for the tail, or one that an answer gave",
            {"type": "string", "pattern": "^(-1|now|[0-9]{16})$"},
        ),
        Parameter(
            "live",
            "query",
            "Wait for more: long-poll answers when there is something, sse goes on",
            {"enum": list(_MODES)},
        ),
        Parameter(
            "cursor",
            "query",
            "The Stream-Cursor of the last answer",
            {"type": "string", "pattern": "^[0-9]{1,18}$"},
        ),
        Parameter(
            "Last-Event-ID",
            "header",
            "The id of the last event that was received; it counts instead of offset",
            {"type": "string", "pattern": "^(-1|now|[0-9]{16})$"},
        ),
        Parameter("If-None-Match", "header", "An ETag of an earlier answer", text),
    ]
    ticket = Parameter(
        "ticket",
        "query",
        "The ticket, for an EventSource, which can't send headers",
        {"type": "string", "pattern": "^[0-9a-f]{64}$"},
    )
    offsets = {
        "Stream-Next-Offset": "The offset to read on at",
        "Stream-Up-To-Date": "true, if there was no more",
        "Stream-Cursor": "To be given as cursor with the next request",
    }
    notifications: dict[str, Any] = {"type": "array", "items": {"type": "object"}}
    answers = {
        200: Answer(
            "Notifications, in order",
            {"application/json": notifications, _EVENTS: {}},
            offsets | {"ETag": "Of this part of the feed"},
        ),
        204: Answer("Nothing came in time; read on at the same offset", headers=offsets),
        304: Answer("It is as it was", headers=offsets),
    }
    head = {
        200: Answer(
            "The feed is there", headers={"Stream-Next-Offset": offsets["Stream-Next-Offset"]}
        )
    }
    name = Parameter("name", "path", "The subscriber", {"type": "string", "minLength": 1}, True)
    one, all_ = partial(one_feed, live=live), partial(subscribers_feed, live=live)
    own, together = "/v1/feeds/{id}", "/v1/subscribers/{name}/feed"
    own_parameters, together_parameters = [ID, *parameters, ticket], [name, *parameters]
    problems, tag = ("bad-offset", "gone", "conflict"), "feeds"
    return [
        Operation(
            "GET",
            own,
            one,
            "readFeed",
            "Read a subscription's feed",
            "ticket",
            answers,
            own_parameters,
            None,
            problems,
            tag,
        ),
        Operation(
            "HEAD",
            own,
            one,
            "seeFeed",
            "See where a feed ends",
            "ticket",
            head,
            [ID, ticket],
            tag=tag,
        ),
        Operation(
            "GET",
            together,
            all_,
            "readSubscriber",
            "Read all feeds of a subscriber as one",
            "subscribe",
            answers,
            together_parameters,
            None,
            problems,
            tag,
        ),
        Operation(
            "HEAD",
            together,
            all_,
            "seeSubscriber",
            "See where they end",
            "subscribe",
            head,
            [name],
            tag=tag,
        ),
    ]
