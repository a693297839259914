"""A subscriber's view: after every notification it is what DuckDB's SELECT gives on the tables as they are."""

import datetime
import math
from collections import Counter
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.joins.select_worlds import (
    GRAPHS,
    World,
    bag,
    random_row,
    random_select,
    random_world,
    result,
    table_rows,
)

from penstock import Catalog, JoinView, SchemaError, Subscriptions, Table
from penstock.joins.messages import (
    Message,
    TupleAdded,
    TupleRemoved,
    TuplesDropped,
    ViewReset,
)
from penstock.joins.selects import read_select

RANDOM = st.randoms(use_true_random=False)
CATALOG = Catalog.of(
    {
        "Stocks": Table({"Symbol": "string", "PER": "double"}, key="Symbol"),
        "Reviews": Table(
            {"Id": "int", "Symbol": "string", "Rating": "int", "body": "binary"},
            key="Id",
            payload="body",
        ),
        "Trades": Table({"Id": "int", "Symbol": "string", "PER": "double"}, key="Id"),
    },
    edges=[
        ("Stocks", "Reviews", "Symbol"),
        ("Stocks", "Trades", "Symbol"),
        ("Stocks", "Trades", "PER"),
    ],
)
TRADES = "SELECT * FROM Stocks s JOIN Trades t ON s.Symbol = t.Symbol"


def stock(symbol: str | None, per: float | None = 1.0) -> TupleAdded:
    return TupleAdded("Stocks", {"Symbol": symbol, "PER": per})


def trade(number: int, symbol: str | None, per: float | None = 1.0) -> TupleAdded:
    return TupleAdded("Trades", {"Id": number, "Symbol": symbol, "PER": per})


# --- against DuckDB ----------------------------------------------------------------------------


def changed(
    random: Random, world: World
) -> tuple[str, dict[str, Any] | None, dict[str, Any] | None]:
    """Change one tuple of one table: the table, the tuple before, and the tuple after."""
    table = random.choice(list(world.types))
    rows = world.rows[table]
    if rows and random.random() < 0.6:
        old = rows.pop(random.randrange(len(rows)))
        if random.random() < 0.5:
            return table, old, None
        new = random_row(random, world, table, next(iter(old.values())))
        if random.random() < 0.5:  # most of it stays
            new = {name: random.choice([old[name], old[name], new[name]]) for name in old}
        rows.append(new)
        return table, old, new
    keys = {next(iter(row.values())) for row in rows}
    new = random_row(random, world, table, min(set(range(20)) - keys))
    rows.append(new)
    return table, None, new


def told(world: World, table: str, old: Any, new: Any) -> list[Message]:
    """The notification of a subscriber that is told everything."""
    parts = dict(world.catalog.parts(table, old)) if old else {}
    after = dict(world.catalog.parts(table, new)) if new else {}
    key = world.catalog.tables[table].key[0]
    gone = [TupleRemoved(part, (old[key],)) for part in parts if part not in after]
    return [
        *gone,
        *(TupleAdded(part, row) for part, row in after.items() if parts.get(part) != row),
    ]


def asked_for(view: JoinView, messages: list[Message]) -> list[Message]:
    """Those that are about tables of the view's subscription."""
    return [m for m in messages if getattr(m, "table", None) in view.select.join.tables]


@pytest.mark.parametrize("graph", GRAPHS)
@settings(deadline=None, max_examples=6)
@given(random=RANDOM, payload=st.booleans())
def test_a_view_is_what_the_select_gives(graph: str, payload: bool, random: Random) -> None:
    """After every insert, delete and update; and the changes that it tells add up to the same."""
    world = random_world(random, graph, payload)
    texts = [random_select(random, world) for _ in range(2)]
    views = [JoinView(text, world.catalog) for text in texts]
    start = [m for t, rows in world.rows.items() for row in rows for m in told(world, t, None, row)]
    random.shuffle(start)
    seen = [Counter(bag(view.apply(asked_for(view, start)).added)) for view in views]
    for _ in range(6):
        names_and_rows = [result(world.duckdb(), text) for text in texts]
        for view, known, (names, rows) in zip(views, seen, names_and_rows, strict=True):
            assert view.rows().column_names == names
            assert bag(table_rows(view.rows())) == bag(rows)
            assert sorted(known.elements()) == bag(rows)
        messages = told(world, *changed(random, world))
        for view, known in zip(views, seen, strict=True):
            for sign, row in view.apply(asked_for(view, messages)):
                known.update({bag([row])[0]: sign})


