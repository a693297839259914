"""A subscriber's view of the tuples that other schemes send: whichever it is, it is what DuckDB's SELECT gives."""

from functools import partial
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.joins.select_worlds import GRAPHS
from tests.joins.test_join_view_of_processor import follow_selects

from benchmarks.baselines.joins.schemes import SchemeProcessor


@pytest.mark.parametrize("scheme", ["enum-sj", "rel-sel", "ref-sj-sub", "ref-sj-tup", "ref-sj-clu"])
@settings(deadline=None, max_examples=2)
@given(
    random=st.randoms(use_true_random=False), graph=st.sampled_from(GRAPHS), payload=st.booleans()
)
def test_views_are_what_the_selects_give(
    scheme: str, graph: str, payload: bool, random: Random
) -> None:
    """From the initial content on, after every insert, delete and update."""
    follow_selects(partial(SchemeProcessor, scheme=scheme), random, graph, payload)
