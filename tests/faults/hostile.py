"""What means harm: records, documents, subscriptions, rows and operators. Each harms itself, and nobody else."""

import asyncio
import os
import sqlite3
from pathlib import Path

from penstock.operators.define import operator

BAD_RECORDS = (
    '{"id": 1, "price": ',
    '{"id": 1, "price": NaN}x',
    '{"id": 1, "bid": NaN}',
    '{"id": "1e400"}',
    '{"id": 1}],"e":[{"id": 7}',
    '{"id": ' + "9" * 5_000 + "}",
    "[" * 2_000,
    "\\u0000",
    '"',
)
"""Each becomes a dead letter, as do the next."""

BAD_DOCUMENTS = (
    "<news><item>",
    "<news>\ufffe</news>",
    "<!DOCTYPE n [<!ENTITY a 'aa'><!ENTITY b '&a;&a;'>]><n>&b;</n",
    "<n>" * 5_000,
    "",
)

BAD_CHANGES = (
    {"Id": None, "Symbol": "ACME", "Rating": 1, "op": "update", "version": 1},
    {"Id": 1, "Symbol": "ACME", "Rating": 1, "op": "explode", "version": 1},
    {"Id": 1, "Symbol": "ACME", "Rating": 1, "op": "update", "version": None},
)

EXPENSIVE = "symbol = 'nobody' AND " + " AND ".join(f"symbol LIKE '%{n}%x%'" for n in range(500))
"""A filter that no event satisfies, and that would take long if it were evaluated."""

FRAGILE = "fragile(id) < 5"


@operator("fragile", isolate=True)
def fragile(number: int) -> int:
    """The number; some end the process that they are in, and some raise what is no Exception."""
    if ends_process(number):
        os._exit(3)
    if raises(number):
        raise asyncio.CancelledError
    return number


def ends_process(number: int) -> bool:
    return number % 997 == 13


def raises(number: int) -> bool:
    return number % 97 == 29


def spoil_row(database: Path, sid: int) -> None:
    """Another program writes what no filter is into a row of the registry."""
    with sqlite3.connect(database, timeout=60) as other:
        other.execute(
            "UPDATE penstock_subscriptions SET filter = x'ff00', expires = 'never' WHERE id = ?",
            (sid,),
        )
    other.close()
