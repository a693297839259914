"""The catalogue: what is wrong with one is told at once, and what it says doesn't depend on how it is written."""

import json
import pickle

import pyarrow as pa
import pytest

from penstock import Catalog, CatalogError, SchemaError, Table
from penstock.joins.subscription import JoinEdge

STOCKS = Table({"Symbol": "string", "PER": "double", "logo": "binary"}, "Symbol", payload="logo")
REVIEWS = Table({"Id": "int", "Symbol": "string", "Rating": "double"}, key=["Id"])
CATALOG = Catalog.of({"Stocks": STOCKS, "Reviews": REVIEWS}, [("Reviews", "Stocks", "Symbol")])


def problems(tables: dict[str, object], edges: list[object] = []) -> list[str]:  # noqa: B006
    with pytest.raises(CatalogError) as caught:
        Catalog.of(tables, edges)  # type: ignore[arg-type]
    return caught.value.problems


def test_all_problems_come_at_once() -> None:
    """Those of tables and those of edges."""
    found = problems(
        {
            "A": Table(
                {"x": "int", "X": "int", "tags": "array<int>"}, key=["y", "tags"], payload="z"
            ),
            "a": {"schema": {"x": "no type"}, "key": "x"},
            "b.c": Table({"x": "int"}, key=[]),
            "D": Table({"x": "int", "s": "string"}, key="x", payload=["x", "s", "s"]),
            "E": {"scheme": {}, "key": "x"},
        },
        [
            ("A", "A", "x"),
            ("A", "Z", "x"),
            ("A", "D", [("x", "s")]),
            ("A", "D", []),
            ("A", "D", "q"),
            ("A", "D"),
            7,
        ],
    )
    for wanted in (
        "tables A and a differ in case only",
        "table 'A': attributes x and X differ in case only",
        "table 'A': the key 'y' is not among its attributes",
        "table 'A': the payload 'z' is not among",
        "table 'A': the key 'tags' is array<integer>: only scalars",
        "table 'a': attribute 'x': 'no type' is not a type",
        "table 'b.c': a name has at least one character, and no dot",
        "table 'b.c': it has no key",
        "table 'D': 'x' is in the key, and so can't be payload",
        "table 'D': the payload names an attribute twice",
        "table 'E': ",
        "edge A — A: a table isn't joined with itself",
        "edge A — Z: there is no table 'Z'",
        "edge A — D: D.s is payload",
        "edge A — D: x is integer and s is string: scalars of one type are joined",
        "edge A — D: no attributes",
        "edge A — D: 'A' has no attribute 'q'",
        "('A', 'D') is not an edge",
        "7 is not an edge",
    ):
        assert any(problem.startswith(wanted) for problem in found), (wanted, found)


def test_a_catalogue_has_tables() -> None:
    """None at all is a mistake."""
    assert problems({}) == ["there are no tables: give at least one"]


@pytest.mark.parametrize(
    ("left", "right", "is_allowed"),
    [
        ("int", "bigint", True),
        ("float", "double", True),
        ("int", "double", False),
        ("decimal(10,2)", "decimal(12,2)", True),
        ("decimal(10,2)", "decimal(10,3)", False),
        ("decimal(10,2)", "decimal(30,2)", False),
        ("date", "timestamp", False),
        ("array<int>", "array<int>", False),
    ],
)
def test_scalars_of_one_type_are_joined(left: str, right: str, is_allowed: bool) -> None:
    """Where equal values have equal keys."""
    tables = {name: Table({"k": "int", "x": t}, key="k") for name, t in (("A", left), ("B", right))}
    if is_allowed:
        assert Catalog.of(tables, [("A", "B", "x")]).edges
    else:
        assert "scalars of one type are joined" in problems(tables, [("A", "B", "x")])[0]


def test_edges_stand_in_the_order_of_the_tables() -> None:
    """However they are given, and each once."""
    tables = {name: Table({"x": "int", "y": "int"}, key="x") for name in "ABC"}
    ways = [
        ("C", "A", [("x", "y"), "x"]),
        JoinEdge("A", "C", (("y", "x"), ("x", "x"))),
        ("B", "A", "y"),
    ]
    assert Catalog.of(tables, ways).edges == (
        JoinEdge("A", "B", (("y", "y"),)),
        JoinEdge("A", "C", (("x", "x"), ("y", "x"))),
    )


def test_a_payload_is_a_table_of_its_own() -> None:
    """With the key, and an edge to the rest; a tuple is taken apart in the same way."""
    assert {name: table.columns for name, table in CATALOG.tables.items()} == {
        "Stocks": ("Symbol", "PER"),
        "Stocks.payload": ("Symbol", "logo"),
        "Reviews": ("Id", "Symbol", "Rating"),
    }
    assert [str(edge) for edge in CATALOG.edges] == [
        "Stocks.Symbol = Reviews.Symbol",
        "Stocks.Symbol = Stocks.payload.Symbol",
    ]
    assert CATALOG.parts("Stocks", {"Symbol": "A", "logo": b"x"}) == (
        ("Stocks", {"Symbol": "A", "PER": None}),
        ("Stocks.payload", {"Symbol": "A", "logo": b"x"}),
    )
    assert CATALOG.parts("Reviews", {"Id": 1}) == (
        ("Reviews", {"Id": 1, "Symbol": None, "Rating": None}),
    )


def test_a_catalogue_survives_json_and_pickle() -> None:
    """Types, keys, payload, edges and the order of the tables."""
    for again in (Catalog.from_json(CATALOG.to_json()), pickle.loads(pickle.dumps(CATALOG))):
        assert again == CATALOG
        assert hash(again) == hash(CATALOG)
        assert again.positions == CATALOG.positions


def test_a_catalogue_can_be_written_by_hand() -> None:
    """Types by name, an edge by the attribute that both tables have."""
    text = json.dumps(
        {
            "tables": {
                "Stocks": {
                    "schema": {"Symbol": "string", "PER": "double", "logo": "binary"},
                    "key": "Symbol",
                    "payload": "logo",
                },
                "Reviews": {
                    "schema": {"Id": "int", "Symbol": "string", "Rating": "double"},
                    "key": ["Id"],
                },
            },
            "edges": [["Reviews", "Stocks", "Symbol"]],
        }
    )
    assert Catalog.from_json(text) == CATALOG


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"tables": 5}', '{"tables": {"A": {}}}', '{"tables": {"A": {"schema": 5, "key": "x"}}}',
             '{"tables": {"A": {"schema": {"x": "int"}, "key": "x"}}, "edges": [5]}', "[" * 100_000]
)  # fmt: skip
def test_what_is_no_catalogue_is_refused(text: str) -> None:
    """In JSON, too, with a reason."""
    with pytest.raises(CatalogError):
        Catalog.from_json(text)


def test_a_schema_may_be_arrows() -> None:
    """Or Spark's: whatever a schema is read from elsewhere."""
    table = Table(pa.schema([("x", pa.int32()), ("y", pa.float32())]), key="x")
    assert str(table.schema) == "struct<x: integer, y: double>"
    with pytest.raises(SchemaError):
        Table(5, key="x")
