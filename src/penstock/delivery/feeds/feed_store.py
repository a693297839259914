"""The feed store: what every subscription was sent, in order, until retention drops it.

    append ─▶ blocks ─▶ sealed into segments ─▶ dropped          one counter numbers all rows, in the order of commit
                 └──────────┴─▶ read one feed, or several together

Guarantees:

- A micro-batch is there with all its rows and its number, or not at all. Appending it again adds nothing.
- Numbers grow in the order of commit. A reader that has read up to the tail never misses rows that are appended later.
- A read gives every notification of its feeds from its offset on, in order and without a gap. If one of them was
  dropped, and only then, it raises `RowsDropped`.

The methods block; they may be called from any thread. Several processes may have a store open.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.base.arrays import Int64s
from penstock.base.durations import utc_now
from penstock.base.errors import FeedError, RowsDropped
from penstock.delivery.feeds.dropped_rows import highest_dropped, note_dropped
from penstock.delivery.feeds.feed_database import FORMAT, FeedDatabase, Session
from penstock.delivery.feeds.feed_rows import (
    FeedBlock,
    FeedPage,
    PageInMaking,
    divide_rows,
    numbers_for,
    pack_block,
    sorted_ids,
    unpack_block,
)
from penstock.delivery.feeds.retention import Pruned, Retention
from penstock.delivery.feeds.segments import (
    Segment,
    SegmentLimits,
    delete_segment,
    pairs_of,
    seal,
    segments_from,
)
from penstock.delivery.sinks import Batch

LIVE = "live"
"""The live matcher as a query: its batches are numbered by the last position that they cover."""

_DELETED = 256  # blocks that are deleted in one transaction


@dataclass(frozen=True)
class FeedStats:
    """What a store holds: rows, notifications, bytes of them, and bytes of the database."""

    tail: int
    oldest: int
    rows: int
    notifications: int
    bytes: int
    segments: int
    stored: int


@dataclass(frozen=True)
class _State:
    next: int
    sealed: int
    oldest: int


class FeedStore:
    """Feeds in a database. `open_feeds` opens one."""

    def __init__(
        self,
        database: FeedDatabase,
        limits: SegmentLimits | None = None,
        clock: Callable[[], int] = utc_now,
    ) -> None:
        self._database = database
        self._limits = limits or SegmentLimits()
        self._clock = clock
        with database.reading() as session:
            found = session.all("SELECT format FROM feed_state")
        if not found:
            with database.writing() as session:
                found = session.all("SELECT format FROM feed_state")
                if not found:  # no other process has done it meanwhile
                    found = [(FORMAT,)]
                    session.insert("feed_state", [(FORMAT, 1, 1, 1)])
        if found[0][0] != FORMAT:
            raise FeedError(
                f"the feeds at {database!r} were written by another version of Penstock, in format {found[0][0]}: this "
                f"one reads format {FORMAT}. Give another place"
            )

    # --- writing --------------------------------------------------------------------------------

    def append(self, rows: pa.Table, batch: Batch, stream: str = "") -> bool:
        """Add the rows of a micro-batch (`APPENDED`), sorted by position. False if it is there already.

        It counts as there if a later one of its query is, because the numbers of a query's micro-batches grow. For each
        kind and `stream` there is one query besides `LIVE`. Another query is refused, since it would add the rows of
        the first once more.
        """
        told = f"{batch.kind} {stream}".rstrip()
        with self._database.writing() as session:
            done = self._progress(session, batch, told)
            if done is not None and batch.id <= done:
                return False
            state = _read_state(session)
            blocks = divide_rows(rows, state.next, batch.kind)
            now = self._clock()
            session.insert("feed_blocks", [_block_row(block, now) for block in blocks])
            if blocks:
                session.run("UPDATE feed_state SET next = ?", blocks[-1].end)
            if done is None:
                session.insert("feed_progress", [(batch.query, told, batch.id)])
            else:
                session.run(
                    "UPDATE feed_progress SET batch = ? WHERE query = ?", batch.id, batch.query
                )
        if blocks:
            # A crash before this does no harm: the next append does it.
            with self._database.writing() as session:
                seal(session, self._limits)
        return True

    def _progress(self, session: Session, batch: Batch, told: str) -> int | None:
        found = session.all("SELECT query, batch FROM feed_progress WHERE kind = ?", told)
        others = [query for query, _ in found if query not in (batch.query, LIVE)]
        if others and batch.query != LIVE:
            raise FeedError(
                f"the feeds at {self._database!r} have notifications of kind {told} of another pipeline (or of "
                "this one before it lost its checkpoint folder): give another place"
            )
        return dict(found).get(batch.query)

    def prune(self, now: int, retention: Retention) -> Pruned:
        """Drop the oldest segments, until age and size are within the retention; each in a transaction of its own."""
        segments = rows = size = 0
        while dropped := self._drop_one(now, retention):
            segments += 1
            rows += dropped.ends - dropped.first
            size += dropped.size
        while self._delete_blocks():
            pass
        return Pruned(segments, rows, size)

    def _drop_one(self, now: int, retention: Retention) -> Segment | None:
        with self._database.writing() as session:
            if not self._is_due(session, now, retention):
                return None
            if not (found := segments_from(session, 0)):
                seal(session, self._limits, force=True)
                found = segments_from(session, 0)
            note_dropped(session, found[0])
            delete_segment(session, found[0])
            session.run("UPDATE feed_state SET oldest = ?", found[0].ends)
            return found[0]

    def _is_due(self, session: Session, now: int, retention: Retention) -> bool:
        """Whether the oldest segment must be dropped or, if there are no segments, the blocks that aren't sealed."""
        ((first, ended),) = session.all(
            "SELECT min(first), min(ended) FROM feed_segments WHERE first = (SELECT min(first) FROM feed_segments)"
        )
        if first is None:
            ((ended,),) = session.all(
                "SELECT max(appended) FROM feed_blocks WHERE first >= (SELECT sealed FROM feed_state)"
            )
        if ended is None:
            return False
        oldest = retention.oldest(now)
        if oldest is not None and ended < oldest:
            return True
        return retention.size is not None and _kept(session)[2] > retention.size

    def _delete_blocks(self) -> bool:
        """Delete some blocks of segments that were dropped: few at a time, so that no writer waits long."""
        with self._database.writing() as session:
            found = session.all(
                "SELECT first FROM feed_blocks WHERE first < (SELECT oldest FROM feed_state) "
                f"ORDER BY first LIMIT {_DELETED}"
            )
            if found:
                session.run("DELETE FROM feed_blocks WHERE first <= ?", found[-1][0])
        return len(found) == _DELETED

    def forget(self, subscription: int) -> None:
        """Note that a subscription has ended: when its rows are dropped, nothing about it is kept."""
        with self._database.writing() as session:
            state = _read_state(session)
            session.run("DELETE FROM feed_forgotten WHERE subscription = ?", subscription)
            session.insert("feed_forgotten", [(subscription, state.next)])

    # --- reading --------------------------------------------------------------------------------

    def read(
        self, subscriptions: Sequence[int], offset: int, most_rows: int, most_bytes: int
    ) -> FeedPage:
        """The feeds of some subscriptions from an offset on, as one feed: rows in order, each with all that get it.

        The offset -1 is the oldest that is kept. A page may exceed its bounds by its first row, and by a row that goes
        to several of the subscriptions, which isn't divided. `RowsDropped` if something was dropped.
        """
        wanted = sorted_ids(subscriptions)
        with self._database.reading() as session:
            state = _read_state(session)
            if offset < 0:
                offset = state.oldest
            elif offset > state.next:
                raise RowsDropped(None, offset, state.next)
            else:
                _check_kept(session, wanted, offset, state)
            page = PageInMaking(most_rows, most_bytes)
            if len(wanted):
                for numbers, readers in _found(
                    session, state, wanted, max(offset, state.oldest), most_rows
                ):
                    if not _fill(session, page, numbers, readers):
                        return FeedPage(page.rows, page.next, up_to_date=False)
        return FeedPage(page.rows, state.next, up_to_date=True)

    def blocks_since(self, number: int, most_bytes: int) -> tuple[list[FeedBlock], int]:
        """Blocks from a number on, at least one if there are any, and the number to go on at: to follow all feeds.

        The first block may begin before the number, or after it if its row was dropped.
        """
        with self._database.reading() as session:
            state = _read_state(session)
            oldest = max(number, state.oldest)
            found = session.all(
                "SELECT first, size FROM feed_blocks WHERE first >= ? OR first = "
                "(SELECT max(first) FROM feed_blocks WHERE first <= ?) ORDER BY first LIMIT 1024",
                oldest,
                oldest,
            )
            blocks, size = [], 0
            for first, bytes_ in found:
                block = _block_with(session, first)
                if block.end <= oldest:
                    continue
                blocks.append(block)
                size += bytes_
                if size >= most_bytes:
                    break
        return blocks, blocks[-1].end if blocks else state.next

    def tail(self) -> int:
        """The offset after all rows."""
        return self._state().next

    def oldest(self) -> int:
        """The offset of the first row that is kept."""
        return self._state().oldest

    def dropped(self, subscription: int) -> int:
        """The highest number that was dropped of a feed; 0 if nothing was dropped."""
        with self._database.reading() as session:
            return int(highest_dropped(session, sorted_ids([subscription]))[0])

    def progress(self, query: str) -> int | None:
        """The number of the last micro-batch of a query; for `LIVE`, the last position. None if there is none."""
        with self._database.reading() as session:
            found = session.all("SELECT batch FROM feed_progress WHERE query = ?", query)
        return int(found[0][0]) if found else None

    def stats(self) -> FeedStats:
        """How much the store holds."""
        with self._database.reading() as session:
            state = _read_state(session)
            rows, pairs, size = _kept(session)
            segments = len(segments_from(session, 0))
        stored = self._database.size()
        return FeedStats(state.next, state.oldest, rows, pairs, size, segments, stored)

    def close(self) -> None:
        """Close the store."""
        self._database.close()

    def __enter__(self) -> "FeedStore":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _state(self) -> _State:
        with self._database.reading() as session:
            return _read_state(session)


