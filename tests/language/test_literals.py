"""Columns of literals against one literal at a time, and that against arithmetic."""

import math
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.language import literals
from penstock.language.filter_tree import LiteralKind
from penstock.language.types import Kind, Scalar

TYPES = [
    Scalar(Kind.INTEGER),
    Scalar(Kind.DOUBLE),
    Scalar(Kind.DECIMAL, 12, 2),
    Scalar(Kind.DECIMAL, 18, 18),
    Scalar(Kind.DECIMAL, 38, 10),
]
DIGITS = st.text("0123456789", min_size=1, max_size=12) | st.text("0159", min_size=1, max_size=45)


@st.composite
def numbers(draw: st.DrawFn, kind: LiteralKind) -> str:
    whole = draw(DIGITS)
    if kind is LiteralKind.INTEGER:
        return whole
    fraction = f".{draw(DIGITS)}" if kind is LiteralKind.DECIMAL or draw(st.booleans()) else ""
    if kind is LiteralKind.DECIMAL:
        return whole + fraction
    power = draw(st.integers(-400, 400) | st.integers(-25, 25) | st.integers(-(10**9), 10**9))
    return f"{whole}{fraction}{draw(st.sampled_from('eE'))}{draw(st.sampled_from(['', '+']))}{power}".replace(
        "+-", "-"
    )


@st.composite
def columns(draw: st.DrawFn) -> tuple[LiteralKind, bool, list[str], Scalar]:
    kind = draw(st.sampled_from([LiteralKind.INTEGER, LiteralKind.DECIMAL, LiteralKind.DOUBLE]))
    texts = draw(st.lists(numbers(kind), min_size=1, max_size=8))
    return kind, draw(st.booleans()), texts, draw(st.sampled_from(TYPES))


@settings(max_examples=500, deadline=None)
@given(columns())
def test_a_column_is_read_as_each_of_its_numbers(
    column: tuple[LiteralKind, bool, list[str], Scalar],
) -> None:
    """The kernel's fast road and the slow one end at the same bounds, and refuse the same numbers."""
    kind, negative, texts, type_ = column
    bounds, unreadable = literals.bounds(kind, negative, literals.column(texts), type_)
    reasons = {one.position: one.reason for one in unreadable}
    for position, text in enumerate(texts):
        try:
            expected = literals.literal_bound(kind, negative, text, type_)
        except ValueError as error:
            assert reasons.pop(position) == str(error)  # noqa: PT017
            continue
        over = 0 if bounds.over is None else bounds.over[position]
        assert (_key(bounds.lo[position]), _key(bounds.hi[position]), over) == expected, text
    assert not reasons


@settings(max_examples=500, deadline=None)
@given(columns())
def test_bounds_are_right_by_arithmetic(
    column: tuple[LiteralKind, bool, list[str], Scalar],
) -> None:
    """An exact number lies between the two keys around it; a double is the one nearest to the number."""
    kind, negative, texts, type_ = column
    for text in texts:
        if type_.kind is Kind.DOUBLE and not math.isinf(float(text)):
            lo, hi, _ = literals.literal_bound(kind, negative, text, type_)
            value = np.array([-float(text) if negative else float(text)])
            assert lo == hi == literals.double_keys(value)[0]
        elif kind is not LiteralKind.DOUBLE and type_.kind is not Kind.DOUBLE and not type_.is_wide:
            exact = Fraction(text) * 10**type_.scale * (-1 if negative else 1)
            lo, hi, over = literals.literal_bound(kind, negative, text, type_)
            if -(2**63) <= exact < 2**63:
                assert (lo, hi, over) == (math.ceil(exact), math.floor(exact), 0)
            elif type_.kind is Kind.INTEGER:
                assert over == (1 if exact > 0 else -1)


@settings(deadline=None)
@given(st.lists(st.text(max_size=5), min_size=1, max_size=6), st.integers(0, 3))
def test_prefixes_are_read_alike_in_a_column(heads: list[str], skipped: int) -> None:
    """Also in a column that is part of another one, and for the empty prefix, past which there is nothing."""
    heads = [head.encode("utf-8", "ignore").decode() for head in heads]
    column = literals.column(["before"] * skipped + heads)[skipped:]
    bounds = literals.prefix_bounds(column)
    for position, head in enumerate(heads):
        over = 0 if bounds.over is None else bounds.over[position]
        found = bounds.lo[position].as_py(), bounds.hi[position].as_py(), over
        assert found == literals.prefix_bound(head)
        if head:
            assert found[0] <= head.encode() < found[1]
            assert head.encode() + b"\xf4\x8f\xbf\xbf" * 3 < found[1]


@pytest.mark.parametrize("kind", [Kind.DATE, Kind.TIMESTAMP])
@pytest.mark.parametrize(
    "texts",
    [
        ["2024-01-31", "1969-12-31"],
        ["2024-01-31", "soon", "0000-01-01"],
        ["2024-01-31 10:00:00", "2024-01-31"],
        ["2024-01-31T10:00:00.5Z", " 2024-01-31 ", "2024-02-30"],
    ],
)
def test_times_are_read_alike_in_a_column(kind: Kind, texts: list[str]) -> None:
    """Arrow reads the plain ones; whatever it can't, the whole column is read one by one."""
    for literal in (
        LiteralKind.STRING,
        LiteralKind.DATE,
        LiteralKind.TIMESTAMP,
        LiteralKind.TIMESTAMPTZ,
    ):
        bounds, unreadable = literals.bounds(literal, False, literals.column(texts), Scalar(kind))
        bad = {one.position: one.reason for one in unreadable}
        for position, text in enumerate(texts):
            try:
                expected = literals.literal_bound(literal, False, text, Scalar(kind))
            except ValueError as error:
                assert bad[position] == str(error)  # noqa: PT017
                continue
            assert (bounds.lo[position], bounds.hi[position], 0) == expected


def _key(key: object) -> object:
    return key.as_py() if isinstance(key, pa.Scalar) else int(key)  # type: ignore[call-overload]
