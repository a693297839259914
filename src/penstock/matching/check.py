"""Is this a filter, and what will it cost?

A subscription that every event must be tested against costs as much as thousands that an index finds. Whoever adds one
is told, in words, before it is there.

The answer is what a plan of this one subscription would show, but no plan is made: its arrays take a millisecond to set
up, whatever is in them. The cells of one filter are few, so that a set of them is the bits of one integer, and
intersections are `&`.
"""

import itertools
from collections.abc import Hashable, Iterator, Sequence
from typing import Any

from penstock.errors import FilterError
from penstock.language.normal import SignedTest, Term
from penstock.language.schema import Schema
from penstock.language.shapes import Filters, Progress, Shapes
from penstock.language.tree import Comparison, Contains, Factor, Pattern

MANY_CONJUNCTIONS = 64

Path = tuple[str, ...]
_Key = int | bytes
_Literal = tuple[_Key, _Key, int]  # lo, hi and over, as in `language.literals.Bounds`
_Bound = tuple[Term, list[_Literal]]
_Test = tuple[Path | None, Any]


def check(text: str, schema: Schema | None = None) -> list[str]:
    """Check one filter; FilterError if it isn't one. What comes back are warnings of its cost.

    >>> check("price > 5")
    []
    >>> check("price > 5 AND price < 3")
    ['never matches: its conditions contradict each other']
    """
    shapes = Shapes.under(schema)
    found = shapes.one(text)
    try:
        conjunctions = [
            [(term, [c.pool.bound(written) for c, written in own]) for term, own in conjunction]
            for conjunction in found
        ]
    except ValueError:
        raise shapes.error(text) from None
    return _warnings(_Cells(conjunctions))


def check_many(
    texts: Filters, schema: Schema | None = None, progress: Progress | None = None
) -> list[tuple[int, FilterError]]:
    """Check many filters, reading what they have in common once. Returns the bad ones by position."""
    return Shapes.under(schema).read(texts, progress).errors


def _warnings(cells: "_Cells") -> list[str]:
    conjunctions = set(cells.conjunctions())
    if not conjunctions:
        return ["never matches: its conditions contradict each other"]
    if frozenset() in conjunctions:
        return ["matches every event"]
    warnings = []
    if len(conjunctions) > MANY_CONJUNCTIONS:
        warnings.append(
            f"is a disjunction of {len(conjunctions)} conjunctions, each of which is matched for itself: "
            "IN lists and several subscriptions are cheaper"
        )
    if not all(any(cells.indexable(test) for test in tests) for tests in conjunctions):
        warnings.append(
            "has no predicate that an index can use (an equality, a range or a prefix): "
            "every event is tested against it"
        )
    return warnings


class _Cells:
    """The cells of one filter (see `kernels`), and what its conjunctions ask of them.

    A *test* is what a conjunction asks of one attribute: the path and the set of cells, or something that is no set of
    cells, with None for the path.
    """

    def __init__(self, conjunctions: list[list[_Bound]]) -> None:
        self._conjunctions = conjunctions
        cuts: dict[Path, set[_Key]] = {}
        for term, literals in itertools.chain.from_iterable(conjunctions):
            if isinstance(term, Factor):
                keys = cuts.setdefault(term.attribute.path, set())
                for low, high, _ in literals:
                    keys.add(low)
                    keys.add(high)
        self._cell = {
            path: {key: 2 * n + 2 for n, key in enumerate(sorted(keys))}
            for path, keys in cuts.items()
        }

    def conjunctions(self) -> Iterator[frozenset[_Test]]:
        """The tests of each conjunction that doesn't contradict itself, without those that are always true."""
        for conjunction in self._conjunctions:
            sets: dict[Path, int] = {}
            others: list[_Test] = []
            for term, own in conjunction:
                if isinstance(term, Factor):
                    path = term.attribute.path
                    sets[path] = sets.get(path, -1) & self._set(term, own)
                else:
                    others.append((None, (_identity(term), own[0] if own else None)))
            if all(sets.values()):
                always = {path: (2 << self._last(path)) - 1 for path in sets}
                tests = ((p, cells) for p, cells in sets.items() if cells != always[p])
                yield frozenset([*tests, *others])

    def indexable(self, test: _Test) -> bool:
        """Whether a test leaves out a whole side of its attribute's values."""
        path, cells = test
        if path is None:
            return False
        first, last = (cells & -cells).bit_length() - 1, cells.bit_length() - 1
        return bool(first > 1 or last < self._last(path))

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
