"""The index of access predicates: which conjunctions can hold, given one cell of an event?

Every conjunction is found by its most selective predicate alone, its access predicate, and then verified against the
others. An *entry* is a range of cells with the conjunction that it leads to (of a set, one entry per range). Entries
stand by attribute, class of width and lowest cell, as `sharing` has it, in *groups* of one attribute and class:

    group, ranges of 5 to 8 cells      low   3  4  4  9 11 12 15 17 18 20 …
    an event in cell 16                            └────────────┘        16 - 7 <= low <= 16

All entries of a group that accept a cell lie in one run of it, which begins at most the group's width before the cell;
at least half of a run's width is accepted by any of them. A small table says where a run begins. So the index costs
twelve bytes per entry and the table four, and no range is posted twice, as it would be in a segment tree.

Where many conjunctions have the same point as access predicate (five values, a million subscriptions), one cell leads
to a long run. Such a run is ordered by the second predicate next, and is cut into *parts* of one attribute, ascending
by lowest cell. Of a part, an event looks only at the entries up to its cell; if all are points, only at those in its
cell.
"""

from typing import NamedTuple

import numpy as np

from penstock.base.arrays import AnyArray, Int32s, Int64s, offsets
from penstock.base.jit import kernel
from penstock.matching.kernels import grow_array, in_ranges
from penstock.matching.plan import Plan
from penstock.matching.sharing import width_class

_LONG = 32  # from here on a run of one point is parted
_NO_SECOND = np.int32(-1 - 2**30)


class PlanConjunctions(NamedTuple):
    """The plan's conjunctions, as kernels take them."""

    start: Int32s
    attribute: Int32s
    low: Int32s
    high: Int32s
    set_attribute: Int32s
    set_start: Int32s
    set_low: Int32s
    set_high: Int32s

    @staticmethod
    def of(plan: Plan) -> "PlanConjunctions":
        return PlanConjunctions(
            plan.conjunction_start,
            plan.predicate_attribute,
            plan.predicate_low,
            plan.predicate_high,
            plan.set_attribute,
            plan.set_start,
            plan.set_low,
            plan.set_high,
        )


class Entries(NamedTuple):
    """Entry i: cells low[i] .. high[i] lead to conjunction[i]. Group g: entries group_start[g] .. group_start[g + 1].

    The entries of group g with low >= x begin between table[group_table[g] + (x >> group_shift[g])] and the next.
    """

    low: Int32s
    high: Int32s
    conjunction: Int32s
    group_attribute: Int32s
    group_width: Int32s  # the largest high - low
    group_start: Int32s
    group_table: Int32s
    group_shift: Int32s
    table: Int32s
    group_parts: Int32s  # where in run_part the runs of a group of points are, by cell; -1: its runs are short
    run_part: Int32s  # the first part of the run at a cell; those of the next cell follow
    part_start: Int32s  # its first entry
    second_low: Int32s  # of each entry's second predicate, if there are parts at all
    part_attribute: Int32s  # of the second predicate, ~ if not all are points; or _NO_SECOND


def build_entries(plan: Plan) -> dict[str, AnyArray]:
    """The arrays of `Entries` by name."""
    conjunctions = PlanConjunctions.of(plan)
    low, high, conjunction, key = _entries(conjunctions)
    if len(plan.set_attribute):
        order = np.lexsort((low, key))
        low, high, conjunction, key = low[order], high[order], conjunction[order], key[order]
    first = np.flatnonzero(np.diff(key, prepend=-1))
    start = np.append(first, len(key)).astype(np.int32)
    attribute, digits = key[first] >> 6, key[first] & 63
    # A table has at most one place per entry, but for small groups.
    sizes = np.maximum(np.diff(start), 16).astype(np.int64)
    cells = plan.last_cells[attribute] + 2 if len(attribute) else np.empty(0, np.int64)
    shift = np.maximum(0, np.ceil(np.log2(np.maximum(1, cells / sizes)))).astype(np.int64)
    places = offsets((cells >> shift) + 2)
    parts = _parts(low, conjunction, start, digits, cells, conjunctions)
    return {
        "low": low,
        "high": high,
        "conjunction": conjunction,
        "group_attribute": attribute.astype(np.int32),
        "group_width": ((1 << digits) - 1).astype(np.int32),
        "group_start": start,
        "group_table": places[:-1].astype(np.int32),
        "group_shift": shift.astype(np.int32),
        "table": _tables(low, start, places, shift),
        **dict(zip(Entries._fields[-len(parts) :], parts, strict=True)),
    }


