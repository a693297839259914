"""Retries of `POST /v1/subscriptions` with the same `Idempotency-Key` make one subscription, and get the same answer.

The answer has a ticket, which isn't kept. So the ticket of such a request isn't random: it is an HMAC of the key with a
secret of the service. `service.db` keeps hashes of keys and of requests, and the id of the subscription that was made.
Somebody who reads it can't compute a ticket without the key, and somebody who guesses a key can't without the secret.

The id is noted after the registry has the subscription. After a crash in between, the id is missing: then the retry
looks through the subscriber's subscriptions for the one with that ticket.
"""

import hashlib
import hmac
import os
import re
import secrets
from dataclasses import dataclass

from penstock.base.durations import utc_now
from penstock.server.service_db import ServiceDatabase
from penstock.server.web.problems import Problem

_KEY = re.compile(r"[!-~]{1,255}")
_KEPT = 24 * 3600 * 10**6  # microseconds
_TABLES = (
    """CREATE TABLE IF NOT EXISTS idempotency_keys (
      hash BLOB PRIMARY KEY, request BLOB NOT NULL, subscription INTEGER, feed_offset INTEGER NOT NULL,
      time INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID""",
    "CREATE INDEX IF NOT EXISTS idempotency_keys_time ON idempotency_keys (time)",
    "CREATE TABLE IF NOT EXISTS idempotency_secret (one INTEGER PRIMARY KEY, secret BLOB NOT NULL) STRICT",
)


@dataclass(frozen=True)
class Once:
    """A request that may be repeated: who makes it, with which key, and what it says."""

    caller: str
    key: str
    request: bytes


@dataclass(frozen=True)
class Attempt:
    """One of its attempts: the ticket, the offset of the first attempt, the subscription that earlier ones made."""

    hash: bytes
    ticket: str
    offset: int
    is_first: bool
    subscription: int | None


class IdempotencyKeys:
    """The keys of the last 24 hours."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._database = ServiceDatabase(path, _TABLES)
        fresh = secrets.token_bytes(32)
        with self._database.writing() as connection:
            connection.execute("INSERT OR IGNORE INTO idempotency_secret VALUES (1, ?)", (fresh,))
        ((secret,),) = self._database.read("SELECT secret FROM idempotency_secret")
        assert isinstance(secret, bytes)
        self._secret = secret

    def begin(self, once: Once, tail: int) -> Attempt:
        """Note a request, or find what it made before. Raises a Problem if the key was used for another request.

        `tail` is the offset from which a new subscription's feed is read.
        """
        if not _KEY.fullmatch(once.key):
            raise Problem(
                "bad-header",
                "an Idempotency-Key has 1 to 255 visible characters: a random UUID is a good one",
            )
        hashed = self._sign("key", once.caller, once.key)
        asked, now = hashlib.sha256(once.request).digest(), utc_now()
        with self._database.writing() as connection:
            connection.execute("DELETE FROM idempotency_keys WHERE time < ?", (now - _KEPT,))
            added = connection.execute(
                "INSERT OR IGNORE INTO idempotency_keys VALUES (?, ?, NULL, ?, ?)",
                (hashed, asked, tail, now),
            )
            is_first = added.rowcount == 1
            same, sid, offset = connection.execute(
                "SELECT request, subscription, feed_offset FROM idempotency_keys WHERE hash = ?",
                (hashed,),
            ).fetchone()
        if not hmac.compare_digest(same, asked):
            raise Problem(
                "conflict", "this Idempotency-Key was used for another request: take a new one"
            )
        ticket = self._sign("ticket", once.caller, once.key).hex()
        return Attempt(hashed, ticket, offset, is_first, sid)

    def end(self, attempt: Attempt, sid: int) -> None:
        """Note the subscription that a request made."""
        with self._database.writing() as connection:
            connection.execute(
                "UPDATE idempotency_keys SET subscription = ? WHERE hash = ?", (sid, attempt.hash)
            )

    def forget(self, attempt: Attempt) -> None:
        """Forget a request that made nothing: its key may be used again."""
        with self._database.writing() as connection:
            connection.execute("DELETE FROM idempotency_keys WHERE hash = ?", (attempt.hash,))

    def close(self) -> None:
        self._database.close()

    def _sign(self, *parts: str) -> bytes:
        text = "\0".join(parts).encode("utf-8", "surrogatepass")
        return hmac.digest(self._secret, text, "sha256")
