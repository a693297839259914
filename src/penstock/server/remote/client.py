"""`penstock.Client`: a service from a program, over HTTP. Publish, subscribe, follow.

    client = penstock.Client("http://localhost:8400")
    mine = client.subscribe("alice", "symbol = 'GOOG' AND price > 500")
    client.publish({"symbol": "GOOG", "price": 550.0}); client.flush()
    for notification in client.follow(mine.id, mine.ticket): print(notification.event)

Requests go through `service_link`, published records through the `outbox`, feeds through `followed_feed`.
docs/HTTP.md describes the protocol.
"""

import atexit
import json
import uuid
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import msgspec

from penstock.base.durations import microseconds
from penstock.base.errors import PenstockError
from penstock.server.remote.followed_feed import FollowedFeed, Live, begin_at
from penstock.server.remote.named_producer import NamedProducer, PublishedOnce
from penstock.server.remote.outbox import Outbox, Sent
from penstock.server.remote.service_link import Request, ServiceLink

if TYPE_CHECKING:
    from penstock.joins.catalog import Catalog
    from penstock.server.remote.feed_view import FeedView

_ENCODER = msgspec.json.Encoder(decimal_format="number")
_PATIENCE = "30 seconds"


class Granted(NamedTuple):
    """The answer to `subscribe`. The ticket is shown only here: it renews, changes, ends and reads the subscription."""

    id: int
    ticket: str
    feed: str
    offset: str
    kind: str
    expires: str | None
    warnings: list[str]
    matching: bool
    """Whether everything published from now on is matched with it. False: the service isn't ready yet."""


