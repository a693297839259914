"""A view whose messages come in any order, and more than once, holds what they say in their own order."""

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.joins.select_worlds import GRAPHS, bag, random_select, random_world, result, table_rows
from tests.joins.test_join_view import changed
from tests.joins.test_join_view_of_processor import changes
from tests.joins.tuple_changes import sent, subscribe

from penstock.joins.messages import Message, TupleAdded, TupleRemoved, ViewReset
from penstock.joins.processor import Processor
from penstock.joins.versioned_view import VersionedView


@settings(deadline=None, max_examples=25)
@given(
    random=st.randoms(use_true_random=False), graph=st.sampled_from(GRAPHS), payload=st.booleans()
)
def test_any_order_gives_what_the_select_gives(random: Random, graph: str, payload: bool):
    """All that a subscriber is sent from the first content on, shuffled and partly doubled, with resets in between."""
    world = random_world(random, graph, payload)
    text = random_select(random, world)
    view, processor = VersionedView(text, world.catalog), Processor(world.catalog)
    for table, rows in world.rows.items():
        sent(processor, *[c for row in rows for c in changes(world, table, None, row)])
    version, told = 0, list[tuple[int, Message]]()
    for n in range(25):
        version += 1
        if n == 0 or random.random() < 0.05:  # the whole content anew, under one version
            if n:
                processor.unsubscribe(0)
            first = subscribe(processor, 0, view.select.join)
            told += [(version, message) for message in (ViewReset(), *first)]
        received = sent(processor, *changes(world, *changed(random, world))).get(0, [])
        told += enumerate(received, version + 1)
        version += len(received)
    told += random.sample(told, len(told) // 2)
    random.shuffle(told)
    before = []
    while told:
        some, told = told[: (size := random.choice((1, 5, 40)))], told[size:]
        for sign, row in view.apply_versions(some):
            before.append(repr(row)) if sign > 0 else before.remove(repr(row))
    assert bag(table_rows(view.rows())) == bag(result(world.duckdb(), text)[1]), text
    assert sorted(before) == sorted(map(repr, view)), "changes of the result don't add up to it"


def test_a_reset_ends_what_is_remembered_of_the_past():
    """Tombstones of lower versions go; a message that is older than the reset, too."""
    random = Random(5)
    world = random_world(random, "binary")
    view = VersionedView("SELECT * FROM T0", world.catalog)
    row = world.rows["T0"][0]
    view.apply_versions((n, message) for n, message in enumerate(_come_and_gone(row)))
    assert view.tombstones == 1
    view.apply_versions([(10, ViewReset())])
    assert view.tombstones == 0
    view.apply_versions([(9, _come_and_gone(row)[0])])
    assert (list(view), view.newest, view.tombstones) == ([], 10, 0)


def _come_and_gone(row: dict) -> list[Message]:
    return [TupleAdded("T0", row), TupleRemoved("T0", (row["id0"],))]
