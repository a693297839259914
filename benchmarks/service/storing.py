"""The feed store by itself: how many notifications a second it takes, and how fast one feed is read from the start."""

import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.benchmark import Section, Step
from benchmarks.sheets import Sheet, format_verdict
from penstock.delivery import Batch
from penstock.delivery.feeds import FeedStore, open_feeds

GOAL = 100_000  # notifications a second
AWAY = 100_000  # notifications that a reader who comes back has missed
_BODY = '{"event":{"symbol":"GOOG","price":550.25,"note":"' + "x" * 140 + '"}}'
_ROWS = 5_000  # of a micro-batch
_SUBSCRIPTIONS = 100_000


@dataclass(frozen=True, slots=True)
class Stored:
    """What a store took, or gave."""

    what: str
    notifications: int
    per_second: float
    bytes: float  # on disk, a notification

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def measure(step: Step) -> Section:
    """Append rows with many readers and with one, and read a feed of many."""
    found = []
    for readers, batches in ((131, 20), (1, 20)):
        step(f"appending rows for {readers} readers each")
        with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
            store = open_feeds(Path(folder) / "feeds.db")
            found.append(_append(store, readers, batches))
            store.close()
    step("reading a feed from its beginning")
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        store = open_feeds(Path(folder) / "feeds.db")
        found.append(_catch_up(store))
        store.close()
    return Section("feeds", found, [_sheet(found)])


def _append(store: FeedStore, readers: int, batches: int) -> Stored:
    drawn = np.random.default_rng(7)
    tables = [
        _rows(np.sort(drawn.integers(1, _SUBSCRIPTIONS, (_ROWS, readers)), axis=1))
        for _ in range(batches)
    ]
    began = time.monotonic()
    for number, table in enumerate(tables):
        store.append(table, Batch("bench", number, "filter"))
    took = time.monotonic() - began
    count = _ROWS * readers * batches
    each = store.stats().stored / count
    many = "reader" if readers == 1 else "readers"
    return Stored(f"append, {readers} {many} a row", count, count / took, each)


def _catch_up(store: FeedStore) -> Stored:
    """One feed among others: every tenth row is for it."""
    pairs = np.random.default_rng(8).integers(2, _SUBSCRIPTIONS, (_ROWS, 2))
    pairs[::10, 0] = 1
    table = _rows(np.sort(pairs, axis=1))
    wanted = AWAY // (_ROWS // 10)
    for number in range(wanted):
        store.append(table, Batch("bench", number, "filter"))
    began, offset, read = time.monotonic(), -1, 0
    while True:
        page = store.read([1], offset, 10_000, 1 << 20)
        read, offset = read + len(page.rows), page.next
        if page.up_to_date:
            break
    took = time.monotonic() - began
    return Stored("read one feed", read, read / took, store.stats().stored / (wanted * _ROWS * 2))


def _rows(readers: "np.ndarray[Any, Any]") -> pa.Table:
    count, width = readers.shape
    starts = pa.array(np.arange(0, (count + 1) * width, width, dtype=np.int32))
    lists = pa.ListArray.from_arrays(starts, pa.array(readers.reshape(-1)))
    positions = pa.array(np.arange(count))
    bodies = pa.array([_BODY] * count)
    return pa.table(
        {"id": positions.cast(pa.string()), "body": bodies, "readers": lists, "position": positions}
    )


def _sheet(found: Sequence[Stored]) -> Sheet:
    rows = [
        (
            one.what,
            f"{one.notifications:,}",
            f"{one.per_second:,.0f}",
            f"{one.bytes:,.1f}",
            format_verdict(one.per_second >= GOAL, one.per_second, GOAL),
        )
        for one in found
    ]
    columns = ("what", "notifications", "a second", "bytes each", "goal")
    remark = "SQLite, each micro-batch synced; bodies of 200 bytes; bytes on disk"
    return Sheet("Feeds", columns, tuple(rows), (remark,))
