"""The tables of a registry, the same in SQLite and PostgreSQL.

    penstock_registry        one row: what this registry is, and the two counters
        format, identity, schema, sequence, last_assigned
    penstock_subscriptions   one row per subscription that ever was
        id, subscriber, filter, ticket, created, expires, sequence, removed
    penstock_limits          at most one row: what subscriptions may cost
    penstock_catalog         at most one row: the tables that select-joins may name
    penstock_costs           of subscriptions that cost something: id, cost
    penstock_set_aside       of subscriptions that were set aside: id, subscriber, filter, reason, time
    penstock_resyncs         of subscriptions that were to be sent everything again: id, sequence
    penstock_details         of subscriptions that have an external id, metadata or a pace: id, source, external,
                             described (the metadata), pace
    penstock_held            how many notifications a pipeline has held back: id, pipeline, held, time
    penstock_history         how subscriptions ended: id, subscriber, filter, how, reason, time

Each table except `penstock_resyncs` and `penstock_held` also has a `checksum` of the other columns of a row, made by
`checksums` for subscriptions, costs and details, and by `checked_files` for the others. A changed resync harms nobody:
a view is sent once too often, or its owner asks again. The numbers held back are only shown. `upgrades` brings a
registry of an earlier format to this one.

Every change of a subscription (added, renewed, resynced, removed) takes the next number from
`penstock_registry.sequence` in the transaction that makes it, and leaves that number in the subscription's row. So the
table *is* the change feed, compacted: "what changed after N" is `WHERE sequence > N`, whatever N, and its cost grows
with the number of changes only. A log table beside it would have to be trimmed, and a reader that comes after the
trimming would need the full table anyhow.

Invariants:
- sequence numbers are unique, dense (1, 2, 3 …) and in commit order: the one row is locked from when a number is taken
  until the commit, so nobody can see N+1 before N;
- a removed subscription keeps its id and sequence number (a tombstone: the feed needs them) and nothing else: texts
  are NULL, times 0;
- expiry isn't a change: readers compare `expires` with the clock.
"""

from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    text,
)

FORMAT = 5
"""Number of this layout. A change of it needs a step in `upgrades`."""

metadata = MetaData()


# In SQLite an "INTEGER PRIMARY KEY" is the row's own key: no second index. BIGINT would cost one.
_id_type = BigInteger().with_variant(Integer(), "sqlite")


def _id() -> Column[int]:
    return Column("id", _id_type, primary_key=True, autoincrement=False)


def _one() -> Column[int]:
    """The key of a table that has at most one row."""
    return Column("one", Integer, CheckConstraint("one = 1"), primary_key=True, autoincrement=False)


def _needed(name: str, type_: Any) -> Column[Any]:
    return Column(name, type_, nullable=False)


def _checksum() -> Column[int]:
    # A row that another program inserts without a checksum gets 0, which is right only by chance.
    return Column("checksum", BigInteger, nullable=False, server_default=text("0"))


registry = Table(
    "penstock_registry",
    metadata,
    _one(),
    _needed("format", Integer),
    _needed("identity", Text),
    Column("schema", Text),
    _needed("sequence", BigInteger),
    _needed("last_assigned", BigInteger),
    _checksum(),
)

subscriptions = Table(
    "penstock_subscriptions",
    metadata,
    _id(),
    Column("subscriber", Text),
    Column("filter", Text),
    Column("ticket", LargeBinary),
    _needed("created", BigInteger),
    _needed("expires", BigInteger),
    _needed("sequence", BigInteger),
    _needed("removed", Boolean),
    _checksum(),
    CheckConstraint("removed OR (subscriber IS NOT NULL AND filter IS NOT NULL)"),
    Index("penstock_subscriptions_sequence", "sequence", unique=True),
    Index("penstock_subscriptions_subscriber", "subscriber", "id"),
)

limits = Table("penstock_limits", metadata, _one(), _needed("limits", Text), _checksum())

catalog = Table("penstock_catalog", metadata, _one(), _needed("catalog", Text), _checksum())

costs = Table("penstock_costs", metadata, _id(), _needed("cost", BigInteger), _checksum())

set_aside = Table(
    "penstock_set_aside",
    metadata,
    _id(),
    *(_needed(name, Text) for name in ("subscriber", "filter", "reason")),
    _needed("time", BigInteger),
    _checksum(),
)

resyncs = Table("penstock_resyncs", metadata, _id(), _needed("sequence", BigInteger))

details = Table(
    "penstock_details",
    metadata,
    _id(),
    Column("source", Text),
    Column("external", Text),
    Column("described", Text, key="metadata", nullable=False),
    Column("pace", Text),
    _checksum(),
    Index("penstock_details_external", "source", "external", unique=True),
)
Index(
    "penstock_details_pace",
    details.c.id,
    sqlite_where=details.c.pace.is_not(None),
    postgresql_where=details.c.pace.is_not(None),
)

held = Table(
    "penstock_held",
    metadata,
    _id(),
    Column("pipeline", Text, primary_key=True),
    _needed("held", BigInteger),
    _needed("time", BigInteger),
)

history = Table(
    "penstock_history",
    metadata,
    _id(),
    *(_needed(name, Text) for name in ("subscriber", "filter", "how", "reason")),
    _needed("time", BigInteger),
    _checksum(),
)
