"""The events by which a publisher of tables and the followers of selects over them speak to each other.

    from      form            has                       says
    publisher messages        version                   what `joins.routed_messages` says; to all that it concerns
              messages        version, to, count        the same to one follower: what it must hold at first, numbered
              RESET           version, to, asked, count those are all, of this version: forget what is older
              REFUSED         to, asked, text           the select can't be followed, and why
              STARTED         version                   the publisher is there, and knows of nobody: ask
    follower  ASKED           to, asked, version, text  send me what this select must hold, and what comes after
              LEFT            to, asked                 send me nothing more

`asked` numbers what a follower says; it grows, also from one process to the next. `version` of an ask is the highest
that the follower has seen. All events have the publisher's name: a network may have several publishers, each with
tables of its own.
"""

import hashlib
import re

from penstock.base.errors import SchemaError
from penstock.joins.catalog import Catalog
from penstock.joins.routed_filters import join_filter
from penstock.joins.routed_messages import RESET as RESET
from penstock.joins.routed_messages import routed_schema
from penstock.joins.subscription import SelectJoin
from penstock.language.schema import Schema

STARTED, REFUSED, ASKED, LEFT = range(RESET + 1, RESET + 5)
PUBLISHER = "tables"
"""The default name of a publisher."""

_NAME = re.compile(r"[A-Za-z0-9_-]+")


def published_filter(publisher: str) -> str:
    """The filter for all that a publisher of tables publishes."""
    return f"publisher = {_quoted(publisher)} AND form <= {REFUSED}"


def asks_filter(publisher: str) -> str:
    """The filter for what followers say to a publisher."""
    return f"publisher = {_quoted(publisher)} AND form >= {ASKED}"


def addressed_filter(publisher: str, follower: int) -> str:
    """The filter for what a publisher says to one follower."""
    return f'{published_filter(publisher)} AND "to" = {follower}'


def followed_filter(join: SelectJoin, catalog: Catalog, publisher: str) -> str:
    """The filter for what a publisher says to all followers of such a select."""
    started = f"publisher = {_quoted(publisher)} AND form = {STARTED}"
    return (
        started if join.never_matches else f"{join_filter(join, catalog, publisher)} OR {started}"
    )


def follower_number(broker: str, client: str, number: int) -> int:
    """The number of a follower in the network, made of its broker, its client and the client's own number for it."""
    name = f"{broker} {client} {number}".encode()
    return int.from_bytes(hashlib.blake2b(name, digest_size=8).digest(), "big") >> 1


def check_schema(network: Schema, catalog: Catalog) -> None:
    """SchemaError if a network's events can't be messages about a catalogue's tables."""
    there = dict(network.root.fields)
    missing = [
        name for name, type_ in routed_schema(catalog).root.fields if there.get(name) != type_
    ]
    if missing:
        raise SchemaError(
            f"the brokers of this network don't carry these tables: {missing[0]} is missing, or has another type; "
            "give the catalogue as `catalog` in the file of every broker"
        )


def _quoted(publisher: str) -> str:
    if not _NAME.fullmatch(publisher):
        raise SchemaError(
            f"{publisher!r} can't be a publisher's name: give letters, digits, - and _"
        )
    return f"'{publisher}'"
