"""The diagram for a block of events: one bit per event, every node once.

For each attribute that lowest nodes test, the events are sorted by their cells of it: then a lowest node is true for
one run of events (see `mbd_tables`). From there the diagram is climbed depth first: a node's bits are those of the node
below it, AND those of its predicate; where none is left, nothing above is visited. Only the nodes on the way up to the
current one have bits, as a list of the words that aren't zero. So memory is bounded by the longest conjunction,
whatever the size of the diagram, and a node costs as many ANDs as there are words left below it.

Where bits are a superset, because bands are wide, events are verified at the outputs, by their ranks. An attribute that
few nodes test gets no table; these nodes test their events one by one. A chain of nodes without a branch or an output
is climbed three nodes at a step, which saves storing the words in between.

Not a bitmap per node: the diagram of a million conjunctions has three million nodes, and a block 64 words and more. Not
one order of events for all: most words of a lowest node, and of all above it, would be zero.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numba.cpython.unsafe.numbers import trailing_zeros

from penstock.base.arrays import AnyArray, Int32s, Int64s, UInt64s, read_only
from penstock.base.jit import kernel
from penstock.matching.engines.batch import order_by_cell
from penstock.matching.engines.entries import PlanConjunctions
from penstock.matching.engines.mbd_diagram import TRUE, Diagram
from penstock.matching.engines.mbd_tables import (
    RUN,
    TABLE,
    Block,
    fill_table,
    prepare_block,
    rank_events,
    ranks_of_cells,
    set_of,
)
from penstock.matching.engines.mbd_words import (
    and_one,
    and_ranges,
    and_tested,
    and_three,
    append_run,
    path_holds,
    rows_of,
)
from penstock.matching.kernels import grow_array
from penstock.matching.plan import Plan
from penstock.matching.predicate_index import PredicateIndex

_LEAST_USES = (
    8  # an attribute gets no table if fewer nodes above the lowest ones of another test it
)
_MOST_RANGES = 16  # the events of a set with more ranges are tested one by one


class Lowest(NamedTuple):
    """The attributes that lowest nodes test: the nodes first[n] .. first[n + 1] test the n-th of them, attribute[n].

    For i from table_start[n] to table_start[n + 1], uses[i] nodes above these test the attribute tested[i].
    """

    attribute: Int32s
    first: Int32s
    table_start: Int32s
    tested: Int32s
    uses: Int32s

    @staticmethod
    def of(arrays: Mapping[str, AnyArray]) -> "Lowest":
        """From what `build_lowest` built, perhaps mapped from files."""
        return Lowest(*(read_only(arrays[f"lowest_{name}"]) for name in Lowest._fields))


def build_lowest(plan: Plan, diagram: Diagram, number: Int32s) -> dict[str, AnyArray]:
    """The arrays of `Lowest` by name; `number` is the number of each predicate of the plan's conjunctions."""
    attribute_of = np.zeros(int(number.max(initial=-1)) + 1, np.int32)
    attribute_of[number] = plan.tested_attribute
    higher = int(diagram.above[1])
    attribute = attribute_of[diagram.predicate[1:higher]]
    changes = np.diff(attribute, prepend=-1) != 0
    group = np.zeros(len(diagram.predicate), np.int64)
    group[1:higher] = np.cumsum(changes) - 1
    _spread_upwards(diagram.above, group)
    pairs, uses = np.unique(
        group[higher:] * plan.attributes + attribute_of[diagram.predicate[higher:]],
        return_counts=True,
    )
    pairs, uses = pairs[uses >= _LEAST_USES], uses[uses >= _LEAST_USES]
    first = np.flatnonzero(changes)
    starts = np.searchsorted(pairs, np.arange(len(first) + 1) * plan.attributes)
    return {
        "lowest_attribute": attribute[first],
        "lowest_first": np.append(first + 1, higher).astype(np.int32),
        "lowest_table_start": starts.astype(np.int32),
        "lowest_tested": (pairs % max(1, plan.attributes)).astype(np.int32),
        "lowest_uses": uses.astype(np.int32),
    }


