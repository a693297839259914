"""The rows of the joins themselves: Enum-J, Ref-J and Ref-J+ (joins §2.3), what semijoins are compared with.

Subscriptions with the same tables and edges are a group. A changed tuple is joined with the other tables, without
selections; each row of the join that comes or goes is a message.

    Ref-J     sends all of them, once
    Ref-J+    sends those that somebody wants, once
    Enum-J    sends each to each who wants it

All tuples that a batch changes are joined together, one table after the other: a column of places is looked up in the
next table's runs and grows into a table of places. Edges that close a cycle only drop rows. Whom a row is for is found
by the rectangles of two tables, as for semijoins, and by testing the others.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from penstock.base.arrays import Bools, Int64s
from penstock.base.jit import kernel
from penstock.joins.axes import ANYTHING, BEYOND, NOWHERE, NULL
from penstock.joins.conditions import Residuals, TableCondition, match_condition
from penstock.joins.messages import (
    ADDED,
    EXPOSED,
    Messages,
    TableRow,
    TupleKey,
    concatenate_messages,
)
from penstock.joins.notifications import Part
from penstock.joins.readers import Readers, readers
from penstock.joins.rectangle_tree import RectangleTree, any_inside
from penstock.joins.rectangles import Rectangles
from penstock.joins.runs import RunArrays, Runs
from penstock.joins.semijoins import changed_places
from penstock.joins.subscription import JoinEdge, SelectJoin
from penstock.joins.table_state import Delta, TableState

JOINED = 4  # a form of messages beside those of `penstock.joins.messages`: a tuple of each table
Signature = tuple[tuple[str, ...], tuple[JoinEdge, ...]]
_TOGETHER = (
    512  # changed tuples that are joined at once: what they join with has to fit into memory
)


@dataclass(frozen=True, slots=True)
class JoinAdded:
    """A row of the join, as one tuple of each table."""

    rows: tuple[tuple[str, TableRow], ...]


@dataclass(frozen=True, slots=True)
class JoinRemoved:
    """A row of the join that is no more, as the key of one tuple of each table."""

    keys: tuple[tuple[str, TupleKey], ...]


JoinMessage = JoinAdded | JoinRemoved


@kernel
def _count(runs: RunArrays, keys: Int64s) -> int:
    start, length = runs.start, runs.length
    total = 0
    for key in keys:
        if 0 <= key < len(start):
            total += length[key]
    return total


@kernel
def _look_up(runs: RunArrays, keys: Int64s, row: Int64s, places: Int64s) -> None:
    start, length, tuples = runs.start, runs.length, runs.tuples
    at = 0
    for i in range(len(keys)):
        key = keys[i]
        if 0 <= key < len(start):
            for p in range(start[key], start[key] + length[key]):
                row[at], places[at] = i, tuples[p]
                at += 1


@kernel
def _any_wants(tree: RectangleTree, a: Int64s, c: Int64s, found: Bools) -> None:
    box = np.empty(8, np.int64)
    box[:4], box[4:] = -(2**63), 2**63 - 1
    for i in range(len(a)):
        box[4], box[1], box[6], box[3] = a[i], a[i], c[i], c[i]
        found[i] = any_inside(tree, box)


def look_up(runs: Runs, keys: Int64s) -> tuple[Int64s, Int64s]:
    """The tuples with each of these join keys: which of the keys, and where the tuple stands."""
    size = _count(runs.arrays, keys)
    row, places = np.empty(size, np.int64), np.empty(size, np.int64)
    _look_up(runs.arrays, keys, row, places)
    return row, places


@dataclass(slots=True)
class Results:
    """The select-joins over the same tables and edges."""

    states: tuple[TableState, ...]
    edges: tuple[JoinEdge, ...]
    attributes: tuple[str | None, str | None]  # by which the first two tables are searched
    rectangles: Rectangles = field(default_factory=Rectangles)
    conditions: dict[int, tuple[TableCondition | None, ...]] = field(default_factory=dict)

    def joined(self, first: int, places: Int64s) -> tuple[Int64s, Int64s]:
        """The rows of the join with these tuples of one table: which of them, and the places in all tables."""
        rows = np.zeros((len(places), len(self.states)), np.int64)
        rows[:, first] = places
        origin = np.arange(len(places))
        bound = {self.states[first].name: first}
        while len(bound) < len(self.states):
            edge, known, n = self._next(bound)
            keys = self.states[bound[known]].keys(edge, rows[:, bound[known]])
            grown, found = look_up(self.states[n].index(edge, None), keys)
            rows, origin = rows[grown], origin[grown]
            rows[:, n] = found
            bound[self.states[n].name] = n
            keep = self._agree(rows, n, bound, edge)
            rows, origin = rows[keep], origin[keep]
        return origin, rows

    def _next(self, bound: dict[str, int]) -> tuple[JoinEdge, str, int]:
        """An edge from a table that is joined already to one that isn't."""
        for edge in self.edges:
            for known, other in ((edge.left, edge.right), (edge.right, edge.left)):
                if known in bound and other not in bound:
                    return edge, known, [s.name for s in self.states].index(other)
        raise ValueError("the tables of a select-join are connected")

    def _agree(self, rows: Int64s, n: int, bound: dict[str, int], used: JoinEdge) -> Bools:
        """Where the other edges of a table hold, too."""
        state = self.states[n]
        keep = np.ones(len(rows), np.bool_)
        for edge in self.edges:
            other = edge.left if edge.right == state.name else edge.right
            if edge == used or state.name not in (edge.left, edge.right) or other not in bound:
                continue
            mine = state.keys(edge, rows[:, n])
            keep &= (mine >= 0) & (
                mine == self.states[bound[other]].keys(edge, rows[:, bound[other]])
            )
        return keep

    def coordinates(self, rows: Int64s, n: int) -> Int64s:
        """Of the attribute by which a table is searched."""
        if n >= len(self.states):
            return np.full(len(rows), NULL, np.int64)
        return self.states[n].coordinates(self.attributes[n], rows[:, n])

    def messages(self, change: Int64s, kind: Any, rows: Int64s) -> Messages:
        """Messages whose `tuples` have a row of places each, one for each table."""
        zero = np.zeros(len(rows), np.int64)
        return Messages(
            change=change,
            kind=kind,
            form=np.full(len(rows), JOINED, np.int8),
            tuples=rows,
            a=self.coordinates(rows, 0),
            c=self.coordinates(rows, 1),
            below=zero,
            above=zero,
            start=np.zeros(len(rows) + 1, np.int64),
            x=zero[:0],
            y=zero[:0],
        )


