"""Feeds as they are defined: lists in memory. What stores and the hub are compared with."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from penstock.delivery.feeds.feed_rows import APPENDED
from penstock.delivery.feeds.feed_store import FeedStore
from penstock.delivery.sinks import Batch

Readers = Sequence[int]


def rows_of(readers: Sequence[Readers], first: int = 0, size: int = 10) -> pa.Table:
    """Rows with these readers: ids count from `first` on, bodies have about `size` bytes."""
    ids = [str(first + place) for place in range(len(readers))]
    columns = {
        "id": ids,
        "body": [f'{{"event":{{"id":{name},"text":"{"x" * size}"}}}}' for name in ids],
        "readers": [sorted(one) for one in readers],
        "position": [None] * len(ids),
    }
    return pa.table(columns, schema=APPENDED)


@dataclass
class Model:
    """All rows that were ever appended: number, id, readers."""

    rows: list[tuple[int, str, frozenset[int]]] = field(default_factory=list)
    oldest: int = 1
    batches: int = 0

    @property
    def tail(self) -> int:
        return len(self.rows) + 1

    def append(self, store: FeedStore, readers: Sequence[Readers], size: int = 10) -> None:
        """The same to both."""
        first = len(self.rows)
        self.batches += 1
        assert store.append(rows_of(readers, first, size), Batch("q", self.batches, "filter"))
        for place, names in enumerate(readers):
            self.rows.append((first + place + 1, str(first + place), frozenset(names)))

    def dropped(self, subscription: int) -> int:
        gone = [n for n, _, names in self.rows if n < self.oldest and subscription in names]
        return max(gone, default=0)

    def feed(self, subscriptions: Sequence[int], offset: int) -> list[tuple[int, int, str]]:
        """(number, subscription, id) of what there is to read."""
        return [
            (number, one, name)
            for number, name, names in self.rows
            if number >= max(offset, self.oldest)
            for one in sorted(set(subscriptions) & names)
        ]

    def is_gone(self, subscriptions: Sequence[int], offset: int) -> bool:
        """Whether a reader at an offset has missed something."""
        return any(self.dropped(one) >= max(offset, 1) for one in subscriptions)