@kernel
def _entries(conjunctions: PlanConjunctions) -> tuple[Int32s, Int32s, Int32s, Int64s]:
    """Lowest and highest cell, conjunction and group of each entry."""
    start, attribute, low, high, set_attribute, set_start, set_low, set_high = conjunctions
    total = 0
    for c in range(len(start) - 1):
        if start[c] < start[c + 1]:
            a = attribute[start[c]]
            total += 1 if a >= 0 else set_start[~a + 1] - set_start[~a]
    entry_low, entry_high = np.empty(total, np.int32), np.empty(total, np.int32)
    conjunction, key = np.empty(total, np.int32), np.empty(total, np.int64)
    i = 0
    for c in range(len(start) - 1):
        if start[c] == start[c + 1]:
            continue
        p = start[c]
        a = attribute[p]
        if a >= 0:
            entry_low[i], entry_high[i], conjunction[i] = low[p], high[p], c
            key[i] = np.int64(a) << 6 | width_class(low[p], high[p])
            i += 1
            continue
        for r in range(set_start[~a], set_start[~a + 1]):
            entry_low[i], entry_high[i], conjunction[i] = set_low[r], set_high[r], c
            key[i] = np.int64(set_attribute[~a]) << 6 | width_class(set_low[r], set_high[r])
            i += 1
    return entry_low, entry_high, conjunction, key


@kernel
def _tables(low: Int32s, start: Int32s, places: Int64s, shift: Int64s) -> Int32s:
    table = np.empty(places[-1], np.int32)
    for g in range(len(start) - 1):
        entry = start[g]
        for place in range(places[g], places[g + 1]):
            while entry < start[g + 1] and low[entry] < (place - places[g]) << shift[g]:
                entry += 1
            table[place] = entry
    return table


@kernel
def _parts(
    low: Int32s,
    conjunction: Int32s,
    start: Int32s,
    digits: Int64s,
    cells: Int64s,
    conjunctions: "PlanConjunctions",
) -> tuple[Int32s, Int32s, Int32s, Int32s, Int32s]:
    """Part the runs of those groups of points that have at least `_LONG` entries per cell."""
    groups = len(start) - 1
    group_parts = np.full(groups, -1, np.int32)
    places, entries = 0, 0
    for g in range(groups):
        if digits[g] == 0 and start[g + 1] - start[g] >= _LONG * cells[g] // 2:
            group_parts[g] = places
            places += cells[g] + 1
            entries += start[g + 1] - start[g]
    run_part = np.empty(places + 1, np.int32)
    part_start, part_attribute = np.empty(entries + 1, np.int32), np.empty(entries + 1, np.int32)
    second_low = np.zeros(len(low) if entries else 0, np.int32)
    parts = place = 0
    for g in range(groups):
        if group_parts[g] < 0:
            continue
        i = start[g]
        for cell in range(cells[g] + 1):
            run_part[place] = parts
            place += 1
            fresh = True
            last_attribute, last_low = np.int32(0), np.int32(0)
            while i < start[g + 1] and low[i] == cell:
                c = conjunction[i]
                p = conjunctions.start[c] + 1
                a, lowest, point = _NO_SECOND, np.int32(0), True
                if p < conjunctions.start[c + 1]:
                    a, lowest = conjunctions.attribute[p], conjunctions.low[p]
                    point = lowest == conjunctions.high[p]
                    if a < 0:
                        a = conjunctions.set_attribute[~a]
                second_low[i] = lowest
                if fresh or a != last_attribute or lowest < last_low:
                    part_start[parts] = i
                    part_attribute[parts] = a
                    parts += 1
                    fresh = False
                if not point and part_attribute[parts - 1] >= 0:
                    part_attribute[parts - 1] = ~a
                last_attribute, last_low = a, lowest
                i += 1
    run_part[place] = parts
    part_start[parts] = start[groups] if groups else 0
    return (
        group_parts,
        run_part,
        part_start[: parts + 1].copy(),
        second_low,
        part_attribute[:parts].copy(),
    )


@kernel
def first_from(entries: Entries, g: int, cell: int) -> int:
    """The first entry of a group with low >= cell, which may be one past the last cell."""
    place = entries.group_table[g] + (cell >> entries.group_shift[g])
    first, past = entries.table[place], entries.table[place + 1]
    while first < past:
        middle = (first + past) >> 1
        if entries.low[middle] < cell:
            first = middle + 1
        else:
            past = middle
    return int(first)


