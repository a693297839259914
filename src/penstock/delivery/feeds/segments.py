"""Segments: rows that follow each other, with an index that says which of them each subscription gets.

    blocks     ▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪  ▪▪▪     numbered; the last few are in no segment
    segments   [      level 3       ][ level 2 ][1][1]
    postings   of a segment: pairs (subscription, number), sorted, some thousands in a value

Appending only adds blocks. Each block has the readers of its rows, so no index is touched. A reader of one feed looks
through all pairs of the last few blocks. When there are enough blocks, they are *sealed*: their pairs are sorted by
subscription, and written as postings of a new segment. When there are enough segments of a level, they are merged into
one of the next level. So a reader looks into a few values of each segment, and there are never many segments. A pair is
written three or four times in its life, always in large pieces; a B-tree of pairs would write a page for each.

Segments aren't merged beyond a size, or a span of time, because retention drops whole segments.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.base.arrays import Int64s
from penstock.delivery.feeds.feed_database import Session
from penstock.delivery.feeds.feed_rows import numbers_for, pack, unpack, unpack_block

_POSTINGS = pa.schema([("subscription", pa.int64()), ("number", pa.int64())])
_PAGE = 4096  # pairs of a value
_COLUMNS = "first, ends, level, began, ended, size, pairs"

Pairs = tuple[Int64s, Int64s]
"""Subscriptions and numbers, sorted by both."""


@dataclass(frozen=True)
class SegmentLimits:
    """When blocks are sealed, and how far segments are merged."""

    blocks: int = 64
    sealed_pairs: int = 262_144
    merged: int = 8
    size: int = 64 * 1024**2
    pairs: int = 4_000_000
    span: int = 10 * 60 * 10**6


@dataclass(frozen=True)
class Segment:
    """Rows from `first` to before `ends`; `began` and `ended` say when the first and the last block were appended."""

    first: int
    ends: int
    level: int
    began: int
    ended: int
    size: int
    pairs: int


def segments_from(session: Session, offset: int) -> list[Segment]:
    """The segments that have rows at or above an offset, in order."""
    found = session.all(
        f"SELECT {_COLUMNS} FROM feed_segments WHERE ends > ? ORDER BY first", offset
    )
    return [Segment(*row) for row in found]


def seal(session: Session, limits: SegmentLimits, *, force: bool = False) -> bool:
    """Make a segment of the blocks that aren't in a segment, if there are enough of them, and merge segments."""
    ((sealed,),) = session.all("SELECT sealed FROM feed_state")
    ((count, pairs),) = session.all(
        "SELECT count(*), COALESCE(CAST(sum(pairs) AS BIGINT), 0) FROM feed_blocks WHERE first >= ?",
        sealed,
    )
    if not count or not (force or count >= limits.blocks or pairs >= limits.sealed_pairs):
        return False
    found = session.all(
        "SELECT first, kind, value, ends, appended, size FROM feed_blocks WHERE first >= ? ORDER BY first",
        sealed,
    )
    blocks = [unpack_block(*row[:3]) for row in found]
    ends, began, ended = found[-1][3], found[0][4], found[-1][4]
    segment = Segment(found[0][0], ends, 1, began, ended, sum(row[5] for row in found), pairs)
    _write(session, segment, _together(block.pairs for block in blocks))
    session.run("UPDATE feed_state SET sealed = ?", ends)
    while _merge(session, limits):
        pass
    return True


def _merge(session: Session, limits: SegmentLimits) -> bool:
    """Merge the last segments if enough of them have the same level, and the result isn't too large."""
    rows = session.all(
        f"SELECT {_COLUMNS} FROM feed_segments ORDER BY first DESC LIMIT ?", limits.merged
    )
    found = [Segment(*row) for row in reversed(rows)]
    if len(found) < limits.merged or len({one.level for one in found}) > 1:
        return False
    whole = Segment(
        found[0].first,
        found[-1].ends,
        found[0].level + 1,
        found[0].began,
        found[-1].ended,
        sum(one.size for one in found),
        sum(one.pairs for one in found),
    )
    if (
        whole.size > limits.size
        or whole.pairs > limits.pairs
        or whole.ended - whole.began > limits.span
    ):
        return False
    pairs = _together([all_pairs(session, one) for one in found])
    for one in found:
        delete_segment(session, one)
    _write(session, whole, pairs)
    return True


