"""Recent records, as the inbox still has them in memory: to be shown, to try texts on, to be explained."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from penstock.server.publishing.inbox import Inbox
from penstock.server.publishing.published import POSITION, TIME
from penstock.server.web.api_types import RecentEvent


def newest_records(
    inbox: Inbox, most: int, log: str | None = None, within: timedelta | None = None
) -> Iterator[RecentEvent]:
    """The most recent records, the newest first: of one log or of all, and not older than `within`."""
    after = None if within is None else datetime.now(UTC) - within
    for row in reversed(inbox.recent()):
        if log is not None and row.log != log:
            continue
        for position, line in reversed(list(row.records())):
            if most <= 0:
                return
            found = _shown(position, row.log, line)
            if after is not None and datetime.fromisoformat(found.published) < after:
                return
            most -= 1
            yield found


def find_record(inbox: Inbox, position: int) -> RecentEvent | None:
    """The record at a position, if it is recent enough."""
    for row in reversed(inbox.recent()):
        if row.first <= position <= row.last:
            line = row.lines.split(b"\n")[position - row.first]
            return _shown(position, row.log, line)
    return None


def _shown(position: int, log: str, line: bytes) -> RecentEvent:
    record: dict[str, Any] = msgspec.json.decode(line)
    del record[POSITION]
    return RecentEvent(position, log, record.pop(TIME), record)