@kernel
def in_set(cell: int, s: int, conjunctions: PlanConjunctions) -> bool:
    """Does a set of ranges have a cell?"""
    start, low, high = conjunctions.set_start, conjunctions.set_low, conjunctions.set_high
    return in_ranges(cell, start[s], start[s + 1], low, high)


@kernel
def predicates_hold(one: Int32s, first: int, past: int, conjunctions: PlanConjunctions) -> bool:
    """Do the predicates first .. past hold for one event?"""
    for p in range(first, past):
        a = conjunctions.attribute[p]
        s = -1
        if a < 0:
            s = ~a
            a = conjunctions.set_attribute[s]
        cell = one[a]
        if cell < conjunctions.low[p] or cell > conjunctions.high[p]:
            return False
        if s >= 0 and not in_set(cell, s, conjunctions):
            return False
    return True


@kernel
def look_up(
    cells: Int32s, entries: Entries, conjunctions: PlanConjunctions, most: int
) -> tuple[Int32s, Int32s]:
    """Event by event, until there are more than `most` hits: the runs of every group, each entry verified."""
    always = 1 if len(conjunctions.start) > 1 and conjunctions.start[1] == 0 else 0
    one = np.empty(cells.shape[0], np.int32)
    event, found = np.empty(256, np.int32), np.empty(256, np.int32)
    count = 0
    for e in range(cells.shape[1]):
        if count > most:
            break
        for a in range(cells.shape[0]):
            one[a] = cells[a, e]
        if count + always > len(found):
            event, found = grow_array(event, count + 1), grow_array(found, count + 1)
        found[count : count + always] = 0
        before = count
        count += always
        for g in range(len(entries.group_attribute)):
            cell = one[entries.group_attribute[g]]
            if cell < entries.low[entries.group_start[g]]:  # as NULL mostly is
                continue
            first = first_from(entries, g, max(0, cell - entries.group_width[g]))
            past = first_from(entries, g, cell + 1)
            if count + past - first > len(found):
                needed = count + past - first
                event, found = grow_array(event, needed), grow_array(found, needed)
            if entries.group_parts[g] < 0 or past - first < _LONG:
                count = _verified_run(first, past, cell, one, entries, conjunctions, found, count)
                continue
            place = entries.group_parts[g] + cell
            for part in range(entries.run_part[place], entries.run_part[place + 1]):
                part_first, part_past = entries.part_start[part], past
                if part + 1 < entries.run_part[place + 1]:
                    part_past = entries.part_start[part + 1]
                a = entries.part_attribute[part]
                if a != _NO_SECOND:
                    part_first, part_past = _within(
                        entries.second_low, part_first, part_past, one[max(a, ~a)], a >= 0
                    )
                count = _verified_run(
                    part_first, part_past, cell, one, entries, conjunctions, found, count
                )
        event[before:count] = e
    return event[:count], found[:count]


@kernel
def _within(low: Int32s, first: int, past: int, cell: int, points: bool) -> tuple[int, int]:
    """Of a part, the entries whose second predicate begins at the cell or, unless all are points, before it."""
    begin = first
    while first < past:
        middle = (first + past) >> 1
        if low[middle] <= cell:
            first = middle + 1
        else:
            past = middle
    if not points:
        return begin, first
    while first > begin and low[first - 1] == cell:
        first -= 1
    return first, past


@kernel
def _verified_run(
    first: int,
    past: int,
    cell: int,
    one: Int32s,
    entries: Entries,
    conjunctions: PlanConjunctions,
    found: Int32s,
    count: int,
) -> int:
    """Keep the conjunctions of a run that hold. Two sweeps: most fail the second predicate, without a branch."""
    kept = count
    for i in range(first, past):
        c = entries.conjunction[i]
        p = conjunctions.start[c] + 1
        alone = p == conjunctions.start[c + 1]
        p -= alone  # the access predicate once more
        a = conjunctions.attribute[p]
        if a < 0:
            a = conjunctions.set_attribute[~a]
        other = one[a]
        found[kept] = c
        kept += (
            (cell <= entries.high[i])
            & (conjunctions.low[p] <= other)
            & (other <= conjunctions.high[p])
        )
    for i in range(count, kept):
        c = found[i]
        found[count] = c
        count += predicates_hold(
            one, conjunctions.start[c] + 1, conjunctions.start[c + 1], conjunctions
        )
    return count
