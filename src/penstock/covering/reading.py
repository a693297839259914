"""A filter's text -> its region.

Comparisons, BETWEEN, IN, LIKE with a prefix, IS [NOT] NULL, IS [NOT] DISTINCT FROM and their negations are sets of
values, exactly (`language.factor_values`): contradictions vanish, and equal sets are equal objects.

A test that isn't a set of values becomes a hidden attribute, whose name says the test:

    pattern, array membership      false and true: 0 and 1
    attribute against attribute    less, equal, greater: -1, 0 and 1; so `a < b` implies `a <= b`, and excludes `b < a`
    operators' calls and joints    are attributes already (`language.calls`)

A test of an attribute that must be true or false implies that the attribute isn't NULL, which is added to the box.

Nothing more is known of hidden attributes, and nothing of how attributes depend on each other. So covering is sound,
but these covers
are missed: between patterns (`LIKE '%ab%'` in `LIKE '%b%'`), or between a pattern and values (`s = 'ab'` in
`LIKE '%b'`); `s IS NOT NULL` in `s LIKE '%b' OR s NOT LIKE '%b'`; what follows from several comparisons (`a < b AND
b < c`); calls of one operator with different constants; a struct that isn't NULL because a field of it isn't. Decimals
are taken to have 18 digits, or 38 if their type has more than 18, since that is what the matcher reads: `d < 1000` of a
decimal(5,2) isn't known to be always true.
"""

from collections.abc import Sequence
from operator import itemgetter

from penstock.covering.regions import Box, Region, of_boxes
from penstock.language.atoms import Bound
from penstock.language.calls import Path
from penstock.language.factor_values import factor_values
from penstock.language.filter_tree import MIRRORED, Comparison, Contains, Factor, Pattern
from penstock.language.hidden_attributes import (
    FAILS,
    HOLDS,
    OUTCOMES,
    member_path,
    order_path,
    text_path,
)
from penstock.language.normal import SignedTest
from penstock.language.pools import Column
from penstock.language.schema import Schema, SchemaLike
from penstock.language.shapes import Shapes
from penstock.language.values import EVERYTHING, NOT_NULL, NOTHING, Values, all_of

_Tests = tuple[tuple[Path, Values], ...]


def region(text: str, schema: SchemaLike) -> Region:
    """The events that a filter matches. FilterError if the text isn't a filter under this schema.

    >>> region("i > 5 AND i < 8 AND NOT b", {"i": "int", "b": "boolean"}).boxes
    (((('b',), Values(intervals=((None, 1),), null=False)), (('i',), Values(intervals=((6, 8),), null=False))),)
    """
    shapes = Shapes.under(Schema.of(schema))
    found = shapes.one(text)
    try:
        return region_of(found)
    except ValueError:
        raise shapes.error(text) from None


def region_of(conjunctions: Sequence[Sequence[Bound]]) -> Region:
    """The events that satisfy one of these conjunctions, which `Shapes.one` gave. ValueError if a literal is wrong."""
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
            tests = ((term.attribute.path, factor_values(term, literals)),)
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
    return tuple(
        sorted((test for test in asked.items() if test[1] != EVERYTHING), key=itemgetter(0))
    )


# --- tests that aren't sets of values ----------------------------------------------------------


def _hidden(signed: SignedTest, literals: Sequence[tuple[Column, str]]) -> _Tests:
    test = signed.test
    truth = HOLDS if signed.holds else FAILS
    match test:
        case Pattern(attribute):
            ((column, text),) = literals
            body, _, mode = column.pool.convert_one(text)
            assert isinstance(body, bytes)
            return (text_path(attribute.path, mode, body), truth), (attribute.path, NOT_NULL)
        case Contains(attribute):
            ((column, text),) = literals
            lo, hi, over = column.pool.convert_one(text)
            path = member_path(attribute.path, lo, hi, over)
            return (path, truth), (attribute.path, NOT_NULL)
        case Comparison(left, order, right):
            return comparison(left.path, order, right.path, signed.holds)


def comparison(left: Path, order: str, right: Path, holds: bool) -> _Tests:
    """The tests that `left order right`, or its negation, means: of the order of the two, and of each of them."""
    if right < left:
        left, order, right = right, MIRRORED[order], left
    outcomes = OUTCOMES[order]
    if not holds:
        outcomes = outcomes.complement().intersection(NOT_NULL)
    if left == right:
        return ((left, NOT_NULL if outcomes.contains(0) else NOTHING),)
    return (order_path(left, right), outcomes), (left, NOT_NULL), (right, NOT_NULL)
