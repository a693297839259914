"""The hub with its store, compared with lists in memory: every reader sees each notification once and in order, or is
told that it has missed something; and who waits is woken if there is something for it, only then."""

import asyncio

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.delivery.feed_model import Model
from tests.sizes import PATIENCE

from penstock.base.errors import RowsDropped
from penstock.delivery.feeds import Retention, open_feeds
from penstock.delivery.feeds.segments import SegmentLimits
from penstock.server.hub import Hub

SMALL = SegmentLimits(blocks=3, sealed_pairs=40, merged=3, size=4000, pairs=400, span=50)
DAYS = Retention("1 us", None)


class Reader:
    """A connection: an offset, and what it has read."""

    def __init__(self, hub, model, subscriptions, offset):
        self.hub, self.model, self.subscriptions = hub, model, subscriptions
        self.offset, self.start, self.gone = offset, offset, False
        self.seen = []

    async def step(self, most_rows, most_bytes):
        """Read a page, or be told that something is gone, and go on where it isn't."""
        try:
            page = await self.hub.read(self.subscriptions, self.offset, most_bytes, most_rows)
        except RowsDropped as error:
            assert self.model.is_gone(self.subscriptions, self.offset)
            self.check()
            self.seen, self.start = [], max(error.oldest, self.offset + 1)
            self.offset = self.start
            return True
        self.seen += [(row.number, one, row.id) for one, row in page.rows]
        assert page.next >= self.offset
        self.offset = page.next
        return not page.up_to_date

    def check(self):
        """All that there ever was for it between its start and where it is, once."""
        ever = Model(self.model.rows).feed(self.subscriptions, self.start)
        assert self.seen == [row for row in ever if row[0] < self.offset]


READERS = st.lists(st.lists(st.integers(1, 6), max_size=4, unique=True), min_size=1, max_size=8)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), READERS, st.sampled_from([1, 3000])),
        st.tuples(st.just("advance"), st.none(), st.none()),
        st.tuples(st.just("prune"), st.sampled_from([0, 1500, 6000]), st.none()),
        st.tuples(
            st.just("open"),
            st.lists(st.integers(1, 7), min_size=1, max_size=3, unique=True),
            st.floats(0, 1),
        ),
        st.tuples(st.just("read"), st.integers(1, 5), st.sampled_from([1, 4000, 10**6])),
        st.tuples(st.just("wait"), st.none(), st.none()),
    ),
    max_size=40,
)


@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(STEPS, st.sampled_from([1, 30_000, 10**8]))
def test_every_reader_sees_each_of_its_notifications_once(tmp_path_factory, steps, ring):
    """Whatever is appended, pruned and read in whatever order, and however little the hub keeps."""
    path = tmp_path_factory.mktemp("hub") / "feeds.db"
    asyncio.run(_play(path, steps, ring))


async def _play(path, steps, ring):
    with open_feeds(path, SMALL, lambda: 0) as store:
        hub = Hub(store, ring, threads=2, poll=None)
        await hub.start()
        try:
            await _take(steps, hub, store, Model())
        finally:
            await hub.close()
        assert hub.bytes <= ring or len(hub._ring) == 1


async def _take(steps, hub, store, model):
    readers = []
    for step, one, two in steps:
        if step == "append":
            model.append(store, one, two)
        elif step == "advance":
            await hub.advance()
            assert hub.tail == model.tail
        elif step == "prune":
            await hub.prune(0, Retention(None, one))
            model.oldest = store.oldest()
        elif step == "open":
            offset = model.oldest + round(two * (model.tail - model.oldest))
            readers.append(Reader(hub, model, one, offset))
        elif step == "read":
            for reader in readers:
                await reader.step(one, two)
        else:
            for reader in readers:
                await _check_wait(reader, model)
    await hub.advance()
    for reader in readers:
        while await reader.step(3, 5000):
            pass
        assert reader.offset == model.tail
        reader.check()


