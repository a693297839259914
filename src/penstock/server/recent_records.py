"""What was published lately, as the inbox still has it in memory: to look at, to try texts on, to explain."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from penstock.server.api_types import RecentEvent
from penstock.server.publishing.inbox import Inbox
from penstock.server.publishing.published import POSITION, TIME


def newest_records(
    inbox: Inbox, most: int, log: str | None = None, within: timedelta | None = None
) -> Iterator[RecentEvent]:
    """The newest records, the newest first: of one log, or of all; of the last minute, say."""
    after = None if within is None else datetime.now(UTC) - within
    for row in reversed(inbox.recent()):
        if log is not None and row.log != log:
            continue
        for position, line in reversed(list(row.records())):
            if most <= 0:
                return
            record: dict[str, Any] = msgspec.json.decode(line)
            if after is not None and datetime.fromisoformat(str(record[TIME])) < after:
                return
            most -= 1
            yield RecentEvent(position, row.log, record)


def find_record(inbox: Inbox, position: int) -> RecentEvent | None:
    """The record at a position, if it is recent enough."""
    for row in reversed(inbox.recent()):
        if row.first <= position <= row.last:
            line = row.lines.split(b"\n")[position - row.first]
            return RecentEvent(position, row.log, msgspec.json.decode(line))
    return None


def without_own(record: dict[str, Any]) -> dict[str, Any]:
    """A record as it was published: without what the inbox has added."""
    return {name: value for name, value in record.items() if name not in (POSITION, TIME)}
