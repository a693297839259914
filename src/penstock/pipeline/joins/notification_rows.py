"""The rows of notifications: one for each message, with the subscriptions that it is for.

    notification_id   the same in a replay
    position          in which order the messages of a micro-batch are applied
    table, change     added: hold this tuple; removed: forget the tuple with this key; dropped: forget all tuples that
                      join on these values; reset: forget everything, of all tables
    attributes        the attributes whose values a removed or dropped message has
    tuple             a struct with a field for each table; all but that of the message's table are NULL
    description       by this, stateless filters see whom the message is for (`joins.messages`)
    subscriptions     whom it is for, and in `subscribers` their names; exploded: `subscription`, `subscriber`, one row
                      for each

A reset has neither table, tuple nor description. It is the first message to every subscription that is new in a
version. The subscription may have been there before: if a wrong clock ended its lease, deletions meanwhile weren't
sent.

Within a micro-batch changes are applied table by table in the catalogue's order, in all buckets alike. So a tuple that
leaves one bucket and enters another is removed before it is added again, wherever the two buckets are worked on.

The rows and their order follow from the version of the subscriptions, the state and the changes. So a process that
replays a micro-batch makes the same rows, whatever it has done before.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from penstock.base.arrays import Int64s
from penstock.base.jit import kernel
from penstock.delivery.notification_shape import ID, MESSAGE, POSITION, READER, READERS
from penstock.joins.catalog import Catalog
from penstock.joins.messages import (
    ADDED_CHANGE,
    DROPPED,
    DROPPED_CHANGE,
    EXPOSED,
    REMOVED_CHANGE,
    RESET_CHANGE,
    Message,
    Messages,
    read_message,
)
from penstock.joins.notifications import Notifications
from penstock.joins.readers import Readers
from penstock.joins.semijoin_scheme import SemijoinSender
from penstock.joins.table_state import TableState
from penstock.pipeline.reader_names import ReaderNames

_FORMS = ["base", "exposed", "dropped", "selected"]  # as `joins.messages` numbers them
_TABLE_BITS, _TURN_BITS = 48, 2
_ALL = (1 << 64) - 1
_FIRST = -(1 << 62)  # the first content of a new subscription comes before all changes
_RESET = _FIRST - 1

_POINT = pa.struct([("x", pa.int64()), ("y", pa.int64())])
_DESCRIPTION = pa.struct(
    [
        ("form", pa.string()),
        *[(name, pa.int64()) for name in ("a", "c", "below", "above")],
        ("points", pa.list_(_POINT)),
    ]
)


def tuple_type(catalog: Catalog) -> pa.StructType:
    """A struct with a field for each table of the catalogue."""
    return pa.struct(
        [(name, pa.struct(list(table.schema.to_arrow()))) for name, table in catalog.tables.items()]
    )


def notification_schema(catalog: Catalog, explode: bool = False) -> pa.Schema:
    """The columns of notifications."""
    types = pa.int64(), pa.string()
    readers = (
        zip(READER, types, strict=True)
        if explode
        else zip(READERS, map(pa.list_, types), strict=True)
    )
    return pa.schema(
        [
            pa.field(ID, pa.string()),
            pa.field(POSITION, pa.int64()),
            *message_fields(catalog),
            *[pa.field(name, type_) for name, type_ in readers],
        ]
    )


def message_fields(catalog: Catalog) -> list[pa.Field]:
    """The columns that say what a subscriber is told."""
    return [
        pa.field("table", pa.string()),
        pa.field("change", pa.string()),
        pa.field("attributes", pa.list_(pa.string())),
        pa.field("tuple", tuple_type(catalog)),
        pa.field("description", _DESCRIPTION),
    ]


def _unnamed_schema(catalog: Catalog) -> pa.Schema:
    """The columns of notifications before the names of subscribers are known."""
    return pa.schema(list(notification_schema(catalog))[:-1])


def with_subscribers(rows: pa.RecordBatch, names: ReaderNames) -> pa.RecordBatch:
    """Rows with the names of their subscribers added."""
    return rows.append_column(READERS[1], names.lists(rows.column(READERS[0])))


def spark_schema(catalog: Catalog, explode: bool = False) -> StructType:
    """The columns of notifications, as Spark has them."""
    return from_arrow_schema(notification_schema(catalog, explode))


def positions_of(tables: Sequence[int], sequences: Sequence[Int64s]) -> Int64s:
    """The positions of changes: by the table's place in the catalogue, then by their sequence."""
    parts = [
        (np.int64(t) << _TABLE_BITS) | (s << _TURN_BITS)
        for t, s in zip(tables, sequences, strict=True)
    ]
    return np.concatenate([*parts, np.empty(0, np.int64)]).astype(np.int64)


