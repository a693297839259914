"""Selects mean what DuckDB says: random join graphs, random tables, every way to spell a join."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.joins.select_worlds import (
    GRAPHS,
    bag,
    brute_force,
    random_select,
    random_world,
    result,
)

from penstock.joins.selects import Selects, read_select

RANDOM = st.randoms(use_true_random=False)


@pytest.mark.parametrize("graph", GRAPHS)
@settings(deadline=None, max_examples=15)
@given(random=RANDOM, payload=st.booleans())
def test_what_a_select_asks_for_is_what_duckdb_gives(
    graph: str, payload: bool, random: Random
) -> None:
    """Sides, edges and residuals, taken at their word, give the rows and the columns of the text."""
    world = random_world(random, graph, payload)
    connection = world.duckdb()
    for _ in range(3):
        text = random_select(random, world)
        names, rows = result(connection, text)
        select = read_select(text, world.catalog)
        assert [column.name for column in select.columns] == names, text
        assert bag(brute_force(world, select, connection)) == bag(rows), text


@pytest.mark.parametrize("graph", GRAPHS)
@settings(deadline=None, max_examples=6)
@given(random=RANDOM)
def test_reading_in_company_is_reading_alone(graph: str, random: Random) -> None:
    """Selects that differ in their literals share a reading, and nobody can tell."""
    world = random_world(random, graph)
    text = random_select(random, world)
    others = [text.replace("2024", "2023"), text.replace("'a", "'"), text.replace("1", "7"), text]
    # Names of tables and columns have digits, too: what isn't a select any longer is refused both ways.
    together, errors = Selects(world.catalog).many(others)
    refused = {row for row, _ in errors}
    for row, other in enumerate(others):
        one, wrong = Selects(world.catalog).many([other])
        assert one == [together[row]]
        assert bool(wrong) == (row in refused)
    assert together[3] is not None
