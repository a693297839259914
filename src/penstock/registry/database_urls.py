"""Which database a registry's URL or path names."""

import os
from pathlib import Path

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from penstock.base.errors import RegistryError
from penstock.registry.databases import Database
from penstock.registry.postgresql import PostgreSQL
from penstock.registry.sqlite import SQLite

_FORMS = "write a path (subs.db), sqlite:///subs.db or postgresql://user@host/database"


def database_of(url: str | os.PathLike[str] | URL | None) -> Database:
    """The database that a URL or a path names; `None` is one in memory.

    >>> print(database_of("sqlite:////var/lib/subs.db"))
    sqlite:////var/lib/subs.db
    >>> print(database_of("postgresql://penstock:secret@db/subs"))
    postgresql+psycopg://penstock:***@db/subs
    """
    if url is None:
        return SQLite(None)
    if isinstance(url, str) and "://" in url:
        try:
            url = make_url(url)
        except (ArgumentError, ValueError) as error:
            raise RegistryError(f"not a registry URL ({error}): {_FORMS}") from None
    if not isinstance(url, URL):
        return SQLite(Path(url))
    family = url.get_backend_name()
    if family == "sqlite":
        in_memory = url.database in (None, "", ":memory:")
        return SQLite(None if in_memory else Path(str(url.database)))
    if family in ("postgresql", "postgres"):
        return PostgreSQL(url)
    raise RegistryError(f"a registry can't live in {family!r}: {_FORMS}")
