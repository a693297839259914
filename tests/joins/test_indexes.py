"""The structures that semijoins stand on, each against its definition."""

import itertools
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sizes import SEEDS

from benchmarks.baselines.joins.envelopes import stabbed, subscriptions_in
from penstock.joins.axes import BEYOND, NOWHERE
from penstock.joins.rectangle_tree import any_inside
from penstock.joins.rectangles import Rectangles
from penstock.joins.runs import RunEntries, Runs, nothing
from penstock.joins.skylines import next_to_anchors
from penstock.joins.stabbing import Clusters

small = st.integers(0, 12)
ranges = st.tuples(small, small).map(sorted)
corners = st.tuples(ranges, ranges).map(lambda r: [*r[0], *r[1]])


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.tuples(st.booleans(), corners), max_size=90),
    st.lists(corners, min_size=1, max_size=8),
)
def test_rectangles_in_a_box(steps, boxes):
    """After insertions and deletions, a box has just those rectangles that are in it."""
    rectangles, there = Rectangles(), {}
    for number, (stays, corner) in enumerate(steps):
        rectangles.add(np.array([number]), np.array([corner]))
        there[number] = corner
        if not stays:
            gone = min(there)
            rectangles.remove(gone)
            del there[gone]
    for low_a, high_a, low_c, high_c in boxes:
        box = np.array([low_a, low_a, low_c, low_c, high_a, high_a + 3, high_c, high_c + 3])
        expected = [n for n, c in there.items() if (box[:4] <= c).all() and (c <= box[4:]).all()]
        assert sorted(subscriptions_in(rectangles, box).tolist()) == expected
        assert any_inside(rectangles.tree, box) == bool(expected)
    assert len(rectangles) == len({tuple(c) for c in there.values()})


@pytest.mark.parametrize("order", ["sorted", "equal", "nested"])
def test_rectangles_that_come_in_the_worst_order(order):
    """One by one in ascending order, all alike, or each in the one before: nothing is lost."""
    rectangles = Rectangles()
    made = {
        "sorted": lambda n: [n, n + 1, n, n + 2],
        "equal": lambda _: [1, 2, 3, 4],
        "nested": lambda n: [n, 9999 - n] * 2,
    }
    for n in range(3000):
        rectangles.add(np.array([n]), np.array([made[order](n)]))
    box = np.array([NOWHERE] * 4 + [BEYOND] * 4)
    assert sorted(subscriptions_in(rectangles, box).tolist()) == list(range(3000))
    for n in range(0, 3000, 2):
        rectangles.remove(n)
    assert sorted(subscriptions_in(rectangles, box).tolist()) == list(range(1, 3000, 2))


@settings(deadline=None, max_examples=60)
@given(st.lists(ranges, min_size=1, max_size=9))
def test_the_fewest_anchors(some):
    """No smaller set of points has one in every range."""
    found = stabbed(np.array(some))
    assert all(any(low <= p <= high for p in found) for low, high in some)
    disjoint = 0
    last = -1
    for low, high in sorted(some, key=lambda r: r[1]):
        if low > last:
            disjoint, last = disjoint + 1, high
    assert len(found) == disjoint  # so many ranges share no point: fewer points can't do


