"""Select-joins over a network: messages that stateless filters route, and views that get just those."""

import random
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.joins.select_worlds import (
    GRAPHS,
    bag,
    random_select,
    random_world,
    result,
    table_rows,
)
from tests.joins.small_world import WORLDS, random_change, random_subscription
from tests.joins.test_join_view import changed
from tests.joins.test_join_view_of_processor import changes
from tests.joins.tuple_changes import TupleChange, batches, subscribe
from tests.sizes import SEEDS

from penstock import JoinView
from penstock.covering.regions import Region
from penstock.covering.routing_table import RoutingTable
from penstock.joins.axes import Axis
from penstock.joins.catalog import Catalog, Table
from penstock.joins.messages import TupleAdded, TupleRemoved, TuplesDropped, ViewReset
from penstock.joins.processor import Processor
from penstock.joins.routed_filters import join_region
from penstock.joins.routed_messages import (
    SLOTS,
    address_messages,
    read_routed,
    routed_messages,
    routed_schema,
)
from penstock.joins.selects import read_select
from penstock.language.key_values import key_value
from penstock.language.types import Kind, Scalar
from penstock.language.values import Values
from penstock.matching.single import key_reader


class Filters:
    """Regions, tried one by one on the values of an event: nothing else is known of it."""

    def __init__(self, catalog: Catalog) -> None:
        self._schema = routed_schema(catalog)
        self._readers: dict[Any, Any] = {}
        self.regions: dict[int, Region] = {}

    def let_through(self, event: Mapping[str, Any]) -> set[int]:
        return {
            sid
            for sid, region in self.regions.items()
            if event.get("to") == sid
            or any(all(self._accepts(p, v, event) for p, v in box) for box in region.boxes)
        }

    def _accepts(self, path: Any, values: Any, event: Mapping[str, Any]) -> bool:
        if path not in self._readers:
            self._readers[path] = key_reader(self._schema, path)
        return values.contains(self._readers[path](event))


@settings(deadline=None, max_examples=8)
@given(rng=st.randoms(use_true_random=False), graph=st.sampled_from(GRAPHS), payload=st.booleans())
def test_views_behind_filters_are_what_the_selects_give(rng, graph: str, payload: bool):
    """After every change, views that are fed with what their filters let through equal DuckDB's SELECT."""
    world = random_world(rng, graph, payload)
    catalog = world.catalog
    texts = [random_select(rng, world) for _ in range(3)]
    views = [JoinView(text, catalog) for text in texts]
    processor, filters = Processor(catalog), Filters(catalog)
    for table, rows in world.rows.items():
        processor.process(
            batches(catalog, [c for row in rows for c in changes(world, table, None, row)])
        )

    def feed(events: list[dict[str, Any]]) -> None:
        for event in events:
            for sid in filters.let_through(event):
                views[sid].apply(read_routed(event, catalog))

    for sid, view in enumerate(views):
        first = [ViewReset(), *subscribe(processor, sid, view.select.join)]
        filters.regions[sid] = join_region(view.select.join, catalog)
        feed(address_messages(first, sid, catalog))
    for _ in range(6):
        for view, text in zip(views, texts, strict=True):
            assert bag(table_rows(view.rows())) == bag(result(world.duckdb(), text)[1]), text
        made = changes(world, *changed(rng, world))
        feed(routed_messages(processor.process(batches(catalog, made))))


def followed(world: str, seed: int, plain: bool) -> Iterator[tuple[Processor, Filters, Any]]:
    """What random changes bring about, for many subscriptions."""
    catalog, rng = WORLDS[world], random.Random(f"{world} {seed} routed")
    processor, filters = Processor(catalog), Filters(catalog)
    for sid in range(15):
        join = random_subscription(catalog, rng, plain).join
        processor.subscribe_all([(sid, join)])
        filters.regions[sid] = join_region(join, catalog)
    for _ in range(8):
        burst = [random_change(catalog, rng, keys=25) for _ in range(8)]
        yield processor, filters, processor.process(batches(catalog, burst))