class ResultScheme:
    """The select-joins of all signatures. Subscriptions are numbers."""

    def __init__(self, tables: dict[str, TableState], wanted_only: bool) -> None:
        self._tables = tables
        self._wanted_only = wanted_only
        self._residuals = {name: Residuals(state) for name, state in tables.items()}
        self.groups: dict[Signature, Results] = {}
        self._member: dict[int, Results | None] = {}

    def add(self, joins: Iterable[tuple[int, SelectJoin]]) -> None:
        """Add subscriptions."""
        pending: dict[Signature, list[tuple[int, SelectJoin]]] = {}
        for number, join in joins:
            if join.never_matches:
                self._member[number] = None
            else:
                pending.setdefault((join.tables, join.edges), []).append((number, join))
        for signature, members in pending.items():
            if signature not in self.groups:
                self.groups[signature] = self._new(signature, members[0][1])
            group = self.groups[signature]
            corners = [self._corner(group, number, join) for number, join in members]
            numbers = np.array([number for number, _ in members], np.int64)
            group.rectangles.add(numbers, np.array(corners, np.int64))
            self._member.update(dict.fromkeys(numbers.tolist(), group))

    def _new(self, signature: Signature, join: SelectJoin) -> Results:
        first: list[str | None] = [
            side.ranges[0][0] if side.ranges else None for side in join.sides
        ]
        states = tuple(self._tables[name] for name in signature[0])
        for edge in signature[1]:
            for name in (edge.left, edge.right):
                self._tables[name].index(edge, None)
        return Results(states, signature[1], (first[0], first[1] if len(first) > 1 else None))

    def _corner(self, group: Results, number: int, join: SelectJoin) -> tuple[int, ...]:
        corner: list[int] = []
        conditions: list[TableCondition | None] = []
        for n, side in enumerate(join.sides):
            axis = self._tables[side.table].axis
            ranges = tuple((name, axis(name).range(values)) for name, values in side.ranges)
            searched = group.attributes[n] if n < 2 else None
            if n < 2:
                if searched is not None:
                    axis(searched)
                corner += dict(ranges).get(searched or "", ANYTHING)
            residual = None
            if side.residual is not None:
                residual = self._residuals[side.table].keep(side.residual)
            rest = tuple((name, range_) for name, range_ in ranges if name != searched)
            needed = rest or residual is not None
            conditions.append(TableCondition(rest, residual) if needed else None)
        if any(conditions):
            group.conditions[number] = tuple(conditions)
        return (*corner, *ANYTHING) if len(corner) == 2 else tuple(corner)

    def remove(self, number: int) -> None:
        group = self._member.pop(number)
        if group is None:
            return
        group.rectangles.remove(number)
        conditions = group.conditions.pop(number, ())
        for state, condition in zip(group.states, conditions, strict=False):
            if condition is not None and condition.residual is not None:
                self._residuals[state.name].release(condition.residual)

    def when(self, table: str, delta: Delta) -> list[Part]:
        """The messages that changes of a table bring about."""
        found = []
        row, kind, places = changed_places(delta.old, delta.new)
        for (tables, _), group in self.groups.items():
            if table not in tables or not len(group.rectangles):
                continue
            parts = []
            for begin in range(0, len(row), _TOGETHER):
                few = slice(begin, begin + _TOGETHER)
                origin, rows = group.joined(tables.index(table), places[few])
                parts.append(
                    group.messages(delta.change[row[few]][origin], kind[few][origin], rows)
                )
            sender = ResultSender(self, group)
            messages = concatenate_messages(parts)
            if self._wanted_only:
                messages = sender.wanted(messages)
            if len(messages):
                found.append(Part(messages, sender))
        return found

    def test(self, group: Results, number: int, rows: Int64s) -> Bools:
        """Which rows satisfy all the other conditions of a subscription."""
        found = np.ones(len(rows), np.bool_)
        for n, condition in enumerate(group.conditions.get(number, ())):
            if condition is not None:
                state = group.states[n]
                residuals = self._residuals[state.name]
                found[found] = match_condition(state, residuals, condition, rows[found, n])
        return found


