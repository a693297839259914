"""Access-predicate index: each conjunction is found by its most selective predicate, then verified.

Every conjunction hangs under one of its predicates, the *access predicate*, the one that covers the fewest cells of its
attribute. Per attribute the access predicates stand in a segment tree over the cells:

                    1                a range of cells is the union of a few nodes (at most two per level), and the
                2       3            conjunction is posted at those. An event's cell is one leaf; the nodes that
              4   5   6   7          contain it are the path from the leaf to the root. So all that is on the path,
              0   1   2   3          and nothing else, has an access predicate that holds.

A point (an equality) is one posting at a leaf, a set of ranges is posted for each range; the nodes of one conjunction
never lie on one path, so it is met at most once per event. Every posting met is verified against the other predicates.

Conjunctions are numbered by where they are posted, so that those verified together lie together in memory.
Not the obvious lists of conjunctions per cell: a range of 15 % of 2,000 cells would be posted 300 times, here 20 times.
"""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from penstock.matching.engines.interface import Satisfied
from penstock.matching.jit import kernel
from penstock.matching.kernels import Int32s, Int64s
from penstock.matching.plan import AnyArray, Plan
from penstock.matching.sharing import offsets

_DERIVED_COVERAGE = 0.5  # nothing is known of a derived attribute: rather any range of a real one


class AccessEngine:
    """See the module."""

    name = "access"

    def __init__(self, plan: Plan, index: Mapping[str, AnyArray]) -> None:
        self._plan = plan
        self._index = index

    @staticmethod
    def build(plan: Plan) -> dict[str, AnyArray]:
        coverage = _coverage(plan)
        lengths = np.diff(plan.conjunction_start)
        access = _cheapest(plan.conjunction_start, plan.conjunction_predicate, coverage)
        posted = np.flatnonzero(lengths)

        used = np.unique(plan.predicate_attribute[access[posted]])
        size = np.zeros(plan.attributes, np.int64)
        size[used] = [1 << int(plan.last_cells[a]).bit_length() for a in used]
        node_base = offsets(2 * size)
        arguments = (
            plan.predicate_attribute,
            plan.predicate_start,
            plan.range_low,
            plan.range_high,
            node_base,
            size,
        )
        first = _first_nodes(access[posted], *arguments)
        order = posted[np.argsort(first, kind="stable")]
        node_start, postings = _post(access[order], *arguments)
        residual_start, residual = _residual(
            order, access, plan.conjunction_start, plan.conjunction_predicate
        )
        single = np.diff(plan.predicate_start) == 1
        first_range = plan.predicate_start[residual]
        last_range = plan.predicate_start[residual + 1] - 1
        return {
            "attributes": used.astype(np.int32),
            "size": size,
            "node_base": node_base,
            "node_start": node_start,
            "postings": postings,
            "order": order.astype(np.int32),
            "always": np.flatnonzero(lengths == 0).astype(np.int32),
            "residual_start": residual_start,
            "residual_attribute": plan.predicate_attribute[residual],
            "residual_low": plan.range_low[first_range],
            "residual_high": plan.range_high[last_range],
            "residual_set": np.where(single[residual], -1, residual).astype(np.int32),
        }

    def match(self, cells: Int32s) -> Satisfied:
        index, plan = self._index, self._plan
        start, found = _match(
            cells,
            index["attributes"],
            index["size"],
            index["node_base"],
            index["node_start"],
            index["postings"],
            index["order"],
            index["always"],
            index["residual_start"],
            index["residual_attribute"],
            index["residual_low"],
            index["residual_high"],
            index["residual_set"],
            plan.predicate_start,
            plan.range_low,
            plan.range_high,
        )
        return Satisfied(start, found)


def _coverage(plan: Plan) -> npt.NDArray[np.float64]:
    """The share of its attribute's cells that each predicate accepts."""
    width = (plan.range_high - plan.range_low + 1).astype(np.float64)
    sums = np.concatenate([[0.0], np.cumsum(width)])
    covered = sums[plan.predicate_start[1:]] - sums[plan.predicate_start[:-1]]
    share = covered / (plan.last_cells[plan.predicate_attribute] + 1)
    return np.where(plan.predicate_attribute < len(plan.domains), share, _DERIVED_COVERAGE)


@kernel
def _cheapest(start: Int64s, predicates: Int32s, coverage: npt.NDArray[np.float64]) -> Int32s:
    chosen = np.full(len(start) - 1, -1, np.int32)
    for c in range(len(start) - 1):
        for i in range(start[c], start[c + 1]):
            p = predicates[i]
            if chosen[c] < 0 or coverage[p] < coverage[chosen[c]]:
                chosen[c] = p
    return chosen


