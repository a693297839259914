"""A select-join as stateless filters over messages (joins §3.2): with the ordinary engines, an oracle for readers.

Messages of a group become events; one with several points becomes one event for each, and who matches one of them reads
the message. Containment needs no new kind of predicate:

    [x, y] ⊆ range     x >= where it begins  AND  y <= where it ends
    range ⊆ (below, above)     below < where it begins  AND  above > where it ends

    event     message.form, .a, .x, .y, .c, .below, .above       the description
              at.PER …                                           coordinates of the base table's attributes with ranges
              Symbol, PER, …                                     the tuple itself: residuals are about it

A subscription is one filter, a conjunction for each form of message.
"""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from penstock.base.arrays import Int64s
from penstock.base.errors import SchemaError
from penstock.joins.axes import NULL
from penstock.joins.conditions import TableCondition
from penstock.joins.messages import BASE, DROPPED, EXPOSED, SELECTED, Messages
from penstock.joins.semijoin_scheme import SemijoinScheme
from penstock.joins.semijoins import Semijoins
from penstock.language.schema import Schema
from penstock.language.types import Kind, Scalar, Struct
from penstock.matching.compile import compile_plan
from penstock.matching.matcher import Matcher
from penstock.matching.subscription_rows import FOREVER, Rows

_DESCRIPTION = ("form", "a", "x", "y", "c", "below", "above")


def message_schema(group: Semijoins) -> Schema:
    """The attributes of a group's messages."""
    taken = {"message", "at"} & {name.lower() for name in group.base.table.columns}
    if taken:
        raise SchemaError(
            f"table {group.base.name} has an attribute {min(taken)!r}, a name that messages use themselves: rename it"
        )
    number = Scalar(Kind.INTEGER)
    description = Struct(tuple((name, number) for name in _DESCRIPTION))
    at = Struct(tuple((name, number) for name in sorted(group.base.axes)))
    return Schema(
        Struct((("message", description), ("at", at), *group.base.table.schema.root.fields))
    )


def filter_text(
    corner: Int64s, condition: TableCondition | None = None, residual: str = "TRUE"
) -> str:
    """The filter of a subscription with this rectangle, and these other conditions on the base table.

    >>> base, exposed, dropped, selected = filter_text(np.array([45, 70, 6, 10])).split(" OR ")
    >>> base
    '(message.form = 0 AND message.a BETWEEN 45 AND 70 AND message.x >= 6 AND message.y <= 10)'
    >>> exposed[54:]
    'message.c BETWEEN 6 AND 10 AND message.below < 6 AND message.above > 10)'
    """
    a, b, c, d = corner.tolist()
    selected = [f"message.a BETWEEN {a} AND {b}"]
    only = f"message.c BETWEEN {c} AND {d} AND message.below < {c} AND message.above > {d}"
    if condition is not None:
        selected += [
            f'at."{name}" BETWEEN {low} AND {high}' for name, (low, high) in condition.ranges
        ]
        if condition.residual is not None:
            selected.append(f"({residual})")
    forms = {
        BASE: [*selected, f"message.x >= {c}", f"message.y <= {d}"],
        EXPOSED: [*selected, only],
        DROPPED: [f"message.x >= {a}", f"message.y <= {b}", only],
        SELECTED: selected,
    }
    return " OR ".join(
        f"(message.form = {form} AND {' AND '.join(tests)})" for form, tests in forms.items()
    )


def filters_of(scheme: SemijoinScheme, group: Semijoins) -> dict[int, str]:
    """The subscriptions of a group as stateless filters over its messages."""
    found, table, rectangles = {}, group.form.base, group.rectangles
    for number in np.flatnonzero(rectangles.chains.rectangle >= 0).tolist():
        condition = scheme._conditions.get((number, table))
        residual = "TRUE"
        if condition is not None and condition.residual is not None:
            residual = scheme._residuals[table]._texts[condition.residual]
        found[number] = filter_text(
            rectangles.tree.corners[rectangles.chains.rectangle[number]], condition, residual
        )
    return found


def compile_filters(group: Semijoins, texts: Mapping[int, str], engine: str = "auto") -> Matcher:
    """An ordinary matcher for the messages of a group. Texts are by the subscriptions' numbers."""
    rows = Rows.of([(number, "", text, FOREVER) for number, text in sorted(texts.items())])
    plan, errors = compile_plan(rows, message_schema(group))
    if errors:
        raise errors[0][1]
    return Matcher(plan, engine=engine)


def message_events(group: Semijoins, messages: Messages) -> tuple[pa.RecordBatch, Int64s]:
    """Messages as events, and which message each event belongs to."""
    points = np.maximum(messages.points(), 1)
    owner = np.repeat(np.arange(len(messages)), points)
    has_points = np.isin(messages.form, (BASE, DROPPED))[owner]
    description = {
        name: getattr(messages, name)[owner] for name in ("form", "a", "c", "below", "above")
    }
    for name in ("x", "y"):
        column = np.zeros(len(owner), np.int64)
        column[has_points] = getattr(messages, name)[: messages.start[-1]]
        description[name] = column
    has_tuple = (messages.form != DROPPED)[owner]
    places = messages.tuples[owner]
    names = sorted(group.base.axes)
    at = [
        pa.array(
            np.where(has_tuple, group.base.coordinates(n, np.where(has_tuple, places, 0)), NULL)
        )
        for n in names
    ]
    schema = message_schema(group).to_arrow()
    rows = [
        group.base.rows[p] if t else None
        for p, t in zip(places.tolist(), has_tuple.tolist(), strict=True)
    ]
    columns = [
        pa.array([None if row is None else row[n] for row in rows], schema.field(name).type)
        for n, name in enumerate(group.base.table.columns)
    ]
    structs = [
        pa.StructArray.from_arrays(
            [pa.array(description[n].astype(np.int64)) for n in _DESCRIPTION], list(_DESCRIPTION)
        ),
        pa.StructArray.from_arrays(at, names)
        if names
        else pa.array([{}] * len(owner), pa.struct([])),
    ]
    return pa.RecordBatch.from_arrays([*structs, *columns], schema=schema), owner


def read_by(matcher: Matcher, group: Semijoins, messages: Messages) -> set[tuple[int, int]]:
    """Who reads which message, as the matcher says: message and number of the subscription."""
    events, owner = message_events(group, messages)
    found = matcher.match_batch(events)
    which = np.repeat(owner, np.diff(found.offsets.to_numpy()))
    return set(zip(which.tolist(), found.values.to_pylist(), strict=True))