class Client:
    """A service at an address. Threads may share a client; close it at the end, or use it in a `with` statement.

    `key` is an API key, if the service asks for one. With an admin's key, or one for the subscriber, no ticket is
    needed: give None. `patience` is how long a request is tried again while the service can't be reached or is busy.
    `verify` is a file of certificates to trust, or False to trust any.
    """

    def __init__(
        self,
        url: str,
        key: str | None = None,
        *,
        patience: str = _PATIENCE,
        verify: bool | str = True,
    ) -> None:
        self._patience = _seconds(patience, "patience")
        self._link = ServiceLink(url, key, self._patience, verify)
        self._outbox = Outbox(self._link)
        atexit.register(self.close)

    def close(self) -> None:
        """Flush what was published, and close all connections."""
        atexit.unregister(self.close)
        try:
            self._outbox.close(self._patience)
        finally:
            self._link.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- publishing ----------------------------------------------------------------------------

    def publish(self, events: Mapping[str, Any] | Iterable[Mapping[str, Any]]) -> None:
        """Publish one event or several, in the background and in this order. `flush` waits for them, and reports.

        An event maps attributes to values that JSON has; dates and times become text, NaN becomes null.
        """
        self._outbox.put("events", _encoded(events))

    def publish_changes(
        self, table: str, rows: Mapping[str, Any] | Iterable[Mapping[str, Any]]
    ) -> None:
        """Publish changes of a table, as `publish` does events: rows with `op` and `version` beside their columns."""
        self._outbox.put(f"tables/{table}", _encoded(rows))

    def publish_document(self, text: str | bytes) -> None:
        """Publish a document, as `publish` does events. Its beginning says whether it is XML or JSON."""
        data, kind = _document(text)
        self._outbox.put("documents", [data], kind)

    def publish_once(
        self,
        producer: str,
        records: Iterable[Mapping[str, Any]],
        table: str | None = None,
    ) -> PublishedOnce:
        """Publish records that this producer hasn't published yet: events, or changes of a table.

        `records` are all records that the producer has ever published, in the same order, and perhaps more: a file from
        its beginning, for example. The service knows how many it has, whichever run or machine published them, and
        these are left out. It remembers their number for 30 days after the last one.

        Returns when all are on the service's disk. RecordsRefused lists those that it refused; the rest is published.
        """
        log = "events" if table is None else f"tables/{table}"
        return NamedProducer(self._link, log, producer).publish(_encoded(records))

    def publish_document_once(self, producer: str, text: str | bytes) -> PublishedOnce:
        """Publish a document, unless this producer has published one already."""
        data, kind = _document(text)
        return NamedProducer(self._link, "documents", producer, kind).publish([data])

    def flush(self) -> Sent:
        """Wait until everything that was published is acknowledged: it is on the service's disk and will be matched.

        RecordsRefused says which records since the last flush weren't published, and why; the others were.
        ServiceUnreachable if the service doesn't answer: the records are kept and tried again, and `flush` can be
        called again.
        """
        return self._outbox.flush(self._patience)

    # --- subscriptions -------------------------------------------------------------------------

    def subscribe(
        self,
        subscriber: str,
        text: str,
        lease: str = "1 day",
        metadata: Mapping[str, str] | None = None,
        wait: str = "10 seconds",
        *,
        pace: str | None = None,
    ) -> Granted:
        """Subscribe to a filter, a SELECT or a tree pattern. `pace` limits how often notifications come: "10 per hour".

        Returns when the service matches the subscription, so that nothing published afterwards is missed; or after
        `wait`, if the service isn't ready by then. If the connection breaks, the request is repeated, and still
        subscribes only once.
        """
        body: dict[str, Any] = {"subscriber": subscriber, "subscription": text, "lease": lease}
        if metadata:
            body["metadata"] = dict(metadata)
        if pace is not None:
            body["pace"] = pace
        waits = _seconds(wait, "wait")
        headers = {"Prefer": f"wait={waits:.0f}", "Idempotency-Key": str(uuid.uuid4())}
        request = Request(
            "POST", "/v1/subscriptions", body, headers=headers, text=text, waits=waits
        )
        found = self._link.call(request).value()
        return Granted(**{name: found[name] for name in Granted._fields})

    def get(self, sid: int, ticket: str | None) -> dict[str, Any]:
        """A subscription as it is now: its text, kind, lease, metadata and feed."""
        return self._ask(Request("GET", _path(sid), ticket=ticket))

    def update(
        self,
        sid: int,
        ticket: str | None,
        text: str | None = None,
        metadata: Mapping[str, str] | None = None,
        *,
        pace: str | None = None,
    ) -> dict[str, Any]:
        """Give a subscription another text, other metadata, another pace. Id, ticket, lease and feed stay."""
        body: dict[str, Any] = {} if pace is None else {"pace": pace}
        if text is not None:
            body["subscription"] = text
        if metadata is not None:
            body["metadata"] = dict(metadata)
        return self._ask(Request("PATCH", _path(sid), body, ticket=ticket, text=text))

    def renew(self, sid: int, ticket: str | None, lease: str = "1 day") -> dict[str, Any]:
        """Give a subscription a new lease, from now on."""
        return self._ask(Request("POST", f"{_path(sid)}/renew", {"lease": lease}, ticket=ticket))

    def unsubscribe(self, sid: int, ticket: str | None) -> None:
        """End a subscription. Its feed goes with it."""
        self._link.call(Request("DELETE", _path(sid), ticket=ticket, done=(404,)))

    def explain(
        self,
        sid: int,
        ticket: str | None,
        event: Mapping[str, Any] | str | None = None,
        *,
        position: int | None = None,
    ) -> dict[str, Any]:
        """Why an event matches a subscription, or doesn't. Give the event, or the position of a recent one.

        For a select-join `event` is a tuple of each table, by name; for a tree pattern the document.
        """
        if (event is None) == (position is None):
            raise PenstockError("explain either an event or the position of one")
        given = event if event is None or isinstance(event, str) else dict(event)
        body = {"event": given} if event is not None else {"position": position}
        return self._ask(Request("POST", f"{_path(sid)}/explain", body, ticket=ticket))

    def resync(self, sid: int, ticket: str | None) -> dict[str, Any]:
        """Ask the service to send everything of a select-join again, for a view that was lost."""
        return self._ask(Request("POST", f"{_path(sid)}/resync", {}, ticket=ticket))

    def list(self, subscriber: str | None = None, **search: str) -> Iterator[dict[str, Any]]:
        """Subscriptions, page by page: those of the subscriber that the key is for, or all with an admin's key."""
        params = {**search, **({} if subscriber is None else {"subscriber": subscriber})}
        while True:
            page = self._ask(Request("GET", "/v1/subscriptions", params=params))
            yield from page["subscriptions"]
            if page.get("next") is None:
                return
            params["after"] = str(page["next"])

    def check(self, text: str) -> dict[str, Any]:
        """Check a text without subscribing: its kind, warnings, and the recent events that it matches."""
        return self._ask(Request("POST", "/v1/check", {"subscription": text}, text=text))

    def tables(self) -> "Catalog":
        """The tables that select-joins may name, and the columns along which they may be joined."""
        from penstock.joins.catalog import Catalog

        return Catalog.from_json(json.dumps(self._ask(Request("GET", "/v1/tables"))))

    def status(self) -> dict[str, Any]:
        """The service's figures."""
        return self._ask(Request("GET", "/v1/status"))

    # --- receiving -----------------------------------------------------------------------------

    def follow(
        self,
        sid: int,
        ticket: str | None,
        offset: str | None = None,
        store: str | Path | None = None,
        live: Live | None = "sse",
    ) -> FollowedFeed:
        """The notifications of a subscription, in order, as they come. After any failure it goes on where it was.

            for notification in client.follow(sid, ticket, store="alice.place"):
                handle(notification)

        It begins at `offset`: what `subscribe` gave, a notification's `place`, "-1" for the oldest that is kept (the
        default) or "now". With `store`, a file keeps how far it got, and a later call begins there. `live` is how it
        waits: "sse", or "long-poll" where a proxy holds streams back. With None it doesn't wait, and ends when
        everything has been read.

        A notification counts as done when the next one is asked for; then the file is written. So if the program dies
        while it handles a notification, that one comes again, and no other: at least once. For exactly once, keep
        `notification.place` together with your results, in one transaction, and begin with it as `offset`. Leaving the
        loop by `break` doesn't mark the last notification as done; `done()` of the returned feed does.

        FeedGone if the feed no longer has what comes next, TicketError if the subscription has ended.
        """
        start, keeper = begin_at(offset, store)
        feed = Request("GET", f"/v1/feeds/{sid:d}", ticket=ticket)
        return FollowedFeed(self._link, feed, start, live, keeper)

    def follow_subscriber(
        self,
        subscriber: str,
        offset: str | None = None,
        store: str | Path | None = None,
        live: Live | None = "sse",
    ) -> FollowedFeed:
        """All feeds of a subscriber in one, with a key that is for this subscriber; otherwise like `follow`.

        If the program dies, everything since the last page comes again, not only the last notification.
        """
        path = f"/v1/subscribers/{_quoted(subscriber)}/feed"
        start, keeper = begin_at(offset, store)
        return FollowedFeed(self._link, Request("GET", path), start, live, keeper, together=True)

    def view(
        self,
        sid: int,
        ticket: str | None,
        catalog: "Catalog | None" = None,
        select: str | None = None,
        store: str | Path | None = None,
    ) -> "FeedView":
        """The result of a select-join, kept up to date by its feed. With `store`, a file keeps it over restarts.

            with client.view(sid, ticket, store="alice.view") as mine:
                mine.catch_up().rows()
                for changes in mine: …

        `select` is the subscription's text, `catalog` has its tables. Without them the service is asked; it gives its
        tables to callers with a key of the scope subscribe, or to everybody if it has no keys. If the view's place has
        left the feed, the service sends the whole view again.
        """
        from penstock.server.remote.feed_view import FeedView

        text = select if select is not None else self.get(sid, ticket)["subscription"]
        feed = Request("GET", f"/v1/feeds/{sid}", ticket=ticket)
        return FeedView(
            text,
            catalog if catalog is not None else self.tables(),
            lambda place, live: FollowedFeed(self._link, feed, place, live),
            lambda: self.resync(sid, ticket),
            store,
        )

    def _ask(self, request: Request) -> dict[str, Any]:
        found: dict[str, Any] = self._link.call(request).value()
        return found


