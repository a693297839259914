"""What owners ask of attributes, settled: one test for each attribute, ascending, with values at both ends.

Cells that no value is in are taken off both ends of every range, ranges with nothing but such cells between them become
one, and demands of one owner on one attribute are intersected. An owner that asks the impossible is marked; a demand
that everything satisfies is dropped, but for those on what may have no value at all, not even NULL.
"""

from dataclasses import dataclass

import numpy as np

from penstock.base.arrays import Bools, Int32s, Int64s, offsets
from penstock.base.jit import kernel
from penstock.matching.canonical import close_gaps
from penstock.matching.filled_cells import Snap
from penstock.matching.intersect import common_ranges


@dataclass(frozen=True, eq=False, slots=True)
class Demands:
    """Owner, attribute and cells low .. high of each; where `several` isn't -1, those of this set.

    Set s has the ranges set_start[s] .. set_start[s + 1], ascending and disjoint.
    """

    owner: Int64s
    attribute: Int32s
    low: Int32s
    high: Int32s
    several: Int32s
    set_attribute: Int32s
    set_start: Int64s
    set_low: Int32s
    set_high: Int32s


@dataclass(frozen=True, eq=False, slots=True)
class Settled:
    """Owner o has the tests start[o] .. start[o + 1]. Of an owner that isn't possible they mean nothing."""

    possible: Bools
    start: Int64s
    attribute: Int32s
    low: Int32s
    high: Int32s
    several: Int32s
    set_start: Int64s
    set_low: Int32s
    set_high: Int32s

    @staticmethod
    def nothing() -> "Settled":
        """One owner that asks nothing."""
        none, start = np.empty(0, np.int32), np.zeros(2, np.int64)
        one = np.ones(1, np.bool_)
        return Settled(one, start, none, none, none, none, start[:1], none, none)


def settle(demands: Demands, owners: int, snap: Snap, may_fail: Bools) -> Settled:
    """Settle what each of so many owners asks. `may_fail`: attributes that may have no value at all."""
    d = _snapped(demands, snap)
    order = np.argsort(d.owner * len(may_fail) + d.attribute, kind="stable")
    owner, attribute = d.owner[order], d.attribute[order]
    again = np.zeros(len(order), np.bool_)
    again[1:] = (owner[1:] == owner[:-1]) & (attribute[1:] == attribute[:-1])
    low, high, several = d.low[order], d.high[order], d.several[order]
    sets = d.set_start, d.set_low, d.set_high
    if again.any():
        low, high, several, sets = _intersected(again, low, high, several, sets)
    kept = ~again & ~((low == 0) & (high == snap.top[attribute]) & (several < 0))
    kept |= ~again & may_fail[attribute]
    possible = np.ones(owners, np.bool_)
    possible[owner[low > high]] = False
    return Settled(
        possible,
        offsets(np.bincount(owner[kept], minlength=owners)),
        attribute[kept],
        low[kept],
        high[kept],
        several[kept],
        *sets,
    )


def _snapped(d: Demands, snap: Snap) -> Demands:
    """The same in filled cells. What has no cell left has its low above its high."""
    low, high = snap.up(d.attribute, d.low), snap.down(d.attribute, d.high)
    several = d.several
    starts, set_low, set_high = d.set_start, d.set_low, d.set_high
    if len(d.set_attribute):
        of = np.repeat(d.set_attribute, np.diff(starts))
        set_low, set_high = snap.up(of, set_low), snap.down(of, set_high)
        # The first filled cell past each range: where the next begins there, the two are one.
        after = snap.up(of, np.minimum(d.set_high + 1, snap.last[of]))
        starts, set_low, set_high = close_gaps(starts, set_low, set_high, after)
        chosen = np.flatnonzero(several >= 0)
        first, past = starts[several[chosen]], starts[several[chosen] + 1]
        low[chosen], high[chosen] = 1, 0  # unless a range is left
        left = first < past
        low[chosen[left]], high[chosen[left]] = set_low[first[left]], set_high[past[left] - 1]
        several = several.copy()
        several[chosen[past - first < 2]] = -1
    return Demands(
        d.owner, d.attribute, low, high, several, d.set_attribute, starts, set_low, set_high
    )


_Sets = tuple[Int64s, Int32s, Int32s]


def _intersected(
    again: Bools, low: Int32s, high: Int32s, several: Int32s, sets: _Sets
) -> tuple[Int32s, Int32s, Int32s, _Sets]:
    """The first of each run of demands on one attribute becomes what all of the run accept."""
    start, set_low, set_high = sets
    among = again.copy()
    among[:-1] |= again[1:]
    sizes = np.where(several < 0, 1, np.diff(start, append=start[-1])[several])
    room = int(sizes[among].sum())
    low, high, several = low.copy(), high.copy(), several.copy()
    more_start, more_low, more_high = _intersect_runs(
        again, low, high, several, start, set_low, set_high, room
    )
    joined = (
        np.concatenate([start, start[-1] + more_start]),
        np.concatenate([set_low, more_low]),
        np.concatenate([set_high, more_high]),
    )
    return low, high, several, joined


@kernel
def _intersect_runs(
    again: Bools,
    low: Int32s,
    high: Int32s,
    several: Int32s,
    set_start: Int64s,
    set_low: Int32s,
    set_high: Int32s,
    room: int,
) -> tuple[Int64s, Int32s, Int32s]:
    """The ends of the new sets, and their ranges. Changes the first of each run in place."""
    a_low, a_high = np.empty(room, np.int32), np.empty(room, np.int32)
    b_low, b_high = np.empty(room, np.int32), np.empty(room, np.int32)
    c_low, c_high = np.empty(room, np.int32), np.empty(room, np.int32)
    out_low, out_high = np.empty(room, np.int32), np.empty(room, np.int32)
    ends = np.empty(len(again), np.int64)
    sets = total = 0
    i = 0
    while i < len(again):
        j = i + 1
        while j < len(again) and again[j]:
            j += 1
        if j > i + 1:
            size = _put(a_low, a_high, low, high, several, set_start, set_low, set_high, i)
            for k in range(i + 1, j):
                other = _put(b_low, b_high, low, high, several, set_start, set_low, set_high, k)
                size = common_ranges(a_low, a_high, size, b_low, b_high, other, c_low, c_high)
                a_low, c_low = c_low, a_low
                a_high, c_high = c_high, a_high
            low[i], high[i], several[i] = 1, 0, -1
            if size:
                low[i], high[i] = a_low[0], a_high[size - 1]
            if size > 1:
                several[i] = len(set_start) - 1 + sets
                out_low[total : total + size] = a_low[:size]
                out_high[total : total + size] = a_high[:size]
                total += size
                ends[sets] = total
                sets += 1
        i = j
    return ends[:sets].copy(), out_low[:total].copy(), out_high[:total].copy()


@kernel
def _put(
    out_low: Int32s,
    out_high: Int32s,
    low: Int32s,
    high: Int32s,
    several: Int32s,
    set_start: Int64s,
    set_low: Int32s,
    set_high: Int32s,
    i: int,
) -> int:
    """The ranges of a demand, and how many there are."""
    if several[i] < 0:
        out_low[0], out_high[0] = low[i], high[i]
        return 1 if low[i] <= high[i] else 0
    first, past = set_start[several[i]], set_start[several[i] + 1]
    out_low[: past - first] = set_low[first:past]
    out_high[: past - first] = set_high[first:past]
    return int(past - first)
