"""Opens the feeds at a path or a URL, in the database that it names."""

import os
from collections.abc import Callable
from pathlib import Path

from penstock.base.durations import utc_now
from penstock.base.errors import FeedError
from penstock.delivery.feeds.feed_database import FeedDatabase
from penstock.delivery.feeds.feed_store import FeedStore
from penstock.delivery.feeds.postgresql_feeds import PostgreSQLFeeds
from penstock.delivery.feeds.segments import SegmentLimits
from penstock.delivery.feeds.sqlite_feeds import SQLiteFeeds

_FORMS = "write a path (feeds.db), sqlite:///feeds.db or postgresql://user@host/database"


def open_feeds(
    place: str | os.PathLike[str],
    limits: SegmentLimits | None = None,
    clock: Callable[[], int] = utc_now,
) -> FeedStore:
    """The feed store at a path or a URL. It is made if it doesn't exist."""
    return FeedStore(_database_at(place), limits, clock)


def _database_at(place: str | os.PathLike[str]) -> FeedDatabase:
    text = os.fspath(place)
    scheme, separator, rest = text.partition("://")
    if not separator:
        return SQLiteFeeds(Path(text))
    if scheme == "sqlite" and rest.startswith("/") and len(rest) > 1:
        return SQLiteFeeds(
            Path(rest[1:])
        )  # as in a registry's URL: four slashes for an absolute path
    if scheme in ("postgresql", "postgres"):
        return PostgreSQLFeeds(text)
    raise FeedError(f"feeds can't be kept at {scheme}://…: {_FORMS}")
