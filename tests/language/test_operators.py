"""Calls of operators, variables and conditions: what a filter with them means.

A call is an attribute, so most of it is shown by reading a filter twice, with a call and with an attribute in its
place. What variables mean is compared with the definition: there is one value for each that makes the filter true.
"""

import itertools
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.language.scenes import INTEGER, OPERATORS, SCHEMA, STRING, signature

from penstock import FilterError, Schema
from penstock.base.errors import OperatorError
from penstock.language import calls
from penstock.language.calls import CALL, Arithmetic, Call, Fixed, Given, Invocation, Joint
from penstock.language.filter_tree import (
    And,
    Binding,
    Constant,
    Constraint,
    Factor,
    Not,
    Or,
    Tree,
    leaves,
)
from penstock.language.infer import infer
from penstock.language.normal import Term, normal_form
from penstock.language.parser import parse
from penstock.language.schema import Attribute
from penstock.language.shapes import Shapes
from penstock.language.signatures import Signatures, check_name
from penstock.matching import check, check_many
from penstock.matching.explain import describe

# ---- normal forms, as pairs


def normal(text: str, schema: Schema = SCHEMA) -> list[list[str]]:
    """The normal form of a filter in SQL."""
    found = normal_form(text, parse(text, schema))
    return [[describe(term) for term in c if isinstance(term, Factor)] for c in found]


def asked(text: str, schema: Schema = SCHEMA) -> list[set[Any]]:
    """What each conjunction of a filter asks of operators."""
    found = normal_form(text, parse(text, schema))
    return [{t.attribute.asked for t in c if isinstance(t, Factor)} - {None} for c in found]