@settings(deadline=None, max_examples=40)
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 10**4), st.integers(0, 300)), max_size=300))
def test_clusters_stay_near_the_fewest(steps):
    """Every range has an anchor in it after every step; without deletions there are at most twice the fewest and 8."""
    clusters, there, deleted = Clusters(), {}, False
    for number, (stays, low, width) in enumerate(steps):
        clusters.add(np.array([number]), np.array([[low, low + width]]))
        there[number] = (low, low + width)
        if not stays and len(there) > 3:
            clusters.remove(min(there))
            del there[min(there)]
            deleted = True
        points = clusters.anchors
        assert (np.diff(points) > 0).all()
        at = [np.searchsorted(points, first) for first, _ in there.values()]
        assert all(points[a] <= last for a, (_, last) in zip(at, there.values(), strict=True))
        fewest = len(stabbed(np.array(list(there.values()))))
        assert len(points) <= (3 if deleted else 2) * fewest + 8


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 3), small, st.booleans()), max_size=80), st.integers(1, 9))
def test_runs_are_sorted_and_know_their_neighbours(steps, together):
    """Batches of tuples that come and go: runs are sorted, and neighbours are those at the time."""
    runs = Runs()
    model: dict[int, list[tuple[int, int]]] = {}
    for begin in range(0, len(steps), together):
        batch = steps[begin : begin + together]
        lost, gained, expected = nothing(len(batch)), nothing(len(batch)), []
        for i, (key, value, goes) in enumerate(batch):
            mine = model.setdefault(key, [])
            values = sorted(v for v, _ in mine)
            below = max((v for v in values if v < value), default=NOWHERE)
            above = min((v for v in values if v >= value), default=BEYOND)
            for column, x in zip(gained, (key, value, begin + i), strict=True):
                column[i] = x
            mine.append((value, begin + i))
            left = None
            if goes:
                gone = mine.pop(0)
                for column, x in zip(lost, (key, *gone), strict=True):
                    column[i] = x
                rest = [v for v, _ in mine]
                left = sorted([*rest, gone[0]])
            expected.append((below, above, left, lost[1][i]))
        lost_near, gained_near = runs.change(lost, gained)
        for i, (below, above, left, value) in enumerate(expected):
            # An equal one counts as neighbour on one side: either way nobody lies strictly between.
            assert gained_near[i, 1] == above or gained_near[i, 0] == batch[i][1]
            assert gained_near[i, 0] in (below, batch[i][1])
            if left is not None:
                left.remove(value)
                assert (lost_near[i, 0] == value) == (value in left) or lost_near[i, 1] == value
        for key, mine in model.items():
            assert list(zip(*(x.tolist() for x in runs.run(key)), strict=True)) == sorted(mine)


@pytest.mark.parametrize("seed", range(5 * SEEDS))
def test_runs_that_empty_and_fill_again(seed):
    """Join keys lose all their tuples and get others later, whatever else moves in the pool meanwhile."""
    rng = random.Random(seed)
    runs, model, places = Runs(), {key: [] for key in range(6)}, itertools.count()
    for _ in range(60):
        changes = []
        fullest = rng.choice([0, 3, 12])  # a batch fills the runs up to here, or empties them
        for _ in range(rng.randrange(1, 40)):
            mine = model[key := rng.randrange(6)]
            nobody = (-1, 0, 0)
            goes = (key, *mine.pop(rng.randrange(len(mine)))) if len(mine) > fullest else nobody
            comes = (key, rng.randrange(9), next(places)) if len(mine) < fullest else nobody
            if comes != nobody:
                mine.append(comes[1:])
            changes.append((goes, comes))
        lost, gained = (
            RunEntries(*(np.array(column, np.int64) for column in zip(*side, strict=True)))
            for side in zip(*changes, strict=True)
        )
        runs.change(lost, gained)
        for key, mine in model.items():
            assert list(zip(*(x.tolist() for x in runs.run(key)), strict=True)) == sorted(mine)


@settings(deadline=None, max_examples=100)
@given(st.lists(small, max_size=12).map(sorted), st.sets(small, max_size=6).map(sorted))
def test_what_is_next_to_anchors(values, points):
    """Of each anchor the closest value on either side, or the one that it is."""
    expected = set()
    for p in points:
        expected |= {max((v for v in values if v <= p), default=None)}
        expected |= {min((v for v in values if v >= p), default=None)}
    out = np.empty(2 * len(values) + 2, np.int64)
    count = next_to_anchors(
        np.array(values, np.int64), 0, len(values), np.array(points, np.int64), out
    )
    assert out[:count].tolist() == sorted(expected - {None})
