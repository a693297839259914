"""A group of semijoins R ⋉ S of one form: from changes of either table to messages about tuples of R (joins §3).

    base R ── edge ── filtering table S          selection attribute A of R, C of S
    rectangles A × C of the subscriptions        `rectangles`
    clusters of the ranges C                     `stabbing`
    run of R for a join key (coordinates of A)   run of S for a join key (coordinates of C)      `runs`

A change of R makes messages of the form BASE, from the run of S alone. A change of S makes EXPOSED and DROPPED ones,
from its neighbours in the run of S and from the run of R (`skylines`, `exposure`). While changes of one table are
processed, the runs of the other don't change, so a batch is one call of a kernel for each group.

Nothing here looks at two join keys at once: a state store keyed by the join attributes holds, for a key, the two runs
and the tuples, and the subscriptions are the same for all keys. A select-join over several tables belongs to several
groups (`decompose`), each keyed by the attributes of its own edge: on a cluster each edge is a stage, a table's changes
go to
the stages of all its edges, and no stage waits for another.

A group without a filtering table sends a tuple to all subscriptions that select it, like a plain filter.

Other conditions of a subscription on R are tested on the message, which has the tuple. A DROPPED message has no tuple,
so it may tell a subscriber to forget tuples that it never had. Other conditions on S can't be tested: they are left to
the subscriber, which then holds more of R than it needs.
"""

from dataclasses import dataclass, field

import numpy as np

from penstock.base.arrays import Bools, Int8s, Int64s, offsets
from penstock.base.jit import kernel
from penstock.joins.axes import BEYOND, NOWHERE
from penstock.joins.exposure import Exposed, FilterChanges, Marks, drop_all, expose_all
from penstock.joins.messages import (
    ADDED,
    BASE,
    DROPPED,
    EXPOSED,
    REMOVED,
    SELECTED,
    Messages,
    concatenate_messages,
)
from penstock.joins.readers import Readers, readers
from penstock.joins.rectangle_tree import RectangleTree, any_inside
from penstock.joins.rectangles import Rectangles
from penstock.joins.runs import RunEntries, Runs
from penstock.joins.skylines import Skylines, Survey, describe_all
from penstock.joins.stabbing import Clusters
from penstock.joins.subscription import JoinEdge
from penstock.joins.table_state import Delta, TableState

_ROOM = 1 << 14
_FEW = 256  # rectangles that are listed once, rather than searched for again and again


@dataclass(frozen=True, slots=True)
class Form:
    """What semijoins of a group have in common: tables, edge, and the attributes by which they are grouped."""

    base: str
    edge: JoinEdge | None = None
    base_attribute: str | None = None
    filter_attribute: str | None = None

    @property
    def filtering(self) -> str | None:
        if self.edge is None:
            return None
        return self.edge.right if self.edge.left == self.base else self.edge.left

    @property
    def place(self) -> tuple[str, ...]:
        """A key by which sorted forms have the same order in every process."""
        return self.base, str(self.edge), self.base_attribute or "", self.filter_attribute or ""

    def __str__(self) -> str:
        return f"{self.base}⋉{self.filtering}" if self.edge else self.base


@kernel
def _any_selects(tree: RectangleTree, a: Int64s, found: Bools) -> None:
    box = np.empty(8, np.int64)
    box[:4], box[4:] = NOWHERE, BEYOND
    for i in range(len(a)):
        box[4], box[1] = a[i], a[i]
        found[i] = any_inside(tree, box)