PAIRS = [
    ("in_area(place, 'Bronx') AND crowd(image) > 50", "in_area(place, 'Bronx') & crowd(image) > 50"),
    ("NOT in_area(place, 'Bronx')", "NOT in_area(place, 'Bronx')"),
    ("in_area(place, 'Bronx') = TRUE", "in_area(place, 'Bronx')"),
    ("in_area(place, 'Bronx') = FALSE", "in_area(place, 'Bronx') = false"),
    ("in_area(place, 'x') IS TRUE", "in_area(place, 'x') IS NOT DISTINCT FROM true"),
    ("in_area(place, 'it''s')", "in_area(place, 'it''s')"),
    ("crowd(image) BETWEEN 5 AND 10", "crowd(image) >= 5 & crowd(image) <= 10"),
    ("crowd(image) IN (1, 2)", "crowd(image) IN (1, 2)"),
    ("crowd(image) NOT IN (1, 2)", "crowd(image) NOT IN (1, 2)"),
    ("label(image) LIKE 'po%'", "label(image) LIKE 'po%'"),
    ("label(image) LIKE 'po'", "label(image) = 'po'"),
    ("crowd(image) IS NULL", "crowd(image) IS NULL"),
    ("crowd(image) IS NOT NULL", "crowd(image) IS NOT NULL"),
    ("crowd(image) IS DISTINCT FROM 5", "crowd(image) IS DISTINCT FROM 5"),
    ("50 < crowd(image)", "crowd(image) > 50"),
    ("(crowd(image)) > 5", "crowd(image) > 5"),
    ("NOT (crowd(image) > 5 OR halted)", "crowd(image) <= 5 & halted <> true"),
    ("crowd(image) = 1 OR crowd(image) = 2", "crowd(image) IN (1, 2)"),
    ('CROWD ( "image" ) > 5', "crowd(image) > 5"),
    ('"crowd"(IMAGE) > 5', "crowd(image) > 5"),
    ("near(place, 5)", "near(place, 5.0)"),
    ("near(place, -2.5)", "near(place, -2.5)"),
    ("near(place, price)", "near(place, price)"),
    ("near(place, volume)", "near(place, volume)"),
    ("near(place, NULL)", "near(place, NULL)"),
    ("seen('2024-01-31', 2.0) > 0.5", "seen(DATE '2024-01-31', 2) > 0.5"),
    ("seen(time, 1e3) > 0.5", "seen(time, 1000) > 0.5"),
    ("paid(2.5)", "paid(2.50)"),
    ("lit(TRUE, '2024-01-31 10:00+02:00')", "lit(TRUE, TIMESTAMPTZ '2024-01-31T08:00:00+00:00')"),
    ("odd(tags) AND odd(place) AND odd(image)", "odd(tags) & odd(place) & odd(image)"),
    ("odd(place.city) AND odd(\"a.b\")", "odd(place.city) & odd(\"a.b\")"),
    ("odd('5') AND odd(5) AND odd(5.0)", "odd('5') & odd(5) & odd(5.0)"),
    ("odd('2024-01-31') AND odd(DATE '2024-01-31')", "odd('2024-01-31') & odd(DATE '2024-01-31')"),
    ("p(3, 4)", "p(3, 4)"),
    ("NOT p(3, 4)", "NOT p(3, 4)"),
    ("p(:x, :x)", "p(:1, :1)"),
    ("p(:x, :y)", "p(:1, :2)"),
    ("p(3, :y)", "p(3, :1)"),
    ("NOT NOT p(3, :y)", "p(3, :1)"),
    ("boats(image, :y) AND coastguard(image, :z)", "boats(image, :1) & coastguard(image, :1)"),
    (
        "boats(image, :y) AND coastguard(image, :z) AND :y > 2 * :z",
        "boats(image, :1) & coastguard(image, :1) & boats(image, :1), coastguard(image, :2) with :1 > 2 * :2",
    ),
    (
        "boats(image, :y) AND coastguard(image, :y)",
        "boats(image, :1) & coastguard(image, :1) & boats(image, :1), coastguard(image, :1)",
    ),
    ("boats(image, :y) AND boats(image, :y)", "boats(image, :1)"),
    (
        "boats(image, :y) AND boats(image, :z) AND :y <> :z",
        "boats(image, :1) & boats(image, :1), boats(image, :2) with :2 <> :1",
    ),
    ("boats(image, :y) AND :y IN (1)", "boats(image, :1) & boats(image, :1) with :1 = 1"),
    (
        "boats(image, :y) AND NOT (:y > 2 OR :y IS NULL)",
        "boats(image, :1) & boats(image, :1) with :1 <= 2, :1 IS NOT NULL",
    ),
    (
        "(boats(image, :y) OR coastguard(image, :y)) AND :y > 2",
        "boats(image, :1) & boats(image, :1) with :1 > 2 | "
        "coastguard(image, :1) & coastguard(image, :1) with :1 > 2",
    ),
    (
        "name(image, :n) AND :n = symbol AND boats(image, :y) AND :y > 2",
        "name(image, :1) & boats(image, :1) & name(image, :1) with :1 = symbol & boats(image, :1) with :1 > 2",
    ),
    ("boats(image, :y) AND :y = NULL", ""),
    ("taken(image, :d) AND :d > '2024-01-31'", "taken(image, :1) & taken(image, :1) with :1 > DATE '2024-01-31'"),
    ("taken(image, :d) AND :d < time", "taken(image, :1) & taken(image, :1) with :1 < time"),
    ("sunny(image, :s) AND :s = TRUE", "sunny(image, :1) & sunny(image, :1) with :1 = TRUE"),
    ("sunny(image, TRUE)", "sunny(image, TRUE)"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "form"), PAIRS, ids=[text[:50] for text, _ in PAIRS])
def test_normal_forms(text: str, form: str) -> None:
    """Golden pairs: a filter, and its conjunctions in SQL."""
    assert " | ".join(" & ".join(conjunction) for conjunction in normal(text)) == form


def test_a_value_is_an_attribute_with_a_name_of_its_own() -> None:
    """The path says which call it is, the type is the operator's, and what is asked is beside it."""
    ((factor,),) = normal_form("", parse("crowd(image) > 50", SCHEMA))
    assert isinstance(factor, Factor)
    call = Call(Invocation("crowd", (Given(("image",)),)))
    assert factor.attribute == Attribute((CALL, "crowd(image)"), INTEGER, call)


def test_a_joint_is_what_calls_satisfy_together() -> None:
    """Which call binds which variable of the joint, and its conditions in their numbers."""
    (found,) = asked("coastguard(image, :z) AND p(:y, :z) AND :z + 1 < :y AND p(:y, 3)")
    (joint,) = (one for one in found if isinstance(one, Joint))
    image = (Given(("image",)),)
    assert joint.calls == (
        Call(Invocation("coastguard", image), (0,)),
        Call(Invocation("p", ()), (0, Fixed(INTEGER, 3))),
        Call(Invocation("p", ()), (0, 1)),
    )
    assert joint.variables == ((0,), (1,), (1, 0))
    one = Fixed(INTEGER, 1)
    assert joint.conditions == (
        calls.Condition(">", calls.Variable(1), Arithmetic("+", one, calls.Variable(0))),
    )
    assert found == {joint, *joint.calls}


