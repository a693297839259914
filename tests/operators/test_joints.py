"""Joints against their definition, by trying all substitutions, and conditions against DuckDB."""

import itertools
import math
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import duckdb
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from penstock.base.errors import OperatorError
from penstock.language.calls import (
    Arithmetic,
    Call,
    Condition,
    Fixed,
    Given,
    Invocation,
    Joint,
    Operand,
    Variable,
)
from penstock.language.types import Kind, Scalar
from penstock.operators import joints
from penstock.operators.joints import fits, holds
from penstock.operators.terms import term_of, truth_of

INTEGER, DOUBLE = Scalar(Kind.INTEGER), Scalar(Kind.DOUBLE)
NOTHING: dict[Any, Any] = {}
DUCKDB = duckdb.connect()


def call(name: str, *pattern: int | Fixed) -> Call:
    return Call(Invocation(name, ()), pattern)


def some(*tuples: Any) -> frozenset[tuple[Any, ...]]:
    return frozenset(tuples)


# --- patterns ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "tuples", "fitting"),
    [
        ((0, 1), some((1, 2)), True),
        ((0, 1), some(), False),
        ((0, 1), some((None, None)), True),
        ((0, 0), some((1, 2), (2, 1)), False),
        ((0, 0), some((1, 2), (2, 2)), True),
        ((0, 0), some((None, None)), False),
        ((0, 0), some((math.nan, math.nan)), True),
        ((0, 0), some((1, 1.0)), True),
        ((Fixed(INTEGER, 3), 0), some((3, 1)), True),
        ((Fixed(INTEGER, 3), 0), some((1, 3)), False),
        ((Fixed(INTEGER, 3),), some((None,)), False),
        ((Fixed(INTEGER, None),), some((None,)), False),
        ((Fixed(Scalar(Kind.DATE), "2007-06-20"),), some((date(2007, 6, 20),)), True),
        ((0, 0), some((date(2007, 6, 20), datetime(2007, 6, 20, tzinfo=UTC))), True),
    ],
)
def test_a_pattern_asks_for_constants_and_equal_values(pattern: Any, tuples: Any, fitting: bool):
    """NULL fits a variable that occurs once, and nothing else."""
    assert fits(call("p", *pattern), tuples) is fitting


# --- joints ------------------------------------------------------------------------------------


def by_definition(joint: Joint, bindings: Sequence[frozenset], event: Any) -> bool:
    """Try one tuple of each call, in all combinations."""
    for chosen in itertools.product(*bindings):
        values: dict[int, Any] = {}
        if all(
            _fits(one, own, values) for one, own in zip(chosen, _places(joint), strict=True)
        ) and all(truth_of(c)(_row(values), event) for c in joint.conditions):
            return True
    return False


def _places(joint: Joint) -> list[list[int | Fixed]]:
    return [
        [p if isinstance(p, Fixed) else own[p] for p in c.pattern]
        for c, own in zip(joint.calls, joint.variables, strict=True)
    ]


def _fits(one: tuple, places: list[int | Fixed], values: dict[int, Any]) -> bool:
    for value, place in zip(one, places, strict=True):
        if isinstance(place, Fixed):
            if value is None or value != place.value:
                return False
        elif place not in values:
            values[place] = value
        elif value is None or values[place] is None or values[place] != value:
            return False
    return True


def _row(values: dict[int, Any]) -> list[Any]:
    return [values.get(v) for v in range(max(values, default=-1) + 1)]


numbers = st.none() | st.integers(0, 4) | st.sampled_from([0.0, 1.0, 2.5])


@st.composite
def joint_cases(draw: st.DrawFn) -> tuple[Joint, list[frozenset], dict]:
    calls, variables, bindings = [], [], []
    count = draw(st.integers(1, 4))
    for number in range(draw(st.integers(1, 4))):
        width = draw(st.integers(1, 3))
        places = draw(
            st.lists(
                st.integers(0, count - 1) | st.builds(Fixed, st.just(INTEGER), st.integers(0, 3)),
                min_size=width,
                max_size=width,
            )
        )
        own: list[int] = []
        pattern: list[int | Fixed] = []
        for place in places:
            if isinstance(place, int):
                if place not in own:
                    own.append(place)
                pattern.append(own.index(place))
            else:
                pattern.append(place)
        calls.append(call(f"p{number}", *pattern))
        variables.append(tuple(own))
        bindings.append(draw(st.frozensets(st.tuples(*[numbers] * width), max_size=6)))
    bound = sorted({v for own in variables for v in own})
    conditions = draw(st.lists(_conditions(bound), max_size=3))
    event = {("price",): draw(numbers)}
    return Joint(tuple(calls), tuple(variables), tuple(conditions)), bindings, event


