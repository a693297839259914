"""Many boxes -> a few that contain them, with as little else as possible: the mergers of mbd §5, down to a number.

mbd §5.3 merges while a merger's IMT stays under a threshold; here the number is given, and what is added is kept small.
Boxes are rows of a `projection`. In a column a box accepts a range of places, and NULL or not. In a column that all ask
single values of, it may accept a list of at most `MOST_POINTS` (IN: sources push it down as well as a range). Steps:

    1. sweep     sorted by each column in turn, a box is compared with the last `_WINDOW` before it: it is left out if
                 one of them covers it, and joined to one that differs in one column and touches. Nothing is added.
    2. frontier  the covered ones that are left (`bulk`), unless there are too many boxes for it
    3. pack      more than `_PAIRS` boxes: groups that are cut in two where that saves most, the most wasteful first,
                 by histograms of centres, as ray tracers build their trees; a group becomes its hull
    4. pairs     the two whose merger adds least become one, until there are few enough; perfect mergers always

With one column that isn't needed: the union is a list of ranges, and keeping the widest gaps is the best there is.

What a merger adds is the chance of it less that of the two. Where statistics say that nothing ever lies between, so
that all mergers look alike, places decide: `_EVEN` of every chance is spread evenly over them.
"""

import itertools
from dataclasses import dataclass

import numpy as np

from penstock.base.arrays import Bools, Float64s, Int32s, Int64s
from penstock.base.jit import kernel
from penstock.covering.boxes import BoxStore
from penstock.covering.bulk import frontier_of
from penstock.covering.distributions import Statistics
from penstock.covering.interest.packing import PlaceChances, pack
from penstock.covering.interest.pairs import decode_box, groups_of, merge
from penstock.covering.interest.projection import PlacedColumn, Projection
from penstock.covering.interest.wording import MOST_POINTS
from penstock.covering.regions import Box
from penstock.covering.values import EVERYTHING, Values

_WINDOW = 32
_FRONTIER = 50_000  # boxes whose frontier is found within a second or so
_PAIRS = 512  # boxes that are merged pair by pair
_EVEN = 0.01
_MOST_SORTS = 4  # columns that a sweep goes along


@dataclass(frozen=True, eq=False, slots=True)
class _Measures:
    """Chances as they are known, all places alike, and of both a bit."""

    known: PlaceChances
    even: PlaceChances
    mixed: PlaceChances

    @staticmethod
    def of(boxes: Projection, statistics: Statistics | None) -> "_Measures":
        asks_null: list[bool] = np.any(boxes.null & ~boxes.everything(), axis=0).tolist()
        known = [
            None if statistics is None else statistics.distributions.get(column.path)
            for column in boxes.columns
        ]
        found = [
            column.chances(distribution, asked)
            for column, distribution, asked in zip(boxes.columns, known, asks_null, strict=True)
        ]
        flat = [
            column.chances(None, asked)
            for column, asked in zip(boxes.columns, asks_null, strict=True)
        ]
        start = np.cumsum([0] + [len(before) for before, _ in found]).astype(np.int64)

        def joined(pairs: list[tuple[Float64s, float]]) -> PlaceChances:
            befores = [np.empty(0), *(before for before, _ in pairs)]
            return PlaceChances(
                start, np.concatenate(befores), np.array([null for _, null in pairs])
            )

        one, two = joined(found), joined(flat)
        mixed = PlaceChances(
            start,
            (1 - _EVEN) * one.before + _EVEN * two.before,
            (1 - _EVEN) * one.null + _EVEN * two.null,
        )
        return _Measures(one, two, mixed)


def few(boxes: Projection, most: int, statistics: Statistics | None = None) -> list[Box]:
    """At most so many boxes that contain all of these.

    None of them says anything of a column that it accepts everything of; the box () is everything.
    """
    if not len(boxes):
        return []
    everything = boxes.everything()
    if everything.all(axis=1).any():
        return [()]
    tested = np.flatnonzero(~everything.all(axis=0)).tolist()
    boxes = _listing_points(boxes.over(tested))
    if len(tested) == 1:
        return _ranges(boxes, most, _Measures.of(boxes, statistics))
    boxes = _frontier(_swept(boxes))
    measures = _Measures.of(boxes, statistics)
    if len(boxes) > max(_PAIRS, most):
        packed = pack(boxes.low, boxes.high, boxes.null, measures.mixed, max(_PAIRS, most))
        groups = groups_of(boxes, packed)
    else:
        groups = groups_of(boxes, np.arange(len(boxes)))
    kept = merge(groups, measures.mixed, most)
    return [decode_box(boxes.columns, groups, g) for g in kept.tolist()]


def _listing_points(boxes: Projection) -> Projection:
    """The same; only columns that boxes ask nothing but single values of have points to be listed.

    Where ranges are asked for as well, lists would lead astray: that of two points far apart is small, and what both
    grow into is not.
    """
    asked = ~boxes.everything() & (boxes.low <= boxes.high)
    columns = []
    for c, column in enumerate(boxes.columns):
        low, high = boxes.low[asked[:, c], c], boxes.high[asked[:, c], c]
        single = np.array_equal(low, high) and bool(column.is_point[low].all())
        columns.append(
            column if single else column._replace(is_point=np.zeros_like(column.is_point))
        )
    return Projection(tuple(columns), boxes.low, boxes.high, boxes.null)


# --- one column ----------------------------------------------------------------------------------


