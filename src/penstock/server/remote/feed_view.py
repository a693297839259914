"""The view of a select-join. A feed keeps it up to date, and a file keeps it over restarts.

    with client.view(sid, ticket, select, catalog, store="alice.view") as mine:
        mine.catch_up(); mine.view.rows()        the SELECT's result as it is now
        for changes in mine: …                   and each change of it, as it comes

The file has the view and its place in the feed together, so they can't disagree. It is written when the view has caught
up, every ten seconds while it changes, and at the end. After a crash some messages are applied again, in their order,
which leads to the same view.

If the place has left the feed, the service is asked to send the whole view again: a message to forget everything comes
at the end of the feed, and then every tuple.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Self

from penstock.base.errors import FeedGone, SchemaError
from penstock.joins.catalog import Catalog, Table
from penstock.joins.join_view import JoinView, RowChanges
from penstock.joins.messages import read_message
from penstock.language.types import Kind, Scalar, Type
from penstock.server.remote.feed_places import NOW, OLDEST, FeedPlace
from penstock.server.remote.followed_feed import FollowedFeed, Live, Notification

_NO_JSON = ("NaN", "Infinity", "-Infinity")
_SAVED = 10.0  # seconds between two writings of a view that changes all the time

OpenFeed = Callable[[FeedPlace, Live | None], FollowedFeed]
"""Opens the feed at a place, live or to its end."""


class FeedView:
    """The result of a select-join, up to date with its feed. `view` is the `JoinView`."""

    def __init__(
        self,
        select: str,
        catalog: Catalog,
        open_feed: OpenFeed,
        resync: Callable[[], object],
        store: str | Path | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._open_feed, self._resync, self._clock = open_feed, resync, clock
        self._catalog = catalog
        self._store = None if store is None else Path(store)
        self.view = JoinView(select, catalog)
        if self._store is not None and self._store.exists():
            self.view = JoinView.load(self._store, select, catalog)
        self._saved, self._saved_at = self.view.position, clock()

    def catch_up(self) -> JoinView:
        """Apply everything that the feed has, and return the view."""
        for _ in self._changes(None):
            pass
        return self.view

    def __iter__(self) -> Iterator[RowChanges]:
        """The changes of the result as they come, for ever. Notifications that change no row are left out."""
        yield from self._changes(None)
        yield from self._changes("sse")

    def save(self) -> None:
        """Write the view, with its place in the feed, into the file, if there is one."""
        if self._store is not None and self.view.position != self._saved:
            self.view.save(self._store)
            self._saved = self.view.position
        self._saved_at = self._clock()

    def close(self) -> None:
        """Save it."""
        self.save()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _changes(self, live: Live | None) -> Iterator[RowChanges]:
        while True:
            try:
                with self._open_feed(FeedPlace.read(self.view.position or OLDEST), live) as feed:
                    yield from self._applied(feed)
                self.save()
                return
            except FeedGone:
                self._begin_again()

    def _applied(self, feed: FollowedFeed) -> Iterator[RowChanges]:
        for notification in feed:
            changes = self._apply(notification)
            if self._clock() - self._saved_at > _SAVED:
                self.save()
            if changes:
                yield changes
        feed.done()
        self.view.position = feed.place

    def _apply(self, notification: Notification) -> RowChanges:
        if notification.message is None:
            raise SchemaError(
                f"subscription {notification.subscription} is a {notification.kind}: only a select-join has a view"
            )
        told = dict(notification.message)
        if told.get("tuple") is not None:
            told["tuple"] = {
                name: _from_json(row, self._catalog.tables[name]) if row else row
                for name, row in told["tuple"].items()
                if name in self._catalog.tables
            }
        return self.view.apply(read_message(told), position=notification.place)

    def _begin_again(self) -> None:
        """Have the whole view sent again, and go on from the end of the feed: what is sent comes after it."""
        with self._open_feed(FeedPlace(NOW), None) as end:
            for _ in end:
                pass
            self.view.position = end.place
        self._resync()
        self.save()


def _from_json(row: Mapping[str, Any], table: Table) -> dict[str, Any]:
    """A tuple with NaN and infinities as numbers: JSON doesn't have them, so they come as text.

    >>> _from_json({"x": "NaN", "s": "NaN"}, Table({"x": "double", "s": "string"}, key="s"))
    {'x': nan, 's': 'NaN'}
    """
    types = dict(table.schema.root.fields)
    return {
        name: float(value) if value in _NO_JSON and _is_float(types.get(name)) else value
        for name, value in row.items()
    }


def _is_float(type_: Type | None) -> bool:
    return isinstance(type_, Scalar) and type_.kind is Kind.DOUBLE