def _fill(session: Session, page: PageInMaking, numbers: Int64s, readers: Int64s) -> bool:
    """Put the rows with these numbers into a page; they ascend, and may repeat. False if there is no more room."""
    at = 0
    while at < len(numbers):
        block = _block_with(session, int(numbers[at]))
        upto = int(np.searchsorted(numbers, block.end))
        if not page.add_all(block.rows(numbers[at:upto]), readers[at:upto].tolist()):
            return False
        at = upto
    return True


def _found(
    session: Session, state: _State, wanted: Int64s, offset: int, most: int
) -> Iterator[tuple[Int64s, Int64s]]:
    """The numbers of rows from an offset on, with the subscriptions that get them: part by part, in order."""
    for segment in segments_from(session, offset):
        yield pairs_of(session, segment, wanted, offset, most)
    blocks = session.all(
        "SELECT first, kind, value FROM feed_blocks WHERE first >= ? AND ends > ? ORDER BY first",
        state.sealed,
        offset,
    )
    for row in blocks:
        yield numbers_for(unpack_block(*row).pairs, wanted, offset)


def _check_kept(session: Session, wanted: Int64s, offset: int, state: _State) -> None:
    if offset >= state.oldest or not len(wanted):
        return
    lasts = highest_dropped(session, wanted)
    gone = np.flatnonzero(lasts >= max(offset, 1))  # 0: nothing was dropped
    if len(gone):
        raise RowsDropped(int(wanted[gone[0]]), offset, int(lasts.max()) + 1)