# ---- calls are attributes

TEMPLATES = ["{} > 5", "5 >= {}", "{} = 5", "{} <> 5", "{} IN (1, 5.5, 7)", "{} NOT IN (5, NULL)",
             "{} BETWEEN 2 AND 1e1", "{} NOT BETWEEN 2 AND 9", "{} IS NULL", "{} IS NOT NULL",
             "{} IS DISTINCT FROM 5", "halted", "volume > 3", "symbol LIKE '%x'", "TRUE", "NULL"]  # fmt: skip


@st.composite
def trees(draw: st.DrawFn) -> str:
    def node(depth: int) -> str:
        if depth == 0 or draw(st.integers(0, 3)) == 0:
            return draw(st.sampled_from(TEMPLATES))
        match draw(st.sampled_from(["AND", "OR", "NOT"])):
            case "NOT":
                return f"NOT ({node(depth - 1)})"
            case word:
                return f"({node(depth - 1)} {word} {node(depth - 1)})"

    return node(draw(st.integers(0, 4)))


@settings(max_examples=300, deadline=None)
@given(trees())
def test_a_call_has_the_logic_of_an_attribute(template: str) -> None:
    """NULL, NOT, AND and OR: with `volume` in the place of the call, the normal form is the same but for that."""
    with_call = template.replace("{}", "crowd(image)")
    with_attribute = template.replace("{}", "twin")
    schema = Schema.of(
        {"twin": "bigint", "volume": "bigint", "halted": "boolean", "symbol": "string"}
    )
    twin = schema.find(("twin",))
    call = Attribute(
        (CALL, "crowd(image)"), INTEGER, Call(Invocation("crowd", (Given(("image",)),)))
    )

    def plain(term: Term) -> tuple[Any, ...]:
        if not isinstance(term, Factor):
            return str(term.test.attribute), term.holds  # type: ignore[union-attr]
        attribute = twin if term.attribute == call else term.attribute
        pieces = tuple((p.order, p.literal.kind, p.literal.text) for p in term.pieces)
        return attribute, pieces, term.negated, term.null

    def apart(term: Term) -> list[Term]:
        """`NOT (a = 1 OR a = 2)` may be read as `a <> 1 AND a <> 2`, or at once as `a NOT IN (1, 2)`."""
        if isinstance(term, Factor) and term.negated and term.pieces:
            return [replace(term, pieces=(piece,)) for piece in term.pieces]
        return [term]

    def form(text: str, under: Schema) -> list[list[tuple[Any, ...]]]:
        found = normal_form(text, parse(text, under))
        return [list(dict.fromkeys(plain(t) for term in c for t in apart(term))) for c in found]

    assert form(with_call, SCHEMA) == form(with_attribute, schema)


# ---- variables

VARIABLES = ["x", "y", "z"]
DOMAIN = [0, 1, 2]
CONDITIONS = [":{0} > :{1}", ":{0} = 1", ":{0} + 1 < :{1} * 2", ":{0} <> :{1}", ":{0} IN (0, 2)", "NOT :{0} = :{1}",
              ":{0} BETWEEN 1 AND :{1}", ":{0} IS NOT NULL", ":{0} % 2 = 0", "-:{0} < volume",
              "2 * volume > :{0} + :{1}", ":{0} NOT IN (1, :{1})", "(:{0} = 0 OR :{1} > 1)"]  # fmt: skip
CALLS = ["p(:{0}, :{1})", "p(:{0}, 1)", "boats(image, :{0})", "coastguard(image, :{0})", "p(2, 1)", "NOT p(2, 1)",
         "p(:{0}, :{0})"]  # fmt: skip


