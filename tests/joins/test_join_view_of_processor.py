"""A subscriber's view of what it is sent: the view is what DuckDB's SELECT gives."""

from collections.abc import Callable
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st
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
from tests.joins.tuple_changes import TupleChange, sent, subscribe

from penstock import JoinView
from penstock.joins.processor import Processor


def changes(world: World, table: str, old: dict | None, new: dict | None) -> list[TupleChange]:
    """A change of a declared table, as changes of those that the core works on."""
    before = dict(world.catalog.parts(table, old)) if old else {}
    after = dict(world.catalog.parts(table, new)) if new else {}
    key = world.catalog.tables[table].key[0]
    gone = [TupleChange(part, key=(old[key],)) for part in before if part not in after]
    return [*gone, *(TupleChange(p, row) for p, row in after.items() if before.get(p) != row)]


def follow_selects(
    make: Callable[..., Processor], random: Random, graph: str, payload: bool
) -> None:
    """Views of random SELECTs from the initial content on, after every insert, delete and update."""
    world = random_world(random, graph, payload)
    texts = [random_select(random, world) for _ in range(3)]
    views = [JoinView(text, world.catalog) for text in texts]
    processor = make(world.catalog)
    for table, rows in world.rows.items():
        sent(processor, *[c for row in rows for c in changes(world, table, None, row)])
    for sid, view in enumerate(views):
        view.apply(subscribe(processor, sid, view.select.join, make))
    for _ in range(5):
        for view, text in zip(views, texts, strict=True):
            assert bag(table_rows(view.rows())) == bag(result(world.duckdb(), text)[1]), text
        received = sent(processor, *changes(world, *changed(random, world)))
        for sid, messages in received.items():
            views[sid].apply(messages)


@settings(deadline=None, max_examples=5)
@given(
    random=st.randoms(use_true_random=False), graph=st.sampled_from(GRAPHS), payload=st.booleans()
)
def test_views_are_what_the_selects_give(graph: str, payload: bool, random: Random) -> None:
    """From the initial content on, after every insert, delete and update."""
    follow_selects(Processor, random, graph, payload)
