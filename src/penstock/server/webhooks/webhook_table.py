"""The webhooks of subscriptions, in `service.db`: how far each has taken its feed, and why one is set aside.

Secrets are kept as they are, since requests are signed with them; nobody but the service's user may read the file.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock.server.service_db import ServiceDatabase

_TABLE = """CREATE TABLE IF NOT EXISTS webhooks (
  subscription INTEGER PRIMARY KEY, url TEXT NOT NULL, secret TEXT NOT NULL, feed_offset INTEGER NOT NULL,
  failing_since INTEGER, tries INTEGER NOT NULL, reason TEXT, set_aside INTEGER NOT NULL
) STRICT"""
_COLUMNS = "subscription, url, secret, feed_offset, failing_since, tries, reason, set_aside"


@dataclass(frozen=True)
class Webhook:
    """The URL to which the notifications of a subscription are posted, and how delivery stands.

    `offset` is that of the first notification that wasn't taken; -1: the oldest that is kept. `failing_since` is the
    time of the first failure since a request was taken, `reason` says why the last one failed. A webhook that is set
    aside is tried again only when somebody resumes it.
    """

    subscription: int
    url: str
    secret: str
    offset: int
    failing_since: int | None = None
    tries: int = 0
    reason: str | None = None
    set_aside: bool = False


class WebhookTable:
    """All webhooks. Its methods block.

    >>> table = WebhookTable(":memory:")
    >>> table.keep(Webhook(7, "https://example.org/hook", "whsec_…", 1))
    >>> table.note_taken({7: 5})
    >>> table.find(7).offset, len(table.active())
    (5, 1)
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._database = ServiceDatabase(path, [_TABLE])

    def keep(self, webhook: Webhook) -> None:
        """Add a webhook, or replace the one of its subscription."""
        values = (
            webhook.subscription,
            webhook.url,
            webhook.secret,
            webhook.offset,
            webhook.failing_since,
            webhook.tries,
            webhook.reason,
            int(webhook.set_aside),
        )
        marks = ", ".join("?" * len(values))
        with self._database.writing() as connection:
            connection.execute(
                f"INSERT OR REPLACE INTO webhooks ({_COLUMNS}) VALUES ({marks})", values
            )

    def note_taken(self, offsets: Mapping[int, int]) -> None:
        """Save the offsets of webhooks that have taken a request: they aren't failing then."""
        rows = [(offset, subscription) for subscription, offset in offsets.items()]
        with self._database.writing() as connection:
            connection.executemany(
                "UPDATE webhooks SET feed_offset = ?, failing_since = NULL, tries = 0, reason = NULL "
                "WHERE subscription = ?",
                rows,
            )

    def remove(self, subscription: int) -> None:
        """Forget the webhook of a subscription, if it has one."""
        with self._database.writing() as connection:
            connection.execute("DELETE FROM webhooks WHERE subscription = ?", (subscription,))

    def find(self, subscription: int) -> Webhook | None:
        """The webhook of a subscription."""
        found = self._select("WHERE subscription = ?", subscription)
        return found[0] if found else None

    def active(self) -> list[Webhook]:
        """The webhooks that aren't set aside."""
        return self._select("WHERE set_aside = 0")

    def all(self) -> list[Webhook]:
        return self._select("")

    def close(self) -> None:
        self._database.close()

    def _select(self, where: str, *values: object) -> list[Webhook]:
        rows = self._database.read(
            f"SELECT {_COLUMNS} FROM webhooks {where} ORDER BY subscription", values
        )
        return [_webhook(*row) for row in rows]


def _webhook(*row: Any) -> Webhook:
    sid, url, secret, offset, failing_since, tries, reason, set_aside = row
    return Webhook(sid, url, secret, offset, failing_since, tries, reason, bool(set_aside))
