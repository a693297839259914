"""A filter's text -> its region.

Comparisons, BETWEEN, IN, LIKE with a prefix, IS [NOT] NULL, IS [NOT] DISTINCT FROM and their negations are sets of
values, exactly: contradictions vanish (`i > 5 AND i < 6` too, of integers), and equal sets are equal objects. For
that, ends of intervals are canonical: where a type's keys begin or end there is None, and an end at a key that no value
has is moved up to the next that one has (between the negative doubles and 0.0, past the last string with a prefix).

What is no set of values becomes a hidden attribute of its own, with the name of the test:

    pattern, array membership      false and true: 0 and 1
    attribute against attribute    less, equal, greater: -1, 0 and 1; so `a < b` implies `a <= b`, and excludes `b < a`
    operators' calls and joints    are attributes already (`language.calls`)

A test of an attribute that must be true or false implies that the attribute isn't NULL, which is added to the box.

Nothing more is known of hidden attributes, and nothing of attributes together. So covering is sound, but these covers
are missed: between patterns (`LIKE '%ab%'` in `LIKE '%b%'`), or between a pattern and values (`s = 'ab'` in
`LIKE '%b'`); `s IS NOT NULL` in `s LIKE '%b' OR s NOT LIKE '%b'`; what follows from several comparisons (`a < b AND
b < c`); calls of one operator with different constants; a struct that isn't NULL because a field of it isn't. Decimals
are taken to have 18 digits, or 38 if their type has more than 18, since that is what the matcher reads: `d < 1000` of a
decimal(5,2) isn't known to be always true.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from penstock.covering.regions import HIDDEN, Box, Path, Region, of_boxes
from penstock.covering.values import EVERYTHING, NOT_NULL, NOTHING, Interval, Key, Values, all_of
from penstock.language.atoms import Bound
from penstock.language.literals import INT64_MAX, INT64_MIN, double_key, wide_key
from penstock.language.normal import SignedTest
from penstock.language.pools import Column, PoolKey
from penstock.language.schema import Schema, SchemaLike
from penstock.language.shapes import Shapes
from penstock.language.tree import Comparison, Contains, Factor, Pattern
from penstock.language.types import Kind, Scalar

_Tests = tuple[tuple[Path, Values], ...]
TEST, ORDER = HIDDEN + "test", HIDDEN + "order"  # first steps of the paths of hidden attributes
_TRUE, _FALSE = Values(((1, None),)), Values(((None, 1),))
_OUTCOMES = {
    "<": Values(((None, 0),)),
    "<=": Values(((None, 1),)),
    "=": Values(((0, 1),)),
    ">=": Values(((0, None),)),
    ">": Values(((1, None),)),
}
# Characters of a literal, and literals of an IN list, beyond which they aren't remembered.
_LONG, _MANY = 100, 16
_MIRRORED = {"<": ">", "<=": ">=", "=": "=", ">=": "<=", ">": "<"}


def region(text: str, schema: SchemaLike) -> Region:
    """The events that a filter matches. FilterError if it isn't one under this schema.

    >>> region("i > 5 AND i < 8 AND NOT b", {"i": "int", "b": "boolean"}).boxes
    (((('b',), Values(intervals=((None, 1),), null=False)), (('i',), Values(intervals=((6, 8),), null=False))),)
    >>> region("i > 5 AND i < 6", {"i": "int"}).boxes
    ()
    """
    shapes = Shapes.under(Schema.of(schema))
    found = shapes.one(text)
    try:
        return region_of(found)
    except ValueError:
        raise shapes.error(text) from None


def region_of(conjunctions: Sequence[Sequence[Bound]]) -> Region:
    """The events that satisfy one of these conjunctions, which `Shapes.one` gave. ValueError if a literal is none."""
    if len(conjunctions) == 1:
        box = _box(conjunctions[0])
        return Region(() if box is None else (box,))
    return of_boxes(box for c in conjunctions if (box := _box(c)) is not None)


def _box(conjunction: Sequence[Bound]) -> Box | None:
    """None if the conjunction contradicts itself."""
    asked: dict[Path, Values] = {}
    again: dict[Path, list[Values]] = {}
    tests: _Tests
    for term, literals in conjunction:
        if isinstance(term, Factor):
            tests = ((term.attribute.path, _values(term, literals)),)
        else:
            tests = _hidden(term, literals)
        for path, values in tests:
            if path in asked:
                again.setdefault(path, [asked[path]]).append(values)
            else:
                asked[path] = values
    for path, several in again.items():
        asked[path] = all_of(several)
    if any(values.is_empty for values in asked.values()):
        return None
    return tuple(sorted((test for test in asked.items() if test[1] != EVERYTHING), key=_path))


def _path(test: tuple[Path, Values]) -> Path:
    return test[0]


def _values(factor: Factor, literals: Sequence[tuple[Column, str]]) -> Values:
    """What a factor accepts."""
    find = _remembered if len(literals) <= _MANY else _piece
    pieces = [
        find(column.pool, piece.order, text)
        for piece, (column, text) in zip(factor.pieces, literals, strict=True)
    ]
    if len(pieces) == 1 and not (factor.negated or factor.null):
        return pieces[0]
    intervals = [interval for values in pieces for interval in values.intervals]
    values = Values.of(intervals, factor.null)
    return Values(values.complement().intervals, factor.null) if factor.negated else values


def _piece(pool: PoolKey, order: str, text: str) -> Values:
    """The values that compare in this way with a literal."""
    line = _line(pool.type)
    if order == "prefix":
        found = line.clipped(text.encode(), _past_prefix(text))
    else:
        found = line.interval(order, *pool.bound(text))
    return Values(() if found is None else (found,))


# The same predicates come again and again. And of one and the same object no test of inclusion is needed.
_known = functools.lru_cache(maxsize=50_000)(_piece)


def _remembered(pool: PoolKey, order: str, text: str) -> Values:
    return (_known if len(text) <= _LONG else _piece)(pool, order, text)


# --- the keys of a type ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Line:
    """The keys that values of one type have: from `first` up to but without `past`; None: without end.

    `hole` is a key in between that no value has. Nothing here has a key outside 64 bits, even as an end.
    """

    first: Any = None
    past: Any = None
    hole: Any = None
    is_text: bool = False
    is_wide: bool = False

    def interval(self, order: str, lo: Key, hi: Key, over: int) -> Interval | None:
        """The keys that compare with a literal in this way (see `language.literals`); None if there are none."""
        if over:
            below = over > 0  # all values are, or none is
            return (None, None) if order != "=" and (order in ("<", "<=")) == below else None
        match order:
            case "<":
                return self.clipped(None, lo)
            case "<=":
                return self.clipped(None, self._next(hi))
            case ">":
                return self.clipped(self._next(hi), None)
            case ">=":
                return self.clipped(lo, None)
        return self.clipped(lo, self._next(hi))

    def clipped(self, start: Any, end: Any) -> Interval | None:
        """An interval with its ends made canonical; None if it is empty."""
        first, past = self.first, self.past
        if start is not None:
            if past is not None and start >= past:
                return None
            if first is not None and start <= first:
                start = None
            elif start == self.hole:
                start += 1
        if end is not None:
            if first is not None and end <= first:
                return None
            if past is not None and end >= past:
                end = None
            elif end == self.hole:
                end += 1
        return None if start is not None and end is not None and start >= end else (start, end)

    def _next(self, key: Any) -> Any:
        if self.is_wide:
            return (int.from_bytes(key, "big") + 1).to_bytes(16, "big")
        return key + b"\0" if self.is_text else key + 1


@functools.lru_cache(maxsize=256)
def _line(type_: Scalar) -> _Line:
    match type_.kind:
        case Kind.BOOLEAN:
            return _Line(0, 2)
        case Kind.STRING:
            return _Line(b"", is_text=True)
        case Kind.DOUBLE:
            # -1 would be the key of -0.0, which has that of 0.0.
            return _Line(double_key(float("-inf")), hole=-1)
        case Kind.DECIMAL if type_.is_wide:
            return _Line(wide_key(1 - 10**38), wide_key(10**38), is_wide=True)
        case Kind.DECIMAL:
            return _Line(1 - 10**18, 10**18)
    return _Line(INT64_MIN, INT64_MAX + 1)


def _past_prefix(head: str) -> bytes | None:
    """The first text past all that begin with the head; None if there is none.

    Unlike `literals.prefix_bound` this is a text, so that `LIKE 'é%'` ends where `>= 'ê'` begins.
    """
    for length in range(len(head), 0, -1):
        code = ord(head[length - 1]) + 1
        if code <= 0x10FFFF:
            after = 0xE000 if code == 0xD800 else code  # there are no surrogates in UTF-8
            return (head[: length - 1] + chr(after)).encode()
    return None


# --- tests that are no sets of values ----------------------------------------------------------


def _hidden(signed: SignedTest, literals: Sequence[tuple[Column, str]]) -> _Tests:
    test = signed.test
    truth = _TRUE if signed.holds else _FALSE
    match test:
        case Pattern(attribute, pattern, escape):
            path = (TEST, "like", pattern, escape or "", *attribute.path)
            return (path, truth), (attribute.path, NOT_NULL)
        case Contains(attribute):
            ((column, text),) = literals
            lo, hi, over = column.pool.bound(text)
            path = (TEST, "contains", repr(lo), repr(hi), repr(over), *attribute.path)
            return (path, truth), (attribute.path, NOT_NULL)
        case Comparison(left, order, right):
            return _comparison(left.path, order, right.path, signed.holds)


def _comparison(left: Path, order: str, right: Path, holds: bool) -> _Tests:
    if right < left:
        left, order, right = right, _MIRRORED[order], left
    outcomes = _OUTCOMES[order]
    if not holds:
        outcomes = outcomes.complement().intersection(NOT_NULL)
    if left == right:
        return ((left, NOT_NULL if outcomes.contains(0) else NOTHING),)
    path = (ORDER, str(len(left)), *left, *right)
    return (path, outcomes), (left, NOT_NULL), (right, NOT_NULL)
