"""What the index finds against a comparison with every region."""

import hypothesis.strategies as st
import numpy as np
from hypothesis import given, settings

from penstock.covering.boxes import HIGHEST, LOWEST, NULL, BoxStore
from penstock.covering.coordinates import Coordinates
from penstock.covering.cover_index import (
    build_index,
    find_covered,
    first_cover,
    relate,
    relate_each,
)

from .flat_regions import REGIONS, includes


def stored(regions):
    """The regions in a store."""
    store = BoxStore()
    store.append(Coordinates().flatten(regions))
    return store


def covers(regions, s, r):
    """Whether s covers r: of equal ones, the earlier the later."""
    return (
        s != r
        and includes(regions[s], regions[r])
        and (s < r or not includes(regions[r], regions[s]))
    )


@settings(max_examples=70, deadline=None)
@given(st.lists(REGIONS.filter(lambda r: r.boxes), min_size=1, max_size=20), st.data())
def test_a_cover_is_found_if_there_is_one_and_all_that_are_covered_are(regions, data):
    indexed = data.draw(st.sets(st.sampled_from(range(len(regions)))))
    live = np.array(
        data.draw(st.lists(st.booleans(), min_size=len(regions), max_size=len(regions)))
    )
    boxes = stored(regions).boxes
    index = build_index(boxes, np.array(sorted(indexed), np.int64))
    there = [n for n in sorted(indexed) if live[n]]
    for r in range(len(regions)):
        expected = {s for s in there if covers(regions, s, r)}
        cover = first_cover(boxes, index, live, r)
        assert cover in expected if expected else cover == -1
        below = {s for s in there if s != r and includes(regions[r], regions[s])}
        assert set(find_covered(boxes, index, live, r).tolist()) == below


@settings(max_examples=60, deadline=None)
@given(st.lists(REGIONS.filter(lambda r: r.boxes), min_size=1, max_size=20))
def test_one_pass_over_an_index_and_over_a_list_tell_the_same(regions):
    boxes = stored(regions).boxes
    others, r = np.arange(len(regions) - 1), len(regions) - 1
    live = np.ones(len(regions), np.bool_)
    found = relate(boxes, build_index(boxes, others), live, r, True)
    listed = relate_each(boxes, others, live, r, True)
    above = {s for s in others.tolist() if covers(regions, s, r)}
    below = {s for s in others.tolist() if includes(regions[r], regions[s])}
    assert found[0] in above if above else found[0] == -1
    if not above:
        assert set(found[1].tolist()) == below
    # The list may find something covered before it finds a cover; in a frontier there can't be both.
    if not (above and below):
        assert listed[0] in above if above else listed[0] == -1
        assert set(listed[1].tolist()) == (set() if above else below)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([3, 40, 70]), st.sampled_from([6, 1000, 2**62]))
def test_many_ranges_of_all_widths_on_few_or_many_attributes(seed, attributes, span):
    random = np.random.default_rng(seed)
    count, tests = 120, 2
    attribute = np.argsort(random.random((count, attributes)), axis=1)[:, :tests]
    a, b = random.integers(-span, span, (2, count, tests))
    low, high = np.minimum(a, b), np.maximum(a, b)
    kind = random.integers(0, 8, (count, tests))
    low = np.where(kind == 0, LOWEST, np.where(kind == 1, NULL, low))
    high = np.where(kind == 2, HIGHEST, np.where(kind == 3, low, high))  # never all numbers
    store = BoxStore.of(
        np.arange(count + 1) * tests, attribute.ravel().astype(np.int32), low.ravel(), high.ravel()
    )
    boxes, live = store.boxes, np.ones(count, np.bool_)
    index = build_index(boxes, np.arange(count))
    wide_low = np.full((count, attributes), NULL)
    wide_high = np.full((count, attributes), HIGHEST)
    np.put_along_axis(wide_low, attribute, low, axis=1)
    np.put_along_axis(wide_high, attribute, high, axis=1)
    for r in range(count):
        inner = (wide_low[r] <= wide_low).all(axis=1) & (wide_high <= wide_high[r]).all(axis=1)
        outer = (wide_low <= wide_low[r]).all(axis=1) & (wide_high[r] <= wide_high).all(axis=1)
        inner[r] = outer[r] = False
        assert set(find_covered(boxes, index, live, r).tolist()) == set(
            np.flatnonzero(inner).tolist()
        )
        strict = outer & ~(inner & (np.arange(count) > r))
        cover = first_cover(boxes, index, live, r)
        assert strict[cover] if strict.any() else cover == -1
