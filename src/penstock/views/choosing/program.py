"""The integer program of delta table 1, simplified: which rewriting feeds each view, at the least utilisation.

    minimise    Σ cost[c] x[c]
    such that   Σ x[c], c a column of v          =  1            for every view v        (2)
                Σ x[c], c has u as an input     <=  limit[u]     for u a view or D       (3) and (4) in one

delta §3.3 has one variable for every edge. An edge into a rewriting is chosen exactly if the rewriting is, so one
variable for each rewriting is enough: a *column*. Being fed from the source D is a column like any other, whose only
input is D. More can be dropped without losing an optimum:

- a capacity can't be exceeded, and has no row, if no more than that many views could use the view at all;
- a column is dominated if another column of its view costs no more and has no further limited input. It is dropped,
  which can make more capacities unlimited, and so on;
- views with one column left are settled, and the capacity that they use is taken off the limits.

Columns of a view stand in ascending order of cost, so that a search for the cheapest can stop early:

    views                      4           9
    first                      0           3      5
    column (rewriting)         17 16 -1    31 30         -1 is the source
    start, rows                the limited inputs of columns, as in a rewriting graph; numbers in `limited`
"""

from typing import NamedTuple

import numpy as np

from penstock.base.array_kernels import sorted_places
from penstock.base.arrays import Bools, Float64s, Int32s, Int64s, offsets
from penstock.base.jit import kernel
from penstock.views.choosing.capacities import Capacities
from penstock.views.rewriting_graph import SOURCE, Configuration, Costs, RewritingGraph

_WORTH_IT = 0.98  # if a round leaves a larger share of the columns, another isn't worth its time


class Program(NamedTuple):
    """The choices that are left to make."""

    views: Int32s
    """The views that have a choice."""
    first: Int64s
    column: Int64s
    cost: Float64s
    start: Int64s
    rows: Int32s
    limited: Int32s
    """The views (or `SOURCE`) whose capacity could be exceeded."""
    limit: Int64s
    """What is left of their capacity for views that have a choice. Negative: views without a choice take too much."""
    settled: Int64s
    """The configuration of the views that have no choice. For now, `SOURCE` stands for the others."""
    fixed: float
    """The utilisation of the views that have no choice."""


class _Columns(NamedTuple):
    """A rewriting graph in which the source is one more view, and being fed from it one more rewriting: the last."""

    first: Int64s
    start: Int64s
    inputs: Int32s
    cost: Float64s
    rewriting: Int64s
    capacity: Int64s


def simplify(graph: RewritingGraph, costs: Costs, capacities: Capacities) -> Program:
    """The program of a graph, without the columns and limits that can't matter."""
    columns = _with_source(graph, costs, capacities)
    order = _by_cost(columns.first, columns.cost)
    keep = np.ones(len(order), np.bool_)
    left, before = len(order), 2 * len(order) + 1
    limited = np.zeros(len(columns.capacity), np.bool_)
    while left < _WORTH_IT * before:
        limited = _users(columns, keep) > columns.capacity
        _drop_dominated(columns, order, limited, keep)
        left, before = int(keep.sum()), left
    return _assemble(columns, order, limited, keep)


def _with_source(graph: RewritingGraph, costs: Costs, capacities: Capacities) -> _Columns:
    views = len(graph.rank)
    last = graph.first[1:]
    width = np.insert(np.diff(graph.start), last, 1)
    return _Columns(
        graph.first + np.arange(views + 1),
        offsets(width),
        np.insert(graph.inputs, graph.start[last], views).astype(np.int32),
        np.insert(costs.utilisation, last, costs.source_utilisation),
        np.insert(np.arange(len(graph.start) - 1), last, SOURCE),
        np.append(capacities.views, capacities.source),
    )


def _assemble(columns: _Columns, order: Int64s, limited: Bools, keep: Bools) -> Program:
    count = np.add.reduceat(keep, columns.first[:-1], dtype=np.int64)
    kept = order[keep[order]]
    begin = offsets(count)
    alone = kept[begin[:-1][count == 1]]
    settled = np.full(len(count), SOURCE, np.int64)
    settled[count == 1] = columns.rewriting[alone]
    _, taken = _limited_inputs(columns, alone, limited)
    limit = columns.capacity - np.bincount(taken, minlength=len(limited))
    kept = kept[np.repeat(count > 1, count)]
    start, used = _limited_inputs(columns, kept, limited)
    number = np.cumsum(limited) - 1
    names = np.append(np.arange(len(count)), SOURCE)
    return Program(
        np.flatnonzero(count > 1).astype(np.int32),
        offsets(count[count > 1]),
        columns.rewriting[kept],
        columns.cost[kept],
        start,
        number[used].astype(np.int32),
        names[limited].astype(np.int32),
        limit[limited],
        settled,
        float(columns.cost[alone].sum()),
    )


