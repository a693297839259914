"""Keeps each distinct conjunction once, and sorts conjunctions into the order in which an index finds them.

    1. Inside a conjunction the predicates stand by how much of their attribute they accept, the most selective first.
       That one is its *access predicate*: the one an index finds it by.
    2. Conjunctions stand by their access predicate: attribute, then class of width, then lowest cell. Those that are
       found together lie together, and equal ones are neighbours, so that one pass keeps each once.

Class of width k holds the predicates of 2**(k - 1) + 1 to 2**k cells; class 0 are the points. Inside a class, all
predicates that accept a cell have their lowest cell at most 2**k - 1 before it: they are one short run of the order, so
no postings are needed. An interval tree would cost more bytes than the conjunctions.

Equal conjunctions are brought together by a 64-bit hash and then compared for real, so that a collision costs a little
memory and never a wrong match.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from penstock.base.arrays import Bools, Float64s, Int32s, Int64s, UInt64s, offsets, runs
from penstock.base.jit import kernel
from penstock.matching.invariants import check_alike, check_cells, check_starts, check_within

_UNKNOWN_COVERAGE = (
    0.5  # how often a derived attribute or IS NULL holds isn't known: narrower ranges go first
)


@dataclass(frozen=True, slots=True)
class CellTests:
    """What the conjunctions ask, one entry per conjunction and attribute, with its ranges end to end.

    Entries are ascending by conjunction.
    """

    conjunction: Int64s
    attribute: Int64s
    ranges: Int64s
    low: Int32s
    high: Int32s

    def where(self, chosen: Bools) -> "CellTests":
        """Some of the tests."""
        ranges = np.repeat(chosen, self.ranges)
        return CellTests(
            self.conjunction[chosen],
            self.attribute[chosen],
            self.ranges[chosen],
            self.low[ranges],
            self.high[ranges],
        )


Fan = tuple[Int32s, Int32s]
"""Where the subscriptions of each conjunction (or chain) begin, and the subscriptions."""


@dataclass(frozen=True)
class Predicates:
    """Predicate p: the cells predicate_low[p] .. predicate_high[p] of an attribute, predicate_attribute[p].

    If that is negative, it accepts some of these cells only: those of the set s = ~predicate_attribute[p], which has
    the ranges set_start[s] .. set_start[s + 1] of cells of attribute set_attribute[s].
    """

    predicate_attribute: Int32s
    predicate_low: Int32s
    predicate_high: Int32s
    set_attribute: Int32s
    set_start: Int32s
    set_low: Int32s
    set_high: Int32s

    @cached_property
    def tested_attribute(self) -> Int32s:
        """The attribute of each predicate, also of those with several ranges."""
        attribute, sets = self.predicate_attribute, self.set_attribute
        if not len(sets):
            return attribute
        tested: Int32s = np.where(attribute < 0, sets[~attribute % len(sets)], attribute)
        return tested

    def take(self, chosen: Int64s) -> "Predicates":
        """Some of the predicates, and all the sets."""
        return Predicates(
            self.predicate_attribute[chosen],
            self.predicate_low[chosen],
            self.predicate_high[chosen],
            self.set_attribute,
            self.set_start,
            self.set_low,
            self.set_high,
        )

    def check_cells(self, last: Int64s, of: str = "") -> None:
        """A SnapshotError unless attributes, sets and cells exist. `last` is the last cell of each attribute."""
        count, sets, ranges = len(self.predicate_low), len(self.set_attribute), len(self.set_low)
        check_alike(count, predicate_high=self.predicate_high, attribute=self.predicate_attribute)
        check_within(-sets, len(last), predicate_attribute=self.predicate_attribute)
        check_within(0, len(last), set_attribute=self.set_attribute)
        check_starts(sets, ranges, set_start=self.set_start)
        check_alike(ranges, set_high=self.set_high)
        of_ranges = np.repeat(self.set_attribute, np.diff(self.set_start))
        check_cells(
            last[self.tested_attribute], self.predicate_low, self.predicate_high, f"predicates{of}"
        )
        check_cells(last[of_ranges], self.set_low, self.set_high, f"sets{of}")


@dataclass(frozen=True)
class Shared(Predicates):
    """Distinct conjunctions of predicates, and who has each.

    Conjunction c has the predicates conjunction_start[c] .. conjunction_start[c + 1], the most selective first, and
    belongs to the owners fan_subscription[fan_start[c]:fan_start[c + 1]].
    """

    conjunction_start: Int32s
    fan_start: Int32s
    fan_subscription: Int32s

    @property
    def fan(self) -> Fan:
        return self.fan_start, self.fan_subscription


def share(tests: CellTests, owner: Int64s, last_cells: Int64s, derived_from: int) -> Shared:
    """Order predicates and conjunctions, each distinct one once.

    `owner` is whose conjunction each one is; attributes from `derived_from` on are derived.
    """
    tests = without_tautologies(tests, last_cells)
    arranged = _arranged(tests, owner, last_cells, derived_from)
    lengths = arranged.kept[arranged.first]
    chosen = arranged.place[runs(arranged.start[arranged.first], lengths)]
    return Shared(
        **vars(arranged.predicates.take(chosen)),
        conjunction_start=offsets(lengths).astype(np.int32),
        fan_start=arranged.fan_start,
        fan_subscription=arranged.fan,
    )


def distinct(
    tests: CellTests, owner: Int64s, last_cells: Int64s, derived_from: int
) -> tuple[Int64s, Int32s, Int32s]:
    """The number of one of each run of equal conjunctions, and the run's owners: the n-th's from fan_start[n] on."""
    arranged = _arranged(tests, owner, last_cells, derived_from)
    return arranged.first, arranged.fan_start, arranged.fan


@dataclass(frozen=True, slots=True)
class _Arranged:
    """Conjunctions in order: `first` is one of each run of equal ones, and `fan` has the owners of the run.

    The tests of conjunction c in their order are place[start[c]:start[c] + kept[c]].
    """

    predicates: Predicates
    start: Int64s
    place: Int64s
    kept: Int64s
    first: Int64s
    fan_start: Int32s
    fan: Int32s


def _arranged(tests: CellTests, owner: Int64s, last_cells: Int64s, derived_from: int) -> _Arranged:
    predicates = with_sets(tests)
    attribute = predicates.predicate_attribute
    low, high = predicates.predicate_low, predicates.predicate_high
    coverage = _coverage(tests, last_cells, derived_from)
    start = offsets(np.bincount(tests.conjunction, minlength=len(owner))).astype(np.int64)
    place, kept, group, span, second, digest = _arrange(
        start, attribute, low, high, coverage, tests.attribute
    )
    order = np.lexsort((owner, digest, second, span, group))
    first, fan_start, fan = _distinct(
        order, owner, start, place, kept, attribute, low, high, digest
    )
    return _Arranged(predicates, start, place, kept, first, fan_start, fan)


def without_tautologies(tests: CellTests, last_cells: Int64s) -> CellTests:
    """Without the tests that every event passes."""
    first = offsets(tests.ranges)[:-1]
    always = (
        (tests.ranges == 1)
        & (tests.low[first] == 0)
        & (tests.high[first] == last_cells[tests.attribute])
    )
    return tests.where(~always) if always.any() else tests


def with_sets(tests: CellTests) -> Predicates:
    """Every test as a predicate, those of several ranges as sets, each distinct set once."""
    first = offsets(tests.ranges)
    attribute = tests.attribute.astype(np.int32)
    low = tests.low[first[:-1]] if len(attribute) else np.empty(0, np.int32)
    high = tests.high[first[1:] - 1] if len(attribute) else np.empty(0, np.int32)
    numbers: dict[tuple[int, bytes], int] = {}
    lows: list[Int32s] = []
    highs: list[Int32s] = []
    for test in np.flatnonzero(tests.ranges > 1):
        run = slice(first[test], first[test + 1])
        key = int(tests.attribute[test]), tests.low[run].tobytes() + tests.high[run].tobytes()
        if key not in numbers:
            numbers[key] = len(numbers)
            lows.append(tests.low[run])
            highs.append(tests.high[run])
        attribute[test] = ~numbers[key]
    nothing = np.empty(0, np.int32)
    return Predicates(
        attribute,
        low,
        high,
        set_attribute=np.array([key[0] for key in numbers], np.int32),
        set_start=offsets(np.array([len(x) for x in lows], np.int64)).astype(np.int32),
        set_low=np.concatenate([nothing, *lows]),
        set_high=np.concatenate([nothing, *highs]),
    )


def _coverage(tests: CellTests, last_cells: Int64s, derived_from: int) -> Float64s:
    """The share of its attribute's cells that each test accepts."""
    first = offsets(tests.ranges)
    sums = offsets((tests.high - tests.low + 1).astype(np.int64))
    covered = sums[first[1:]] - sums[first[:-1]]
    share_ = covered / (last_cells[tests.attribute] + 1)
    null = (covered == 1) & (tests.low[first[:-1]] == 0) if len(covered) else False
    unknown = (tests.attribute >= derived_from) | null
    found: Float64s = np.where(unknown, np.maximum(share_, _UNKNOWN_COVERAGE), share_)
    return found


