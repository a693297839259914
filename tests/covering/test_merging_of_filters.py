"""Routing tables of filters against DuckDB: what a filter keeps passes, and without a threshold nothing else does."""

import duckdb
import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from penstock.covering.distributions import Statistics
from penstock.covering.routing_table import RoutingTable

from .small_world import BATCH, EVENTS, FILTERS, NOT, SCHEMA, VALUES, inside, predicates, regions_of

NAMES = tuple(VALUES)
# Filters that differ in a test or two: most of them merge.
ALIKE = st.one_of(
    st.tuples(
        st.sampled_from([" AND ", " OR "]), predicates(), st.sampled_from(["j = 0", "b", "s = 'a'"])
    ).map(lambda three: f"({three[1]}){three[0]}({three[2]})"),
    st.tuples(
        NOT, st.sampled_from(["i", "j"]), st.lists(st.integers(0, 4), min_size=1, max_size=3)
    ).map(lambda three: f"{three[1]} {three[0]}IN ({', '.join(map(str, three[2]))})"),
    st.sampled_from(["''", "'a'", "'ab'", "'b'"]).map("s = {}".format),
    st.sampled_from(["i = {}", "i <> {}", "i IS DISTINCT FROM {}"]).flatmap(
        lambda text: st.integers(0, 4).map(text.format)
    ),
)
TEXTS = st.lists(st.one_of(FILTERS, predicates(), ALIKE, ALIKE), max_size=10)


@pytest.fixture(scope="module")
def database():
    with duckdb.connect() as connection:
        connection.register("batch", BATCH)
        connection.execute(
            "CREATE TABLE events AS SELECT row_number() OVER () - 1 AS n, * FROM batch"
        )
        assert connection.sql("SELECT i, j, b, s FROM events ORDER BY n").fetchall() == [
            tuple(event.values()) for event in EVENTS
        ]
        yield connection


def kept(database, texts):
    """Which events DuckDB keeps for one filter or another."""
    found = np.zeros(len(EVENTS), bool)
    for text in texts:
        found[[n for (n,) in database.sql(f"SELECT n FROM events WHERE {text}").fetchall()]] = True
    return found


def passing(table):
    found = np.zeros(len(EVENTS), bool)
    for _, region in table.entries():
        found |= inside(region)
    return found


@settings(max_examples=60, deadline=None)
@given(TEXTS, st.sets(st.integers(0, 9)))
def test_perfect_merging_matches_what_the_filters_match(database, texts, leaving):
    table = RoutingTable(SCHEMA)
    table.load(enumerate(regions_of(texts)))
    table.merge()
    assert np.array_equal(passing(table), kept(database, texts))
    for gone in sorted(n for n in leaving if n < len(texts)):
        table.unsubscribe(gone)
        left = [text for n, text in enumerate(texts) if n not in leaving or n > gone]
        assert np.array_equal(passing(table), kept(database, left))


@settings(max_examples=20, deadline=None)
@given(TEXTS, st.lists(FILTERS, max_size=2), st.sampled_from([0.0, 0.01, 0.1, 0.5]))
def test_the_share_that_passes_for_nobody_is_within_the_threshold(
    database, texts, advertised, threshold
):
    statistics = Statistics.of([BATCH], SCHEMA)  # every event of the world once
    table = RoutingTable(SCHEMA, threshold, statistics)
    table.load(enumerate(regions_of(texts)))
    come = np.ones(len(EVENTS), bool)
    for n in range(len(advertised) + 1):
        if n:
            table.advertise(("ad", n), regions_of(advertised)[n - 1])
            come = kept(database, advertised[:n])
        for _ in range(2):
            wanted, found = kept(database, texts), passing(table)
            assert not (wanted & ~found).any()
            wrong = (found & ~wanted & come).sum()
            assert wrong <= (threshold + 1e-9) * come.sum()
            assert wrong <= (table.imperfection() + 1e-9) * come.sum()
            table.merge()