@dataclass(slots=True)
class Semijoins:
    """The semijoins of one form. Subscriptions are numbers."""

    form: Form
    base: TableState
    filtering: TableState | None
    rectangles: Rectangles = field(default_factory=Rectangles)
    clusters: Clusters = field(default_factory=Clusters)
    tested: set[int] = field(default_factory=set)  # with other conditions on the base table

    def add(self, numbers: Int64s, corners: Int64s) -> None:
        """Add subscriptions with their rectangles (first a, last a, first c, last c)."""
        self.rectangles.add(numbers, corners)
        if self.filtering is not None:
            self.clusters.add(numbers, corners[:, 2:])

    def remove(self, number: int) -> None:
        self.rectangles.remove(number)
        self.tested.discard(number)
        if self.filtering is not None:
            self.clusters.remove(number)

    @property
    def base_runs(self) -> Runs:
        assert self.form.edge is not None
        return self.base.index(self.form.edge, self.form.base_attribute)

    @property
    def filter_runs(self) -> Runs:
        assert self.form.edge is not None
        assert self.filtering is not None
        return self.filtering.index(self.form.edge, self.form.filter_attribute)

    # --- changes of the base table -------------------------------------------------------------

    def when_base_changes(self, delta: Delta) -> Messages:
        """Messages about the changed tuples themselves."""
        edge, attribute = self.form.edge, self.form.base_attribute
        row, kind, places = changed_places(delta.old, delta.new)
        if edge is None:
            keys = np.zeros(len(places), np.int64)
        else:
            keys = self.base.keys(edge, places)
            order = _by_first(keys)
            row, kind, places, keys = row[order], kind[order], places[order], keys[order]
        a = self.base.coordinates(attribute, places)
        if not self.tested:
            keep = _not_replaced(row, kind, keys, a)
            row, kind, places, a, keys = row[keep], kind[keep], places[keep], a[keep], keys[keep]
        if edge is None:
            sent = np.zeros(len(places), np.bool_)
            _any_selects(self.rectangles.tree, a, sent)
            ends = np.zeros(len(places), np.int64)
            x = y = np.empty(0, np.int64)
        else:
            ends, x, y = self._skylines(RunEntries(keys, a, places))
            sent = np.diff(ends, prepend=0) > 0
        zero = np.zeros(np.count_nonzero(sent), np.int64)
        return Messages(
            change=delta.change[row[sent]],
            kind=kind[sent],
            form=np.full(len(zero), SELECTED if edge is None else BASE, np.int8),
            tuples=places[sent],
            a=a[sent],
            c=zero,
            below=zero,
            above=zero,
            start=np.concatenate([np.zeros(1, np.int64), ends[sent]]),
            x=x,
            y=y,
        )

    def _skylines(self, tuples: RunEntries) -> Skylines:
        runs = self.filter_runs
        out = room_for_skylines(runs, len(tuples.keys))
        survey = room_for_survey(runs, self.clusters.anchors)
        first = 0
        while True:
            first = describe_all(self.rectangles.tree, runs.arrays, tuples, first, out, survey)
            if first == len(tuples.keys):
                return out.trim()
            out = out.widen()

    # --- changes of the filtering table --------------------------------------------------------

    def when_filter_changes(self, delta: Delta) -> Messages:
        """Messages about tuples of the base table that join for the first time, or no longer."""
        edge, attribute = self.form.edge, self.form.filter_attribute
        assert edge is not None
        assert self.filtering is not None
        lost_near, gained_near = delta.near[edge, attribute]
        lost = self.filtering.entries(edge, attribute, delta.old)
        gained = self.filtering.entries(edge, attribute, delta.new)
        return concatenate_messages([
            self._exposed(delta, FilterChanges(gained.keys, gained.values, gained_near)),
            self._dropped(delta, FilterChanges(lost.keys, lost.values, lost_near)),
        ])  # fmt: skip

    def _exposed(self, delta: Delta, changes: FilterChanges) -> Messages:
        runs, count = self.base_runs, len(changes.keys)
        room = np.empty((2, max(_ROOM, runs.longest())), np.int64)
        out, marks = Exposed(np.zeros(count, np.int64), *room), _room_for_marks(runs)
        first = 0
        while True:
            first = expose_all(self.rectangles.tree, runs.arrays, changes, first, out, marks)
            if first == count:
                break
            out = out.widen()
        row = np.repeat(np.arange(count), np.diff(out.ends, prepend=0))
        at = len(row)
        return Messages(
            change=delta.change[row],
            kind=np.full(at, ADDED, np.int8),
            form=np.full(at, EXPOSED, np.int8),
            tuples=out.tuples[:at],
            a=out.a[:at],
            c=changes.c[row],
            below=changes.near[row, 0],
            above=changes.near[row, 1],
            start=np.zeros(at + 1, np.int64),
            x=np.empty(0, np.int64),
            y=np.empty(0, np.int64),
        )

    def _dropped(self, delta: Delta, changes: FilterChanges) -> Messages:
        runs = self.base_runs
        room = np.empty((2, max(_ROOM, runs.longest())), np.int64)
        out = Skylines(np.zeros(len(changes.keys), np.int64), *room)
        marks = _room_for_marks(runs)
        first = 0
        while True:
            first = drop_all(self.rectangles.tree, runs.arrays, changes, first, out, marks)
            if first == len(changes.keys):
                break
            out = out.widen()
        ends, x, y = out.trim()
        points = np.diff(ends, prepend=0)
        sent = points > 0
        count = np.count_nonzero(sent)
        return Messages(
            change=delta.change[sent],
            kind=np.full(count, REMOVED, np.int8),
            form=np.full(count, DROPPED, np.int8),
            tuples=delta.old[sent],
            a=np.zeros(count, np.int64),
            c=changes.c[sent],
            below=changes.near[sent, 0],
            above=changes.near[sent, 1],
            start=offsets(points[sent]),
            x=x,
            y=y,
        )

    def readers(self, messages: Messages) -> Readers:
        """Who reads which message."""
        return readers(self.rectangles, messages)


