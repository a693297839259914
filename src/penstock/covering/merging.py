"""Fewer boxes in place of many: perfect and imperfect mergers (sections 5.1 to 5.4 of the paper).

Boxes that ask the same of all attributes but one differ in ranges of numbers only, and merge into the hull of these:

    symbol = 'A' AND price BETWEEN 10 AND 20  ┐
    symbol = 'A' AND price BETWEEN 21 AND 30  ┴▶  symbol = 'A' AND price BETWEEN 10 AND 30     perfect: no gap
    symbol = 'A' AND price BETWEEN 35 AND 40  ──▶  … BETWEEN 10 AND 40                          imperfect: 31 to 34

The rules of the paper's Table 1 are cases of this; `<` with `>` gives IS NOT NULL, and with IS NULL no test at all.

The paper finds such boxes by their place in a diagram: those whose first test differs, so that the order of attributes
matters. Here it is any one attribute: each box has a hash of all its tests, from which that of one test can be taken,
and those with the same rest stand together in a sort. One *sweep* does this for each attribute in turn; a merger may
merge again, along another attribute, until nothing does. Perfect merging comes first.

Where ranges leave gaps, the gap with the least chance is closed first, as long as the merger's *loss*, the chance of an
announced event that is in none of its parts, stays within the limit. A loss is the sum of its gaps and of its parts'
losses: no less than the paper's IMT times the mass of what is announced (some of a gap may be in another part), and
exactly that for mergers along one attribute. Within a limit of 0, only gaps in which no announced event can lie are
closed: whether a chance is 0 says nothing of that.

Tests of several ranges stay as they are: boxes merge along other attributes. So do regions of several boxes.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from penstock.arrays import Bools, Float64s, Int64s, UInt64s
from penstock.covering.boxes import HIGHEST, NULL, Boxes
from penstock.covering.chances import Chances, is_possible, mass
from penstock.jit import kernel


@dataclass(frozen=True, eq=False, slots=True)
class Merged:
    """What became of some boxes: merger_of[i] is the place of the box that box i is merged into, itself or another.

    `boxes` are the same boxes with their new ranges; a test that accepts every number has the attribute -1 now.
    """

    boxes: Boxes
    merger_of: Int64s
    loss: Float64s
    is_perfect: Bools

    def members(self) -> dict[int, list[int]]:
        """The places of the mergers, each with those of its parts."""
        order = np.argsort(self.merger_of, kind="stable")
        merger = self.merger_of[order]
        first = np.flatnonzero(np.diff(merger, prepend=-1))
        size = np.diff(first, append=len(merger))
        return {
            int(merger[f]): order[f : f + n].tolist()
            for f, n in zip(first.tolist(), size.tolist(), strict=True)
            if n > 1
        }


def merge(
    boxes: Boxes,
    chosen: Int64s,
    chances: Chances,
    limit: float,
    loss: Float64s,
    is_perfect: Bools,
    free: Bools,
) -> Merged:
    """Merge some boxes of one region each, which may be mergers with losses.

    `free` says of which attributes a box that accepts every number asks nothing: of all but the hidden ones.
    """
    table = _Table(boxes, chosen, loss, is_perfect, free)
    for allowed in (0.0, limit) if limit > 0 else (0.0,):
        quiet, attribute = 0, 0
        while quiet < len(free):
            joined = table.sweep(attribute, chances, allowed)
            quiet = 0 if joined else quiet + 1
            attribute = (attribute + 1) % len(free)
    return Merged(table.boxes, table.roots(), table.loss, table.is_perfect)


class _Table:
    """Boxes that are merged in place. Those that are part of another have that one's place in `into`."""

    def __init__(
        self, boxes: Boxes, chosen: Int64s, loss: Float64s, is_perfect: Bools, free: Bools
    ) -> None:
        sizes = boxes.box_start[chosen + 1] - boxes.box_start[chosen]
        start = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        tests = np.arange(start[-1]) + np.repeat(boxes.box_start[chosen] - start[:-1], sizes)
        self.boxes = boxes._replace(
            box_start=start,
            attribute=boxes.attribute[tests],
            low=boxes.low[tests],
            high=boxes.high[tests],
            several=boxes.several[tests],
        )
        self.loss, self.is_perfect = loss.copy(), is_perfect.copy()
        self.into = np.arange(len(chosen))
        self._free = free
        self._hash = np.empty(len(tests), np.uint64)
        _hash_tests(self.boxes, self._hash)
        self._whole = np.add.reduceat(np.append(self._hash, np.uint64(0)), start[:-1])
        self._whole[sizes == 0] = 0

    def sweep(self, attribute: int, chances: Chances, limit: float) -> bool:
        """Merge along one attribute; whether anything was."""
        tests, owners = _tests_of(self.boxes, self.into, attribute)
        if len(tests) < 2:
            return False
        rest = self._whole[owners] - self._hash[tests]
        order = np.lexsort((self.boxes.low[tests], rest))
        work = _Sweep(
            tests[order], owners[order], rest[order], self.into, self.loss, self.is_perfect
        )
        joined = _join(self.boxes, chances, work, limit)
        if joined:
            _hash_again(self.boxes, work, self._free[attribute], self._hash, self._whole)
        return bool(joined)

    def roots(self) -> Int64s:
        into = self.into
        while not np.array_equal(into[into], into):
            into = into[into]
        return into