def _document(text: str | bytes) -> tuple[bytes, str]:
    """The bytes of a document, and their content type."""
    data = text.encode() if isinstance(text, str) else text
    is_json = data.lstrip()[:1] in (b"{", b"[")
    return data, "application/json" if is_json else "application/xml"


def _path(sid: int) -> str:
    return f"/v1/subscriptions/{sid:d}"


def _quoted(name: str) -> str:
    from urllib.parse import quote

    return quote(name, safe="")


def _encoded(records: Mapping[str, Any] | Iterable[Mapping[str, Any]]) -> Iterator[bytes]:
    """Records as JSON, one by one."""
    several = isinstance(records, Iterable) and not isinstance(records, Mapping)
    given = records if several else [records]
    for record in given:
        if not isinstance(record, Mapping):
            raise PenstockError(f"a record is a mapping of names to values, not {record!r}")
        try:
            yield _ENCODER.encode(record if isinstance(record, dict) else dict(record))
        except (TypeError, ValueError, OverflowError) as error:
            raise PenstockError(f"{record!r} can't be published: {error}") from error


def _seconds(text: str, what: str) -> float:
    try:
        return microseconds(text) / 1_000_000
    except ValueError as error:
        raise PenstockError(f"{what} {text!r} {error}: write it like '30 seconds'") from None
