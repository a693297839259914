"""How many bytes messages have: joins §6 measures in bytes, and doesn't say how it counts them.

Here a number counts as 4 bytes (so a point as 8), a string or a payload as many as it has.
"""

from collections.abc import Sequence
from typing import cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.baselines.joins.results import JOINED, ResultSender
from penstock.base.arrays import Int8s, Int64s
from penstock.joins.messages import ADDED, DROPPED, EXPOSED, Messages
from penstock.joins.notifications import Part
from penstock.joins.semijoin_scheme import SemijoinSender
from penstock.joins.table_state import TableState

NUMBER = 4


def description_bytes(messages: Messages) -> Int64s:
    """The size of each message's description. That of a row of a join is its contents."""
    numbers = np.array([1, 4, 3, 1, 0], np.int64)[messages.form]
    a_point = 2
    if messages.x.ndim > 1:  # an envelope
        a_point = messages.x.shape[1]
        numbers = 1 + np.where(messages.form == EXPOSED, a_point, 0)
    return (numbers + a_point * messages.points()) * NUMBER


def content_bytes(part: Part) -> Int64s:
    """Of what is added all bytes, of what is removed those of its key, of what is dropped the join attributes."""
    messages = part.messages
    if (messages.form == JOINED).any():
        states = cast(ResultSender, part.sender).group.states
        return sum(
            (_bytes_of(s, messages.kind, messages.tuples[:, n]) for n, s in enumerate(states)),
            np.zeros(len(messages), np.int64),
        )
    sender = cast(SemijoinSender, part.sender)
    sizes = np.full(len(messages), NUMBER * len(sender.join_attributes), np.int64)
    whole = messages.form != DROPPED
    sizes[whole] = _bytes_of(sender.base, messages.kind[whole], messages.tuples[whole])
    return sizes


def _bytes_of(state: TableState, kind: Int8s, places: Int64s) -> Int64s:
    is_added = kind == ADDED
    sizes = np.zeros(len(places), np.int64)
    sizes[is_added] = tuple_bytes(state, places[is_added], state.table.columns)
    sizes[~is_added] = tuple_bytes(state, places[~is_added], state.table.key)
    return sizes


def mean_bytes(state: TableState) -> float:
    """The mean size of a table's tuples, which must not be empty."""
    return float(tuple_bytes(state, state.places(), state.table.columns).mean())


def tuple_bytes(state: TableState, places: Int64s, columns: Sequence[str]) -> Int64s:
    """The bytes that tuples have in some columns."""
    distinct, which = np.unique(places, return_inverse=True)
    rows = [state.rows[place] for place in distinct.tolist()]
    schema = state.table.schema.to_arrow()
    sizes = np.zeros(len(distinct), np.int64)
    for name in columns:
        n, type_ = schema.names.index(name), schema.field(name).type
        if pa.types.is_string(type_) or pa.types.is_binary(type_):
            column = pa.array([None if row is None else row[n] for row in rows], type_)
            sizes += pc.fill_null(pc.binary_length(column), 0).to_numpy().astype(np.int64)
        else:
            sizes += NUMBER
    return sizes[which]
