"""Queries that both readers and writers make. Each takes an open transaction."""

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sqlalchemy import (
    BigInteger,
    BindParameter,
    Column,
    ColumnElement,
    Connection,
    Integer,
    and_,
    bindparam,
    case,
    insert,
    not_,
    select,
)

from penstock.base.checked_files import checksum_of
from penstock.base.errors import RegistryError
from penstock.registry.bad_rows import BAD_ROW_HINT, WRONG_CHECKSUM
from penstock.registry.checksums import checksum_of_row
from penstock.registry.databases import Database
from penstock.registry.records import Record
from penstock.registry.statements import Statement
from penstock.registry.tables import FORMAT, registry, subscriptions

Ids = npt.NDArray[np.int64]

FEW = 10_000
"""The most ids listed in one statement. For more, a scan of the table is cheaper."""

_s = subscriptions.c
is_removed = _s.removed.cast(Integer).label("removed")
all_columns = (*(column for column in subscriptions.c if column is not _s.removed), is_removed)
"""The columns of a subscription, with `removed` as a number."""

_r = registry.c
_row = select(_r.format, _r.identity, _r.schema, _r.sequence, _r.last_assigned, _r.checksum)
_head, _locked_head = Statement(_row), Statement(_row.with_for_update())


@dataclass(frozen=True, slots=True)
class Head:
    """The registry's one row."""

    identity: str
    schema: str | None
    sequence: int
    last_assigned: int

    @property
    def says(self) -> dict[str, Any]:
        """All that the row says, its format included."""
        return {"format": FORMAT, **asdict(self)}

    @property
    def checksum(self) -> int:
        return checksum_of(self.says)


def live(now: int | BindParameter[int]) -> ColumnElement[bool]:
    """The condition that a subscription isn't removed and its lease hasn't ended."""
    return and_(not_(_s.removed), _s.expires > now)


_find = Statement(select(*subscriptions.c).where(_s.id == bindparam("sid", type_=BigInteger)))


def among(column: ColumnElement[int], ids: Ids) -> ColumnElement[bool]:
    """The condition that a column has one of a few ids."""
    # Integers are written into the statement: databases are bad at ten thousand parameters.
    return column.in_(bindparam("ids", ids.tolist(), expanding=True, literal_execute=True))


def read_head(connection: Connection, lock: bool = False) -> Head:
    """The registry's row; with `lock`, nobody else gets to write until the transaction ends."""
    # SQLite knows no FOR UPDATE, so SQLAlchemy leaves it out: BEGIN IMMEDIATE has locked already.
    row = (_locked_head if lock else _head).run(connection)
    if row is None:
        raise table_damage(registry.name, "it has no row")
    head = Head(*row[1:5])
    if row[0] != FORMAT or not is_intact(head.says, row[5]):
        raise table_damage(registry.name, WRONG_CHECKSUM)
    return head


def is_intact(says: Mapping[str, Any], checksum: int) -> bool:
    """Whether a row, given without its checksum, is as it was written."""
    try:
        return checksum == checksum_of(says)
    except TypeError:  # a BLOB
        return False


def table_damage(table: str, reason: str) -> RegistryError:
    """The error for a table of one row that can't be relied upon."""
    return RegistryError(
        f"the table {table} is damaged: {reason}. Something else than Penstock has changed it: restore the registry "
        "from a backup"
    )


def read_only_row(connection: Connection, column: Column[str]) -> str | None:
    """The value in the only row of a table; None if the table is empty. RegistryError if the row was changed."""
    row = connection.execute(select(column, column.table.c.checksum)).one_or_none()
    if row is None:
        return None
    if not is_intact({column.name: row[0]}, row.checksum):
        raise table_damage(column.table.name, WRONG_CHECKSUM)
    found: str = row[0]
    return found


def keep_only_row(connection: Connection, column: Column[str], says: str) -> None:
    """Write the only row of a table that is empty."""
    values = {"one": 1, column.name: says, "checksum": checksum_of({column.name: says})}
    connection.execute(insert(column.table), values)


def find(connection: Connection, sid: int, now: int) -> Record | None:
    """The live subscription with this id. RegistryError if its row can't be relied upon."""
    row = _find.run(connection, sid=sid)
    if row is None:
        return None
    wrong = _fault(row)
    if wrong is not None:
        raise RegistryError(
            f"row {sid} of {subscriptions.name} can't be read: {wrong}; {BAD_ROW_HINT.format(sid)}"
        )
    *values, removed, _ = row
    record = Record(*map(_decoded, values[:3]), *values[3:])
    return None if removed or record.expires <= now else record


_KINDS = (int, str | None, str | None, bytes | None, int, int, int, int, int)


def _fault(row: Sequence[Any]) -> str | None:
    """What is wrong with a row of a subscription, if anything."""
    values = [*map(_decoded, row[:3]), *row[3:]]
    for column, value, kind in zip(subscriptions.c, values, _KINDS, strict=True):
        if not isinstance(value, kind):
            return f"its {column.name} is of another type than it should be"
    return None if checksum_of_row(*values[:8]) == values[8] else WRONG_CHECKSUM


def _decoded(value: Any) -> Any:
    """The text of a BLOB that is UTF-8; any other value as it is."""
    if isinstance(value, bytes):
        with contextlib.suppress(UnicodeDecodeError):
            return value.decode()
    return value


def present(database: Database, connection: Connection, ids: Ids, now: int) -> tuple[Ids, Ids]:
    """Which of `ids` live subscriptions have, and which dead ones have."""
    if not len(ids):
        return ids, ids
    is_live = case((live(now), 1), else_=0).cast(BigInteger).label("live")
    within = _s.id.between(int(ids.min()), int(ids.max()))
    where = among(_s.id, ids) if len(ids) <= FEW else within
    table = database.fetch(connection, select(_s.id, is_live).where(where))
    there = table.column("id").to_numpy()
    alive = table.column("live").to_numpy() == 1
    asked = np.isin(there, ids)
    return there[asked & alive], there[asked & ~alive]
