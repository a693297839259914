"""Values of document nodes: comparisons on them, and which comparisons imply which."""

import math
from itertools import pairwise, product

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from penstock.views.tree_pattern import OPERATORS, Comparison
from penstock.views.values import (
    Comparisons,
    equivalent,
    holds,
    holds_each,
    implies,
    number,
    sorted_comparisons,
    unsatisfiable,
)

NEXT = math.nextafter(1.0, math.inf)
NUMBERS = (-math.inf, -1.0, 0.0, 1.0, NEXT, math.nextafter(NEXT, math.inf), 2.0, math.inf)
TEXTS = ("", "\0", "\0\0", "a", "a\0", "a\0\0", "aa", "b", "5", "5.0", "\U0010ffff")


def _around_numbers(literals: set[float]) -> list[str]:
    """Texts of numbers of which one lies in every gap between the literals, and on each of them."""
    points = {-math.inf, math.inf} | literals
    points |= {math.nextafter(p, d) for p in literals for d in (-math.inf, math.inf)}
    points |= {math.nextafter(p, d) for p in set(points) for d in (-math.inf, math.inf)}
    ordered = sorted(points)
    points |= {(a + b) / 2 for a, b in pairwise(ordered) if a > -math.inf and b < math.inf}
    return ["1e999" if p == math.inf else "-1e999" if p == -math.inf else repr(p) for p in points]


def _around_texts(literals: set[str]) -> list[str]:
    """Texts of which one lies in every gap between the literals that isn't empty, and on each of them."""
    points = literals | {""} | {text + "\0" * n for text in literals for n in (1, 2, 3, 4)}
    shorter = {
        text[:-1] + chr(ord(text[-1]) - 1) + "\U0010ffff" * n
        for text in literals
        if text > "\0" and text[-1] != "\0"
        for n in (1, 2, 3)
    }
    return sorted(points | shorter | {"\U0010ffff" * 9})


def conjunctions(literals: st.SearchStrategy[str | float]) -> st.SearchStrategy[Comparisons]:
    one = st.builds(Comparison, st.sampled_from(OPERATORS), literals)
    return st.lists(one, max_size=4).map(sorted_comparisons)


def _literals(*sides: Comparisons) -> set:  # type: ignore[type-arg]
    return {c.literal for side in sides for c in side}


numeric = conjunctions(st.sampled_from(NUMBERS))
textual = conjunctions(st.sampled_from(TEXTS))


@given(numeric, numeric)
@settings(deadline=None, max_examples=250)
@example((Comparison(">", 1.0), Comparison("<", 2.0)), (Comparison(">=", NEXT),))
@example((Comparison(">=", 1.0), Comparison("<>", 1.0)), (Comparison(">", 1.0),))
@example((Comparison(">", math.inf),), (Comparison("=", 0.0),))
def test_implication_of_numbers_is_that_of_all_values(a: Comparisons, b: Comparisons) -> None:
    """On numbers, `implies` says exactly whether no value fulfils the left side only."""
    values = [*_around_numbers(_literals(a, b)), "no number", None]
    assert implies(a, b) == all(holds(b, value) for value in values if holds(a, value))
    assert unsatisfiable(a) == (not any(holds(a, value) for value in values))


@given(textual, textual)
@settings(deadline=None, max_examples=250)
@example((Comparison("<=", "a\0"), Comparison("<>", "a\0")), (Comparison("<=", "a"),))
@example((), (Comparison(">=", ""),))
def test_implication_of_texts_is_that_of_all_values(a: Comparisons, b: Comparisons) -> None:
    """On texts, `implies` says exactly whether no value fulfils the left side only."""
    values = [*_around_texts(_literals(a, b)), None]
    assert implies(a, b) == all(holds(b, value) for value in values if holds(a, value))
    assert unsatisfiable(a) == (not any(holds(a, value) for value in values))


