"""Webhooks of single subscriptions: a real receiver gets each feed in order, and harms nobody when it is down."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa
import pytest
from tests.delivery.receiver import SECRET, Answer, receiver, reply
from tests.server.web import web_service
from tests.sizes import PATIENCE

from penstock.base.durations import utc_now
from penstock.delivery import Batch
from penstock.delivery.feeds import FeedStore, Retention, open_feeds
from penstock.delivery.feeds.feed_rows import APPENDED
from penstock.server.hub import Hub
from penstock.server.webhooks.webhook_delivery import WebhookDelivery, WebhookRules
from penstock.server.webhooks.webhook_posts import WebhookPoster
from penstock.server.webhooks.webhook_table import Webhook, WebhookTable

RULES = WebhookRules(first_pause=0.01, longest_pause=0.05, private=True, notifications=3)


@dataclass
class World:
    """Feeds with webhooks, in one event loop."""

    feeds: FeedStore
    hub: Hub
    table: WebhookTable
    delivery: WebhookDelivery
    batches: int = 0
    times: list[int] = field(default_factory=list)

    async def tell(self, *readers: int, count: int = 1) -> None:
        """Append rows, each for all of some subscriptions."""
        first = self.batches * 1000
        names = [str(first + n) for n in range(count)]
        bodies = [f'{{"event":{{"n":{name}}}}}' for name in names]
        columns = [names, bodies, [list(readers)] * count, [first + n for n in range(count)]]
        arrays = [pa.array(c, f.type) for c, f in zip(columns, APPENDED, strict=True)]
        self.feeds.append(
            pa.Table.from_arrays(arrays, schema=APPENDED), Batch("query", self.batches, "filter")
        )
        self.batches += 1
        await self.hub.advance()


@contextlib.asynccontextmanager
async def world(
    folder: Path, rules: WebhookRules = RULES, clock: Callable[[], int] = utc_now
) -> AsyncIterator[World]:
    feeds, table = open_feeds(folder / "feeds.db"), WebhookTable(folder / "service.db")
    hub = Hub(feeds, poll=None)
    await hub.start()
    delivery = WebhookDelivery(table, hub, rules, clock)
    await delivery.start()
    try:
        yield World(feeds, hub, table, delivery)
    finally:
        await delivery.close()
        await hub.close()
        table.close()
        feeds.close()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0.005)


async def set_aside(scene: World, sid: int) -> Webhook:
    async with asyncio.timeout(PATIENCE):
        while True:
            found = await scene.delivery.find(sid)
            assert found is not None
            if found.set_aside:
                return found
            await asyncio.sleep(0.005)


def names(sid: int, numbers: list[int]) -> list[str]:
    return [f"{number}-{sid}" for number in numbers]


def ids(got: list) -> list[str]:
    return [one["id"] for request in got for one in request.notifications]


def test_each_feed_is_posted_in_order_and_to_nobody_else(tmp_path):
    """Requests are signed, hold no more than they may, and follow the order of the feed."""

    async def story():
        with receiver() as first, receiver() as second:
            async with world(tmp_path) as scene:
                await scene.delivery.add(Webhook(1, first.url, SECRET, 1))
                await scene.delivery.add(Webhook(2, second.url, SECRET, 1))
                await scene.tell(1, count=7)
                await scene.tell(1, 2)
                await scene.tell(3)
                await until(lambda: len(ids(first.received)) == 8 and bool(ids(second.received)))
                assert ids(first.received) == names(1, [*range(7), 1000])
                assert ids(second.received) == names(2, [1000])
                assert max(len(got.notifications) for got in first.received) <= 3
                assert first.received[0].notifications[0]["event"] == {"n": 0}

    asyncio.run(story())


def test_what_fails_is_sent_again_until_it_is_taken(tmp_path):
    """Nothing overtakes a request that fails; a repeated one has the same id; other webhooks don't wait."""
    answers: list[Answer] = [500, 503, 429, lambda handler: handler.connection.close(), 302, 404]

    async def story():
        with (
            receiver(lambda n: answers[n] if n < len(answers) else 204) as slow,
            receiver() as good,
        ):
            async with world(tmp_path) as scene:
                await scene.delivery.add(Webhook(1, slow.url, SECRET, 1))
                await scene.delivery.add(Webhook(2, good.url, SECRET, 1))
                await scene.tell(1, 2)
                await until(lambda: len(good.received) == 1)
                await scene.tell(1)
                await until(lambda: "1000-1" in ids(slow.received))
                taken = slow.received[len(answers) :]
                assert ids(taken) == names(1, [0, 1000])
                assert {got.id for got in slow.received[: len(answers) + 1]} == {taken[0].id}
                webhook = await scene.delivery.find(1)
                assert webhook is not None
                assert (webhook.failing_since, webhook.tries) == (None, 0)

    asyncio.run(story())


