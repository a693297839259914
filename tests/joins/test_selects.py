"""Selects: what they ask of each table, along which edges, and what they are refused with.

`select_errors.txt` has selects and the whole message that each is refused with; `PENSTOCK_WRITE_GOLDEN=1` writes it
anew, as in `test_errors`.
"""

import os
from pathlib import Path

import pytest
from tests.joins.select_scenes import CATALOG
from tests.steps import steps

from penstock import Catalog, FilterError, Table
from penstock.covering.reading import region
from penstock.joins.selects import Selects, read_select, warnings_of_join
from penstock.joins.subscription import JoinEdge, SelectJoin, Side
from penstock.language.values import Values
from penstock.registry.kinds import SELECT_JOIN

GOLDEN = Path(__file__).with_name("select_errors.txt")
ON_SYMBOL = JoinEdge("Stocks", "Reviews", (("Symbol", "Symbol"),))
PAYLOAD = JoinEdge("Reviews", "Reviews.payload", (("Id", "Id"),))


def join(text: str, catalog: Catalog = CATALOG) -> SelectJoin:
    return read_select(text, catalog).join


def side(text: str) -> Side:
    """What a select asks of the one table that it has a condition on."""
    (found,) = [s for s in join(text).sides if s.ranges or s.residual]
    return found


def refused(text: str, catalog: Catalog = CATALOG) -> FilterError:
    with pytest.raises(FilterError) as caught:
        read_select(text, catalog)
    assert len(str(caught.value)) < 2_000
    return caught.value


# --- messages ----------------------------------------------------------------------------------


def _entries() -> list[tuple[str, str]]:
    entries = GOLDEN.read_text().split("\n====\n")[1:]
    return [(text, message) for text, _, message in (e.partition("\n----\n") for e in entries)]


def _message(text: str) -> str:
    try:
        read_select(text, CATALOG)
    except FilterError as error:
        return str(error)
    return "(accepted)"


if os.environ.get("PENSTOCK_WRITE_GOLDEN"):
    _head = GOLDEN.read_text().split("\n====\n")[0]
    GOLDEN.write_text(
        "\n====\n".join([_head, *(f"{t}\n----\n{_message(t)}" for t, _ in _entries())])
    )


def test_the_file_has_entries() -> None:
    """The reader finds them, each select once, and each is refused with a place in the text."""
    texts = [text for text, _ in _entries()]
    assert len(texts) > 40
    assert len(set(texts)) == len(texts)
    assert all(refused(text).start is not None for text in texts)


@pytest.mark.parametrize(("text", "message"), _entries(), ids=lambda value: value[:50])
def test_messages_are_those_of_the_file(text: str, message: str) -> None:
    """Where, why, and what to write instead."""
    assert _message(text) == message


def test_a_batch_has_all_its_errors_at_once() -> None:
    """Each by its place in the batch, with its own position in its own text."""
    found, errors = Selects(CATALOG).many(
        [
            "SELECT * FROM Alone",
            "SELECT * FROM Alone WHERE y > 1",
            None,
            "SELECT * FROM  Alone WHERE y > 2",
        ]
    )
    assert [select is None for select in found] == [False, True, True, True]
    assert [(row, error.start) for row, error in errors] == [(1, 26), (2, None), (3, 27)]


# --- conditions --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("condition", "intervals"),
    [
        ("Rating >= 6", ((6, None),)),
        ("6 <= Rating", ((6, None),)),
        ("Rating BETWEEN 3 AND 6 AND Rating > 4", ((5, 7),)),
        ("Rating = 6", ((6, 7),)),
        ("Rating IN (6)", ((6, 7),)),
        ("Rating IN (6, 7)", ((6, 8),)),
        ("(Rating > 4 AND (Rating < 9))", ((5, 9),)),
        ("NOT (Rating <= 4 OR Rating >= 9)", ((5, 9),)),
        ("r.Rating > 4.5", ((5, None),)),
        ("Rating IS NOT NULL", ((None, None),)),
    ],
)
def test_a_range_is_one_interval_of_one_column(
    condition: str, intervals: tuple[tuple[int | None, int | None], ...]
) -> None:
    """However it is spelt."""
    found = side(f"SELECT * FROM Reviews r WHERE {condition}")
    assert found == Side("Reviews", (("Rating", Values(intervals)),))


@pytest.mark.parametrize(
    ("condition", "residual"),
    [
        ("r.Rating <> 5", "Rating <> 5"),
        ("r.Rating IN (1, 5)", "Rating IN (1, 5)"),
        ("r.rating IS NULL", "Rating IS NULL"),
        ("Analyst LIKE '%b'", "Analyst LIKE '%b'"),
        ("r.Analyst NOT LIKE '%b!%' ESCAPE '!'", "Analyst NOT LIKE '%b!%' ESCAPE '!'"),
        ("r.Rating = 1 OR Analyst = 'it''s'", "Rating = 1 OR Analyst = 'it''s'"),
        ("Rating <> -5 AND r.Analyst <> 'bob'", "(Rating <> -5) AND (Analyst <> 'bob')"),
        ("r.note = r.Analyst /* why */", "note = Analyst"),
        ("r.Rating * 2 > 5", "Rating * 2 > 5"),
        ("lower(r.Analyst) = 'bob'", "LOWER(Analyst) = 'bob'"),
    ],
)
def test_other_conditions_on_a_table_are_residual(condition: str, residual: str) -> None:
    """As a filter on that table alone: without its name, and without comments."""
    assert side(f"SELECT * FROM Reviews r WHERE {condition}") == Side("Reviews", (), residual)