@st.composite
def conjunctions(draw: st.DrawFn) -> str:
    """Calls, and conditions on what they bind; sometimes two sets of calls beside an OR."""

    def some(choices: list[str], least: int, most: int) -> list[str]:
        picked = draw(st.lists(st.sampled_from(choices), min_size=least, max_size=most))
        return [
            p.format(draw(st.sampled_from(VARIABLES)), draw(st.sampled_from(VARIABLES)))
            for p in picked
        ]

    parts = some(CALLS, 1, 3)
    if draw(st.booleans()):
        parts.append(f"({' AND '.join(some(CALLS, 1, 2))} OR {' AND '.join(some(CALLS, 1, 2))})")
    return " AND ".join(draw(st.permutations(parts + some(CONDITIONS, 0, 3))))


ANSWERS = st.fixed_dictionaries(
    {
        "p": st.sets(st.tuples(st.sampled_from(DOMAIN), st.sampled_from(DOMAIN))),
        "boats": st.sets(st.tuples(st.sampled_from(DOMAIN))),
        "coastguard": st.sets(st.tuples(st.sampled_from(DOMAIN))),
    }
)
Answers = dict[str, set[tuple[int, ...]]]
VOLUME = 1


def computed(operand: Any, values: Any) -> int:
    match operand:
        case calls.Variable(number):
            return values[number]
        case Given():
            return VOLUME
        case Fixed(_, value):
            return int(value)
        case Arithmetic(operation, left, None):
            assert operation == "-"
            return -computed(left, values)
        case Arithmetic(operation, left, right):
            a, b = computed(left, values), computed(right, values)
            return {"+": a + b, "-": a - b, "*": a * b, "%": a % b if b else 0}[operation]
    raise AssertionError(operand)


def true(condition: calls.Condition, values: Any) -> bool:
    if condition.right is None:
        return condition.order == "not null"
    a, b = computed(condition.left, values), computed(condition.right, values)
    return {"=": a == b, "<>": a != b, "<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}[
        condition.order
    ]


def fits(call: Call, values: Any, answers: Answers) -> bool:
    wanted = tuple(values[p] if isinstance(p, int) else p.value for p in call.pattern)
    return wanted in answers[call.invocation.operator]


def holds(tree: Tree, values: dict[str, int], answers: Answers) -> bool:
    """The definition: a filter is true or false once every variable has a value."""
    match tree:
        case And(children):
            return all(holds(child, values, answers) for child in children)
        case Or(children):
            return any(holds(child, values, answers) for child in children)
        case Not(child):
            return not holds(child, values, answers)
        case Binding(call, names):
            return fits(call, [values[name] for name in names], answers)
        case Constraint(condition, names):
            return true(condition, [values[name] for name in names])
        case Factor(attribute) if isinstance(attribute.asked, Call):
            return fits(attribute.asked, [], answers)
        case Constant(value):
            return value is True
    raise AssertionError(tree)


def satisfied(term: Term, answers: Answers) -> bool:
    """A term of the normal form: a call of which some answer fits, or a joint, by trying all values."""
    assert isinstance(term, Factor)
    one = term.attribute.asked
    if isinstance(one, Call):
        own = 1 + max((p for p in one.pattern if isinstance(p, int)), default=-1)
        found = any(fits(one, values, answers) for values in itertools.product(DOMAIN, repeat=own))
        return found is not term.negated
    assert isinstance(one, Joint)
    assert not term.negated
    count = 1 + max(itertools.chain.from_iterable(one.variables))
    return any(
        all(fits(call, [values[v] for v in own], answers) for call, own in zip(one.calls, one.variables, strict=True))
        and all(true(condition, values) for condition in one.conditions)
        for values in itertools.product(DOMAIN, repeat=count)
    )  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(conjunctions(), ANSWERS)
def test_an_event_matches_if_some_values_make_the_filter_true(text: str, answers: Answers) -> None:
    """The calls and joints of the normal form say the same as trying every value for every variable."""
    try:
        tree = parse(text, SCHEMA)
        found = normal_form(text, tree)
    except FilterError as error:
        assert "is bound by no operator" in error.reason  # noqa: PT017
        return
    expected = any(
        holds(tree, dict(zip(VARIABLES, values, strict=True)), answers)
        for values in itertools.product(DOMAIN, repeat=len(VARIABLES))
    )
    assert any(all(satisfied(term, answers) for term in c) for c in found) is expected


