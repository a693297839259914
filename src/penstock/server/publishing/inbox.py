"""The inbox: what is published is on disk before it is acknowledged, many requests with one sync.

    publish ─▶ queue ─▶ writer thread: all that waits ─▶ one transaction ─▶ receipts
                                                            └─▶ wakes the mover

While one transaction is synced, the next requests gather: the more requests there are, the less each costs. One thread
writes all requests, one after the other. That gives positions their order, and requests of one producer can't overtake
each other. The queue and the rows that wait on disk are bounded; beyond that `publish` raises Overloaded at once.
"""

import asyncio
import contextlib
import fcntl
import logging
import sqlite3
import threading
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from penstock.base.durable import make_folder
from penstock.server.publishing.inbox_tables import InboxTables, Outcome, WaitingRows, Written
from penstock.server.publishing.producer_states import repeat_of
from penstock.server.publishing.published import (
    InboxClosed,
    InboxRow,
    NotWritten,
    Overloaded,
    Producer,
    ProducerError,
    Published,
    PublishError,
    Receipt,
)

log = logging.getLogger(__name__)

_TOGETHER = 8 << 20  # bytes in one transaction
_PAUSE = 1.0  # seconds before the disk is tried again
_FOR_A_REQUEST = 200  # bytes that a request takes in memory besides its records


@dataclass(frozen=True)
class InboxLimits:
    """How much may wait."""

    queued_bytes: int = 64 << 20  # in memory, until it is on disk
    waiting_bytes: int = 4 << 30  # on disk, until it is taken onwards
    recent_bytes: int = 4 << 20  # of the newest records, which are kept in memory


@dataclass(slots=True)
class _Asked:
    request: Published
    size: int
    answer: "asyncio.Future[Receipt]"
    loop: asyncio.AbstractEventLoop


