"""Values of document nodes: when a comparison holds on one, and when comparisons imply others (section 4.1).

A literal that is a number compares numbers: the value's text is read as one, and a text that is none (or no value at
all, as of JSON's null) fails every comparison, `<>` too. A literal that is a text compares texts by their code points.

A conjunction over one kind of literals is an interval without some points, and both kinds can be written with ends
that belong to the set or to its complement, because both orders have a next value where it is needed:

    numbers   [low, high]  doubles: after x comes nextafter(x)      > 5  is  >= 5.000000000000001
    texts     [low, high)  after 'a' comes 'a' + U+0000             > 'a'  is  >= 'a\\0',  <= 'a'  is  < 'a\\0'

Points that are excluded at an end move that end. What is left of a set that isn't empty has its lowest value in it and
comes up to its upper end, so one set lies in another if its ends do and the other's excluded points aren't in it.
That decides implication exactly. Between the two kinds only this is used: `= 'text'` leaves one value, on which all
else can be tried.
"""

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from operator import eq, ge, gt, le, lt, ne
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.arrays import Bools, Float64s
from penstock.language.texts import Texts
from penstock.views.numerals import doubles
from penstock.views.tree_pattern import Comparison

Comparisons = tuple[Comparison, ...]
"""All of them must hold. None at all hold on everything, also where there is no value."""

_TESTS: dict[str, Callable[[Any, Any], Any]] = {
    "=": eq,
    "<>": ne,
    "<": lt,
    "<=": le,
    ">": gt,
    ">=": ge,
}
_NAMES = {"=": "equal", "<>": "not_equal", "<": "less", "<=": "less_equal"}
_NAMES |= {">": "greater", ">=": "greater_equal"}
_NUMBER = re.compile(r"[ \t\n\r]*([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[ \t\n\r]*")


def sorted_comparisons(comparisons: Iterable[Comparison]) -> Comparisons:
    """Each of them once, in the order in which a pattern node has them.

    >>> [c.literal for c in sorted_comparisons([Comparison("=", "a"), Comparison("=", 5.0), Comparison("<", "b")])]
    ['b', 5.0, 'a']
    """
    return tuple(
        sorted(set(comparisons), key=lambda c: (c.operator, isinstance(c.literal, str), c.literal))
    )


# --- on values -------------------------------------------------------------------------------


def number(text: str) -> float | None:
    """The number that a text is, white space around it aside; None if it is none.

    Past the largest double it is infinite.

    >>> number(" -12.50 "), number("1e3"), number("5 EUR"), number("inf")
    (-12.5, 1000.0, None, None)
    """
    found = _NUMBER.fullmatch(text)
    return None if found is None else float(found[1])


def holds(comparisons: Comparisons, value: str | None) -> bool:
    """Whether all comparisons hold on a value; None is no value.

    >>> holds((Comparison(">", 5.0), Comparison("<>", "7.0")), "7")
    True
    """
    return all(_holds(comparison, value) for comparison in comparisons)


def _holds(comparison: Comparison, value: str | None) -> bool:
    if value is None:
        return False
    test = _TESTS[comparison.operator]
    if isinstance(comparison.literal, str):
        return bool(test(value, comparison.literal))
    read = number(value)
    return read is not None and bool(test(read, comparison.literal))


def holds_each(comparisons: Comparisons, values: pa.Array) -> Bools:
    """On which of an Arrow array's texts all comparisons hold; NULL is no value.

    >>> holds_each((Comparison(">=", 5.0),), pa.array(["7", "3", "x", None]))
    array([ True, False, False, False])
    """
    kept = np.ones(len(values), np.bool_)
    if not comparisons:
        return kept
    if values.null_count:
        kept &= values.is_valid().to_numpy(zero_copy_only=False)
    numbers = None
    for comparison in comparisons:
        if isinstance(comparison.literal, str):
            kept &= _texts_hold(comparison.operator, values, comparison.literal)
        else:
            if numbers is None:
                numbers = numbers_of(Texts.of(values))
            kept &= _TESTS[comparison.operator](numbers, comparison.literal) & ~np.isnan(numbers)
    return kept


