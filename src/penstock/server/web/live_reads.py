"""Reads that wait: counts them, and ends them when their reader goes away or the service stops.

Only `receive` tells that a reader has gone away: sending to nobody isn't an error.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from starlette.types import Receive


class LiveReads:
    """All reads of a service that wait for something."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[object]] = set()
        self.ended = False
        self.modes: Counter[str] = Counter()
        """How many there are of each mode: long-poll, sse, plain."""
        self.sent = 0
        """How many notifications were sent to readers."""

    def __len__(self) -> int:
        return len(self._tasks)

    def stop(self) -> None:
        """End all reads, between two events. Later ones end at once."""
        self.ended = True
        for task in self._tasks:
            task.cancel()

    @contextmanager
    def reading(self, mode: str, receive: Receive) -> Iterator[None]:
        """Read inside this block. It is left early, and quietly, when the reader goes away or the service stops."""
        task = asyncio.current_task()
        assert task is not None, "requests are tasks"
        gone = asyncio.create_task(_until_gone(receive, task))
        self._tasks.add(task)
        self.modes[mode] += 1
        try:
            yield
        except asyncio.CancelledError:
            if not gone.done() and not self.ended:
                raise  # something else has cancelled it
            task.uncancel()
        finally:
            self.modes[mode] -= 1
            self._tasks.discard(task)
            gone.cancel()


async def _until_gone(receive: Receive, task: asyncio.Task[object]) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    task.cancel()
