"""Delivers the feeds of subscriptions to their webhooks: in order, until each request is taken.

    feed ──▶ reader of one webhook ──▶ request ──▶ taken: the offset moves on
                    ▲                      └─▶ failed: again after a pause that doubles; set aside after a while
                    └── hub: something new

A webhook is a reader of its feed like any other, inside the service: it has an offset, and no queue. So a webhook that
is down costs only a row of a table. The number of requests under way, over all webhooks, is limited.

A request that is sent again has the same notifications, and so the same `webhook-id`, even if the feed has more by
then. Offsets are saved every second. After a crash some notifications are sent again, perhaps divided into other
requests: delivery is at least once. Each notification has an `id`, by which a receiver drops those that it has already.
"""

import asyncio
import contextlib
import logging
import random
from collections.abc import Callable
from dataclasses import dataclass, replace

from penstock.base.durations import utc_now
from penstock.base.errors import RowsDropped
from penstock.delivery.feeds import FeedPage, notification
from penstock.delivery.webhook_requests import Request
from penstock.server.hub import Hub
from penstock.server.webhooks.webhook_posts import Failure, WebhookPoster
from penstock.server.webhooks.webhook_table import Webhook, WebhookTable

_log = logging.getLogger("penstock.server")

_NOTED = 1.0  # seconds between two saves of webhooks' offsets
_LOOK = 300.0  # seconds after which a reader looks at its feed although nobody has woken it


@dataclass(frozen=True)
class WebhookRules:
    """The rules of delivery to webhooks. Times are in seconds."""

    notifications: int = 100
    """in one request, at most"""
    bytes: int = 1_000_000
    """of one request, about"""
    in_flight: int = 32
    """requests at once, of all webhooks"""
    timeout: float = 10.0
    """of one request"""
    first_pause: float = 1.0
    longest_pause: float = 600.0
    """between two tries of one request, unless the receiver asks for a longer one"""
    patience: float = 86_400.0
    """after which a webhook that takes nothing is set aside"""
    private: bool = False
    """whether to post to addresses that only this machine, or its network, can reach"""


