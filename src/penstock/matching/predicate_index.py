"""The global predicate index: every distinct predicate of a plan once, with its number, and which of them hold.

A predicate's number is its Boolean variable (mbd §3.1). Numbers are given out in the order in which a decision diagram
tests them (mbd §3.2): attribute by attribute, the one that is tested first, at the bottom, first; inside an attribute
by class of width (see `sharing`) and lowest cell, the sets of several ranges last.

    predicates 12 .. 20     attribute 3, ranges of 5 to 8 cells      low   3  4  4  9 11 12 15 17
    an event in cell 16                                                          └───────┘      16 - 7 <= low <= 16

Predicates of one attribute and class are a *group*. The predicates of a group that accept a cell lie in one run, which
two binary searches find; whether a predicate of the run holds is one comparison with its highest cell. So the index
looks at few predicates that don't hold, a quarter of a run on average. It gives those that hold as bits, 64 predicates
to a word. The ranges of sets are in groups of their own, and lead to the set's number.

The order of attributes follows mbd §3.2: an attribute comes to the bottom if it is tested often, and by few distinct
predicates, because conjunctions with the same predicate there share one node. One thing is ours: a pair of conjunctions
counts for more, the smaller the share of cells that their predicate accepts, because nodes above a predicate are
visited only for events that satisfy it. For the workload `stock` that gives a third of the visits for 6 % more nodes;
elsewhere it changes little.

The index isn't the hierarchy of type, attribute, operator and value of mbd §3.1: in cells all types and operators are
ranges.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from penstock.base.arrays import AnyArray, Float64s, Int32s, Int64s, UInt64s, offsets, read_only
from penstock.base.jit import kernel
from penstock.matching.plan import Plan

WORD = 64
_UNKNOWN_SHARE = 0.5  # how often a derived attribute is true, or a value NULL: cells don't say


# Columns of a table of groups.
ATTRIBUTE, FIRST, PAST, WIDTH, LOWEST = range(5)
_SETS = 63  # instead of a class of width


class PredicateIndex(NamedTuple):
    """Predicate p has the cells low[p] .. high[p]; for a set of ranges that is its hull.

    A group has an attribute, predicates FIRST .. PAST ascending by low, the largest WIDTH of its class, and a LOWEST
    cell. Sets are in no group; their ranges (low, high, number of the set's predicate) are, in groups of their own.
    Behind the last predicate there are as many without cells as fill up a word. Few arrays, since each costs a
    quarter of a microsecond whenever a kernel is called.
    """

    low: Int32s
    high: Int32s
    groups: Int32s
    ranges: Int32s
    range_groups: Int32s

    @staticmethod
    def of(arrays: Mapping[str, AnyArray]) -> "PredicateIndex":
        """From what `number_predicates` built, perhaps mapped from files."""
        names = (f"predicate_{name}" for name in PredicateIndex._fields)
        return PredicateIndex(*(read_only(arrays[name]) for name in names))


def number_predicates(
    plan: Plan, *, by_statistics: bool = True
) -> tuple[dict[str, AnyArray], Int32s]:
    """The arrays of the index by name, and the number of each predicate of the plan's conjunctions.

    Without statistics, attributes are in the plan's order.
    """
    first, number, uses = _distinct(plan)
    attribute = plan.tested_attribute[first].astype(np.int64)
    low, high = plan.predicate_low[first], plan.predicate_high[first]
    set_ = np.where(plan.predicate_attribute[first] < 0, ~plan.predicate_attribute[first], -1)
    position = np.arange(plan.attributes)
    if by_statistics:
        share = accepted_share(plan, attribute, low, high, set_)
        # Of conjunctions that test the same, each pair counts.
        weight = np.bincount(attribute, uses.astype(np.float64) ** 2 / share, plan.attributes)
        position[np.argsort(-weight, kind="stable")] = np.arange(plan.attributes)
    group = position[attribute] << 6 | np.where(set_ >= 0, _SETS, _width_class(low, high))
    order = np.lexsort((set_, high, low, group))
    rank = np.empty(len(order), np.int32)
    rank[order] = np.arange(len(order))
    set_predicate = np.full(len(plan.set_attribute), -1, np.int32)
    set_predicate[set_[set_ >= 0]] = rank[set_ >= 0]
    padding = np.full(-len(order) % WORD, -1, np.int32)
    arrays = {
        "predicate_low": np.concatenate([low[order], padding]),
        "predicate_high": np.concatenate([high[order], padding]),
        "predicate_groups": _groups(attribute[order], low[order], group[order]),
        "set_predicate": set_predicate,
    }
    return arrays | _set_ranges(plan, set_predicate, position), rank[number]


def _distinct(plan: Plan) -> tuple[Int64s, Int64s, Int64s]:
    """Where each distinct predicate stands first; which of them each predicate is; how often each is used."""
    base = offsets(plan.last_cells + 1)
    attribute = plan.tested_attribute
    # A cell has one number among those of all attributes, below 2**31: cuts are fewer than predicates.
    key = base[attribute] + plan.predicate_low << 32 | base[attribute] + plan.predicate_high
    key = np.where(plan.predicate_attribute < 0, plan.predicate_attribute, key)
    _, first, number, uses = np.unique(
        key, return_index=True, return_inverse=True, return_counts=True
    )
    return first, number, uses


def _width_class(low: Int32s, high: Int32s) -> Int64s:
    """`sharing.width_class` for arrays."""
    return np.frexp((high - low).astype(np.float64))[1].astype(np.int64)


def accepted_share(
    plan: Plan, attribute: Int32s | Int64s, low: Int32s, high: Int32s, set_: Int32s
) -> Float64s:
    """The share of its attribute's cells that each predicate accepts."""
    cells = (high - low + 1).astype(np.int64)
    sums = offsets((plan.set_high - plan.set_low + 1).astype(np.int64))[plan.set_start]
    cells[set_ >= 0] = np.diff(sums)[set_[set_ >= 0]]
    unknown = (attribute >= len(plan.domains)) | ((low == 0) & (high == 0))
    share: Float64s = np.where(unknown, _UNKNOWN_SHARE, cells / (plan.last_cells[attribute] + 1))
    return share


def _set_ranges(plan: Plan, set_predicate: Int32s, position: Int64s) -> dict[str, AnyArray]:
    """The ranges of all sets that are in use, in groups."""
    sizes = np.diff(plan.set_start)
    attribute = np.repeat(plan.set_attribute, sizes).astype(np.int64)
    predicate = np.repeat(set_predicate, sizes)
    group = position[attribute] << 6 | _width_class(plan.set_low, plan.set_high)
    order = np.lexsort((plan.set_low, group))
    order = order[predicate[order] >= 0]
    ranges = np.stack([plan.set_low, plan.set_high, predicate], axis=1)[order]
    return {
        "predicate_ranges": ranges,
        "predicate_range_groups": _groups(attribute[order], plan.set_low[order], group[order]),
    }


def _groups(attribute: Int64s, low: Int32s, group: Int64s) -> Int32s:
    """A row for each run of equal groups, but those of sets. The columns are named above."""
    first = np.flatnonzero(np.diff(group, prepend=-1))
    past = np.append(first, len(group))[1:]
    width = (1 << (group[first] & 63)) - 1
    columns = [attribute[first], first, past, width, low[first]]
    table: Int32s = np.stack(columns, axis=1).astype(np.int32)[group[first] & 63 != _SETS]
    return table


# --- which of them hold ---------------------------------------------------------------------------


@kernel
def mark_holding(index: PredicateIndex, cells: Int32s, e: int, holds: UInt64s) -> None:
    """Set the bit of every predicate that event e satisfies. `holds`, a word for 64 predicates, was zero."""
    for g in range(len(index.groups)):
        cell = cells[index.groups[g, ATTRIBUTE], e]
        if cell < index.groups[g, LOWEST]:
            continue
        i = _first_from(index.low, index.groups[g], cell - index.groups[g, WIDTH])
        past = _first_from(index.low, index.groups[g], cell + 1)
        while i < past:
            word = i >> 6
            bits = np.uint64(0)
            # A loop of known length without a branch: the compiler makes it wide.
            for k in range(WORD):
                bits |= np.uint64(index.high[(word << 6) + k] >= cell) << np.uint64(k)
            bits &= ~np.uint64(0) << np.uint64(i & 63)
            i = (word + 1) << 6
            if past < i:
                bits &= ~(~np.uint64(0) << np.uint64(past & 63))
            holds[word] |= bits
    low = index.ranges[:, 0]
    for g in range(len(index.range_groups)):
        cell = cells[index.range_groups[g, ATTRIBUTE], e]
        if cell < index.range_groups[g, LOWEST]:
            continue
        first = _first_from(low, index.range_groups[g], cell - index.range_groups[g, WIDTH])
        for i in range(first, index.range_groups[g, PAST]):
            if low[i] > cell:
                break
            p = index.ranges[i, 2]
            holds[p >> 6] |= np.uint64(index.ranges[i, 1] >= cell) << np.uint64(p & 63)


@kernel
def _first_from(low: Int32s, group: Int32s, cell: int) -> int:
    """The first of a group that begins at a cell or after it."""
    first, past = group[FIRST], group[PAST]
    while first < past:
        middle = (first + past) >> 1
        if low[middle] < cell:
            first = middle + 1
        else:
            past = middle
    return int(first)
