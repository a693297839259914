"""Bit-parallel over a batch of events: one bit per event, one AND per predicate and 64 events.

For every attribute that has access predicates (see `entries`), the events of a block are put into the order of their
cells of it. An access predicate then accepts one *run* of events, r0 .. r1, and most conjunctions need not look at the
rest. Which events of the run satisfy the other predicates is found in one of two ways:

    a short run      event by event
    a longer one     64 events at a time: the events below a *band* of another attribute b are a bitmap, in the order
                     of the access attribute; the events in a range of bands are the difference of two such prefixes

                     order by a      0 … r0 ▒▒▒▒▒▒▒▒▒ r1 … 4095       only these words are read
                     prefix of b     01001101 11010110 …              events whose band of b is below the range
                     prefix of b     01101101 11011111 …              … or in it

A band is a cell where an attribute has few, otherwise as many events of the block as there are to a 64th of it: there
are never more than 65 prefixes however many predicates there are, they adapt to the events, and a block's worth of them
stays in the cache. Bands are coarser than cells, and only three predicates take part, so what is left, a few events, is
verified against all of them.

Access predicates that are points (equalities) aren't gone through one by one: the cells of the block's events lead to
them.

Two alternatives were rejected. A bitmap per predicate: there are hundreds of thousands of predicates, and most bitmaps
would be used once. A bitmap per rank (4,096 per attribute, exact): building them cost more than verifying what is left.
"""

from collections.abc import Mapping
from typing import ClassVar, NamedTuple

import numpy as np
from numba.cpython.unsafe.numbers import trailing_zeros

from penstock.base.array_kernels import sorted_places
from penstock.base.arrays import AnyArray, Bools, Int32s, Int64s, UInt64s
from penstock.base.jit import kernel
from penstock.matching.engines.entries import (
    Entries,
    PlanConjunctions,
    build_entries,
    first_from,
    in_set,
    look_up,
)
from penstock.matching.engines.interface import UNBOUNDED, Hits, limit_hits
from penstock.matching.engines.one import OneEvent
from penstock.matching.kernels import grow_array
from penstock.matching.plan import Plan

BLOCK = 10_240  # events of a block at most: Spark hands over 10,000 at a time
_FEW = 48  # from so many events on, a block is worth its preparation
_SHORT = 12  # a run of at most so many events is verified event by event
# Costs, roughly in nanoseconds: of an event of a run, of a run done bit-parallel.
_RUN, _PARALLEL = 2, 50
_BANDS = 64
_LEAST_USES = 8  # a prefix table is built for an attribute that so many conjunctions of an access attribute test …
_MOST_SLOTS = 96  # … and for at most so many attributes: 3 MB
_LEFT = 4096  # pairs of event and conjunction that are verified together
_MOST_ANDS = 8
_ANY_CELL = np.int32(2**31 - 1)


class Slots(NamedTuple):
    """For the n-th access attribute: the attributes whose prefixes are worth building, start[n] .. start[n + 1]."""

    access: Int32s
    group_start: Int32s  # the groups of each access attribute
    start: Int32s
    attribute: Int32s


class OrderedBlock(NamedTuple):
    """A block of events in the order of an access attribute, and what is known of every attribute in it."""

    cells: Int32s  # by attribute and event
    last: Int64s  # the last cell of each attribute
    rank: Int32s  # rank[base[a] + x]: how many events are in a cell of attribute a below x
    base: Int64s
    perm: Int32s  # the events in the order
    prefixes: UInt64s  # of `words` words each
    slot_of: Int64s  # where the prefixes of each attribute begin; negative if it has none
    anything: int  # where those of a slot begin that accepts all events
    words: int
    shift: int  # from a rank to its band
    parallel: bool  # or event by event: then prefixes aren't to be read


class Pairs(NamedTuple):
    """Conjunctions, and places in the order of a block: what is left to verify."""

    conjunction: Int32s
    place: Int32s


class GrowingHits(NamedTuple):
    """The first `size` of both arrays are hits."""

    event: Int32s
    conjunction: Int32s
    size: int