@settings(max_examples=200, deadline=None)
@given(conjunctions(), st.permutations(VARIABLES), st.randoms(use_true_random=False))
def test_names_of_variables_and_the_order_of_calls_make_no_difference(
    text: str, names: list[str], rng: Any
) -> None:
    """Filters that differ in those only ask the same of operators, so that it is evaluated once."""
    parts = text.split(" AND ")
    if (
        "(" in text.replace("p(", "").replace("boats(", "").replace("coastguard(", "")
        or "BETWEEN" in text
    ):
        return  # can't be taken apart at its ANDs
    rng.shuffle(parts)
    renamed = " AND ".join(parts)
    for old, new in zip(VARIABLES, names, strict=True):
        renamed = renamed.replace(f":{old}", f":{new}_")
    try:
        expected = asked(text)
    except FilterError:
        return
    assert asked(renamed) == expected


def test_predicates_that_differ_in_variable_names_only_are_one() -> None:
    """As the paper has it: p(?x1, ?y1) is p(?x3, ?y4), and isn't p(?x7, ?x7)."""
    assert asked("p(:x1, :y1)") == asked("p(:x3, :y4)") == asked("p(:Y, :x)")
    assert asked("p(:x7, :x7)") != asked("p(:x, :y)")
    assert asked("p(3, :y)") != asked("p(:y, 3)")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("boats(image, :a) AND :a > 2 * 3", "boats(image, :b) AND 3 * 2 < :b"),
        ("boats(image, :a) AND :a > 1 AND :a < 5", "boats(image, :b) AND :b < 5 AND :b > 1 AND :b > 1"),
        ("boats(image, :a) AND NOT :a > 1", "boats(image, :a) AND :a <= 1"),
        ("boats(image, :a) AND boats(image, :b) AND :a < :b", "boats(image, :a) AND boats(image, :b) AND :b < :a"),
        ("boats(image, :a) AND coastguard(image, :a)", "coastguard(image, :q) AND boats(image, :q)"),
    ],
)  # fmt: skip
def test_equal_joints_are_equal(one: str, other: str) -> None:
    """Sides, order, names and repetitions don't matter where that is cheap to see."""
    assert asked(one) == asked(other)


def test_conditions_that_differ_are_told_apart() -> None:
    """An exact 2.5 isn't the double 2.5e0, a name with a dot isn't a path; each has its own name."""
    texts = [
        "boats(image, :y) AND :y > 2.5", "boats(image, :y) AND :y > 2.5e0", "boats(image, :y) AND :y > 2",
        "boats(image, :y) AND :y >= 2", "boats(image, :y) AND :y > -2", "boats(image, :y) AND :y > 2 - 1",
        "boats(image, :y) AND :y > 1 - 2", "boats(image, :y) AND :y > volume", "name(image, :y) AND :y > 'volume'",
        "name(image, :y) AND :y > symbol", "name(image, :y) AND :y > \"a.b\"", "name(image, :y) AND :y > place.city",
        "weight(image, :y) AND :y IN (2, 1e0)", "weight(image, :y) AND :y = 2", "boats(image, :y) AND :y - (1 - 1) = 1",
        "boats(image, :y) AND :y - 1 - 1 = 1", "boats(image, :y) AND :y * (1 + 1) = 1",
        "boats(image, :y) AND :y * 1 + 1 = 1",
    ]  # fmt: skip
    found = {one for text in texts for c in asked(text) for one in c if isinstance(one, Joint)}
    assert len(found) == len(texts) + 1  # of the two alternatives of IN
    assert len({str(one) for one in found}) == len(found)


# ---- alone and in company


def test_without_a_schema_attributes_have_the_types_of_parameters() -> None:
    """What an operator is given, and what is compared with a variable; one attribute still has one type."""
    text = "in_area(spot, 'x') AND crowd(pic) > 5 AND boats(pic, :n) AND :n + 1 < limit AND name(pic, :s) AND :s = who"
    schema = infer(text, OPERATORS)
    types = {name: str(type_) for name, type_ in schema.root.fields}
    assert types == {
        "who": "string",
        "limit": "double",
        "spot": "struct<lat: double, lon: double>",
        "pic": "binary",
    }
    assert check(text, None, OPERATORS) == check(text, schema)
    for bad in (
        "crowd(pic) > 5 AND pic = 'x'",
        "in_area(spot, 'x') AND spot > 5",
        "crowdy(pic) > 5",
    ):
        with pytest.raises(FilterError):
            check(bad, None, OPERATORS)
        assert [row for row, _ in check_many([bad, text], None, OPERATORS)] == [0]


