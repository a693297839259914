"""How many notifications pipelines held back because of paces: the answer to the question why one didn't come.

Several pipelines may follow a registry, and each counts for itself. What a pipeline writes for a subscription is the
total since it began, so writing it again changes nothing.
"""

from collections.abc import Mapping

import numpy as np
from sqlalchemy import Connection, delete, func, select

from penstock.registry.databases import Database
from penstock.registry.queries import FEW, Ids, among
from penstock.registry.tables import held as held_table

_h = held_table.c


def keep_held(
    database: Database, connection: Connection, pipeline: str, held: Mapping[int, int], now: int
) -> None:
    """Write down how many notifications a pipeline has held back, by subscription, in place of its last totals."""
    ids = np.array(sorted(held), np.int64)
    for start in range(0, len(ids), FEW):
        few = among(_h.id, ids[start : start + FEW])
        connection.execute(delete(held_table).where(_h.pipeline == pipeline, few))
    rows = [(sid, pipeline, held[sid], now) for sid in ids.tolist()]
    database.insert(connection, held_table, rows, len(rows))


def read_held(connection: Connection, ids: Ids) -> dict[int, int]:
    """How many notifications all pipelines together have held back, by subscription, if there are any."""
    found: dict[int, int] = {}
    for start in range(0, len(ids), FEW):
        wanted = select(_h.id, func.sum(_h.held)).where(among(_h.id, ids[start : start + FEW]))
        found |= {int(sid): int(count) for sid, count in connection.execute(wanted.group_by(_h.id))}
    return found