async def _check_wait(reader, model):
    """Who is woken can read on there and misses nothing; who isn't has nothing up to the tail."""
    hub = reader.hub
    found = await hub.wait(reader.subscriptions, reader.offset, 0)
    known = [row[0] for row in Model(model.rows).feed(reader.subscriptions, reader.offset)]
    known = [number for number in known if number < hub.tail]
    if found is None:
        assert not known
    else:
        assert reader.offset <= found <= min(known, default=found)
        reader.offset = found


def run(path, play, **settings_):
    async def go():
        with open_feeds(path, SMALL, lambda: 0) as store:
            hub = Hub(store, **{"poll": None, **settings_})
            await hub.start()
            try:
                await play(hub, store, Model())
            finally:
                await hub.close()

    asyncio.run(go())


def test_only_those_concerned_are_woken(tmp_path):
    """Of ten thousand that wait, those whose subscription gets something."""

    async def play(hub, store, model):
        waiting = {
            one: asyncio.create_task(hub.wait([one, 20_000 + one], 1, PATIENCE))
            for one in range(10_000)
        }
        await asyncio.sleep(0)
        assert hub.waiting == 10_000
        model.append(store, [[70_000], [7], [20_008, 20_009], [7]])
        await hub.advance()
        woken = {await waiting.pop(one): one for one in (7, 8)}
        assert woken == {2: 7, 3: 8}
        assert await waiting.pop(9) == 3
        assert not any(one.done() for one in waiting.values())
        assert hub.waiting == 9_997
        for one in waiting.values():
            one.cancel()
        await asyncio.gather(*waiting.values(), return_exceptions=True)
        assert hub.waiting == 0
        assert not hub._waiting

    run(tmp_path / "feeds.db", play)


def test_a_reader_ahead_of_the_hub_waits(tmp_path):
    """It has read from the store what the hub hasn't taken over yet: that doesn't wake it."""

    async def play(hub, store, model):
        model.append(store, [[1], [1]])
        early = (await hub.read([1], -1)).next
        assert early == 3 > hub.tail
        task = asyncio.create_task(hub.wait([1], early, PATIENCE))
        await asyncio.sleep(0)
        await hub.advance()
        assert not task.done()
        model.append(store, [[2], [1]])
        await hub.advance()
        assert await task == 4

    run(tmp_path / "feeds.db", play)


def test_who_waits_hears_of_what_was_dropped_before_the_hub_saw_it(tmp_path):
    """It reads, and is told that it has missed something."""

    async def play(hub, store, model):
        task = asyncio.create_task(hub.wait([1], 1, PATIENCE))
        await asyncio.sleep(0)
        model.append(store, [[1]])
        store.prune(100, DAYS)
        model.append(store, [[2]])
        await hub.advance()
        with pytest.raises(RowsDropped):
            await hub.read([1], await task)

    run(tmp_path / "feeds.db", play)


def test_the_hub_looks_by_itself(tmp_path):
    """Nobody says that something was committed."""

    async def play(hub, store, model):
        task = asyncio.create_task(hub.wait([1], 1, PATIENCE))
        await asyncio.sleep(0)
        model.append(store, [[1]])
        assert await task == 1
        assert [row.id for row in hub.newest(5)] == ["0"]

    run(tmp_path / "feeds.db", play, poll=0.01)


def test_its_memory_is_bounded(tmp_path):
    """Whatever is appended, the ring keeps the newest of it."""

    async def play(hub, store, model):
        for _ in range(20):
            model.append(store, [[1]] * 50, size=2000)
            await hub.advance()
            assert hub.bytes <= 500_000
        assert hub.newest(1)[0].number == model.tail - 1
        page = await hub.read([1], 1, 10**9, 10**9)
        assert len(page.rows) == 1000

    run(tmp_path / "feeds.db", play, most_bytes=500_000)


def test_closing_ends_all_that_wait(tmp_path):
    """As if their time were over; who comes later doesn't wait."""

    async def play(hub, store, model):
        task = asyncio.create_task(hub.wait([1], 1, None))
        await asyncio.sleep(0)
        await hub.close()
        assert await task is None
        assert await hub.wait([1], 1, PATIENCE) is None

    run(tmp_path / "feeds.db", play)