def message_rows(
    notifications: Notifications, positions: Int64s | None, catalog: Catalog, name: str
) -> pa.RecordBatch | None:
    """The messages that somebody reads, as rows; None if there are none. Without positions they are first content."""
    found = []
    for part, read in _in_order(notifications):
        ids = notifications.ids[read.numbers]
        if len(ids) and ids.min() < 0:  # some subscriptions are gone
            read, ids = read.keep(ids >= 0), ids[ids >= 0]
        sent = np.flatnonzero(read.counts())
        if not len(sent):
            continue
        starts, ends = read.start[sent], np.append(read.start[sent], len(ids))
        _sort_each(ids, ends)
        messages = part.messages.take(sent)
        if positions is None:
            at = np.full(len(sent), _FIRST)
        else:
            at = positions[messages.change] + _turns(messages)
        rows = part.sender.contents(messages)
        arrays = [
            pa.array(_names(name, messages, at, ids[starts], rows, part.sender.base), pa.string()),
            pa.array(at, pa.int64()),
            *_contents(messages, rows, part.sender, catalog),
            _descriptions(part.sender.outside(messages)),
            pa.ListArray.from_arrays(pa.array(ends.astype(np.int32)), pa.array(ids)),
        ]
        rows = pa.RecordBatch.from_arrays(arrays, schema=_unnamed_schema(catalog))
        found.append(_without_ties(rows) if (messages.form == EXPOSED).any() else rows)
    return pa.concat_batches(found) if found else None


def resets(ids: Iterable[int], catalog: Catalog, name: str) -> pa.RecordBatch | None:
    """One row that tells some subscriptions to forget everything. None if there are none."""
    readers = sorted(ids)
    if not readers:
        return None
    row = {
        "notification_id": f"{name}-{_RESET & _ALL:x}-{readers[0]}",
        "position": _RESET,
        "change": RESET_CHANGE,
        "subscriptions": readers,
    }
    return pa.RecordBatch.from_pylist([row], schema=_unnamed_schema(catalog))


def _in_order(notifications: Notifications) -> list[tuple["_SemijoinPart", Readers]]:
    """The parts and their readers, ordered by group."""
    found: list[tuple[_SemijoinPart, Readers]] = []
    for part, read in zip(notifications.parts, notifications.readers(), strict=True):
        if not isinstance(part.sender, SemijoinSender):
            raise TypeError("only messages of semijoins are sent on Spark")
        found.append((_SemijoinPart(part.messages, part.sender), read))
    return sorted(found, key=lambda pair: pair[0].sender.group.form.place)


class _SemijoinPart(NamedTuple):
    messages: Messages
    sender: SemijoinSender


