"""How subscriptions ended: the answer to the question why one isn't matched any more.

For each id the last end is kept, until `sweep` deletes what ended long enough ago. A subscription that a load refused
has an entry as well, if the load gave it an id.
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, NamedTuple

import numpy as np
from sqlalchemy import Connection, bindparam, delete, insert, select

from penstock.base.checked_files import checksum_of
from penstock.registry.bad_rows import WRONG_CHECKSUM
from penstock.registry.databases import Database
from penstock.registry.queries import FEW, Ids, all_columns, among, is_intact
from penstock.registry.records import Record, utc_time
from penstock.registry.statements import Statement
from penstock.registry.tables import history as history_table
from penstock.registry.tables import subscriptions

_forget = Statement(delete(history_table).where(history_table.c.id == bindparam("gone")))
_keep = Statement(insert(history_table))
_COLUMNS = tuple(column.name for column in history_table.columns if column.name != "checksum")


class Ending(NamedTuple):
    """How a subscription ends, in one word or two, and why. `time` None stands for the end of its lease."""

    how: str
    reason: str
    time: int | None


@dataclass(frozen=True, slots=True)
class Ended:
    """A subscription that isn't there any more.

    `how` is `unsubscribed`, `removed`, `replaced`, `expired`, `set aside` or `refused`.
    """

    id: int
    subscriber: str
    filter: str
    how: str
    reason: str
    time: datetime

    def __str__(self) -> str:
        verb = self.how if self.how == "expired" else f"was {self.how}"
        when = f"{self.time:%Y-%m-%d %H:%M:%S} UTC"
        return f"subscription {self.id} of {self.subscriber or 'nobody'} {verb} at {when}: {self.reason}"

    def to_dict(self) -> dict[str, Any]:
        """For JSON: the time as ISO 8601 text."""
        return asdict(self) | {"time": self.time.isoformat()}


EndedRow = tuple[int, str, str, str, str, int]
"""In the order of the table's columns, without the checksum."""


def note_ends(database: Database, connection: Connection, ids: Ids, ending: Ending) -> None:
    """Write down how subscriptions end, in the transaction that ends them and before their rows are changed."""
    rows: list[EndedRow] = []
    for start in range(0, len(ids), FEW):
        wanted = select(*all_columns).where(among(subscriptions.c.id, ids[start : start + FEW]))
        table, bad = database.fetch_rows(connection, wanted)
        for row in table.select(["id", "subscriber", "filter", "expires"]).to_pylist():
            sid, subscriber, text, expires = row.values()
            time = expires if ending.time is None else ending.time
            rows.append((sid, subscriber or "", text or "", ending.how, ending.reason, time))
        rows += [
            (row.id, row.subscriber, row.filter, ending.how, ending.reason, ending.time or 0)
            for row in bad
        ]
    keep_ended(database, connection, rows)


def note_end(connection: Connection, record: Record, ending: Ending) -> None:
    """The same for one subscription whose row is at hand: ten times as fast."""
    time = record.expires if ending.time is None else ending.time
    row = (record.id, record.subscriber, record.filter, ending.how, ending.reason, time)
    says = dict(zip(_COLUMNS, row, strict=True))
    _forget.run(connection, gone=record.id)
    _keep.run(connection, **says, checksum=checksum_of(says))


def keep_ended(database: Database, connection: Connection, rows: Iterable[EndedRow]) -> None:
    """Write entries. Each replaces the one that its id had before."""
    written = [
        (*row, checksum_of(dict(zip(_COLUMNS, row, strict=True))))
        for row in {row[0]: row for row in rows}.values()
    ]
    ids = np.array([row[0] for row in written], np.int64)
    for start in range(0, len(ids), FEW):
        few = among(history_table.c.id, ids[start : start + FEW])
        connection.execute(delete(history_table).where(few))
    if written:
        database.insert(connection, history_table, written, len(written))


def forget_ends(connection: Connection, before: int) -> int:
    """Delete the entries of subscriptions that ended before a time. Returns how many."""
    return connection.execute(delete(history_table).where(history_table.c.time < before)).rowcount


def find_end(connection: Connection, sid: int) -> Ended | None:
    """How a subscription ended, if that is known. If its row was changed since, the reason says so."""
    statement = select(history_table).where(history_table.c.id == sid)
    found = connection.execute(statement).mappings().one_or_none()
    if found is None:
        return None
    row = dict(found)
    if not is_intact(row, row.pop("checksum")):
        row["reason"] = (
            f"row {sid} of {history_table.name} can't be relied upon, {WRONG_CHECKSUM}: {row['reason']}"
        )
    return Ended(**row | {"time": utc_time(row["time"])})