@kernel
def width_class(low: int, high: int) -> int:
    """The class of width of a range: the number of binary digits of high - low."""
    width = high - low
    digits = 0
    while width:
        width >>= 1
        digits += 1
    return digits


@kernel
def _arrange(
    start: Int64s,
    attribute: Int32s,
    low: Int32s,
    high: Int32s,
    coverage: Float64s,
    real_attribute: Int64s,
) -> tuple[Int64s, Int64s, Int64s, Int64s, Int64s, UInt64s]:
    """Order the tests of each conjunction, and give the keys that order the conjunctions.

    `place` has the numbers of the tests in their new order; each conjunction keeps the first `kept` of its own.
    """
    count = len(start) - 1
    place = np.arange(len(attribute))
    kept = np.zeros(count, np.int64)
    group = np.full(count, -1, np.int64)
    span = np.zeros(count, np.int64)
    second = np.zeros(count, np.int64)
    digest = np.zeros(count, np.uint64)
    for c in range(count):
        first = start[c]
        past = first
        for i in range(first, start[c + 1]):
            test = place[i]
            j = past
            while j > first:
                other = place[j - 1]
                if coverage[other] < coverage[test] or (
                    coverage[other] == coverage[test]
                    and (
                        real_attribute[other] < real_attribute[test]
                        or (
                            real_attribute[other] == real_attribute[test]
                            and low[other] <= low[test]
                        )
                    )
                ):
                    break
                j -= 1
            # The same test of a derived attribute may come twice.
            other = place[j - 1] if j > first else -1
            if (
                other >= 0
                and attribute[other] == attribute[test]
                and low[other] == low[test]
                and high[other] == high[test]
            ):
                continue
            for k in range(past, j, -1):
                place[k] = place[k - 1]
            place[j] = test
            past += 1
        kept[c] = past - first
        if past > first:
            t = place[first]
            group[c] = real_attribute[t] << 6 | width_class(low[t], high[t])
            span[c] = np.int64(low[t]) << 32 | high[t]
        if past > first + 1:
            t = place[first + 1]
            second[c] = real_attribute[t] << 32 | low[t]
        mixed = np.uint64(0)
        for i in range(first, past):
            t = place[i]
            for word in (attribute[t], low[t], high[t]):
                mixed = _mix(mixed ^ np.uint64(word & 0xFFFFFFFF))
        digest[c] = mixed
    return place, kept, group, span, second, digest


