"""All boxes of a plan seen through a few columns: what else they ask is left out, so each box only grows.

A column's values are numbered by *places*, the filled cells of the plan in their order (`cell_keys`), without NULL:

    integers, cuts 5 and 6      cell     1     2     3     4     5
                                        .. 4   5     -     6    7 ..
                                place    0     1           2     3

so places that follow each other have nothing between them. A box b is a row of three matrices, one column each:

    low[b, c] .. high[b, c]    places, both included; EMPTY where it accepts no value
    null[b, c]                 whether it accepts NULL

Of a column that it doesn't test, a box accepts everything. NULL is kept apart from the places: the hull of NULL and 5
has nothing of what lies below 5. A test of several ranges (IN, <>) makes several boxes, at most `most` of them: past
that, ranges that follow each other are taken together, which is sound.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from penstock.base.arrays import Bools, Float64s, Int32s, Int64s
from penstock.base.jit import kernel
from penstock.base.labels import Key
from penstock.covering.boxes import NULL, Boxes
from penstock.covering.cell_keys import DomainCells
from penstock.covering.distributions import ASSUMED_NULL, Distribution, Seen, Uniform
from penstock.covering.values import Values
from penstock.language.calls import Path
from penstock.language.literals import INT64_MAX
from penstock.language.types import Type
from penstock.matching.domains import ByteStrings

NOWHERE = 2**30
"""A low without places; the high is -1 then."""

MOST_OF_ONE = 1_024  # boxes that one conjunction may become
_ENTRIES = 24_000_000  # of a matrix, whatever the number of columns


class PlacedColumn(NamedTuple):
    """A column: where it leads, and its places. `cell` has the cell of each place."""

    path: Path
    cells: DomainCells
    cell: Int64s
    is_point: Bools  # whether a place has a single key

    @staticmethod
    def of(path: Path, cells: DomainCells) -> "PlacedColumn":
        cell = np.flatnonzero(cells.value_mask()[1:]) + 1
        cuts = cells.domain.cuts
        is_point = cell % 2 == 0
        if not isinstance(cuts, ByteStrings) and len(cuts) > 1:
            single = np.zeros(cells.last + 1, np.bool_)
            single[3:-1:2] = np.diff(cuts.astype(np.uint64)) == 2  # one key between two cuts
            is_point |= single[cell]
        return PlacedColumn(path, cells, cell, is_point)

    @property
    def type(self) -> Type:
        return self.cells.domain.type

    def values(self, low: int, high: int) -> Values:
        """What lies in places low .. high."""
        return self.cells.values(int(self.cell[low]), int(self.cell[high]))

    def chances(self, known: Distribution | None, asks_null: bool) -> tuple[Float64s, float]:
        """How likely a value is in the places before each one, and in all of them; and how likely it is NULL.

        Without a distribution all places are alike.
        """
        count = len(self.cell)
        if known is None:
            null = ASSUMED_NULL if asks_null else 0.0
            return np.arange(count + 1) / count * (1 - null), null
        before = np.concatenate([[0.0], _below(known, self._starts()), [1.0]])
        return np.maximum.accumulate(before) * (1 - known.null), known.null

    def _starts(self) -> "Int64s | list[Key | None]":
        """The first key of every place but the first; none without cuts, whatever keys would be."""
        cuts = self.cells.domain.cuts
        if not len(cuts):
            return []
        if not isinstance(cuts, ByteStrings):
            cell = self.cell[1:]
            starts: Int64s = cuts[(cell - 2) // 2] + (cell % 2)
            return starts
        return [self.values(place, place).intervals[0][0] for place in range(1, len(self.cell))]


def _below(known: Distribution, starts: "Int64s | list[Key | None]") -> Float64s:
    """`known.below` of many keys at once, where that can be."""
    if isinstance(starts, list):
        return np.array([0.0 if key is None else known.below(key) for key in starts])
    if isinstance(known, Seen) and known.keys:
        return np.searchsorted(np.array(known.keys, np.int64), starts) / len(known.keys)
    if isinstance(known, Uniform):
        if isinstance(known.low, int) and isinstance(known.high, int):
            inside = np.clip(starts, known.low, known.high + 1).astype(np.float64)
            return (inside - known.low) / (float(known.high) - known.low + 1)
        bits = np.where(starts >= 0, starts, starts ^ np.int64(INT64_MAX))
        value = np.clip(np.nan_to_num(bits.view(np.float64), nan=np.inf), known.low, known.high)
        width = known.high / 2 - known.low / 2
        if not width:
            return (value > known.low).astype(np.float64)
        found: Float64s = (value / 2 - known.low / 2) / width
        return found
    return np.array([known.below(key) for key in starts.tolist()])


@dataclass(frozen=True, eq=False, slots=True)
class Projection:
    """The matrices drawn above."""

    columns: tuple[PlacedColumn, ...]
    low: Int32s
    high: Int32s
    null: Bools

    def __len__(self) -> int:
        return len(self.low)

    def where(self, chosen: Int64s) -> "Projection":
        """Some of the boxes."""
        return Projection(self.columns, self.low[chosen], self.high[chosen], self.null[chosen])

    def over(self, chosen: Sequence[int]) -> "Projection":
        """All boxes, seen through some of the columns."""
        return Projection(
            tuple(self.columns[c] for c in chosen),
            np.ascontiguousarray(self.low[:, chosen]),
            np.ascontiguousarray(self.high[:, chosen]),
            np.ascontiguousarray(self.null[:, chosen]),
        )

    def everything(self) -> Bools:
        """Of which columns each box accepts everything."""
        last = np.array([len(column.cell) - 1 for column in self.columns], np.int32)
        found: Bools = self.null & (self.low == 0) & (self.high == last)
        return found


def project(
    boxes: Boxes, chosen: Int64s, attributes: Sequence[int], columns: Sequence[PlacedColumn]
) -> Projection:
    """Some boxes, seen through columns, which are these attributes of theirs. Those without any event are left out."""
    column_of = np.full(max(int(boxes.attribute.max(initial=-1)) + 1, 1), -1, np.int32)
    for number, attribute in enumerate(attributes):
        if attribute < len(column_of):
            column_of[attribute] = number
    sizes = np.array([column.cells.last + 2 for column in columns], np.int64)
    base = np.cumsum(sizes) - sizes
    before = np.concatenate([np.empty(0, np.int32), *map(_places_before, columns)])
    most = MOST_OF_ONE
    room = max(_ENTRIES // max(1, len(columns)), len(chosen))
    pieces = _pieces(boxes, chosen, column_of, len(columns), most)
    while most > 1 and int(pieces.sum()) > room:
        most //= 2
        pieces = _pieces(boxes, chosen, column_of, len(columns), most)
    low, high, null = _fill(boxes, chosen, column_of, base, before, pieces, most)
    found = Projection(tuple(columns), low, high, null)
    possible = np.all((low <= high) | null, axis=1)
    return found if np.all(possible) else found.where(np.flatnonzero(possible))


def _places_before(column: PlacedColumn) -> Int32s:
    """How many places lie below each cell, and below one past the last."""
    filled = np.zeros(column.cells.last + 2, np.int32)
    filled[column.cell + 1] = 1
    return np.cumsum(filled, dtype=np.int32)


@kernel
def _ranges_of(boxes: Boxes, t: int) -> int:
    """Of how many ranges of values a test is, at least one."""
    if boxes.several[t] < 0:
        return 1
    first, past = boxes.set_start[boxes.several[t]], boxes.set_start[boxes.several[t] + 1]
    if boxes.set_high[first] == NULL:
        first += 1
    count: int = max(past - first, 1)
    return count


@kernel
def _share(counts: Int64s, most: int) -> int:
    """Lower the numbers of ranges until no more than so many boxes come of them; how many do."""
    while True:
        total, largest = 1, 0
        for c in range(len(counts)):
            total = min(total * counts[c], 1 << 40)
            if counts[c] > counts[largest]:
                largest = c
        if total <= most:
            return total
        counts[largest] = max(min(most // (total // counts[largest]), counts[largest] - 1), 1)


@kernel
def _pieces(boxes: Boxes, chosen: Int64s, column_of: Int32s, columns: int, most: int) -> Int64s:
    """How many boxes each box becomes."""
    found = np.empty(len(chosen), np.int64)
    counts = np.empty(max(columns, 1), np.int64)
    for i in range(len(chosen)):
        counts[:] = 1
        for t in range(boxes.box_start[chosen[i]], boxes.box_start[chosen[i] + 1]):
            c = column_of[boxes.attribute[t]]
            if c >= 0:
                counts[c] = min(_ranges_of(boxes, t), most)
        found[i] = _share(counts, most)
    return found


@kernel
def _fill(
    boxes: Boxes,
    chosen: Int64s,
    column_of: Int32s,
    base: Int64s,
    before: Int32s,
    pieces: Int64s,
    most: int,
) -> tuple[Int32s, Int32s, Bools]:
    total, columns = pieces.sum(), len(base)
    low = np.zeros((total, columns), np.int32)
    high = np.empty((total, columns), np.int32)
    null = np.ones((total, columns), np.bool_)
    for c in range(columns):
        end = base[c + 1] if c + 1 < columns else len(before)
        high[:, c] = before[end - 1] - 1
    counts = np.empty(max(columns, 1), np.int64)
    first = 0
    for i in range(len(chosen)):
        begin, past = boxes.box_start[chosen[i]], boxes.box_start[chosen[i] + 1]
        counts[:] = 1
        for t in range(begin, past):
            c = column_of[boxes.attribute[t]]
            if c >= 0:
                counts[c] = min(_ranges_of(boxes, t), most)
        _share(counts, most)
        for t in range(begin, past):
            c = column_of[boxes.attribute[t]]
            if c < 0:
                continue
            repeat = 1
            for other in range(c):
                repeat *= counts[other]
            for row in range(pieces[i]):
                part = row // repeat % counts[c]
                lo, hi, has_null = _part(boxes, t, part, counts[c])
                null[first + row, c] = has_null
                low[first + row, c], high[first + row, c] = NOWHERE, -1
                if lo <= hi:
                    last = (base[c + 1] if c + 1 < columns else len(before)) - 2 - base[c]
                    lo, hi = min(max(lo, 1), last + 1), min(hi, last)
                    start, end = before[base[c] + lo], before[base[c] + hi + 1] - 1
                    if start <= end:
                        low[first + row, c], high[first + row, c] = start, end
        first += pieces[i]
    return low, high, null


@kernel
def _part(boxes: Boxes, t: int, part: int, parts: int) -> tuple[int, int, bool]:
    """The cells of one of the parts that a test's ranges are dealt out to, and whether it has NULL."""
    s = boxes.several[t]
    if s < 0:
        low, high = boxes.low[t], boxes.high[t]
        return (1, 0, True) if high == NULL else (max(low, 1), high, low == NULL)
    first, past = boxes.set_start[s], boxes.set_start[s + 1]
    has_null = boxes.set_low[first] == NULL and part == 0
    if boxes.set_high[first] == NULL:
        first += 1
    if first == past:
        return 1, 0, has_null
    count = past - first
    low, high = first + part * count // parts, first + (part + 1) * count // parts - 1
    return max(boxes.set_low[low], 1), boxes.set_high[high], has_null
