"""Messages of select-joins as flat events that a network routes by their content (joins §3.2, in the content-based
network of joins §2.1).

A message leaves its process with everything that a stateless filter needs, as *values*: no coordinate of an `Axis`, no
place, no number of a subscription. `routed_filters` makes the filters.

    attribute                  of forms             what it says
    edge                       all                  the form of semijoin: tables, join attributes, selection attributes
    form                       all                  twice the form of `messages`, and 1 more if something is removed
    table                      all                  the base table R
    R.a, R.b …                 all                  the tuple; of one that is removed its key and selection attribute,
                                                    of those that are dropped the join attributes
    S.c:x1, S.c:y1 … y4        BASE                 points of the skyline
    R.a:x1, R.a:y1 … y4        DROPPED              the same, of the base table's selection attribute
    S.c:at, S.c:below, :above  EXPOSED, DROPPED     the value of the tuple that came or went, and its neighbours'

NULL in `below` and `above` means that there is no neighbour, or that it is NULL: no range of a subscription tells these
apart. A message with more than `SLOTS` points becomes several, each with the same content: a subscriber that reads two
of them applies it twice, which changes nothing. joins §3.2.1 has as many attributes as points, but then a filter would
have to know how many.

A value that is a text may differ from the tuple's own: it is the least that no subscription of the sender tells apart
from it.

A message may instead be *addressed* to one subscription (`to`): so are the first tuples of a newcomer, and `ViewReset`.

The publisher of messages in a network gives them its name as `publisher`, and a `version` (`versioned_view`). Publisher
and subscribers talk to each other the same way, in attributes of their own (`network.tables.table_events`).
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from penstock.base.errors import SchemaError
from penstock.joins.axes import Axis
from penstock.joins.catalog import PAYLOAD, Catalog
from penstock.joins.messages import (
    ADDED,
    BASE,
    DROPPED,
    EXPOSED,
    REMOVED,
    Message,
    Messages,
    TupleAdded,
    TupleRemoved,
    TuplesDropped,
    ViewReset,
)
from penstock.joins.notifications import Notifications
from penstock.joins.semijoin_scheme import SemijoinSender
from penstock.joins.semijoins import Form
from penstock.joins.table_state import TableState
from penstock.language.key_values import key_value
from penstock.language.schema import Schema
from penstock.language.types import Kind, Scalar, Struct, Type

RoutedMessage = dict[str, Any]
"""A message as a flat event. Attributes that it doesn't have are NULL."""

SLOTS = 4
"""The most points of one event: most messages have one or two."""
RESET = 16
"""The form of a `ViewReset`."""
_AT, _BELOW, _ABOVE = "at", "below", "above"


def edge_name(form: Form) -> str:
    """The `edge` of messages of a form of semijoins, the same in every process."""
    joined = f"{form.base} by {form.base_attribute or ''}"
    return (
        joined if form.edge is None else f"{joined}, {form.edge} by {form.filter_attribute or ''}"
    )


def form_code(form: int, kind: int) -> int:
    """The `form` of a message that adds or removes something."""
    return 2 * form + (kind == REMOVED)


def column_name(table: str, column: str) -> str:
    """The attribute for a column of a tuple."""
    return f"{table}.{column}"


def point_names(table: str, column: str, slot: int) -> tuple[str, str]:
    """The attributes for x and y of a point."""
    name = column_name(table, column)
    return f"{name}:x{slot + 1}", f"{name}:y{slot + 1}"


def neighbour_names(table: str, column: str) -> tuple[str, str, str]:
    """The attributes for a changed tuple's value, and for those of its neighbours below and above."""
    name = column_name(table, column)
    return f"{name}:{_AT}", f"{name}:{_BELOW}", f"{name}:{_ABOVE}"


def routed_schema(catalog: Catalog) -> Schema:
    """The attributes of all messages about a catalogue's tables.

    >>> from penstock.joins.catalog import Table
    >>> schema = routed_schema(Catalog.of({"A": Table({"k": "int", "s": "string"}, key="k")}))
    >>> [name for name, _ in schema.root.fields][3:11], schema.find(("A.s:x2",)).type.kind
    (['to', 'publisher', 'version', 'asked', 'count', 'text', 'A.k', 'A.k:x1'], <Kind.STRING: 'string'>)
    """
    text, number = Scalar(Kind.STRING), Scalar(Kind.INTEGER)
    fields: list[tuple[str, Type]] = [
        ("edge", text),
        ("form", number),
        ("table", text),
        ("to", number),
        ("publisher", text),
        ("version", number),
        ("asked", number),
        ("count", number),
        ("text", text),
    ]
    for table, its in catalog.tables.items():
        for column, type_ in its.schema.root.fields:
            fields.append((column_name(table, column), type_))
            if isinstance(type_, Scalar):
                pairs = [point_names(table, column, slot) for slot in range(SLOTS)]
                fields += [(name, type_) for pair in pairs for name in pair]
                fields += [(name, type_) for name in neighbour_names(table, column)]
    return Schema(Struct(tuple(fields)))


