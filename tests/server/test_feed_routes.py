"""Feeds over HTTP: the read path of Durable Streams, and plain EventSource; rows come as from a micro-batch."""

import json
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.server.web import QUICK, WebService, web_service
from tests.sizes import PATIENCE

from penstock.delivery.feeds import Retention

Event = dict[str, str]


def ids(answer: httpx.Response) -> list[str]:
    return [one["id"] for one in answer.json()]


@pytest.fixture
def feed(web: WebService) -> dict[str, Any]:
    """A subscription whose filter nothing matches: what its feed has, a test has put there."""
    return web.subscribe("price < -1", uuid.uuid4().hex)


@contextmanager
def events(web: WebService, path: str, **headers: str) -> Iterator[Iterator[Event]]:
    """The server-sent events of a stream, as the specification of HTML reads them."""
    with web.client.stream("GET", path, headers=headers) as answer:
        assert answer.status_code == 200, answer.read()
        assert answer.headers["content-type"].startswith("text/event-stream")

        def read() -> Iterator[Event]:
            found: Event = {}
            for line in answer.iter_lines():
                if not line:
                    if found:
                        yield found
                    found = {}
                    continue
                name, _, value = line.partition(":")
                value = value.removeprefix(" ")
                if name == "data" and "data" in found:
                    found["data"] += "\n" + value
                elif name:
                    found[name] = value

        yield read()


def test_a_feed_is_read_from_any_offset(web: WebService, feed):
    sid, ticket = feed["id"], feed["ticket"]
    path = f"/v1/feeds/{sid}"
    empty = web.get(f"{path}?offset={feed['offset']}", ticket)
    assert (empty.status_code, empty.json()) == (200, [])
    assert empty.headers["stream-up-to-date"] == "true"
    web.feed([sid], [sid, 999_999], [999_999])
    first = web.get(path, ticket)
    assert len(first.json()) == 2
    assert first.json()[0] == {
        "id": ids(first)[0],
        "kind": "tests",
        "subscription": sid,
        "event": {"price": 7.0},
    }
    assert ids(web.get(f"{path}?offset={empty.headers['stream-next-offset']}", ticket)) == ids(
        first
    )
    after = first.headers["stream-next-offset"]
    assert web.get(f"{path}?offset={after}", ticket).json() == []
    web.feed([sid])
    assert len(web.get(f"{path}?offset={after}", ticket).json()) == 1
    assert len(web.get(f"{path}?offset=-1", ticket).json()) == 3
    assert web.get(f"{path}?offset={after}&ticket={ticket}").status_code == 200


def test_the_tail_is_an_offset(web: WebService, feed):
    """§6: `now` gives nothing of what is there, and where it ends."""
    sid, ticket = feed["id"], feed["ticket"]
    web.feed([sid])
    now = web.get(f"/v1/feeds/{sid}?offset=now", ticket)
    assert (now.text, now.headers["stream-up-to-date"]) == ("[]", "true")
    assert now.headers["cache-control"] == "no-store"
    assert "etag" not in now.headers
    head = web.ask("HEAD", f"/v1/feeds/{sid}", ticket)
    assert head.headers["stream-next-offset"] == now.headers["stream-next-offset"]
    assert (head.headers["cache-control"], head.headers["content-type"]) == (
        "no-store",
        "application/json",
    )


@pytest.mark.parametrize(
    "query",
    [
        "offset=",
        "offset=5",
        "offset=-2",
        "offset=00000000000000001",
        "offset=000000000000000x",
        "offset=9999999999999999",
        "offset=-1&offset=-1",
        "offset=-1&live=maybe",
        "live=sse",
        "live=long-poll",
        "offset=-1&live=long-poll&cursor=x",
        "offset=-1&live=sse&cursor=",
        "offset=-1&limit=5",
    ],
)
def test_bad_parameters_are_refused(web: WebService, feed, query):
    answer = web.get(f"/v1/feeds/{feed['id']}?{query}", feed["ticket"])
    assert (answer.status_code, answer.headers["content-type"]) == (400, "application/problem+json")


