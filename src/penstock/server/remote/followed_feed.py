"""Follows a feed: catches up, then stays connected. After any failure it goes on where it was.

    catching up   GET …?offset=o                page after page, until the service says that there is no more
    live          GET …?offset=o&live=sse       notifications as they come; `long-poll`: a page as soon as there is one

After any failure of the network, and any answer that says "later", it pauses and catches up again. Errors that no
second try can change are raised: a wrong ticket, a subscription that has ended, an offset that the feed no longer has.

A place is exact to one notification (`feed_places`), even in the middle of a page, or if an SSE connection breaks
between notifications and the offset that follows them. Nothing comes twice in one run of the program. When several
feeds are read `together`, a place is only exact to the page: one of the feeds may end between two reads, and counting
would go wrong.
"""

import logging
import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

import httpx
import msgspec

from penstock.base.errors import FeedGone, PenstockError, ServiceError
from penstock.server.remote.back_off import BackOff
from penstock.server.remote.feed_places import NOW, OLDEST, FeedPlace, PlaceFile
from penstock.server.remote.service_link import (
    BUSY,
    Answer,
    Request,
    ServiceLink,
    retry_after,
    unreachable,
)
from penstock.server.remote.sse_reading import read_events

Live = Literal["sse", "long-poll"]

_NEXT, _UP_TO_DATE, _CURSOR = "stream-next-offset", "stream-up-to-date", "stream-cursor"
_FIRST = "0" * 16  # the offset of a feed's first notification
_SILENCE = 90.0  # seconds; the service ends a live request sooner by itself
_HASTY = 1.0  # seconds; a live request that ends sooner is followed by a pause

logger = logging.getLogger("penstock.client")


@dataclass(frozen=True, slots=True)
class Notification:
    """A notification of a subscription: its `event`, `message` (select-join), `document` (tree pattern) or `digest`.

    `id` is the same whenever and however it is sent. `place` is where to go on after it, for `follow(offset=…)`. If it
    is kept together with the results, in one transaction, each notification takes effect exactly once.
    """

    id: str
    kind: str
    subscription: int
    content: dict[str, Any]
    place: str

    @property
    def event(self) -> dict[str, Any] | None:
        """The event, for a filter."""
        return self.content.get("event")

    @property
    def message(self) -> dict[str, Any] | None:
        """The change of the view, for a select-join."""
        return self.content.get("message")

    @property
    def document(self) -> dict[str, Any] | None:
        """The document's id, and the tuples of the view, for a tree pattern."""
        return self.content.get("document")

    @property
    def digest(self) -> dict[str, Any] | None:
        """For a pace like `digest per day`: `notifications`, `count` of all that came, `since` and `until`."""
        return self.content.get("digest")

    @property
    def metadata(self) -> dict[str, str]:
        """The subscription's metadata, if the service sends it."""
        found: dict[str, str] = self.content.get("metadata", {})
        return found

    @property
    def published(self) -> str | None:
        """When the service accepted what was published, in UTC, if that is known."""
        return self.content.get("published")