@pytest.mark.parametrize("graph", GRAPHS)
@settings(deadline=None, max_examples=5)
@given(random=RANDOM)
def test_a_view_needs_no_more_than_what_joins(graph: str, random: Random) -> None:
    """Told only of tuples that are in a row of the result, it has the same rows, and holds nothing else."""
    world = random_world(random, graph)
    text = random_select(random, world)
    view = JoinView(text, world.catalog)
    held: set[tuple[str, int]] = set()
    for _ in range(6):
        connection = world.duckdb()
        needed = _needed(connection, world, text)
        tuples = {
            (t, row[key]): row
            for t, rows in world.rows.items()
            for row in rows
            for key in list(row)[:1]
        }
        gone: list[Message] = [TupleRemoved(table, (key,)) for table, key in held - needed]
        come: list[Message] = [TupleAdded(table, tuples[table, key]) for table, key in needed]
        view.apply([*gone, *come])
        held = needed
        assert bag(table_rows(view.rows())) == bag(result(connection, text)[1])
        assert sum(view.held().values()) == len(needed)
        changed(random, world)


def _needed(connection: Any, world: World, text: str) -> set[tuple[str, int]]:
    names, rows = result(connection, text)
    keys = {f"id{n}": f"T{n}" for n in range(len(world.types))}
    return {(keys[n], v) for row in rows for n, v in zip(names, row, strict=True) if n in keys}


# --- messages ----------------------------------------------------------------------------------


def test_a_message_again_changes_nothing() -> None:
    """Neither one that adds nor one that removes."""
    view = JoinView(TRADES, CATALOG)
    assert view.apply([stock("A"), trade(1, "A")]).added == [("A", 1.0, 1, "A", 1.0)]
    assert not view.apply([trade(1, "A"), stock("A")])
    assert view.apply(TupleRemoved("Trades", (1,))).removed == [("A", 1.0, 1, "A", 1.0)]
    assert not view.apply([TupleRemoved("Trades", (1,)), TupleRemoved("Trades", (7,))])


def test_a_tuple_takes_the_place_of_one_with_its_key() -> None:
    """All rows that it is in change, and what changes back within a notification isn't told."""
    view = JoinView(TRADES, CATALOG)
    view.apply([stock("A"), trade(1, "A"), trade(2, "A")])
    changes = view.apply(stock("A", 2.0))
    assert sorted(changes.removed) == [("A", 1.0, 1, "A", 1.0), ("A", 1.0, 2, "A", 1.0)]
    assert sorted(changes.added) == [("A", 2.0, 1, "A", 1.0), ("A", 2.0, 2, "A", 1.0)]
    assert not view.apply([stock("A", 3.0), TupleRemoved("Stocks", ("A",)), stock("A", 2.0)])


def test_conditions_may_be_left_to_the_subscriber() -> None:
    """Ranges and residuals: a tuple that doesn't satisfy them isn't held, and one that no longer does goes."""
    text = f"{TRADES} WHERE s.PER > 5 AND t.PER <> 3"
    view = JoinView(text, CATALOG)
    view.apply(
        [stock("A", 6.0), stock("B", 5.0), stock("C", None), trade(1, "A", 3.0), trade(2, "A", 4.0)]
    )
    assert view.held() == {"Stocks": 1, "Trades": 1}
    assert len(view) == 1
    assert view.apply(stock("A", 4.0)).removed == [("A", 6.0, 2, "A", 4.0)]
    assert view.held()["Stocks"] == 0


def test_what_no_longer_joins_can_be_dropped_at_once() -> None:
    """By join attributes, or by any others."""
    view = JoinView(TRADES, CATALOG)
    view.apply([stock("A"), trade(1, "A"), trade(2, "A", 2.0), trade(3, "B")])
    view.apply([TupleRemoved("Stocks", ("A",)), TuplesDropped("Trades", ("Symbol",), ("A",))])
    assert view.held() == {"Stocks": 0, "Trades": 1}
    view.apply([TuplesDropped("Trades", ("PER", "Symbol"), (1.0, "B"))])
    assert view.held() == {"Stocks": 0, "Trades": 0}
    assert not view.apply(TuplesDropped("Trades", ("Symbol",), (None,)))


def test_a_reset_forgets_everything() -> None:
    """What comes again in the same notification isn't told."""
    view = JoinView(TRADES, CATALOG)
    view.apply([stock("A"), stock("B"), trade(1, "A"), trade(2, "A"), trade(3, "B")])
    changes = view.apply([ViewReset(), stock("A"), trade(2, "A"), trade(5, "A")])
    assert sorted(row[2] for row in changes.removed) == [1, 3]
    assert [row[2] for row in changes.added] == [5]
    assert view.held() == {"Stocks": 1, "Trades": 2}
    assert len(view.apply(ViewReset()).removed) == 2
    assert len(view) == 0
    assert len(view.apply([stock("B"), trade(3, "B")]).added) == 1