def test_pages_are_bounded_and_lead_to_the_next(web: WebService, feed):
    """The parts together are the feed, in order, none twice; a page that isn't the last may be cached."""
    sid, ticket = feed["id"], feed["ticket"]
    web.feed(*[[sid]] * 40, body=json.dumps({"event": {"symbol": "x" * 100_000}}))
    offset, found, pages = "-1", [], 0
    while True:
        page = web.get(f"/v1/feeds/{sid}?offset={offset}", ticket)
        assert len(page.content) < 2 * QUICK.page_bytes
        found += ids(page)
        pages, offset = pages + 1, page.headers["stream-next-offset"]
        cached = page.headers["cache-control"]
        if "stream-up-to-date" in page.headers:
            assert cached == "private, no-cache"
            break
        assert cached == "private, max-age=60, stale-while-revalidate=300"
    assert pages > 2
    assert len(found) == len(set(found)) == 40
    assert found == sorted(found, key=lambda one: int(one.split(".")[1].split("-")[0]))


def test_an_answer_that_is_as_it_was_has_no_body(web: WebService, feed):
    sid, ticket = feed["id"], feed["ticket"]
    web.feed([sid])
    path = f"/v1/feeds/{sid}?offset=-1"
    tag = web.get(path, ticket).headers["etag"]
    same = web.get(path, ticket, headers={"If-None-Match": f'"other", {tag}'})
    assert (same.status_code, same.content, same.headers["etag"]) == (304, b"", tag)
    web.feed([sid])
    other = web.get(path, ticket, headers={"If-None-Match": tag})
    assert (other.status_code, len(other.json())) == (200, 2)
    assert other.headers["etag"] != tag


def test_a_long_poll_answers_when_there_is_something(web: WebService, feed):
    sid, ticket = feed["id"], feed["ticket"]
    path = f"/v1/feeds/{sid}?live=long-poll"
    none = web.get(f"{path}&offset=now", ticket)
    assert (none.status_code, none.content) == (204, b"")
    assert none.headers["stream-up-to-date"] == "true"
    offset, cursor = none.headers["stream-next-offset"], none.headers["stream-cursor"]
    later = threading.Timer(0.05, lambda: web.feed([999_999], [sid]))
    later.start()
    while (some := web.get(f"{path}&offset={offset}&cursor={cursor}", ticket)).status_code == 204:
        pass
    later.join()
    assert len(some.json()) == 1
    assert int(some.headers["stream-cursor"]) > int(cursor)
    assert some.headers["etag"]
    assert ids(web.get(f"{path}&offset={offset}", ticket)) == ids(some)


def test_server_sent_events_of_the_protocol(web: WebService, feed):
    """§5.7: `data` with an array, then `control` with where to go on."""
    sid, ticket = feed["id"], feed["ticket"]
    path = f"/v1/feeds/{sid}?live=sse&offset="
    with events(web, f"{path}now", Authorization=f"Bearer {ticket}") as stream:
        control = next(stream)
        assert control["event"] == "control"
        start = json.loads(control["data"])
        assert start["upToDate"] is True
        assert start["streamCursor"].isdigit()
        web.feed([sid], [sid])
        data = next(stream)
        assert data["event"] == "data"
        assert [one["subscription"] for one in json.loads(data["data"])] == [sid, sid]
        after = json.loads(next(stream)["data"])
        assert after["streamNextOffset"] == data["id"] > start["streamNextOffset"]
    with events(web, path + start["streamNextOffset"], Authorization=f"Bearer {ticket}") as stream:
        assert next(stream)["data"] == data["data"]


def test_a_plain_event_source_gets_messages_and_goes_on_after_the_last(web: WebService, feed):
    """What a browser does: no header but Accept; after a break, the same URL and Last-Event-ID."""
    sid, ticket = feed["id"], feed["ticket"]
    path = f"/v1/feeds/{sid}?ticket={ticket}"
    web.feed([sid], [sid])
    with events(web, path, Accept="text/event-stream") as stream:
        assert next(stream) == {"retry": "1000"}
        first, second = next(stream), next(stream)
        assert "event" not in first
        assert json.loads(first["data"])["subscription"] == sid
    with events(web, path, Accept="text/event-stream", **{"Last-Event-ID": first["id"]}) as stream:
        next(stream)
        assert next(stream) == second
        web.feed([sid])
        third = next(stream)
        assert third["id"] > second["id"]
    web.feed([sid])
    with events(web, path, Accept="text/event-stream", **{"Last-Event-ID": third["id"]}) as stream:
        assert next(stream) == {"retry": "1000"}
        assert json.loads(next(stream)["data"])["id"] > json.loads(third["data"])["id"]


