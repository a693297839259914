"""Many selects are read by columns, and nobody can tell: each is what it is alone, or refused with the same words."""

from collections.abc import Iterator
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock import Catalog, FilterError, Table
from penstock.joins.select_costs import examine_select, examine_selects
from penstock.joins.selects import Select, Selects

pytestmark = pytest.mark.usefixtures("columns_always")
CATALOG = Catalog.of(
    {
        "A": Table(
            {
                "k": "string",
                "i": "int",
                "n": "bigint",
                "x": "double",
                "d": "decimal(9,2)",
                "w": "decimal(30,4)",
                "f": "boolean",
                "day": "date",
                "at": "timestamp",
                "p": {"q": "int"},
                "body": "string",
            },
            key="k",
            payload="body",
        ),
        "B": Table({"id": "int", "k": "string", "i": "int", "s": "string"}, key="id"),
    },
    edges=[("A", "B", "k")],
)
LITERALS: dict[str, list[str]] = {
    "A.i": ["0", "5", "-7", "2.5", "1e2", "9223372036854775807", "99999999999999999999", "1e400"],
    "n": ["9223372036854775805", "9223372036854775807", "-9223372036854775808", "3", "0.5"],
    "x": ["0", "-0.0", "1.5", "1e308", "1e309", "-5e-324", "0.30000000000000004"],
    "d": ["0.01", "-3", "2.005", "9999999.99", "1e3", "12345678901234567890"],
    "w": ["0.0001", "-3", "1e20", "99999999999999999999999999.9999"],
    "f": ["TRUE", "FALSE"],
    "day": ["'2024-02-29'", "'2023-02-29'", "DATE '2024-01-01'", "'soon'", "'2024-01-01 10:00'"],
    "at": ["'2024-02-29 12:00:00'", "'2024-02-29'", "'2024-01-01T00:00:00+02:00'", "'later'"],
    "s": ["''", "'a'", "'it''s'", "'é'", "'a%'", "'\U0010ffff'"],
    "A.k": ["'a'", "'b'", "''", "'%b'"],
    "B.k": ["'a'", "'b'", "''", "'%b'"],
    "p.q": ["1", "2"],
    "body": ["'long'", "''"],
}
ORDERS = ["<", "<=", "=", ">=", ">"]
FORMS = [
    "{c} {order} {a}",
    "{a} {order} {c}",
    "{c} BETWEEN {a} AND {b}",
    "({c} >= {a} AND {c} < {b})",
    "{c} IN ({a}, {b})",
    "{c} IN ({a})",
    "{c} <> {a}",
    "NOT ({c} > {a})",
    "({c} = {a} OR {c} = {b})",
    "{c} IS NOT NULL",
    "{c} IS NOT DISTINCT FROM {a}",
    "{c} LIKE {a}",
]
# What makes a text one of another shape, or of none.
MISTAKES = [
    ("WHERE", "WHERE NOT"),
    (" AND ", " OR "),
    (" = ", "="),
    ("'", '"'),
    ("A JOIN", "A a JOIN"),
    ("SELECT *", "select /* all */ *"),
    ("5", "5x"),
    ("i ", "j "),
    ("(k)", "(id)"),
    (" > ", " > -"),
    ("'", "E'"),
]


