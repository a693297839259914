"""The tuples of a table, ordered by join attributes and then by one selection attribute: a composite index.

    join key     0            1        2
    pool         │ 3 7 7 9 · ·│ 4 · · ·│ 1 2 2 8 8 9 · · │      coordinates of the selection attribute, ascending
                 │ p q r s    │ t      │ u v …            │      and where the tuples stand

Each join key has a *run*, sorted by (coordinate, place). All runs are in one pool, each with room to grow. A full run
moves to the end with twice the room, and the pool is packed when its end is reached. A semijoin only ever looks within
one run: for the neighbours of a coordinate, or a stretch between two. So the state of a join key is a pair of flat
arrays and nothing else, and a keyed state store can hold it; kernels don't know whether there are other keys.

joins §3.1.1 has B-trees. Here a tuple that comes or goes moves half a run on average, 16 bytes a tuple. Measured, that
takes 0.3 µs with 160 tuples of the same join key (the average of joins §6.1), 1 µs with 1,000, 16 µs
with 20,000, 70 µs with 100,000 and 0.7 ms with a million. A search in the subscriptions takes 1 to 5 µs, so sorted
blocks would pay off from some ten thousand tuples of one join key on; a run would then no longer be one array.
"""

from typing import NamedTuple

import numpy as np

from penstock.base.arrays import Int64s, grow_array
from penstock.base.jit import kernel
from penstock.joins.axes import BEYOND, NOWHERE


class RunArrays(NamedTuple):
    """The runs drawn above: that of a join key is start[key] .. start[key] + length[key] of the pool."""

    start: Int64s
    length: Int64s
    values: Int64s  # coordinates
    tuples: Int64s  # where they stand


class RunEntries(NamedTuple):
    """Join key, coordinate and place of tuples. Where the key is -1, there is no tuple."""

    keys: Int64s
    values: Int64s
    tuples: Int64s


@kernel
def first_at_least(values: Int64s, begin: int, end: int, value: int) -> int:
    """The first place between `begin` and `end` with a value at least as high; `end` if there is none."""
    while begin < end:
        middle = (begin + end) >> 1
        if values[middle] < value:
            begin = middle + 1
        else:
            end = middle
    return begin


@kernel
def distinct_values(values: Int64s, begin: int, end: int, out: Int64s) -> int:
    """Write the distinct ones of ascending values to `out`; how many there are."""
    count = 0
    for p in range(begin, end):
        if count == 0 or out[count - 1] != values[p]:
            out[count] = values[p]
            count += 1
    return count


@kernel
def _place(values: Int64s, tuples: Int64s, begin: int, end: int, value: int, which: int) -> int:
    """Where a tuple is in a run, or would be."""
    while begin < end:
        middle = (begin + end) >> 1
        if values[middle] < value or (values[middle] == value and tuples[middle] < which):
            begin = middle + 1
        else:
            end = middle
    return begin


@kernel
def _neighbours(values: Int64s, begin: int, end: int, place: int) -> tuple[int, int]:
    below = values[place - 1] if place > begin else NOWHERE
    above = values[place] if place < end else BEYOND
    return below, above


@kernel
def advance(
    runs: RunArrays, lost: RunEntries, gained: RunEntries, lost_near: Int64s, gained_near: Int64s
) -> None:
    """Apply changes one after the other.

    The neighbours of a tuple that comes are those before it is there, and of one that goes, those that are left. If a
    change has both, the new tuple comes before the old one goes.
    """
    start, length, values, tuples = runs.start, runs.length, runs.values, runs.tuples
    for i in range(len(lost.keys)):
        key, value, which = gained.keys[i], gained.values[i], gained.tuples[i]
        if key >= 0:
            begin, end = start[key], start[key] + length[key]
            place = _place(values, tuples, begin, end, value, which)
            gained_near[i, 0], gained_near[i, 1] = _neighbours(values, begin, end, place)
            for p in range(end, place, -1):
                values[p], tuples[p] = values[p - 1], tuples[p - 1]
            values[place], tuples[place] = value, which
            length[key] += 1
        key, value, which = lost.keys[i], lost.values[i], lost.tuples[i]
        if key >= 0:
            begin, end = start[key], start[key] + length[key]
            place = _place(values, tuples, begin, end, value, which)
            for p in range(place, end - 1):
                values[p], tuples[p] = values[p + 1], tuples[p + 1]
            length[key] -= 1
            lost_near[i, 0], lost_near[i, 1] = _neighbours(values, begin, end - 1, place)


