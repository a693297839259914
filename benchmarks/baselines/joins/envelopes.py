"""Semijoins whose filtering table has ranges for several attributes: skyline envelopes (joins §C).

    S-space, one dimension for each attribute          the envelope of p: joining tuples y such that no other one is in
         · y                                           the box that p and y span; whoever has p in its ranges and any
     y ·   ╲  · (behind y)                             tuple has one of the envelope, too
           p ── y ·

    BASE       a; points                 a ∈ A and some point in all ranges
    EXPOSED    a; c; points              a ∈ A, c in all ranges, and none of the points

The points of BASE are the envelopes of the clusters' anchors, where that is less than all joining tuples; those of
EXPOSED are the envelope of the tuple that comes, or goes, with respect to the others. So subscribers get just what they
lack, as with one attribute. Unlike there, what a tuple takes away when it goes is told tuple by tuple (EXPOSED,
REMOVED): the same description, and the contents are no more than keys.

Clusters: ranges with a common point in the first attribute, those that also have one in the second, and so on. (The
fewest clusters of boxes are hard to find; this is a decent number.)

joins §C says that one attribute and residual conditions may be better in practice, as descriptions grow with the
attributes. `estimated_choices` decides between the two. This is plain NumPy, change by change: some hundred times
slower than `semijoins`.
"""

from dataclasses import dataclass, field

import numpy as np

from penstock.base.arrays import Bools, Int32s, Int64s, offsets
from penstock.base.jit import kernel
from penstock.joins.messages import ADDED, BASE, EXPOSED, REMOVED, Messages
from penstock.joins.readers import Readers
from penstock.joins.rectangle_tree import all_inside, any_inside
from penstock.joins.rectangles import RectangleChains, Rectangles
from penstock.joins.semijoins import Form, changed_places
from penstock.joins.stabbing import fewest_anchors
from penstock.joins.table_state import Delta, TableState

_EVERY = (-(2**63), 2**63 - 1)


@dataclass(frozen=True, slots=True)
class EnvelopeForm(Form):
    """The form of semijoins that are grouped by several attributes of the filtering table."""

    filter_attributes: tuple[str, ...] = ()


@kernel
def _members(rectangles: Int32s, chains: RectangleChains, out: Int64s) -> int:
    """The subscriptions of rectangles, one after the other; past the end of `out`, they are only counted."""
    at = 0
    for r in rectangles:
        s = chains.head[r]
        while s >= 0:
            if at < len(out):
                out[at] = s
            at += 1
            s = chains.following[s]
    return at


def subscriptions_in(rectangles: Rectangles, box: Int64s) -> Int64s:
    """The subscriptions whose rectangles are in a box."""
    found = np.empty(len(rectangles), np.int32)
    found = found[: all_inside(rectangles.tree, box, found, 0)]
    out = np.empty(len(rectangles.chains.rectangle), np.int64)
    return out[: _members(found, rectangles.chains, out)]


def stabbed(ranges: Int64s) -> Int64s:
    """The fewest points so that every range (first, last) has one of them in it.

    >>> stabbed(np.array([[0, 5], [3, 8], [7, 9]])).tolist()
    [5, 9]
    """
    first, last = np.ascontiguousarray(ranges[:, 0]), np.ascontiguousarray(ranges[:, 1])
    anchors = np.empty(len(first), np.int64)
    return anchors[: fewest_anchors(first, last, np.argsort(last, kind="stable"), anchors)]


def envelope(points: Int64s, center: Int64s) -> Int64s:
    """Which points have no other one in the box that they span with the center. Equal points count once.

    >>> envelope(np.array([[1, 1], [2, 2], [-1, 5]]), np.array([0, 0])).tolist()
    [0, 2]
    """
    if not len(points):
        return np.empty(0, np.int64)
    # Differences of 64-bit integers overflow: distances are compared as ranks, on either side of the center.
    away = np.stack([_ranks(points[:, d], int(center[d])) for d in range(points.shape[1])], axis=1)
    order = np.argsort(np.abs(away).sum(axis=1), kind="stable")
    kept: list[int] = []
    for n in order.tolist():
        mine = away[n]
        others = away[kept]
        is_behind = (np.abs(others) <= np.abs(mine)) & (
            (others == 0) | (np.sign(others) == np.sign(mine))
        )
        if not is_behind.all(axis=1).any():
            kept.append(n)
    return np.array(sorted(kept), np.int64)


def _ranks(values: Int64s, center: int) -> Int64s:
    """How many different values away from the center each is, below it negative."""
    distinct = np.unique(values)
    place = np.searchsorted(distinct, values)
    above = np.searchsorted(distinct, center)
    has_center = above < len(distinct) and distinct[above] == center
    return np.where(values < center, place - above, place - above + (0 if has_center else 1))