class Inbox:
    """The accepted records, in order of position, until a mover has taken them. For one process at a time."""

    def __init__(self, path: str | Path, limits: InboxLimits | None = None) -> None:
        self._path = Path(path).absolute()
        self._limits = limits or InboxLimits()
        make_folder(self._path.parent)
        self._lock = _take_lock(self._path.with_suffix(".lock"))
        self._tables = InboxTables(self._path)
        reader = self.waiting_rows()
        self._waiting = reader.bytes_waiting()
        reader.close()
        self._asked: deque[_Asked] = deque()
        self._queued = 0
        self._release = self._released = 0
        self._recent: deque[InboxRow] = deque()
        self._recent_size = 0
        self._given = self._tables.given
        self._changed = threading.Condition()
        self._closing = False
        self._writer = threading.Thread(target=self._write, name="inbox", daemon=True)
        self._writer.start()

    # --- publishing ------------------------------------------------------------------------------

    async def publish(self, request: Published) -> Receipt:
        """Publish records: return when they are on disk.

        Raises Overloaded if too much waits already, ProducerError if the producer's numbers don't follow on, NotWritten
        if the disk fails. A caller that is cancelled doesn't know whether its request is published.
        """
        size = sum(map(len, request.records)) + _FOR_A_REQUEST
        loop = asyncio.get_running_loop()
        asked = _Asked(request, size, loop.create_future(), loop)
        with self._changed:
            self._check_room(size)
            self._asked.append(asked)
            self._queued += size
            if len(self._asked) == 1:
                self._changed.notify_all()
        return await asked.answer

    def find_repeat(self, log: str, producer: Producer) -> Receipt | None:
        """The receipt of a request that was published before, whatever its records; else None. It reads the disk."""
        reader = self.waiting_rows()
        try:
            return repeat_of(reader.producer_state(log, producer.id), producer)
        except ProducerError:
            return None
        finally:
            reader.close()

    def _check_room(self, size: int) -> None:
        if self._closing:
            raise InboxClosed("the service is ending: publish again when it is back")
        if self._queued and self._queued + size > self._limits.queued_bytes:
            raise Overloaded(f"{self._queued:,} bytes wait to be written: publish less at once", 1)
        if self._waiting + size > self._limits.waiting_bytes:
            raise Overloaded(
                f"{self._waiting:,} bytes wait to be matched, and there is room for {self._limits.waiting_bytes:,}",
                10,
            )

    # --- what waits ------------------------------------------------------------------------------

    @property
    def last(self) -> int:
        """The highest position that was ever given."""
        return self._given

    @property
    def released(self) -> int:
        """Everything up to this position has been taken by the mover, and deleted from the inbox."""
        return self._released

    @property
    def waiting_bytes(self) -> int:
        """Bytes of records that wait to be taken onwards."""
        return self._waiting

    def recent(self) -> list[InboxRow]:
        """The newest rows that were accepted since the start, oldest first, as many as are kept in memory."""
        with self._changed:
            return list(self._recent)

    def waiting_rows(self) -> WaitingRows:
        """A reader of the waiting rows, for the thread that moves them."""
        return WaitingRows(self._path)

    def wait_beyond(self, position: int, timeout: float) -> bool:
        """Wait until there is a row after a position; False if the time is over. To be called in a thread."""
        with self._changed:
            return self._changed.wait_for(lambda: self._given > position or self._closing, timeout)

    def release(self, position: int) -> None:
        """Note that everything up to a position has been taken. It is deleted soon."""
        with self._changed:
            if position > self._release:
                self._release = position
                self._changed.notify_all()

    def wait_released(self, position: int, timeout: float) -> bool:
        """Wait until everything up to a position is deleted. To be called in a thread."""
        with self._changed:
            return self._changed.wait_for(lambda: self._released >= position, timeout)

    def close(self) -> None:
        """Write what is queued, and end."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._writer.join()
        self._tables.close()
        self._lock.close()

    # --- the writer thread -----------------------------------------------------------------------

    def _write(self) -> None:
        failed = False
        while True:
            with self._changed:
                if failed:
                    # Perhaps the disk is full: new requests are answered at once, deletions can wait.
                    self._changed.wait_for(lambda: self._asked or self._closing, _PAUSE)
                else:
                    self._changed.wait_for(self._has_work)
                group = self._next_group()
                release = self._release
            if not group and (failed or release == self._released) and self._closing:
                return
            try:
                outcomes, written = self._tables.append([a.request for a in group], release)
                failed = False
            except Exception as error:  # the thread must live on: without it no request is answered
                failed = True
                is_of_disk = isinstance(error, sqlite3.Error)
                log.error("the inbox can't be written: %s", error, exc_info=not is_of_disk)
                reason = "the disk doesn't take it" if is_of_disk else type(error).__name__
                refusal = NotWritten(f"not published, {reason}: {error}")
                self._after(group, [refusal] * len(group), Written((), 0), 0)
            else:
                self._after(group, outcomes, written, release)

    def _has_work(self) -> bool:
        return bool(self._asked) or self._release > self._released or self._closing

    def _next_group(self) -> list[_Asked]:
        group: list[_Asked] = []
        size = 0
        while self._asked and (not group or size + self._asked[0].size <= _TOGETHER):
            size += self._asked[0].size
            group.append(self._asked.popleft())
        return group

    def _after(
        self,
        group: Sequence[_Asked],
        outcomes: Sequence[Outcome | PublishError],
        written: Written,
        release: int,
    ) -> None:
        with self._changed:
            self._queued -= sum(asked.size for asked in group)
            self._waiting += sum(len(row.lines) for row in written.rows) - written.freed
            self._released = max(self._released, release)
            self._given = self._tables.given
            self._keep_recent(written.rows)
            self._changed.notify_all()
        loops = {asked.loop for asked in group}
        for loop in loops:
            mine = [
                (asked.answer, outcome)
                for asked, outcome in zip(group, outcomes, strict=True)
                if asked.loop is loop
            ]
            with contextlib.suppress(RuntimeError):  # the loop has ended, and the caller with it
                loop.call_soon_threadsafe(_answer, mine)

    def _keep_recent(self, rows: Iterable[InboxRow]) -> None:
        for row in rows:
            self._recent.append(row)
            self._recent_size += len(row.lines)
        while self._recent_size > self._limits.recent_bytes:
            self._recent_size -= len(self._recent.popleft().lines)


def _answer(answers: list[tuple["asyncio.Future[Receipt]", Outcome | PublishError]]) -> None:
    for future, outcome in answers:
        if future.done():  # the caller has gone
            continue
        if isinstance(outcome, Receipt):
            future.set_result(outcome)
        else:
            future.set_exception(outcome)


def _take_lock(path: Path) -> IO[bytes]:
    """Lock the inbox until the process ends: two processes would give the same positions twice."""
    lock = path.open("wb")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        raise InboxClosed(
            f"another process has {path.with_suffix('.db')} open: end that service first, or give another folder"
        ) from None
    return lock
