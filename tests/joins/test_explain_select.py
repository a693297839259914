"""Why tuples are in a select-join's result, or aren't: DuckDB is asked the same, condition by condition."""

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.joins.select_worlds import GRAPHS, random_row, random_select, random_world, result

from penstock import Catalog, FilterError, SchemaError, Table
from penstock.joins.explain import explain_select
from penstock.joins.selects import read_select

CATALOG = Catalog.of(
    {
        "Stocks": Table({"Symbol": "string", "order": "int", "at": {"x y": "int"}}, key="Symbol"),
        "My Reviews": Table(
            {"Id": "int", "Symbol": "string", "order": "int", "body": "string"},
            key="Id",
            payload="body",
        ),
    },
    edges=[("Stocks", "My Reviews", "Symbol")],
)
JOIN = 'SELECT * FROM Stocks s JOIN "My Reviews" r ON s.Symbol = r.Symbol'


def verdicts(text: str, **tuples: Any) -> list[tuple[str, bool | None]]:
    given_ = {"Stocks": tuples["stock"], "My Reviews": tuples["review"]}
    return [(v.predicate, v.truth) for v in explain_select(text, CATALOG, given_).verdicts]


@pytest.mark.parametrize("graph", GRAPHS)
@settings(deadline=None, max_examples=8)
@given(random=st.randoms(use_true_random=False), payload=st.booleans())
def test_every_condition_is_what_duckdb_says(graph: str, payload: bool, random: Random) -> None:
    """Of one tuple of each table; together they match just if the select gives a row."""
    world = random_world(random, graph, payload)
    world.rows = {table: [random_row(random, world, table, 0)] for table in world.types}
    connection = world.duckdb()
    for _ in range(3):
        text = random_select(random, world)
        found = explain_select(text, world.catalog, {t: r[0] for t, r in world.rows.items()})
        assert found.matched == bool(result(connection, text)[1]), text
        tables = [t for t in read_select(text, world.catalog).join.tables if "." not in t]
        for verdict in found.verdicts:
            question = f"SELECT {verdict.predicate} FROM {', '.join(tables)}"
            assert connection.sql(question).fetchall() == [(verdict.truth,)], (text, question)
        asked = {name.split(".")[0] for verdict in found.verdicts for name in verdict.values}
        assert asked <= set(tables)


def test_conditions_have_the_tables_names() -> None:
    """Whatever the select calls them; names that SQL needs quotes for, and payloads, too."""
    text = JOIN + ' WHERE r."order" <> 5 AND body LIKE \'%up\' AND s.at."x y" > 1'
    stock = {"Symbol": "A", "order": 1, "at": {"x y": None}}
    review = {"Id": 1, "Symbol": "A", "order": 6, "body": "it is up"}
    assert verdicts(text, stock=stock, review=review) == [
        ("Stocks.Symbol = My Reviews.Symbol", True),
        ("My Reviews.order <> 5", True),
        ("My Reviews.body LIKE '%up'", True),
        ("Stocks.at.x y > 1", None),
    ]


def test_what_is_unknown_is_said_as_of_filters() -> None:
    """With the value that it hangs on."""
    found = explain_select(
        JOIN, CATALOG, {"Stocks": {"Symbol": None}, "My Reviews": {"Symbol": "A"}}, sid=7
    )
    assert str(found).splitlines() == [
        "subscription 7 does not match: the filter is unknown, because of a NULL",
        f"  {JOIN}",
        "  ? Stocks.Symbol = My Reviews.Symbol  is unknown: Stocks.Symbol is NULL, My Reviews.Symbol is 'A'",
    ]


def test_an_edge_and_its_conditions_may_be_all_or_nothing() -> None:
    """A select without conditions matches any tuple; an ended lease matches none."""
    assert explain_select("SELECT * FROM Stocks", CATALOG, {"Stocks": {"Symbol": "A"}}).matched
    ended = explain_select(JOIN, CATALOG, {"Stocks": {}, "My Reviews": {}}, lease_end=4, now=4)
    assert (ended.matched, ended.lease_ended) == (False, True)


def test_a_tuple_of_each_table_is_needed() -> None:
    """And a select that is one."""
    with pytest.raises(SchemaError, match="no tuple of 'My Reviews'"):
        explain_select(JOIN, CATALOG, {"Stocks": {"Symbol": "A"}})
    with pytest.raises(FilterError, match="unknown table"):
        explain_select("SELECT * FROM Nowhere", CATALOG, {})