@kernel
def _mix(x: np.uint64) -> np.uint64:
    """Scatter over 64 bits (the constants are splitmix64's)."""
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@kernel
def _distinct(
    order: Int64s,
    subscription: Int64s,
    start: Int64s,
    place: Int64s,
    kept: Int64s,
    attribute: Int32s,
    low: Int32s,
    high: Int32s,
    digest: UInt64s,
) -> tuple[Int64s, Int32s, Int32s]:
    """The first of each run of equal conjunctions, and the subscriptions of the run, each once."""
    first = np.empty(len(order), np.int64)
    fan_start = np.empty(len(order) + 1, np.int32)
    fan = np.empty(len(order), np.int32)
    found = total = 0
    for c in order:
        same = False
        if found:
            other = first[found - 1]
            same = digest[other] == digest[c] and kept[other] == kept[c]
            i = 0
            while same and i < kept[c]:
                s, t = place[start[other] + i], place[start[c] + i]
                same = attribute[s] == attribute[t] and low[s] == low[t] and high[s] == high[t]
                i += 1
        if not same:
            first[found] = c
            fan_start[found] = total
            found += 1
        if not same or fan[total - 1] != subscription[c]:
            fan[total] = subscription[c]
            total += 1
    fan_start[found] = total
    return first[:found].copy(), fan_start[: found + 1].copy(), fan[:total].copy()