def test_a_receiver_says_how_long_to_wait(tmp_path):
    """`Retry-After` is kept to; a receiver can't make the service wait for longer than its patience."""

    async def story():
        later = lambda handler: reply(handler, 503, Retry_After="1000000")  # noqa: E731
        with receiver(lambda n: later) as found:
            async with world(tmp_path, replace(RULES, patience=0.1)) as scene:
                await scene.delivery.add(Webhook(1, found.url, SECRET, 1))
                await scene.tell(1)
                kept = await set_aside(scene, 1)
                assert kept.reason is not None
                assert kept.reason.startswith("503")
                assert len(found.received) == 2

    asyncio.run(story())


def test_one_that_takes_nothing_is_set_aside_and_resumed_by_hand(tmp_path):
    """It says why; while it is set aside nothing is posted; resumed, it goes on where it was."""

    async def story():
        times = iter(range(0, 10**15, int(RULES.patience * 1e6 / 3)))
        down = [True]
        with receiver(lambda n: 500 if down[0] else 204) as found:
            async with world(tmp_path, clock=lambda: next(times)) as scene:
                await scene.delivery.add(Webhook(1, found.url, SECRET, 1))
                await scene.tell(1, count=2)
                kept = await set_aside(scene, 1)
                assert (kept.tries, kept.reason) == (4, "500 Internal Server Error")
                tried = len(found.received)
                await scene.tell(1)
                await asyncio.sleep(0.1)
                assert len(found.received) == tried
                down[0] = False
                resumed = await scene.delivery.resume(1)
                assert resumed is not None
                assert not resumed.set_aside
                await until(lambda: "1000-1" in ids(found.received))
                assert ids(found.received[tried:]) == names(1, [0, 1, 1000])

    asyncio.run(story())


def test_gone_means_gone(tmp_path):
    """A receiver that answers 410 isn't asked again."""

    async def story():
        with receiver(lambda n: 410) as found:
            async with world(tmp_path) as scene:
                await scene.delivery.add(Webhook(1, found.url, SECRET, 1))
                await scene.tell(1)
                assert (await set_aside(scene, 1)).tries == 1
                assert len(found.received) == 1

    asyncio.run(story())


def test_what_was_dropped_is_said(tmp_path):
    """A webhook that is behind what is kept says so, and goes on with what there is when it is resumed."""

    async def story():
        with receiver() as found:
            async with world(tmp_path) as scene:
                await scene.tell(1, count=3)
                pruned = await scene.hub.prune(utc_now() + 10**9, Retention("1 second", None))
                assert pruned.rows == 3
                await scene.delivery.add(Webhook(1, found.url, SECRET, 1))
                kept = await set_aside(scene, 1)
                assert kept.reason is not None
                assert "dropped" in kept.reason
                await scene.tell(1)
                await scene.delivery.resume(1)
                await until(lambda: bool(found.received))
                assert ids(found.received) == names(1, [1000])

    asyncio.run(story())


def test_a_restart_goes_on_where_it_was(tmp_path):
    """How far each webhook has got is kept; what is set aside stays so."""

    async def story():
        with receiver() as found, receiver(lambda n: 410) as gone:
            async with world(tmp_path) as scene:
                await scene.delivery.add(Webhook(1, found.url, SECRET, 1))
                await scene.delivery.add(Webhook(2, gone.url, SECRET, 1))
                await scene.tell(1, 2, count=4)
                await until(lambda: len(ids(found.received)) == 4)
                await set_aside(scene, 2)
            async with world(tmp_path) as scene:
                scene.batches = 1
                await scene.tell(1, 2)
                await until(lambda: "1000-1" in ids(found.received))
                assert ids(found.received) == names(1, [0, 1, 2, 3, 1000])
                assert len(gone.received) == 1
                await scene.delivery.remove(1)
                assert await scene.delivery.find(1) is None

    asyncio.run(story())


