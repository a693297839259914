"""Values of document nodes: when a comparison holds on one, and when comparisons imply others (delta §4.1).

A literal that is a number compares numbers: the value's text is read as one, and a text that is none (or no value at
all, as of JSON's null) fails every comparison, `<>` too. A literal that is a text compares texts by their code points.

A conjunction over one kind of literals is an interval without some points. Its ends are written such that they belong
to the set or to its complement:

    numbers   [low, high)  cuts: below a number or above it, since between two numbers lies another
              > 5  begins above 5,  <= 5  ends above 5
    texts     [low, high)  after 'a' comes 'a' + U+0000             > 'a'  is  >= 'a\\0',  <= 'a'  is  < 'a\\0'

Points that are excluded at an end move that end. What is left of a set that isn't empty comes up to both its ends, so
one set lies in another if its ends do and the other's excluded points aren't in it. That decides implication exactly.
Between the two kinds only this is used: `= 'text'` leaves one value, on which all else can be tried.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import Decimal
from operator import eq, ge, gt, le, lt, ne
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.base.arrays import Bools
from penstock.language.texts import Texts
from penstock.views.numerals import NO_NUMBER, number, numeral, orders
from penstock.views.tree_pattern import ValueComparison

Comparisons = tuple[ValueComparison, ...]
"""All of them must hold. None at all hold on everything, also where there is no value."""

_TESTS: dict[str, tuple[Callable[[Any, Any], Any], str]] = {
    "=": (eq, "equal"),
    "<>": (ne, "not_equal"),
    "<": (lt, "less"),
    "<=": (le, "less_equal"),
    ">": (gt, "greater"),
    ">=": (ge, "greater_equal"),
}
"""Operator -> the test in Python, and its name in Arrow."""


def sort_comparisons(comparisons: Iterable[ValueComparison]) -> Comparisons:
    """Each of them once, in the order in which a pattern node has them.

    >>> [c.literal for c in sort_comparisons([ValueComparison("=", "a"), ValueComparison("=", Decimal(5))])]
    [Decimal('5'), 'a']
    """
    return tuple(
        sorted(set(comparisons), key=lambda c: (c.operator, isinstance(c.literal, str), c.literal))
    )


# --- on values -------------------------------------------------------------------------------


def holds(comparisons: Comparisons, value: str | None) -> bool:
    """Whether all comparisons hold on a value; None is no value.

    >>> holds((ValueComparison(">", Decimal(5)), ValueComparison("<>", "7.0")), "7")
    True
    """
    return all(_holds(comparison, value) for comparison in comparisons)


def _holds(comparison: ValueComparison, value: str | None) -> bool:
    if value is None:
        return False
    test, _ = _TESTS[comparison.operator]
    if isinstance(comparison.literal, str):
        return bool(test(value, comparison.literal))
    read = number(value)
    return read is not None and bool(test(read, comparison.literal))


def holds_each(comparisons: Comparisons, values: pa.Array) -> Bools:
    """On which of an Arrow array's texts all comparisons hold; NULL is no value.

    >>> holds_each((ValueComparison(">=", Decimal(5)),), pa.array(["7", "3", "x", None]))
    array([ True, False, False, False])
    """
    kept = np.ones(len(values), np.bool_)
    if not comparisons:
        return kept
    if values.null_count:
        kept &= values.is_valid().to_numpy(zero_copy_only=False)
    texts = Texts.of(values)
    for comparison in comparisons:
        if isinstance(comparison.literal, str):
            kept &= _texts_hold(comparison.operator, values, comparison.literal)
        else:
            literal = np.frombuffer(numeral(comparison.literal).encode(), np.uint8)
            found = orders(texts.data, texts.offsets[:-1], texts.offsets[1:], literal)
            kept &= _TESTS[comparison.operator][0](found, 0) & (found != NO_NUMBER)
    return kept


def _texts_hold(operator: str, values: pa.Array, literal: str) -> Bools:
    # UTF-8 sorts like code points.
    held = pc.call_function(_TESTS[operator][1], [values, pa.scalar(literal, values.type)])
    kept: Bools = held.fill_null(False).to_numpy(zero_copy_only=False)
    return kept


# --- on each other ---------------------------------------------------------------------------


def implies(left: Comparisons, right: Comparisons) -> bool:
    """Whether every value that fulfils `left` fulfils `right`.

    Exact if all literals are of one kind. Of both kinds: true is right, false may be wrong.

    >>> five = Decimal(5)
    >>> implies((ValueComparison(">", five),), (ValueComparison(">=", five), ValueComparison("<>", Decimal(0))))
    True
    >>> implies((), (ValueComparison("<>", five),))
    False
    """
    if not right:
        return True
    if not left:
        return False
    numbers, texts = number_set(left), _texts(left)
    if _empty(numbers, texts):
        return True
    if texts.only is not None:
        return holds(right, texts.only)
    wanted, read = number_set(right), _texts(right)
    numeric = not wanted.asked or (numbers.asked and numbers.within(wanted))
    return numeric and texts.within(read)


def unsatisfiable(comparisons: Comparisons) -> bool:
    """Whether no value fulfils all. Exact if all literals are of one kind; of both, true is right.

    >>> unsatisfiable((ValueComparison(">", "b"), ValueComparison("<", "a")))
    True
    """
    return _empty(number_set(comparisons), _texts(comparisons))


def _empty(numbers: "NumberSet", texts: "_Texts") -> bool:
    if numbers.empty or texts.empty:
        return True
    if texts.only is None or not numbers.asked:
        return False
    read = number(texts.only)
    return read is None or not numbers.has(read)


Cut = tuple[Decimal, int]
"""A place between numbers: below one (0) or above it (1)."""

LOWEST, HIGHEST = (Decimal("-Infinity"), 0), (Decimal("Infinity"), 0)


@dataclass(frozen=True, slots=True)
class NumberSet:
    """The numbers from one cut to another without some in between. `asked` if it must be a number at all."""

    low: Cut
    high: Cut
    without: frozenset[Decimal]
    asked: bool

    @property
    def empty(self) -> bool:
        return self.low >= self.high

    def has(self, value: Decimal) -> bool:
        return self.low <= (value, 0) and (value, 1) <= self.high and value not in self.without

    def within(self, other: "NumberSet") -> bool:
        ends = other.low <= self.low and self.high <= other.high
        return ends and not any(self.has(point) for point in other.without)


def number_set(comparisons: Comparisons) -> NumberSet:
    """The numbers that fulfil all comparisons with numbers."""
    low, high, asked = LOWEST, HIGHEST, False
    without = set()
    for comparison in comparisons:
        literal, operator = comparison.literal, comparison.operator
        if isinstance(literal, str):
            continue
        asked = True
        if operator == "<>":
            without.add(literal)
        if operator in ("=", ">", ">="):
            low = max(low, (literal, int(operator == ">")))
        if operator in ("=", "<", "<="):
            high = min(high, (literal, int(operator != "<")))
    if low[1] == 0 and low[0] in without:
        low = (low[0], 1)
    if high[1] == 1 and high[0] in without:
        high = (high[0], 0)
    return NumberSet(low, high, frozenset(without), asked)


@dataclass(frozen=True, slots=True)
class _Texts:
    """`[low, high)` without some points within, `high` None if there is none; the lowest value isn't excluded, and
    neither is the highest if there is one."""

    low: str
    high: str | None
    without: frozenset[str]

    @property
    def empty(self) -> bool:
        return self.high is not None and self.low >= self.high

    @property
    def only(self) -> str | None:
        """The value, if there is one only."""
        return self.low if self.high == self.low + "\0" else None

    def has(self, value: str) -> bool:
        below = self.high is None or value < self.high
        return self.low <= value and below and value not in self.without

    def within(self, other: "_Texts") -> bool:
        if self.low < other.low:
            return False
        if other.high is not None and (self.high is None or self.high > other.high):
            return False
        return not any(self.has(point) for point in other.without)


def _texts(comparisons: Comparisons) -> _Texts:
    low, high = "", None
    without = set()
    for comparison in comparisons:
        literal, operator = comparison.literal, comparison.operator
        if not isinstance(literal, str):
            continue
        if operator == "<>":
            without.add(literal)
        if operator in ("=", ">", ">="):
            low = max(low, literal + "\0" if operator == ">" else literal)
        if operator in ("=", "<", "<="):
            limit = literal if operator == "<" else literal + "\0"
            high = limit if high is None else min(high, limit)
    while low in without:
        low += "\0"
    while high is not None and high.endswith("\0") and high[:-1] in without:
        high = high[:-1]
    return _Texts(low, high, frozenset(without))
