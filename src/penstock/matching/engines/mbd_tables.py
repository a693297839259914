"""The events of a block as bits: which events satisfy a predicate is the difference of two rows of a table.

    order by a        0 … r0 ▒▒▒▒▒▒▒▒▒ r1 … 4095       a predicate on a: a run of events
    row of b          01001101 11010110 …              the events whose band of b is below those of a predicate on b
    row of b          01101101 11011111 …              … or in them

Events are ranked by their cells of every attribute. In the order of one attribute, the events that satisfy a range of
its cells are a *run*. Any other attribute has a *table*, in the same order: row k has the bits of the events whose band
is below k. If the attribute is *narrow*, that is has few cells, a band is a cell; otherwise it is a 64th of the events.
So a table has at most 65 rows, however many predicates there are, and stays in the cache. But where bands are wide, the
difference of two rows is a superset, since a range may have only a part of its first and last band. The ranks of events
and predicates, which are kept beside the table, are exact.

A row per rank would be exact, but take 2 MB for an attribute, and most rows would be read once or never.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from penstock.base.arrays import Bools, Int32s, Int64s, UInt64s
from penstock.base.jit import kernel
from penstock.matching.engines.batch import rank_cells
from penstock.matching.engines.entries import PlanConjunctions
from penstock.matching.predicate_index import ATTRIBUTE, FIRST, PAST, PredicateIndex

UInt16s = npt.NDArray[np.uint16]

BANDS = 64

TABLE, RUN = range(2)  # columns of `Block.known`


class Block(NamedTuple):
    """Which events of a block satisfy which predicates. Computed once, whatever the number of nodes that test them.

    Of predicate p, known[p] is the number of its attribute's table, or ~(2 * attribute) if that has none, or
    ~(2 * set + 1) for a set; and its run of ranks, first << 16 | past. A narrow attribute has cells for ranks.
    """

    words: int
    known: Int32s
    range_run: Int32s  # the run of every range of a set
    table_of: Int64s  # by attribute; -1 without
    attribute: Int64s  # of a table
    shift: Int64s  # of a table: a band is 2 ** shift ranks
    rank: UInt16s  # of a table and an event
    tables: UInt64s  # end to end; behind them a row of zeros and one of ones
    filled: Bools  # which tables are valid for the present order of events


class Ranks(NamedTuple):
    """Events by cell: of attribute a, table[base[a] + x] are in a cell below x, up to one past the last cell."""

    base: Int64s
    table: Int32s


@kernel
def is_narrow(last_cell: int) -> bool:
    """Has an attribute so few cells that each is a band?"""
    return last_cell < BANDS


@kernel
def prepare_block(
    cells: Int32s,
    ranks: Ranks,
    tested: Int32s,
    index: PredicateIndex,
    set_predicate: Int32s,
    conjunctions: PlanConjunctions,
    last: Int64s,
) -> Block:
    """A block whose tables are still to be filled: one for each attribute in `tested`."""
    events = cells.shape[1]
    words = (events + 63) >> 6
    table_of = np.full(len(last), -1, np.int64)
    attribute = np.empty(len(last), np.int64)
    count = 0
    for a in tested:
        if table_of[a] < 0:
            table_of[a], attribute[count] = count, a
            count += 1
    shift = np.zeros(count, np.int64)
    rank = np.empty((count, events), np.uint16)
    for t in range(count):
        narrow = is_narrow(last[attribute[t]])
        while not narrow and events > BANDS << shift[t]:
            shift[t] += 1
        _rank_of_events(cells, ranks, attribute[t], narrow, rank[t])
    known, range_run = _locate(index, set_predicate, conjunctions, ranks, last, table_of)
    tables = np.zeros((count * (BANDS + 1) + 2) * words, np.uint64)
    tables[len(tables) - words :] = ~np.uint64(0)
    filled = np.zeros(count, np.bool_)
    return Block(words, known, range_run, table_of, attribute, shift, rank, tables, filled)


@kernel
def fill_table(block: Block, t: int, order: Int32s) -> None:
    """Row k: the events, in this order, whose band is below k."""
    words, shift = block.words, block.shift[t]
    size = (BANDS + 1) * words
    table, rank = block.tables[t * size : (t + 1) * size], block.rank[t]
    table[:] = np.uint64(0)
    for j in range(len(order)):
        row = np.int64(rank[order[j]] >> shift) + 1
        table[row * words + (j >> 6)] |= np.uint64(1) << np.uint64(j & 63)
    for start in range(words, size, words):
        for i in range(start, start + words):
            table[i] |= table[i - words]
    block.filled[t] = True


@kernel
def set_of(table: int) -> int:
    """The set that a predicate is, given column `TABLE` of `Block.known`; -1 if it is a range."""
    return ~table >> 1 if table < 0 and ~table & 1 else -1


@kernel
def bands(run: int, shift: int) -> tuple[int, int]:
    """The rows of a table whose difference has the events of a run of ranks."""
    first, past = run >> 16, run & 0xFFFF
    below = first >> shift
    return below, ((past - 1) >> shift) + 1 if first < past else below


@kernel
def _locate(
    index: PredicateIndex,
    set_predicate: Int32s,
    conjunctions: PlanConjunctions,
    ranks: Ranks,
    last: Int64s,
    table_of: Int64s,
) -> tuple[Int32s, Int32s]:
    run = np.empty(len(index.low), np.int32)
    known = np.empty((len(index.low), 2), np.int32)
    for g in range(len(index.groups)):
        a, first, past = index.groups[g, ATTRIBUTE], index.groups[g, FIRST], index.groups[g, PAST]
        _find_runs(index.low, index.high, first, past, ranks, a, is_narrow(last[a]), run)
        for p in range(first, past):
            known[p, TABLE] = table_of[a] if table_of[a] >= 0 else ~(2 * a)
            known[p, RUN] = run[p]
    low, high = conjunctions.set_low, conjunctions.set_high
    range_run = np.empty(len(low), np.int32)
    for s in range(len(set_predicate)):
        if set_predicate[s] >= 0:
            known[set_predicate[s], TABLE] = ~(2 * s + 1)
            a = conjunctions.set_attribute[s]
            first, past = conjunctions.set_start[s], conjunctions.set_start[s + 1]
            _find_runs(low, high, first, past, ranks, a, is_narrow(last[a]), range_run)
    return known, range_run


@kernel
def _find_runs(
    low: Int32s,
    high: Int32s,
    first: int,
    past: int,
    ranks: Ranks,
    a: int,
    narrow: bool,
    run: Int32s,
) -> None:
    """The runs of the ranges first .. past of cells of attribute a."""
    if narrow:
        for i in range(first, past):
            run[i] = low[i] << 16 | (high[i] + 1)
    else:
        below = ranks.table[ranks.base[a] : ranks.base[a + 1]]
        for i in range(first, past):
            run[i] = below[low[i]] << 16 | below[high[i] + 1]


# --- ranks ----------------------------------------------------------------------------------------


@kernel
def rank_events(cells: Int32s, last: Int64s) -> Ranks:
    """Rank the events of a block; `last` are the last cells of the attributes."""
    base = np.zeros(len(last) + 1, np.int64)
    for a in range(len(last)):
        base[a + 1] = base[a] + last[a] + 2
    table = np.zeros(base[-1], np.int32)
    for a in range(len(last)):
        rank_cells(cells[a], table[base[a] : base[a + 1]])
    return Ranks(base, table)


@kernel
def ranks_of_cells(ranks: Ranks, a: int, last_cell: int) -> Int32s:
    """How many events are below each cell of a narrow attribute, and below the end; nothing for other attributes."""
    count = last_cell + 2 if is_narrow(last_cell) else 0
    return ranks.table[ranks.base[a] : ranks.base[a] + count]


@kernel
def _rank_of_events(cells: Int32s, ranks: Ranks, a: int, narrow: bool, out: UInt16s) -> None:
    """The rank of every event; of a narrow attribute, its cell."""
    for e in range(len(out)):
        cell = cells[a, e]
        out[e] = cell if narrow else ranks.table[ranks.base[a] + cell]