# --- kernels --------------------------------------------------------------------------------------


class _Sweep(NamedTuple):
    """The tests of one attribute, those of boxes with the same rest together and ascending by where they begin."""

    tests: Int64s
    owners: Int64s
    rest: UInt64s
    into: Int64s
    loss: Float64s
    is_perfect: Bools


@kernel
def _hash_tests(boxes: Boxes, hashes: UInt64s) -> None:
    for t in range(len(hashes)):
        hashes[t] = _hash_test(boxes, t)


@kernel
def _hash_again(boxes: Boxes, work: _Sweep, is_free: bool, hashes: UInt64s, whole: UInt64s) -> None:
    """For the tests of a sweep, some of which have other ranges now; those that accept every number go."""
    for place in range(len(work.tests)):
        t = work.tests[place]
        if is_free and boxes.low[t] == NULL and boxes.high[t] == HIGHEST:
            boxes.attribute[t] = -1
        found = _hash_test(boxes, t)
        whole[work.owners[place]] += found - hashes[t]
        hashes[t] = found


@kernel
def _hash_test(boxes: Boxes, t: int) -> np.uint64:
    """Of a test that asks nothing it is 0."""
    if boxes.attribute[t] < 0:
        return np.uint64(0)
    found = _mix(np.uint64(boxes.attribute[t]) + np.uint64(1), np.uint64(boxes.low[t]))
    found = _mix(found, np.uint64(boxes.high[t]))
    s = boxes.several[t]
    if s >= 0:
        for i in range(boxes.set_start[s], boxes.set_start[s + 1]):
            found = _mix(found, np.uint64(boxes.set_low[i]))
            found = _mix(found, np.uint64(boxes.set_high[i]))
    return found


@kernel
def _mix(hashed: np.uint64, number: np.uint64) -> np.uint64:
    """A hash of both, by multiplications and shifts that lose nothing."""
    mixed = (hashed ^ number) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)
    return mixed ^ (mixed >> np.uint64(29))


@kernel
def _tests_of(boxes: Boxes, into: Int64s, attribute: int) -> tuple[Int64s, Int64s]:
    """The tests of one range of an attribute, of boxes that are no part of another, with their boxes."""
    tests, owners = np.empty(len(into), np.int64), np.empty(len(into), np.int64)
    count = 0
    for b in range(len(into)):
        if into[b] != b:
            continue
        for t in range(boxes.box_start[b], boxes.box_start[b + 1]):
            if boxes.attribute[t] == attribute and boxes.several[t] < 0:
                tests[count], owners[count] = t, b
                count += 1
    return tests[:count], owners[:count]


@kernel
def _join(boxes: Boxes, chances: Chances, work: _Sweep, limit: float) -> int:
    """Merge what can be; how many boxes are part of another now."""
    joined = first = 0
    while first < len(work.tests):
        past = first + 1
        while past < len(work.tests) and work.rest[past] == work.rest[first]:
            past += 1
        if past > first + 1:
            runs, others = _close_runs(boxes, work, first, past, limit)
            left = _close_gaps(boxes, chances, work, runs, limit)
            joined += past - first - others - left
        first = past
    return joined