@given(
    conjunctions(st.sampled_from(NUMBERS + TEXTS)), conjunctions(st.sampled_from(NUMBERS + TEXTS))
)
@settings(deadline=None, max_examples=150)
def test_implication_of_both_kinds_is_sound(a: Comparisons, b: Comparisons) -> None:
    """With numbers and texts together, what is said to be implied is."""
    literals = _literals(a, b)
    values = _around_texts({x for x in literals if isinstance(x, str)})
    values += _around_numbers({x for x in literals if not isinstance(x, str)})
    fulfilling = [value for value in values if holds(a, value)]
    if implies(a, b):
        assert all(holds(b, value) for value in fulfilling)
    if unsatisfiable(a):
        assert not fulfilling
    assert equivalent(a, a)


def test_an_equal_text_is_tried_as_a_number() -> None:
    """`= '7'` implies `> 5`; `= 'x'` contradicts it."""
    assert implies((Comparison("=", "7"),), (Comparison(">", 5.0),))
    assert unsatisfiable((Comparison("=", "x"), Comparison(">", 5.0)))
    assert not implies((Comparison("=", 7.0),), (Comparison("=", "7"),))


numerals = st.from_regex(
    r"[ \t\n\r]{0,2}[+-]?[0-9]{0,20}(\.[0-9]{0,20})?([eE][+-]?[0-9]{0,4})?[ \n]?", fullmatch=True
)


@given(
    st.lists(numerals | st.text(max_size=6) | st.floats().map(repr) | st.none(), max_size=8),
    st.data(),
)
@settings(deadline=None, max_examples=80)
def test_columns_are_compared_like_single_values(
    values: list[str | None], data: st.DataObject
) -> None:
    """`holds_each` is `holds` on each, for any texts and comparisons."""
    read = [number(v) for v in values if v is not None]
    near = st.sampled_from([r for r in read if r is not None and math.isfinite(r)] or [0.0])
    same = st.sampled_from([v for v in values if v is not None] or [""])
    comparisons = data.draw(conjunctions(near | same | st.floats(allow_nan=False)))
    column = pa.array(values, pa.string())
    expected = [holds(comparisons, value) for value in values]
    assert holds_each(comparisons, column).tolist() == expected
    assert holds_each(comparisons, column.cast(pa.large_string())[1:]).tolist() == expected[1:]


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("5", 5.0), ("+5.", 5.0), (".5", 0.5), ("-0", 0.0), (" \t\r\n7\n", 7.0), ("1e999", math.inf),
        ("1e-999", 0.0), ("1e+05", 1e5), ("0" * 400 + "1", 1.0), ("9007199254740993", 9007199254740992.0),
        ("1e99999999999999999999", math.inf), ("", None), (".", None), ("e5", None), ("1e", None), ("1e+", None),
        ("--1", None), ("1_000", None), ("inf", None), ("nan", None), ("0x10", None), ("1 2", None),
        ("\u00a05", None), ("٥", None), ("1.2.3", None), ("1e1.5", None), ("+", None),
    ],
)  # fmt: skip
def test_what_is_a_number(text: str, read: float | None) -> None:
    """Digits, a point, an exponent, a sign, XML's white space around: one by one and in a column."""
    assert number(text) == read
    expected = read is not None
    assert holds_each((Comparison(">=", -math.inf),), pa.array([text])).tolist() == [expected]
    if read is not None:
        assert holds_each((Comparison("=", read),), pa.array([text])).tolist() == [True]


def test_every_operator_on_every_side() -> None:
    """All six operators, below, at and above the literal."""
    assert [[holds((Comparison(o, 5.0),), v) for v in ("4", "5.0", "6")] for o in OPERATORS] == [
        [False, True, False], [True, False, True], [True, False, False],
        [True, True, False], [False, False, True], [False, True, True],
    ]  # fmt: skip
    for operator, value in product(OPERATORS, ("4", "5", "51", "6")):
        column = holds_each((Comparison(operator, "5"),), pa.array([value]))
        assert np.array_equal(column, [holds((Comparison(operator, "5"),), value)])