def _conditions(bound: list[int]) -> st.SearchStrategy[Condition]:
    leaves = st.one_of(
        st.builds(Fixed, st.just(INTEGER), st.integers(0, 3)),
        st.just(Given(("price",))),
        *([st.builds(Variable, st.sampled_from(bound))] * 3 if bound else []),
    )
    terms = leaves | st.builds(Arithmetic, st.sampled_from("+-*/%"), leaves, leaves)
    compared = st.builds(
        Condition, st.sampled_from(["=", "<>", "<", "<=", ">", ">="]), terms, terms
    )
    return compared | st.builds(Condition, st.sampled_from(["null", "not null"]), terms, st.none())


@given(joint_cases())
@settings(deadline=None, max_examples=150)
def test_a_joint_holds_if_some_substitution_satisfies_all(case: tuple):
    """Constants, repeated and shared variables, NULLs, conditions: whatever the definition says."""
    joint, bindings, event = case
    assert holds(joint, bindings, event.get) is by_definition(joint, bindings, event.get)


def test_the_papers_tour_boats():
    """boats(image, :y) AND coastguard(image, :z) AND :y > 2 * :z."""
    joint = Joint(
        (call("boats", 0), call("coastguard", 0)),
        ((0,), (1,)),
        (Condition(">", Variable(0), Arithmetic("*", Fixed(INTEGER, 2), Variable(1))),),
    )
    assert holds(joint, [some((5,)), some((2,))], NOTHING.get)
    assert not holds(joint, [some((4,)), some((2,))], NOTHING.get)
    assert not holds(joint, [some((4,)), some()], NOTHING.get)


def test_a_variable_that_nobody_needs_any_more_costs_nothing():
    """Ten calls of a thousand tuples each, chained by what they share: without dropping variables, 10^30 rows."""
    grid = frozenset(itertools.product(range(30), range(30)))
    count = 10
    chain = Joint(
        tuple(call(f"p{i}", 0, 1) for i in range(count)),
        tuple((i, i + 1) for i in range(count)),
        (Condition(">", Variable(count), Fixed(INTEGER, 100)),),
    )
    assert not holds(chain, [grid] * count, NOTHING.get)
    reachable = Joint(chain.calls, chain.variables, ())
    assert holds(reachable, [grid] * count, NOTHING.get)


def test_a_joint_with_too_many_combinations_is_given_up(monkeypatch: pytest.MonkeyPatch):
    """A million rows at most; the message says whose bindings it were."""
    monkeypatch.setattr(joints, "MOST_ROWS", 10_000)
    many = frozenset((n,) for n in range(200))
    joint = Joint(
        (call("boats", 0), call("guards", 0)),
        ((0,), (1,)),
        (Condition("<", Arithmetic("+", Variable(0), Variable(1)), Fixed(INTEGER, 0)),),
    )
    with pytest.raises(OperatorError, match=r"boats\(:1\), guards\(:1\) have more than 10,000"):
        holds(joint, [many, many], NOTHING.get)


def test_attributes_of_the_event_are_looked_up_once():
    """However many combinations there are."""
    asked: list[Any] = []

    def event(path: Any) -> int:
        asked.append(path)
        return 500

    joint = Joint((call("p", 0),), ((0,),), (Condition(">", Variable(0), Given(("price",))),))
    assert not holds(joint, [frozenset((n,) for n in range(100))], event)
    assert asked == [("price",)]


# --- conditions --------------------------------------------------------------------------------

_SQL = {"null": "{0} IS NULL", "not null": "{0} IS NOT NULL"}
DECIMAL = Scalar(Kind.DECIMAL, 6, 2)
_VALUES = (
    st.integers(-50, 50)
    | st.sampled_from([0, 2**53 + 1, 2**40])
    | st.floats(-100, 100, width=32)
    | st.sampled_from([0.0, -0.0, math.inf, -math.inf, math.nan, 2.0**53])
    | st.decimals(-99, 99, places=2)
    | st.none()
)


def _literal(value: Any) -> str:
    match value:
        case None:
            return "NULL::BIGINT"
        case bool():
            return str(value).upper()
        case int():
            return f"({value})::BIGINT"
        case float():
            return f"'{value}'::DOUBLE"
        case Decimal():
            return f"({value})::DECIMAL(6,2)"
        case datetime():
            return f"TIMESTAMP '{value.replace(tzinfo=None)}'"
        case date():
            return f"DATE '{value}'"
        case _:
            return "'" + str(value).replace("'", "''") + "'"


