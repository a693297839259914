"""The messages that are sent, reformulated and self-describing (joins §3.2), and what a subscriber does with them.

A message has a *content*, which the subscriber applies, and a *description*, by which stateless filters route it:

    form       content                           description                        goes to a semijoin when
    BASE       a tuple of the base table         a; points (x, y)                   a ∈ A, some [x, y] ⊆ C
    EXPOSED    the same                          a; c, below, above                 a ∈ A, c ∈ C ⊆ (below, above)
    DROPPED    "forget all that join on b"       points (x, y); c, below, above     some [x, y] ⊆ A, and so on for C
    SELECTED   a tuple of the base table         a                                  a ∈ A

A and C are the ranges that the subscription has for the selection attributes of the base and of the filtering table; a
and c are *coordinates*, 64-bit integers in the order of the values (`axes`). A point (x, y) of a compressed
skyline has x > y; the test is the same, x at or above where the range begins and y at or below where it ends.

A subscriber holds, of each table, the tuples it was sent, by key, and applies the messages of a change in order:

    TupleAdded      hold this tuple, instead of one with the same key
    TupleRemoved    forget the tuple with this key
    TuplesDropped   forget all tuples of a table with these join attributes: none of them joins any longer
    ViewReset       forget everything: what must be held is sent from here on

The join of the tuples that it holds is the result of the subscription. joins §3.1 leaves deletions out; they are the
mirror images of insertions. A tuple of the base table that is deleted was held by exactly the subscribers that would
get it if it came now, so it has the same skyline. A tuple of the filtering table that is deleted takes with it the
tuples that it would expose if it came now; as all of these have the same join attributes, one message says so.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from penstock.base.arrays import Int8s, Int64s, offsets

TableRow = Mapping[str, Any]
TupleKey = tuple[Any, ...]

ADDED_CHANGE, REMOVED_CHANGE, DROPPED_CHANGE, RESET_CHANGE = "added", "removed", "dropped", "reset"
"""The names that notifications have for the four messages to a subscriber."""
ADDED, REMOVED = 0, 1  # what happens to the content
BASE, EXPOSED, DROPPED, SELECTED = range(4)  # forms


@dataclass(frozen=True, slots=True)
class TupleAdded:
    """Hold this tuple, instead of one with the same key."""

    table: str
    row: TableRow


@dataclass(frozen=True, slots=True)
class TupleRemoved:
    """Forget the tuple with this key."""

    table: str
    key: TupleKey


@dataclass(frozen=True, slots=True)
class TuplesDropped:
    """Forget all tuples of a table that have these values of some attributes."""

    table: str
    attributes: tuple[str, ...]
    values: TupleKey


@dataclass(frozen=True, slots=True)
class ViewReset:
    """Forget everything. A subscriber that is served for the first time, or again after a pause, is sent this first."""


Message = TupleAdded | TupleRemoved | TuplesDropped | ViewReset


def read_message(told: Mapping[str, Any]) -> Message:
    """The message of a notification, which has `change`, `table`, `attributes` and `tuple`; a NULL may be left out.

    >>> read_message({"table": "A", "change": "removed", "attributes": ["k"], "tuple": {"A": {"k": 1}}})
    TupleRemoved(table='A', key=(1,))
    """
    if told["change"] == RESET_CHANGE:
        return ViewReset()
    table = told["table"]
    content = told["tuple"][table]
    if told["change"] == ADDED_CHANGE:
        return TupleAdded(table, content)
    values = tuple(content.get(name) for name in told["attributes"])
    if told["change"] == REMOVED_CHANGE:
        return TupleRemoved(table, values)
    return TuplesDropped(table, tuple(told["attributes"]), values)


@dataclass(frozen=True, slots=True)
class Messages:
    """Many messages of one group, flat. Columns that a form doesn't have are 0; it may have no points.

    `tuples` says where in the group's base table the content stands; of DROPPED, where in the filtering table the tuple
    stood that has gone. `start` has one entry more than there are messages: the points of message i are
    start[i]:start[i + 1].
    """

    change: Int64s  # which change brought it about: its position
    kind: Int8s  # ADDED or REMOVED
    form: Int8s
    tuples: Int64s
    a: Int64s
    c: Int64s
    below: Int64s
    above: Int64s
    start: Int64s
    x: Int64s
    y: Int64s

    def __len__(self) -> int:
        return len(self.change)

    def take(self, which: Int64s) -> "Messages":
        """Some of them, in this order."""
        counts = self.points()[which]
        start = offsets(counts)
        picks = np.repeat(self.start[which] - start[:-1], counts) + np.arange(start[-1])
        columns = {
            f.name: getattr(self, f.name)[which]
            for f in fields(Messages)
            if f.name not in ("start", "x", "y")
        }
        return Messages(start=start, x=self.x[picks], y=self.y[picks], **columns)

    def points(self) -> Int64s:
        """How many points each message has."""
        return np.diff(self.start)


def concatenate_messages(parts: list[Messages]) -> Messages:
    """The messages of several batches of one group, one after the other."""
    columns = {
        f.name: np.concatenate([getattr(part, f.name) for part in parts])
        for f in fields(Messages)
        if f.name != "start"
    }
    counts = np.concatenate([part.points() for part in parts])
    return Messages(start=offsets(counts), **columns)