@kernel
def _first_nodes(
    access: Int32s,
    predicate_attribute: Int32s,
    predicate_start: Int64s,
    range_low: Int32s,
    range_high: Int32s,
    node_base: Int64s,
    size: Int64s,
) -> Int64s:
    """The largest node of each conjunction's first range: conjunctions posted together get equal ones."""
    first = np.empty(len(access), np.int64)
    for i in range(len(access)):
        p = access[i]
        a = predicate_attribute[p]
        low = range_low[predicate_start[p]] + size[a]
        high = range_high[predicate_start[p]] + size[a]
        node = low
        while low <= high:
            if low & 1:
                node = low
                low += 1
            if not high & 1:
                node = high
                high -= 1
            low >>= 1
            high >>= 1
        first[i] = node_base[a] + node
    return first


@kernel
def _post(
    access: Int32s,
    predicate_attribute: Int32s,
    predicate_start: Int64s,
    range_low: Int32s,
    range_high: Int32s,
    node_base: Int64s,
    size: Int64s,
) -> tuple[Int64s, Int32s]:
    """Postings by node: counted in a first pass, laid down in a second."""
    start = np.zeros(node_base[-1] + 1, np.int64)
    postings = np.empty(0, np.int32)
    for lay in (False, True):
        if lay:
            total = 0
            for node in range(len(start)):
                total, start[node] = total + start[node], total
            postings = np.empty(total, np.int32)
        for i in range(len(access)):
            p = access[i]
            a = predicate_attribute[p]
            for r in range(predicate_start[p], predicate_start[p + 1]):
                low, high = range_low[r] + size[a], range_high[r] + size[a]
                while low <= high:
                    if low & 1:
                        node = node_base[a] + low
                        if lay:
                            postings[start[node]] = i
                        start[node] += 1
                        low += 1
                    if not high & 1 and low <= high:
                        node = node_base[a] + high
                        if lay:
                            postings[start[node]] = i
                        start[node] += 1
                        high -= 1
                    low >>= 1
                    high >>= 1
    # Laying moved every start to its end, which is the next one's start.
    start[1:] = start[:-1].copy()
    start[0] = 0
    return start, postings


@kernel
def _residual(
    order: Int64s, access: Int32s, start: Int64s, predicates: Int32s
) -> tuple[Int64s, Int32s]:
    """The predicates of each conjunction but for its access predicate, in the order of the postings."""
    residual_start = np.zeros(len(order) + 1, np.int64)
    for i in range(len(order)):
        c = order[i]
        residual_start[i + 1] = residual_start[i] + start[c + 1] - start[c] - 1
    residual = np.empty(residual_start[-1], np.int32)
    for i in range(len(order)):
        c = order[i]
        position = residual_start[i]
        for j in range(start[c], start[c + 1]):
            if predicates[j] != access[c]:
                residual[position] = predicates[j]
                position += 1
    return residual_start, residual


@kernel
def _in_set(cell: int, first: int, past: int, range_low: Int32s, range_high: Int32s) -> bool:
    while first < past:
        middle = (first + past) >> 1
        if range_high[middle] < cell:
            first = middle + 1
        elif range_low[middle] > cell:
            past = middle
        else:
            return True
    return False


@kernel
def _match(
    cells: Int32s,
    attributes: Int32s,
    size: Int64s,
    node_base: Int64s,
    node_start: Int64s,
    postings: Int32s,
    order: Int32s,
    always: Int32s,
    residual_start: Int64s,
    residual_attribute: Int32s,
    residual_low: Int32s,
    residual_high: Int32s,
    residual_set: Int32s,
    predicate_start: Int64s,
    range_low: Int32s,
    range_high: Int32s,
) -> tuple[Int64s, Int32s]:
    events = cells.shape[1]
    start = np.zeros(events + 1, np.int64)
    found = np.empty(16 * events + len(always) + 64, np.int32)
    count = 0
    event = np.empty(cells.shape[0], np.int32)
    for e in range(events):
        if count + len(always) > len(found):
            found = _grown(found, count + len(always))
        found[count : count + len(always)] = always
        count += len(always)
        for a in range(cells.shape[0]):
            event[a] = cells[a, e]
        for a in attributes:
            node = size[a] + event[a]
            while node:
                first, past = node_start[node_base[a] + node], node_start[node_base[a] + node + 1]
                if count + past - first > len(found):
                    found = _grown(found, count + past - first)
                for posting in range(first, past):
                    i = postings[posting]
                    holds = True
                    for j in range(residual_start[i], residual_start[i + 1]):
                        cell = event[residual_attribute[j]]
                        if cell < residual_low[j] or cell > residual_high[j]:
                            holds = False
                            break
                        p = residual_set[j]
                        if p >= 0 and not _in_set(
                            cell, predicate_start[p], predicate_start[p + 1], range_low, range_high
                        ):
                            holds = False
                            break
                    if holds:
                        found[count] = order[i]
                        count += 1
                node >>= 1
        start[e + 1] = count
    return start, found[:count]


@kernel
def _grown(array: Int32s, needed: int) -> Int32s:
    larger = np.empty(max(needed, 2 * len(array)), np.int32)
    larger[: len(array)] = array
    return larger
