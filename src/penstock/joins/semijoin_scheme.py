"""Select-joins by semijoins: Ref-SJ in its four flavours, Enum-SJ, and, without filtering tables, Rel-Sel."""

from collections.abc import Iterable, Sequence

import numpy as np

from penstock.arrays import Bools, Int64s
from penstock.joins.conditions import Condition, Residuals, satisfied
from penstock.joins.coordinates import ANYTHING
from penstock.joins.decompose import Decomposition
from penstock.joins.filters import filter_text
from penstock.joins.messages import (
    ADDED,
    DROPPED,
    Message,
    Messages,
    TupleAdded,
    TupleRemoved,
    TuplesDropped,
)
from penstock.joins.notifications import Part
from penstock.joins.readers import readers
from penstock.joins.semijoins import Form, Semijoins
from penstock.joins.subscription import SelectJoin, Side
from penstock.joins.tables import Delta, TableState

_Numbered = tuple[int, SelectJoin]


class SemijoinScheme:
    """The groups of semijoins of all subscriptions, which are numbers here."""

    def __init__(
        self, tables: dict[str, TableState], decomposition: Decomposition, flavour: int
    ) -> None:
        self.decomposition = decomposition
        self.groups: dict[Form, Semijoins] = {}
        self._tables = tables
        self._flavour = flavour
        self._residuals = {name: Residuals(state) for name, state in tables.items()}
        self._member: dict[int, list[Semijoins]] = {}
        self._conditions: dict[tuple[int, str], Condition] = {}
        self._favourite: dict[
            str, str
        ] = {}  # the attribute that is chosen where a subscription has no range

    # --- subscriptions -------------------------------------------------------------------------

    def add(self, joins: Iterable[_Numbered]) -> None:
        """Add subscriptions. All or none: what is wrong with one is told before anything has changed."""
        joins = list(joins)
        self._choose_attributes(joins)
        pending: dict[Form, tuple[list[int], list[tuple[int, int, int, int]], list[bool]]] = {}
        for number, join in joins:
            if join.never_matches:
                self._member[number] = []
                continue
            sides = {side.table: side for side in join.sides}
            attributes = {side.table: self._attribute(side) for side in join.sides}
            for base, edge in self.decomposition.of(join):
                form = Form(base, edge, attributes[base])
                filtering = form.filtering
                if filtering is not None:
                    form = Form(base, edge, attributes[base], attributes[filtering])
                numbers, corners, tested = pending.setdefault(form, ([], [], []))
                a = self._range(sides[base], attributes[base])
                c = (
                    ANYTHING
                    if filtering is None
                    else self._range(sides[filtering], attributes[filtering])
                )
                numbers.append(number)
                corners.append((*a, *c))
                tested.append(self._condition(number, sides[base], attributes[base]))
        for form, (numbers, corners, tested) in pending.items():
            group = self._group(form)
            group.add(np.array(numbers, np.int64), np.array(corners, np.int64))
            group.tested.update(n for n, t in zip(numbers, tested, strict=True) if t)
            for number in numbers:
                self._member.setdefault(number, []).append(group)

    def remove(self, number: int) -> None:
        for group in self._member.pop(number):
            group.remove(number)
            self._conditions.pop((number, group.form.base), None)

    def _group(self, form: Form) -> Semijoins:
        if form not in self.groups:
            base = self._tables[form.base]
            filtering = None if form.filtering is None else self._tables[form.filtering]
            group = self.groups[form] = Semijoins(form, base, filtering, self._flavour)
            if filtering is not None:
                group.base_runs, group.filter_runs  # noqa: B018 (from now on they are kept)
        return self.groups[form]

    def _choose_attributes(self, joins: Sequence[_Numbered]) -> None:
        """By which attribute the subscriptions of a table are grouped that have a range for several, or for none."""
        counts: dict[str, dict[str, int]] = {}
        for _, join in joins:
            for side in join.sides:
                of_table = counts.setdefault(side.table, {})
                for attribute, _ in side.ranges:
                    of_table[attribute] = of_table.get(attribute, 0) + 1
        for table, of_table in counts.items():
            if of_table and table not in self._favourite:
                self._favourite[table] = max(sorted(of_table), key=of_table.__getitem__)

    def _attribute(self, side: Side) -> str | None:
        favourite = self._favourite.get(side.table)
        ranged = [attribute for attribute, _ in side.ranges]
        return favourite if favourite in ranged or not ranged else ranged[0]

    def _range(self, side: Side, attribute: str | None) -> tuple[int, int]:
        for name, values in side.ranges:
            if name == attribute:
                return self._tables[side.table].line(name).range(values)
        if attribute is not None:
            self._tables[side.table].line(attribute)
        return ANYTHING

    def _condition(self, number: int, side: Side, attribute: str | None) -> bool:
        """Whether there is more to test than the range of one attribute; keep what it is."""
        if side.residual is None and all(name == attribute for name, _ in side.ranges):
            return False
        line = self._tables[side.table].line
        residual = None
        if side.residual is not None:
            residual = self._residuals[side.table].number(side.residual)
        ranges = tuple((name, line(name).range(values)) for name, values in side.ranges)
        self._conditions[number, side.table] = Condition(ranges, residual)
        return True

    # --- changes -------------------------------------------------------------------------------

    def when(self, table: str, delta: Delta) -> list[Part]:
        """The messages that changes of a table bring about."""
        self._residuals[table].forget()
        found = []
        for group in self.groups.values():
            if group.form.base == table:
                messages = group.when_base_changes(delta)
            elif group.form.filtering == table:
                messages = group.when_filter_changes(delta)
            else:
                continue
            if len(messages):
                found.append(Part(messages, _Sender(self, group)))
        return found

    def content(self, number: int) -> list[Message]:
        """What the subscriber holds, or should."""
        found: list[Message] = []
        for group in self._member[number]:
            state = group.base
            places = group.held(number)
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
        return satisfied(group.base, self._residuals[table], condition, places)


class _Sender:
    """What messages of a group are about, and who reads them."""

    def __init__(self, scheme: SemijoinScheme, group: Semijoins) -> None:
        self._scheme = scheme
        self.group = group

    def readers(self, messages: Messages) -> tuple[Int64s, Int64s]:
        which, numbers = readers(self.group.rectangles, messages)
        if not self.group.tested:
            return which, numbers
        keep = np.ones(len(which), np.bool_)
        for number in set(numbers.tolist()) & self.group.tested:
            mine = np.flatnonzero((numbers == number) & (messages.form[which] != DROPPED))
            keep[mine] = self._scheme.test(self.group, number, messages.tuples[which[mine]])
        return which[keep], numbers[keep]

    def content_bytes(self, messages: Messages) -> Int64s:
        """Of a tuple that is added all bytes, of one that is removed those of its key; of others, the join attributes."""
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

    def message(self, messages: Messages, at: int) -> Message:
        state, place = self.group.base, int(messages.tuples[at])
        if messages.form[at] == DROPPED:
            edge, filtering = self.group.form.edge, self.group.filtering
            assert edge is not None and filtering is not None
            row = _row(filtering, place)
            values = tuple(row[a] for a in filtering.join_attributes(edge))
            return TuplesDropped(state.name, state.join_attributes(edge), values)
        if messages.kind[at] == ADDED:
            return TupleAdded(state.name, _row(state, place))
        tuple_ = state.rows[place]
        assert tuple_ is not None
        return TupleRemoved(state.name, state.key_of(tuple_))


def _row(state: TableState, place: int) -> dict[str, object]:
    row = state.rows[place]
    assert row is not None
    return state.as_dict(row)
