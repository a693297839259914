"""Opens the registry that a command line names, and writes the ends of leases for people."""

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.cli.options import operators_of, read_catalog, schema_of
from penstock.cli.terminal import say

if TYPE_CHECKING:
    from penstock.registry import Subscriptions


def open_there(url: str, operators: str | None = None) -> "Subscriptions":
    """Open a registry, which must exist."""
    from penstock.registry import Subscriptions

    return Subscriptions.open(url, create=False, operators=operators_of(operators))


def open_or_make(
    url: str, schema: str | None, operators: str | None, catalog: Path | None
) -> "Subscriptions":
    """Open a registry. If there is none, make it and say so: its name may be misspelt."""
    from penstock.base.errors import RegistryError
    from penstock.registry import Subscriptions

    known = None if schema is None else schema_of(schema)
    tables = None if catalog is None else read_catalog(catalog)
    callable_ = operators_of(operators)
    try:
        open_there(url).close()
    except RegistryError:
        made = Subscriptions.open(url, known, catalog=tables, operators=callable_)
        say(f"A new registry: {made!r}"[:-1].replace("<Subscriptions ", ""))
        return made
    return Subscriptions.open(url, known, catalog=tables, operators=callable_)


def end_text(expires: datetime | None, *, short: bool = False) -> str:
    """When a lease ends, for people."""
    if expires is None:
        return "never" if short else "for ever"
    return f"{expires:%Y-%m-%d %H:%M}" if short else f"until {expires:%Y-%m-%d %H:%M:%S} UTC"