@kernel
def _move(runs: RunArrays, keys: Int64s, room: Int64s, end: int) -> int:
    """Move the runs of some keys to the end of the pool, each with more room."""
    start, length, values, tuples = runs.start, runs.length, runs.values, runs.tuples
    for i in range(len(keys)):
        key = keys[i]
        for p in range(length[key]):
            values[end + p] = values[start[key] + p]
            tuples[end + p] = tuples[start[key] + p]
        start[key] = end
        end += room[i]
    return end


class Runs:
    """An index of the tuples of a table.

    >>> runs = Runs()
    >>> three = RunEntries(np.array([0, 0, 1]), np.array([7, 3, 5]), np.array([10, 11, 12]))
    >>> near = runs.change(nothing(3), three)[1]
    >>> [x.tolist() for x in runs.run(0)], near[1].tolist() == [NOWHERE, 7]
    ([[3, 7], [11, 10]], True)
    """

    def __init__(self) -> None:
        self.start, self.length, self._room = (np.zeros(0, np.int64) for _ in range(3))
        self.values, self.tuples = np.zeros(64, np.int64), np.zeros(64, np.int64)
        self._end = 0

    @property
    def arrays(self) -> RunArrays:
        """The arrays that kernels work on."""
        return RunArrays(self.start, self.length, self.values, self.tuples)

    def run(self, key: int) -> tuple[Int64s, Int64s]:
        """The coordinates and the places of the tuples with a join key."""
        if key >= len(self.start):
            return self.values[:0], self.tuples[:0]
        begin = self.start[key]
        end = begin + self.length[key]
        return self.values[begin:end], self.tuples[begin:end]

    def longest(self) -> int:
        return int(self.length.max(initial=0))

    def change(self, lost: RunEntries, gained: RunEntries) -> tuple[Int64s, Int64s]:
        """Apply changes in order; the neighbours, below and above, of the tuples lost and of those gained."""
        self.reserve(gained.keys)
        near = np.zeros((2, len(lost.keys), 2), np.int64)
        advance(self.arrays, lost, gained, near[0], near[1])
        return near[0], near[1]

    def reserve(self, keys: Int64s) -> None:
        """Make room for one more tuple for each of these join keys; one may occur several times, and -1 means no
        key."""
        keys = keys[keys >= 0]
        if not len(keys):
            return
        self.cover(int(keys.max()) + 1)
        distinct, more = np.unique(keys, return_counts=True)
        needed = self.length[distinct] + more
        short = needed > self._room[distinct]
        if not short.any():
            return
        moved, room = distinct[short], 2 * needed[short] + 2
        if self._end + room.sum() > len(self.values):
            self._room[np.setdiff1d(np.flatnonzero(self.length == 0), distinct)] = 0
            self._room[moved] = room
            self._pack()
        else:
            self._end = _move(self.arrays, moved, room, self._end)
            self._room[moved] = room

    def cover(self, keys: int) -> None:
        """Have a run, perhaps an empty one, for every join key below this one."""
        self.start, self.length = grow_array(self.start, keys), grow_array(self.length, keys)
        self._room = grow_array(self._room, keys)

    def _pack(self) -> None:
        """Move all runs to a new pool without holes; each keeps its room, and as much again is free."""
        size = int(self._room.sum())
        values, tuples = self.values, self.tuples
        begin = np.cumsum(self._room) - self._room
        self.values = np.zeros(2 * size + 64, np.int64)
        self.tuples = np.zeros(2 * size + 64, np.int64)
        for key in np.flatnonzero(self.length).tolist():
            old, new, n = self.start[key], begin[key], self.length[key]
            self.values[new : new + n] = values[old : old + n]
            self.tuples[new : new + n] = tuples[old : old + n]
        self.start = begin
        self._end = size


def nothing(count: int) -> RunEntries:
    """Entries that say that no tuple was lost, or gained."""
    nobody = np.full(count, -1, np.int64)
    return RunEntries(nobody, np.zeros(count, np.int64), np.zeros(count, np.int64))
