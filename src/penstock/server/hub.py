"""The hub: the newest rows of all feeds in memory, for all connections that wait for them.

    store ──advance──▶ ring of blocks (bounded by bytes) ──read──▶ a connection, which is just an offset
                          └─ wakes the connections that wait for one of its rows

A connection has no queue of its own. It reads from its offset: from the ring if that reaches back far enough, else from
the store, in a thread. So a slow connection costs nothing, and one that is away too long gets `RowsDropped`.

Everything runs in one event loop, except the store's methods, which are called in a bounded number of threads.
"""

import asyncio
import contextlib
import logging
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, partial
from typing import TypeVar

import numpy as np

from penstock.base.arrays import Int64s, distinct
from penstock.base.errors import FeedError
from penstock.delivery.feeds.feed_rows import (
    FeedBlock,
    FeedPage,
    FeedRow,
    PageInMaking,
    numbers_for,
    sorted_ids,
)
from penstock.delivery.feeds.feed_store import FeedStore
from penstock.delivery.feeds.retention import Pruned, Retention

_log = logging.getLogger("penstock.server")
_Result = TypeVar("_Result")
_PIECE = 4 * 1024**2  # bytes that are fetched from the store at a time
_FACTOR = 3  # bytes of memory for a byte of a block, about: its rows as Python objects, its pairs


class _Waiting:
    """A connection that waits: `found` is the number of the first row for it, from its offset on."""

    __slots__ = ("found", "offset")

    def __init__(self, offset: int) -> None:
        self.offset = offset
        self.found: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def wake(self, number: int) -> None:
        if not self.found.done():
            self.found.set_result(number)


class _HeldBlock:
    """A block in the ring. Its rows and pairs are made once for all readers."""

    def __init__(self, block: FeedBlock) -> None:
        self.first, self.end = block.first, block.end
        self.size = block.size * _FACTOR
        self.came = asyncio.get_running_loop().time()
        self._block = block

    @property
    def pairs(self) -> tuple[Int64s, Int64s]:
        return self._block.pairs

    @cached_property
    def rows(self) -> list[FeedRow]:
        return self._block.rows(np.arange(self.first, self.end))

    def first_for(self, wanted: Int64s, offset: int) -> int | None:
        numbers, _ = numbers_for(self.pairs, wanted, offset)
        return int(numbers[0]) if len(numbers) else None


