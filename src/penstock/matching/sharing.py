"""Each distinct predicate once, each distinct conjunction once.

Sorting finds equal predicates; equal conjunctions are found by a 64-bit hash of their predicate numbers and then
compared for real, so that a collision costs a little memory and never a wrong match.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from penstock.matching.kernels import Int32s, Int64s

UInt64s = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class CellTests:
    """What the conjunctions ask, one entry per conjunction and attribute, with its ranges end to end."""

    conjunction: Int64s
    attribute: Int64s
    ranges: Int64s
    low: Int32s
    high: Int32s


@dataclass(frozen=True, slots=True)
class Shared:
    """The arrays of the same names in `plan.Plan`."""

    predicate_attribute: Int32s
    predicate_start: Int64s
    range_low: Int32s
    range_high: Int32s
    conjunction_start: Int64s
    conjunction_predicate: Int32s
    fan_start: Int64s
    fan_subscription: Int32s


def share(tests: CellTests, subscription: Int64s, last_cells: Int64s) -> Shared:
    """Number the distinct predicates and conjunctions. `subscription` is the owner of each conjunction."""
    tests = _without_tautologies(tests, last_cells)
    predicate, predicate_arrays = _predicates(tests)
    start, member = _rows(tests.conjunction, predicate, len(subscription))
    representative = _representatives(start, member)
    distinct, number = np.unique(representative, return_inverse=True)
    lengths = (start[1:] - start[:-1])[distinct]
    fan_start, fan = _rows(number.astype(np.int64), subscription, len(distinct))
    return Shared(
        *predicate_arrays,
        conjunction_start=offsets(lengths),
        conjunction_predicate=member[_ranges(start[distinct], lengths)].astype(np.int32),
        fan_start=fan_start,
        fan_subscription=fan.astype(np.int32),
    )


def offsets(lengths: Int64s) -> Int64s:
    """Where each of several runs, laid end to end, begins; one more for the end."""
    result = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=result[1:])
    return result


def _ranges(starts: Int64s, lengths: Int64s) -> Int64s:
    """The numbers start .. start + length of every run, end to end."""
    total = int(lengths.sum())
    shift = np.repeat(starts - offsets(lengths)[:-1], lengths)
    return np.arange(total, dtype=np.int64) + shift


def _without_tautologies(tests: CellTests, last_cells: Int64s) -> CellTests:
    first = offsets(tests.ranges)[:-1]
    always = (
        (tests.ranges == 1)
        & (tests.low[first] == 0)
        & (tests.high[first] == last_cells[tests.attribute])
    )
    if not always.any():
        return tests
    kept = ~always
    kept_ranges = np.repeat(kept, tests.ranges)
    return CellTests(
        tests.conjunction[kept],
        tests.attribute[kept],
        tests.ranges[kept],
        tests.low[kept_ranges],
        tests.high[kept_ranges],
    )


def _predicates(tests: CellTests) -> tuple[Int64s, tuple[Int32s, Int64s, Int32s, Int32s]]:
    """The predicate of each test, and the predicates: those of one range first, then the others."""
    first = offsets(tests.ranges)[:-1]
    single = np.flatnonzero(tests.ranges == 1)
    low, high = tests.low[first[single]], tests.high[first[single]]
    span = low.astype(np.int64) << 32 | high
    attribute = tests.attribute[single]
    order = np.lexsort((span, attribute))
    new = np.ones(len(order), np.bool_)
    new[1:] = (np.diff(span[order]) != 0) | (np.diff(attribute[order]) != 0)
    predicate = np.empty(len(tests.attribute), np.int64)
    predicate[single[order]] = np.cumsum(new) - 1
    chosen = order[new]

    several: dict[tuple[int, bytes], int] = {}
    lows, highs = [low[chosen]], [high[chosen]]
    for test in np.flatnonzero(tests.ranges > 1):
        run = slice(first[test], first[test] + tests.ranges[test])
        key = (
            int(tests.attribute[test]),
            tests.low[run].tobytes() + tests.high[run].tobytes(),
        )
        if key not in several:
            several[key] = len(chosen) + len(several)
            lows.append(tests.low[run])
            highs.append(tests.high[run])
        predicate[test] = several[key]
    sizes = np.array([1] * len(chosen) + [len(key[1]) // 8 for key in several], np.int64)
    attributes = np.array([key[0] for key in several], np.int32)
    return predicate, (
        np.concatenate([attribute[chosen].astype(np.int32), attributes]),
        offsets(sizes),
        np.concatenate(lows),
        np.concatenate(highs),
    )


def _rows(row: Int64s, value: Int64s, count: int) -> tuple[Int64s, Int64s]:
    """Values by row, ascending and without repetition inside a row: where each row begins, and the values."""
    order = np.lexsort((value, row))
    row, value = row[order], value[order]
    new = np.ones(len(row), np.bool_)
    new[1:] = (np.diff(row) != 0) | (np.diff(value) != 0)
    row, value = row[new], value[new]
    return offsets(np.bincount(row, minlength=count).astype(np.int64)), value


def _representatives(start: Int64s, member: Int64s) -> Int64s:
    """For every conjunction the first that is equal to it."""
    lengths = np.diff(start)
    count = len(lengths)
    with np.errstate(over="ignore"):
        sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(_mixed(member), dtype=np.uint64)])
        key = sums[start[1:]] - sums[start[:-1]] + _mixed(lengths)
    _, first, inverse = np.unique(key, return_index=True, return_inverse=True)
    candidate = first[inverse]
    equal = lengths[candidate] == lengths
    mine = _ranges(start[:-1], lengths)
    theirs = _ranges(start[candidate], np.where(equal, lengths, 0))
    owner = np.repeat(np.arange(count), lengths)
    comparable = equal[owner]
    different = member[mine[comparable]] != member[theirs]
    equal[owner[comparable][different]] = False
    return np.where(equal, candidate, np.arange(count))


def _mixed(numbers: Int64s) -> UInt64s:
    """Scatter small numbers over 64 bits (the finaliser of splitmix64)."""
    with np.errstate(over="ignore"):
        x = numbers.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))
