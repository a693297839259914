"""A pool of boxes that are being merged (mbd §5): flat arrays in which boxes join others, and the unions this takes.

    region r    one entry of a table, or a merger of several: if boxes of two regions have joined, these are one
    box b       tests start[b] .. start[b + 1], ascending by attribute; a dropped test has the attribute -1
    test t      ranges first[t] .. past[t], ascending, disjoint, and with numbers between them

Boxes merge, and their regions merge with them: `x = 1 OR y = 1` and `x = 2 OR y = 2` become one region
of two boxes, `x IN (1, 2) OR y IN (1, 2)`. Regions of one box each become a region of one box. `perfect_merging` and
`imperfect_merging` decide which boxes join.

`into` leads from a box that has joined another to that other, and their regions are united. New ranges of a test are
put behind all others, so no range ever moves.

The size of a merger is bounded: by `MOST_RANGES` in one test and `MOST_BOXES` in one region, since a larger entry takes
as long to send as the entries it stands for (one that is larger from the start may stay so); and by `MOST_PARTS`
subscriptions, since all are placed again when one of them leaves.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from penstock.base.array_kernels import copy_values
from penstock.base.arrays import Bools, Float64s, Int32s, Int64s, UInt64s, distinct, offsets, runs
from penstock.base.jit import kernel
from penstock.covering.boxes import (
    HIGHEST,
    NULL,
    Boxes,
    Test,
    boundaries,
    group_items,
    items_of,
    last_of,
)

MOST_RANGES = 1_024
MOST_BOXES = 32
MOST_PARTS = 1_024


class MergePool(NamedTuple):
    """The arrays drawn above.

    `into` and `region_into` lead from a box, or region, that has joined another to that other. `boxes_in` counts the
    boxes of a region that haven't joined another, `parts_in` the subscriptions it is made of. `loss` is the mass of
    announced events in a box that are in none of the boxes it is made of; `is_perfect` says that there can't be any,
    whatever is announced. `hashes` of tests add up to `whole` of their box. `free` are the attributes of which a test
    may be dropped if it accepts every number: all but the hidden ones.
    """

    start: Int64s
    attribute: Int32s
    first: Int64s
    past: Int64s
    low: Int64s
    high: Int64s
    into: Int64s
    region: Int64s
    region_into: Int64s
    boxes_in: Int64s
    parts_in: Int64s
    loss: Float64s
    is_perfect: Bools
    hashes: UInt64s
    whole: UInt64s
    free: Bools

    def numbers_in_use(self, attribute: int) -> Int64s:
        """The numbers at which ranges of an attribute begin, and those just after their ends; ascending."""
        tests = np.flatnonzero(self.attribute == attribute)
        places = runs(self.first[tests], self.past[tests] - self.first[tests])
        return boundaries(self.low[places], self.high[places])

    def attributes(self) -> list[int]:
        """The attributes that some box tests."""
        found: list[int] = distinct(self.attribute[self.attribute >= 0]).tolist()
        return found

    def tests(self, box: int) -> list[Test]:
        """The tests of a box."""
        found: list[Test] = []
        for t in range(int(self.start[box]), int(self.start[box + 1])):
            if self.attribute[t] >= 0:
                span = slice(int(self.first[t]), int(self.past[t]))
                ranges = zip(self.low[span].tolist(), self.high[span].tolist(), strict=True)
                found.append((int(self.attribute[t]), list(ranges)))
        return found


def pool_of(boxes: Boxes, regions: Int64s, parts: Int64s, free: Bools) -> MergePool:
    """A pool of some regions of many; each is made of so many parts."""
    sizes, chosen = items_of(boxes.region_start, regions)
    lengths, tests = items_of(boxes.box_start, chosen)
    is_set = boxes.several[tests] >= 0
    set_sizes, of_sets = items_of(boxes.set_start, boxes.several[tests][is_set])
    counts = np.ones(len(tests), np.int64)
    counts[is_set] = set_sizes
    ends = offsets(counts)
    low, high = np.repeat(boxes.low[tests], counts), np.repeat(boxes.high[tests], counts)
    in_set = np.repeat(is_set, counts)
    low[in_set], high[in_set] = boxes.set_low[of_sets], boxes.set_high[of_sets]
    pool = MergePool(
        start=offsets(lengths),
        attribute=boxes.attribute[tests],
        first=ends[:-1].copy(),
        past=ends[1:].copy(),
        low=low,
        high=high,
        into=np.arange(len(chosen)),
        region=np.repeat(np.arange(len(regions)), sizes),
        region_into=np.arange(len(regions)),
        boxes_in=sizes.copy(),
        parts_in=parts.copy(),
        loss=np.zeros(len(chosen)),
        is_perfect=np.ones(len(chosen), np.bool_),
        hashes=np.zeros(len(tests), np.uint64),
        whole=np.zeros(len(chosen), np.uint64),
        free=free,
    )
    _hash_all(pool)
    return pool


@dataclass(frozen=True, slots=True)
class Joined:
    """A merger: the regions that it is made of, as places in the pool, and its boxes there.

    `loss` is a bound on the mass of announced events that it matches and none of its members does; `is_perfect` says
    that there can't be any, whatever is announced.
    """

    members: list[int]
    boxes: list[int]
    loss: float
    is_perfect: bool


def mergers(pool: MergePool) -> Iterator[Joined]:
    """The mergers of several regions that a pool has now."""
    into = last_of(pool.region_into)
    sizes = np.bincount(into, minlength=len(into))
    members = np.flatnonzero(sizes[into] > 1)
    boxes = np.flatnonzero(pool.into == np.arange(len(pool.into)))
    boxes = boxes[sizes[into[pool.region[boxes]]] > 1]
    groups = group_items(members, into[members])
    for region, kept in group_items(boxes, into[pool.region[boxes]]).items():
        loss, is_perfect = float(pool.loss[kept].sum()), bool(pool.is_perfect[kept].all())
        yield Joined(groups[region], kept, loss, is_perfect)


# --- ranges ---------------------------------------------------------------------------------------


class Ranges(NamedTuple):
    """Room for ranges. The number of those in use is kept separately."""

    low: Int64s
    high: Int64s


@kernel
def room_for(size: int) -> Ranges:
    """Room for so many ranges."""
    return Ranges(np.empty(size, np.int64), np.empty(size, np.int64))


def with_ranges(pool: MergePool, more: Ranges) -> MergePool:
    """The same pool with more ranges behind the others."""
    if not len(more.low):
        return pool
    return pool._replace(
        low=np.concatenate([pool.low, more.low]), high=np.concatenate([pool.high, more.high])
    )


@kernel
def unite(pool: MergePool, t: int, one: Ranges, size: int, out: Ranges) -> int:
    """Write the union of the ranges of a test and the first `size` of `one` into `out`; how many ranges it has."""
    i, j, count = 0, pool.first[t], 0
    while i < size or j < pool.past[t]:
        if j == pool.past[t] or (i < size and one.low[i] <= pool.low[j]):
            begin, end = one.low[i], one.high[i]
            i += 1
        else:
            begin, end = pool.low[j], pool.high[j]
            j += 1
        if count and (out.high[count - 1] == HIGHEST or begin <= out.high[count - 1] + 1):
            out.high[count - 1] = max(out.high[count - 1], end)
        else:
            out.low[count], out.high[count] = begin, end
            count += 1
    return count


@kernel
def is_too_long(size: int, one: int, other: int) -> bool:
    """Whether a union of two lists of ranges has too many for one test."""
    return size > MOST_RANGES and size > max(one, other)


# --- hashes ---------------------------------------------------------------------------------------


@kernel
def _hash_all(pool: MergePool) -> None:
    for b in range(len(pool.into)):
        for t in range(pool.start[b], pool.start[b + 1]):
            pool.hashes[t] = _hash_test(
                pool.attribute[t], pool.low, pool.high, pool.first[t], pool.past[t]
            )
            pool.whole[b] += pool.hashes[t]


@kernel
def set_test(
    pool: MergePool, b: int, t: int, made: Ranges, size: int, done: Ranges, used: int
) -> int:
    """Give a test of box b the first `size` ranges of `made`; drop it if these accept everything.

    The ranges are put into `done`, behind the first `used`; `with_ranges` later puts `done` behind the pool's ranges.
    Returns how many of `done` are used now.
    """
    is_all = size == 1 and made.low[0] == NULL and made.high[0] == HIGHEST
    if is_all and pool.free[pool.attribute[t]]:
        drop_test(pool, b, t)
        return used
    found = _hash_test(pool.attribute[t], made.low, made.high, 0, size)
    pool.whole[b] += found - pool.hashes[t]
    pool.hashes[t] = found
    pool.first[t], pool.past[t] = len(pool.low) + used, len(pool.low) + used + size
    copy_values(done.low, used, made.low, 0, size)
    copy_values(done.high, used, made.high, 0, size)
    return used + size


@kernel
def drop_test(pool: MergePool, b: int, t: int) -> None:
    """Drop a test of box b, so that it accepts every value of the attribute."""
    pool.whole[b] -= pool.hashes[t]
    pool.hashes[t] = 0
    pool.attribute[t] = -1


@kernel
def _hash_test(attribute: int, low: Int64s, high: Int64s, first: int, past: int) -> np.uint64:
    found = np.uint64(attribute) + np.uint64(1)
    for i in range(first, past):
        found = _mix(found, np.uint64(low[i]))
        found = _mix(found, np.uint64(high[i]))
    return found


@kernel
def _mix(hashed: np.uint64, number: np.uint64) -> np.uint64:
    """A hash of both, by multiplications and shifts that lose nothing."""
    mixed = (hashed ^ number) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)
    return mixed ^ (mixed >> np.uint64(29))


# --- joining --------------------------------------------------------------------------------------


@kernel
def region_of(pool: MergePool, b: int) -> int:
    """The region that a box belongs to now."""
    r = pool.region[b]
    while pool.region_into[r] != r:
        pool.region_into[r] = pool.region_into[pool.region_into[r]]
        r = pool.region_into[r]
    return int(r)


@kernel
def may_join(pool: MergePool, b: int, c: int) -> bool:
    """Whether the regions of two boxes would not get too large together."""
    r, s = region_of(pool, b), region_of(pool, c)
    if r == s:
        return True
    if pool.parts_in[r] + pool.parts_in[s] > MOST_PARTS:
        return False
    larger = max(pool.boxes_in[r], pool.boxes_in[s])
    return bool(pool.boxes_in[r] + pool.boxes_in[s] - 1 <= max(larger, MOST_BOXES))


@kernel
def is_full(pool: MergePool, b: int) -> bool:
    """Whether the region of a box has as many parts as it may."""
    return bool(pool.parts_in[region_of(pool, b)] >= MOST_PARTS)


@kernel
def join(pool: MergePool, b: int, c: int) -> None:
    """Make box c a part of box b, and their regions one. The caller makes b accept all that c does."""
    r, s = region_of(pool, b), region_of(pool, c)
    pool.into[c] = b
    if r != s:
        pool.region_into[s] = r
        pool.boxes_in[r] += pool.boxes_in[s]
        pool.parts_in[r] += pool.parts_in[s]
    pool.boxes_in[r] -= 1