def anchors(low: Int64s, high: Int64s) -> Int64s:
    """Points so that every box (low, high) has one of them in it.

    >>> anchors(np.array([[0, 0], [1, 5]]), np.array([[2, 3], [9, 8]])).tolist()
    [[2, 3], [2, 8]]
    """
    found = []
    for point in stabbed(np.stack([low[:, 0], high[:, 0]], axis=1)).tolist():
        mine = (low[:, 0] <= point) & (point <= high[:, 0])
        low, rest_low = low[~mine], low[mine]
        high, rest_high = high[~mine], high[mine]
        if not len(rest_low):
            continue
        if low.shape[1] == 1:
            found.append([point])
        else:
            found += [
                [point, *rest] for rest in anchors(rest_low[:, 1:], rest_high[:, 1:]).tolist()
            ]
    return np.array(found, np.int64).reshape(-1, low.shape[1])


@dataclass(slots=True)
class EnvelopeSemijoins:
    """The semijoins of one form with several filtering attributes."""

    form: EnvelopeForm
    base: TableState
    filtering: TableState
    rectangles: Rectangles = field(default_factory=Rectangles)  # A × the first of C
    tested: set[int] = field(default_factory=set)
    _low: Int64s = field(default_factory=lambda: np.empty((0, 0), np.int64))  # of C, by number
    _high: Int64s = field(default_factory=lambda: np.empty((0, 0), np.int64))
    _anchors: Int64s | None = None

    def __post_init__(self) -> None:
        edge = self.form.edge
        assert edge is not None
        self.base.index(edge, self.form.base_attribute)
        self.filtering.index(edge, None)
        self._low = self._high = np.empty((0, len(self.form.filter_attributes)), np.int64)

    def add(self, numbers: Int64s, corners: Int64s) -> None:
        """Add subscriptions: (first a, last a), and then first and last of each attribute of C."""
        size = int(numbers.max()) + 1
        if size > len(self._low):
            more = np.zeros(
                (max(size, 2 * len(self._low)) - len(self._low), self._low.shape[1]), np.int64
            )
            self._low, self._high = (
                np.concatenate([self._low, more]),
                np.concatenate([self._high, more]),
            )
        self._low[numbers], self._high[numbers] = corners[:, 2::2], corners[:, 3::2]
        self.rectangles.add(numbers, corners[:, :4])
        self._anchors = None

    def remove(self, number: int) -> None:
        self.rectangles.remove(number)
        self.tested.discard(number)
        self._anchors = None

    # --- changes -------------------------------------------------------------------------------

    def when_base_changes(self, delta: Delta) -> Messages:
        """Messages about the changed tuples themselves."""
        assert self.form.edge is not None
        row, kind, places = changed_places(delta.old, delta.new)
        keys = self.base.keys(self.form.edge, places).tolist()
        a = self.base.coordinates(self.form.base_attribute, places)
        found: list[tuple[int, Int64s, Int64s]] = []
        known: dict[int, Int64s] = {}
        for n, key in enumerate(keys):
            if key not in known:
                known[key] = self._described(key)
            points = known[key][[self._is_read(int(a[n]), p) for p in known[key][:, 0].tolist()]]
            if len(points):
                found.append((n, points[0], points))
        which = np.array([n for n, _, _ in found], np.int64)
        return _messages(
            delta.change[row[which]], kind[which], BASE, places[which], a[which], found, self._low
        )

    def when_filter_changes(self, delta: Delta) -> Messages:
        """Messages about tuples of the base table that join for the first time, or no longer."""
        edge = self.form.edge
        assert edge is not None
        found: list[tuple[int, Int64s, Int64s]] = []
        columns: list[tuple[int, int, int, int]] = []
        before = self._joining_before(delta)
        for n, (old, new) in enumerate(zip(delta.old.tolist(), delta.new.tolist(), strict=True)):
            for place, kind in ((new, ADDED), (old, REMOVED)):
                if place < 0:
                    continue
                key = int(self.filtering.keys(edge, np.array([place]))[0])
                joining = before.get(key, {})
                joining.pop(place, None)
                if key >= 0:
                    center = self._points([place])[0]
                    points = self._points(list(joining))
                    near = points[envelope(points, center)]
                    for a, base in self._exposed(key, center, near):
                        columns.append((n, kind, base, a))
                        found.append((len(found), center, near))
                if kind == ADDED:
                    joining[place] = None
        row, kinds, bases, at = np.array(columns, np.int64).reshape(-1, 4).T
        return _messages(
            delta.change[row], kinds.astype(np.int8), EXPOSED, bases, at, found, self._low
        )

    def _joining(self, key: int) -> list[int]:
        """The places of the filtering table's tuples with a join key, as the table is now."""
        assert self.form.edge is not None
        places: list[int] = self.filtering.index(self.form.edge, None).run(key)[1].tolist()
        return places

    def _joining_before(self, delta: Delta) -> dict[int, dict[int, None]]:
        """The same for the join keys that changes touch, as it was before these."""
        assert self.form.edge is not None
        old, new = (
            self.filtering.entries(self.form.edge, None, places).keys.tolist()
            for places in (delta.old, delta.new)
        )
        found = {key: dict.fromkeys(self._joining(key)) for key in {*old, *new} if key >= 0}
        for key, place in zip(new, delta.new.tolist(), strict=True):
            if key >= 0:
                found[key].pop(place, None)
        come = set(delta.new.tolist())
        for key, place in zip(old, delta.old.tolist(), strict=True):
            if key >= 0 and place not in come:
                found[key][place] = None
        return found

    def _points(self, places: list[int]) -> Int64s:
        at = np.array(places, np.int64)
        return np.stack(
            [self.filtering.coordinates(c, at) for c in self.form.filter_attributes], axis=1
        )

    def _described(self, key: int) -> Int64s:
        """The points of BASE messages with a join key."""
        points = self._points(self._joining(key)) if key >= 0 else self._low[:0]
        points = np.unique(points, axis=0)
        centers = self._centers()
        if len(centers) >= len(points):
            return points
        kept = {n for center in centers for n in envelope(points, center).tolist()}
        return points[sorted(kept)]

    def _centers(self) -> Int64s:
        if self._anchors is None:
            alive = np.flatnonzero(self.rectangles.chains.rectangle >= 0)
            self._anchors = anchors(self._low[alive], self._high[alive])
        return self._anchors

    def _is_read(self, a: int, c: int) -> bool:
        """Whether anybody may read it, by A and the first of C."""
        lowest, highest = _EVERY
        box = np.array([lowest, a, lowest, c, a, highest, c, highest], np.int64)
        return bool(any_inside(self.rectangles.tree, box))

    def _exposed(self, key: int, center: Int64s, near: Int64s) -> list[tuple[int, int]]:
        """Coordinates and places of the base table's tuples that somebody lacks, or has to forget."""
        assert self.form.edge is not None
        values, places = self.base.index(self.form.edge, self.form.base_attribute).run(key)
        found, readers = [], {}
        for a, place in zip(values.tolist(), places.tolist(), strict=True):
            if a not in readers:
                readers[a] = len(self._lacking(a, center, near)) > 0
            if readers[a]:
                found.append((a, place))
        return found

    def _lacking(self, a: int, center: Int64s, near: Int64s) -> Int64s:
        lowest, highest = _EVERY
        c = int(center[0])
        box = np.array([lowest, a, lowest, c, a, highest, c, highest], np.int64)
        numbers = subscriptions_in(self.rectangles, box)
        found = self._has(numbers, center)
        for point in near:
            found &= ~self._has(numbers, point)
        return numbers[found]

    def _has(self, numbers: Int64s, point: Int64s) -> Bools:
        inside = (self._low[numbers] <= point) & (point <= self._high[numbers])
        found: Bools = np.logical_and.reduce(inside, axis=1)
        return found

    def readers(self, messages: Messages) -> Readers:
        """Who reads which message."""
        numbers = [np.empty(0, np.int64)]
        lowest, highest = _EVERY
        for n in range(len(messages)):
            points = messages.x[messages.start[n] : messages.start[n + 1]]
            a = int(messages.a[n])
            if messages.form[n] == EXPOSED:
                mine = self._lacking(a, messages.c[n], points)
            else:
                box = np.array([lowest, a, lowest, lowest, a, highest, highest, highest], np.int64)
                selected = subscriptions_in(self.rectangles, box)
                has = np.zeros(len(selected), np.bool_)
                for point in points:
                    has |= self._has(selected, point)
                mine = selected[has]
            numbers.append(mine)
        start = np.cumsum([len(mine) for mine in numbers], dtype=np.int64)
        return Readers(start, np.concatenate(numbers))


def _messages(
    change: Int64s, kind: object, form: int, places: Int64s, a: Int64s,
    found: list[tuple[int, Int64s, Int64s]], like: Int64s,
) -> Messages:  # fmt: skip
    """Messages whose c and points have several coordinates each."""
    count = len(change)
    zero = np.zeros(count, np.int64)
    points = np.concatenate([like[:0], *[points for _, _, points in found]])
    return Messages(
        change=change,
        kind=kind,  # type: ignore[arg-type]
        form=np.full(count, form, np.int8),
        tuples=places,
        a=a,
        c=np.stack([c for _, c, _ in found]) if found else like[:0],
        below=zero,
        above=zero,
        start=offsets(np.array([len(points) for _, _, points in found], np.int64)),
        x=points,
        y=points[:0],
    )
