"""Subscriptions that were set aside while they ran: no longer matched, with the reason kept for their owner.

Followers of the registry see such a subscription removed.
"""

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import delete, insert, select

from penstock.base.checked_files import checksum_of
from penstock.registry.bad_rows import WRONG_CHECKSUM
from penstock.registry.history import Ending
from penstock.registry.queries import is_intact
from penstock.registry.records import utc_time
from penstock.registry.store import Store
from penstock.registry.tables import set_aside as set_aside_table


@dataclass(frozen=True, slots=True)
class SetAside:
    """A subscription that isn't matched any more, and why."""

    id: int
    subscriber: str
    filter: str
    reason: str
    time: datetime

    def to_dict(self) -> dict[str, Any]:
        """For JSON: the time as ISO 8601 text."""
        return asdict(self) | {"time": self.time.isoformat()}


def set_aside(store: Store, sid: int, reason: str, now: int) -> bool:
    """Set a subscription aside; False if there is no live one with this id."""
    with store.turn() as turn:
        record = turn.find(sid, now)
        if record is None:
            return False
        turn.end(record, Ending("set aside", reason, now))
        row = {"id": sid, "subscriber": record.subscriber, "filter": record.filter}
        row |= {"reason": reason, "time": now}
        turn.connection.execute(delete(set_aside_table).where(set_aside_table.c.id == sid))
        turn.connection.execute(insert(set_aside_table), row | {"checksum": checksum_of(row)})
    return True


def read_set_aside(store: Store) -> list[SetAside]:
    """Those that were set aside, in order of id. If a row was changed since, its reason says so."""
    statement = select(set_aside_table).order_by(set_aside_table.c.id)
    with store.reading() as connection:
        rows = [dict(row) for row in connection.execute(statement).mappings()]
    found = []
    for row in rows:
        checksum = row.pop("checksum")
        if not is_intact(row, checksum):
            row["reason"] = (
                f"row {row['id']} of {set_aside_table.name} can't be relied upon, {WRONG_CHECKSUM}: {row['reason']}"
            )
        found.append(SetAside(**row | {"time": utc_time(row["time"])}))
    return found