class FollowedFeed:
    """An endless iterator over the notifications of a feed. Without `live` it ends when there are no more.

    Asking for the next notification marks the last one as done; `done()` does so earlier. A `keeper` then saves the
    place.
    """

    def __init__(
        self,
        link: ServiceLink,
        feed: Request,
        start: FeedPlace,
        live: Live | None = "sse",
        keeper: PlaceFile | None = None,
        *,
        together: bool = False,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._link, self._feed, self._live = link, feed, live
        self._keeper, self._sleep, self._clock = keeper, sleep, clock
        self._cursor: str | None = None
        # The offset of the current page, and how many of its notifications have come. "The oldest" moves when a feed
        # drops some, so it is asked for by number: a place in the middle of a page must mean the same later.
        self._base, self._seen = _FIRST if start.offset == OLDEST else start.offset, 0
        self._skip = start.done  # how many of the page were done before this reader began
        self._since: set[str] = set()  # the ids of those that this reader has given out
        self._counts = not together
        self._handled = start
        self._in_hand: FeedPlace | None = None
        self._notifications = self._read()

    @property
    def place(self) -> str:
        """Where another reader would go on: after the last notification that is done."""
        return str(self._handled)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Notification:
        self.done()
        return next(self._notifications)

    def done(self) -> None:
        """Mark the last notification as done: it needn't come again."""
        if self._in_hand is not None:
            self._keep(self._in_hand)
            self._in_hand = None

    def close(self) -> None:
        """Close the connection, and the file that keeps the place."""
        self._notifications.close()
        if self._keeper is not None:
            self._keeper.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _keep(self, place: FeedPlace) -> None:
        self._handled = place
        if self._keeper is not None:
            self._keeper.save(place)

    # --- the conversation ----------------------------------------------------------------------

    def _read(self) -> Generator[Notification, None, None]:
        pauses, up_to_date, broken = BackOff(), False, False
        while not (up_to_date and self._live is None):
            began, tail = self._clock(), self._base
            try:
                if up_to_date and self._live == "sse":
                    yield from self._stream()
                else:
                    up_to_date = yield from self._page(wait=up_to_date)
                if broken:
                    logger.warning("%s answers again", self._link.url)
                broken = False
                if not up_to_date or self._clock() - began > _HASTY:
                    pauses.reset()
                elif self._live is not None and tail == self._base:
                    self._sleep(pauses.next_pause())  # it answered at once that there is nothing
            except (_Later, httpx.RequestError) as error:
                later = error if isinstance(error, _Later) else _cut_off(self._link.url, error)
                if not broken:
                    logger.warning("%s\n  going on at offset %s", later.problem, self._handled)
                up_to_date, broken = False, True
                self._sleep(pauses.next_pause(later.seconds))
            self._seen = 0

    def _page(self, *, wait: bool) -> Generator[Notification, None, bool]:
        """Read one page. Returns whether the feed has no more."""
        answer = self._link.once(self._request("long-poll" if wait else None))
        if answer.status == 410 and self._handled.offset == OLDEST:
            self._base = answer.value()["earliest"]
            return False
        self._check(answer)
        if answer.status != 204:
            yield from self._arrive(answer.body)
        self._advance(answer.headers.get(_NEXT), answer.headers.get(_CURSOR), answer)
        return answer.headers.get(_UP_TO_DATE) == "true"

    def _stream(self) -> Iterator[Notification]:
        """The notifications of one SSE connection, until the service ends it."""
        request = self._request("sse")
        with self._link.stream(request, _SILENCE) as response:
            if response.status_code >= 400:
                body = response.read()
                self._check(Answer(response.status_code, response.headers, body))
            for event in read_events(response.iter_bytes()):
                if event.type == "data":
                    yield from self._arrive(event.data.encode())
                elif event.type == "control":
                    control = _decode(event.data.encode(), self._link.url)
                    self._advance(control.get("streamNextOffset"), control.get("streamCursor"))

    def _request(self, live: Live | None) -> Request:
        params = {"offset": self._base}
        if live is not None:
            params["live"] = live
        if live is not None and self._cursor is not None:
            params["cursor"] = self._cursor
        feed = self._feed
        return Request("GET", feed.path, params=params, ticket=feed.ticket, waits=_SILENCE)

    def _check(self, answer: Answer) -> None:
        if answer.status < 400:
            return
        error = self._link.error(answer, self._feed)
        if answer.status in BUSY or answer.status >= 500:
            raise _Later(error, retry_after(answer.headers))
        if isinstance(error, FeedGone):
            raise _gone(error, self._handled, self._keeper)
        raise error

    def _arrive(self, body: bytes) -> Iterator[Notification]:
        """The new notifications of a JSON array."""
        for found in _decode(body, self._link.url):
            self._seen += 1
            name = found.pop("id")
            if self._seen <= self._skip or name in self._since:
                continue
            self._since.add(name)
            self._in_hand = FeedPlace(self._base, self._seen if self._counts else 0)
            kind, subscription = found.pop("kind"), found.pop("subscription")
            yield Notification(name, kind, subscription, found, str(self._in_hand))

    def _advance(
        self, offset: str | None, cursor: str | None, answer: Answer | None = None
    ) -> None:
        """Note that everything before this offset has come."""
        if offset is None:
            status = "" if answer is None else f" ({answer.status})"
            raise ServiceError(
                f"{self._link.url}{self._feed.path} answers without the next offset{status}: is it a feed?"
            )
        self._base, self._seen, self._skip = offset, 0, 0
        self._since.clear()
        self._cursor = cursor or self._cursor
        self._keep(FeedPlace(offset))


class _Later(Exception):
    """The service can't answer now; it asks for a pause of `seconds`."""

    def __init__(self, problem: PenstockError, seconds: float) -> None:
        self.problem, self.seconds = problem, seconds
        super().__init__(str(problem))


def _cut_off(url: str, error: Exception) -> _Later:
    return _Later(unreachable(url, error), 0.0)


def _gone(error: FeedGone, place: FeedPlace, keeper: PlaceFile | None) -> FeedGone:
    """The error, with what was missed and how to go on."""
    first = "" if keeper is None else f"delete {keeper.path}, and "
    lines = [
        str(error),
        f"  notifications after {place} have left the feed before they were read: they are lost to this reader",
        f"  to go on with the oldest that is kept, {first}follow with offset={OLDEST!r}; with what comes next, {NOW!r}",
    ]
    return FeedGone("\n".join(lines), error.status, error.problem)


def _decode(body: bytes, url: str) -> Any:
    try:
        return msgspec.json.decode(body)
    except msgspec.DecodeError as error:
        raise ServiceError(f"{url} answers with what isn't JSON: {error}") from error


def begin_at(offset: str | None, store: str | Path | None) -> tuple[FeedPlace, PlaceFile | None]:
    """Where a reader begins: at what `store` keeps, else at `offset`, else with the oldest notification."""
    keeper = None if store is None else PlaceFile(store)
    if keeper is not None and keeper.place is not None:
        return keeper.place, keeper
    return FeedPlace.read(offset or OLDEST), keeper
