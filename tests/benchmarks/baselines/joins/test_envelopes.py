"""Envelopes and anchors against their definitions."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.baselines.joins.envelopes import anchors, envelope

small = st.integers(0, 12)
ranges = st.tuples(small, small).map(sorted)
corners = st.tuples(ranges, ranges).map(lambda r: [*r[0], *r[1]])
points_2d = st.lists(st.tuples(small, small), max_size=9)


@settings(deadline=None, max_examples=100)
@given(points_2d, st.tuples(small, small))
def test_envelopes(points, center):
    """A point is in the envelope if no other is in the box that it spans with the center."""

    def between(p, y):
        return all(min(c, b) <= a <= max(c, b) for a, b, c in zip(p, y, center, strict=True))

    expected = {y for y in points if not any(p != y and between(p, y) for p in points)}
    array = np.array(points, np.int64).reshape(-1, 2)
    assert {points[n] for n in envelope(array, np.array(center))} == expected


@settings(deadline=None, max_examples=60)
@given(st.lists(corners, min_size=1, max_size=12))
def test_every_box_has_an_anchor(boxes):
    """Whatever the boxes are."""
    array = np.array(boxes)
    low, high = array[:, ::2], array[:, 1::2]
    found = anchors(low, high)
    for a, b in zip(low, high, strict=True):
        assert ((a <= found) & (found <= b)).all(axis=1).any()