def _block_with(session: Session, number: int) -> FeedBlock:
    (row,) = session.all(
        "SELECT first, kind, value FROM feed_blocks WHERE first <= ? ORDER BY first DESC LIMIT 1",
        number,
    )
    return unpack_block(*row)


def _block_row(block: FeedBlock, now: int) -> tuple[object, ...]:
    value = pack_block(block)
    pairs = len(block.data.column("readers").flatten())
    return block.first, block.end, block.kind, now, len(value), pairs, value


def _read_state(session: Session) -> _State:
    (row,) = session.all("SELECT next, sealed, oldest FROM feed_state")
    return _State(*row)


def _kept(session: Session) -> tuple[int, int, int]:
    """Rows, notifications and bytes that are kept."""
    totals = (
        "COALESCE(CAST(sum(ends - first) AS BIGINT), 0), COALESCE(CAST(sum(pairs) AS BIGINT), 0), "
    )
    totals += "COALESCE(CAST(sum(size) AS BIGINT), 0)"
    (sealed,) = session.all(f"SELECT {totals} FROM feed_segments")
    (rest,) = session.all(
        f"SELECT {totals} FROM feed_blocks WHERE first >= (SELECT sealed FROM feed_state)"
    )
    return sealed[0] + rest[0], sealed[1] + rest[1], sealed[2] + rest[2]
