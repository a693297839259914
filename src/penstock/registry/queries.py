"""Questions to the tables that readers and writers both ask. Each takes an open transaction."""

import contextlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sqlalchemy import (
    BigInteger,
    BindParameter,
    ColumnElement,
    Connection,
    and_,
    bindparam,
    case,
    not_,
    select,
)

from penstock.errors import RegistryError
from penstock.registry.databases import Database
from penstock.registry.records import Record
from penstock.registry.statements import Statement
from penstock.registry.tables import registry, subscriptions

Ids = npt.NDArray[np.int64]

FEW = 10_000
"""Ids listed in one statement. For more, a scan of the table is cheaper."""

_s = subscriptions.c
record_columns = (
    _s.id,
    _s.subscriber,
    _s.filter,
    _s.ticket,
    _s.created,
    _s.expires,
    _s.sequence,
)


_row = select(registry.c.identity, registry.c.schema, registry.c.sequence, registry.c.last_id)
_head, _locked_head = Statement(_row), Statement(_row.with_for_update())


@dataclass(frozen=True, slots=True)
class Head:
    """The registry's one row."""

    identity: str
    schema: str | None
    sequence: int
    last_id: int


def live(now: int | BindParameter[int]) -> ColumnElement[bool]:
    """The condition that a subscription is there and its lease hasn't ended."""
    return and_(not_(_s.removed), _s.expires > now)


_find = Statement(
    select(*record_columns).where(
        _s.id == bindparam("sid", type_=BigInteger), live(bindparam("now", type_=BigInteger))
    )
)


def among(ids: Ids) -> ColumnElement[bool]:
    """The condition that a subscription has one of a few ids."""
    # Integers are written into the statement: no database takes ten thousand parameters gladly.
    return _s.id.in_(bindparam("ids", ids.tolist(), expanding=True, literal_execute=True))


def read_head(connection: Connection, lock: bool = False) -> Head:
    """The registry's row; with `lock`, nobody else gets to write until the transaction ends."""
    # SQLite knows no FOR UPDATE, so SQLAlchemy leaves it out: BEGIN IMMEDIATE has locked already.
    return Head(*(_locked_head if lock else _head).run(connection))


def find(connection: Connection, sid: int, now: int) -> Record | None:
    """The live subscription with this id."""
    row = _find.run(connection, sid=sid, now=now)
    if row is None:
        return None
    record = Record(*map(_decoded, row[:3]), *row[3:])
    kinds = {"subscriber": str, "filter": str, "created": int, "expires": int}
    wrong = [name for name, kind in kinds.items() if not isinstance(getattr(record, name), kind)]
    if wrong:
        raise RegistryError(
            f"row {sid} of {subscriptions.name} can't be read: its {wrong[0]} is of another type than it should be; "
            f"another program has written it: mend the row, or end it (penstock unsubscribe {sid} --force)"
        )
    return record


def _decoded(value: Any) -> Any:
    """A BLOB as its text, if it is one."""
    if isinstance(value, bytes):
        with contextlib.suppress(UnicodeDecodeError):
            return value.decode()
    return value


def present(database: Database, connection: Connection, ids: Ids, now: int) -> tuple[Ids, Ids]:
    """Those of `ids` that live subscriptions have, and those that dead ones have."""
    if not len(ids):
        return ids, ids
    is_live = case((live(now), 1), else_=0).cast(BigInteger).label("live")
    within = _s.id.between(int(ids.min()), int(ids.max()))
    where = among(ids) if len(ids) <= FEW else within
    table = database.fetch(connection, select(_s.id, is_live).where(where))
    there = table.column("id").to_numpy()
    alive = table.column("live").to_numpy() == 1
    asked = np.isin(there, ids)
    return there[asked & alive], there[asked & ~alive]