@pytest.fixture(scope="module")
def columns_always() -> Iterator[None]:
    """A few selects of a shape are read by columns, too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("penstock.joins.selects._FEW", 1)
        yield


def _condition(random: Random) -> str:
    column = random.choice(list(LITERALS))
    a, b = (random.choice(LITERALS[column]) for _ in range(2))
    order = random.choice(ORDERS)
    return random.choice(FORMS).format(c=column, order=order, a=a, b=b)


def _texts(random: Random) -> list[str]:
    """Selects of a few shapes, most with other literals, some with a mistake."""
    found = []
    for _ in range(4):
        conditions = [_condition(random) for _ in range(random.randint(1, 4))]
        text = "SELECT * FROM A JOIN B USING (k) WHERE " + " AND ".join(conditions)
        found.append(text)
        for _ in range(5):
            other = text
            for column in LITERALS:
                for literal in LITERALS[column]:
                    if f" {literal}" in other and random.random() < 0.5:
                        other = other.replace(f" {literal}", f" {random.choice(LITERALS[column])}")
            if random.random() < 0.3:
                other = other.replace(*random.choice(MISTAKES), random.randint(1, 2))
            found.append(other)
    random.shuffle(found)
    return found


def _alone(selects: Selects, text: str) -> Select | str:
    try:
        return selects.one(text)
    except FilterError as error:
        return str(error)


def _check(texts: list[str]) -> None:
    """Read selects together, and then each by itself."""
    found, errors = Selects(CATALOG).many(texts)
    together: list[Select | str | None] = list(found)
    for row, error in errors:
        assert together[row] is None
        together[row] = str(error)
    alone = Selects(CATALOG)
    for text, one in zip(texts, together, strict=True):
        assert one == _alone(alone, text), text


@pytest.mark.parametrize("column", LITERALS)
def test_every_comparison_with_every_literal_is_what_it_is_alone(column: str) -> None:
    """Of all types, at the ends of what they hold, and with literals that are none."""
    pairs = [(a, b) for a in LITERALS[column] for b in (a, LITERALS[column][0])]
    conditions = [
        form.format(c=column, order=order, a=a, b=b)
        for form in FORMS
        for order in (ORDERS if "{order}" in form else [""])
        for a, b in pairs
    ]
    _check([f"SELECT * FROM A JOIN B USING (k) WHERE {condition}" for condition in conditions])


def test_equal_columns_that_are_asked_to_be_different_never_match() -> None:
    """Also where literals decide it: of selects of one shape, some do and some don't."""
    joined = "SELECT * FROM A JOIN B USING (k) WHERE A.k >= {a} AND B.k <= {b}"
    texts = [joined.format(a=a, b=b) for a in LITERALS["A.k"] for b in LITERALS["B.k"]]
    _check(texts)
    found, _ = Selects(CATALOG).many(texts)
    assert {select.join.never_matches for select in found if select is not None} == {True, False}


@settings(deadline=None, max_examples=25)
@given(random=st.randoms(use_true_random=False))
def test_many_selects_are_what_each_is_alone(random: Random) -> None:
    """Several conditions at once, on one attribute, too; shapes that are nearly the same, and mistakes."""
    _check(_texts(random))


@settings(deadline=None, max_examples=8)
@given(random=st.randoms(use_true_random=False))
def test_many_selects_cost_what_each_costs(random: Random) -> None:
    """All that it asks of its tables; a select that is refused costs nothing."""
    both = "SELECT * FROM A JOIN B USING (k) WHERE A.k LIKE '%b' AND s LIKE '_b' AND s LIKE '%c'"
    texts = [*_texts(random), both]
    errors, costs = examine_selects(texts, CATALOG)
    refused = {row for row, _ in errors}
    for row, (text, cost) in enumerate(zip(texts, costs.tolist(), strict=True)):
        assert cost == (0 if row in refused else examine_select(text, CATALOG).cost), text


def test_a_shape_is_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many selects have it."""
    from penstock.joins import selects

    parsed: list[str] = []
    read = selects.read_shape

    def counted(text: str, *rest: object) -> object:
        parsed.append(text)
        return read(text, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(selects, "read_shape", counted)
    texts = [
        f"SELECT * FROM A WHERE i > {n} AND x < {n}.5 AND day = '2024-01-0{n}'" for n in range(1, 9)
    ]
    found, errors = Selects(CATALOG).many([*texts, "SELECT * FROM B WHERE s LIKE 'a%'"])
    assert (len(parsed), errors, None in found) == (2, [], False)


def test_a_literal_that_is_none_is_refused_beside_a_contradiction() -> None:
    """An integer is never 2.5, but that doesn't excuse what else is wrong."""
    text = "SELECT * FROM A WHERE i = 2.5 AND day <> 'soon'"
    (one, two), errors = Selects(CATALOG).many([text, text.replace("soon", "2024-01-01")])
    assert (one, [row for row, _ in errors]) == (None, [0])
    assert two is not None
    assert two.join.never_matches
    assert "soon" in _alone(Selects(CATALOG), text)  # type: ignore[operator]