def _ranges(boxes: Projection, most: int, measures: _Measures) -> list[Box]:
    """The union of what boxes of one column accept, less its smallest gaps: the least chance that can be added."""
    (column,) = boxes.columns
    null = bool(boxes.null.any())
    valued = boxes.low[:, 0] <= boxes.high[:, 0]
    low, high = _united(boxes.low[valued, 0], boxes.high[valued, 0])
    if not len(low):
        return [((column.path, Values((), null)),)]
    known, even = measures.known.before, measures.even.before
    gaps = [known[low[1:]] - known[high[:-1] + 1], even[low[1:]] - even[high[:-1] + 1]]
    widest = np.lexsort((-gaps[1], -gaps[0]))[: most - 1]
    first = np.concatenate([[0], np.sort(widest) + 1, [len(low)]]).astype(np.int64)
    found: list[Box] = []
    for number, (start, past) in enumerate(itertools.pairwise(first.tolist())):
        values = _values(column, low[start:past], high[start:past], null and number == 0)
        if values == EVERYTHING:
            return [()]
        found.append(((column.path, values),))
    return found


def _united(low: Int32s, high: Int32s) -> tuple[Int32s, Int32s]:
    """Ranges in any order as ascending ones with places between them."""
    order = np.argsort(low, kind="stable")
    low, reach = low[order], np.maximum.accumulate(high[order])
    opens = np.ones(len(low), np.bool_)
    opens[1:] = low[1:] > reach[:-1] + 1
    closes = np.append(opens[1:], True)
    return low[opens], reach[closes[: len(low)]]


def _values(column: PlacedColumn, low: Int32s, high: Int32s, null: bool) -> Values:
    """Several ranges as the values of one box: themselves if they are a few points, else their hull."""
    if len(low) > 1 and int((high - low + 1).sum()) <= MOST_POINTS:
        places = np.concatenate([np.arange(a, b + 1) for a, b in zip(low, high, strict=True)])
        if column.is_point[places].all():
            intervals = [i for p in places for i in column.values(p, p).intervals]
            return Values.of(intervals, null)
    return Values(column.values(int(low[0]), int(high[-1])).intervals, null)


# --- what adds nothing ---------------------------------------------------------------------------


def _swept(boxes: Projection) -> Projection:
    """Without boxes that a near one covers, and with those joined that are one box together."""
    low, high, null = boxes.low.copy(), boxes.high.copy(), boxes.null.copy()
    columns = range(low.shape[1])
    # Columns that tell most boxes apart first: what is equal in them lies together.
    spread = [len(np.unique(low[:, c])) + len(np.unique(high[:, c])) for c in columns]
    order = sorted(columns, key=lambda c: spread[c])
    for _ in range(3):
        before = len(low)
        for turn in range(min(len(order), _MOST_SORTS)):
            along = order[turn:] + order[:turn]
            keys = [key for c in reversed(along) for key in (-high[:, c], low[:, c])]
            kept = _sweep(low, high, null, np.lexsort(keys))
            low, high, null = low[kept], high[kept], null[kept]
        if len(low) > 0.9 * before:
            break
    return Projection(boxes.columns, low, high, null)


@kernel
def _sweep(low: Int32s, high: Int32s, null: Bools, order: Int64s) -> Int64s:
    """Which rows are left; they may have grown by others that were joined to them."""
    kept = np.empty(len(order), np.int64)
    count = 0
    for row in order:
        found = False
        for k in range(count - 1, max(count - 1 - _WINDOW, -1), -1):
            other = kept[k]
            differing = _differing(low, high, null, other, row)
            if differing == -1:
                found = True
            elif differing >= 0:
                c = differing
                low[other, c] = min(low[other, c], low[row, c])
                high[other, c] = max(high[other, c], high[row, c])
                null[other, c] |= null[row, c]
                found = True
            if found:
                break
        if not found:
            kept[count] = row
            count += 1
    return kept[:count]


@kernel
def _differing(low: Int32s, high: Int32s, null: Bools, a: int, b: int) -> int:
    """-1 if a covers b; the only column in which they differ if the hull there adds nothing; else -2."""
    column, covers = -1, True
    for c in range(low.shape[1]):
        same = low[a, c] == low[b, c] and high[a, c] == high[b, c] and null[a, c] == null[b, c]
        if same:
            continue
        inside = low[a, c] <= low[b, c] and high[b, c] <= high[a, c]
        covers = covers and inside and (null[a, c] or not null[b, c])
        if column == -1:
            column = c
            is_empty = low[a, c] > high[a, c] or low[b, c] > high[b, c]
            touching = max(low[a, c], low[b, c]) <= min(high[a, c], high[b, c]) + 1
            if not (is_empty or touching):
                column = -2
        else:
            column = -2
        if column == -2 and not covers:
            return -2
    return -1 if covers else column


def _frontier(boxes: Projection) -> Projection:
    """Without the boxes that another covers; those that accept no value of some column are taken to be uncovered."""
    if not 1 < len(boxes) <= _FRONTIER:
        return boxes
    rows = len(boxes)
    # Two attributes for each column: the places, and whether NULL (1) is accepted beside a value (0).
    last = np.array([len(column.cell) - 1 for column in boxes.columns])
    places = (boxes.low > 0) | (boxes.high < last)
    asked = np.stack([places, ~boxes.null], axis=2).reshape(rows, -1)
    row, attribute = np.nonzero(asked)
    low = np.where(attribute % 2 == 0, boxes.low[row, attribute // 2], 0)
    high = np.where(attribute % 2 == 0, boxes.high[row, attribute // 2], 0)
    low, high = np.where(low > high, -1, low), np.where(low > high, -1, high)
    start = np.concatenate([[0], np.cumsum(asked.sum(axis=1))])
    store = BoxStore.of(start, attribute.astype(np.int32), low, high)
    return boxes.where(np.flatnonzero(frontier_of(store.boxes, np.arange(rows)) < 0))
