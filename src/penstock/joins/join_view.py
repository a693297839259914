"""The subscriber's side of a select-join: notifications in, the rows of the join out.

    view = penstock.JoinView("SELECT * FROM Stocks JOIN Reviews USING (Symbol) WHERE …", catalog)
    for change in view.apply(notification): …       which rows came, and which went
    view.rows()                                     all of them, an Arrow table: what the SELECT gives

Follows joins §3.1: the client holds the contents of its semijoins and joins them itself. A view holds just the tuples
that it was sent (`held`, one per table), and computes what a message changes by following the edges from the tuple that
came or went: hash lookups, no scan. The rows themselves aren't kept.

Messages are those of `messages`. A message that is applied a second time changes nothing, and a notification with a bad
message is refused as a whole.

A subscriber that starts again loads the view that it saved (`view_file`), and goes on with the messages after its
position. A subscriber that has lost its view, or messages, needs no protocol of its own to get everything again: it is
sent the same as a newcomer, a `ViewReset` and then each tuple that it must hold.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from penstock.base.errors import FilterError, SchemaError
from penstock.joins.catalog import Catalog
from penstock.joins.held import ComparedKey, Held, HeldRow, column_type
from penstock.joins.messages import (
    Message,
    TupleAdded,
    TupleRemoved,
    TuplesDropped,
    ViewReset,
)
from penstock.joins.selects import Select, read_select
from penstock.joins.subscription import SelectJoin
from penstock.joins.view_file import SavedView, damage, read_view, write_view

ResultRow = tuple[Any, ...]
"""A row of the result: its values, in the order of the columns."""

_Identity = tuple[ComparedKey, ...]  # of a row of the join: the keys of its tuples
_Tuples = dict[str, tuple[ComparedKey, HeldRow]]  # a row of the join, or some of it: by table


class Subscribed(Protocol):
    """A subscription out of a registry."""

    @property
    def filter(self) -> str: ...


@dataclass(slots=True)
class RowChanges:
    """Rows of the result that came, and those that went. Iteration gives each with its sign, those that went first.

    >>> list(RowChanges([("ACME", 7)], [("ACME", 6)]))
    [(-1, ('ACME', 6)), (1, ('ACME', 7))]
    """

    added: list[ResultRow] = field(default_factory=list)
    removed: list[ResultRow] = field(default_factory=list)

    def __iter__(self) -> Iterator[tuple[int, ResultRow]]:
        yield from ((-1, row) for row in self.removed)
        yield from ((1, row) for row in self.added)

    def __bool__(self) -> bool:
        return bool(self.added or self.removed)


class JoinView:
    """The result of one select-join subscription, kept up to date by its notifications.

    >>> from penstock.joins.catalog import Table
    >>> catalog = Catalog.of(
    ...     {
    ...         "Stocks": Table({"Symbol": "string", "PER": "double"}, key="Symbol"),
    ...         "Reviews": Table({"Id": "int", "Symbol": "string", "Rating": "int"}, key="Id"),
    ...     },
    ...     edges=[("Stocks", "Reviews", "Symbol")],
    ... )
    >>> view = JoinView("SELECT * FROM Stocks JOIN Reviews USING (Symbol) WHERE Rating >= 6", catalog)
    >>> changes = view.apply([
    ...     TupleAdded("Stocks", {"Symbol": "GOOG", "PER": 51.7}),
    ...     TupleAdded("Reviews", {"Id": 1, "Symbol": "GOOG", "Rating": 7}),
    ... ])
    >>> changes.added
    [('GOOG', 51.7, 1, 7)]
    >>> view.apply(TupleRemoved("Stocks", ("GOOG",))).removed
    [('GOOG', 51.7, 1, 7)]
    >>> view.rows().num_rows, view.columns
    (0, ['Symbol', 'PER', 'Id', 'Rating'])
    """

    def __init__(self, subscription: str | Select | Subscribed, catalog: Catalog) -> None:
        if isinstance(subscription, Select):
            self.select = subscription
        else:
            text = subscription if isinstance(subscription, str) else subscription.filter
            self.select = read_select(text, catalog)
        join = self.select.join
        self._held = {
            side.table: Held(side, catalog.tables[side.table], _joined_on(join, side.table))
            for side in join.sides
        }
        self._routes = {table: _route(join, table) for table in join.tables}
        types = [catalog.tables[c.table].type(c.attribute) for c in self.select.columns]
        self._types = [None if type_ is None else column_type(type_) for type_ in types]
        self.position: Any = None
        """How far messages were applied, as the caller of `apply` said."""

    @property
    def columns(self) -> list[str]:
        """The names of the result's columns, as SELECT * has them: a name may be there twice."""
        return [column.name for column in self.select.columns]

    def apply(self, notification: Message | Iterable[Message], position: Any = None) -> RowChanges:
        """Apply the messages of a notification; the rows of the result that they changed together.

        `position` says how far messages are applied with this: an offset, the number of a micro-batch, anything that
        JSON can say. It is saved with the view. SchemaError if a message doesn't fit the subscription; then nothing has
        changed.
        """
        messages = [notification] if isinstance(notification, Message) else list(notification)
        steps = [self._read(message) for message in messages]
        changes = NetChanges()
        for step in steps:
            step(changes)
        if position is not None:
            self.position = position
        return changes.row_changes()

    def rows(self) -> pa.Table:
        """The result as it is now."""
        found = list(self)
        columns = zip(*found, strict=True) if found else ([] for _ in self._types)
        arrays = [
            pa.array(list(values), type_)
            for values, type_ in zip(columns, self._types, strict=True)
        ]
        return pa.Table.from_arrays(arrays, names=self.columns)

    def __iter__(self) -> Iterator[ResultRow]:
        first = self.select.join.tables[0]
        for key, row in list(self._held[first].tuples.items()):
            for tuples in self._rows_with(first, key, row):
                yield self._shown(tuples)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def held(self) -> dict[str, int]:
        """How many tuples of each table the view holds."""
        return {name: len(held.tuples) for name, held in self._held.items()}

    # --- from one process to the next ----------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Write what the view holds, and its position, into a file: all of it, or the file stays as it was."""
        tables = {name: held.to_arrow() for name, held in self._held.items()}
        write_view(Path(path), SavedView(self.select.text, self.position, tables))

    @staticmethod
    def load(
        path: str | Path, subscription: str | Select | Subscribed, catalog: Catalog
    ) -> "JoinView":
        """The view that was saved: go on with the messages after its `position`.

        Earlier messages may be applied again, too, in order: after the last of them the view is as it was saved.
        SnapshotError if the file is damaged, or of another select or catalogue; FileNotFoundError if there is none.

        >>> import tempfile
        >>> from penstock.joins.catalog import Table
        >>> catalog = Catalog.of({"A": Table({"x": "int"}, key="x")})
        >>> view = JoinView("SELECT * FROM A WHERE x > 5", catalog)
        >>> changes = view.apply([TupleAdded("A", {"x": 7})], position={"batch": 3})
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     view.save(f"{folder}/mine")
        ...     again = JoinView.load(f"{folder}/mine", "SELECT * FROM A WHERE x > 5", catalog)
        >>> list(again), again.position
        ([(7,)], {'batch': 3})
        """
        view, saved = JoinView(subscription, catalog), read_view(Path(path))
        try:
            if read_select(saved.select, catalog).join != view.select.join:
                raise damage(Path(path), f"it is of another select, {saved.select!r}")
            for name, held in view._held.items():
                held.fill(saved.tables[name])
        except (FilterError, SchemaError) as error:
            raise damage(Path(path), f"it is of another catalogue ({error})") from error
        view.position = saved.position
        return view

    # --- messages ------------------------------------------------------------------------------

    def _read(self, message: Message) -> "_Step":
        """Check a message, and bring its keys into the form in which they are compared; the step that applies it."""
        match message:
            case TupleAdded(table, given):
                held = self._of(table)
                row = held.read(given)
                return partial(self._put, held, held.key(row), row if held.accepts(row) else None)
            case TupleRemoved(table, key):
                held = self._of(table)
                return partial(self._put, held, held.key_of(key), None)
            case TuplesDropped(table, attributes, values):
                held = self._of(table)
                found = held.values_of(attributes, values)
                return partial(self._forget, held, tuple(attributes), found)
            case ViewReset():
                return self._forget_everything
        raise SchemaError(f"{message!r} is no message of a select-join")

    def _of(self, table: str) -> Held:
        held = self._held.get(table)
        if held is None:
            raise SchemaError(
                f"a message on table {table!r}, which the subscription doesn't ask for: "
                f"it joins {', '.join(self._held)}"
            )
        return held

    def _forget(
        self,
        held: Held,
        attributes: tuple[str, ...],
        values: ComparedKey | None,
        changes: "NetChanges",
    ) -> None:
        """Forget the tuples with these values; None: there are none."""
        for key in held.find(attributes, values) if values is not None else ():
            self._put(held, key, None, changes)

    def _forget_everything(self, changes: "NetChanges") -> None:
        first = self.select.join.tables[0]
        for key, row in self._held[first].tuples.items():
            for tuples in self._rows_with(first, key, row):
                changes.remove(self._identity(tuples), self._shown(tuples))
        for held in self._held.values():
            held.clear()

    def _put(
        self, held: Held, key: ComparedKey, row: HeldRow | None, changes: "NetChanges"
    ) -> None:
        """Hold a tuple instead of the one with its key; None: hold none."""
        old = held.tuples.get(key)
        if old == row:
            return
        if old is not None:
            for tuples in self._rows_with(held.name, key, old):
                changes.remove(self._identity(tuples), self._shown(tuples))
            held.drop(key)
        if row is not None:
            held.put(key, row)
            for tuples in self._rows_with(held.name, key, row):
                changes.add(self._identity(tuples), self._shown(tuples))

    # --- the join ------------------------------------------------------------------------------

    def _rows_with(self, table: str, key: ComparedKey, row: HeldRow) -> Iterator[_Tuples]:
        """The rows of the join that have this tuple in them."""
        route = self._routes[table]
        pending: list[_Tuples] = [{table: (key, row)}]
        while pending:
            tuples = pending.pop()
            if len(tuples) == len(self._held):
                yield tuples
                continue
            near = self._held[route[len(tuples) - 1].table]
            pending += [
                {**tuples, near.name: (k, near.tuples[k])}
                for k in reversed(self._fitting(route[len(tuples) - 1], tuples))
            ]

    def _fitting(self, stop: "_Stop", tuples: _Tuples) -> list[ComparedKey]:
        """The keys of the next table's tuples that join all tuples found so far."""
        found: list[ComparedKey] | None = None
        for own, other, others in stop.links:
            values = self._held[other].values(others, tuples[other][1])
            near = [] if values is None else self._held[stop.table].find(own, values)
            if found is None:
                found = near
            else:
                both = set(near)
                found = [key for key in found if key in both]
        return found or []

    def _identity(self, tuples: _Tuples) -> _Identity:
        return tuple(tuples[table][0] for table in self._held)

    def _shown(self, tuples: _Tuples) -> ResultRow:
        return tuple(tuples[column.table][1][column.attribute] for column in self.select.columns)