@pytest.mark.parametrize("world", ["binary", "words", "several", "odd keys"])
def test_filters_find_just_those_whom_the_rectangles_find(world: str):
    """Of every message, whatever the type of its values; without other conditions they are the same readers."""
    for seed in range(SEEDS):
        for processor, filters, notified in followed(world, seed, plain=True):
            events = routed_messages(notified)
            by_filter = sum(len(filters.let_through(event)) for event in events)
            by_rectangles = sum(int(r.counts().sum()) for r in notified.readers())
            split = sum(
                -(-int(n) // SLOTS) > 1 for p in notified.parts for n in p.messages.points()
            )
            assert by_filter == by_rectangles or (split and by_filter > by_rectangles)
            assert processor


@pytest.mark.parametrize("world", ["wide", "star", "cycle", "ends"])
def test_filters_miss_nobody_who_has_other_conditions(world: str):
    """A pattern counts as true on the way: more are reached, never fewer."""
    for seed in range(SEEDS):
        for processor, filters, notified in followed(world, seed, plain=False):
            reached: set[tuple[str, int]] = set()
            for event in routed_messages(notified):
                message = read_routed(event, processor.catalog)
                reached |= {(str(message), sid) for sid in filters.let_through(event)}
            for part, readers in zip(notified.parts, notified.readers(), strict=True):
                contents = part.sender.contents(part.messages).to_pylist()
                ids = notified.ids[readers.numbers].tolist()
                for at, sid in zip(readers.which().tolist(), ids, strict=True):
                    message = _message(part, contents[at], at)
                    assert (str(message), sid) in reached


def _message(part: Any, row: dict[str, Any], at: int) -> Any:
    sender, messages = part.sender, part.messages
    table = sender.base.name
    if messages.form[at] == 2:
        names = [n for n in sender.base.table.columns if n in sender.join_attributes]
        return TuplesDropped(table, tuple(names), tuple(row[n] for n in names))
    if messages.kind[at] == 0:
        return TupleAdded(table, row)
    return TupleRemoved(table, tuple(row[n] for n in sender.base.table.key))


STOCKS = Catalog.of(
    {
        "Stocks": Table({"Symbol": "string", "PER": "double"}, key="Symbol"),
        "Reviews": Table({"Id": "int", "Symbol": "string", "Rating": "int"}, key="Id"),
    },
    edges=[("Stocks", "Reviews", "Symbol")],
)


def test_messages_do_not_depend_on_the_process_that_sends_them():
    """Two processes whose subscriptions came in another order say the same: values, no numbers of their own."""
    texts = [
        f"SELECT * FROM Stocks JOIN Reviews USING (Symbol) WHERE Stocks.Symbol BETWEEN '{a}' AND '{b}' AND Rating > {n}"
        for n, (a, b) in enumerate([("A", "C"), ("B", "G"), ("AB", "X"), ("F", "Z")])
    ]
    joins = [(n, read_select(text, STOCKS).join) for n, text in enumerate(texts)]
    rng = random.Random(7)
    burst = [random_review(rng, n) for n in range(40)]
    said = []
    for order in (joins, joins[::-1]):
        processor = Processor(STOCKS)
        for sid, join in order:
            processor.subscribe_all([(sid, join)])
        said.append(routed_messages(processor.process(batches(STOCKS, burst))))
    assert said[0] == said[1]
    assert any(event["form"] == 0 for event in said[0])


def random_review(rng: random.Random, number: int) -> Any:
    symbol = rng.choice(["A", "B", "BA", "F", "GOOG", "Y", None])
    if rng.random() < 0.4 and symbol is not None:
        return TupleChange("Stocks", {"Symbol": symbol, "PER": rng.choice([1.5, 2.0])})
    row = {"Id": number % 9, "Symbol": symbol, "Rating": rng.randrange(6)}
    return TupleChange("Reviews", row)


def test_a_subscription_within_another_is_covered_in_a_routing_table():
    """Filters over messages are ordinary regions: a table of a link keeps the wider one only."""
    wide, narrow = (
        read_select(
            f"SELECT * FROM Stocks WHERE PER BETWEEN {low} AND {high}",
            STOCKS,
        ).join
        for low, high in ((10, 90), (20, 30))
    )
    regions = [join_region(join, STOCKS) for join in (wide, narrow)]
    table: RoutingTable[int] = RoutingTable(routed_schema(STOCKS))
    table.load(enumerate(regions))
    assert [id_ for id_, _ in table.entries()] == [0]


def test_an_addressed_message_reaches_its_subscription_alone():
    """What a newcomer has to hold at first is nobody else's business, and says the same after its way."""
    join = read_select("SELECT * FROM Stocks WHERE PER > 1", STOCKS).join
    filters = Filters(STOCKS)
    filters.regions = {sid: join_region(join, STOCKS) for sid in (3, 4)}
    told = [
        ViewReset(),
        TupleAdded("Stocks", {"Symbol": "A", "PER": 2.0}),
        TupleRemoved("Stocks", ("A",)),
        TuplesDropped("Reviews", ("Symbol",), ("A",)),
    ]
    events = address_messages(told, 4, STOCKS)
    assert [filters.let_through(event) for event in events] == [{4}] * 4
    assert [read_routed(event, STOCKS) for event in events] == told


@settings(deadline=None, max_examples=30)
@given(
    constants=st.lists(st.text("ab\0", max_size=3), max_size=6),
    values=st.lists(st.text("ab\0", max_size=4), min_size=1, max_size=8),
)
def test_a_text_leaves_its_process_as_one_that_no_subscription_tells_apart(constants, values):
    """Compared with any constant, what stands for a value compares as the value does."""
    axis = Axis("t", Scalar(Kind.STRING))
    for constant in constants:
        axis.keep(Values(((constant.encode(), None),)))
    at = axis.coordinates(pa.array(values)).tolist()
    check_alike([c.encode() for c in constants], [v.encode() for v in values], axis, at)


@settings(deadline=None, max_examples=30)
@given(
    constants=st.lists(st.integers(-9, 9), max_size=6),
    values=st.lists(st.integers(-9, 9), min_size=1, max_size=8),
)
def test_a_wide_decimal_does_so_too(constants, values):
    """Its keys are sixteen bytes, and stay that."""
    type_ = Scalar(Kind.DECIMAL, 30, 0)
    axis = Axis("d", type_)

    def key(number: int) -> bytes:
        return (number + (1 << 127)).to_bytes(16, "big")

    for constant in constants:
        axis.keep(Values(((key(constant), None),)))
    column = pa.array([Decimal(v) for v in values], pa.decimal128(30, 0))
    at = axis.coordinates(column).tolist()
    check_alike(list(map(key, constants)), list(map(key, values)), axis, at)
    assert all(key_value(axis.key_of(one), type_) is not None for one in at)


def check_alike(constants: Any, keys: Any, axis: Axis, at: Any) -> None:
    for value, coordinate in zip(keys, at, strict=True):
        stands_for = axis.key_of(coordinate)
        for constant in constants:
            assert (stands_for < constant) == (value < constant)
            assert (stands_for == constant) == (value == constant)
