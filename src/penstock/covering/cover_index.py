"""Finds which of many regions cover a given one, and which it covers, without looking at most of them.

For every test there is an *entry*. The most selective test of a box is its access test, as in `matching.sharing`, and
the entries of access tests come first; inside each half they stand by attribute, class of width, and low.

    attribute 3, class 4: 8 to 15 numbers more than one        low   3  4  4  9 11 12 15 17 20 25
    boxes that include one with the range 16 .. 18                        └──────────┘             18 - 15 <= low <= 16
    boxes inside one with the range 16 .. 24                                             └──┘      16 <= low <= 24

A box can cover another only if its access test includes the other's test of that attribute. So the search for covers
looks at access entries alone: for each test of the given box, at one run of each group that is wide enough. A box can
lie in the given one only if it has a test inside *each* of the given one's tests. So the search for covered boxes looks
at the runs of one such test, among all entries; it chooses the test with the fewest entries in its runs. An entry that
passes is compared with the box by its bits, then test by test.

This does the work of the two diagrams of mbd §4.2 and §4.3 without diagrams: the predicates that a new subscription's
predicate implies, or that imply it, are a run in sorted order, which is found when it is needed. As in mbd fig. 7, the
search ends once a cover is found, and once a covered region is found, it looks for covers no longer. In a frontier a
region can't have both.

Regions may have several boxes. A cover is found because it includes the first box of the given region; a covered region
is found by its own first box. Then the two regions are compared as a whole.
"""

from typing import NamedTuple

import numpy as np

from penstock.base.arrays import Bools, Int32s, Int64s, UInt64s, offsets
from penstock.base.jit import kernel
from penstock.covering.boxes import (
    HIGHEST,
    NULL,
    Boxes,
    box_includes,
    items_of,
    region_covers,
    region_includes,
)

# Columns of the table of groups. DIGITS is the class of width: how many binary digits the width has.
FIRST, PAST, DIGITS = range(3)
_CLASSES = 128  # more than there can be classes of width
_SAMPLE = 256  # constants of an attribute by which the selectivity of its tests is estimated


class CoverIndex(NamedTuple):
    """Entries are low, high and box. The first len(mask) are those of access tests; `mask` has the bits of their boxes.

    The groups of attribute a are group_start[a] .. group_start[a + 1] for access tests, and for the others the same
    with a + attributes, where attributes is half of len(group_start) - 1. `untested` are the boxes without tests.
    """

    low: Int64s
    high: Int64s
    box: Int32s
    mask: UInt64s
    groups: Int64s
    group_start: Int64s
    untested: Int32s


