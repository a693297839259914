"""All views' rewritings: from the embedding graph to the rewritability graph (delta algorithms 1 and 4).

A set of views rewrites q if together they cover all of q's items (`embedding` says which a view covers). So a rewriting
is a cover, and `covers` finds the best few. Candidates are the views that embed into q and come before it in `rank`: so
no choice of rewritings has a cycle.

Of candidates that cover the same, the cheapest is preferred if the costs of views are given. Otherwise it is the last
in rank, which is the most like q, and so has the fewest tuples that q hasn't.

`rewritings_of_range` is a pure function of a range of views, given the part of the embedding graph for that range and
the rank of all: a Spark job takes a range per task, and `join_rewritings` puts the parts together.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from penstock.base.arrays import Float64s, Int32s, Int64s, UInt64s, offsets, read_only
from penstock.base.errors import PenstockError
from penstock.base.jit import kernel
from penstock.views.array_room import with_room
from penstock.views.rewriting.covers import Covers, find_covers, new_covers, new_search
from penstock.views.rewriting.embedding import (
    WORDS,
    Target,
    ViewItems,
    aim,
    cover,
    embeds,
    list_items,
    narrow,
    new_items,
    new_target,
    release,
)
from penstock.views.rewriting.embedding_graph import EmbeddingGraph
from penstock.views.rewriting.flat_patterns import MOST_NODES, FlatPatterns
from penstock.views.rewriting_graph import RewritingGraph

MOST_REWRITINGS = 30
"""The most rewritings of a view, by default: the k of delta §3.1, as in delta §5.2."""

_STEPS = 64  # candidates taken in a search, for each rewriting that is asked for


class RewritingLimits(NamedTuple):
    """Limits of the search for a view's rewritings: how many, how many of these begin alike, in how many steps."""

    most: int
    most_alike: int
    steps: int

    @staticmethod
    def of(most: int = MOST_REWRITINGS) -> "RewritingLimits":
        """At most so many rewritings of a view."""
        if most < 1:
            raise PenstockError(f"{most} rewritings of a view: ask for one at least")
        return RewritingLimits(most, max(1, most // 6), _STEPS * most)


class Preference(NamedTuple):
    """The views in the order in which they are preferred where they cover the same, and the place of each in it."""

    order: Int32s
    place: Int32s


def preference(rank: Int32s, weights: Float64s | None = None) -> Preference:
    """Cheaper views first if their costs are known, then those last in rank."""
    cost = np.zeros(len(rank)) if weights is None else weights
    if len(cost) != len(rank):
        raise PenstockError(f"{len(cost)} weights for {len(rank)} views: give one for each")
    order = np.lexsort((-rank.astype(np.int64), cost)).astype(np.int32)
    place = np.empty(len(rank), np.int32)
    place[order] = np.arange(len(rank), dtype=np.int32)
    return Preference(read_only(order), read_only(place))


class RewritingsPart(NamedTuple):
    """The rewritings of a range of views, as in `RewritingGraph`."""

    first: Int64s
    start: Int64s
    inputs: Int32s


def join_rewritings(parts: Sequence[RewritingsPart], rank: Int32s) -> RewritingGraph:
    """One graph of the parts for consecutive ranges of views."""
    nothing = np.empty(0, np.int64)
    return RewritingGraph(
        first=offsets(np.concatenate([nothing, *(np.diff(part.first) for part in parts)])),
        start=offsets(np.concatenate([nothing, *(np.diff(part.start) for part in parts)])),
        inputs=np.concatenate([np.empty(0, np.int32), *(part.inputs for part in parts)]),
        rank=rank,
    )


@kernel
def rewritings_of_range(
    flat: FlatPatterns,
    part: EmbeddingGraph,
    first: int,
    rank: Int32s,
    preferred: Preference,
    limits: RewritingLimits,
) -> RewritingsPart:
    """The rewritings of the views first, first + 1, … that `part` is the embedding graph of. Pure."""
    views = len(part.start) - 1
    counts = np.zeros(views + 1, np.int64)
    starts, inputs = np.zeros(1024, np.int64), np.empty(1024, np.int32)
    made, size = 0, 0
    target, items = new_target(len(flat.attribute)), new_items()
    for v in range(views):
        q = first + v
        candidates = _candidates(part, v, q, rank, preferred)
        aim(flat, q, target)
        list_items(flat, q, items)
        chosen, covered = _coverage(flat, q, candidates, target, items)
        release(flat, q, target)
        search = new_search(len(chosen), items.total[0], covered.shape[1])
        covers = new_covers(limits.most, items.total[0])
        find_covers(covered, items, limits.most_alike, limits.steps, search, covers)
        starts, inputs, made, size = _write(covers, chosen, starts, inputs, made, size)
        counts[v + 1] = made
    return RewritingsPart(counts, starts[: made + 1].copy(), inputs[:size].copy())


@kernel
def _candidates(
    part: EmbeddingGraph, v: int, q: int, rank: Int32s, preferred: Preference
) -> Int32s:
    """The views that may feed q, the preferred ones first."""
    places = np.empty(part.start[v + 1] - part.start[v], np.int32)
    count = 0
    for i in range(part.start[v], part.start[v + 1]):
        if rank[part.views[i]] < rank[q]:
            places[count] = preferred.place[part.views[i]]
            count += 1
    places = places[:count]
    places.sort()
    return preferred.order[places]


@kernel
def _coverage(
    flat: FlatPatterns, q: int, candidates: Int32s, target: Target, items: ViewItems
) -> tuple[Int32s, UInt64s]:
    """The candidates that cover some item of q, and the items of each."""
    words = (items.total[0] + 63) >> 6
    chosen = np.empty(len(candidates), np.int32)
    covered = np.empty((len(candidates), words), np.uint64)
    images, bits = np.empty(MOST_NODES, np.uint64), np.empty(WORDS, np.uint64)
    count = 0
    for u in candidates:
        size = flat.start[u + 1] - flat.start[u]
        nodes = flat.word[flat.start[u] :]
        if not embeds(nodes, size, flat, q, target, images):
            continue
        narrow(nodes, size, target, images)
        cover(flat, u, q, images, items, bits)
        some = False
        for w in range(words):
            covered[count, w] = bits[w]
            some |= bits[w] != 0
        if some:
            chosen[count] = u
            count += 1
    return chosen[:count], covered[:count]


@kernel
def _write(
    covers: Covers, chosen: Int32s, starts: Int64s, inputs: Int32s, made: int, size: int
) -> tuple[Int64s, Int32s, int, int]:
    """Write the covers found behind the rewritings so far, as numbers of views."""
    found = covers.found[0]
    total = covers.size[:found].sum()
    starts = with_room(starts, made + 1, found)
    inputs = with_room(inputs, size, total)
    for c in range(found):
        before = size
        for i in range(covers.size[c]):
            inputs[size] = chosen[covers.members[c, i]]
            size += 1
        inputs[before:size].sort()
        made += 1
        starts[made] = size
    return starts, inputs, made, size