class BatchEngine:
    """See the module. Few events are looked up one by one, in the same index."""

    name: ClassVar[str] = "batch"
    options: ClassVar[Mapping[str, tuple[str, ...]]] = {}

    def __init__(self, plan: Plan, index: Mapping[str, AnyArray]) -> None:
        self._conjunctions = PlanConjunctions.of(plan)
        self._entries = Entries(*(index[name] for name in Entries._fields))
        self._slots = Slots(*(index[f"slot_{name}"] for name in Slots._fields))
        self._last = plan.last_cells
        self._plan = plan

    @staticmethod
    def build(plan: Plan, options: Mapping[str, str]) -> dict[str, AnyArray]:
        index = build_entries(plan)
        attribute = index["group_attribute"]
        first = np.flatnonzero(np.diff(attribute, prepend=-1)).astype(np.int32)
        slots = Slots(
            attribute[first],
            np.append(first, len(attribute)).astype(np.int32),
            *_uses(first, Entries(*index.values()), PlanConjunctions.of(plan), plan.attributes),
        )
        return index | {f"slot_{name}": value for name, value in slots._asdict().items()}

    def one_event(self, gone: Bools) -> OneEvent:
        """The fast path for single events: from cells to the ids of the subscriptions that aren't gone."""
        return OneEvent(self._plan, self._entries, self._conjunctions, gone)

    def match(self, cells: Int32s, most: int = UNBOUNDED) -> Hits:
        index = self._entries, self._conjunctions
        if cells.shape[1] < _FEW:
            return limit_hits(Hits(*look_up(cells, *index, most)), most)
        return limit_hits(Hits(*_match(cells, *index, self._slots, self._last, most)), most)


@kernel
def _uses(
    first: Int32s, entries: Entries, conjunctions: PlanConjunctions, attributes: int
) -> tuple[Int32s, Int32s]:
    """The attributes of `Slots`, and where those of each access attribute start; its groups start at `first`."""
    start = np.zeros(len(first) + 1, np.int32)
    chosen = np.empty(16, np.int32)
    total = 0
    for n in range(len(first)):
        uses = np.zeros(attributes, np.int64)
        group_past = first[n + 1] if n + 1 < len(first) else len(entries.group_attribute)
        for i in range(entries.group_start[first[n]], entries.group_start[group_past]):
            c = entries.conjunction[i]
            for p in range(conjunctions.start[c] + 1, conjunctions.start[c + 1]):
                a = conjunctions.attribute[p]
                uses[a if a >= 0 else conjunctions.set_attribute[~a]] -= (
                    1  # those of most uses first
                )
        order = sorted_places(uses, attributes)
        for place in range(min(_MOST_SLOTS, attributes)):
            a = order[place]
            if -uses[a] < _LEAST_USES:
                break
            if total == len(chosen):
                chosen = grow_array(chosen, total + 1)
            chosen[total] = a
            total += 1
        start[n + 1] = total
    return start, chosen[:total].copy()


