"""Compares a load with the registry: which of its rows are new, which have changed, which are the same.

A row is recognised by its id or, if the load has external ids, by its external id. A row whose subscription has ended
counts as new.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.base.arrays import Bools, Int64s, distinct
from penstock.registry.bad_rows import BadRow
from penstock.registry.details import External, read_details, read_externals
from penstock.registry.incoming import Incoming
from penstock.registry.records import NO_DETAILS, Details
from penstock.registry.turns import Turn


class Before(NamedTuple):
    """What the registry has before a load: the subscriptions of its rows, and the external ids of its source.

    `ids` are 0 where the registry is to assign one. `place` is the position of a row's live subscription in `rows`,
    which has all columns of the table; -1 if there is none. `is_dead`: the id belongs to a subscription that has ended.
    """

    ids: Int64s
    place: Int64s
    is_dead: Bools
    rows: pa.Table
    details: Mapping[int, Details]
    bad: Mapping[int, BadRow]
    external: External
    now: int

    @property
    def is_live(self) -> Bools:
        return self.place >= 0

    def differs(self, name: str, column: pa.ChunkedArray) -> Bools:
        """Which rows have a live subscription whose value in a column of the table differs from the load's."""
        found = np.zeros(len(self.place), np.bool_)
        live = np.flatnonzero(self.is_live)
        there = self.rows.column(name).take(self.place[live])
        found[live] = np.asarray(pc.not_equal(there, column.take(live)).fill_null(True))
        return found

    def numbers(self, name: str, otherwise: int) -> Int64s:
        """A column of numbers, row by row; `otherwise` where there is no live subscription."""
        known = np.append(self.rows.column(name).to_numpy(), otherwise)
        return known[self.place]

    def kept(self, row: int) -> Details:
        """The details of a row's live subscription."""
        return self.details.get(int(self.ids[row]), NO_DETAILS)

    def differs_in(self, name: str, texts: pa.ChunkedArray) -> Bools:
        """Which rows have a live subscription one of whose details differs from the load's."""
        found = np.zeros(len(self.place), np.bool_)
        live = np.flatnonzero(self.is_live)
        pairs = zip(live.tolist(), texts.take(live).to_pylist(), strict=True)
        found[live] = [getattr(self.kept(row), name) != text for row, text in pairs]
        return found

    def absent(self) -> Int64s:
        """The ids of the source's subscriptions that aren't in the load."""
        return np.setdiff1d(self.external.ids, self.ids)


def find_before(turn: Turn, incoming: Incoming, source: str, now: int) -> Before:
    """Look up the rows of a load, by external id if it has them, else by id."""
    external = External("", np.empty(0, np.int64), pa.array([], pa.string()))
    if incoming.externals is not None:
        external = read_externals(turn.connection, source)
        at = pc.index_in(incoming.externals, value_set=external.names, skip_nulls=True)
        ids = np.append(external.ids, 0)[at.fill_null(-1).to_numpy()]
    elif incoming.ids is not None:
        ids = pc.fill_null(incoming.ids, 0).to_numpy()
    else:
        ids = np.zeros(len(incoming), np.int64)
    asked = ids if incoming.ids is not None else ids[ids != 0]
    table, bad = turn.read(distinct(asked))
    table = table.take(np.argsort(table.column("id").to_numpy()))
    alive = np.asarray(table.column("removed")) == 0
    alive &= table.column("expires").to_numpy() > now
    rows = table.filter(alive)
    known = rows.column("id").to_numpy()
    dead = table.filter(~alive).column("id").to_numpy()
    place = _positions(known, ids)
    details = read_details(turn.connection, known)
    return Before(
        ids, place, np.isin(ids, dead), rows, details, {row.id: row for row in bad}, external, now
    )


def live_ids(turn: Turn, ids: Int64s, now: int) -> Sequence[int]:
    """Which of these ids live subscriptions have, ascending."""
    found: list[int] = turn.present(ids, now)[0].tolist()
    return sorted(found)


def _positions(known: Int64s, ids: Int64s) -> Int64s:
    """The position of each id in `known`, which ascends; -1 where it isn't there."""
    if not len(known):
        return np.full(len(ids), -1, np.int64)
    at = np.minimum(np.searchsorted(known, ids), len(known) - 1)
    return np.where(known[at] == ids, at, -1)
