"""Ordinary filters as views (section 4.4).

A filter's result are the events that it matches. It can be fed from any filter that covers it: one input, and its own
filter again. So its rewritings are its covers, and there is nothing to join. (Several covers together are no better
than one of them: each has all its events.)

    price > 10  ◀─  price > 20  ◀─  price > 30 AND symbol = 'A'            rewritings of the last: one from each of two

Covers are found in the index of `covering`, one after the other; of those looked at, the deepest are kept: with the
longest chain of covers above them, so the fewest events that the filter has to throw away again. An order in which
covers come before what they cover always exists: covering is a partial order, and of equal filters only earlier ones
cover later ones. A filter that matches nothing has no rewriting; nobody needs to feed it.

Key-value subscriptions (`topic = 'sport' AND location = 'England'`) need nothing of this: they are patterns.
"""

import numpy as np
import pyarrow as pa

from penstock.arrays import Bools, Int32s, Int64s
from penstock.covering.boxes import Boxes
from penstock.covering.cover_index import CoverIndex, build_index, first_cover
from penstock.errors import PenstockError
from penstock.jit import kernel
from penstock.language import Schema
from penstock.matching import FOREVER, Matcher, Rows, compile_plan
from penstock.matching.sharing import offsets
from penstock.views.rewriting.rewriting import MOST_REWRITINGS
from penstock.views.rewriting_graph import RewritingGraph

_LOOKED_AT = 3  # times as many covers as are kept


def filter_rewritings(boxes: Boxes, most: int = MOST_REWRITINGS) -> RewritingGraph:
    """Which filters can be fed from which; region r of the boxes is view r. At most so many rewritings of each.

    >>> from penstock.covering.boxes import BoxStore
    >>> same = np.zeros(3, np.int32)
    >>> boxes = BoxStore.of(np.arange(4), same, np.array([1, 2, 3]), np.array([9, 5, 4])).boxes
    >>> graph = filter_rewritings(boxes)
    >>> graph.first.tolist(), graph.inputs.tolist(), graph.rank.tolist()
    ([0, 0, 1, 3], [0, 1, 0], [0, 1, 2])
    """
    if most < 1:
        raise PenstockError(f"{most} rewritings of a filter: ask for one at least")
    regions = np.flatnonzero(np.diff(boxes.region_start))
    count = len(boxes.region_start) - 1
    if not len(regions):
        nothing = np.empty(0, np.int32)
        order = np.arange(count, dtype=np.int32)
        return RewritingGraph(np.zeros(count + 1, np.int64), np.zeros(1, np.int64), nothing, order)
    first, covers = _first_covers(boxes, build_index(boxes, regions), count, _LOOKED_AT * most)
    depth = _depths(first, covers)
    first, covers = _deepest(first, covers, depth, most)
    rank = np.empty(count, np.int32)
    rank[np.lexsort((np.arange(count), depth))] = np.arange(count, dtype=np.int32)
    return RewritingGraph(first, np.arange(len(covers) + 1), covers, rank)


@kernel
def _first_covers(boxes: Boxes, index: CoverIndex, count: int, most: int) -> tuple[Int64s, Int32s]:
    """For each region some that cover it. Those found are put aside, so that the next search finds another."""
    live = np.ones(count, np.bool_)
    found, size = np.empty(1024, np.int32), 0
    sizes = np.zeros(count, np.int64)
    for r in range(count):
        before = size
        while size - before < most:
            cover = first_cover(boxes, index, live, r)
            if cover < 0:
                break
            live[cover] = False
            if size == len(found):
                found = np.concatenate((found, np.empty(size, np.int32)))
            found[size] = cover
            size += 1
        for i in range(before, size):
            live[found[i]] = True
        sizes[r] = size - before
    first = np.zeros(count + 1, np.int64)
    first[1:] = np.cumsum(sizes)
    return first, found[:size].copy()


@kernel
def _depths(first: Int64s, covers: Int32s) -> Int32s:
    """How many covers stand above each region at most, one covering the next; those found, that is."""
    count = len(first) - 1
    depth, done = np.zeros(count, np.int32), np.zeros(count, np.bool_)
    stack = np.empty(count, np.int64)
    for r in range(count):
        stack[0], height = r, 1
        while height:
            top = stack[height - 1]
            waits = False
            if not done[top]:
                for i in range(first[top], first[top + 1]):
                    depth[top] = max(depth[top], depth[covers[i]] + 1)
                    if not done[covers[i]]:
                        stack[height] = covers[i]
                        waits = True
                        break
            if waits:
                height += 1
            else:
                done[top] = True
                height -= 1
    return depth


def _deepest(first: Int64s, covers: Int32s, depth: Int32s, most: int) -> tuple[Int64s, Int32s]:
    """Of each region's covers the deepest, those first."""
    owner = np.repeat(np.arange(len(first) - 1), np.diff(first))
    order = np.lexsort((covers, -depth[covers], owner))
    place = np.arange(len(order)) - first[owner]
    kept = order[place < most]
    return offsets(np.bincount(owner[kept], minlength=len(first) - 1)), covers[kept]


# --- evaluation ----------------------------------------------------------------------------------


def filter_matcher(text: str, schema: Schema) -> Matcher:
    """What decides a filter, to be kept as long as its view: see `evaluate_filter`. FilterError if it can't be read."""
    plan, errors = compile_plan(Rows.of([(0, "", text, FOREVER)]), schema)
    if errors:
        raise errors[0][1]
    return Matcher(plan, "naive")  # of one filter there is nothing to index


def evaluate_filter(matcher: Matcher, events: pa.RecordBatch) -> pa.RecordBatch:
    """A filter's events from those of a filter that covers it. Pure.

    >>> matcher = filter_matcher("price > 5", Schema.of({"price": "double"}))
    >>> evaluate_filter(matcher, pa.RecordBatch.from_pydict({"price": [4.0, 6.0]})).to_pydict()
    {'price': [6.0]}
    """
    found = matcher.match_batch(events)
    lengths: Int64s = np.diff(found.offsets.to_numpy())
    kept: Bools = lengths > 0
    return events if kept.all() else events.filter(pa.array(kept))