# --- out of a process ---------------------------------------------------------------------------


def routed_messages(notified: Notifications) -> list[RoutedMessage]:
    """The messages of some changes, in the order in which subscribers apply them.

    Change by change, first what is removed, then what is added, last what is dropped.
    """
    found: list[tuple[tuple[int, int], RoutedMessage]] = []
    for part in notified.parts:
        messages, sender = part.messages, part.sender
        if not isinstance(sender, SemijoinSender):
            raise SchemaError("only messages of semijoins can be routed by their content")
        phase = np.where(messages.form == DROPPED, 2, messages.kind == ADDED)
        turns = list(zip(messages.change.tolist(), phase.tolist(), strict=True))
        described = _Described(sender)
        found += [(turns[at], event) for at, event in described.events(messages)]
    found.sort(key=lambda pair: pair[0])
    return [event for _, event in found]


class _Described:
    """Makes events of the flat messages of one sender, and looks each value up once."""

    def __init__(self, sender: SemijoinSender) -> None:
        group = sender.group
        self._sender = sender
        self._form = group.form
        self._base = _Selection(group.base, group.form.base_attribute)
        self._filtering = _Selection(group.filtering, group.form.filter_attribute)

    def events(self, messages: Messages) -> Iterator[tuple[int, RoutedMessage]]:
        """Each message as one event or several, with its place among the messages."""
        edge, table = edge_name(self._form), self._form.base
        contents = self._sender.contents(messages).to_pylist()
        forms, kinds, places = (
            messages.form.tolist(),
            messages.kind.tolist(),
            messages.tuples.tolist(),
        )
        for at, (form, kind, place) in enumerate(zip(forms, kinds, places, strict=True)):
            event: RoutedMessage = {"edge": edge, "form": form_code(form, kind), "table": table}
            event |= self._content(form, kind, place, contents[at])
            if form in (EXPOSED, DROPPED):
                names = self._filtering.neighbours
                near = (int(messages.c[at]), int(messages.below[at]), int(messages.above[at]))
                event |= zip(names, map(self._filtering.value, near), strict=bool(names))
            first, past = messages.start[at : at + 2].tolist()
            points = self._filtering if form == BASE else self._base
            x, y = messages.x[first:past].tolist(), messages.y[first:past].tolist()
            for slots in points.slots(x, y):
                yield at, event | slots

    def _content(self, form: int, kind: int, place: int, row: dict[str, Any]) -> RoutedMessage:
        table = self._form.base
        if kind == ADDED:
            kept = dict(row)
        elif form == DROPPED:
            kept = {name: row[name] for name in self._sender.join_attributes}
        else:
            kept = {name: row[name] for name in self._base.table_key}
            kept |= self._base.selected(place)
        return {column_name(table, name): value for name, value in kept.items()}


class _Selection:
    """The selection attribute of a table in a form of semijoins; there may be none."""

    def __init__(self, state: TableState | None, attribute: str | None) -> None:
        self._state, self._attribute = state, attribute
        self._axis: Axis | None = None
        self._values: dict[int, Any] = {}
        self.neighbours: tuple[str, ...] = ()
        self._points: list[tuple[str, str]] = []
        if state is not None and attribute is not None:
            self._axis = state.axis(attribute)
            type_ = state.table.type(attribute)
            assert isinstance(type_, Scalar)
            self._type = type_
            self.neighbours = neighbour_names(state.name, attribute)
            self._points = [point_names(state.name, attribute, slot) for slot in range(SLOTS)]

    @property
    def table_key(self) -> tuple[str, ...]:
        assert self._state is not None
        return self._state.table.key

    def selected(self, place: int) -> dict[str, Any]:
        """The selection attribute of a tuple, with its value."""
        if self._state is None or self._attribute is None:
            return {}
        row = self._state.rows[place]
        assert row is not None
        return {self._attribute: row[self._state.table.columns.index(self._attribute)]}

    def value(self, coordinate: int) -> Any:
        """A value that a coordinate stands for."""
        if coordinate not in self._values and self._axis is not None:
            key = self._axis.key_of(coordinate)
            self._values[coordinate] = None if key is None else key_value(key, self._type)
        return self._values.get(coordinate)

    def slots(self, x: list[int], y: list[int]) -> Iterator[RoutedMessage]:
        """Points as attributes, at most `SLOTS` at a time; no attributes if there is no selection attribute."""
        if not self._points or not x:
            yield {}
            return
        for first in range(0, len(x), SLOTS):
            few: RoutedMessage = {}
            pairs = zip(x[first : first + SLOTS], y[first : first + SLOTS], strict=True)
            for (x_name, y_name), (one, other) in zip(self._points, pairs, strict=False):
                few[x_name], few[y_name] = self.value(one), self.value(other)
            yield few


