"""The boxes of a plan, projected on a few columns: tests of other columns are left out, so each box only grows.

A column's values are numbered by *places*: the filled cells of the plan in their order, without NULL.

    integers, cuts 5 and 6      cell     1     2     3     4     5
                                        .. 4   5     -     6    7 ..
                                place    0     1           2     3

So no value lies between successive places. A box b is a row of three matrices, one column each:

    low[b, c] .. high[b, c]    places, both included; NOWHERE .. -1 where it accepts no value
    null[b, c]                 whether it accepts NULL

Of a column that it doesn't test, a box accepts everything. NULL is kept apart from the places, so the hull of NULL and
5 has no value below 5. A test of several ranges (IN, <>) makes several boxes, at most `MOST_OF_ONE`: beyond that,
successive ranges are taken together, which is sound.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from penstock.base.arrays import Bools, Float64s, Int32s, Int64s, offsets
from penstock.base.jit import kernel
from penstock.base.labels import Key
from penstock.covering.boxes import NULL, Boxes
from penstock.covering.distributions import ASSUMED_NULL, Distribution, Seen, Uniform
from penstock.language.calls import Path
from penstock.language.key_lines import Line, line_of
from penstock.language.literals import INT64_MAX
from penstock.language.types import Scalar
from penstock.language.values import Values
from penstock.matching.domains import ByteStrings, Domain
from penstock.matching.filled_cells import filled_cells, is_text, next_text, text_at

NOWHERE = 2**30
"""The low of a box that accepts no value of a column; its high is -1."""

MOST_OF_ONE = 1_024  # boxes that one conjunction may become
_ENTRIES = 24_000_000  # of a matrix, whatever the number of columns
_NONE = np.empty(0, np.int32)


class PlacedColumn(NamedTuple):
    """A column and its places. `cell` has the cell of each place; `is_point` says whether it has a single key."""

    domain: Domain
    cell: Int64s
    is_point: Bools

    @staticmethod
    def of(domain: Domain) -> "PlacedColumn":
        cell = np.flatnonzero(filled_cells(domain)[1:]) + 1
        cuts = domain.cuts
        is_point = cell % 2 == 0
        if not isinstance(cuts, ByteStrings) and len(cuts) > 1:
            single = np.zeros(domain.last + 1, np.bool_)
            single[3:-1:2] = np.diff(cuts.astype(np.uint64)) == 2  # one key between two cuts
            is_point |= single[cell]
        return PlacedColumn(domain, cell, is_point)

    @property
    def path(self) -> Path:
        return self.domain.path

    def values(self, low: int, high: int) -> Values:
        """The values in places low .. high."""
        return cell_values(self.domain, int(self.cell[low]), int(self.cell[high]))

    def values_at(self, places: Int32s | Int64s, null: bool) -> Values:
        """The values in some places, and perhaps NULL."""
        return Values.of((i for p in places for i in self.values(p, p).intervals), null)

    def chances(self, known: Distribution | None, asks_null: bool) -> tuple[Float64s, float]:
        """The chance of a value in the places before each place, and in all of them; and the chance of NULL.

        Without a distribution all places are equally likely.
        """
        count = len(self.cell)
        if known is None:
            null = ASSUMED_NULL if asks_null else 0.0
            return np.arange(count + 1) / count * (1 - null), null
        before = np.concatenate([[0.0], _below(known, self._starts()), [1.0]])
        return np.maximum.accumulate(before) * (1 - known.null), known.null

    def _starts(self) -> "Int64s | list[Key | None]":
        """The first key of every place but the first. Without cuts there is none, whatever the type of keys."""
        cuts = self.domain.cuts
        if not len(cuts):
            return []
        if not isinstance(cuts, ByteStrings):
            cell = self.cell[1:]
            starts: Int64s = cuts[(cell - 2) // 2] + (cell % 2)
            return starts
        return [self.values(place, place).intervals[0][0] for place in range(1, len(self.cell))]


def _below(known: Distribution, starts: "Int64s | list[Key | None]") -> Float64s:
    """`known.below` of many keys, at once where possible."""
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


def cell_values(domain: Domain, low: int, high: int) -> Values:
    """The values in cells low .. high of a domain, of which none is 0 (NULL)."""
    if not len(domain.cuts):
        return Values(((None, None),))
    assert isinstance(domain.type, Scalar), domain.path
    line = line_of(domain.type)
    start = None if low <= 1 else _edge(domain, line, (low - 2) // 2, past=low % 2 == 1)
    end = None if high >= domain.last else _edge(domain, line, (high - 1) // 2, past=high % 2 == 0)
    if start is None and low > 1:
        return Values(())
    found = line.clip(start, end)
    return Values(() if found is None else (found,))


def _edge(domain: Domain, line: Line, cut: int, past: bool) -> Key | None:
    """The first key from a cut on, or past it; None if there is none."""
    cuts = domain.cuts
    if not isinstance(cuts, ByteStrings):
        return int(cuts[cut]) + past
    key = text_at(cuts, cut)
    if not line.is_text or is_text(key):
        return line.next(key) if past else key
    return next_text(key)


class Ranges(NamedTuple):
    """The matrices drawn above."""

    low: Int32s
    high: Int32s
    null: Bools

    def at(self, places: Any) -> "Ranges":
        """The same part of each matrix; `places` is an index of any kind."""
        low, high, null = (np.ascontiguousarray(matrix[places]) for matrix in self)
        return Ranges(low, high, null)


@dataclass(frozen=True, eq=False, slots=True)
class Projection:
    """Boxes, projected on columns."""

    columns: tuple[PlacedColumn, ...]
    ranges: Ranges

    def __len__(self) -> int:
        return len(self.ranges.low)

    def where(self, chosen: Int64s) -> "Projection":
        """Some of the boxes."""
        return Projection(self.columns, self.ranges.at(chosen))

    def over(self, chosen: Sequence[int]) -> "Projection":
        """All boxes, projected on some of the columns."""
        columns = tuple(self.columns[c] for c in chosen)
        return Projection(columns, self.ranges.at((slice(None), chosen)))

    def last(self) -> Int64s:
        """The last place of every column."""
        return np.array([len(column.cell) - 1 for column in self.columns], np.int64)

    def everything(self) -> Bools:
        """Which boxes accept everything of which columns."""
        low, high, null = self.ranges
        found: Bools = null & (low == 0) & (high == self.last())
        return found


def project(
    boxes: Boxes, chosen: Int64s, attributes: Sequence[int], columns: Sequence[PlacedColumn]
) -> Projection:
    """Project some boxes on columns, which are these attributes. Boxes that match no event are left out."""
    column_of = np.full(max(int(boxes.attribute.max(initial=-1)) + 1, 1), -1, np.int32)
    for number, attribute in enumerate(attributes):
        if attribute < len(column_of):
            column_of[attribute] = number
    before = [_places_before(column) for column in columns]
    places = _Places(
        column_of, offsets([len(one) for one in before]), np.concatenate([_NONE, *before])
    )
    most = MOST_OF_ONE
    room = max(_ENTRIES // max(1, len(columns)), len(chosen))
    counts = _counts(boxes, chosen, places, most)
    while most > 1 and int(counts.prod(axis=1).sum()) > room:
        most //= 2
        counts = _counts(boxes, chosen, places, most)
    ranges = _fill(boxes, chosen, places, counts)
    found = Projection(tuple(columns), ranges)
    possible = np.all((ranges.low <= ranges.high) | ranges.null, axis=1)
    return found if np.all(possible) else found.where(np.flatnonzero(possible))


class _Places(NamedTuple):
    """For each attribute its column, or -1; for column c, from start[c] on, how many places lie below each cell."""

    column_of: Int32s
    start: Int64s
    before: Int32s


def _places_before(column: PlacedColumn) -> Int32s:
    """How many places lie below each cell, and below one past the last."""
    filled = np.zeros(column.domain.last + 2, np.int32)
    filled[column.cell + 1] = 1
    return np.cumsum(filled, dtype=np.int32)


@kernel
def _ranges_of(boxes: Boxes, t: int) -> int:
    """The number of ranges of values that a test accepts, at least one."""
    if boxes.several[t] < 0:
        return 1
    first, past = boxes.set_start[boxes.several[t]], boxes.set_start[boxes.several[t] + 1]
    if boxes.set_high[first] == NULL:
        first += 1
    count: int = max(past - first, 1)
    return count


@kernel
def _lower(counts: Int32s, most: int) -> None:
    """Lower the numbers of ranges until they make no more than so many boxes."""
    while True:
        total, largest = 1, 0
        for c in range(len(counts)):
            total = min(total * counts[c], 1 << 40)
            if counts[c] > counts[largest]:
                largest = c
        if total <= most:
            return
        counts[largest] = max(min(most // (total // counts[largest]), counts[largest] - 1), 1)


@kernel
def _counts(boxes: Boxes, chosen: Int64s, places: _Places, most: int) -> Int32s:
    """Into how many parts each box is cut along each column."""
    counts = np.ones((len(chosen), len(places.start) - 1), np.int32)
    for i in range(len(chosen)):
        for t in range(boxes.box_start[chosen[i]], boxes.box_start[chosen[i] + 1]):
            c = places.column_of[boxes.attribute[t]]
            if c >= 0:
                counts[i, c] = min(_ranges_of(boxes, t), most)
        if counts.shape[1]:
            _lower(counts[i], most)
    return counts


@kernel
def _fill(boxes: Boxes, chosen: Int64s, places: _Places, counts: Int32s) -> Ranges:
    columns = counts.shape[1]
    total = 0
    for i in range(len(chosen)):
        total += counts[i].prod()
    found = Ranges(
        np.zeros((total, columns), np.int32),
        np.empty((total, columns), np.int32),
        np.ones((total, columns), np.bool_),
    )
    for c in range(columns):
        found.high[:, c] = places.before[places.start[c + 1] - 1] - 1
    first = 0
    for i in range(len(chosen)):
        past = first + counts[i].prod()
        for t in range(boxes.box_start[chosen[i]], boxes.box_start[chosen[i] + 1]):
            c = places.column_of[boxes.attribute[t]]
            if c < 0:
                continue
            repeat = counts[i, :c].prod()
            base, last = places.start[c], places.start[c + 1] - places.start[c] - 2
            for row in range(first, past):
                part = (row - first) // repeat % counts[i, c]
                low, high, found.null[row, c] = _part(boxes, t, part, counts[i, c])
                found.low[row, c], found.high[row, c] = NOWHERE, -1
                if low <= high:
                    low, high = min(max(low, 1), last + 1), min(high, last)
                    start, end = places.before[base + low], places.before[base + high + 1] - 1
                    if start <= end:
                        found.low[row, c], found.high[row, c] = start, end
        first = past
    return found


@kernel
def _part(boxes: Boxes, t: int, part: int, parts: int) -> tuple[int, int, bool]:
    """The ranges of a test are divided into parts: the cells of one part, and whether it has NULL."""
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
