"""Subscriptions in columns, as a registry hands them to the compiler: the seam between the two.

A million subscriptions travel as four flat arrays, never as a million objects. `Rows` is a set of
subscriptions, `Changes` are the changes since a sequence number, and `SubscriptionSource` is all
that the snapshot store needs of a registry: whoever implements its four members can feed it.

Times are UTC microseconds since 1970 in an int64; `FOREVER` is a lease without end.
"""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.base.errors import FilterError

FOREVER = 2**63 - 1
"""The lease end of a subscription that never expires."""

EVER = -(2**63)
"""A moment at which no lease has ended. Plans are compiled from the subscriptions that are active then, which are all:
a clock may be set back, and a subscription that a plan left out couldn't match again."""


@dataclass(frozen=True, eq=False, slots=True)
class Rows:
    """Subscriptions in columns of one length, as they stood when `sequence` was the last change.

    `ids` are unique. `expires` is the lease end: from that instant on, the subscription doesn't match. `errors` are the
    subscriptions of the source, by id, that can't be read; they have no row.

    >>> rows = Rows.of([(7, "alice", "price > 5", FOREVER)], sequence=1)
    >>> len(rows), rows.ids, rows.filters[0].as_py()
    (1, array([7]), 'price > 5')
    """

    sequence: int
    ids: npt.NDArray[np.int64]
    subscribers: pa.StringArray
    filters: pa.StringArray
    expires: npt.NDArray[np.int64]
    errors: tuple[tuple[int, FilterError], ...] = ()

    def __post_init__(self) -> None:
        lengths = {len(self.ids), len(self.subscribers), len(self.filters), len(self.expires)}
        if len(lengths) != 1:
            raise ValueError(f"columns of different lengths: {sorted(lengths)}")

    def __len__(self) -> int:
        return len(self.ids)

    def take(self, positions: npt.NDArray[np.int64]) -> "Rows":
        """The rows at these positions."""
        where = pa.array(positions)
        return Rows(
            self.sequence,
            self.ids[positions],
            self.subscribers.take(where),
            self.filters.take(where),
            self.expires[positions],
            self.errors,
        )

    def plus(self, other: "Rows") -> "Rows":
        """These rows and others."""
        return Rows(
            max(self.sequence, other.sequence),
            np.concatenate([self.ids, other.ids]),
            pa.concat_arrays([self.subscribers, other.subscribers]),
            pa.concat_arrays([self.filters, other.filters]),
            np.concatenate([self.expires, other.expires]),
            self.errors + other.errors,
        )

    @staticmethod
    def of(rows: list[tuple[int, str, str, int]], sequence: int = 0) -> "Rows":
        """Rows from tuples of (id, subscriber, filter, expires): for small sets and tests.

        >>> len(Rows.of([]))
        0
        """
        return Rows(
            sequence,
            np.array([row[0] for row in rows], dtype=np.int64),
            pa.array([row[1] for row in rows], pa.string()),
            pa.array([row[2] for row in rows], pa.string()),
            np.array([row[3] for row in rows], dtype=np.int64),
        )


@dataclass(frozen=True, eq=False, slots=True)
class Changes:
    """The compacted change feed: the last state of every subscription that changed since a number.

    A subscription that changed several times stands here once: in `upserts` if it is there now
    (added or renewed; possibly expired meanwhile, which its `expires` tells), in `removed` if it
    isn't. Applied to the state at that number, `Changes` give the state at `sequence`; applying
    them twice changes nothing more.

    >>> changes = Changes(2, Rows.of([], sequence=2), np.array([7]))
    >>> changes.sequence, changes.removed
    (2, array([7]))
    """

    sequence: int
    upserts: Rows
    removed: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.upserts) + len(self.removed)


@runtime_checkable
class SubscriptionSource(Protocol):
    """Where a snapshot's subscriptions come from: a registry, or ten lines in a test."""

    @property
    def identity(self) -> str:
        """Names this source for ever, so that snapshots of two sources are never mixed up."""
        ...

    def sequence(self) -> int:
        """The number of the last committed change; 0 if nothing ever changed."""
        ...

    def active(self, now: int | None = None) -> Rows:
        """The subscriptions whose lease ends after `now` (default: the clock), in one state."""
        ...

    def changes(self, since: int) -> Changes:
        """The changes after sequence number `since`, compacted."""
        ...
