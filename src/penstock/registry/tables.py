"""The tables of a registry, the same in SQLite and PostgreSQL.

    penstock_registry        one row: what this registry is, and the two counters
        format, identity, schema, sequence, last_assigned
    penstock_subscriptions   one row per subscription that ever was
        id, subscriber, filter, ticket, created, expires, sequence, removed
    penstock_limits          at most one row: what subscriptions may cost
    penstock_catalog         at most one row: the tables that select-joins may name
    penstock_costs           of subscriptions that cost something: id, cost
    penstock_set_aside       id, subscriber, filter, reason, time

Each has a `checksum` besides, of all that a row says: `checksums` for subscriptions and costs, `checked_files` for the
others. A registry of an earlier format is brought to this one by `upgrades`.

Every change of a subscription (added, renewed, removed) takes the next number from
`penstock_registry.sequence` in the transaction that makes it, and leaves that number in the
subscription's row. So the table *is* the change feed, compacted: "what changed after N" is `WHERE
sequence > N`, whatever N, and costs as much as there are changes. A log table beside it would have
to be trimmed, and a reader that comes after the trimming would need the full table anyhow.

Invariants:
- sequence numbers are unique, dense (1, 2, 3 …) and in commit order: the one row is locked from
  when a number is taken until the commit, so nobody can see N+1 before N;
- a removed subscription keeps its id and sequence number (a tombstone: the feed needs them) and
  nothing else: texts are NULL, times 0;
- expiry isn't a change: `expires` is compared with the clock by whoever reads.
"""

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

FORMAT = 2
"""Number of this layout. A change of it needs a step in `upgrades`."""

metadata = MetaData()


def _checksum() -> Column[int]:
    # What another program inserts without one gets 0, which is no row's checksum but by chance.
    return Column("checksum", BigInteger, nullable=False, server_default=text("0"))


registry = Table(
    "penstock_registry",
    metadata,
    Column("one", Integer, CheckConstraint("one = 1"), primary_key=True, autoincrement=False),
    Column("format", Integer, nullable=False),
    Column("identity", Text, nullable=False),
    Column("schema", Text),
    Column("sequence", BigInteger, nullable=False),
    Column("last_assigned", BigInteger, nullable=False),
    _checksum(),
)

# In SQLite an "INTEGER PRIMARY KEY" is the row's own key: no second index. BIGINT would cost one.
_id_type = BigInteger().with_variant(Integer(), "sqlite")

subscriptions = Table(
    "penstock_subscriptions",
    metadata,
    Column("id", _id_type, primary_key=True, autoincrement=False),
    Column("subscriber", Text),
    Column("filter", Text),
    Column("ticket", LargeBinary),
    Column("created", BigInteger, nullable=False),
    Column("expires", BigInteger, nullable=False),
    Column("sequence", BigInteger, nullable=False),
    Column("removed", Boolean, nullable=False),
    _checksum(),
    CheckConstraint("removed OR (subscriber IS NOT NULL AND filter IS NOT NULL)"),
    Index("penstock_subscriptions_sequence", "sequence", unique=True),
    Index("penstock_subscriptions_subscriber", "subscriber", "id"),
)

limits = Table(
    "penstock_limits",
    metadata,
    Column("one", Integer, CheckConstraint("one = 1"), primary_key=True, autoincrement=False),
    Column("limits", Text, nullable=False),
    _checksum(),
)

catalog = Table(
    "penstock_catalog",
    metadata,
    Column("one", Integer, CheckConstraint("one = 1"), primary_key=True, autoincrement=False),
    Column("catalog", Text, nullable=False),
    _checksum(),
)

costs = Table(
    "penstock_costs",
    metadata,
    Column("id", _id_type, primary_key=True, autoincrement=False),
    Column("cost", BigInteger, nullable=False),
    _checksum(),
)

set_aside = Table(
    "penstock_set_aside",
    metadata,
    Column("id", _id_type, primary_key=True, autoincrement=False),
    Column("subscriber", Text, nullable=False),
    Column("filter", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("time", BigInteger, nullable=False),
    _checksum(),
)
