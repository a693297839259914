"""API keys: who may publish, subscribe, read metrics, or run the service.

    pk_<name>_<43 characters of 256 random bits>

A key is shown once, when it is made. `service.db` has its SHA-256, its name and its scopes. A key may be bound to a
subscriber: then it speaks for that subscriber only. As for tickets (`registry.tickets`), a slow password hash would add
nothing to 256 random bits.

| scope | allows |
|---|---|
| `publish` | to publish events, changes of tables and documents |
| `subscribe` | to subscribe and to check texts; if bound, to list, read and change its subscriber's subscriptions |
| `metrics` | to read metrics and the service's state |
| `admin` | everything, for every subscriber |
"""

import hashlib
import hmac
import os
import re
import secrets
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from penstock.base.durations import utc_now
from penstock.base.errors import PenstockError
from penstock.registry.limits import subscriber_error
from penstock.server.service_db import ServiceDatabase

SCOPES = ("publish", "subscribe", "metrics", "admin")

_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
_KEY = re.compile(r"pk_([a-z0-9-]{1,63})_([A-Za-z0-9_-]{43})")
_TABLE = """CREATE TABLE IF NOT EXISTS api_keys (
  name TEXT PRIMARY KEY, hash BLOB NOT NULL, scopes TEXT NOT NULL, subscriber TEXT, created INTEGER NOT NULL
) STRICT, WITHOUT ROWID"""
_NOBODY = bytes(32)
_FRESH = 1.0  # seconds after which keys are read anew: a removed key still works for so long


@dataclass(frozen=True)
class ApiKey:
    """What a key allows. `subscriber` is None if it speaks for all."""

    name: str
    scopes: frozenset[str]
    subscriber: str | None
    created: datetime

    def allows(self, scope: str) -> bool:
        """Whether the key allows what needs a scope.

        >>> ApiKey("ops", frozenset({"admin"}), None, datetime.now(UTC)).allows("publish")
        True
        """
        return scope in self.scopes or "admin" in self.scopes


class ApiKeys:
    """The keys in `service.db`. `find` is cheap: keys are kept in memory, and read anew after a second.

    >>> keys = ApiKeys(":memory:")
    >>> secret = keys.add("feeder", ["publish"])
    >>> keys.find(secret).name, keys.find(secret[:-1] + "?")
    ('feeder', None)
    """

    def __init__(
        self, path: str | os.PathLike[str], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._database = ServiceDatabase(path, [_TABLE])
        self._clock = clock
        self._read()
        self._began_open = not self._by_name

    @property
    def open_to_all(self) -> bool:
        """Whether there are no keys, and there were none at the start. (Removing the last key doesn't open it.)"""
        return self._began_open and not self._by_name

    def any(self) -> bool:
        """Whether there are keys."""
        return bool(self._by_name)

    @property
    def is_stale(self) -> bool:
        """Whether `refresh` would read the keys. That blocks for a moment, so call it in a thread."""
        return self._clock() - self._read_at > _FRESH

    def refresh(self) -> None:
        """Read the keys anew, if they were read a while ago."""
        if self.is_stale:
            self._read()

    def find(self, key: str) -> ApiKey | None:
        """The key with this text; None if there is no such key."""
        match = _KEY.fullmatch(key)
        found = None if match is None else self._by_name.get(match[1])
        same = hmac.compare_digest(_hash(key), _NOBODY if found is None else found[1])
        return found[0] if found is not None and same else None

    def add(self, name: str, scopes: Iterable[str], subscriber: str | None = None) -> str:
        """Make a key. Its text is returned here, and never shown again."""
        wanted = frozenset(scopes)
        if not _NAME.fullmatch(name):
            raise PenstockError(
                f"{name!r} is no name of a key: write small letters, digits and -, 63 at most"
            )
        if unknown := sorted(wanted - set(SCOPES)):
            raise PenstockError(f"there is no scope {unknown[0]!r}: give {', '.join(SCOPES)}")
        if not wanted:
            raise PenstockError(f"a key needs a scope: give {', '.join(SCOPES)}")
        if subscriber is not None and (wrong := subscriber_error(subscriber)):
            raise PenstockError(wrong)
        if subscriber is not None and "admin" in wanted:
            raise PenstockError("an admin speaks for all subscribers: leave the subscriber out")
        key = f"pk_{name}_{secrets.token_urlsafe(32)}"
        row = (name, _hash(key), ",".join(sorted(wanted)), subscriber, utc_now())
        with self._database.writing() as connection:
            if connection.execute("SELECT 1 FROM api_keys WHERE name = ?", (name,)).fetchone():
                raise PenstockError(
                    f"there is a key {name!r} already: remove it, or take another name"
                )
            connection.execute("INSERT INTO api_keys VALUES (?, ?, ?, ?, ?)", row)
        self._read()
        return key

    def remove(self, name: str) -> None:
        """Remove a key: it is refused within a second."""
        with self._database.writing() as connection:
            if not connection.execute("DELETE FROM api_keys WHERE name = ?", (name,)).rowcount:
                raise PenstockError(f"there is no key {name!r}: 'penstock keys list' shows them")
        self._read()

    def list(self) -> list[ApiKey]:
        """All keys, by name."""
        self._read()
        return [key for key, _ in self._by_name.values()]

    def close(self) -> None:
        self._database.close()

    def _read(self) -> None:
        read_at = self._clock()
        rows = self._database.read("SELECT * FROM api_keys ORDER BY name")
        self._by_name = {key.name: (key, kept) for key, kept in map(_key_of, rows)}
        self._read_at = read_at


def _key_of(row: tuple[object, ...]) -> tuple[ApiKey, bytes]:
    name, kept, scopes, subscriber, created = row
    assert isinstance(kept, bytes)
    assert isinstance(created, int)
    made = datetime.fromtimestamp(created / 1_000_000, UTC)
    told = None if subscriber is None else str(subscriber)
    return ApiKey(str(name), frozenset(str(scopes).split(",")), told, made), kept


def _hash(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()