def address_messages(messages: Iterable[Message], to: int, catalog: Catalog) -> list[RoutedMessage]:
    """Messages for one subscription alone, whatever they say.

    >>> from penstock.joins.catalog import Table
    >>> catalog = Catalog.of({"A": Table({"k": "int", "x": "int"}, key="k")})
    >>> address_messages([ViewReset(), TupleRemoved("A", (7,))], 5, catalog)
    [{'to': 5, 'form': 16}, {'to': 5, 'form': 1, 'table': 'A', 'A.k': 7}]
    """
    return [{"to": to, **_plain(message, catalog)} for message in messages]


def _plain(message: Message, catalog: Catalog) -> RoutedMessage:
    match message:
        case TupleAdded(table, row):
            columns: Mapping[str, Any] = row
            code = form_code(BASE, ADDED)
        case TupleRemoved(table, key):
            columns = dict(zip(catalog.tables[table].key, key, strict=True))
            code = form_code(BASE, REMOVED)
        case TuplesDropped(table, attributes, values):
            columns = dict(zip(attributes, values, strict=True))
            code = form_code(DROPPED, REMOVED)
        case ViewReset():
            return {"form": RESET}
    named = {column_name(table, name): value for name, value in columns.items()}
    return {"form": code, "table": table, **named}


def payload_attributes(event: RoutedMessage, catalog: Catalog) -> list[str]:
    """The payload of a message, for its publisher: the attributes that the catalogue declares as payload.

    >>> from penstock.joins.catalog import Table
    >>> catalog = Catalog.of({"A": Table({"k": "int", "x": "int", "body": "string"}, "k", payload="body")})
    >>> told = {"form": 0, "table": "A.payload", "A.payload.k": 7, "A.payload.body": "long"}
    >>> payload_attributes(told, catalog)
    ['A.payload.body']
    """
    table = event.get("table", "")
    if not table.endswith(PAYLOAD) or event["form"] % 2 != ADDED:
        return []
    its = catalog.tables[table]
    return [column_name(table, name) for name in its.columns if name not in its.key]


# --- into another -------------------------------------------------------------------------------


def read_routed(event: Mapping[str, Any], catalog: Catalog) -> Message:
    """The message that an event is. SchemaError if it isn't a message about these tables.

    >>> from penstock.joins.catalog import Table
    >>> catalog = Catalog.of({"A": Table({"k": "int", "x": "int"}, key="k")})
    >>> read_routed({"form": 1, "table": "A", "A.k": 7, "A.x": 3, "edge": "A by x"}, catalog)
    TupleRemoved(table='A', key=(7,))
    """
    form, name = event.get("form"), event.get("table")
    if form == RESET:
        return ViewReset()
    if not isinstance(form, int) or not isinstance(name, str) or name not in catalog.tables:
        raise SchemaError(
            f"no message about these tables: form {form!r}, table {name!r}; "
            f"there are {', '.join(catalog.tables)}"
        )
    table, kind = catalog.tables[name], form % 2
    names = {column: column_name(name, column) for column in table.columns}
    if kind == ADDED:
        return TupleAdded(name, {column: event.get(at) for column, at in names.items()})
    if form // 2 == DROPPED:
        # Nothing joins on NULL, so attributes that are NULL aren't among those that were sent.
        said = tuple(column for column, at in names.items() if event.get(at) is not None)
        return TuplesDropped(name, said, tuple(event[names[column]] for column in said))
    return TupleRemoved(name, tuple(event.get(names[column]) for column in table.key))
