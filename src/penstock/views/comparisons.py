"""Decides whether comparisons hold on the value of a document node, and whether comparisons imply others (delta §4.1).

A literal that is a number compares numbers: the value's text is read as a number. A text that isn't a number, or no
value at all (JSON's null), fails every comparison, `<>` too. A literal that is a text compares texts by their code
points.

Comparisons with one kind of literals leave an interval without some points. Its ends are *cuts*, places between values:

    numbers   below 5 or above it: between two numbers lies another      > 5  begins above 5,  <= 5  ends above 5
    texts     above 'a' is below the next text, 'a' + U+0000             > 'a'  is  >= 'a\\0',  <= 'a'  is  < 'a\\0'

An excluded point at an end moves that end. So a set that isn't empty has values up to both its ends, and it lies in
another set exactly if its ends do and it has none of the other's excluded points. That decides implication within one
kind. Between the two kinds only one fact is used: `= 'text'` leaves a single value, on which all other comparisons can
be tried.
"""

from collections.abc import Callable, Iterable, Sequence
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
"""All of them must hold. An empty tuple holds on everything, also where there is no value."""

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
    """Each of them once, in the order in which a pattern node has them."""
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

    Exact if all literals are of one kind. With both kinds True is always right, and False may be wrong.

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
    numbers, texts = number_set(left), _text_set(left)
    if _empty(numbers, texts):
        return True
    only = _only_text(texts)
    if only is not None:
        return holds(right, only)
    wanted = number_set(right)
    numeric = not wanted.asked or (numbers.asked and numbers.within(wanted))
    return numeric and texts.within(_text_set(right))


def unsatisfiable(comparisons: Comparisons) -> bool:
    """Whether no value fulfils all comparisons.

    Exact if all literals are of one kind. With both kinds True is always right, and False may be wrong.
    """
    return _empty(number_set(comparisons), _text_set(comparisons))


def _empty(numbers: "ValueSet", texts: "ValueSet") -> bool:
    if numbers.low >= numbers.high or texts.low >= texts.high:
        return True
    only = _only_text(texts)
    if only is None or not numbers.asked:
        return False
    read = number(only)
    return read is None or not numbers.has(read)


Cut = tuple[Any, Any]
"""A place between values. Of numbers: a number with 0 (the place below it) or 1 (above it). Of texts: 0 with the next
text above the place, or (1, "") above all texts."""


def _around(value: str | Decimal) -> tuple[Cut, Cut]:
    """The cuts right below and right above a value."""
    if isinstance(value, str):
        return (0, value), (0, value + "\0")
    return (value, 0), (value, 1)


@dataclass(frozen=True, slots=True)
class ValueSet:
    """The values of one kind between two cuts, without some points. `asked`: whether any comparison is of this kind."""

    low: Cut
    high: Cut
    without: frozenset[str | Decimal]
    asked: bool

    def has(self, value: str | Decimal) -> bool:
        """Whether a value of the same kind is in the set."""
        below, above = _around(value)
        return self.low <= below and above <= self.high and value not in self.without

    def within(self, other: "ValueSet") -> bool:
        """Whether all of the set is in the other."""
        ends = other.low <= self.low and self.high <= other.high
        return ends and not any(self.has(point) for point in other.without)


def number_set(comparisons: Comparisons) -> ValueSet:
    """The numbers that fulfil all comparisons with numbers."""
    lowest, highest = (Decimal("-Infinity"), 0), (Decimal("Infinity"), 0)
    return _value_set([c for c in comparisons if not isinstance(c.literal, str)], lowest, highest)


def _text_set(comparisons: Comparisons) -> ValueSet:
    return _value_set([c for c in comparisons if isinstance(c.literal, str)], (0, ""), (1, ""))


def _only_text(texts: ValueSet) -> str | None:
    """The text of a set that isn't empty, if it has only one; else None."""
    (_, text) = texts.low
    return text if texts.high == _around(text)[1] else None


def _value_set(comparisons: Sequence[ValueComparison], low: Cut, high: Cut) -> ValueSet:
    without = frozenset(c.literal for c in comparisons if c.operator == "<>")
    for comparison in comparisons:
        below, above = _around(comparison.literal)
        if comparison.operator in ("=", ">", ">="):
            low = max(low, above if comparison.operator == ">" else below)
        if comparison.operator in ("=", "<", "<="):
            high = min(high, below if comparison.operator == "<" else above)
    points = dict(_around(literal) for literal in without)
    while low in points:
        low = points[low]
    ends = {above: below for below, above in points.items()}
    while high in ends:
        high = ends[high]
    return ValueSet(low, high, without, bool(comparisons))