def test_operators_are_those_of_the_schema_or_those_given() -> None:
    """No operators, no calls; given ones go before those of the schema."""
    text = "crowd(image) > 5 AND price > 5"
    assert check(text, SCHEMA) == check(text, SCHEMA.with_operators(Signatures()), OPERATORS) == []
    for schema, operators in ((SCHEMA, Signatures.of([signature("other")])), (None, Signatures())):
        with pytest.raises(FilterError):
            check(text, schema, operators)


def test_shapes_are_shared_but_for_what_operators_are_given() -> None:
    """Beside OR, filters that differ in other literals share a parse; what is given is part of the shape."""
    texts = [f"in_area(place, 'k{n % 3}') OR price > {n}" for n in range(30)]
    found = Shapes(SCHEMA).read(texts)
    assert sorted(len(group.rows) for group in found.groups) == [10, 10, 10]
    assert not found.errors


def test_warnings_know_that_calls_are_dear() -> None:
    """A filter that asks an operator about every event is warned of; with an ordinary predicate it isn't."""
    assert check("crowd(image) > 5 AND symbol = 'x'", SCHEMA) == []
    for text in (
        "crowd(image) > 5",
        "in_area(place, 'x') AND symbol <> 'x'",
        "p(:x, :y) AND :x > :y",
    ):
        (warning,) = check(text, SCHEMA)
        assert warning.startswith("calls an operator for every event")
    assert check("crowd(image) > 5 AND crowd(image) < 3", SCHEMA)[0].startswith("never matches")
    assert check("crowd(image) > 5 OR crowd(image) <= 5 OR crowd(image) IS NULL", SCHEMA) == [
        "matches every event"
    ]


def test_leaves_are_told_in_sql() -> None:
    """Each leaf as it was written, with its own names of variables, and negated where the filter negates it."""
    text = (
        "boats(image, :y) AND NOT (:y > 2 * (:y - volume)) AND NOT in_area(place, 'x') "
        "AND crowd(image) > 50 AND :y IS NULL"
    )
    told = [describe(leaf, wanted) for leaf, wanted in leaves(parse(text, SCHEMA))]
    assert told == [
        "boats(image, :y)", ":y <= 2 * (:y - volume)", "NOT in_area(place, 'x')", "crowd(image) > 50", ":y IS NULL",
    ]  # fmt: skip


def test_what_is_asked_survives_json() -> None:
    """A plan holds it as JSON, and gives back the equal object."""
    for text, _ in PAIRS:
        for one in itertools.chain.from_iterable(asked(text)):
            again = calls.decode_asked(calls.encode_asked(one))
            assert again == one
            assert str(again) == str(one)


# ---- names of operators


@pytest.mark.parametrize(
    "name", ["crowd", "in_area", "p", "P2", "_x", "distance", "label", "x", "e"]
)
def test_names_that_can_be_called(name: str) -> None:
    """A good name can be called in a filter, whatever the number of arguments."""
    check_name(name)
    for count in range(6):
        operators = Signatures.of([signature(name, (STRING,) * count, INTEGER)])
        text = f"NOT {name}({', '.join(['a'] * count)}) > 5"
        assert check(text, None, operators)


@pytest.mark.parametrize(
    "name",
    ["", "1a", "a b", "a.b", "größe", "x" * 65, "a\n", "and", "NOT", "in", "between", "like", "case", "null", "true",
     "select", "array_contains", "List_Has", "left", "length", "contains", "date", "year", "count", "cast", "exists",
     "coalesce", "map", "struct", "any", "extract", "interval", "when"],
)  # fmt: skip
def test_names_that_cannot_be_called(name: str) -> None:
    """Words of SQL, functions that its parser knows, and what is no name, are refused at once."""
    with pytest.raises(OperatorError, match="an operator can't be named"):
        check_name(name)


def test_signatures_find_by_name_and_survive_json() -> None:
    """Case is ignored; the nearest name is suggested."""
    found = OPERATORS.find("Crowd")
    assert found is not None
    assert found.name == "crowd"
    assert OPERATORS.suggestion("crwd") == "crowd"
    assert OPERATORS.suggestion("zzz") is None
    again = Signatures.from_json(OPERATORS.to_json())
    assert again == OPERATORS
    assert hash(again) == hash(OPERATORS)
    assert replace(found, cost=2.0) != found
