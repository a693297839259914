"""Many regions in flat arrays, and inclusion between them.

    region r    boxes region_start[r] .. region_start[r + 1]
    box b       tests box_start[b] .. box_start[b + 1], ascending by attribute
    test t      an attribute and the numbers low[t] .. high[t] of it, both included

Where a test accepts several ranges, low and high are their hull, and several[t] is the number of the set that has them.
Otherwise several[t] is -1. NULL is the lowest number of every attribute, below all values, as it is the lowest cell in
a plan: so IS NULL and
`x IS NULL OR x < 5` are ranges like any other. `coordinates` makes the numbers.

A region covers another here if each box of the other lies in *one* of its boxes. That is sound, exact for conjunctions,
and transitive, which a frontier needs. It misses boxes that cover a box only together: the region `a < 5 OR a >= 5 AND
b = 1` has two, and `b = 1 AND a IS NOT NULL` lies in neither of them.

The numbers aren't a plan's cells: cells are places among all constants, and a new constant moves them. The tests aren't
a matrix of all attributes either: a box tests few of many.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from penstock.base.arrays import Bools, Int32s, Int64s, UInt64s, distinct, offsets, runs
from penstock.base.jit import kernel

NULL = -(2**63)
LOWEST, HIGHEST = NULL + 1, 2**63 - 1
"""The lowest and the highest number that stand for values."""

AnyNumber = TypeVar("AnyNumber", bound=np.generic)


class Boxes(NamedTuple):
    """The arrays drawn above. They may be longer than what is in use.

    Bit a % 64 of box_mask[b] is set if box b has a test of attribute a: a box can lie only in boxes whose bits it has.
    """

    region_start: Int64s
    box_start: Int64s
    box_region: Int32s
    box_mask: UInt64s
    attribute: Int32s
    low: Int64s
    high: Int64s
    several: Int32s
    set_start: Int64s
    set_low: Int64s
    set_high: Int64s


Test = tuple[int, Sequence[tuple[int, int]]]
"""An attribute, and the ranges that it must be in: ascending, disjoint and with numbers between them."""


@dataclass(slots=True)
class Flat:
    """Some regions on their way into a store: sizes instead of starts, sets numbered from 0."""

    # Not a list of tests for each box: a million small objects would keep the garbage collector busy.
    boxes: list[int] = field(default_factory=list)
    tests: list[int] = field(default_factory=list)
    mask: list[int] = field(default_factory=list)
    attribute: list[int] = field(default_factory=list)
    low: list[int] = field(default_factory=list)
    high: list[int] = field(default_factory=list)
    several: list[int] = field(default_factory=list)
    ranges: list[int] = field(default_factory=list)
    set_low: list[int] = field(default_factory=list)
    set_high: list[int] = field(default_factory=list)


class BoxStore:
    """Boxes that grow at the end. Regions are numbered as they come."""

    def __init__(self) -> None:
        none = np.empty(0, np.int64)
        self.boxes = _one_box_each(np.zeros(1, np.int64), none.astype(np.int32), none, none)
        self._regions = self._boxes = self._tests = self._sets = self._ranges = 0

    @staticmethod
    def of(start: Int64s, attribute: Int32s, low: Int64s, high: Int64s) -> "BoxStore":
        """Regions of one box each; box b has the tests start[b] .. start[b + 1], each a range."""
        box = np.repeat(np.arange(len(start) - 1), np.diff(start))
        order = np.lexsort((attribute, box))
        attribute = attribute[order].astype(np.int32)
        same = (np.diff(attribute) == 0) & (np.diff(box) == 0)
        if same.any():
            where = int(box[np.flatnonzero(same)[0]])
            raise ValueError(
                f"box {where} has two tests of one attribute: give it one test, of what both accept"
            )
        if (low > high).any():
            where = int(box[np.flatnonzero(low > high)[0]])
            raise ValueError(
                f"box {where} has a range whose low is above its high: leave out the box"
            )
        store = BoxStore()
        low, high = low[order].astype(np.int64), high[order].astype(np.int64)
        store.boxes = _one_box_each(start.astype(np.int64), attribute, low, high)
        store._regions = store._boxes = len(start) - 1
        store._tests = len(attribute)
        return store

    def __len__(self) -> int:
        return self._regions

    def append(self, flat: Flat) -> int:
        """Put regions at the end; the number of the first."""
        boxes = self.boxes
        first, box, test = self._regions, self._boxes, self._tests
        sets, ranges = self._sets, self._ranges
        several = [n + sets if n >= 0 else -1 for n in flat.several] if sets else flat.several
        owners = [first + n for n, size in enumerate(flat.boxes) for _ in range(size)]
        self.boxes = Boxes(
            region_start=_put(boxes.region_start, first + 1, _ends(flat.boxes, box)),
            box_start=_put(boxes.box_start, box + 1, _ends(flat.tests, test)),
            box_region=_put(boxes.box_region, box, owners),
            box_mask=_put(boxes.box_mask, box, flat.mask),
            attribute=_put(boxes.attribute, test, flat.attribute),
            low=_put(boxes.low, test, flat.low),
            high=_put(boxes.high, test, flat.high),
            several=_put(boxes.several, test, several),
            set_start=_put(boxes.set_start, sets + 1, _ends(flat.ranges, ranges)),
            set_low=_put(boxes.set_low, ranges, flat.set_low),
            set_high=_put(boxes.set_high, ranges, flat.set_high),
        )
        self._regions += len(flat.boxes)
        self._boxes += len(flat.tests)
        self._tests += len(flat.attribute)
        self._sets += len(flat.ranges)
        self._ranges += len(flat.set_low)
        return first

    def keep(self, regions: Int64s) -> None:
        """Forget all but these regions, which are numbered anew in the order given."""
        boxes = self.boxes
        sizes, chosen = items_of(boxes.region_start, regions)
        lengths, tests = items_of(boxes.box_start, chosen)
        several = boxes.several[tests]
        used = several[several >= 0]
        set_sizes, ranges = items_of(boxes.set_start, used)
        several[several >= 0] = np.arange(len(used))
        self.boxes = Boxes(
            region_start=offsets(sizes),
            box_start=offsets(lengths),
            box_region=np.repeat(np.arange(len(regions), dtype=np.int32), sizes),
            box_mask=boxes.box_mask[chosen],
            attribute=boxes.attribute[tests],
            low=boxes.low[tests],
            high=boxes.high[tests],
            several=several,
            set_start=offsets(set_sizes),
            set_low=boxes.set_low[ranges],
            set_high=boxes.set_high[ranges],
        )
        self._regions, self._boxes, self._tests = len(regions), len(chosen), len(tests)
        self._sets, self._ranges = len(used), len(ranges)

    def renumber(self, attribute: int, old: Int64s, new: Int64s) -> None:
        """Give the numbers `old` of an attribute, ascending, their `new` ones. Highs are one below a number."""
        tests, ranges = self._tests_of(attribute)
        _replace(self.boxes.low, tests, old, new, 0)
        _replace(self.boxes.high, tests, old, new, 1)
        _replace(self.boxes.set_low, ranges, old, new, 0)
        _replace(self.boxes.set_high, ranges, old, new, 1)

    def nullable(self) -> Int32s:
        """The attributes of which some test accepts NULL."""
        return distinct(self.boxes.attribute[: self._tests][self.boxes.low[: self._tests] == NULL])

    def numbers_in_use(self, attribute: int) -> Int64s:
        """The numbers at which ranges of an attribute begin, and those just after their ends; ascending."""
        tests, ranges = self._tests_of(attribute)
        return boundaries(
            np.concatenate([self.boxes.low[tests], self.boxes.set_low[ranges]]),
            np.concatenate([self.boxes.high[tests], self.boxes.set_high[ranges]]),
        )

    def _tests_of(self, attribute: int) -> tuple[Int64s, Int64s]:
        """The tests of an attribute, and the ranges of those that have several."""
        tests = np.flatnonzero(self.boxes.attribute[: self._tests] == attribute)
        sets = self.boxes.several[tests]
        return tests, items_of(self.boxes.set_start, sets[sets >= 0])[1]


def items_of(start: Int64s, chosen: Int64s | Int32s) -> tuple[Int64s, Int64s]:
    """How many items each of the chosen owners has, and all their items; owner o has start[o] .. start[o + 1]."""
    lengths = start[chosen + 1] - start[chosen]
    return lengths, runs(start[chosen], lengths)


def last_of(place: Int64s) -> Int64s:
    """The end of each chain, where every place leads to another one or to itself."""
    while not np.array_equal(place[place], place):
        place = place[place]  # each round halves the chains
    return place


def group_items(items: Int64s, keys: Int64s) -> dict[int, list[int]]:
    """The items of each key."""
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    first = np.flatnonzero(np.diff(ordered, prepend=-1))
    groups = np.split(items[order], first[1:])
    return {int(key): group.tolist() for key, group in zip(ordered[first], groups, strict=False)}


def boundaries(low: Int64s, high: Int64s) -> Int64s:
    """The numbers at which ranges begin, and those just after their ends; ascending, and only those of constants."""
    return distinct(np.concatenate([low[low > LOWEST], high[_inner(high)] + 1]))


def _one_box_each(start: Int64s, attribute: Int32s, low: Int64s, high: Int64s) -> Boxes:
    """Regions of one box each, whose tests are ranges, in order."""
    count = len(start) - 1
    return Boxes(
        region_start=np.arange(count + 1),
        box_start=start,
        box_region=np.arange(count, dtype=np.int32),
        box_mask=masks(start, attribute),
        attribute=attribute,
        low=low,
        high=high,
        several=np.full(len(attribute), -1, np.int32),
        set_start=np.zeros(1, np.int64),
        set_low=np.empty(0, np.int64),
        set_high=np.empty(0, np.int64),
    )


def _ends(sizes: list[int], before: int) -> list[int]:
    return [before + end for end in itertools.accumulate(sizes)]


def _put(array: npt.NDArray[AnyNumber], at: int, values: list[int]) -> npt.NDArray[AnyNumber]:
    """The array with values from a place on; a new one of twice the length if there is no room."""
    if not values:
        return array
    past = at + len(values)
    if past > len(array):
        array = np.concatenate([array[:at], np.zeros(max(2 * past, 16) - at, array.dtype)])
    array[at:past] = np.array(values, array.dtype)  # a list alone would make masks floats
    return array


def _inner(high: Int64s) -> Bools:
    """Which highs come from a constant."""
    inner: Bools = (high != NULL) & (high != HIGHEST)
    return inner


def _replace(numbers: Int64s, places: Int64s, old: Int64s, new: Int64s, above: int) -> None:
    here = numbers[places]
    inner = _inner(here) if above else here > LOWEST
    places, here = places[inner], here[inner]
    numbers[places] = new[np.searchsorted(old, here + above)] - above


@kernel
def masks(start: Int64s, attribute: Int32s) -> UInt64s:
    """The bits of every box: see `Boxes`."""
    found = np.zeros(len(start) - 1, np.uint64)
    for b in range(len(found)):
        for t in range(start[b], start[b + 1]):
            found[b] |= np.uint64(1) << np.uint64(attribute[t] & 63)
    return found


# --- inclusion ------------------------------------------------------------------------------------


@kernel
def region_includes(boxes: Boxes, outer: int, inner: int) -> bool:
    """Whether each box of one region lies in one box of another."""
    for q in range(boxes.region_start[inner], boxes.region_start[inner + 1]):
        found = False
        for b in range(boxes.region_start[outer], boxes.region_start[outer + 1]):
            if box_includes(boxes, b, q):
                found = True
                break
        if not found:
            return False
    return True


@kernel
def region_covers(boxes: Boxes, s: int, r: int) -> bool:
    """Whether region s includes region r. Of equal ones the earlier covers the later; no region covers itself."""
    if s == r or not region_includes(boxes, s, r):
        return False
    return s < r or not region_includes(boxes, r, s)


@kernel
def box_includes(boxes: Boxes, outer: int, inner: int) -> bool:
    """Whether box `inner` lies in box `outer`: of each attribute that `outer` tests, it accepts no number more."""
    if boxes.box_mask[outer] & ~boxes.box_mask[inner]:
        return False
    u, past = boxes.box_start[inner], boxes.box_start[inner + 1]
    for t in range(boxes.box_start[outer], boxes.box_start[outer + 1]):
        while u < past and boxes.attribute[u] < boxes.attribute[t]:
            u += 1
        if u == past or boxes.attribute[u] != boxes.attribute[t]:
            return False
        if boxes.low[t] > boxes.low[u] or boxes.high[t] < boxes.high[u]:
            return False
        if boxes.several[t] >= 0 and not _set_includes(boxes, t, u):
            return False
        u += 1
    return True


@kernel
def _set_includes(boxes: Boxes, t: int, u: int) -> bool:
    """Whether each range of test u lies in one range of test t, which has several."""
    i, past = boxes.set_start[boxes.several[t]], boxes.set_start[boxes.several[t] + 1]
    one = boxes.several[u] < 0
    first = 0 if one else boxes.set_start[boxes.several[u]]
    last = 1 if one else boxes.set_start[boxes.several[u] + 1]
    for j in range(first, last):
        low = boxes.low[u] if one else boxes.set_low[j]
        high = boxes.high[u] if one else boxes.set_high[j]
        while i < past and boxes.set_high[i] < low:
            i += 1
        if i == past or boxes.set_low[i] > low or boxes.set_high[i] < high:
            return False
    return True
