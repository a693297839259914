"""Many boxes -> a few that contain them and little else: the mergers of mbd §5, until there are few enough.

mbd §5.3 merges while a merger's IMT stays under a threshold; here the number of boxes is given, and the chance that
mergers add is kept small.
Boxes are rows of a `projection`. In a column a box accepts a range of places, and NULL or not. In a column of which all
boxes ask for single values, it may accept a list of at most `MOST_POINTS` (IN: sources push it down as well as a
range). Steps:

    1. sweep     boxes are sorted by each column in turn, and each is compared with the last `_WINDOW` before it. It is
                 left out if one of them covers it, and joined to one that it touches if they differ in one column
                 only. Nothing is added.
    2. frontier  boxes that are still covered are left out (`bulk`), unless there are too many boxes to find them
    3. pack      more than `_PAIRS` boxes are put into groups, and each group becomes its hull. Groups are cut in two
                 where that saves most, the most wasteful first, by histograms of centres, as ray tracers build trees
    4. pairs     the two whose merger adds least become one, until there are few enough; perfect mergers are always made

With one column none of this is needed: the union is a list of ranges, and keeping the widest gaps is optimal.

A merger adds its own chance less that of the two. If statistics say that nothing ever lies between boxes, all mergers
look alike; then places decide, since the share `_EVEN` of every chance is spread evenly over them.
"""

import itertools
from collections.abc import Mapping

import numpy as np

from penstock.base.arrays import Int32s, Int64s, distinct, offsets
from penstock.base.jit import kernel
from penstock.covering.boxes import BoxStore
from penstock.covering.bulk import frontier_of
from penstock.covering.distributions import Distribution, Statistics
from penstock.covering.interest.packing import PlaceChances, pack, widen
from penstock.covering.interest.pairs import decode_box, groups_of, merge
from penstock.covering.interest.projection import PlacedColumn, Projection, Ranges
from penstock.covering.interest.wording import MOST_POINTS
from penstock.covering.regions import Box
from penstock.language.calls import Path
from penstock.language.values import EVERYTHING, Values

_WINDOW = 32
_FRONTIER = 50_000  # boxes whose frontier is found within a second or so
_PAIRS = 512  # boxes that are merged pair by pair
_EVEN = 0.01
_MOST_SORTS = 4  # columns that a sweep goes along
_COVERED, _NOT_JOINED = -1, -2  # instead of the column along which two boxes are joined


def few(boxes: Projection, most: int, statistics: Statistics | None = None) -> list[Box]:
    """At most so many boxes that contain all of these. A box has no test of a column if it accepts all its values."""
    if not len(boxes):
        return []
    everything = boxes.everything()
    if everything.all(axis=1).any():
        return [()]
    tested = np.flatnonzero(~everything.all(axis=0)).tolist()
    boxes = _listing_points(boxes.over(tested))
    if len(tested) == 1:
        return _ranges(boxes, most, *_chances(boxes, statistics))
    boxes = _frontier(_swept(boxes))
    known, even = _chances(boxes, statistics)
    before, null = (
        (1 - _EVEN) * one + _EVEN * other for one, other in zip(known[1:], even[1:], strict=True)
    )
    mixed = PlaceChances(known.start, before, null)
    group = np.arange(len(boxes))
    if len(boxes) > max(_PAIRS, most):
        group = pack(boxes.ranges, mixed, max(_PAIRS, most))
    groups = groups_of(boxes, group)
    kept = merge(groups, mixed, most)
    return [decode_box(boxes.columns, groups, g) for g in kept.tolist()]


def _chances(boxes: Projection, statistics: Statistics | None) -> tuple[PlaceChances, PlaceChances]:
    """The chances by the statistics, and those if all places were equally likely."""
    distributions = {} if statistics is None else statistics.distributions
    asks_null: list[bool] = np.any(boxes.ranges.null & ~boxes.everything(), axis=0).tolist()

    def chances(known: Mapping[Path, Distribution]) -> PlaceChances:
        found = [
            column.chances(known.get(column.path), asked)
            for column, asked in zip(boxes.columns, asks_null, strict=True)
        ]
        before = np.concatenate([before for before, _ in found])
        return PlaceChances(offsets(boxes.last() + 2), before, np.array([n for _, n in found]))

    return chances(distributions), chances({})


def _listing_points(boxes: Projection) -> Projection:
    """The same, with points listed only in columns of which boxes ask for single values and nothing else.

    Where boxes ask for ranges as well, lists would mislead: a list of two distant points has a small chance, but the
    range that it grows into has not.
    """
    low, high, _ = boxes.ranges
    asked = ~boxes.everything() & (low <= high)
    columns = list(boxes.columns)
    for c, column in enumerate(columns):
        first = low[asked[:, c], c]
        is_single = np.array_equal(first, high[asked[:, c], c])
        if not (is_single and column.is_point[first].all()):
            columns[c] = column._replace(is_point=np.zeros_like(column.is_point))
    return Projection(tuple(columns), boxes.ranges)


