"""Resolves, for each conjunction of one filter, which values it accepts of each attribute.

`check` and the live matcher look at single filters; to compile each into a plan would take a millisecond.
"""

from collections.abc import Hashable, Sequence
from typing import NamedTuple

from penstock.language.atoms import Bound
from penstock.language.calls import Path
from penstock.language.factor_values import factor_values
from penstock.language.filter_tree import Comparison, Contains, Factor, Pattern
from penstock.language.normal import SignedTest
from penstock.language.patterns import TextTest
from penstock.language.shapes import Shapes
from penstock.language.values import EVERYTHING, Values, all_of


class AskedValues(NamedTuple):
    """The values that a conjunction accepts, by attribute, and those of its tests that aren't sets of values."""

    values: dict[Path, Values]
    tests: frozenset[Hashable]


class WantedText(NamedTuple):
    """The test that a pattern matches an attribute's text."""

    path: Path
    test: TextTest


def read_conjunctions(text: str, shapes: Shapes) -> tuple[list[list[Bound]], list[AskedValues]]:
    """The conjunctions of a filter as they were read, and the values that each accepts, without contradictions.

    FilterError if the text isn't a filter.
    """
    read = shapes.one(text)
    try:
        return read, [asked for one in read if (asked := _asked(one)) is not None]
    except ValueError:
        raise shapes.error(text) from None


def _asked(conjunction: Sequence[Bound]) -> AskedValues | None:
    """What a conjunction accepts; None if it contradicts itself. Attributes that may have any value are left out."""
    several: dict[Path, list[Values]] = {}
    tests: set[Hashable] = set()
    for term, literals in conjunction:
        if isinstance(term, Factor):
            several.setdefault(term.attribute.path, []).append(factor_values(term, literals))
        else:
            found = [column.pool.convert_one(text) for column, text in literals]
            if isinstance(term.test, Pattern) and term.holds:
                ((body, _, mode),) = found
                assert isinstance(body, bytes)
                tests.add(WantedText(term.test.attribute.path, TextTest(mode, body)))
            else:
                tests.add((_identity(term), *found))
    values = {path: v[0] if len(v) == 1 else all_of(v) for path, v in several.items()}
    if any(one.is_empty for one in values.values()):
        return None
    asked = {path: one for path, one in values.items() if one != EVERYTHING}
    return AskedValues(asked, frozenset(tests))


def _identity(term: SignedTest) -> Hashable:
    """The identity of a test, apart from its literal: equal tests are one derived attribute."""
    match term.test:
        case Contains(attribute):
            return attribute, term.holds
        case Pattern(attribute):
            return attribute, term.holds
        case Comparison(left, order, right):
            return left, order, right, term.holds
