"""The frontier of many at once against the definition."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from penstock.covering import bulk
from penstock.covering.boxes import BoxStore
from penstock.covering.bulk import covers_in_tree, frontier_of, roots
from penstock.covering.coordinates import Coordinates
from penstock.covering.tree_building import build_tree

from .flat_regions import REGIONS, frontier_by_definition, includes


@settings(max_examples=60, deadline=None)
@given(st.lists(REGIONS.filter(lambda r: r.boxes), max_size=20))
def test_each_region_is_in_the_frontier_or_covered_by_one_that_is(regions):
    store = BoxStore()
    store.append(Coordinates().flatten(regions))
    covers = frontier_of(store.boxes, np.arange(len(regions))).tolist()
    kept = frontier_by_definition(regions)
    assert [n for n, cover in enumerate(covers) if cover < 0] == kept
    for n, cover in enumerate(covers):
        assert cover < 0 or (cover in kept and includes(regions[cover], regions[n]))


def crowd(count):
    """Random ranges, many of which cover others or are equal to them."""
    random = np.random.default_rng(7)
    attribute = np.argsort(random.random((count, 4)), axis=1)[:, :2].astype(np.int32)
    low = random.integers(0, 20, (count, 2))
    high = low + random.integers(0, 12, (count, 2))
    return BoxStore.of(np.arange(count + 1) * 2, attribute.ravel(), low.ravel(), high.ravel()).boxes


def test_threads_and_parts_find_the_same_frontier(monkeypatch):
    monkeypatch.setattr(bulk, "_SHARE", 100)
    boxes, numbers = crowd(1_000), np.arange(1_000)
    tree = build_tree(boxes, numbers)
    parts = [covers_in_tree(tree, boxes, part) for part in np.array_split(numbers, 7)]
    whole = frontier_of(boxes, numbers)
    assert 0 < (whole < 0).sum() < 1_000
    assert np.array_equal(frontier_of(boxes, numbers, threads=2), whole)
    assert np.array_equal(roots(numbers, np.concatenate(parts)), whole)


def test_chains_of_covers_end_at_one_of_the_frontier_however_long():
    count = 1_000
    low = np.arange(count)[::-1].copy()
    store = BoxStore.of(np.arange(count + 1), np.zeros(count, np.int32), low, np.full(count, count))
    assert set(frontier_of(store.boxes, np.arange(count))[:-1].tolist()) == {count - 1}


@pytest.mark.parametrize("count", [0, 1])
def test_few_or_no_regions_are_a_frontier(count):
    store = BoxStore.of(
        np.arange(count + 1), np.zeros(count, np.int32), np.zeros(count), np.ones(count)
    )
    assert frontier_of(store.boxes, np.arange(count)).tolist() == [-1] * count
