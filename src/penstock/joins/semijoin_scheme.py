"""Select-joins by semijoins (Ref-SJ-Clu+): the groups of all subscriptions, and the contents of their messages."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np
import pyarrow as pa

from penstock.base.arrays import Bools, Int64s
from penstock.joins.axes import ANYTHING
from penstock.joins.conditions import Residuals, TableCondition, match_condition
from penstock.joins.decompose import Decomposition
from penstock.joins.messages import ADDED, DROPPED, EXPOSED, Messages
from penstock.joins.notifications import Part
from penstock.joins.readers import Readers
from penstock.joins.semijoins import Form, Semijoins
from penstock.joins.subscription import JoinEdge, SelectJoin, Side
from penstock.joins.table_state import Delta, TableState

_Numbered = tuple[int, SelectJoin]
_Likeness = tuple[object, ...]
_Ranges = dict[
    tuple[str, str | None], Int64s
]  # by table and attribute; one row for all, or one for each


def form_of_semijoin(
    decomposition: Decomposition, base: str, edge: JoinEdge | None, join: SelectJoin
) -> Form:
    """The form of the semijoin of a select-join with this base table and edge."""
    attributes = {side.table: decomposition.attribute(side) for side in join.sides}
    form = Form(base, edge, attributes[base])
    if form.filtering is None:
        return form
    return replace(form, filter_attribute=attributes[form.filtering])


class SemijoinScheme:
    """The groups of semijoins of all subscriptions, which are numbers here."""

    def __init__(self, tables: dict[str, TableState], decomposition: Decomposition) -> None:
        self.decomposition = decomposition
        self.groups: dict[Form, Semijoins] = {}
        self._tables = tables
        self._residuals = {name: Residuals(state) for name, state in tables.items()}
        self._member: dict[int, list[Semijoins]] = {}
        self._conditions: dict[tuple[int, str], TableCondition] = {}

    # --- subscriptions -------------------------------------------------------------------------

    def add(self, joins: Iterable[_Numbered]) -> None:
        """Add subscriptions. If one can't be added, the scheme can't be used any longer."""
        alike: dict[_Likeness, list[_Numbered]] = {}
        for number, join in joins:
            if join.never_matches:
                self._member[number] = []
            else:
                alike.setdefault(self._likeness(join), []).append((number, join))
        for members in alike.values():
            self._add_alike(members)

    def _likeness(self, join: SelectJoin) -> _Likeness:
        """What select-joins that are added together have in common: tables, edges, attributes, and the
        decomposition."""
        sides = [
            (side.table, self.decomposition.attribute(side), *[name for name, _ in side.ranges])
            for side in join.sides
        ]
        return (join.edges, self.decomposition.of(join), *sides)

    def _add_alike(self, joins: list[_Numbered]) -> None:
        """Add subscriptions that are alike."""
        first = joins[0][1]
        numbers = np.array([number for number, _ in joins], np.int64)
        sides = {
            side.table: [join.sides[n] for _, join in joins] for n, side in enumerate(first.sides)
        }
        ranges = self._grouping_ranges(sides)
        tested = {table: self._keep_conditions(numbers, mine) for table, mine in sides.items()}
        groups = []
        for base, edge in self.decomposition.of(first):
            form = self._form(base, edge, first)
            group = self._group(form)
            columns = [np.broadcast_to(c, (len(joins), 2)) for c in self._columns(form, ranges)]
            group.add(numbers, np.concatenate(columns, axis=1))
            group.tested.update(tested[base])
            groups.append(group)
        self._member.update(dict.fromkeys(numbers.tolist(), groups))

    def remove(self, number: int) -> None:
        for group in self._member.pop(number):
            group.remove(number)
        for table, residuals in self._residuals.items():
            condition = self._conditions.pop((number, table), None)
            if condition is not None and condition.residual is not None:
                residuals.release(condition.residual)

    def _form(self, base: str, edge: JoinEdge | None, join: SelectJoin) -> Form:
        return form_of_semijoin(self.decomposition, base, edge, join)

    def _grouping_ranges(self, sides: dict[str, list[Side]]) -> _Ranges:
        """The ranges by which subscriptions that are alike are grouped."""
        chosen = {table: self.decomposition.attribute(mine[0]) for table, mine in sides.items()}
        return {(table, a): self._ranges(sides[table], a) for table, a in chosen.items()}

    def _columns(self, form: Form, ranges: _Ranges) -> list[Int64s]:
        """The two columns of rectangles: ranges of the base table, and of the filtering table."""
        a = ranges[form.base, form.base_attribute]
        if form.filtering is None:
            return [a, np.array([ANYTHING], np.int64)]
        return [a, ranges[form.filtering, form.filter_attribute]]

    def _group(self, form: Form) -> Semijoins:
        if form not in self.groups:
            base = self._tables[form.base]
            filtering = None if form.filtering is None else self._tables[form.filtering]
            self.groups[form] = self._new_group(form, base, filtering)
        return self.groups[form]

    def _new_group(self, form: Form, base: TableState, filtering: TableState | None) -> Semijoins:
        for state, attribute in ((base, form.base_attribute), (filtering, form.filter_attribute)):
            if form.edge is not None and state is not None:
                state.index(form.edge, attribute)  # kept from now on
        return Semijoins(form, base, filtering)

    def _ranges(self, sides: list[Side], attribute: str | None) -> Int64s:
        """The range of an attribute on each side; all sides have ranges of the same attributes."""
        if attribute is None:
            return np.array([ANYTHING], np.int64)
        axis = self._tables[sides[0].table].axis(attribute)
        n = [name for name, _ in sides[0].ranges].index(attribute)
        return axis.ranges([side.ranges[n][1] for side in sides])

    def _keep_conditions(self, numbers: Int64s, sides: list[Side]) -> list[int]:
        """Keep the conditions on a table of those subscriptions that have more than the grouping range; their
        numbers."""
        table, attribute = sides[0].table, self.decomposition.attribute(sides[0])
        axis, found = self._tables[table].axis, []
        for number, side in zip(numbers.tolist(), sides, strict=True):
            if side.residual is None and all(name == attribute for name, _ in side.ranges):
                continue
            residual = None
            if side.residual is not None:
                residual = self._residuals[table].keep(side.residual)
            ranges = tuple((name, axis(name).range(values)) for name, values in side.ranges)
            self._conditions[number, table] = TableCondition(ranges, residual)
            found.append(number)
        return found

    def take_costs(self) -> tuple[int, Counter[int]]:
        """As `Processor.take_costs`, by number. Subscriptions that share a residual each count all of its tests."""
        tuples, tests = 0, Counter[int]()
        for table, residuals in self._residuals.items():
            matched, evaluated = residuals.take_costs()
            tuples += matched
            if evaluated:
                for (number, of), condition in self._conditions.items():
                    if of == table and condition.residual in evaluated:
                        tests[number] += evaluated[condition.residual]
        return tuples, tests

    # --- changes -------------------------------------------------------------------------------

    def when(self, table: str, delta: Delta) -> list[Part]:
        """The messages that changes of a table bring about."""
        found = []
        for group in self.groups.values():
            if group.form.base == table:
                messages = group.when_base_changes(delta)
            elif group.form.filtering == table:
                messages = group.when_filter_changes(delta)
            else:
                continue
            if len(messages):
                found.append(Part(messages, SemijoinSender(self, group)))
        return found

    def test(self, group: Semijoins, number: int, places: Int64s) -> Bools:
        """Which tuples of the base table satisfy a subscription's other conditions on it."""
        if number not in group.tested:
            return np.ones(len(places), np.bool_)
        table = group.form.base
        condition = self._conditions[number, table]
        return match_condition(group.base, self._residuals[table], condition, places)


