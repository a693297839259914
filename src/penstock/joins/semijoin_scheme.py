"""Select-joins by semijoins (Ref-SJ-Clu+): the groups of all subscriptions, and what their messages tell."""

from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np
import pyarrow as pa

from penstock.base.arrays import Bools, Int64s
from penstock.joins.axes import ANYTHING
from penstock.joins.choices import Choices
from penstock.joins.conditions import Residuals, TableCondition, match_condition
from penstock.joins.decompose import Decomposition
from penstock.joins.filters import filter_text
from penstock.joins.messages import (
    ADDED,
    DROPPED,
    EXPOSED,
    Message,
    Messages,
    TupleAdded,
    TupleRemoved,
    TuplesDropped,
)
from penstock.joins.notifications import Part
from penstock.joins.readers import Readers
from penstock.joins.semijoins import Form, Semijoins
from penstock.joins.subscription import SelectJoin, Side
from penstock.joins.table_state import Delta, TableState

_Numbered = tuple[int, SelectJoin]
_Likeness = tuple[object, ...]


class SemijoinScheme:
    """The groups of semijoins of all subscriptions, which are numbers here."""

    def __init__(
        self,
        tables: dict[str, TableState],
        decomposition: Decomposition,
        choices: Choices | None = None,
    ) -> None:
        self.decomposition = decomposition
        self.choices = choices or Choices()
        self.groups: dict[Form, Semijoins] = {}
        self._tables = tables
        self._residuals = {name: Residuals(state) for name, state in tables.items()}
        self._member: dict[int, list[Semijoins]] = {}
        self._conditions: dict[tuple[int, str], TableCondition] = {}

    # --- subscriptions -------------------------------------------------------------------------

    def add(self, joins: Iterable[_Numbered]) -> None:
        """Add subscriptions. If one can't be added, the scheme is of no use any longer."""
        alike: dict[_Likeness, list[_Numbered]] = {}
        for number, join in joins:
            if join.never_matches:
                self._member[number] = []
            else:
                alike.setdefault(self._likeness(join), []).append((number, join))
        for members in alike.values():
            self._add_alike(members)

    def _likeness(self, join: SelectJoin) -> _Likeness:
        """What select-joins have in common that are added together: tables, edges, attributes and the one chosen."""
        sides = [
            (side.table, self.choices.attribute(side), *[name for name, _ in side.ranges])
            for side in join.sides
        ]
        return (join.edges, *sides)

    def _add_alike(self, joins: list[_Numbered]) -> None:
        """Add subscriptions that are alike."""
        first = joins[0][1]
        numbers = np.array([number for number, _ in joins], np.int64)
        attributes = {side.table: self.choices.attribute(side) for side in first.sides}
        sides = {side.table: side for side in first.sides}
        ranges = {
            (side.table, attribute): self._ranges([join.sides[n] for _, join in joins], attribute)
            for n, side in enumerate(first.sides)
            for attribute in {None, attributes[side.table], *[name for name, _ in side.ranges]}
        }
        tested = {
            side.table: [
                number
                for number, join in joins
                if self._condition(number, join.sides[n], attributes[side.table])
            ]
            for n, side in enumerate(first.sides)
        }
        groups = []
        for base, edge in self.decomposition.of(first):
            form = Form(base, edge, attributes[base])
            columns = [ranges[base, attributes[base]]]
            if form.filtering is not None:
                chosen = self.choices.filter_attributes(sides[form.filtering])
                form = Form(base, edge, attributes[base], chosen)
                columns += [ranges[form.filtering, c] for c in chosen or (None,)]  # type: ignore[index]
            else:
                columns.append(np.array([ANYTHING], np.int64))
            corners = np.concatenate(
                [np.broadcast_to(column, (len(joins), 2)) for column in columns], axis=1
            )
            group = self._group(form)
            group.add(numbers, corners)
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
        """The range of one attribute that each side has; the sides have ranges for the same ones."""
        if attribute is None:
            return np.array([ANYTHING], np.int64)
        axis = self._tables[sides[0].table].axis(attribute)
        names = [name for name, _ in sides[0].ranges]
        if attribute not in names:
            return np.array([ANYTHING], np.int64)
        n = names.index(attribute)
        return axis.ranges([side.ranges[n][1] for side in sides])

    def _condition(self, number: int, side: Side, attribute: str | None) -> bool:
        """Whether there is more to test than the range of one attribute; keep what it is."""
        if side.residual is None and all(name == attribute for name, _ in side.ranges):
            return False
        axis = self._tables[side.table].axis
        residual = None
        if side.residual is not None:
            residual = self._residuals[side.table].keep(side.residual)
        ranges = tuple((name, axis(name).range(values)) for name, values in side.ranges)
        self._conditions[number, side.table] = TableCondition(ranges, residual)
        return True

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

    def content(self, number: int) -> list[Message]:
        """What the subscriber holds, or should."""
        found: list[Message] = []
        for group in self._member[number]:
            state = group.base
            places = group.semijoin_places(number)
            places = places[self.test(group, number, places)]
            found += [TupleAdded(state.name, _row(state, place)) for place in places.tolist()]
        return found

    def filters(self, group: Semijoins) -> dict[int, str]:
        """The subscriptions of a group as stateless filters over its messages."""
        found = {}
        for number in np.flatnonzero(group.rectangles.rectangle >= 0).tolist():
            condition = self._conditions.get((number, group.form.base))
            residual = "TRUE"
            if condition is not None and condition.residual is not None:
                residual = self._residuals[group.form.base].text(condition.residual)
            found[number] = filter_text(group.rectangles.of(number), condition, residual)
        return found

    def test(self, group: Semijoins, number: int, places: Int64s) -> Bools:
        """Which tuples of the base table satisfy a subscription's other conditions on it."""
        if number not in group.tested:
            return np.ones(len(places), np.bool_)
        table = group.form.base
        condition = self._conditions[number, table]
        return match_condition(group.base, self._residuals[table], condition, places)


