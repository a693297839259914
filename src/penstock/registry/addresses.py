"""Addresses: the names of subscribers with the metadata that delivery needs.

An address is a subscriber's name and, if the subscription has metadata, a NUL (which no name has) and the metadata.
Addresses go wherever names go: into the snapshots of every kind, to workers, into replays. So a replayed micro-batch
has the metadata as they were when it was pinned, and a pipeline that doesn't ask for metadata has no extra column.
"""

import pyarrow as pa
from sqlalchemy import select

from penstock.matching.subscription_rows import Changes, Rows
from penstock.registry.details import read_details
from penstock.registry.queries import FEW
from penstock.registry.store import Store
from penstock.registry.tables import details as details_table

SEPARATOR = "\0"


class AddressedStore(Store):
    """The same tables, but readers are given addresses in place of subscribers.

    It has an identity of its own, so that snapshots with addresses aren't mixed up with those without.
    """

    def __init__(self, store: Store) -> None:
        self.database, self._open = store.database, True
        self.identity = f"{store.identity} with metadata"

    def active(self, now: int) -> Rows:
        return self._addressed(super().active(now))

    def changes(self, since: int) -> Changes:
        found = super().changes(since)
        return Changes(found.sequence, self._addressed(found.upserts), found.removed)

    def _addressed(self, rows: Rows) -> Rows:
        # Read after the rows: a change in between has a later number, and comes with the next changes.
        with self.reading() as connection:
            ids = rows.ids
            if len(ids) > FEW:
                ids = self.database.fetch(connection, select(details_table.c.id)).column(0)
                ids = ids.to_numpy()
            kept = read_details(connection, ids)
        told = {sid: one.metadata for sid, one in kept.items() if one.metadata != "{}"}
        if not told:
            return rows
        names = [
            name if sid not in told else f"{name}{SEPARATOR}{told[sid]}"
            for sid, name in zip(rows.ids.tolist(), rows.subscribers.to_pylist(), strict=True)
        ]
        return Rows(
            rows.sequence,
            rows.ids,
            pa.array(names, pa.string()),
            rows.filters,
            rows.expires,
            rows.errors,
        )
