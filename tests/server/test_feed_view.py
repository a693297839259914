"""`client.view`: a select-join's result from its feed is what DuckDB's SELECT gives, whatever happens between.

Changes are worked off by the processor, as Spark's stages do; what each brings about is put into the feeds as the sink
of a pipeline puts it. The reader is saved, thrown away and loaded, and sometimes stays away for too long.
"""

import datetime
import json
import math
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from tests.joins.select_worlds import (
    GRAPHS,
    World,
    bag,
    random_select,
    random_world,
    result,
    table_rows,
)
from tests.joins.test_join_view import changed
from tests.joins.test_join_view_of_processor import changes
from tests.joins.tuple_changes import sent, subscribe
from tests.server.running import RunningService, until
from tests.sizes import SEED, SEEDS

import penstock
from penstock.base.durations import utc_now
from penstock.delivery.feeds import FeedStore, Retention, open_feeds
from penstock.delivery.feeds.feed_rows import APPENDED
from penstock.delivery.sinks import Batch
from penstock.joins.messages import Message, TupleAdded, TupleRemoved, TuplesDropped, ViewReset
from penstock.joins.processor import Processor
from penstock.server.remote.client import Granted
from penstock.server.remote.feed_view import FeedView

STEPS = 7


def _json_value(value: Any) -> Any:
    """As Spark's `to_json` writes it."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value.isoformat() if isinstance(value, datetime.date) else value


def _json_row(names: Any, values: Any) -> dict[str, Any]:
    """NULLs are left out."""
    pairs = zip(names, values, strict=True)
    return {name: _json_value(value) for name, value in pairs if value is not None}


def _told(message: Message, world: World) -> dict[str, Any]:
    """A message as a notification has it."""
    match message:
        case TupleAdded(table, row):
            content = _json_row(row.keys(), row.values())
            return {"table": table, "change": "added", "tuple": {table: content}}
        case TupleRemoved(table, key):
            names = world.catalog.tables[table].key
            content = _json_row(names, key)
            change = {"change": "removed", "attributes": list(names)}
            return {"table": table, **change, "tuple": {table: content}}
        case TuplesDropped(table, attributes, values):
            change = {"change": "dropped", "attributes": list(attributes)}
            return {"table": table, **change, "tuple": {table: _json_row(attributes, values)}}
        case ViewReset():
            return {"change": "reset"}


class Joined:
    """The tables, a select over them, and the pipeline that fills its feed."""

    def __init__(self, world: World, text: str, feeds: FeedStore, sid: int) -> None:
        self.world, self.text, self._feeds, self._sid = world, text, feeds, sid
        self._processor = Processor(world.catalog)
        for table, rows in world.rows.items():
            sent(self._processor, *[c for row in rows for c in changes(world, table, None, row)])
        self._batch = feeds.progress("joins") or 0
        self._select = penstock.JoinView(text, world.catalog).select
        self._append([ViewReset(), *subscribe(self._processor, sid, self._select.join)])

    def change(self, random: Random) -> bool:
        """Some change of a table, and what the subscriber is sent of it: whether that is anything."""
        change = changed(random, self.world)
        messages = sent(self._processor, *changes(self.world, *change)).get(self._sid, [])
        self._append(messages)
        return bool(messages)

    def send_all(self) -> None:
        """Everything again, as after a resync."""
        self._processor.unsubscribe(self._sid)
        self._append([ViewReset(), *subscribe(self._processor, self._sid, self._select.join)])

    def expected(self) -> Any:
        return bag(result(self.world.duckdb(), self.text)[1])

    def _append(self, messages: list[Message]) -> None:
        self._batch += 1
        rows = [
            {
                "id": f"{self._batch}-{number}",
                "body": json.dumps({"message": _told(message, self.world)}),
                "readers": [self._sid],
                "position": number,
            }
            for number, message in enumerate(messages)
        ]
        batch = Batch("joins", self._batch, "select-join")
        assert self._feeds.append(pa.Table.from_pylist(rows, APPENDED), batch)


@pytest.fixture
def service(tmp_path: Path) -> Iterator[RunningService]:
    running = RunningService(tmp_path / "served", "--match", "live")
    running.start()
    yield running
    running.close()


def _granted(service: RunningService, world: World, text: str) -> Granted:
    """A subscription, made in the registry: a service that matches live takes filters only."""
    url = f"sqlite:///{service.folder}/data/registry.db"
    with penstock.Subscriptions.open(url, catalog=world.catalog) as subs:
        sid, ticket = subs.subscribe("alice", text)
    return Granted(sid, ticket, f"/v1/feeds/{sid}", "-1", "select-join", None, [], True)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_view_is_what_the_select_gives(service: RunningService, tmp_path: Path, seed: int):
    """While tables change, readers and the service are started again, and the feed drops what is old."""
    random = Random(f"{SEED} {seed}")
    world = random_world(random, random.choice(GRAPHS), payload=seed % 2 == 0)
    text = random_select(random, world)
    mine = _granted(service, world, text)
    store = tmp_path / "mine.view"
    with open_feeds(str(service.folder / "data" / "feeds.db")) as feeds:
        joined = Joined(world, text, feeds, mine.id)
        for step in range(STEPS):
            with penstock.Client(service.url, patience="5 minutes") as client:
                with client.view(mine.id, mine.ticket, world.catalog, text, store) as view:
                    for _ in range(random.choice([0, 1, 3])):
                        joined.change(random)
                        assert _rows(view, feeds) == joined.expected(), text
                missed = joined.change(random)  # while nobody looks
                if step % 4 == 2:
                    missed |= sum(joined.change(random) for _ in range(10)) > 0
                    service.kill()  # which has the newest in memory, too
                    feeds.prune(utc_now() + 10**12, Retention(age="1 second"))
                    service.start()
                    asked = _sequence(client, mine)
                    with client.view(mine.id, mine.ticket, world.catalog, text, store) as view:
                        view.catch_up()
                    assert (_sequence(client, mine) > asked) == missed
                    joined.send_all()
                with client.view(mine.id, mine.ticket, world.catalog, text, store) as view:
                    assert _rows(view, feeds) == joined.expected(), text


def _rows(view: FeedView, feeds: FeedStore) -> Any:
    """The view's rows when it has all that was appended: a service takes a second to see what others append."""
    tail = f"{feeds.tail():016d}"
    until(lambda: view.catch_up().position >= tail, f"the view reaches {tail}")
    return bag(table_rows(view.view.rows()))