@kernel
def _match(
    cells: Int32s,
    entries: Entries,
    conjunctions: PlanConjunctions,
    slots: Slots,
    last: Int64s,
    most_hits: int,
) -> tuple[Int32s, Int32s]:
    """Event and conjunction of every hit, one access attribute after the other, until there are too many."""
    events = cells.shape[1]
    words = (events + 63) >> 6
    shift = 0
    while events > _BANDS << shift:
        shift += 1
    base = np.zeros(len(last) + 1, np.int64)
    for a in range(len(last)):
        base[a + 1] = base[a] + last[a] + 2
    rank = np.zeros(base[-1], np.int32)
    ranked = np.zeros(len(last), np.bool_)
    perm = np.empty(events, np.int32)
    most = 0
    for n in range(len(slots.access)):
        most = max(most, slots.start[n + 1] - slots.start[n])
    # The last slot accepts everything: its prefix 0 is empty, its prefix 1 full.
    prefixes = np.empty((most + 1) * (_BANDS + 1) * words, np.uint64)
    anything = most * (_BANDS + 1) * words
    prefixes[anything : anything + words] = np.uint64(0)
    prefixes[anything + words : anything + 2 * words] = ~np.uint64(0)
    slot_of = np.full(len(last), -1, np.int64)
    work = np.empty((0, 3), np.int32)
    hits = GrowingHits(np.empty(1024, np.int32), np.empty(1024, np.int32), 0)
    if len(conjunctions.start) > 1 and conjunctions.start[1] == 0:
        hits = GrowingHits(np.arange(events).astype(np.int32), np.zeros(events, np.int32), events)
    for n in range(len(slots.access)):
        if hits.size > most_hits:
            break
        a = slots.access[n]
        if not ranked[a]:
            rank_cells(cells[a], rank[base[a] : base[a + 1]])
            ranked[a] = True
        order_by_cell(cells[a], rank[base[a] : base[a + 1]], perm)
        first_group, past_group = slots.group_start[n], slots.group_start[n + 1]
        most_work = entries.group_start[past_group] - entries.group_start[first_group]
        if most_work > len(work):
            work = np.empty((most_work, 3), np.int32)
        items = 0
        for g in range(first_group, past_group):
            ranks = rank[base[a] : base[a + 1]]
            if entries.group_width[g] == 0:
                items = _points(entries, g, cells[a], ranks, perm, work, items)
            else:
                items = _ranges(entries, g, ranks, work, items)
        # Bit-parallel, unless the tables of prefixes would cost more than going through the runs.
        length = longer = 0
        for i in range(items):
            run = work[i, 2] - work[i, 1]
            if run > _SHORT:
                length += run
                longer += 1
        tables = (slots.start[n + 1] - slots.start[n]) * (events + _BANDS * words // 2)
        parallel = _RUN * length > tables + _PARALLEL * longer
        if parallel:
            for s in range(slots.start[n], slots.start[n + 1]):
                b = slots.attribute[s]
                slot = (s - slots.start[n]) * (_BANDS + 1) * words
                slot_of[b] = slot
                if not ranked[b]:
                    rank_cells(cells[b], rank[base[b] : base[b + 1]])
                    ranked[b] = True
                _prefixes(
                    cells[b],
                    perm,
                    rank[base[b] : base[b + 1]],
                    shift if last[b] >= _BANDS else -1,
                    words,
                    prefixes[slot : slot + (_BANDS + 1) * words],
                )
        block = OrderedBlock(
            cells, last, rank, base, perm, prefixes, slot_of, anything, words, shift, parallel
        )
        hits = _run(work[:items], block, entries, conjunctions, hits, most_hits)
        for s in range(slots.start[n], slots.start[n + 1]):
            slot_of[slots.attribute[s]] = -1
    return hits.event[: hits.size], hits.conjunction[: hits.size]


@kernel
def rank_cells(cells: Int32s, ranks: Int32s) -> None:
    """For every cell the number of events in cells below it."""
    for e in range(len(cells)):
        ranks[cells[e] + 1] += 1
    for x in range(1, len(ranks)):
        ranks[x] += ranks[x - 1]


@kernel
def order_by_cell(cells: Int32s, ranks: Int32s, perm: Int32s) -> None:
    """The events by their cell. `ranks` is used as a set of counters and restored."""
    for e in range(len(cells)):
        perm[ranks[cells[e]]] = e
        ranks[cells[e]] += 1
    for x in range(len(ranks) - 1, 0, -1):
        ranks[x] = ranks[x - 1]
    ranks[0] = 0


@kernel
def _points(
    entries: Entries, g: int, cells: Int32s, ranks: Int32s, perm: Int32s, work: Int32s, items: int
) -> int:
    """The entries of a group of points whose cell has an event, with the run of those events."""
    first = 0
    while first < len(perm):
        cell = cells[perm[first]]
        past = ranks[cell + 1]
        for i in range(first_from(entries, g, cell), entries.group_start[g + 1]):
            if entries.low[i] != cell:
                break
            work[items, 0], work[items, 1], work[items, 2] = i, first, past
            items += 1
        first = past
    return items


@kernel
def _ranges(entries: Entries, g: int, ranks: Int32s, work: Int32s, items: int) -> int:
    """The entries of a group whose range has an event, with the run of those events."""
    for i in range(entries.group_start[g], entries.group_start[g + 1]):
        first, past = ranks[entries.low[i]], ranks[entries.high[i] + 1]
        work[items, 0], work[items, 1], work[items, 2] = i, first, past
        items += first < past
    return items


@kernel
def _prefixes(
    cells: Int32s, perm: Int32s, ranks: Int32s, shift: int, words: int, out: UInt64s
) -> None:
    """Bitmap k: the events, in the order of `perm`, whose band is below k. Without a shift bands are cells."""
    out[:] = np.uint64(0)
    for j in range(len(perm)):
        cell = cells[perm[j]]
        band = cell if shift < 0 else ranks[cell] >> shift
        out[(band + 1) * words + (j >> 6)] |= np.uint64(1) << np.uint64(j & 63)
    for i in range(words, len(out)):
        out[i] |= out[i - words]


@kernel
def _run(
    work: Int32s,
    block: OrderedBlock,
    entries: Entries,
    conjunctions: PlanConjunctions,
    hits: GrowingHits,
    most: int,
) -> GrowingHits:
    """Verify each entry of the work list for the events of its run, until there are more than `most` hits.

    Bits are found first and verified later, some thousands at a time: a loop that does both stalls at every bit.
    """
    cells, perm, prefixes, words = block.cells, block.perm, block.prefixes, block.words
    below, upto = np.empty(_MOST_ANDS, np.uint64), np.empty(_MOST_ANDS, np.uint64)
    word, word_bits = np.empty(words, np.uint64), np.empty(words, np.uint64)
    most_left = _LEFT + 64 * words
    pairs = Pairs(np.empty(most_left, np.int32), np.empty(most_left, np.int32))
    left = 0
    for item in range(len(work)):
        i, r0, r1 = work[item, 0], work[item, 1], work[item, 2]
        c = entries.conjunction[i]
        first, past = conjunctions.start[c] + 1, conjunctions.start[c + 1]
        if left > _LEFT:
            hits = _verify(pairs, left, block, conjunctions, hits)
            left = 0
            if hits.size > most:
                return hits
        if r1 - r0 <= _SHORT or first == past or not block.parallel:
            a, low, high = 0, np.int32(0), _ANY_CELL
            if first < past:
                a = conjunctions.attribute[first]
                low, high = conjunctions.low[first], conjunctions.high[first]
                if a < 0:
                    a = conjunctions.set_attribute[~a]
            for j in range(r0, r1):
                cell = cells[a, perm[j]]
                if low <= cell <= high:
                    pairs.conjunction[left], pairs.place[left] = c, j
                    left += 1
            continue
        used = 0
        for p in range(first, past):
            a = conjunctions.attribute[p]
            if a < 0:
                a = conjunctions.set_attribute[~a]
            slot = block.slot_of[a]
            if slot < 0:
                continue
            low, high = conjunctions.low[p], conjunctions.high[p]
            if block.last[a] >= _BANDS:
                ranks = block.base[a]
                low, high = block.rank[ranks + low], block.rank[ranks + high + 1]
                if low >= high:
                    used = -1
                    break
                low, high = low >> block.shift, (high - 1) >> block.shift
            below[used] = slot + low * words
            upto[used] = slot + (high + 1) * words
            used += 1
            if used == _MOST_ANDS:
                break
        if used < 0:
            continue
        for k in range(used, 3):
            below[k], upto[k] = block.anything, block.anything + words
        l0, l1, l2 = below[0], below[1], below[2]
        u0, u1, u2 = upto[0], upto[1], upto[2]
        mask = ~np.uint64(0) << np.uint64(r0 & 63)
        some = 0
        for w in range(np.uint64(r0 >> 6), np.uint64(((r1 - 1) >> 6) + 1)):
            bits = (
                (prefixes[u0 + w] ^ prefixes[l0 + w])
                & (prefixes[u1 + w] ^ prefixes[l1 + w])
                & (prefixes[u2 + w] ^ prefixes[l2 + w])
                & mask
            )
            mask = ~np.uint64(0)
            word[some], word_bits[some] = w, bits
            some += bits != 0
        for k in range(some):
            bits = word_bits[k]
            for more in range(3, used):
                bits &= prefixes[upto[more] + word[k]] ^ prefixes[below[more] + word[k]]
            place = np.int32(word[k] << np.uint64(6))
            while bits:
                pairs.conjunction[left], pairs.place[left] = c, place + trailing_zeros(bits)
                bits &= bits - np.uint64(1)
                left += 1
        # The last word may have events past the run: they come last.
        while left and pairs.place[left - 1] >= r1 and pairs.conjunction[left - 1] == c:
            left -= 1
    return _verify(pairs, left, block, conjunctions, hits)


@kernel
def _verify(
    pairs: Pairs,
    left: int,
    block: OrderedBlock,
    conjunctions: PlanConjunctions,
    hits: GrowingHits,
) -> GrowingHits:
    """The hits, with the first pairs whose predicates hold, all but the access predicate."""
    event, found, count = hits
    if count + left > len(found):
        event, found = grow_array(event, count + left), grow_array(found, count + left)
    cells, perm = block.cells, block.perm
    for i in range(left):
        c, e = pairs.conjunction[i], perm[pairs.place[i]]
        holds = True
        for p in range(conjunctions.start[c] + 1, conjunctions.start[c + 1]):
            a = conjunctions.attribute[p]
            if a >= 0:
                cell = cells[a, e]
                holds &= (conjunctions.low[p] <= cell) & (cell <= conjunctions.high[p])
            else:
                holds &= in_set(cells[conjunctions.set_attribute[~a], e], ~a, conjunctions)
        event[count], found[count] = e, c
        count += holds
    return GrowingHits(event, found, count)