@kernel
def _close_runs(
    boxes: Boxes, work: _Sweep, first: int, past: int, limit: float
) -> tuple[Int64s, int]:
    """Merge ranges that overlap or touch; the places of what is left, ascending. And how many are none of these."""
    runs = np.empty(past - first, np.int64)
    count = others = 0
    for place in range(first, past):
        if place > first and not _same_rest(boxes, work, first, place):
            others += 1  # its hash is the same by chance
            continue
        t = work.tests[place]
        if count:
            head = runs[count - 1]
            u = work.tests[head]
            loss = work.loss[work.owners[head]] + work.loss[work.owners[place]]
            near = boxes.high[u] == HIGHEST or boxes.low[t] <= boxes.high[u] + 1
            if near and loss <= limit:
                _absorb(boxes, work, head, place, loss)
                continue
        runs[count] = place
        count += 1
    return runs[:count], others


@kernel
def _absorb(boxes: Boxes, work: _Sweep, head: int, place: int, loss: float) -> None:
    """Merge a box into one that begins before it, with a loss."""
    b, c = work.owners[head], work.owners[place]
    t, u = work.tests[head], work.tests[place]
    boxes.high[t] = max(boxes.high[t], boxes.high[u])
    work.into[c] = b
    work.loss[b] = loss
    work.is_perfect[b] &= work.is_perfect[c]


@kernel
def _close_gaps(boxes: Boxes, chances: Chances, work: _Sweep, runs: Int64s, limit: float) -> int:
    """Merge neighbours with a gap between them, the least likely gap first; how many are left."""
    count = left = len(runs) - 1
    cost, is_gap = np.zeros(count), np.zeros(count, np.bool_)
    for i in range(count):
        t, u = work.tests[runs[i]], work.tests[runs[i + 1]]
        b, low, high = work.owners[runs[i]], boxes.high[t] + 1, boxes.low[u] - 1
        is_gap[i] = low <= high
        if is_possible(chances, boxes, b, t, low, high):
            cost[i] = mass(chances, boxes, b, t, low, high) if limit > 0 else np.inf
    head = np.arange(count + 1)  # of each run, a run before it with which it is merged, or itself
    for i in np.argsort(cost, kind="mergesort"):
        before = i
        while head[before] != before:
            before = head[before]
        behind = i + 1  # a head: only across this gap could it have been merged with one before it
        one, other = work.owners[runs[before]], work.owners[runs[behind]]
        loss = work.loss[one] + work.loss[other] + cost[i]
        if loss <= limit:
            head[behind] = before
            _absorb(boxes, work, runs[before], runs[behind], loss)
            work.is_perfect[one] &= not is_gap[i]
            left -= 1
    return left + 1


@kernel
def _same_rest(boxes: Boxes, work: _Sweep, one: int, other: int) -> bool:
    """Whether two boxes have the same tests but for those of the sweep."""
    t, past = boxes.box_start[work.owners[one]], boxes.box_start[work.owners[one] + 1]
    u, end = boxes.box_start[work.owners[other]], boxes.box_start[work.owners[other] + 1]
    while True:
        while t < past and (boxes.attribute[t] < 0 or t == work.tests[one]):
            t += 1
        while u < end and (boxes.attribute[u] < 0 or u == work.tests[other]):
            u += 1
        if t == past or u == end:
            return bool(t == past and u == end)
        if boxes.attribute[t] != boxes.attribute[u] or not _same_numbers(boxes, t, u):
            return False
        t += 1
        u += 1


@kernel
def _same_numbers(boxes: Boxes, t: int, u: int) -> bool:
    if boxes.low[t] != boxes.low[u] or boxes.high[t] != boxes.high[u]:
        return False
    one, other = boxes.several[t], boxes.several[u]
    if one < 0 or other < 0:
        return bool(one < 0 and other < 0)
    i, j = boxes.set_start[one], boxes.set_start[other]
    size = boxes.set_start[one + 1] - i
    if boxes.set_start[other + 1] - j != size:
        return False
    for k in range(size):
        if boxes.set_low[i + k] != boxes.set_low[j + k]:
            return False
        if boxes.set_high[i + k] != boxes.set_high[j + k]:
            return False
    return True