def _sequence(client: penstock.Client, mine: Granted) -> int:
    """The number of the subscription's last change: a resync is one."""
    found: int = client.get(mine.id, mine.ticket)["sequence"]
    return found


def test_a_view_says_what_changed(service: RunningService, tmp_path: Path):
    """As it comes; and it is saved without being asked."""
    catalog = penstock.Catalog.of(
        {
            "Stocks": penstock.Table({"Symbol": "string", "PER": "double"}, key="Symbol"),
            "Reviews": penstock.Table({"Id": "int", "Symbol": "string"}, key="Id"),
        },
        edges=[("Stocks", "Reviews", "Symbol")],
    )
    world = World(catalog, {})
    text = "SELECT * FROM Stocks JOIN Reviews USING (Symbol) WHERE PER > 45"
    mine = _granted(service, world, text)
    with (
        open_feeds(str(service.folder / "data" / "feeds.db")) as feeds,
        penstock.Client(service.url) as client,
    ):
        joined = Joined(world, text, feeds, mine.id)
        joined._append(
            [
                TupleAdded("Stocks", {"Symbol": "GOOG", "PER": 51.7}),
                TupleAdded("Reviews", {"Id": 1, "Symbol": "GOOG"}),
                TupleRemoved("Reviews", (1,)),
            ]
        )
        with client.view(mine.id, mine.ticket, catalog, store=tmp_path / "mine.view") as view:
            following = iter(view)
            assert next(following).added == [("GOOG", 51.7, 1)]
            assert next(following).removed == [("GOOG", 51.7, 1)]
        again = penstock.JoinView.load(tmp_path / "mine.view", text, catalog)
        assert (list(again), again.held()) == ([], {"Stocks": 1, "Reviews": 0})


def test_a_filter_has_no_view(service: RunningService):
    """It is refused before anything is read."""
    catalog = penstock.Catalog.of({"T": penstock.Table({"x": "int"}, key="x")})
    with penstock.Client(service.url) as client:
        mine = client.subscribe("alice", "x > 5")
        with pytest.raises(penstock.FilterError):
            client.view(mine.id, mine.ticket, catalog)