def test_a_stream_without_events_tells_its_offset_at_once(web: WebService, feed):
    """A browser that is cut off before the first event comes back to where it was."""
    path = f"/v1/feeds/{feed['id']}?offset=now&ticket={feed['ticket']}"
    with events(web, path, Accept="text/event-stream") as stream:
        next(stream)
        offset = next(stream)["id"]
    web.feed([feed["id"]])
    assert len(web.get(f"/v1/feeds/{feed['id']}?offset={offset}", feed["ticket"]).json()) == 1


def test_streams_end_when_their_reader_goes(web: WebService, feed):
    before = len(web.service.live_reads)
    path = f"/v1/feeds/{feed['id']}?offset=now&live=sse"
    with events(web, path, Authorization=f"Bearer {feed['ticket']}") as stream:
        next(stream)
        assert len(web.service.live_reads) == before + 1
    _until(lambda: len(web.service.live_reads) == before)


def test_what_was_dropped_is_gone(tmp_path: Path):
    """410 exactly if something of this feed was dropped; the answer says where it goes on."""
    with web_service(tmp_path) as web:
        mine, other = web.subscribe("price < -1"), web.subscribe("price < -2")
        web.feed([mine["id"]])
        web.run(web.service.hub.prune(2**62, Retention()))
        web.feed([mine["id"]], [other["id"]])
        path = f"/v1/feeds/{mine['id']}?offset={mine['offset']}"
        for more in ("", "&live=long-poll", "&live=sse"):
            gone = web.get(path + more, mine["ticket"])
            assert (gone.status_code, gone.json()["type"]) == (410, "urn:penstock:problem:gone")
        kept = web.get(f"/v1/feeds/{mine['id']}?offset={gone.json()['earliest']}", mine["ticket"])
        assert len(kept.json()) == 1
        assert len(web.get(f"/v1/feeds/{mine['id']}", mine["ticket"]).json()) == 1
        assert (
            web.get(
                f"/v1/feeds/{other['id']}?offset={other['offset']}", other["ticket"]
            ).status_code
            == 200
        )


def test_all_feeds_of_a_subscriber_are_read_as_one(web: WebService):
    name = uuid.uuid4().hex
    first, second = (web.subscribe("price < -1", name)["id"] for _ in range(2))
    web.feed([first], [second, first], [999_999])
    answer = web.get(f"/v1/subscribers/{name}/feed?offset=-1")
    assert [one["subscription"] for one in answer.json()] == [first, first, second]
    assert web.get(f"/v1/subscribers/{uuid.uuid4().hex}/feed").json() == []


def test_a_reader_of_all_feeds_misses_nothing_of_a_new_subscription(web: WebService):
    """A subscription that is made while somebody reads: also its first row, before one of an older subscription."""
    name = uuid.uuid4().hex
    old = web.subscribe("price < -1", name)["id"]
    with events(web, f"/v1/subscribers/{name}/feed?offset=now&live=sse") as stream:
        next(stream)
        new = web.subscribe("price < -1", name)["id"]
        web.feed([new], [old])
        found: list[int] = []
        while len(found) < 2:
            event = next(stream)
            if event.get("event") == "data":
                found += [one["subscription"] for one in json.loads(event["data"])]
        assert found == [new, old]


def test_a_reader_that_takes_nothing_costs_a_cursor_and_is_cut_off(tmp_path: Path):
    """Megabytes wait for it in the store, not in memory; others read on; after a while its connection is closed."""
    from dataclasses import replace

    with web_service(tmp_path, replace(QUICK, stalled_seconds=1.0, stream_seconds=600)) as web:
        made = web.subscribe("price < -1")
        sid = made["id"]
        slow = socket.create_connection(("127.0.0.1", int(web.url.rpartition(":")[2])))
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.sendall(
            f"GET /v1/feeds/{sid}?offset=-1&live=sse HTTP/1.1\r\nHost: localhost\r\n"
            f"Authorization: Bearer {made['ticket']}\r\n\r\n".encode()
        )
        _until(lambda: len(web.service.live_reads) == 1)
        body = json.dumps({"event": {"symbol": "x" * 50_000}})
        for _ in range(10):
            web.feed(*[[sid]] * 40, body=body)
        _until(lambda: len(web.service.live_reads) == 0)
        got = 0
        slow.settimeout(PATIENCE)
        while True:
            try:
                part = slow.recv(1 << 20)
            except ConnectionResetError:
                break
            if not part:
                break
            got += len(part)
        assert got < 19_000_000, "it was cut off before it had been sent everything"
        slow.close()
        assert web.get(f"/v1/feeds/{sid}", made["ticket"]).status_code == 200


def _until(condition: Any) -> None:
    ends = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < ends
        time.sleep(0.01)
