"""Brings a registry of an earlier format to this one: numbered steps, run once, when the registry is first opened.

All steps that a registry lacks are one transaction, and one process at a time runs them. Even if it is killed, the
registry is of the old format or of the new one. A step is written in plain SQL and isn't changed any more. It can't
rely on the tables of `tables`: these are of the last format, which later steps may still have to make.

A process of an earlier version that has the registry open must not go on writing as before. So a step that changes what
a writer has to do also renames a column that writers use: the writes of the other process fail.
"""

from collections.abc import Callable, Iterator
from typing import Any

from sqlalchemy import Connection, inspect, select, text, update

from penstock.base.checked_files import checksum_of
from penstock.base.errors import RegistryError
from penstock.registry.bad_rows import WRONG_CHECKSUM
from penstock.registry.checksums import checksum_of_cost, checksums_of_rows
from penstock.registry.databases import Database
from penstock.registry.queries import all_columns, is_intact, table_damage
from penstock.registry.tables import (
    FORMAT,
    catalog,
    costs,
    limits,
    registry,
    set_aside,
    subscriptions,
)

UpgradeStep = Callable[[Database, Connection], None]

_CHUNK = 50_000  # rows summed at a time


def upgrade(database: Database) -> None:
    """Bring a registry to the format of this version. RegistryError if it has a later one."""
    with database.reading() as connection:
        if _format(connection, database) == FORMAT:
            return
    try:
        with database.creating() as connection:
            before = _format(connection, database)  # another process may have been first
            for number in range(before, FORMAT):
                _STEPS[number](database, connection)
    except RegistryError as error:
        raise RegistryError(
            f"the registry is of an earlier format, can't be brought to format {FORMAT}, and is as it was: {error}"
        ) from error


def _format(connection: Connection, database: Database) -> int:
    number = connection.scalar(select(registry.c.format))
    if number in _STEPS or number == FORMAT:
        return int(number)
    if isinstance(number, int) and number > FORMAT:
        raise RegistryError(
            f"the registry {database} has format {number}, this Penstock reads formats up to {FORMAT}: "
            "open it with the Penstock that made it, or a newer one"
        )
    raise table_damage(registry.name, f"its format is {number!r}")


# --- 1 to 2: checksums --------------------------------------------------------------------------

_SUMMED = ("registry", "subscriptions", "limits", "catalog", "costs", "set_aside")


def _add_checksums(database: Database, connection: Connection) -> None:
    """Every table gets a column of checksums. Tables that registries of format 1 may lack are made."""
    if any(
        column["name"] == "checksum" for column in inspect(connection).get_columns(registry.name)
    ):
        raise table_damage(
            registry.name, "its format is 1, and its columns are those of a later one"
        )
    key = "INTEGER" if connection.dialect.name == "sqlite" else "BIGINT"
    one = "one INTEGER NOT NULL PRIMARY KEY CHECK (one = 1)"
    for words in (
        f"CREATE TABLE IF NOT EXISTS penstock_limits ({one}, limits TEXT NOT NULL)",
        f"CREATE TABLE IF NOT EXISTS penstock_catalog ({one}, catalog TEXT NOT NULL)",
        f"CREATE TABLE IF NOT EXISTS penstock_costs (id {key} NOT NULL PRIMARY KEY, cost BIGINT NOT NULL)",
        f"CREATE TABLE IF NOT EXISTS penstock_set_aside (id {key} NOT NULL PRIMARY KEY, subscriber TEXT NOT NULL, "
        "filter TEXT NOT NULL, reason TEXT NOT NULL, time BIGINT NOT NULL)",
        *(
            f"ALTER TABLE penstock_{n} ADD COLUMN checksum BIGINT DEFAULT 0 NOT NULL"
            for n in _SUMMED
        ),
        "ALTER TABLE penstock_registry RENAME COLUMN last_id TO last_assigned",
        "UPDATE penstock_registry SET format = 2",
    ):
        connection.execute(text(words))
    for rows in _subscriptions(database, connection):
        pairs = zip(rows.column("id").to_pylist(), checksums_of_rows(rows).tolist(), strict=True)
        database.set_checksums(connection, subscriptions, pairs)
    found = connection.execute(select(costs.c.id, costs.c.cost)).all()
    database.set_checksums(connection, costs, ((r.id, checksum_of_cost(*r)) for r in found))
    for table, key_column in (
        (registry, "one"),
        (limits, "one"),
        (catalog, "one"),
        (set_aside, "id"),
    ):
        for row in connection.execute(select(table)).mappings().all():
            says = {name: row[name] for name in row if name not in ("one", "checksum")}
            same = table.c[key_column] == row[key_column]
            connection.execute(update(table).where(same).values(checksum=checksum_of(says)))


