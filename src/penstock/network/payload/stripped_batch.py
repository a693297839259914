"""Events without their payloads: their columns have nulls there, and headers say what belongs into which rows.

    events     symbol  logo      headers   logo  id 5c…  rows 0, 2        contents   5c… ─▶ the bytes of one logo
               GOOG    NULL                logo  id a9…  rows 1                      a9… ─▶ of another, or left out
               ACME    NULL
               GOOG    NULL

To `PayloadNode` the batch is one event with all these payloads (`carried`): its events share their fate, like those of
a message. A content is an Arrow batch of one row without its schema, so every type comes back as it was, and equal
values are equal bytes.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from penstock.base.arrays import Int64s
from penstock.base.errors import PenstockError
from penstock.network.batch_bytes import read_plain
from penstock.network.broker_steps import ids_at
from penstock.network.payload.carried import CarriedEvent, PayloadHeader, payload_id

Rows = tuple[tuple[int, ...], ...]


class PayloadError(PenstockError):
    """A payload that isn't what its header says."""


@dataclass(frozen=True, eq=False, slots=True)
class StrippedBatch:
    """See the module. `rows` has the rows of each header of `carried`."""

    ids: bytes
    events: pa.RecordBatch
    rows: Rows
    carried: CarriedEvent

    @property
    def size(self) -> int:
        """About how many bytes a message with all contents that are here has."""
        contents = sum(map(len, self.carried.contents.values()))
        return int(self.events.nbytes) + len(self.ids) + contents

    def with_carried(self, carried: CarriedEvent) -> "StrippedBatch":
        """The same events, with other contents or sources."""
        return replace(self, carried=carried)

    def take(self, places: Int64s) -> "StrippedBatch":
        """The events in these rows, and their payloads."""
        if len(places) == len(self.events):
            return self
        new = {place: n for n, place in enumerate(places.tolist())}
        kept = {
            header: rows
            for header, before in zip(self.carried.headers, self.rows, strict=True)
            if (rows := tuple(new[row] for row in before if row in new))
        }
        wanted = {header.id for header in kept}
        contents = {id_: c for id_, c in self.carried.contents.items() if id_ in wanted}
        carried = CarriedEvent({}, tuple(kept), contents)
        events = self.events.take(pa.array(places))
        return StrippedBatch(ids_at(self.ids, places), events, tuple(kept.values()), carried)

    def whole(self) -> pa.RecordBatch:
        """The events with their payloads, all of which must be here. PayloadError if one isn't, or can't be read."""
        schema, contents = self.events.schema, self.carried.contents
        pieces: dict[str, list[pa.Array]] = defaultdict(list)
        which: dict[str, Int64s] = defaultdict(lambda: np.full(len(self.events), -1, np.int64))
        for header, rows in zip(self.carried.headers, self.rows, strict=True):
            if header.id not in contents:
                raise PayloadError(f"the payload {', '.join(header.attributes)} isn't here")
            row = read_content(contents[header.id], header.attributes, schema)
            for name, value in zip(header.attributes, row.columns, strict=True):
                which[name][list(rows)] = len(pieces[name])
                pieces[name].append(value)
        events = self.events
        for name, values in pieces.items():
            index = pa.array(which[name], mask=which[name] < 0)
            at = schema.get_field_index(name)
            events = events.set_column(at, schema.field(at), pa.concat_arrays(values).take(index))
        return events


def strip_payloads(
    ids: bytes, events: pa.RecordBatch, payloads: Sequence[Sequence[str]], publisher: str
) -> StrippedBatch:
    """Take the payloads out of events. Where all attributes of a group are null, there is no payload.

    >>> events = pa.RecordBatch.from_pylist([{"n": 1, "logo": "…"}, {"n": 2, "logo": None}, {"n": 3, "logo": "…"}])
    >>> stripped = strip_payloads(bytes(48), events, [["logo"]], "b1")
    >>> stripped.events.column("logo").null_count, stripped.rows, stripped.whole() == events
    (3, ((0, 2),), True)
    """
    found: dict[PayloadHeader, list[int]] = {}
    contents: dict[bytes, bytes] = {}
    body = events
    for group in payloads:
        columns = events.select(list(group))
        is_there = np.zeros(len(events), bool)
        for column in columns.columns:
            is_there |= column.is_valid().to_numpy(zero_copy_only=False)
        for row in np.flatnonzero(is_there).tolist():
            # `take`, because a slice keeps bits of its neighbours: the bytes of equal values would differ.
            content = bytes(columns.take(pa.array([row])).serialize())
            id_ = payload_id(content)
            contents[id_] = content
            found.setdefault(PayloadHeader(tuple(group), id_, publisher, publisher), []).append(row)
        for name in group:
            at = events.schema.get_field_index(name)
            field = events.schema.field(at)
            body = body.set_column(at, field, pa.nulls(len(events), field.type))
    carried = CarriedEvent({}, tuple(found), contents)
    return StrippedBatch(ids, body, tuple(map(tuple, found.values())), carried)


def read_content(content: bytes, attributes: Sequence[str], schema: pa.Schema) -> pa.RecordBatch:
    """A row with a payload's attributes. PayloadError if it can't be read."""
    try:
        named = pa.schema([schema.field(name) for name in attributes])
        row = read_plain(pa.py_buffer(content), named)
    except (pa.ArrowException, OSError, EOFError, ValueError, KeyError) as error:
        raise PayloadError(f"no payload {', '.join(attributes)}: {error}") from None
    if len(row) != 1:
        raise PayloadError(f"a payload of {len(row)} rows")
    return row


def check_batch(batch: StrippedBatch) -> None:
    """PayloadError if headers, rows and contents that came over a link don't fit the events."""
    headers, contents = batch.carried.headers, batch.carried.contents
    if len(headers) != len(batch.rows):
        raise PayloadError(f"{len(headers)} payloads with the rows of {len(batch.rows)}")
    for header, rows in zip(headers, batch.rows, strict=True):
        lacking = set(header.attributes) - set(batch.events.schema.names)
        if lacking or len(set(header.attributes)) < len(header.attributes):
            raise PayloadError(f"a payload of the attributes {', '.join(header.attributes)}")
        if not rows or min(rows) < 0 or max(rows) >= len(batch.events):
            raise PayloadError("a payload of rows that aren't there")
        if header.id in contents:
            read_content(contents[header.id], header.attributes, batch.events.schema)