def test_no_more_requests_at_once_than_are_allowed(tmp_path):
    """However many webhooks there are, and however long they take."""
    running, most = [0], [0]

    def answer(handler):
        running[0] += 1
        most[0] = max(most[0], running[0])
        asyncio.run(asyncio.sleep(0.02))
        running[0] -= 1
        reply(handler, 204)

    async def story():
        with receiver(lambda n: answer) as found:
            async with world(tmp_path, replace(RULES, in_flight=3)) as scene:
                for sid in range(1, 31):
                    await scene.delivery.add(Webhook(sid, found.url, SECRET, 1))
                await scene.tell(*range(1, 31))
                await until(lambda: len(found.received) == 30)
                assert most[0] <= 3

    asyncio.run(story())


@pytest.mark.parametrize(
    "url",
    ["http://127.0.0.1:{port}/", "http://localhost:{port}/", "http://[::ffff:127.0.0.1]:{port}/"],
)
def test_private_addresses_are_not_posted_to(url):
    """Unless the settings say so: a subscriber can't make the service post to what only the service can reach."""
    from penstock.delivery.webhook_requests import Request

    async def story(port: int):
        poster = WebhookPoster(5.0, 1, private=False)
        try:
            return await poster.post(
                Webhook(1, url.format(port=port), SECRET, 1), Request(("1",), (b"{}",))
            )
        finally:
            await poster.close()

    with receiver() as found:
        failure = asyncio.run(story(int(found.url.split(":")[2].split("/")[0])))
        assert failure is not None
        assert "no public address" in failure.reason
        assert not found.received


def test_webhooks_over_http(tmp_path):
    """A subscription is made with its webhook, which its ticket lets one see, resume, replace, remove."""
    with receiver() as found, web_service(tmp_path) as web:
        wish = {"delivery": {"webhook": {"url": found.url, "secret": SECRET}}}
        made = web.subscribe("price > 5", wish=wish)
        path = f"/v1/subscriptions/{made['id']}/webhook"
        assert made["webhook"]["state"] == "delivering"
        assert web.post("/v1/events", {"price": 7.0}).status_code == 202
        wait_until(lambda: bool(found.received))
        (told,) = found.received[0].notifications
        assert (told["subscription"], told["event"]["price"]) == (made["id"], 7.0)
        shown = web.get(path, made["ticket"]).json()
        assert "secret" not in shown
        assert shown["url"] == found.url
        assert web.get(path, "0" * 64).status_code == 404
        assert web.post(f"{path}/resume", ticket=made["ticket"]).status_code == 200
        bad = web.ask("PUT", path, made["ticket"], json={"url": "ftp://example.org"})
        assert (bad.status_code, bad.json()["type"]) == (422, "urn:penstock:problem:invalid-value")
        other = web.ask("PUT", path, made["ticket"], json={"url": found.url}).json()
        assert other["secret"].startswith("whsec_")
        assert web.ask("DELETE", path, made["ticket"]).status_code == 204
        assert web.get(path, made["ticket"]).status_code == 404


def test_a_webhook_ends_with_its_subscription(tmp_path):
    """Cancelled or expired: nothing is posted any more, and nothing of it is kept."""
    with receiver() as found, web_service(tmp_path) as web:
        wish = {"delivery": {"webhook": {"url": found.url, "secret": SECRET}}}
        first, second = (web.subscribe("price > 5", wish=wish) for _ in range(2))
        path = f"/v1/subscriptions/{first['id']}"
        assert web.ask("DELETE", path, first["ticket"]).status_code == 204
        web.service.registry.remove(second["id"])
        web.run(web.service.webhooks.keep_only(web.service._is_there))
        for one in (first, second):
            assert web.run(web.service.webhooks.find(one["id"])) is None


def wait_until(condition: Callable[[], bool]) -> None:
    asyncio.run(until(condition))
