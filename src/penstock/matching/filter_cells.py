"""What one filter asks, in cells of its own: a look at a single filter, without a plan.

A plan's arrays take a millisecond to set up, whatever is in them. The cells of one filter are few, so that a set of
them is the bits of one integer, and intersections are `&`. Cells are numbered as in a plan (see `kernels`): 0 is NULL,
even ones are the filter's constants, odd ones lie between them.
"""

import itertools
from collections.abc import Hashable, Iterator, Sequence
from typing import Any

from penstock.base.labels import Key
from penstock.language.calls import CALL, Path
from penstock.language.filter_tree import Comparison, Contains, Factor, Pattern
from penstock.language.key_lines import Line, line_of
from penstock.language.normal import SignedTest, Term
from penstock.language.shapes import Shapes
from penstock.language.types import Scalar
from penstock.matching.filled_cells import is_text, next_text

FilterTest = tuple[Path | None, Any]
"""What a conjunction asks of one attribute: the path and the set of cells; or None and something that is no set."""
_Literal = tuple[Key, Key, int]  # lo, hi and over, as in `language.literals.Bounds`
_Bound = tuple[Term, list[_Literal]]


class FilterCells:
    """The cells of one filter, and what its conjunctions ask of them."""

    def __init__(self, conjunctions: list[list[_Bound]]) -> None:
        self._conjunctions = conjunctions
        self._known_filled: dict[Path, int] = {}
        cuts: dict[Path, set[Key]] = {}
        for term, literals in itertools.chain.from_iterable(conjunctions):
            if isinstance(term, Factor):
                keys = cuts.setdefault(term.attribute.path, set())
                for low, high, _ in literals:
                    keys.add(low)
                    keys.add(high)
        self._type = {
            term.attribute.path: term.attribute.type
            for term, _ in itertools.chain.from_iterable(conjunctions)
            if isinstance(term, Factor)
        }
        self._cell = {
            path: {key: 2 * n + 2 for n, key in enumerate(sorted(keys))}
            for path, keys in cuts.items()
        }

    @staticmethod
    def of(text: str, shapes: Shapes) -> "FilterCells":
        """Read a filter. FilterError if it isn't one."""
        found = shapes.one(text)
        try:
            return FilterCells(
                [
                    [
                        (t, [c.pool.convert_one(written) for c, written in own])
                        for t, own in conjunction
                    ]
                    for conjunction in found
                ]
            )
        except ValueError:
            raise shapes.error(text) from None

    def terms(self) -> Iterator[list[Term]]:
        """The terms of each conjunction, as they were read."""
        for conjunction in self._conjunctions:
            yield [term for term, _ in conjunction]

    def cuts(self, path: Path) -> list[Key]:
        """The constants that the filter compares an attribute with, ascending."""
        return list(self._cell[path])

    def conjunctions(self, exact: bool = False) -> Iterator[frozenset[FilterTest]]:
        """The tests of each conjunction that doesn't contradict itself, without those that are always true.

        If it is to be `exact`, cells without values are left out, as they are in a plan (see `canonical`).
        """
        for conjunction in self._conjunctions:
            sets: dict[Path, int] = {}
            others: list[FilterTest] = []
            for term, own in conjunction:
                if isinstance(term, Factor):
                    path = term.attribute.path
                    sets[path] = sets.get(path, -1) & self._set(term, own)
                else:
                    others.append((None, (_identity(term), own[0] if own else None)))
            if not all(sets.values()):
                continue
            always = {path: (2 << self._last(path)) - 1 for path in sets}
            tests = {p: cells for p, cells in sets.items() if cells != always[p]}
            if exact:
                tests = {path: cells & self._filled(path) for path, cells in tests.items()}
                if not all(tests.values()):
                    continue
                # Where an operator fails, not even a test is true that all its answers satisfy.
                tests = {p: c for p, c in tests.items() if c != self._filled(p) or p[0] == CALL}
            yield frozenset([*tests.items(), *others])

    def is_asked(self, test: FilterTest) -> bool:
        """Whether an operator must be called to decide it."""
        return test[0] is not None and test[0][0] == CALL

    def indexable(self, test: FilterTest) -> bool:
        """Whether an exact test leaves out a whole side of its attribute's values."""
        path, cells = test
        if path is None or path[0] == CALL:
            return False
        values = self._filled(path) & ~1
        return bool(cells & -cells > values & -values or cells.bit_length() < values.bit_length())

    def _filled(self, path: Path) -> int:
        """The cells that a value can be in; that of NULL is one of them."""
        found = self._known_filled.get(path)
        if found is None:
            type_ = self._type[path]
            cuts = self.cuts(path)
            line = line_of(type_) if isinstance(type_, Scalar) else None
            found = (2 << self._last(path)) - 1 if line is None else _filled(cuts, line)
            self._known_filled[path] = found
        return found

    def _last(self, path: Path) -> int:
        return 2 * len(self._cell[path]) + 1

    def _set(self, factor: Factor, own: Sequence[_Literal]) -> int:
        path = factor.attribute.path
        cell, last = self._cell[path], self._last(path)
        ranges = []
        for piece, (lo, hi, over) in zip(factor.pieces, own, strict=True):
            low, high = cell[lo], cell[hi]
            if piece.order == "prefix":
                high = last if over else high - 1
            elif over:
                low, high = (last + 1, last) if over > 0 else (1, 0)
            ranges.append(_range(piece.order, low, high, last))
        cells = _union(ranges, last)
        if factor.negated:
            cells = (2 << last) - 2 & ~cells
        return cells | factor.null


def _filled(cuts: Sequence[Key], line: Line) -> int:
    """What `filled_cells` says of a domain, for one filter's few cuts."""
    cells = 1
    start: Key | None = None  # of the next gap
    is_end = False  # there is no value past the last cut
    for n, cut in enumerate(cuts):
        is_key = not isinstance(cut, bytes) or not line.is_text or is_text(cut)
        here = cut if is_key or not isinstance(cut, bytes) else next_text(cut)
        after = line.next(cut) if is_key else here
        cells |= (line.clip(start, here) is not None) << 2 * n + 1
        cells |= (is_key and line.clip(here, after) is not None) << 2 * n + 2
        start, is_end = after, after is None
    cells |= (not is_end and line.clip(start, None) is not None) << 2 * len(cuts) + 1
    return cells


def _range(order: str, low: int, high: int, last: int) -> tuple[int, int]:
    """The cells of a piece, where those of its literal are low .. high."""
    match order:
        case "<":
            return 1, low - 1
        case "<=":
            return 1, high
        case ">":
            return high + 1, last
        case ">=":
            return low, last
    return low, high


def _union(ranges: Sequence[tuple[int, int]], last: int) -> int:
    if len(ranges) < 64:
        cells = 0
        for low, high in ranges:
            if low <= high:
                cells |= (2 << high) - (1 << low)
        return cells
    digits = bytearray(b"0") * (last + 1)  # in time linear in their number, not quadratic
    for low, high in ranges:
        if low <= high:
            digits[last - high : last - low + 1] = b"1" * (high - low + 1)
    return int(digits, 2)


def _identity(term: SignedTest) -> Hashable:
    """What tests have in common that are one and the same derived attribute, but for the literal."""
    match term.test:
        case Contains(attribute):
            return attribute, term.holds
        case Pattern(attribute, pattern, escape):
            return attribute, pattern, escape, term.holds
        case Comparison(left, order, right):
            return left, order, right, term.holds
