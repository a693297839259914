"""One subscription: as the table has it (`Record`), and as users see it (`Subscription`).

A record has the ticket's hash and times in microseconds; none of that leaves the registry.
"""

import json
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from penstock.matching.subscription_rows import FOREVER
from penstock.registry.checksums import checksum_of_row
from penstock.registry.kinds import kind_of

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Record(NamedTuple):
    """One row of the subscriptions table, of a subscription that isn't removed. Times are UTC microseconds."""

    id: int
    subscriber: str
    filter: str
    ticket: bytes | None
    created: int
    expires: int
    sequence: int

    @property
    def checksum(self) -> int:
        return checksum_of_row(*self, removed=False)


class Details(NamedTuple):
    """What a subscription has beside its text; `metadata` is a JSON object, as `details.metadata_text` writes it."""

    source: str | None = None
    external: str | None = None
    metadata: str = "{}"
    pace: str | None = None  # as `paces.pace_text` writes it


NO_DETAILS = Details()


class Subscribed(NamedTuple):
    """What `subscribe` answers. The ticket is shown this once: the registry keeps only its hash."""

    id: int
    ticket: str


class Checked(NamedTuple):
    """What `check` answers about a text that `subscribe` would accept."""

    kind: str
    cost: int
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Subscription:
    """A subscription, with its times in UTC. `expires` is None if it never expires.

    `external_id` is the name that `source` has for it, if it was loaded with one. `pace` is how often it is notified at
    most; None: of everything.
    """

    id: int
    subscriber: str
    filter: str
    created: datetime
    expires: datetime | None
    sequence: int
    metadata: dict[str, str] = field(default_factory=dict)
    external_id: str | None = None
    source: str | None = None
    pace: str | None = None

    @property
    def kind(self) -> str:
        """`filter`, `select-join` or `tree-pattern`."""
        return kind_of(self.filter).name

    def to_dict(self) -> dict[str, Any]:
        """For JSON: times as ISO 8601 text.

        >>> day = datetime(2026, 1, 1, tzinfo=UTC)
        >>> Subscription(1, "alice", "price > 5", day, None, 1).to_dict()["created"]
        '2026-01-01T00:00:00+00:00'
        """
        expires = None if self.expires is None else self.expires.isoformat()
        found = asdict(self) | {
            "kind": self.kind,
            "created": self.created.isoformat(),
            "expires": expires,
        }
        if self.external_id is None:
            del found["external_id"], found["source"]
        if self.pace is None:
            del found["pace"]
        return found


def subscription_of(record: Record, kept: Details = NO_DETAILS) -> Subscription:
    """What users see of a record."""
    return Subscription(
        record.id,
        record.subscriber,
        record.filter,
        utc_time(record.created),
        None if record.expires == FOREVER else utc_time(record.expires),
        record.sequence,
        json.loads(kept.metadata),
        kept.external,
        kept.source,
        kept.pace,
    )


def utc_time(microseconds: int) -> datetime:
    """UTC microseconds as a time."""
    return _EPOCH + timedelta(microseconds=microseconds)