_Step = Callable[["NetChanges"], None]  # what a message does


class NetChanges:
    """What several messages changed together: a row that went and came again isn't in it."""

    def __init__(self) -> None:
        self._added: dict[_Identity, ResultRow] = {}
        self._removed: dict[_Identity, ResultRow] = {}

    def add(self, identity: _Identity, row: ResultRow) -> None:
        if self._removed.get(identity) == row:
            del self._removed[identity]
        else:
            self._added[identity] = row

    def remove(self, identity: _Identity, row: ResultRow) -> None:
        if self._added.pop(identity, None) is None:
            self._removed[identity] = row

    def row_changes(self) -> RowChanges:
        return RowChanges(list(self._added.values()), list(self._removed.values()))


@dataclass(frozen=True, slots=True)
class _Stop:
    """A table on the way along the edges, and its links to the tables before it.

    A link is: attributes of this table, an earlier table, and the attributes of that table that equal them.
    """

    table: str
    links: tuple[tuple[tuple[str, ...], str, tuple[str, ...]], ...]


def _route(join: SelectJoin, start: str) -> list[_Stop]:
    """From one table along the edges to all the others."""
    reached, found = [start], []
    while len(reached) < len(join.sides):
        for table in join.tables:
            links = tuple(_links(join, table, reached)) if table not in reached else ()
            if links:
                found.append(_Stop(table, links))
                reached.append(table)
                break
        else:
            raise SchemaError(f"no edge leads from {', '.join(reached)} to the other tables")
    return found


def _links(
    join: SelectJoin, table: str, reached: Sequence[str]
) -> Iterator[tuple[tuple[str, ...], str, tuple[str, ...]]]:
    for edge in join.edges:
        left, right = zip(*edge.attributes, strict=True)
        if edge.left == table and edge.right in reached:
            yield left, edge.right, right
        elif edge.right == table and edge.left in reached:
            yield right, edge.left, left


def _joined_on(join: SelectJoin, table: str) -> set[tuple[str, ...]]:
    return {own for own, _, _ in _links(join, table, join.tables)}
