"""A subscriber comes back: its view is saved, loaded in another process, and goes on where it was."""

import datetime
import math
from decimal import Decimal
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.joins.select_worlds import GRAPHS, bag, random_select, random_world, result, table_rows
from tests.joins.test_join_view import asked_for, changed, told

from penstock import Catalog, JoinView, SnapshotError, Table
from penstock.joins.messages import Message, TupleAdded, TuplesDropped, ViewReset

CATALOG = Catalog.of(
    {
        "A": Table(
            {
                "k": "int",
                "x": "double",
                "d": "decimal(9,2)",
                "w": "decimal(30,4)",
                "at": "timestamp",
                "day": "date",
                "f": "boolean",
                "s": "string",
                "l": "array<int>",
                "o": {"p": "string"},
                "raw": "binary",
            },
            key="k",
        ),
        "B": Table({"id": "int", "k": "int"}, key="id"),
    },
    edges=[("A", "B", "k")],
)
SELECT = "SELECT * FROM A JOIN B USING (k) WHERE k > 0"


def tuple_of_a(k: int, **given_: Any) -> TupleAdded:
    return TupleAdded("A", {"k": k, **given_})


def saved(path: Path) -> JoinView:
    view = JoinView(SELECT, CATALOG)
    view.apply([tuple_of_a(1, s="é"), TupleAdded("B", {"id": 7, "k": 1})], position=[3, "x"])
    view.save(path)
    return view


@pytest.mark.parametrize("graph", GRAPHS)
@settings(deadline=None, max_examples=4)
@given(random=st.randoms(use_true_random=False), payload=st.booleans())
def test_a_view_that_was_saved_goes_on(graph: str, payload: bool, random: Random) -> None:
    """Also if it is sent again some of what it had applied: at the end it is what the SELECT gives."""
    world = random_world(random, graph, payload)
    text = random_select(random, world)
    view = JoinView(text, world.catalog)
    sent: list[list[Message]] = [[ViewReset()]]
    held = [(table, row) for table, rows in world.rows.items() for row in rows]
    sent += [asked_for(view, told(world, table, None, row)) for table, row in held]
    sent += [asked_for(view, told(world, *changed(random, world))) for _ in range(12)]
    stop = random.randint(0, len(sent))
    with TemporaryDirectory() as folder:
        for n, messages in enumerate(sent[:stop]):
            view.apply(messages, position=n)
        view.save(f"{folder}/view")
        again = JoinView.load(f"{folder}/view", text, world.catalog)
    assert (again.position, again.held()) == (stop - 1 if stop else None, view.held())
    assert bag(again) == bag(view)
    for messages in sent[random.randint(0, stop) :]:
        again.apply(messages)
    assert bag(table_rows(again.rows())) == bag(result(world.duckdb(), text)[1]), text


def test_values_of_all_types_come_back(tmp_path: Path) -> None:
    """So that the same tuple, sent again, is no change."""
    zone = datetime.timezone(datetime.timedelta(hours=2))
    moment = datetime.datetime(2024, 2, 29, 12, 0, 0, 123456, tzinfo=zone)
    messages = [
        tuple_of_a(1, x=math.nan, d=Decimal("1.5"), w="-0.0001", at=moment, day="2024-02-29"),
        tuple_of_a(2, x=-0.0, f=True, s="", l=[1, None], o={"p": "x"}, raw=b"\0\xff"),
        tuple_of_a(3, x=-math.inf, at="2024-01-01 00:00:00", l=[], o={"p": None}),
        *(TupleAdded("B", {"id": n, "k": n}) for n in (1, 2, 3)),
    ]
    view = JoinView(SELECT, CATALOG)
    view.apply(messages)
    view.save(tmp_path / "view")
    again = JoinView.load(tmp_path / "view", SELECT, CATALOG)
    assert sorted(again) == sorted(view)
    assert math.copysign(1, again.rows()["x"][1].as_py()) == -1
    assert not again.apply(messages)
    assert not again.apply(TuplesDropped("A", ("k",), (9,)))


def test_what_is_saved_takes_the_place_of_what_was(tmp_path: Path) -> None:
    """And a position that isn't given stays."""
    view = saved(tmp_path / "view")
    view.apply(TupleAdded("B", {"id": 8, "k": 1}))
    view.save(tmp_path / "view")
    again = JoinView.load(tmp_path / "view", SELECT.replace("  ", " "), CATALOG)
    assert (len(again), again.position) == (2, [3, "x"])
    assert [path.name for path in tmp_path.iterdir()] == ["view"]


def test_a_save_that_fails_leaves_the_file_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk is full when the new one is nearly there."""
    view = saved(tmp_path / "view")
    view.apply(ViewReset())

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("penstock.base.durable._sync", full)
    with pytest.raises(SnapshotError, match="No space left"):
        view.save(tmp_path / "view")
    assert len(JoinView.load(tmp_path / "view", SELECT, CATALOG)) == 1


def test_a_bit_that_has_changed_is_found(tmp_path: Path) -> None:
    """Wherever it is, and a file that is torn, too."""
    path = tmp_path / "view"
    saved(path)
    data = path.read_bytes()
    for at in range(0, len(data), 7):
        path.write_bytes(data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :])
        with pytest.raises(SnapshotError, match="have its whole content sent again"):
            JoinView.load(path, SELECT, CATALOG)
        path.write_bytes(data[:at])
        with pytest.raises(SnapshotError):
            JoinView.load(path, SELECT, CATALOG)


def test_a_file_is_that_of_its_select(tmp_path: Path) -> None:
    """Under a catalogue that still has its tables."""
    path = tmp_path / "view"
    saved(path)
    same = "select * from A join B on A.k = B.k where A.k >= 1"
    assert len(JoinView.load(path, same, CATALOG)) == 1
    with pytest.raises(SnapshotError, match="of another select"):
        JoinView.load(path, SELECT.replace("> 0", "> 1"), CATALOG)
    tables = {
        "A": Table({"k": "int", "s": "string"}, "k"),
        "B": Table({"id": "int", "k": "int"}, "id"),
    }
    other = Catalog.of(tables, [("A", "B", "k")])
    with pytest.raises(SnapshotError, match="of another catalogue"):
        JoinView.load(path, SELECT, other)
    with pytest.raises(SnapshotError, match="of another catalogue"):
        JoinView.load(path, "SELECT * FROM C", Catalog.of({"C": Table({"x": "int"}, "x")}))
    with pytest.raises(FileNotFoundError):
        JoinView.load(tmp_path / "nothing", SELECT, CATALOG)
