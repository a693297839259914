"""The tree of boxes against the definition, where there are enough of them to be halved."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from penstock.covering import cover_tree
from penstock.covering.boxes import BoxStore, Flat, region_includes
from penstock.covering.cover_tree import first_cover_in
from penstock.covering.tree_building import build_tree


def crowd(count, seed, attributes, tests, sets):
    """Random regions of one or two boxes; a share of the tests accept several ranges. Few numbers, so many covers."""
    random = np.random.default_rng(seed)
    flat = Flat()
    for _ in range(count):
        flat.boxes.append(int(random.integers(1, 3)) if sets else 1)
        for _ in range(flat.boxes[-1]):
            chosen = np.sort(random.permutation(attributes)[: random.integers(0, tests + 1)])
            flat.tests.append(len(chosen))
            flat.mask.append(sum({1 << (int(a) & 63) for a in chosen}))
            for a in chosen:
                cuts = np.sort(random.permutation(300)[: 4 if random.random() < sets else 2])
                flat.attribute.append(int(a))
                flat.low.append(int(cuts[0]))
                flat.high.append(int(cuts[-1]))
                flat.several.append(len(flat.ranges) if len(cuts) > 2 else -1)
                if len(cuts) > 2:
                    flat.ranges.append(2)
                    flat.set_low += cuts[::2].tolist()
                    flat.set_high += cuts[1::2].tolist()
    store = BoxStore()
    store.append(flat)
    return store.boxes


def check(boxes, regions):
    """What is found covers, and nothing is found only where nothing does."""
    tree = build_tree(boxes, np.array(regions))
    covered = 0
    for r in regions:
        covers = [
            s
            for s in regions
            if s != r
            and region_includes(boxes, s, r)
            and (s < r or not region_includes(boxes, r, s))
        ]
        found = first_cover_in(boxes, tree, r)
        assert found in covers if covers else found == -1
        covered += bool(covers)
    return covered


@settings(max_examples=12, deadline=None)
@given(
    seed=st.integers(0, 1_000),
    attributes=st.sampled_from([2, 5, 200]),
    tests=st.integers(1, 4),
    sets=st.sampled_from([0.0, 0.5]),
)
def test_a_cover_is_found_if_there_is_one(seed, attributes, tests, sets):
    """Of few kinds and of many, with masks that several attributes have in common, and with sets."""
    check(crowd(120, seed, attributes, min(tests, attributes), sets), list(range(120)))


def test_some_regions_only():
    """Regions that aren't in the tree cover nobody."""
    boxes = crowd(300, 7, 3, 2, 0.3)
    assert check(boxes, list(range(0, 300, 3))) > 10


@pytest.mark.parametrize("tests", [1, 3])
def test_of_many_equal_ones_the_first_covers_all(tests):
    """However they are dealt out over the leaves."""
    count = 500
    attribute = np.tile(np.arange(tests, dtype=np.int32), count)
    same = np.full(count * tests, 5)
    boxes = BoxStore.of(np.arange(count + 1) * tests, attribute, same, same).boxes
    tree = build_tree(boxes, np.arange(count))
    assert [first_cover_in(boxes, tree, r) for r in range(count)] == [-1] + [0] * (count - 1)


def test_boxes_of_many_tests_look_through_the_kinds():
    """Looking up each part of their attributes would take for ever."""
    tests = cover_tree._MOST_BITS + 8
    wide = np.arange(tests, dtype=np.int32)
    start = np.concatenate([[0], [tests], tests + np.arange(1, tests + 1)])
    attribute = np.concatenate([wide, wide])
    low = np.concatenate([np.full(tests, 5), np.full(tests - 1, 6), [4]])
    boxes = BoxStore.of(start, attribute, low, np.full(2 * tests, 9)).boxes
    assert first_cover_in(boxes, build_tree(boxes, np.arange(tests + 1)), 0) == tests
