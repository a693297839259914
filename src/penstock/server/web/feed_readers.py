"""Reads one feed, or all feeds of a subscriber as one, page after page, without missing a subscription.

A reader of one feed has one subscription. A reader of all feeds of a subscriber has the current ones, and there may be
more at any time. A subscription is in the registry before the first row for it is in the store. So a page is read
first, and then the registry is asked whether the subscriptions have changed. If they haven't, the page misses nothing;
if they have, it is read again with the new ones.
"""

import asyncio
from typing import Protocol

from penstock.base.errors import RowsDropped
from penstock.delivery.feeds import FeedPage
from penstock.registry import Subscriptions
from penstock.server.hub import Hub
from penstock.server.web.feed_offsets import offset_text
from penstock.server.web.problems import Problem
from penstock.server.web.threads import Threads

_LOOK_AGAIN = 2.0  # seconds after which a waiting reader asks for new subscriptions


class FeedReader(Protocol):
    """Reads one feed, or several as one."""

    name: str
    """The name of what it reads, for entity tags."""

    async def read(self, offset: int, most_bytes: int) -> FeedPage:
        """Read a page. Raises a Problem if rows that it should have were dropped."""

    async def wait(self, offset: int, seconds: float) -> int | None:
        """Wait for a row at an offset or above. Returns where to read on; None if no row comes in time."""


class OneFeed:
    """The feed of one subscription."""

    def __init__(self, hub: Hub, subscription: int) -> None:
        self.name = str(subscription)
        self._hub, self._ids = hub, (subscription,)

    async def read(self, offset: int, most_bytes: int) -> FeedPage:
        return await _read(self._hub, self._ids, offset, most_bytes)

    async def wait(self, offset: int, seconds: float) -> int | None:
        return await self._hub.wait(self._ids, offset, seconds)


class SubscribersFeeds:
    """All feeds of a subscriber, as one."""

    def __init__(
        self, hub: Hub, registry: Subscriptions, threads: Threads, subscriber: str, most: int
    ) -> None:
        self.name = "all"
        self._hub, self._registry, self._threads = hub, registry, threads
        self._subscriber, self._most = subscriber, most
        self._ids: tuple[int, ...] = ()
        self._sequence = -1

    async def read(self, offset: int, most_bytes: int) -> FeedPage:
        if self._sequence < 0:
            await self._have_changed()
        while True:
            page = await _read(self._hub, self._ids, offset, most_bytes)
            if not await self._have_changed():
                return page

    async def wait(self, offset: int, seconds: float) -> int | None:
        ends = asyncio.get_running_loop().time() + seconds
        while (left := ends - asyncio.get_running_loop().time()) > 0:
            found = await self._hub.wait(self._ids, offset, min(left, _LOOK_AGAIN))
            if found is not None or await self._have_changed():
                return offset  # not `found`: a new subscription may have something before it
        return None

    async def _have_changed(self) -> bool:
        """Whether the subscriptions have changed since the last call."""
        before = self._ids
        self._sequence, self._ids = await self._threads.read(self._look)
        return self._ids != before

    def _look(self) -> tuple[int, tuple[int, ...]]:
        sequence = self._registry.sequence()
        if sequence == self._sequence:
            return sequence, self._ids
        ids = self._registry.ids_of(self._subscriber, self._most + 1)
        if len(ids) > self._most:
            raise Problem(
                "conflict",
                f"the subscriber has more than {self._most:,} subscriptions, too many to be read as one: "
                "read their feeds one by one",
                limit=self._most,
            )
        return sequence, ids


async def _read(hub: Hub, ids: tuple[int, ...], offset: int, most_bytes: int) -> FeedPage:
    try:
        return await hub.read(ids, offset, most_bytes)
    except RowsDropped as gone:
        if gone.subscription is None:
            raise Problem(
                "bad-offset",
                "this offset is ahead of all that is there: it isn't one of this service's",
                parameter="offset",
            ) from None
        raise Problem(
            "gone",
            "notifications from this offset on have been dropped: you have missed some. Go on at `earliest`",
            earliest=offset_text(gone.oldest),
            subscription=gone.subscription,
        ) from None