# --- one column ----------------------------------------------------------------------------------


def _ranges(boxes: Projection, most: int, known: PlaceChances, even: PlaceChances) -> list[Box]:
    """The union of boxes of one column, with its smallest gaps filled: this adds the least chance possible."""
    (column,) = boxes.columns
    null = bool(boxes.ranges.null.any())
    low, high = boxes.ranges.low[:, 0], boxes.ranges.high[:, 0]
    low, high = _united(low[low <= high], high[low <= high])
    if not len(low):
        return [((column.path, Values((), null)),)]
    gaps = [one.before[high[:-1] + 1] - one.before[low[1:]] for one in (even, known)]
    widest = np.lexsort(gaps)[: most - 1]
    first = np.concatenate([[0], np.sort(widest) + 1, [len(low)]]).astype(np.int64)
    found: list[Box] = []
    for number, (start, past) in enumerate(itertools.pairwise(first.tolist())):
        values = _values(column, low[start:past], high[start:past], null and number == 0)
        if values == EVERYTHING:
            return [()]
        found.append(((column.path, values),))
    return found


def _united(low: Int32s, high: Int32s) -> tuple[Int32s, Int32s]:
    """Ranges in any order, united to ascending ones with places between them."""
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
            return column.values_at(places, null)
    return Values(column.values(int(low[0]), int(high[-1])).intervals, null)


# --- mergers that add nothing --------------------------------------------------------------------


def _swept(boxes: Projection) -> Projection:
    """The boxes without those that a near one covers; near ones that are one box together are joined."""
    low, high, null = boxes.ranges
    ranges = Ranges(low.copy(), high.copy(), null.copy())
    columns = range(len(boxes.columns))
    # The columns with the fewest distinct ends come first: boxes that are equal in them lie together.
    spread = [len(distinct(ranges.low[:, c])) + len(distinct(ranges.high[:, c])) for c in columns]
    order = sorted(columns, key=lambda c: spread[c])
    for _ in range(3):
        before = len(ranges.low)
        for turn in range(min(len(order), _MOST_SORTS)):
            along = order[turn:] + order[:turn]
            keys = [k for c in reversed(along) for k in (-ranges.high[:, c], ranges.low[:, c])]
            kept = _sweep(ranges, np.lexsort(keys))
            ranges = ranges.at(kept)
        if len(ranges.low) > 0.9 * before:
            break
    return Projection(boxes.columns, ranges)


@kernel
def _sweep(boxes: Ranges, order: Int64s) -> Int64s:
    """The rows that are left; they may have grown by others that were joined to them."""
    kept = np.empty(len(order), np.int64)
    count = 0
    for row in order:
        column = _NOT_JOINED
        for k in range(count - 1, max(count - 1 - _WINDOW, -1), -1):
            column = _differing(boxes, kept[k], row)
            if column >= 0:
                widen(boxes, kept[k], boxes, row)
            if column != _NOT_JOINED:
                break
        if column == _NOT_JOINED:
            kept[count] = row
            count += 1
    return kept[:count]


@kernel
def _differing(boxes: Ranges, a: int, b: int) -> int:
    """The only column in which two boxes differ, if their hull adds nothing there; _COVERED if a covers b."""
    low, high, null = boxes
    column, covers = _COVERED, True
    for c in range(low.shape[1]):
        if low[a, c] == low[b, c] and high[a, c] == high[b, c] and null[a, c] == null[b, c]:
            continue
        inside = low[a, c] <= low[b, c] and high[b, c] <= high[a, c]
        covers = covers and inside and (null[a, c] or not null[b, c])
        is_empty = low[a, c] > high[a, c] or low[b, c] > high[b, c]
        touching = max(low[a, c], low[b, c]) <= min(high[a, c], high[b, c]) + 1
        column = c if column == _COVERED and (is_empty or touching) else _NOT_JOINED
        if column == _NOT_JOINED and not covers:
            return _NOT_JOINED
    return _COVERED if covers else column


def _frontier(boxes: Projection) -> Projection:
    """The boxes that no other covers. Those that accept no value of some column are taken to be uncovered."""
    if not 1 < len(boxes) <= _FRONTIER:
        return boxes
    low, high, null = boxes.ranges
    # Two attributes for each column: the places, and whether NULL (1) is accepted beside a value (0).
    places = (low > 0) | (high < boxes.last())
    asked = np.stack([places, ~null], axis=2).reshape(len(boxes), -1)
    row, attribute = np.nonzero(asked)
    is_null, column = attribute % 2 == 1, attribute // 2
    first = np.where(is_null, 0, low[row, column]).astype(np.int64)
    last = np.where(is_null, 0, high[row, column]).astype(np.int64)
    is_empty = first > last
    first[is_empty] = last[is_empty] = -1
    store = BoxStore.of(offsets(asked.sum(axis=1)), attribute.astype(np.int32), first, last)
    return boxes.where(np.flatnonzero(frontier_of(store.boxes, np.arange(len(boxes))) < 0))
