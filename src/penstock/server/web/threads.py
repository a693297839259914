"""Threads for blocking calls: to the registry, to stores, to the compiler. Their number is bounded, and so is the
number of calls that wait.

Reads and writes have threads of their own: feeds can be read while a writer waits for somebody who loads a million
subscriptions.
"""

import asyncio
import functools
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from penstock.server.web.http_settings import HttpLimits
from penstock.server.web.problems import Problem

P = ParamSpec("P")
T = TypeVar("T")


class Threads:
    """Runs blocking calls."""

    def __init__(self, limits: HttpLimits) -> None:
        self._readers = ThreadPoolExecutor(limits.reading_threads, "penstock-read")
        self._writers = ThreadPoolExecutor(limits.writing_threads, "penstock-write")
        self._workers = ThreadPoolExecutor(1, "penstock-work")
        self._room = threading.Semaphore(limits.waiting_calls)

    async def read(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a call that only reads."""
        return await self._run(self._readers, functools.partial(function, *args, **kwargs))

    async def write(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a call that writes. It runs to its end even if nobody waits for it any more."""
        return await self._run(self._writers, functools.partial(function, *args, **kwargs))

    async def work(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a call that needs the processor for a while. One runs at a time, so that everything else goes on."""
        return await self._run(self._workers, functools.partial(function, *args, **kwargs))

    async def _run(self, pool: ThreadPoolExecutor, call: Callable[[], T]) -> T:
        if not self._room.acquire(blocking=False):
            raise Problem(
                "overloaded", "too many calls wait for a thread", headers={"Retry-After": "1"}
            )
        try:
            future = pool.submit(call)
        except BaseException:
            self._room.release()
            raise
        # The caller may have gone before the call has ended: only the end of the call makes room.
        future.add_done_callback(lambda _: self._room.release())
        return await asyncio.wrap_future(future)

    def close(self) -> None:
        for pool in (self._readers, self._writers, self._workers):
            pool.shutdown(wait=False, cancel_futures=True)