class WebhookDelivery:
    """Delivers to all webhooks of a service. Used in one event loop."""

    def __init__(
        self,
        table: WebhookTable,
        hub: Hub,
        rules: WebhookRules | None = None,
        clock: Callable[[], int] = utc_now,
    ) -> None:
        self._rules = rules or WebhookRules()
        self._table, self._hub, self._clock = table, hub, clock
        self._room = asyncio.Semaphore(self._rules.in_flight)
        self._readers: dict[int, asyncio.Task[None]] = {}
        self._taken: dict[int, int] = {}
        self._noting: asyncio.Task[None] | None = None
        self._poster: WebhookPoster | None = None

    async def start(self) -> None:
        """Begin to deliver to all webhooks that aren't set aside."""
        rules = self._rules
        self._poster = WebhookPoster(rules.timeout, rules.in_flight, private=rules.private)
        for webhook in await asyncio.to_thread(self._table.active):
            self._begin(webhook)
        self._noting = asyncio.create_task(self._note_again())

    async def close(self) -> None:
        """End in order, and save the offsets."""
        for task in (*self._readers.values(), self._noting):
            if task is not None:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
        await self._note()
        if self._poster is not None:
            await self._poster.close()

    async def add(self, webhook: Webhook) -> None:
        """Deliver to a webhook that is new, has another URL, or was set aside."""
        await self._stop(webhook.subscription)
        await asyncio.to_thread(self._table.keep, webhook)
        self._begin(webhook)

    async def resume(self, subscription: int) -> Webhook | None:
        """Deliver again to a webhook that was set aside or is failing, from where it was; None if there is none."""
        await self._note()
        webhook = await asyncio.to_thread(self._table.find, subscription)
        if webhook is not None:
            webhook = replace(webhook, failing_since=None, tries=0, reason=None, set_aside=False)
            await self.add(webhook)
        return webhook

    async def remove(self, subscription: int) -> None:
        """Deliver no more to the webhook of a subscription."""
        await self._stop(subscription)
        await asyncio.to_thread(self._table.remove, subscription)

    async def find(self, subscription: int) -> Webhook | None:
        """The webhook of a subscription, as it is now."""
        await self._note()
        return await asyncio.to_thread(self._table.find, subscription)

    async def keep_only(self, is_there: Callable[[int], bool]) -> None:
        """Forget the webhooks of subscriptions that have ended."""
        ended = await asyncio.to_thread(
            lambda: [
                one.subscription for one in self._table.all() if not is_there(one.subscription)
            ]
        )
        for subscription in ended:
            await self.remove(subscription)

    # --- one webhook ----------------------------------------------------------------------------

    def _begin(self, webhook: Webhook) -> None:
        task = asyncio.create_task(self._deliver(webhook))
        self._readers[webhook.subscription] = task

    async def _stop(self, subscription: int) -> None:
        task = self._readers.pop(subscription, None)
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        await self._note()

    async def _deliver(self, webhook: Webhook) -> None:
        sid = webhook.subscription
        end: int | None = None  # the offset after the request that failed
        while not webhook.set_aside:
            page: FeedPage | None = None
            try:
                page = await self._next_page(webhook, end)
                failure = await self._post(webhook, page) if page.rows else None
            except RowsDropped:
                failure = Failure(
                    "some of its notifications were dropped before it took them: resume goes on with what is kept",
                    is_final=True,
                )
                webhook = replace(webhook, offset=-1)
            end = page.next if failure is not None and page is not None else None
            if failure is None and page is not None:
                webhook = replace(
                    webhook, offset=page.next, failing_since=None, tries=0, reason=None
                )
                self._taken[sid] = page.next
            elif failure is not None:
                webhook = await self._fail(webhook, failure)
        self._readers.pop(sid, None)

    async def _next_page(self, webhook: Webhook, end: int | None) -> FeedPage:
        """The next notifications for a receiver, up to the offset `end` if it is given. Waits until there are some."""
        while True:
            found = await self._hub.wait([webhook.subscription], webhook.offset, _LOOK)
            if found is not None:
                page = await self._hub.read(
                    [webhook.subscription],
                    webhook.offset,
                    self._rules.bytes,
                    self._rules.notifications,
                )
                if end is None:
                    return page
                rows = [one for one in page.rows if one[1].number < end]
                return FeedPage(rows, end, up_to_date=False)

    async def _post(self, webhook: Webhook, page: FeedPage) -> Failure | None:
        told = [(row, notification(row, sid).encode()) for sid, row in page.rows]
        names = tuple(f"{row.id}-{webhook.subscription}" for row, _ in told)
        request = Request(names, tuple(value for _, value in told))
        assert self._poster is not None, "started"
        async with self._room:
            return await self._poster.post(webhook, request)

    async def _fail(self, webhook: Webhook, failure: Failure) -> Webhook:
        """Note a failure, and wait before the next try; or set the webhook aside."""
        now = self._clock()
        since = now if webhook.failing_since is None else webhook.failing_since
        late = now - since >= self._rules.patience * 1e6
        failed = replace(
            webhook,
            failing_since=since,
            tries=webhook.tries + 1,
            reason=failure.reason,
            set_aside=late or failure.is_final,
        )
        self._taken.pop(webhook.subscription, None)
        await asyncio.to_thread(self._table.keep, failed)
        if failed.set_aside:
            _log.warning(
                "the webhook of subscription %d is set aside: %s",
                webhook.subscription, failure.reason,
            )  # fmt: skip
            return failed
        longest = min(
            self._rules.longest_pause, self._rules.first_pause * 2.0 ** min(failed.tries - 1, 30)
        )
        pause = random.uniform(longest / 2, longest)
        if failure.pause is not None:
            pause = max(pause, min(failure.pause, self._rules.patience))
        await asyncio.sleep(pause)
        return failed

    # --- how far they have got ------------------------------------------------------------------

    async def _note_again(self) -> None:
        while True:
            await asyncio.sleep(_NOTED)
            await self._note()

    async def _note(self) -> None:
        if self._taken:
            taken, self._taken = self._taken, {}
            await asyncio.to_thread(self._table.note_taken, taken)