@kernel
def _spread_upwards(above: Int32s, group: Int64s) -> None:
    """Give every node the group of the lowest one under it."""
    for n in range(1, len(group)):
        for m in range(above[n], above[n + 1]):
            group[m] = group[n]


class Stack(NamedTuple):
    """The nodes on the way up to the current one.

    `at` has the next lowest node, and the depth, which is -1 when that node is to be begun. At every depth: `next_node`
    and `past_node` are the nodes above that are still to be visited, and the words of the node below them end at
    `past_word`. `word` has the number of each word, `bits` the word itself; there is room for all words at every depth.
    `path` has the predicates so far whose bits are a superset (table or ~set, first and past rank), up to `path_end`.
    """

    at: Int64s
    next_node: Int64s
    past_node: Int64s
    past_word: Int64s
    path_end: Int64s
    path: Int64s
    word: UInt64s
    bits: UInt64s


@kernel
def _empty_stack(longest: int, words: int) -> Stack:
    depths = longest + 1
    return Stack(
        np.zeros(2, np.int64),
        np.zeros(depths, np.int64),
        np.zeros(depths, np.int64),
        np.zeros(depths, np.int64),
        np.zeros(depths, np.int64),
        np.empty((depths, 3), np.int64),
        np.empty(depths * words, np.uint64),
        np.empty(depths * words, np.uint64),
    )


@kernel
def match_block(
    cells: Int32s,
    index: PredicateIndex,
    set_predicate: Int32s,
    diagram: Diagram,
    lowest: Lowest,
    conjunctions: PlanConjunctions,
    last: Int64s,
    longest: int,
    most: int,
) -> tuple[Int32s, Int32s]:
    """The pairs of event and conjunction for a block, until there are more than `most`.

    `longest`: the most predicates that a conjunction has.
    """
    events = cells.shape[1]
    ranks = rank_events(cells, last)
    block = prepare_block(cells, ranks, lowest.tested, index, set_predicate, conjunctions, last)
    stack = _empty_stack(longest, block.words)
    order = np.empty(events, np.int32)
    event, found = np.arange(events).astype(np.int32), np.zeros(events, np.int32)
    count = events if diagram.output[TRUE] >= 0 else 0
    for n in range(len(lowest.attribute)):
        a, first, past = lowest.attribute[n], lowest.first[n], lowest.first[n + 1]
        order_by_cell(cells[a], ranks.table[ranks.base[a] : ranks.base[a + 1]], order)
        cell_ranks = ranks_of_cells(ranks, a, last[a])
        in_runs = _events_in_runs(diagram.predicate[first:past], block.known, cell_ranks, events)
        block.filled[:] = False
        for i in range(lowest.table_start[n], lowest.table_start[n + 1]):
            # To fill a table costs about as much as to test each event once.
            if lowest.uses[i] * in_runs > events * (past - first):
                fill_table(block, block.table_of[lowest.tested[i]], order)
        stack.at[0], stack.at[1] = first, -1
        while count <= most and (stack.at[0] < past or stack.at[1] >= 0):
            if count + events > len(found):
                event, found = grow_array(event, count + events), grow_array(found, count + events)
            count = _climb(
                past, stack, index, diagram, conjunctions, block, cell_ranks, cells, order,
                event, found, count,
            )  # fmt: skip
    return event[:count], found[:count]


@kernel
def _events_in_runs(predicate: Int32s, known: Int32s, cell_ranks: Int32s, events: int) -> int:
    """How many events the lowest nodes with these predicates have, all together. Sets count as if they had all."""
    total = 0
    for p in predicate:
        first, past = known[p, RUN] >> 16, known[p, RUN] & 0xFFFF
        if set_of(known[p, TABLE]) >= 0:
            total += events
        elif len(cell_ranks):
            total += cell_ranks[past] - cell_ranks[first]
        else:
            total += past - first
    return total