def _together(parts: Iterable[Pairs]) -> Pairs:
    """The pairs of several parts, sorted. The numbers of a part are above those of the part before."""
    several = list(parts)
    subscriptions = np.concatenate([part[0] for part in several])
    order = np.argsort(subscriptions, kind="stable")
    return subscriptions[order], np.concatenate([part[1] for part in several])[order]


def _write(session: Session, segment: Segment, pairs: Pairs) -> None:
    one = segment
    values = (one.first, one.ends, one.level, one.began, one.ended, one.size, one.pairs)
    session.insert("feed_segments", [values])
    session.insert("feed_postings", _pages(segment.first, pairs))


def _pages(segment: int, pairs: Pairs) -> Iterator[tuple[object, ...]]:
    subscriptions, numbers = pairs
    for start in range(0, len(subscriptions), _PAGE):
        part = [pa.array(column[start : start + _PAGE]) for column in pairs]
        value = pack(pa.record_batch(part, schema=_POSTINGS))
        yield segment, int(subscriptions[start]), int(numbers[start]), value


def delete_segment(session: Session, segment: Segment) -> None:
    """Delete a segment, without the blocks."""
    session.run("DELETE FROM feed_segments WHERE first = ?", segment.first)
    session.run("DELETE FROM feed_postings WHERE segment = ?", segment.first)


def all_pairs(session: Session, segment: Segment) -> Pairs:
    """All pairs of a segment."""
    rows = session.all(
        "SELECT value FROM feed_postings WHERE segment = ? ORDER BY subscription, number",
        segment.first,
    )
    return _end_to_end([_read_page(value) for (value,) in rows])


def pairs_of(
    session: Session, segment: Segment, wanted: Int64s, offset: int, most: int
) -> tuple[Int64s, Int64s]:
    """The rows of a segment, from an offset on, that some subscriptions (sorted) get: numbers and subscriptions.

    They are ordered by number. For a single subscription these are all rows, or at least `most`.
    """
    if len(wanted) == 1:
        values = _pages_of_one(session, segment, int(wanted[0]), offset, most)
    else:
        values = _pages_of_several(session, segment, wanted)
    return numbers_for(_end_to_end([_read_page(value) for value in values]), wanted, offset)


def _pages_of_one(
    session: Session, segment: Segment, wanted: int, offset: int, most: int
) -> list[bytes]:
    place = segment.first, wanted, offset
    before = session.all(
        "SELECT value FROM feed_postings WHERE segment = ? AND (subscription, number) <= (?, ?) "
        "ORDER BY subscription DESC, number DESC LIMIT 1",
        *place,
    )
    after = session.all(
        "SELECT value FROM feed_postings WHERE segment = ? AND subscription = ? AND number > ? "
        f"ORDER BY number LIMIT {most // _PAGE + 1}",
        *place,
    )
    return [value for (value,) in [*before, *after]]


def _pages_of_several(session: Session, segment: Segment, wanted: Int64s) -> list[bytes]:
    """The pages that may have one of the subscriptions, as the first pair of each page says."""
    places = session.all(
        "SELECT subscription, number FROM feed_postings WHERE segment = ? ORDER BY subscription, number",
        segment.first,
    )
    firsts = np.array([subscription for subscription, _ in places], np.int64)
    lasts = np.append(firsts[1:], np.iinfo(np.int64).max)  # a page may have the next one's first
    kept = np.searchsorted(wanted, firsts) < np.searchsorted(wanted, lasts, side="right")
    found = []
    for place in np.flatnonzero(kept).tolist():
        found += session.all(
            "SELECT value FROM feed_postings WHERE segment = ? AND subscription = ? AND number = ?",
            segment.first,
            *places[place],
        )
    return [value for (value,) in found]


def _end_to_end(pages: list[Pairs]) -> Pairs:
    if not pages:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    return np.concatenate([p[0] for p in pages]), np.concatenate([p[1] for p in pages])


def _read_page(value: bytes) -> Pairs:
    batch = unpack(value, _POSTINGS)
    return batch.column(0).to_numpy(), batch.column(1).to_numpy()
