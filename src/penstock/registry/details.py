"""What a subscription has beside its text: an external id by which a load recognises it, metadata, and a pace.

An external id is any text that names a subscription where it comes from: the primary key of a saved search, say. It is
unique within its *source*, a name that a load is given, so that the tables of two applications can be loaded into one
registry. Metadata are names with texts, which a pipeline can hand on with each notification: an address, a channel. A
pace says how often the subscription is notified (`paces`).

Most subscriptions have none of these; those that do have a row in a table of its own.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from sqlalchemy import BigInteger, Connection, bindparam, insert, select

from penstock.base.errors import RegistryError
from penstock.registry.bad_rows import BAD_ROW_HINT, WRONG_CHECKSUM, BadRow
from penstock.registry.checksums import checksum_of_details
from penstock.registry.databases import Database
from penstock.registry.limits import MAX_METADATA, size_of
from penstock.registry.queries import FEW, Ids, among
from penstock.registry.records import NO_DETAILS, Details
from penstock.registry.statements import Statement
from penstock.registry.tables import details as details_table
from penstock.registry.tables import subscriptions

_d = details_table.c
_find = Statement(select(*_d).where(_d.id == bindparam("sid", type_=BigInteger)))


DetailsRow = tuple[int, Details]


def metadata_text(metadata: Mapping[str, str]) -> str:
    """Metadata as they are kept: equal metadata give the same text.

    >>> metadata_text({"email": "a@b.c", "channel": "sms"})
    '{"channel":"sms","email":"a@b.c"}'
    """
    for name, value in metadata.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise RegistryError(f"metadata are names with texts: {name!r} is {value!r}")
    text = json.dumps(dict(metadata), ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    if (wrong := metadata_error(text)) is not None:
        raise RegistryError(wrong)
    return text


def metadata_error(text: str) -> str | None:
    """Why metadata can't be kept, if they can't."""
    size = size_of(text)
    has_nul = "\\u0000" in text and any(
        "\0" in part for pair in json.loads(text).items() for part in pair
    )
    if size is None or has_nul:
        return "the metadata are no text that can be kept: they hold a NUL or half a surrogate pair"
    if size > MAX_METADATA:
        return f"the metadata are {size:,} bytes long: at most {MAX_METADATA:,} are allowed"
    return None


def keep_details(connection: Connection, sid: int, kept: Details) -> None:
    """Write down the details of one subscription, if it has any."""
    if kept != NO_DETAILS:
        row = {"id": sid, **kept._asdict(), "checksum": checksum_of_details(sid, *kept)}
        connection.execute(insert(details_table), row)


def keep_many_details(
    database: Database, connection: Connection, rows: Sequence[DetailsRow]
) -> None:
    """The same for many."""
    written = [
        (sid, *kept, checksum_of_details(sid, *kept)) for sid, kept in rows if kept != NO_DETAILS
    ]
    if written:
        database.insert(connection, details_table, written, len(written))


def find_details(connection: Connection, sid: int) -> Details:
    """The details of one subscription; `NO_DETAILS` if their row isn't as it was written."""
    row = _find.run(connection, sid=sid)
    if row is None or not _is_intact(row):
        return NO_DETAILS
    return Details(*row[1:5])


def read_details(connection: Connection, ids: Ids) -> dict[int, Details]:
    """The details of subscriptions, by id. Rows that aren't as they were written are left out."""
    found: dict[int, Details] = {}
    for start in range(0, len(ids), FEW):
        wanted = select(*_d).where(among(_d.id, ids[start : start + FEW]))
        rows = connection.execute(wanted)
        found |= {row[0]: Details(*row[1:5]) for row in rows if _is_intact(row)}
    return found


def read_paces(connection: Connection) -> list[tuple[int, str, str]]:
    """Of all subscriptions that have a pace: id, pace and text."""
    both = details_table.join(subscriptions, subscriptions.c.id == _d.id)
    wanted = select(*_d, subscriptions.c.filter).select_from(both).where(_d.pace.is_not(None))
    rows = connection.execute(wanted.order_by(_d.id))
    return [(row[0], row[4], row[-1] or "") for row in rows if _is_intact(row[:-1])]


def bad_details(connection: Connection) -> list[BadRow]:
    """The rows that aren't as they were written."""
    rows = connection.execute(select(*_d).order_by(_d.id))
    return [
        BadRow(row[0], "", "", WRONG_CHECKSUM, details_table.name)
        for row in rows
        if not _is_intact(row)
    ]


class External(NamedTuple):
    """The external ids of one source: which subscription has which."""

    source: str
    ids: Ids
    names: pa.StringArray


def read_externals(connection: Connection, source: str) -> External:
    """The external ids of a source. RegistryError if a row isn't as it was written."""
    rows = connection.execute(select(*_d).where(_d.source == source).order_by(_d.id)).all()
    for row in rows:
        if not _is_intact(row):
            raise RegistryError(
                f"row {row[0]} of {details_table.name} can't be read: {WRONG_CHECKSUM}; "
                f"{BAD_ROW_HINT.format(row[0])}"
            )
    ids = np.array([row[0] for row in rows], np.int64)
    return External(source, ids, pa.array([row[2] for row in rows], pa.string()))


def _is_intact(row: Iterable[object]) -> bool:
    *says, checksum = row
    try:
        return checksum == checksum_of_details(*says)  # type: ignore[arg-type]
    except (TypeError, AttributeError):  # a BLOB
        return False