def test_fields_of_structs_and_arrays_are_residual() -> None:
    """A range is one of a column."""
    text = "SELECT * FROM Stocks s WHERE s.venue.country = 'CH' AND array_contains(s.tags, 'tech')"
    residual = side(text).residual
    assert residual == "(venue.country = 'CH') AND (ARRAY_CONTAINS(tags, 'tech'))"
    assert region(residual, CATALOG.tables["Stocks"].schema).boxes


def test_names_that_are_words_of_sql_are_quoted_in_residuals() -> None:
    """Behind a table's name they needn't be; alone they must."""
    assert side("SELECT * FROM Trades t WHERE t.order <> 5").residual == '"order" <> 5'


@pytest.mark.parametrize(
    "condition",
    [
        "PER > 5 AND PER < 3",
        "FALSE",
        "NULL",
        "PER > 5 AND (PER < 3 OR PER < 2)",
        "PER IN (1, 3) AND PER IN (2, 4)",
        "Stocks.Symbol = 'A' AND Reviews.Symbol = 'B'",
        "Rating > 5 AND Rating < 6",
    ],
)
def test_contradictions_are_recognised(condition: str) -> None:
    """Such a select is one, but never matches, and whoever subscribes to it is told."""
    text = f"SELECT * FROM Stocks JOIN Reviews USING (Symbol) WHERE {condition}"
    assert join(text).never_matches
    assert warnings_of_join(join(text)) == ["never matches: its conditions contradict each other"]


def test_what_will_cost_much_is_told() -> None:
    """A select that every change is sent to, or tested against."""
    assert "every change is sent" in warnings_of_join(join("SELECT * FROM Stocks"))[0]
    assert "tested against it" in warnings_of_join(join("SELECT * FROM Stocks WHERE PER <> 1"))[0]
    assert warnings_of_join(join("SELECT * FROM Stocks WHERE PER > 1")) == []


def test_conditions_of_on_are_like_those_of_where() -> None:
    """The joins are inner ones."""
    first = (
        "SELECT * FROM Stocks s JOIN Reviews r ON s.Symbol = r.Symbol AND Rating > 5 AND PER > 1"
    )
    second = (
        "SELECT * FROM Stocks s JOIN Reviews r ON s.Symbol = r.Symbol WHERE Rating > 5 AND PER > 1"
    )
    assert join(first) == join(second)


def test_a_merged_column_is_of_whichever_table_the_condition_is_on() -> None:
    """USING makes the two equal: a comparison with another column of either table is one on that table."""
    text = "SELECT * FROM Stocks JOIN Reviews USING (Symbol) WHERE Symbol = Analyst"
    assert side(text) == Side("Reviews", (), "Symbol = Analyst")
    text = "SELECT * FROM Stocks JOIN Reviews USING (Symbol) WHERE Symbol = 'A'"
    assert side(text).table == "Stocks"


# --- joins -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM Stocks JOIN Reviews USING (Symbol)",
        "SELECT * FROM Reviews NATURAL JOIN Stocks",
        "select * from stocks s inner join reviews r on r.symbol = s.symbol",
        "SELECT * FROM Stocks, Reviews WHERE Stocks.Symbol = Reviews.Symbol",
        'SELECT * FROM "Stocks" CROSS JOIN Reviews WHERE (Stocks."Symbol") = Reviews.Symbol',
        "  SELECT ALL * FROM Stocks JOIN Reviews USING (Symbol, Symbol) WHERE Stocks.Symbol = Reviews.Symbol",
    ],
)
def test_a_join_is_the_same_however_it_is_spelt(text: str) -> None:
    """Tables and edges stand in the catalogue's order."""
    tables = ("Stocks", "Reviews", "Reviews.payload")
    assert join(text) == SelectJoin(tuple(map(Side, tables)), (ON_SYMBOL, PAYLOAD))


def test_edges_follow_from_what_is_equal() -> None:
    """Days and Stocks have no edge, but through Trades both have one."""
    text = "SELECT * FROM Days JOIN Stocks USING (Symbol) JOIN Trades USING (Symbol, Day)"
    assert [str(edge) for edge in join(text).edges] == [
        "Stocks.Symbol = Trades.Symbol",
        "Trades.Day = Days.Day AND Trades.Symbol = Days.Symbol",
    ]