@kernel
def _climb(
    past_lowest: int,
    stack: Stack,
    index: PredicateIndex,
    diagram: Diagram,
    conjunctions: PlanConjunctions,
    block: Block,
    cell_ranks: Int32s,
    cells: Int32s,
    order: Int32s,
    event: Int32s,
    found: Int32s,
    count: int,
) -> int:
    """Visit lowest nodes, and the nodes above them, until all are done or there may be no room for more pairs.

    The stack says where to begin, and is left so that the next call goes on there. Returns how many pairs there are.
    """
    # The arrays of tuples get names of their own: a loop that takes them from a tuple counts references at every turn.
    at, next_node, past_node, past_word, path_end, path, word, bits = stack
    predicate, above, output = diagram.predicate, diagram.above, diagram.output
    set_start, set_attribute = conjunctions.set_start, conjunctions.set_attribute
    words, known, range_run, table_of, attribute, shift, rank, tables, filled = block
    low, high = index.low, index.high
    narrow = len(cell_ranks) > 0
    zeros, ones = len(tables) - 2 * words, len(tables) - words
    node, depth = at[0], at[1]
    while count + len(order) <= len(found):
        if depth < 0:
            if node == past_lowest:
                break
            n = node
            node += 1
            start, past, ways = 0, 0, 0
            run, s = known[predicate[n], RUN], set_of(known[predicate[n], TABLE])
            for r in range(set_start[s] if s >= 0 else 0, set_start[s + 1] if s >= 0 else 1):
                if s >= 0:
                    run = range_run[r]
                first, end = run >> 16, run & 0xFFFF
                if narrow:
                    first, end = cell_ranks[first], cell_ranks[end]
                if first < end:
                    past = append_run(first, end, word, bits, past)
        else:
            n = next_node[depth]
            if n == past_node[depth]:
                depth -= 1
                continue
            next_node[depth] = n + 1
            source, past_source, ways = depth * words, past_word[depth], path_end[depth]
            start = source + words
            t, run = known[predicate[n], TABLE], known[predicate[n], RUN]
            if t >= 0 and filled[t]:
                below, up_to, ways = rows_of(t, run, shift[t], words, path, ways)
                below1, up_to1, below2, up_to2 = zeros, ones, zeros, ones
                steps = 0
                up = above[n]
                while steps < 2 and above[n + 1] - up == 1 and output[n] < 0:
                    t, run = known[predicate[up], TABLE], known[predicate[up], RUN]
                    if t < 0 or not filled[t]:
                        break
                    n = up
                    up = above[n]
                    below2, up_to2 = below1, up_to1
                    below1, up_to1, ways = rows_of(t, run, shift[t], words, path, ways)
                    steps += 1
                if steps:
                    past = and_three(
                        tables, below, up_to, below1, up_to1, below2, up_to2, word, bits, source,
                        past_source, start,
                    )  # fmt: skip
                else:
                    past = and_one(tables, below, up_to, word, bits, source, past_source, start)
            else:
                s = set_of(t)
                a = set_attribute[s] if s >= 0 else attribute[t] if t >= 0 else ~t >> 1
                t = table_of[a]
                few = s >= 0 and set_start[s + 1] - set_start[s] <= _MOST_RANGES
                if few and t >= 0 and filled[t]:
                    path[ways, 0] = ~s
                    ways += shift[t] > 0
                    past = and_ranges(
                        tables, t, shift[t], words, range_run, set_start[s], set_start[s + 1], word,
                        bits, source, past_source, start,
                    )  # fmt: skip
                else:
                    past = and_tested(
                        a, low[predicate[n]], high[predicate[n]], s, conjunctions, cells, order,
                        word, bits, source, past_source, start,
                    )  # fmt: skip
        if past == start:
            continue
        depth += 1
        past_word[depth], path_end[depth] = past, ways
        next_node[depth], past_node[depth] = above[n], above[n + 1]
        conjunction = output[n]
        if conjunction >= 0:
            for k in range(start, past):
                x, place = bits[k], np.int64(word[k] << np.uint64(6))
                while x:
                    e = order[place + trailing_zeros(x)]
                    x &= x - np.uint64(1)
                    event[count], found[count] = e, conjunction
                    count += path_holds(e, path, ways, rank, cells, set_attribute, conjunctions)
    at[0], at[1] = node, depth
    return count