class SemijoinSender:
    """What messages of a group are about, and who reads them."""

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

    def content_bytes(self, messages: Messages) -> Int64s:
        """Of what is added all bytes, of what is removed those of its key, of what is dropped the join attributes."""
        state = self.group.base
        sizes = np.where(
            messages.kind == ADDED,
            state.sizes[np.where(messages.form == DROPPED, 0, messages.tuples)],
            state.key_sizes[np.where(messages.form == DROPPED, 0, messages.tuples)],
        )
        dropped = messages.form == DROPPED
        if dropped.any():
            assert self.group.form.edge is not None
            sizes[dropped] = 4 * len(self.group.form.edge.attributes)
        return sizes

    @property
    def base(self) -> TableState:
        """The table that messages are about."""
        return self.group.base

    @property
    def join_attributes(self) -> tuple[str, ...]:
        """Those of the base table by which tuples are dropped; none if nothing can be."""
        edge = self.group.form.edge
        return () if edge is None else self.base.join_attributes(edge)

    def outside(self, messages: Messages) -> Messages:
        """Messages as they are told outside of this process: with ranks for coordinates."""
        form, points = self.group.form, messages.points()
        has_a = messages.form != DROPPED
        has_c = np.isin(messages.form, (EXPOSED, DROPPED))
        of_base = _ranks(self.base, form.base_attribute)
        of_filtering = _ranks(self.group.filtering, form.filter_attribute)
        about_base = np.repeat(~has_a, points)
        return replace(
            messages,
            a=np.where(has_a, of_base(messages.a), messages.a),
            **{
                name: np.where(has_c, of_filtering(value), value)
                for name, value in (
                    ("c", messages.c),
                    ("below", messages.below),
                    ("above", messages.above),
                )
            },
            x=np.where(about_base, of_base(messages.x), of_filtering(messages.x)),
            y=np.where(about_base, of_base(messages.y), of_filtering(messages.y)),
        )

    def contents(self, messages: Messages) -> pa.RecordBatch:
        """What messages tell, as rows of the base table, in which what isn't told is NULL.

        That is all of a tuple that is added, the key of one that is removed, the join attributes of what is dropped.
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
            message = self.message(messages, at)
            assert isinstance(message, TuplesDropped)
            told = dict(zip(message.attributes, message.values, strict=True))
            for name, values in columns.items():
                values[at] = told.get(name)
        return pa.RecordBatch.from_pydict(columns, schema=state.table.schema.to_arrow())

    def message(self, messages: Messages, at: int) -> Message:
        state, place = self.group.base, int(messages.tuples[at])
        if messages.form[at] == DROPPED:
            edge, filtering = self.group.form.edge, self.group.filtering
            assert edge is not None
            assert filtering is not None
            row = _row(filtering, place)
            values = tuple(row[a] for a in filtering.join_attributes(edge))
            return TuplesDropped(state.name, state.join_attributes(edge), values)
        if messages.kind[at] == ADDED:
            return TupleAdded(state.name, _row(state, place))
        tuple_ = state.rows[place]
        assert tuple_ is not None
        return TupleRemoved(state.name, state.key_of(tuple_))


def _ranks(state: TableState | None, attribute: str | None) -> Callable[[Int64s], Int64s]:
    if state is None or attribute is None:
        return lambda coordinates: coordinates
    return state.axis(attribute).ranks


def _row(state: TableState, place: int) -> dict[str, object]:
    row = state.rows[place]
    assert row is not None
    return state.as_dict(row)
