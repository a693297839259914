"""In which order a tree tests attributes, and which of them it factors out.

The order is global, as in tree §3: a conjunction that tests few attributes then shares its path with the others that
test the same ones. First come the attributes whose edges are worth most (see `tree_items.weight_of`): those that most
conjunctions test, by points rather than ranges, and by many different ones rather than few.

Factoring (tree §5): an index attribute comes first and gets a separate tree for each of its values (and one for all
other cells), so that no event follows a don't-care edge there. Conjunctions that don't test the attribute are copied
into all of these trees. So factoring pays only for attributes that nearly every conjunction compares with one of a few
constants.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from penstock.base.arrays import Int32s, Int64s, offsets
from penstock.base.jit import kernel
from penstock.matching.engines.tree_items import KEY, LOW, NO_EDGE, OF, Items, is_point, weight_of

_AUTO_COPIES = 1.5  # conjunctions after factoring, per conjunction, if the number of index attributes is left to us …
_MOST_COPIES = 4.0  # … and if it was asked for
_MOST_INDEXES = 2

Floats = npt.NDArray[np.float64]


class TreeStatistics(NamedTuple):
    """For each attribute, counts of the predicates on it."""

    edges: Int64s  # how many predicates have one
    worth: Int64s  # and what they are worth
    beginnings: Int64s  # different cells where those predicates begin
    points: Int64s  # different points


def statistics(items: Items, last: Int64s) -> TreeStatistics:
    """Counted in one pass. `last` are the last cells of the attributes."""
    return TreeStatistics(*_count(items, offsets(last + 1)))


@kernel
def _count(items: Items, base: Int64s) -> tuple[Int64s, Int64s, Int64s, Int64s]:
    attributes = len(base) - 1
    edges, worth = np.zeros(attributes, np.int64), np.zeros(attributes, np.int64)
    beginnings, points = np.zeros(attributes, np.int64), np.zeros(attributes, np.int64)
    seen = np.zeros(base[-1], np.uint8)  # 1: something begins there, 2: there is a point
    for p in range(len(items.predicates)):
        if items.predicates[p, KEY] == NO_EDGE:
            continue
        a = items.predicates[p, OF]
        place = base[a] + items.predicates[p, LOW]
        edges[a] += 1
        worth[a] += weight_of(items.predicates, p)
        beginnings[a] += not seen[place] & 1
        seen[place] |= 1
        if is_point(items.predicates, p):
            points[a] += not seen[place] & 2
            seen[place] |= 2
    return edges, worth, beginnings, points


def as_given(found: TreeStatistics) -> Int32s:
    """The attributes that there are edges for, by number."""
    return np.flatnonzero(found.edges).astype(np.int32)


def by_worth(found: TreeStatistics) -> Int32s:
    """The same, those that separate best first; of equals, the first."""
    sequence = as_given(found)
    worth = found.worth * (1 - 0.5 / np.maximum(1, found.beginnings))
    return sequence[np.argsort(-worth[sequence], kind="stable")]


def index_attributes(items: Items, found: TreeStatistics, wanted: str) -> list[int]:
    """The attributes to factor out: "auto", or at most so many. The first makes the fewest copies, and so on."""
    copies, most = (_AUTO_COPIES, _MOST_INDEXES)
    if wanted != "auto":
        copies, most = _MOST_COPIES, int(wanted)
    chosen: list[int] = []
    parts = np.ones(len(items.number))  # how many copies there are of each conjunction
    while len(chosen) < most:
        with_point = _sums_of_points(items, parts, len(found.points))
        totals = with_point + (parts.sum() - with_point) * (found.points + 1)
        # One value would separate next to nothing.
        totals[found.points < 2] = np.inf
        totals[chosen] = np.inf
        best = int(np.argmin(totals)) if len(totals) else -1
        if best < 0 or totals[best] > copies * len(parts):
            break
        chosen.append(best)
        _multiply(items, parts, best, float(found.points[best] + 1))
    return chosen


@kernel
def _sums_of_points(items: Items, parts: Floats, attributes: int) -> Floats:
    """For each attribute, what conjunctions with a point of it sum up to."""
    sums = np.zeros(attributes)
    for c in range(len(parts)):
        for p in range(items.start[c], items.start[c + 1]):
            if is_point(items.predicates, p):
                sums[items.predicates[p, OF]] += parts[c]
    return sums


@kernel
def _multiply(items: Items, parts: Floats, a: int, trees: float) -> None:
    """Copy the conjunctions without a point of an attribute into all trees."""
    for c in range(len(parts)):
        follows = False
        for p in range(items.start[c], items.start[c + 1]):
            follows |= items.predicates[p, OF] == a and is_point(items.predicates, p)
        if not follows:
            parts[c] *= trees
