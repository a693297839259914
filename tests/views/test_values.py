"""Values of document nodes: comparisons on them, and which comparisons imply which."""

from decimal import Decimal
from fractions import Fraction
from itertools import pairwise, product

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from penstock.views.comparisons import (
    Comparisons,
    holds,
    holds_each,
    implies,
    sort_comparisons,
    unsatisfiable,
)
from penstock.views.documents.json_documents import read_json
from penstock.views.extraction.extraction import Extractor
from penstock.views.numerals import number, numeral
from penstock.views.rewriting.embedding import implies_predicate
from penstock.views.rewriting.predicate_table import PredicateTable
from penstock.views.tree_pattern import OPERATORS, PatternNode, TreePattern, ValueComparison

NUMBERS = tuple(
    map(
        Decimal,
        (
            "-1",
            "0",
            "1",
            "1.0000000000000000000000000001",
            "2",
            "9007199254740992",
            "9007199254740993",
            "1e-400",
        ),
    )
)
TEXTS = ("", "\0", "\0\0", "a", "a\0", "a\0\0", "aa", "b", "5", "5.0", "\U0010ffff")


def _around_numbers(literals: set[Decimal]) -> list[str]:
    """Texts of numbers of which one lies in every gap between the literals, and on each of them."""
    ordered = sorted(map(Fraction, literals | {Decimal(0)}))
    points = [ordered[0] - 1, *ordered, ordered[-1] + 1]
    points += [(a + b) / 2 for a, b in pairwise(ordered)]
    return [_decimal(point) for point in points]


def _decimal(point: Fraction) -> str:
    """A fraction whose denominator has the factors 2 and 5 only, as digits."""
    power = 0
    while point.denominator != 1:
        point *= 10
        power += 1
    return f"{point.numerator}e-{power}"


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
    one = st.builds(ValueComparison, st.sampled_from(OPERATORS), literals)
    return st.lists(one, max_size=4).map(sort_comparisons)


def _literals(*sides: Comparisons) -> set:  # type: ignore[type-arg]
    return {c.literal for side in sides for c in side}


numeric = conjunctions(st.sampled_from(NUMBERS))
textual = conjunctions(st.sampled_from(TEXTS))


@given(numeric, numeric)
@settings(deadline=None, max_examples=250)
@example(
    (ValueComparison(">", NUMBERS[2]), ValueComparison("<", NUMBERS[4])),
    (ValueComparison(">=", NUMBERS[3]),),
)
@example(
    (ValueComparison(">=", NUMBERS[2]), ValueComparison("<>", NUMBERS[2])),
    (ValueComparison(">", NUMBERS[2]),),
)
@example((ValueComparison("=", NUMBERS[6]),), (ValueComparison("=", NUMBERS[5]),))
def test_implication_of_numbers_is_that_of_all_values(a: Comparisons, b: Comparisons) -> None:
    """On numbers, `implies` says exactly whether no value fulfils the left side only."""
    values = [*_around_numbers(_literals(a, b)), "no number", None]
    assert implies(a, b) == all(holds(b, value) for value in values if holds(a, value))
    assert unsatisfiable(a) == (not any(holds(a, value) for value in values))
    table = PredicateTable()
    left, right = table.number("a", a), table.number("a", b)
    assert implies_predicate(table.implications(), left, right) == implies(a, b)


@given(textual, textual)
@settings(deadline=None, max_examples=250)
@example(
    (ValueComparison("<=", "a\0"), ValueComparison("<>", "a\0")), (ValueComparison("<=", "a"),)
)
@example((), (ValueComparison(">=", ""),))
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