class Hub:
    """Feeds for open connections. `start` it in the event loop, and `close` it there."""

    def __init__(
        self,
        store: FeedStore,
        most_bytes: int = 64 * 1024**2,
        threads: int = 4,
        poll: float | None = 1.0,
    ) -> None:
        self._store = store
        self._most_bytes = most_bytes
        self._poll = poll
        self._threads = ThreadPoolExecutor(threads, "feeds")
        self._ring: deque[_HeldBlock] = deque()
        self._bytes = 0
        self._tail = 0
        self._waiting: dict[int, set[_Waiting]] = defaultdict(set)
        self._advancing: asyncio.Task[None] | None = None
        self._again = False
        self._polling: asyncio.Task[None] | None = None
        self._closed = False

    @property
    def tail(self) -> int:
        """The offset up to which the hub has followed the store."""
        return self._tail

    @property
    def waiting(self) -> int:
        """How many connections wait."""
        return len(self._all_waiting())

    @property
    def bytes(self) -> int:
        """The approximate size of the ring."""
        return self._bytes

    async def start(self) -> None:
        """Begin at the tail of the store. With `poll`, look for new rows every `poll` seconds."""
        self._tail = await self._in_thread(self._store.tail)
        if self._poll is not None:
            self._polling = asyncio.create_task(self._look_again(self._poll))

    async def close(self) -> None:
        """End all waits, as if their time were over. The store stays open."""
        self._closed = True
        for task in (self._polling, self._advancing):
            if task is not None:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError, FeedError):
                    await task
        for one in self._all_waiting():
            one.found.cancel()
        self._threads.shutdown(wait=True, cancel_futures=True)

    # --- for connections ------------------------------------------------------------------------

    async def read(
        self,
        subscriptions: Sequence[int],
        offset: int,
        most_bytes: int = 1024**2,
        most_rows: int = 10_000,
    ) -> FeedPage:
        """As `FeedStore.read`: the feeds of some subscriptions, as one, from an offset on."""
        if self._reaches(offset):
            return self._from_ring(sorted_ids(subscriptions), offset, most_rows, most_bytes)
        return await self._in_thread(
            lambda: self._store.read(subscriptions, offset, most_rows, most_bytes)
        )

    async def wait(
        self, subscriptions: Sequence[int], offset: int, timeout: float | None
    ) -> int | None:
        """Wait until one of the subscriptions has a row at an offset or above; the caller has read all rows below.

        Returns the offset at which to read on: there is nothing for them below it. Returns None if the time is over or
        the hub is closed: then there is nothing for them below `tail`.
        """
        wanted = sorted_ids(subscriptions)
        if self._closed:
            return None
        if offset <= self._tail and not self._reaches(offset):
            return offset  # only the store knows
        for block in self._blocks_from(offset):
            if (number := block.first_for(wanted, offset)) is not None:
                return number
        waiting = _Waiting(offset)
        ids = wanted.tolist()
        for subscription in ids:
            self._waiting[subscription].add(waiting)
        try:
            await asyncio.wait([waiting.found], timeout=timeout)
        finally:
            for subscription in ids:
                others = self._waiting[subscription]
                others.discard(waiting)
                if not others:
                    del self._waiting[subscription]
        found = waiting.found
        return found.result() if found.done() and not found.cancelled() else None

    def newest(self, count: int) -> list[FeedRow]:
        """The newest rows in memory, of all feeds, the newest first."""
        found: list[FeedRow] = []
        for block in reversed(self._ring):
            found += reversed(block.rows)
            if len(found) >= count:
                break
        return found[:count]

    def count(self, subscription: int, since: float) -> int:
        """How many notifications of a subscription the ring has that came since a moment of the loop's clock."""
        wanted, found = np.array([subscription]), 0
        for block in reversed(self._ring):
            if block.came < since:
                break
            found += len(numbers_for(block.pairs, wanted, block.first)[0])
        return found

    # --- following the store --------------------------------------------------------------------

    async def advance(self) -> None:
        """Read what was committed to the store before this call, and wake the connections that wait for it."""
        if self._advancing is not None and not self._advancing.done():
            self._again = True  # the running task may have looked already
        else:
            self._advancing = asyncio.create_task(self._follow())
        await asyncio.shield(self._advancing)

    async def prune(self, now: int, retention: Retention) -> Pruned:
        """Drop what is too old or too much, from the store and from memory."""
        pruned = await self._in_thread(lambda: self._store.prune(now, retention))
        oldest = await self._in_thread(self._store.oldest)
        while self._ring and self._ring[0].first < oldest:
            self._bytes -= self._ring.popleft().size
        return pruned

    async def _look_again(self, interval: float) -> None:
        while True:
            await asyncio.sleep(interval)
            try:
                await self.advance()
            except FeedError as error:  # readers get the error; the store may come back
                _log.warning("can't look for new notifications: %s", error)

    async def _follow(self) -> None:
        while True:
            self._again = False
            tail = self._tail
            blocks, upto = await self._in_thread(partial(self._store.blocks_since, tail, _PIECE))
            for block in blocks:
                self._take(block)
                await asyncio.sleep(0)  # let other tasks run
            if upto > self._tail:
                self._skip(upto)
            if not blocks and not self._again:
                return

    def _take(self, block: FeedBlock) -> None:
        held = _HeldBlock(block)
        if held.first > self._tail:
            self._skip(held.first)
        self._ring.append(held)
        self._bytes += held.size
        self._tail = held.end
        while self._bytes > self._most_bytes and len(self._ring) > 1:
            self._bytes -= self._ring.popleft().size
        self._wake_readers(held)

    def _skip(self, number: int) -> None:
        """The store has dropped the rows below a number: all waiting connections must look whether they missed any."""
        for one in self._all_waiting():
            one.wake(max(one.offset, self._tail))
        self._ring.clear()
        self._bytes = 0
        self._tail = number

    def _wake_readers(self, block: _HeldBlock) -> None:
        for subscription in distinct(block.pairs[0]).tolist():
            for one in self._waiting.get(subscription, ()):
                number = block.first_for(np.array([subscription]), one.offset)
                if number is not None:
                    one.wake(number)

    def _all_waiting(self) -> set[_Waiting]:
        return set().union(*self._waiting.values())

    # --- the ring -------------------------------------------------------------------------------

    def _reaches(self, offset: int) -> bool:
        """Whether the ring has every row from an offset on."""
        first = self._ring[0].first if self._ring else self._tail
        return first <= offset <= self._tail

    def _blocks_from(self, offset: int) -> list[_HeldBlock]:
        found: list[_HeldBlock] = []
        for block in reversed(self._ring):
            if block.end <= offset:
                break
            found.append(block)
        return found[::-1]

    def _from_ring(self, wanted: Int64s, offset: int, most_rows: int, most_bytes: int) -> FeedPage:
        page = PageInMaking(most_rows, most_bytes)
        for block in self._blocks_from(offset):
            numbers, readers = numbers_for(block.pairs, wanted, offset)
            rows = [block.rows[number - block.first] for number in numbers.tolist()]
            if not page.add_all(rows, readers.tolist()):
                return FeedPage(page.rows, page.next, up_to_date=False)
        return FeedPage(page.rows, self._tail, up_to_date=True)

    async def _in_thread(self, work: Callable[[], _Result]) -> _Result:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)
