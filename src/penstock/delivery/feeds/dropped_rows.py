"""The highest number that was dropped of each feed: a reader that asks for it, or an earlier one, has missed something.

The numbers are kept in values of some thousand subscriptions each, since a dropped segment may concern a million of
them. A subscription that has ended is forgotten: when its rows are dropped, nothing of it stays.
"""

import numpy as np
import pyarrow as pa

from penstock.base.arrays import Int64s, distinct
from penstock.delivery.feeds.feed_database import Session
from penstock.delivery.feeds.feed_rows import pack, unpack
from penstock.delivery.feeds.segments import Segment, all_pairs

_BUCKET = 12  # low bits of a subscription's id: the others are the number of its bucket, that is of its value
_LASTS = pa.schema([("subscription", pa.int64()), ("number", pa.int64())])


def highest_dropped(session: Session, wanted: Int64s) -> Int64s:
    """The highest number that was dropped of each of some feeds; 0 where nothing was dropped."""
    found = np.zeros(len(wanted), np.int64)
    buckets = wanted >> _BUCKET
    for bucket in distinct(buckets).tolist():
        subscriptions, numbers = _read(session, bucket)
        if len(subscriptions):
            here = np.flatnonzero(buckets == bucket)
            places = np.minimum(np.searchsorted(subscriptions, wanted[here]), len(numbers) - 1)
            found[here] = np.where(subscriptions[places] == wanted[here], numbers[places], 0)
    return found


def note_dropped(session: Session, segment: Segment) -> None:
    """Write down what is dropped with a segment, which must be the oldest."""
    subscriptions, numbers = all_pairs(session, segment)
    lasts = np.flatnonzero(np.diff(subscriptions, append=-1))
    subscriptions, numbers = subscriptions[lasts], numbers[lasts]
    forgotten = session.all("SELECT subscription FROM feed_forgotten")
    ended = np.array([subscription for (subscription,) in forgotten], np.int64)
    buckets = subscriptions >> _BUCKET
    touched = distinct(np.concatenate([buckets, ended >> _BUCKET]))
    for bucket in touched.tolist():
        here = buckets == bucket
        _update(session, bucket, (subscriptions[here], numbers[here]), ended)
    # Those without rows after this segment are done with; the others stay until theirs are dropped.
    session.run("DELETE FROM feed_forgotten WHERE number <= ?", segment.ends)


def _update(session: Session, bucket: int, new: tuple[Int64s, Int64s], ended: Int64s) -> None:
    old = _read(session, bucket)
    kept = ~np.isin(old[0], new[0])
    subscriptions = np.concatenate([old[0][kept], new[0]])
    numbers = np.concatenate([old[1][kept], new[1]])
    stay = ~np.isin(subscriptions, ended)
    subscriptions, numbers = subscriptions[stay], numbers[stay]
    order = np.argsort(subscriptions)
    session.run("DELETE FROM feed_dropped WHERE bucket = ?", bucket)
    if len(order):
        columns = [pa.array(subscriptions[order]), pa.array(numbers[order])]
        value = pack(pa.record_batch(columns, schema=_LASTS))
        session.insert("feed_dropped", [(bucket, value)])


def _read(session: Session, bucket: int) -> tuple[Int64s, Int64s]:
    found = session.all("SELECT value FROM feed_dropped WHERE bucket = ?", bucket)
    if not found:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    batch = unpack(found[0][0], _LASTS)
    return batch.column(0).to_numpy(), batch.column(1).to_numpy()