def numbers_of(texts: Texts) -> Float64s:
    """The number that each text is; NaN for what is none.

    >>> numbers_of(Texts.of(pa.array(["7", "x", "0.1234567890123456789"])))
    array([7.        ,        nan, 0.12345679])
    """
    starts, ends = texts.offsets[:-1], texts.offsets[1:]
    numbers, unsure = doubles(texts.data, starts, ends)
    for i in np.flatnonzero(unsure):
        # A numeral of digits, a point and an exponent: `float` reads it from bytes.
        numbers[i] = float(texts.data[starts[i] : ends[i]].tobytes())
    return numbers


def _texts_hold(operator: str, values: pa.Array, literal: str) -> Bools:
    # UTF-8 sorts like code points.
    held = pc.call_function(_NAMES[operator], [values, pa.scalar(literal, values.type)])
    kept: Bools = held.fill_null(False).to_numpy(zero_copy_only=False)
    return kept


# --- on each other ---------------------------------------------------------------------------


def implies(left: Comparisons, right: Comparisons) -> bool:
    """Whether every value that fulfils `left` fulfils `right`.

    Exact if all literals are of one kind. Of both kinds: true is right, false may be wrong.

    >>> implies((Comparison(">", 5.0),), (Comparison(">=", 5.0), Comparison("<>", 0.0)))
    True
    >>> implies((), (Comparison("<>", 5.0),))
    False
    """
    if not right:
        return True
    if not left:
        return False
    numbers, texts = _numbers(left), _texts(left)
    if _empty(numbers, texts):
        return True
    if texts.only is not None:
        return holds(right, texts.only)
    wanted, read = _numbers(right), _texts(right)
    numeric = not wanted.asked or (numbers.asked and numbers.within(wanted))
    return numeric and texts.within(read)


def equivalent(left: Comparisons, right: Comparisons) -> bool:
    """Whether both hold on the same values.

    >>> equivalent((Comparison(">=", 5.0), Comparison("<=", 5.0)), (Comparison("=", 5.0),))
    True
    """
    return implies(left, right) and implies(right, left)


def unsatisfiable(comparisons: Comparisons) -> bool:
    """Whether no value fulfils all. Exact if all literals are of one kind; of both, true is right.

    >>> unsatisfiable((Comparison(">", "b"), Comparison("<", "a")))
    True
    """
    return _empty(_numbers(comparisons), _texts(comparisons))


def _empty(numbers: "_Numbers", texts: "_Texts") -> bool:
    if numbers.empty or texts.empty:
        return True
    if texts.only is None or not numbers.asked:
        return False
    read = number(texts.only)
    return read is None or not numbers.has(read)


@dataclass(frozen=True, slots=True)
class _Numbers:
    """`[low, high]` without some points within; neither end is excluded. `asked` if it must be a number at all."""

    low: float
    high: float
    without: frozenset[float]
    asked: bool

    @property
    def empty(self) -> bool:
        return self.low > self.high

    def has(self, value: float) -> bool:
        return self.low <= value <= self.high and value not in self.without

    def within(self, other: "_Numbers") -> bool:
        ends = other.low <= self.low and self.high <= other.high
        return ends and not any(self.has(point) for point in other.without)


def _numbers(comparisons: Comparisons) -> _Numbers:
    low, high, asked = -math.inf, math.inf, False
    without = set()
    for comparison in comparisons:
        if isinstance(comparison.literal, str):
            continue
        asked, literal, operator = True, float(comparison.literal), comparison.operator
        if math.isnan(literal):
            low, high = math.inf, -math.inf
        elif operator == "<>":
            without.add(literal)
        else:
            if operator in ("=", ">", ">="):
                low = max(low, math.nextafter(literal, math.inf) if operator == ">" else literal)
            if operator in ("=", "<", "<="):
                high = min(high, math.nextafter(literal, -math.inf) if operator == "<" else literal)
            if (operator, literal) in ((">", math.inf), ("<", -math.inf)):
                low, high = math.inf, -math.inf
    while low <= high and low in without:
        low, high = (math.nextafter(low, math.inf), high) if low < high else (math.inf, -math.inf)
    while low <= high and high in without:
        high = math.nextafter(high, -math.inf)
    return _Numbers(low, high, frozenset(without), asked)


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