class SemijoinSender:
    """Finds the readers of a group's messages, and has what the messages are about."""

    def __init__(self, scheme: SemijoinScheme, group: Semijoins) -> None:
        self._scheme = scheme
        self.group = group

    def readers(self, messages: Messages) -> Readers:
        found = self.group.readers(messages)
        if not self.group.tested:
            return found
        which, numbers = found.which(), found.numbers
        keep = np.ones(len(which), np.bool_)
        for number in set(numbers.tolist()) & self.group.tested:
            mine = np.flatnonzero((numbers == number) & (messages.form[which] != DROPPED))
            keep[mine] = self._scheme.test(self.group, number, messages.tuples[which[mine]])
        return found.keep(keep)

    @property
    def base(self) -> TableState:
        """The table that messages are about."""
        return self.group.base

    @property
    def join_attributes(self) -> tuple[str, ...]:
        """The attributes of the base table by which tuples are dropped; none if there is no edge."""
        edge = self.group.form.edge
        return () if edge is None else self.base.join_attributes(edge)

    def outside(self, messages: Messages) -> Messages:
        """Messages as they leave this process: with ranks for coordinates."""
        form, points = self.group.form, messages.points()
        has_a = messages.form != DROPPED
        has_c = np.isin(messages.form, (EXPOSED, DROPPED))
        of_base = _ranks(self.base, form.base_attribute)
        of_filtering = _ranks(self.group.filtering, form.filter_attribute)
        about_base = np.repeat(~has_a, points)
        c, below, above = (
            np.where(has_c, of_filtering(value), value)
            for value in (messages.c, messages.below, messages.above)
        )
        return replace(
            messages,
            a=np.where(has_a, of_base(messages.a), messages.a),
            c=c,
            below=below,
            above=above,
            x=np.where(about_base, of_base(messages.x), of_filtering(messages.x)),
            y=np.where(about_base, of_base(messages.y), of_filtering(messages.y)),
        )

    def contents(self, messages: Messages) -> pa.RecordBatch:
        """The contents of messages, as rows of the base table, with NULL where a message has no value.

        A message has all of a tuple that is added, the key of one that is removed, the join attributes of those that
        are dropped.
        """
        state = self.base
        nothing = (None,) * len(state.table.columns)
        dropped = messages.form == DROPPED
        places = np.where(dropped, -1, messages.tuples).tolist()
        rows = [nothing if place < 0 else state.rows[place] or nothing for place in places]
        added = (messages.kind == ADDED).tolist()
        columns = {
            name: [row[n] for row in rows]
            if name in state.table.key
            else [row[n] if all_ else None for row, all_ in zip(rows, added, strict=True)]
            for n, name in enumerate(state.table.columns)
        }
        for at in np.flatnonzero(dropped).tolist():
            joined_on = self._joined_on(int(messages.tuples[at]))
            for name, values in columns.items():
                values[at] = joined_on.get(name)
        return pa.RecordBatch.from_pydict(columns, schema=state.table.schema.to_arrow())

    def _joined_on(self, place: int) -> dict[str, object]:
        """The join attributes of the base table's tuples that join a tuple of the filtering table."""
        edge, filtering = self.group.form.edge, self.group.filtering
        assert edge is not None
        assert filtering is not None
        row = filtering.rows[place]
        assert row is not None
        values = filtering.as_dict(row)
        theirs = filtering.join_attributes(edge)
        return {a: values[b] for a, b in zip(self.join_attributes, theirs, strict=True)}


def _ranks(state: TableState | None, attribute: str | None) -> Callable[[Int64s], Int64s]:
    if state is None or attribute is None:
        return lambda coordinates: coordinates
    return state.axis(attribute).ranks