def build_index(boxes: Boxes, regions: Int64s) -> CoverIndex:
    """An index of some regions."""
    _, chosen = items_of(boxes.region_start, regions)
    lengths, tests = items_of(boxes.box_start, chosen)
    attribute = boxes.attribute[tests]
    low, high = boxes.low[tests], boxes.high[tests]
    attributes = int(attribute.max(initial=-1)) + 1
    sample = _sample(attribute, low, attributes)
    group = _groups(offsets(lengths), attribute, low, high, sample)
    order = np.lexsort((low, group))
    box = np.repeat(chosen, lengths)[order].astype(np.int32)
    group = group[order]
    access = int(np.searchsorted(group, attributes * _CLASSES))
    first = np.flatnonzero(np.diff(group, prepend=-1))
    digits = group[first] % _CLASSES
    return CoverIndex(
        low=low[order],
        high=high[order],
        box=box,
        mask=boxes.box_mask[box[:access]],
        groups=np.stack([first, np.append(first, len(group))[1:], digits], axis=1),
        group_start=np.searchsorted(group[first] // _CLASSES, np.arange(2 * attributes + 1)),
        untested=chosen[lengths == 0].astype(np.int32),
    )


class _Sample(NamedTuple):
    """Attribute a has tests[a] tests; number[start[a]:start[a + 1]] are the lows of some of them, ascending."""

    tests: Int64s
    start: Int64s
    number: Int64s


def _sample(attribute: Int32s, low: Int64s, attributes: int) -> _Sample:
    counts = np.bincount(attribute, minlength=attributes)
    by_attribute = np.split(np.argsort(attribute, kind="stable"), np.cumsum(counts))[:attributes]
    numbers = [np.sort(low[own[:: max(1, len(own) // _SAMPLE)]]) for own in by_attribute]
    start = offsets([len(some) for some in numbers])
    return _Sample(counts, start, np.concatenate([np.empty(0, np.int64), *numbers]))


@kernel
def _groups(start: Int64s, attribute: Int32s, low: Int64s, high: Int64s, sample: _Sample) -> Int64s:
    """The group of each test: its attribute, plus the number of attributes unless it is an access test; class of width.

    The most selective test of a box is the one inside which the fewest tests of its attribute begin, by the sample.
    """
    found = np.empty(len(attribute), np.int64)
    others = len(sample.tests)
    for b in range(len(start) - 1):
        best, fewest = -1, np.inf
        for t in range(start[b], start[b + 1]):
            a = attribute[t]
            found[t] = (a + others) * _CLASSES + _width_digits(low[t], high[t])
            first, past = sample.start[a], sample.start[a + 1]
            begin = _first_from(sample.number, first, past, low[t])
            inside = _first_above(sample.number, first, past, high[t]) - begin
            expected = (inside + 0.5) / (past - first) * sample.tests[a]
            if expected < fewest:
                best, fewest = t, expected
        if best >= 0:
            found[best] -= others * _CLASSES
    return found


@kernel
def _width_digits(low: int, high: int) -> int:
    """The number of binary digits of high - low, which may take 64."""
    width = np.uint64(high) - np.uint64(low)
    digits = 0
    while width:
        width >>= np.uint64(1)
        digits += 1
    return digits


@kernel
def _reach(high: int, digits: int) -> int:
    """The lowest low of a range of so many digits of width that ends at `high` or after it."""
    if digits >= 64:
        return NULL
    width = (np.uint64(1) << np.uint64(digits)) - np.uint64(1)
    if np.uint64(high) - np.uint64(NULL) <= width:
        return NULL
    return int(np.int64(np.uint64(high) - width))


@kernel
def _first_from(numbers: Int64s, first: int, past: int, number: int) -> int:
    """The first place from `first` on with a number or a higher one; `past` if there is none."""
    while first < past:
        middle = (first + past) >> 1
        if numbers[middle] < number:
            first = middle + 1
        else:
            past = middle
    return first


@kernel
def _first_above(numbers: Int64s, first: int, past: int, number: int) -> int:
    if number == HIGHEST:
        return past
    return _first_from(numbers, first, past, number + 1)


# --- asking ---------------------------------------------------------------------------------------


@kernel
def relate(
    boxes: Boxes, index: CoverIndex, live: Bools, r: int, looking: bool
) -> tuple[int, Int64s]:
    """One live region that covers r, or -1; and if there is none, the live ones that r covers.

    Covers are looked for only if `looking`. A region may be found as often as r has boxes.
    """
    if looking:
        cover = first_cover(boxes, index, live, r)
        if cover >= 0:
            return cover, np.empty(0, np.int64)
    return -1, find_covered(boxes, index, live, r)


@kernel
def first_cover(boxes: Boxes, index: CoverIndex, live: Bools, r: int) -> int:
    """Some live region other than r that covers r, or -1. Of equal ones only earlier ones cover later ones."""
    q = boxes.region_start[r]
    if q == boxes.region_start[r + 1]:
        return -1
    for b in index.untested:
        s = boxes.box_region[b]
        if live[s] and region_covers(boxes, s, r):
            return int(s)
    attributes = (len(index.group_start) - 1) >> 1
    foreign = ~boxes.box_mask[q]
    for t in range(boxes.box_start[q], boxes.box_start[q + 1]):
        a, low, high = boxes.attribute[t], boxes.low[t], boxes.high[t]
        if a >= attributes:
            break
        digits = _width_digits(low, high)
        for g in range(index.group_start[a], index.group_start[a + 1]):
            if index.groups[g, DIGITS] < digits:
                continue
            past = index.groups[g, PAST]
            reach = _reach(high, index.groups[g, DIGITS])
            i = _first_from(index.low, index.groups[g, FIRST], past, reach)
            while i < past and index.low[i] <= low:
                if index.high[i] >= high and not index.mask[i] & foreign:
                    b = index.box[i]
                    s = boxes.box_region[b]
                    if live[s] and box_includes(boxes, b, q) and region_covers(boxes, s, r):
                        return int(s)
                i += 1
    return -1


@kernel
def find_covered(boxes: Boxes, index: CoverIndex, live: Bools, r: int) -> Int64s:
    """The live regions other than r that r covers. One may be found several times."""
    found = np.empty(16, np.int64)
    count = 0
    attributes = (len(index.group_start) - 1) >> 1
    for q in range(boxes.region_start[r], boxes.region_start[r + 1]):
        if boxes.box_start[q] == boxes.box_start[q + 1]:
            return _everything(boxes, index, live, r)
        t = _narrowest(boxes, index, q)
        if t < 0:
            continue
        low, high = boxes.low[t], boxes.high[t]
        digits = _width_digits(low, high)
        for half in range(2):
            a = boxes.attribute[t] + half * attributes
            for g in range(index.group_start[a], index.group_start[a + 1]):
                if index.groups[g, DIGITS] > digits:
                    break
                past = index.groups[g, PAST]
                i = _first_from(index.low, index.groups[g, FIRST], past, low)
                while i < past and index.low[i] <= high:
                    if index.high[i] <= high:
                        b = index.box[i]
                        s = boxes.box_region[b]
                        if (
                            not boxes.box_mask[q] & ~boxes.box_mask[b]
                            and live[s]
                            and s != r
                            and boxes.region_start[s] == b
                            and box_includes(boxes, q, b)
                            and region_includes(boxes, r, s)
                        ):
                            if count == len(found):
                                found = np.concatenate((found, np.empty(count, np.int64)))
                            found[count] = s
                            count += 1
                    i += 1
    return found[:count]


@kernel
def _narrowest(boxes: Boxes, index: CoverIndex, q: int) -> int:
    """The test of a box with the fewest entries that may lie inside it; -1 if one of the tests has no such entry."""
    attributes = (len(index.group_start) - 1) >> 1
    best, fewest = -1, HIGHEST
    for t in range(boxes.box_start[q], boxes.box_start[q + 1]):
        if boxes.attribute[t] >= attributes:
            return -1
        digits = _width_digits(boxes.low[t], boxes.high[t])
        entries = 0
        for half in range(2):
            a = boxes.attribute[t] + half * attributes
            for g in range(index.group_start[a], index.group_start[a + 1]):
                if index.groups[g, DIGITS] > digits:
                    break
                past = index.groups[g, PAST]
                i = _first_from(index.low, index.groups[g, FIRST], past, boxes.low[t])
                entries += _first_above(index.low, i, past, boxes.high[t]) - i
        if entries == 0:
            return -1
        if entries < fewest:
            best, fewest = t, entries
    return best


@kernel
def _everything(boxes: Boxes, index: CoverIndex, live: Bools, r: int) -> Int64s:
    """All live regions of the index other than r."""
    count = len(index.mask)
    found = np.empty(count + len(index.untested), np.int64)
    used = 0
    for i in range(len(found)):
        b = index.box[i] if i < count else index.untested[i - count]
        s = boxes.box_region[b]
        if live[s] and s != r and boxes.region_start[s] == b:
            found[used] = s
            used += 1
    return found[:used]


@kernel
def relate_each(
    boxes: Boxes, regions: Int64s, live: Bools, r: int, looking: bool
) -> tuple[int, Int64s]:
    """The same as `relate`, for a few regions that are in no index: compared one by one."""
    found = np.empty(len(regions), np.int64)
    count = 0
    q = boxes.region_start[r]
    one = boxes.region_start[r + 1] == q + 1
    mask = boxes.box_mask[q]
    for s in regions:
        if not live[s] or s == r:
            continue
        # The bits of their boxes rule out most regions, before a call that costs more than all else here.
        b = boxes.region_start[s]
        only = boxes.region_start[s + 1] == b + 1
        if looking and not (only and boxes.box_mask[b] & ~mask) and region_covers(boxes, s, r):
            return int(s), found[:0]
        if not (one and mask & ~boxes.box_mask[b]) and region_includes(boxes, r, s):
            found[count] = s
            count += 1
            looking = False
    return -1, found[:count]
