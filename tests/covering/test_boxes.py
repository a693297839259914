"""Inclusion in flat arrays against inclusion by definition."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from penstock.covering.boxes import BoxStore, region_includes
from penstock.covering.coordinates import Coordinates
from penstock.covering.regions import Region
from penstock.language.values import Values

from .flat_regions import EVENTS, REGIONS, includes, matches
from .region_algebra import covers


def stored(regions, coordinates=None, one_by_one=False):
    """The regions in a store."""
    coordinates, store = coordinates or Coordinates(), BoxStore()
    for part in [[r] for r in regions] if one_by_one else [regions]:
        flat = coordinates.flatten(part)
        for move in coordinates.moves():
            store.renumber(*move)
        store.append(flat)
    return store


def pairs(store):
    """All pairs of numbers of which one region includes the other."""
    numbers = range(len(store))
    return {(a, b) for a in numbers for b in numbers if region_includes(store.boxes, a, b)}


def defined(regions):
    """The same by definition."""
    return {(a, b) for a, r in enumerate(regions) for b, s in enumerate(regions) if includes(r, s)}


@settings(max_examples=60, deadline=None)
@given(st.lists(REGIONS, max_size=8), st.booleans())
def test_inclusion_is_that_of_the_regions(regions, one_by_one):
    assert pairs(stored(regions, one_by_one=one_by_one)) == defined(regions)


@settings(max_examples=60, deadline=None)
@given(st.lists(REGIONS, min_size=2, max_size=6))
def test_a_region_that_includes_another_matches_whatever_that_one_matches(regions):
    for a, b in pairs(stored(regions)):
        assert all(matches(regions[a], e) for e in EVENTS if matches(regions[b], e))


@settings(max_examples=60, deadline=None)
@given(st.lists(REGIONS, min_size=2, max_size=6))
def test_inclusion_is_never_claimed_where_the_exact_algebra_denies_it(regions):
    found = pairs(stored(regions))
    for a, r in enumerate(regions):
        for b, s in enumerate(regions):
            exact = covers(r, s)
            assert exact or (a, b) not in found
            if len(r.boxes) == 1:
                assert exact == ((a, b) in found)


@settings(max_examples=60, deadline=None)
@given(st.lists(REGIONS, max_size=8), st.data())
def test_those_that_are_kept_are_the_same_under_new_numbers(regions, data):
    store = stored(regions)
    kept = sorted(data.draw(st.sets(st.sampled_from(range(len(regions)))))) if regions else []
    store.keep(np.array(kept, np.int64))
    assert pairs(store) == defined([regions[n] for n in kept])
    store.append(Coordinates().flatten([]))
    assert len(store) == len(kept)


def text(low, high):
    """The strings from one up to another."""
    return Region((((("s",), Values(((low, high),))),),))


def test_strings_that_leave_no_label_between_them_are_labelled_anew():
    # Each one lies between the two before it.
    low, high, regions = b"a", b"b", []
    for n in range(150):
        middle = low + b"m"
        regions.append(text(low, middle))
        low, high = (low, middle) if n % 2 else (low + b"a", high)
    coordinates = Coordinates()
    moved = 0
    store = BoxStore()
    for region in regions:
        flat = coordinates.flatten([region])
        for move in coordinates.moves():
            moved += 1
            store.renumber(*move)
        store.append(flat)
    assert moved > 0
    assert pairs(store) == defined(regions)


def number(low, high, null=False):
    """The integers from one up to another."""
    return Region((((("i",), Values(((low, high),), null)),),))


def test_integers_at_the_ends_of_64_bits_never_cover_what_they_do_not():
    top, bottom = 2**63 - 1, -(2**63)
    regions = [
        number(None, None),
        number(bottom, None),
        number(bottom + 1, None),
        number(bottom + 2, None),
        number(None, bottom + 1),
        number(None, bottom + 2),
        number(top, None),
        number(top - 1, top),
        number(2**63, None),
        number(None, None, null=True),
    ]

    def holds(r, key):
        (first, past), null = r.boxes[0][0][1].intervals[0], r.boxes[0][0][1].null
        if key is None:
            return null
        return (first is None or first <= key) and (past is None or key < past)

    keys = [None, bottom, bottom + 1, bottom + 2, 0, top - 1, top]
    store = stored(regions)
    for a, b in pairs(store):
        starts = store.boxes.region_start
        if starts[b] < starts[b + 1]:  # those without boxes stand alone
            assert all(holds(regions[a], k) for k in keys if holds(regions[b], k)), (a, b)
    assert (1, 0) in pairs(store)
    assert (0, 3) in pairs(store)
    assert (7, 6) not in pairs(store)


def test_boxes_given_as_arrays_must_be_boxes():
    zero = np.zeros(2, np.int32)
    with pytest.raises(ValueError, match="box 0 has two tests of one attribute"):
        BoxStore.of(np.array([0, 2]), zero, np.array([1, 2]), np.array([3, 4]))
    with pytest.raises(ValueError, match="box 1 has a range whose low is above its high"):
        BoxStore.of(np.array([0, 1, 2]), zero, np.array([1, 5]), np.array([3, 4]))


def test_an_attribute_has_integers_or_strings_and_a_refused_region_changes_nothing():
    coordinates = Coordinates()
    store = stored([text(b"a", b"c")], coordinates)
    with pytest.raises(TypeError, match="attribute s is compared with the key 3"):
        coordinates.flatten([Region((((("s",), Values(((3, None),))),),))])
    assert coordinates.moves() == []
    assert len(store) == 1