def configuration_of(program: Program, picked: Int64s) -> Configuration:
    """The configuration that follows from a choice of one column for each of the program's views."""
    chosen = program.settled.copy()
    chosen[program.views] = program.column[picked]
    return Configuration(chosen)


def total(program: Program, picked: Int64s) -> float:
    """The utilisation of a choice of one column for each of the program's views, and of the others."""
    return program.fixed + float(program.cost[picked].sum())


@kernel
def loads(program: Program, picked: Int64s) -> Int64s:
    """How much of each limit a choice of columns takes."""
    taken = np.zeros(len(program.limit), np.int64)
    for c in picked:
        for e in range(program.start[c], program.start[c + 1]):
            taken[program.rows[e]] += 1
    return taken


@kernel
def _by_cost(first: Int64s, cost: Float64s) -> Int64s:
    """The rewritings of each view in ascending order of cost."""
    order = np.empty(len(cost), np.int64)
    for view in range(len(first) - 1):
        begin, end = first[view], first[view + 1]
        own = sorted_places(cost[begin:end], end - begin)
        for i in range(end - begin):
            order[begin + i] = begin + own[i]
    return order


@kernel
def _users(columns: _Columns, keep: Bools) -> Int64s:
    """How many views could use each view: several rewritings of one view count once."""
    first, start, inputs = columns.first, columns.start, columns.inputs
    views = len(first) - 1
    found = np.zeros(views + 1, np.int64)
    seen = np.full(views + 1, -1, np.int64)
    for view in range(views):
        for r in range(first[view], first[view + 1]):
            if keep[r]:
                for e in range(start[r], start[r + 1]):
                    if seen[inputs[e]] != view:
                        seen[inputs[e]] = view
                        found[inputs[e]] += 1
    return found


@kernel
def _drop_dominated(columns: _Columns, order: Int64s, limited: Bools, keep: Bools) -> None:
    """Drop each column if another one of its view is as good or better. Of equal columns one is kept."""
    first, start, inputs, cost = columns.first, columns.start, columns.inputs, columns.cost
    longest = 0
    for view in range(len(first) - 1):
        longest = max(longest, first[view + 1] - first[view])
    signature = np.zeros(longest, np.uint64)
    for view in range(len(first) - 1):
        begin = first[view]
        for p in range(begin, first[view + 1]):
            r = order[p]
            if not keep[r]:
                continue
            bits = np.uint64(0)
            for e in range(start[r], start[r + 1]):
                if limited[inputs[e]]:
                    bits |= np.uint64(1) << np.uint64((inputs[e] * 40503) & 63)
            signature[p - begin] = bits
            for q in range(begin, p):
                other = order[q]
                if not keep[other] or (signature[q - begin] & ~bits) != 0:
                    continue
                if _needs_no_more(columns, limited, other, r):
                    keep[r] = False
                    break
            if keep[r] and cost[r] == cost[order[max(begin, p - 1)]]:
                _drop_equally_expensive(columns, order, limited, keep, begin, p)


@kernel
def _drop_equally_expensive(
    columns: _Columns, order: Int64s, limited: Bools, keep: Bools, begin: int, p: int
) -> None:
    """Drop earlier columns that cost the same as the one at `p` and need more."""
    cost = columns.cost
    r = order[p]
    q = p - 1
    while q >= begin and cost[order[q]] == cost[r]:
        if keep[order[q]] and _needs_no_more(columns, limited, r, order[q]):
            keep[order[q]] = False
        q -= 1


@kernel
def _needs_no_more(columns: _Columns, limited: Bools, this: int, that: int) -> bool:
    """Whether all limited inputs of one rewriting are inputs of the other. Both are in ascending order."""
    start, inputs = columns.start, columns.inputs
    e, f = start[this], start[that]
    while e < start[this + 1]:
        if not limited[inputs[e]]:
            e += 1
        elif f == start[that + 1] or inputs[f] > inputs[e]:
            return False
        else:
            e += inputs[f] == inputs[e]
            f += 1
    return True


@kernel
def _limited_inputs(columns: _Columns, column: Int64s, limited: Bools) -> tuple[Int64s, Int32s]:
    start, inputs = columns.start, columns.inputs
    first = np.zeros(len(column) + 1, np.int64)
    for c in range(len(column)):
        first[c + 1] = first[c]
        for e in range(start[column[c]], start[column[c] + 1]):
            first[c + 1] += limited[inputs[e]]
    rows = np.empty(first[-1], np.int32)
    at = 0
    for c in range(len(column)):
        for e in range(start[column[c]], start[column[c] + 1]):
            if limited[inputs[e]]:
                rows[at] = inputs[e]
                at += 1
    return first, rows