def test_an_equal_text_is_tried_as_a_number() -> None:
    """`= '7'` implies `> 5`; `= 'x'` contradicts it."""
    assert implies((ValueComparison("=", "7"),), (ValueComparison(">", Decimal(5)),))
    assert unsatisfiable((ValueComparison("=", "x"), ValueComparison(">", Decimal(5))))
    assert not implies((ValueComparison("=", Decimal(7)),), (ValueComparison("=", "7"),))


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
    near = st.sampled_from([r for r in read if r is not None] or [Decimal(0)])
    same = st.sampled_from([v for v in values if v is not None] or [""])
    comparisons = data.draw(
        conjunctions(near | same | st.decimals(allow_nan=False, allow_infinity=False))
    )
    column = pa.array(values, pa.string())
    expected = [holds(comparisons, value) for value in values]
    assert holds_each(comparisons, column).tolist() == expected
    assert holds_each(comparisons, column.cast(pa.large_string())[1:]).tolist() == expected[1:]


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("5", "5"), ("+5.", "5"), (".5", "0.5"), ("-0", "0"), (" \t\r\n7\n", "7"), ("1e999", "1e999"),
        ("1e-999", "1e-999"), ("1e+05", "1e5"), ("0" * 400 + "1", "1"), ("9007199254740993", "9007199254740993"),
        ("1e-" + "0" * 5000 + "1", "0.1"), ("0e99999999999999999999", "0"), ("1e" + "9" * 5000, "1e100000000000000000"),
        ("", None), (".", None), ("e5", None), ("1e", None), ("1e+", None),
        ("--1", None), ("1_000", None), ("inf", None), ("nan", None), ("0x10", None), ("1 2", None),
        ("\u00a05", None), ("٥", None), ("1.2.3", None), ("1e1.5", None), ("+", None),
    ],
)  # fmt: skip
def test_what_is_a_number(text: str, read: str | None) -> None:
    """Digits, a point, an exponent, a sign, XML's white space around: one by one and in a column."""
    assert number(text) == (None if read is None else Decimal(read))
    expected = read is not None
    anything = (ValueComparison(">=", Decimal("-1e999")),)
    assert holds_each(anything, pa.array([text])).tolist() == [expected]
    if read is not None:
        same = (ValueComparison("=", Decimal(read)),)
        assert holds_each(same, pa.array([text])).tolist() == [True]


@st.composite
def close_numerals(draw: st.DrawFn) -> list[str]:
    """Numbers that are equal, or differ by a digit somewhere, written in several ways."""
    digits = draw(st.text("0123456789", min_size=1, max_size=40))
    found = []
    for _ in range(draw(st.integers(1, 4))):
        own = digits
        if draw(st.booleans()):
            place = draw(st.integers(0, len(own) - 1))
            own = own[:place] + draw(st.sampled_from("0123456789")) + own[place + 1 :]
        shift = draw(st.integers(0, len(own)))
        zeros = "0" * draw(st.sampled_from([0, 0, 1, 20]))
        more = draw(st.sampled_from(["", "0", "000", "0000000000000000000000001"]))
        sign = draw(st.sampled_from(["", "", "-", "+"]))
        power = draw(st.sampled_from([0, 0, 0, 1, 300, -300, 400, -400])) + len(own) - shift
        point = own[:shift] + "." + own[shift:] + more
        found.append(f"{sign}{zeros}{point}e{power}")
    return found


@given(close_numerals(), st.data())
@settings(deadline=None, max_examples=200)
@example(["9007199254740993"], None)
def test_numbers_are_compared_exactly(texts: list[str], data: st.DataObject | None) -> None:
    """Whatever the digits: one by one, in columns and where patterns are looked for, as fractions compare."""
    literal = "9007199254740992" if data is None else data.draw(st.sampled_from(texts))
    comparison = ValueComparison("=", number(literal) or Decimal(0))
    operators = {
        "=": Fraction.__eq__, "<>": Fraction.__ne__, "<": Fraction.__lt__,
        "<=": Fraction.__le__, ">": Fraction.__gt__, ">=": Fraction.__ge__,
    }  # fmt: skip
    documents = read_json([f'{{"a": "{text}"}}' for text in texts])
    for operator, test in operators.items():
        asked = (ValueComparison(operator, comparison.literal),)
        expected = [test(Fraction(text), Fraction(literal)) for text in texts]
        assert [holds(asked, text) for text in texts] == expected
        assert holds_each(asked, pa.array(texts)).tolist() == expected
        pattern = TreePattern((PatternNode("a", -1, value=asked),))
        found = Extractor([pattern]).extract(documents).tuples[0]
        assert found.column("document").to_pylist() == np.flatnonzero(expected).tolist()


@given(
    st.decimals(allow_nan=False, allow_infinity=False)
    | close_numerals().map(lambda n: Decimal(n[0]))
)
@settings(deadline=None, max_examples=200)
def test_the_text_of_a_number_is_the_number(value: Decimal) -> None:
    """All digits are written, and equal numbers are written alike."""
    assert number(numeral(value)) == value
    assert numeral(
        Decimal(str(value) + ("0" if "." in str(value) and "E" not in str(value) else ""))
    ) == numeral(value)


def test_every_operator_on_every_side() -> None:
    """All six operators, below, at and above the literal."""
    assert [[holds((ValueComparison(o, Decimal(5)),), v) for v in ("4", "5.0", "6")] for o in OPERATORS] == [
        [False, True, False], [True, False, True], [True, False, False],
        [True, True, False], [False, False, True], [False, True, True],
    ]  # fmt: skip
    for operator, value in product(OPERATORS, ("4", "5", "51", "6")):
        column = holds_each((ValueComparison(operator, "5"),), pa.array([value]))
        assert np.array_equal(column, [holds((ValueComparison(operator, "5"),), value)])