class ResultSender:
    """What rows of a join are about, and who reads them."""

    def __init__(self, scheme: ResultScheme, group: Results) -> None:
        self._scheme = scheme
        self.group = group

    def readers(self, messages: Messages) -> Readers:
        """Who reads which row. To the rectangles it is a tuple that another one without neighbours exposes."""
        count = len(messages)
        exposed = replace(
            messages,
            form=np.full(count, EXPOSED, np.int8),
            below=np.full(count, NOWHERE),
            above=np.full(count, BEYOND),
        )
        found = readers(self.group.rectangles, exposed)
        if not self.group.conditions:
            return found
        which, numbers = found.which(), found.numbers
        keep = np.ones(len(which), np.bool_)
        for number in set(numbers.tolist()) & set(self.group.conditions):
            mine = np.flatnonzero(numbers == number)
            keep[mine] = self._scheme.test(self.group, number, messages.tuples[which[mine]])
        return found.keep(keep)

    def wanted(self, messages: Messages) -> Messages:
        """The messages that somebody reads."""
        found = np.zeros(len(messages), np.bool_)
        if self.group.conditions:
            found = self.readers(messages).counts() > 0
        else:
            _any_wants(self.group.rectangles.tree, messages.a, messages.c, found)
        return self.group.messages(
            messages.change[found], messages.kind[found], messages.tuples[found]
        )

    def message(self, messages: Messages, at: int) -> JoinMessage:
        """What a subscriber gets."""
        rows = [
            (state, state.rows[place])
            for state, place in zip(self.group.states, messages.tuples[at].tolist(), strict=True)
        ]
        if messages.kind[at] == ADDED:
            return JoinAdded(tuple((s.name, s.as_dict(row)) for s, row in rows if row is not None))
        return JoinRemoved(tuple((s.name, s.key_of(row)) for s, row in rows if row is not None))