def test_all_edges_that_follow_are_used() -> None:
    """A triangle on one attribute has three edges, though the text has two equalities."""
    tables = {name: Table({"x": "int"}, key="x") for name in "ABC"}
    catalog = Catalog.of(tables, [("A", "B", "x"), ("B", "C", "x"), ("C", "A", "x")])
    found = join("SELECT * FROM A JOIN B USING (x) JOIN C USING (x)", catalog)
    assert [(e.left, e.right) for e in found.edges] == [("A", "B"), ("A", "C"), ("B", "C")]


def test_two_tables_may_have_several_edges() -> None:
    """All that follow are used, but for those that another one includes."""
    tables = {name: Table({"x": "int", "y": "int", "z": "int"}, key="x") for name in "AB"}
    catalog = Catalog.of(tables, [("A", "B", "x"), ("A", "B", "y"), ("A", "B", ["y", "z"])])
    assert list(map(str, join("SELECT * FROM A NATURAL JOIN B", catalog).edges)) == [
        "A.x = B.x",
        "A.y = B.y AND A.z = B.z",
    ]
    assert list(map(str, join("SELECT * FROM A JOIN B USING (y)", catalog).edges)) == ["A.y = B.y"]


def test_a_table_alone_is_a_select() -> None:
    """A plain filter on the changes of that table."""
    assert join("SELECT * FROM Alone WHERE x > 3") == SelectJoin(
        (Side("Alone", (("x", Values(((4, None),))),)),), ()
    )


def test_a_table_with_a_payload_is_a_join() -> None:
    """Of what is small and what is bulky, by key; conditions may be on either."""
    found = read_select("SELECT * FROM Reviews WHERE Rating > 5 AND body LIKE '%up%'", CATALOG)
    assert found.join.edges == (PAYLOAD,)
    assert found.join.sides[1] == Side("Reviews.payload", (), "body LIKE '%up%'")
    columns = [(c.name, c.table) for c in found.columns]
    assert columns[3:] == [("Analyst", "Reviews"), ("body", "Reviews.payload"), ("note", "Reviews")]


def test_selects_are_told_from_filters_by_their_first_word() -> None:
    """Which no filter begins with."""
    assert all(
        map(SELECT_JOIN.has, ["select * from a", "\n SELECT*FROM a", "SELECT", "select/**/1"])
    )
    assert not any(
        map(SELECT_JOIN.has, ["selected", "select.a > 5", '"select" = 1', "selecté = 1", ""])
    )


# --- hostile -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM Alone WHERE " + "(" * 10_000 + "x > 1" + ")" * 10_000,
        "SELECT * FROM Alone WHERE " + "NOT " * 10_000 + "x > 1",
        "SELECT * FROM " + "(" * 10_000 + "Alone" + ")" * 10_000,
        "SELECT " + "*, " * 20_000 + "* FROM Alone",
        "SELECT * FROM Alone" + " JOIN Alone" * 20_000,
        "SELECT * FROM Alone" + ", Alone" * 20_000,
        "SELECT * FROM Alone JOIN Stocks USING (" + "x, " * 20_000 + "x)",
        "SELECT * FROM Alone WHERE x > " + "9" * 100_000,
        "SELECT * FROM " + "x" * 500_000,
        "SELECT * FROM Alone WHERE " + "y" * 500_000 + " = 1",
        "SELECT * FROM Alone WHERE " + " OR ".join(f"(x = {n} AND x <> {n})" for n in range(1_100)),
        "SELECT * FROM Alone WHERE " + " AND ".join(["x<>1"] * 10_002),
        "SELECT * FROM Alone WHERE x = '\0'",
        "SELECT * FROM " + "FROM " * 20_000,
        "SELECT * FROM Alone WHERE " + "IF " * 20_000,
        "SELECT * FROM Alone WHERE x " + "-> " * 20_000,
        "SELECT * FROM Alone" + " UNION SELECT * FROM Alone" * 20_000,
        "SELECT * FROM Alone" + " " * 2_000_000,
    ],
    ids=lambda text: f"{text[:40]}…{len(text)}",
)
def test_what_is_written_to_hurt_is_refused_soon(text: str) -> None:
    """With a short message, and without a deep stack or many steps."""
    assert steps(lambda: refused(text)) < 12_000_000


def test_long_selects_are_read_in_proportion_to_their_length() -> None:
    """Thousands of conditions on one table, and on the other end ten thousand literals."""

    def read(count: int) -> None:
        join("SELECT * FROM Alone WHERE " + " AND ".join(f"x <> {n}" for n in range(count)))

    read(5)
    short, long = steps(lambda: read(100)), steps(lambda: read(800))
    assert long < 8.5 * short, f"{short:,} steps, eight times the conditions {long:,}"
    conditions = " AND ".join(f"x <> {n}" for n in range(2_000))
    found = join(f"SELECT * FROM Alone WHERE {conditions}").sides[0]
    assert found.residual is not None
    assert found.residual.count("<>") == 2_000
    literals = ", ".join(str(2 * n) for n in range(10_000))
    found = join(f"SELECT * FROM Alone WHERE x IN ({literals})").sides[0]
    assert found.residual is not None
    assert found.residual.count(",") == 9_999