def room_for_skylines(runs: Runs, tuples: int) -> Skylines:
    """Some room for the points of tuples, which may turn out to be too little."""
    room = np.empty((2, max(_ROOM, 4 * tuples, 2 * runs.longest())), np.int64)
    return Skylines(np.zeros(tuples, np.int64), *room)


def room_for_survey(runs: Runs, anchors: Int64s) -> Survey:
    """Room for the points of the longest run, and for the ranges in its gaps."""
    points, ends = np.empty((2, 2 * runs.longest() + 2), np.int64)
    first, last = np.empty((2, _ROOM), np.int64)
    return Survey(anchors, points, ends, first, last, np.empty(_FEW, np.int32))


def _room_for_marks(runs: Runs) -> Marks:
    size = runs.longest() + 1
    distinct, covered, cut = np.empty((3, size), np.int64)
    return Marks(distinct, covered, cut, np.empty(_FEW + 16 * size, np.int32))


def changed_places(old: Int64s, new: Int64s) -> tuple[Int64s, Int8s, Int64s]:
    """The tuples that go and come, in the order in which they are sent: row of the delta, kind, place."""
    places = np.stack([old, new], axis=1).ravel()
    row = np.repeat(np.arange(len(old)), 2)
    kind = np.tile(np.array([REMOVED, ADDED], np.int8), len(old))
    there = places >= 0
    return row[there], kind[there], places[there]


def _by_first(keys: Int64s) -> Int64s:
    """An order in which equal keys stand together, by where they first occur, so that their numbers don't matter.

    >>> _by_first(np.array([7, 3, 7, 5, 3])).tolist()
    [0, 2, 1, 4, 3]
    """
    _, first, which = np.unique(keys, return_index=True, return_inverse=True)
    found: Int64s = np.argsort(first[which], kind="stable")
    return found


def _not_replaced(row: Int64s, kind: Int8s, keys: Int64s, a: Int64s) -> Bools:
    """All except the removals of tuples that come again at once with the same join key and coordinate.

    The same subscriptions hold them before and after, and a subscriber that is sent a tuple forgets the one with its
    key.
    """
    keep = np.ones(len(row), np.bool_)
    if len(row) > 1:
        same = (row[1:] == row[:-1]) & (keys[1:] == keys[:-1]) & (a[1:] == a[:-1])
        keep[:-1] = ~(same & (kind[:-1] == REMOVED))
    return keep