def _sql(operand: Operand, values: list[Any]) -> str:
    match operand:
        case Variable(number):
            return _literal(values[number])
        case Arithmetic("-", left, None):
            return f"(-{_sql(left, values)})"
        case Arithmetic(operation, left, right):
            divisor = _sql(right, values)
            if operation in "/%":
                divisor = f"NULLIF({divisor}, 0)"
            return f"({_sql(left, values)} {operation} {divisor})"
    raise AssertionError(operand)


@st.composite
def computed(draw: st.DrawFn) -> tuple[Condition, list[Any]]:
    values = draw(st.lists(_VALUES, min_size=2, max_size=4))
    leaf = st.builds(Variable, st.integers(0, len(values) - 1))
    term = (
        leaf
        | st.builds(Arithmetic, st.sampled_from("+-*/%"), leaf, leaf)
        | st.builds(Arithmetic, st.just("-"), leaf, st.none())
    )
    order = draw(st.sampled_from(["=", "<>", "<", "<=", ">", ">=", "null", "not null"]))
    right = None if "null" in order else draw(term)
    return Condition(order, draw(term), right), values


@given(computed())
@settings(deadline=None, max_examples=200)
def test_a_condition_is_true_when_duckdb_says_so(case: tuple[Condition, list[Any]]):
    """Integers, doubles, decimals, NaN, infinities, NULL; a division by zero is NULL (NULLIF, for DuckDB)."""
    condition, values = case
    left = _sql(condition.left, values)
    if condition.right is None:
        text = _SQL[condition.order].format(left)
    else:
        text = f"{left} {condition.order} {_sql(condition.right, values)}"
    try:
        expected = DUCKDB.execute(f"SELECT ({text}) IS TRUE").fetchone()[0]
    except duckdb.DataError:  # an overflow: where DuckDB stops, we go on
        reject()
    assert truth_of(condition)(values, NOTHING.get) is expected, text


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("a", "b"),
        ("Ä", "z"),
        ("", "a"),
        (True, False),
        (date(2007, 6, 20), date(2007, 6, 21)),
        (date(2007, 6, 20), datetime(2007, 6, 20, tzinfo=UTC)),
        (datetime(2007, 6, 20, 12, tzinfo=UTC), date(2007, 6, 20)),
        (datetime(2007, 6, 20, 12, tzinfo=UTC), datetime(2007, 6, 20, 11, tzinfo=UTC)),
    ],
)
@pytest.mark.parametrize("order", ["=", "<>", "<", "<=", ">", ">="])
def test_texts_dates_and_booleans_compare_as_in_duckdb(a: Any, b: Any, order: str):
    """Each among its kind, and dates with timestamps."""
    expected = DUCKDB.execute(f"SELECT {_literal(a)} {order} {_literal(b)}").fetchone()[0]
    found = truth_of(Condition(order, Variable(0), Variable(1)))((a, b), NOTHING.get)
    assert found is expected


@pytest.mark.parametrize("a", [-5, 5, 7.5, -7.5, Decimal("-7.25"), 0])
@pytest.mark.parametrize("b", [3, -3, 2.5, Decimal("1.50"), -0.5])
@pytest.mark.parametrize("operation", "+-*/%")
def test_arithmetic_gives_what_duckdb_gives(a: Any, b: Any, operation: str):
    """The sign of a remainder is that of the dividend; `/` gives a double."""
    expected = DUCKDB.execute(f"SELECT {_literal(a)} {operation} {_literal(b)}").fetchone()[0]
    found = term_of(Arithmetic(operation, Variable(0), Variable(1)))((a, b), NOTHING.get)
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize("zero", [0, 0.0, -0.0, Decimal(0)])
@pytest.mark.parametrize("operation", "/%")
def test_a_division_by_zero_is_null(zero: Any, operation: str):
    """Whatever the types."""
    term = term_of(Arithmetic(operation, Variable(0), Variable(1)))
    assert [term((a, zero), NOTHING.get) for a in (1, 1.5, Decimal(1))] == [None] * 3


def test_integers_are_exact_whatever_their_size():
    """Where DuckDB would stop with an overflow."""
    product = term_of(Arithmetic("*", Variable(0), Variable(0)))
    assert product((2**62,), NOTHING.get) == 2**124
    assert (
        term_of(Arithmetic("/", Variable(0), Fixed(DOUBLE, 1.0)))((10**400,), NOTHING.get)
        == math.inf
    )