def test_null_joins_nothing_and_other_values_join_as_in_sql() -> None:
    """0.0 is -0.0, and NaN is NaN."""
    view = JoinView("SELECT * FROM Stocks JOIN Trades USING (PER)", CATALOG)
    values = [0.0, -0.0, math.nan, None]
    view.apply([stock(str(n), value) for n, value in enumerate(values)])
    view.apply([trade(n, "x", value) for n, value in enumerate(values)])
    assert sorted((row[0], row[2]) for row in view) == [
        ("0", 0), ("0", 1), ("1", 0), ("1", 1), ("2", 2),
    ]  # fmt: skip


def test_a_payload_is_sent_once() -> None:
    """What is small changes without it, and the row has it all the same."""
    view = JoinView("SELECT * FROM Reviews WHERE Rating >= 6", CATALOG)
    review = {"Id": 1, "Symbol": "A", "Rating": 7}
    view.apply(
        [TupleAdded("Reviews", review), TupleAdded("Reviews.payload", {"Id": 1, "body": b"long"})]
    )
    assert view.apply(TupleAdded("Reviews", review | {"Rating": 9})).added == [(1, "A", 9, b"long")]
    assert view.rows().schema.field("body").type == pa.binary()


@pytest.mark.parametrize(
    "message",
    [
        TupleAdded("Reviews", {"Id": 1}),
        TupleAdded("Stocks", {"Symbol": "A", "PER": "dear"}),
        TupleAdded("Stocks", {"PER": 1.0}),
        TupleAdded("Stocks", 5),  # type: ignore[arg-type]
        TupleRemoved("Stocks", ()),
        TupleRemoved("Stocks", (1,)),
        TupleRemoved("Stocks", "A"),  # type: ignore[arg-type]
        TuplesDropped("Stocks", ("no",), (1,)),
        "Stocks",
    ],
    ids=repr,
)
def test_a_notification_with_a_bad_message_changes_nothing(message: Any) -> None:
    """The good ones before it aren't applied either."""
    view = JoinView(TRADES, CATALOG)
    view.apply([stock("A"), trade(1, "A")])
    with pytest.raises(SchemaError):
        view.apply([TupleRemoved("Stocks", ("A",)), message])
    assert len(view) == 1


def test_values_of_every_type_come_out_as_they_are() -> None:
    """As Arrow's types; what came as text, too. Keys and join attributes may be of any scalar type."""
    columns = {
        "k": "timestamp", "d": "decimal(20,2)", "n": "decimal(10,2)", "b": "boolean", "day": "date", "l": "array<int>",
        "o": {"p": "string"}, "m": "map<string,int>",
    }  # fmt: skip
    tables = {
        "A": Table(columns, key="k"),
        "B": Table({"d": "decimal(20,2)", "n": "decimal(10,2)"}, key=["d", "n"]),
    }
    catalog = Catalog.of(tables, [("A", "B", ["d", "n"])])
    view = JoinView("SELECT * FROM A JOIN B USING (d, n) WHERE d > 1.49 AND n <= -0.5", catalog)
    view.apply(TupleAdded("B", {"d": "1.50", "n": "-0.5"}))
    moment = datetime.datetime(2024, 1, 1, 12, tzinfo=datetime.UTC)
    row = {
        "k": "2024-01-01T12:00:00",
        "d": 1.5,
        "n": -0.5,
        "b": True,
        "day": "2024-02-29",
        "l": [1, None],
        "o": {"p": "x"},
    }
    view.apply(TupleAdded("A", row | {"m": None}))
    (found,) = view.rows().to_pylist()
    assert (found["k"], str(found["d"]), str(found["n"])) == (moment, "1.50", "-0.50")
    assert (found["day"], found["l"], found["o"]) == (
        datetime.date(2024, 2, 29),
        [1, None],
        {"p": "x"},
    )
    assert len(view.apply(TupleRemoved("A", (moment,))).removed) == 1


def test_a_view_is_made_of_a_text_a_select_or_a_subscription() -> None:
    """Whichever is at hand."""
    subs = Subscriptions(catalog=CATALOG)
    with pytest.warns(match="every change is sent"):
        subscription = subs.get(subs.subscribe("alice", TRADES).id)
    for given_ in (TRADES, read_select(TRADES, CATALOG), subscription):
        assert JoinView(given_, CATALOG).columns == ["Symbol", "PER", "Id", "Symbol", "PER"]


def test_a_contradiction_has_no_rows() -> None:
    """Whatever is sent."""
    view = JoinView("SELECT * FROM Stocks WHERE PER > 5 AND PER < 3", CATALOG)
    assert not view.apply(stock("A", 4.0))
    assert view.held() == {"Stocks": 0}
