"""The conditions of selects of one shape on a table, given their literals: of one select, or of many by columns.

    shape      WHERE PER BETWEEN ① AND ② AND Rating >= ③ AND Analyst <> ④
    literals   45, 70, 6, 'bob'                  PER      45 … 70     20 … 30.5      an interval for each select
               20, 30.5, 8, 'eve'                Rating    6 …         8 …
                                                 Analyst  residual: select by select, equal ones once

`one_side` is the definition. Most conjuncts are nothing but comparisons with literals. These are read by columns: the
literals of a column are converted together, and two comparisons of one attribute are intersected together
(`range_columns`). A select with a literal that can't be converted, or that lies at the very end of 64 bits, is left to
`one_side`.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import repeat

import numpy as np

from penstock.base.arrays import Bools, Int64s
from penstock.base.errors import FilterError
from penstock.covering.reading import region_of
from penstock.covering.regions import HIDDEN, Region, boxes_meet
from penstock.joins.axes import BEYOND, HIGHEST, LOWEST, NOWHERE, has_coordinates
from penstock.joins.select_shapes import Conjunct, LiteralComparison
from penstock.joins.subscription import NEVER, Side
from penstock.language.factor_values import literal_values
from penstock.language.key_lines import line_of
from penstock.language.pools import Pool
from penstock.language.shapes import Shapes
from penstock.language.values import NOTHING, Values
from penstock.matching.domains import has_text_keys

Lifted = Sequence[str]
"""The literals of one select, as written."""
_LONG = 4_096  # characters: a longer condition is read again as a filter, and not remembered
_REMEMBERED = 20_000  # conditions of a table
_Read = tuple[str, Region]  # of a conjunct: its text, and the tuples that satisfy it


class SideReader:
    """Reads the conditions of selects on one table."""

    def __init__(self, table: str, filters: Shapes) -> None:
        self._table = table
        self._filters = filters
        self._never = Side(table, (), NEVER)
        self._regions: dict[str, Region] = {}  # of conditions, by their text

    def one_side(self, conjuncts: Sequence[Conjunct], lifted: Lifted) -> Side:
        """The side of one select. ValueError if a literal is wrong, FilterError if conditions are too many together."""
        return self._side({}, [self._read(c, lifted) for c in conjuncts])

    def many_sides(
        self, conjuncts: Sequence[Conjunct], lifted: Sequence[Lifted]
    ) -> tuple[list[Side], Bools]:
        """The sides of selects of one shape, and which of them are right: the other selects must be read alone."""
        comparisons = [one for c in conjuncts for one in c.comparisons]
        columns, sure = range_columns(comparisons, lifted)
        names = sorted(columns)
        ranges = zip(*(columns[name] for name in names), strict=True) if names else repeat(())
        others = [c for c in conjuncts if not c.comparisons]
        found: list[Side] = []
        for n, (own, row) in enumerate(zip(ranges, lifted, strict=False)):
            pairs = zip(names, own, strict=True)
            try:
                if others:
                    found.append(self._side(dict(pairs), [self._read(c, row) for c in others]))
                else:
                    found.append(self._ranged(tuple(pairs)))
            except (ValueError, FilterError):
                found.append(self._never)
                sure[n] = False
        return found, sure

    def _ranged(self, ranges: tuple[tuple[str, Values], ...]) -> Side:
        for _, values in ranges:
            if not values.intervals:
                return self._never
        return Side(self._table, ranges)

    def _side(self, ranges: dict[str, Values], conjuncts: Sequence[_Read]) -> Side:
        """The side with some ranges and some conjuncts, which may be ranges, too."""
        residual: list[_Read] = []
        for condition, region in conjuncts:
            if not region.boxes:
                return self._never
            if len(region.boxes) > 1 or not all(map(_is_range, region.boxes[0])):
                residual.append((condition, region))
                continue
            for (attribute,), values in region.boxes[0]:
                known = ranges.get(attribute)
                ranges[attribute] = values if known is None else values.intersection(known)
        side = self._ranged(tuple(sorted(ranges.items(), key=lambda r: r[0])))
        if not residual or side is self._never:
            return side
        return self._with_residual(side, residual)

    def _with_residual(self, side: Side, residual: list[_Read]) -> Side:
        condition, rest = residual[0]
        if len(residual) > 1 or len(condition) > _LONG:
            condition = " AND ".join(f"({one})" for one, _ in residual)
            rest = self._region(condition, lambda: self._together(condition))
        box = tuple(((attribute,), values) for attribute, values in side.ranges)
        if not any(boxes_meet(box, other) for other in rest.boxes):
            return self._never
        return Side(side.table, side.ranges, condition)

    def _together(self, condition: str) -> Region:
        try:  # together they may be too large for a filter
            return region_of(self._filters.one(condition))
        except FilterError as error:
            reason = f"the conditions on {self._table!r} together: {error.reason}"
            raise FilterError(condition, reason, hint=error.hint) from None

    def _read(self, conjunct: Conjunct, lifted: Lifted) -> _Read:
        condition = conjunct.text(lifted)
        return condition, self._region(condition, lambda: conjunct.region(lifted))

    def _region(self, condition: str, read: Callable[[], Region]) -> Region:
        """The tuples that satisfy a condition; remembered, as the same conditions come again and again."""
        found = self._regions.get(condition)
        if found is None:
            found = read()
            if len(self._regions) >= _REMEMBERED:
                self._regions.clear()
            if len(condition) < _LONG:
                self._regions[condition] = found
        return found


def _is_range(test: tuple[tuple[str, ...], Values]) -> bool:
    """Whether a test of a box is one interval of a column, whose ends have coordinates."""
    path, values = test
    return (
        len(path) == 1
        and not path[0].startswith(HIDDEN)
        and len(values.intervals) == 1
        and not values.null
        and has_coordinates(values)
    )


# --- columns -----------------------------------------------------------------------------------


def range_columns(
    comparisons: Sequence[LiteralComparison], lifted: Sequence[Lifted]
) -> tuple[dict[str, list[Values]], Bools]:
    """The values that selects of one shape accept of each attribute they compare; for which selects these are right."""
    sure = np.ones(len(lifted), np.bool_)
    numbers: dict[str, tuple[Int64s, Int64s]] = {}
    found: dict[str, list[Values]] = {}
    for comparison in comparisons:
        name, texts = comparison.attribute, comparison.texts(lifted)
        if has_text_keys(comparison.column.pool.type):
            values, fine = _text_ranges(comparison, texts)
            known = found.get(name)
            found[name] = (
                values
                if known is None
                else [a.intersection(b) for a, b in zip(known, values, strict=True)]
            )
        else:
            ends, fine = _number_ranges(comparison, texts)
            first, past = numbers.get(name, ends)
            numbers[name] = np.maximum(first, ends[0]), np.minimum(past, ends[1])
        sure &= fine
    for name, (first, past) in numbers.items():
        pairs = zip(first.tolist(), past.tolist(), strict=True)
        found[name] = [_interval(*pair) for pair in pairs]
    return found, sure


def _interval(first: int, past: int) -> Values:
    if first >= past:
        return NOTHING
    return Values(((None if first == NOWHERE else first, None if past == BEYOND else past),))


def _text_ranges(comparison: LiteralComparison, texts: Sequence[str]) -> tuple[list[Values], Bools]:
    """The values for which a comparison with each literal is true, and which literals can be read."""
    pool, order = comparison.column.pool, comparison.order
    found: dict[str, Values] = {}
    for text in set(texts):
        with suppress(ValueError):
            found[text] = literal_values(pool, order, text)
    fine = np.array([text in found for text in texts], np.bool_)
    return [found.get(text, NOTHING) for text in texts], fine


def _number_ranges(
    comparison: LiteralComparison, texts: Sequence[str]
) -> tuple[tuple[Int64s, Int64s], Bools]:
    """The same for types whose keys are integers: where each interval begins, and where it ends.

    For each literal it is the same as `Line.interval`. NOWHERE and BEYOND stand for no end.
    """
    pool = Pool(texts=list(texts))
    unreadable = pool.convert(comparison.column.pool)
    assert pool.bounds is not None
    lo, hi = pool.bounds.lo, pool.bounds.hi
    fine = (np.minimum(lo, hi) > LOWEST) & (np.maximum(lo, hi) < HIGHEST)  # so not `over` either
    fine[[one.position for one in unreadable]] = False
    lo, after = np.where(fine, lo, 0), np.where(fine, hi, 0) + 1
    line, order = line_of(comparison.column.pool.type), comparison.order
    start = {">": after, ">=": lo, "=": lo}.get(order, np.full(len(lo), NOWHERE))
    end = {"<": lo, "<=": after, "=": after}.get(order, np.full(len(lo), BEYOND))
    past = BEYOND if line.past is None else min(line.past, BEYOND)
    empty = (start >= past) | (end <= line.first)
    start = np.where(start <= line.first, NOWHERE, start + (start == line.hole))
    end = np.where(end >= past, BEYOND, end + (end == line.hole))
    return (np.where(empty, BEYOND, start), np.where(empty, NOWHERE, end)), fine