def _without_ties(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Rows sorted by position, then by id: tuples that one change exposes have one position, and come in any order."""
    keys = [("position", "ascending"), ("notification_id", "ascending")]
    order = pc.sort_indices(rows.select(["position", "notification_id"]), sort_keys=keys)
    return rows.take(order)


def _names(
    name: str, messages: Messages, at: Int64s, first: Int64s, rows: pa.RecordBatch, base: TableState
) -> list[str]:
    """The ids of messages, made of position and first reader, so that they are the same in every process.

    Equal messages of one change are for different groups of subscriptions, so their readers differ. But one change may
    expose many tuples, and first content has no positions: in these ids the tuple's key is needed, too.
    """
    found = [
        f"{name}-{position & _ALL:x}-{reader}"
        for position, reader in zip(at.tolist(), first.tolist(), strict=True)
    ]
    alike = np.flatnonzero((messages.form == EXPOSED) | (at == _FIRST))
    keys = [rows.column(k).take(pa.array(alike)).to_pylist() for k in base.table.key]
    for n, *key in zip(alike.tolist(), *keys, strict=True):
        content = hashlib.blake2b(repr((base.name, key)).encode(), digest_size=8).hexdigest()
        found[n] = f"{found[n]}-{content}"
    return found


@kernel
def _sort_each(values: Int64s, ends: Int64s) -> None:
    """Sort stretches of values: each from one end to the next. Most are sorted already."""
    for n in range(len(ends) - 1):
        for i in range(ends[n] + 1, ends[n + 1]):
            if values[i - 1] > values[i]:
                values[ends[n] : ends[n + 1]] = np.sort(values[ends[n] : ends[n + 1]])
                break


def _turns(messages: Messages) -> Int64s:
    """Within a change: first what is removed, then what is added, last what is dropped."""
    return np.where(messages.form == DROPPED, 2, messages.kind == 0).astype(np.int64)


def _contents(
    messages: Messages, rows: pa.RecordBatch, sender: SemijoinSender, catalog: Catalog
) -> list[pa.Array]:
    """Table, change, attributes and tuple of each message."""
    base, count = sender.base, len(messages)
    kinds = pa.array(np.where(messages.form == DROPPED, 2, messages.kind))
    of_tables = tuple_type(catalog)
    names = list(catalog.tables[base.name].columns)
    own = of_tables.field(base.name)
    fields = [
        pa.StructArray.from_arrays([rows.column(n) for n in names], fields=list(own.type))
        if field.name == base.name
        else pa.nulls(count, field.type)
        for field in of_tables
    ]
    attributes = [None, list(catalog.tables[base.name].key), sender.join_attributes]
    return [
        pa.repeat(pa.scalar(base.name, pa.string()), count),
        pa.array([ADDED_CHANGE, REMOVED_CHANGE, DROPPED_CHANGE]).take(kinds),
        pa.array(attributes, pa.list_(pa.string())).take(kinds),
        pa.StructArray.from_arrays(fields, fields=list(of_tables)),
    ]


def _descriptions(messages: Messages) -> pa.Array:
    points = pa.StructArray.from_arrays(
        [pa.array(messages.x), pa.array(messages.y)], fields=list(_POINT)
    )
    forms = pa.array(_FORMS).take(pa.array(messages.form))
    numbers = [pa.array(getattr(messages, name)) for name in ("a", "c", "below", "above")]
    lists = pa.ListArray.from_arrays(pa.array(messages.start.astype(np.int32)), points)
    return pa.StructArray.from_arrays([forms, *numbers, lists], fields=list(_DESCRIPTION))


def explode_notifications(rows: pa.RecordBatch) -> pa.RecordBatch:
    """One row for each message and subscription."""
    ids, names = (rows.column(name) for name in READERS)
    where = np.repeat(np.arange(rows.num_rows), np.diff(ids.offsets.to_numpy()))
    columns = [rows.column(n).take(pa.array(where)) for n in range(rows.num_columns - 2)]
    single = ids.flatten()
    columns[0] = pc.binary_join_element_wise(columns[0], single.cast(pa.string()), "-")
    return pa.RecordBatch.from_arrays(
        [*columns, single, names.flatten()], names=[*rows.schema.names[:-2], *READER]
    )


def messages_of(rows: Iterable[Mapping[str, Any]]) -> list[Message]:
    """The messages of one micro-batch, in the order in which a `JoinView` applies them.

    `rows` are notifications as dicts, of a pipeline or of `match_joins`: Arrow's `to_pylist`, or Spark's
    `Row.asDict(recursive=True)`. Rows of a feed have no position: they are in order, and may be of many micro-batches.

    >>> told = {"table": "A", "change": "removed", "attributes": ["k"], "tuple": {"A": {"k": 1, "x": None}}}
    >>> messages_of([{"position": 0, "message": told}])
    [TupleRemoved(table='A', key=(1,))]
    """
    return [
        read_message(row.get(MESSAGE) or row)
        for row in sorted(rows, key=lambda row: row.get(POSITION, 0))
    ]