def _subscriptions(database: Database, connection: Connection) -> Iterator[Any]:
    """All subscriptions that can be read, a part at a time. The others keep the checksum 0, which is wrong."""
    statement = select(*all_columns).order_by(subscriptions.c.id).limit(_CHUNK)
    after: int | None = None
    while True:
        wanted = statement if after is None else statement.where(subscriptions.c.id > after)
        table, bad = database.fetch_readable(connection, wanted)
        ids = [*table.column("id").to_pylist(), *(row.id for row in bad)]
        if not ids:
            return
        yield table
        after = max(ids)


# --- 2 to 3: resyncs ----------------------------------------------------------------------------


def _add_resyncs(database: Database, connection: Connection) -> None:
    key = "INTEGER" if connection.dialect.name == "sqlite" else "BIGINT"
    connection.execute(
        text(
            f"CREATE TABLE penstock_resyncs (id {key} NOT NULL PRIMARY KEY, sequence BIGINT NOT NULL)"
        )
    )
    _set_format(connection, 3)


def _set_format(connection: Connection, number: int) -> None:
    """Say in the registry's row that it has this format, unless that row was changed."""
    (row,) = connection.execute(select(registry)).mappings().all()
    says = {name: row[name] for name in row if name not in ("one", "checksum")}
    if not is_intact(says, row["checksum"]):
        raise table_damage(registry.name, WRONG_CHECKSUM)
    checksum = checksum_of(says | {"format": number})
    connection.execute(update(registry).values(format=number, checksum=checksum))


# --- 3 to 4: external ids, metadata, history ----------------------------------------------------


def _add_details(database: Database, connection: Connection) -> None:
    key = "INTEGER" if connection.dialect.name == "sqlite" else "BIGINT"
    checksum = "checksum BIGINT DEFAULT 0 NOT NULL"
    for words in (
        f"CREATE TABLE penstock_details (id {key} NOT NULL PRIMARY KEY, source TEXT, external TEXT, "
        f"metadata TEXT NOT NULL, {checksum})",
        "CREATE UNIQUE INDEX penstock_details_external ON penstock_details (source, external)",
        f"CREATE TABLE penstock_history (id {key} NOT NULL PRIMARY KEY, subscriber TEXT NOT NULL, "
        f"filter TEXT NOT NULL, how TEXT NOT NULL, reason TEXT NOT NULL, time BIGINT NOT NULL, {checksum})",
    ):
        connection.execute(text(words))
    _set_format(connection, 4)


# --- 4 to 5: paces ------------------------------------------------------------------------------


def _add_paces(database: Database, connection: Connection) -> None:
    """Details get a pace. A column is renamed so that earlier versions, which would lose paces, can't write details."""
    key = "INTEGER" if connection.dialect.name == "sqlite" else "BIGINT"
    for words in (
        "ALTER TABLE penstock_details RENAME COLUMN metadata TO described",
        "ALTER TABLE penstock_details ADD COLUMN pace TEXT",
        "CREATE INDEX penstock_details_pace ON penstock_details (id) WHERE pace IS NOT NULL",
        f"CREATE TABLE penstock_held (id {key} NOT NULL, pipeline TEXT NOT NULL, held BIGINT NOT NULL, "
        "time BIGINT NOT NULL, PRIMARY KEY (id, pipeline))",
    ):
        connection.execute(text(words))
    _set_format(connection, 5)


_STEPS: dict[int, UpgradeStep] = {
    1: _add_checksums,
    2: _add_resyncs,
    3: _add_details,
    4: _add_paces,
}
"""By the format that a step starts from."""
