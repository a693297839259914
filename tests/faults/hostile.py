"""What means harm: records, documents, changes, subscriptions, patterns, rows, operators. Each harms itself only."""

import asyncio
import os
import sqlite3
from collections.abc import Iterable
from pathlib import Path

from tests.sizes import PATIENCE

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
    "<n>" * 5_000 + "</n>" * 5_000,
    "<n><item/>\0</n>",
    "<n " + " ".join(f"a{n}='x'" for n in range(5_000)) + "/>",
    "<!DOCTYPE n [<!ENTITY a SYSTEM 'file:///etc/hostname'>]><n>&a;</n>",
    "<!DOCTYPE n [<!ENTITY a0 'ha'>"
    + "".join(f"<!ENTITY a{n} '{f'&a{n - 1};' * 9}'>" for n in range(1, 12))
    + "]><n>&a11;</n>",
    "",
)
EXPLOSIVE_DOCUMENT = "<news><item><topic>ACME</topic></item>" + "<n>" * 60 + "</n>" * 60 + "</news>"
EXPLOSIVE_PATTERN = "//n//n//n//n{val}"
"""It has half a million tuples of that document, more than a view may have. Other views get theirs."""

EXPENSIVE_PATTERN = "//item[a{val}][a{val}]"
EXPENSIVE_DOCUMENT = f"<news><item>{'<a>1</a>' * 300}</item></news>"
"""It has 90,000 tuples of that document, as many as a view may have: it is set aside while it runs."""

BAD_CHANGES = (
    {"Id": None, "Symbol": "ACME", "Rating": 1, "op": "update", "version": 1},
    {"Id": 1, "Symbol": "ACME", "Rating": 1, "op": "explode", "version": 1},
    {"Id": 1, "Symbol": "ACME", "Rating": 1, "op": "update", "version": None},
)

EXPENSIVE = "symbol = 'nobody' AND " + " AND ".join(
    f"symbol LIKE '{'_' * n}%'" for n in range(1, 48)
)
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


EXTREME_SELECTS = (
    "SELECT * FROM Stocks JOIN Reviews USING (Symbol) WHERE PER > 1e308 AND Rating >= 1",
    "SELECT * FROM Stocks JOIN Reviews USING (Symbol) "
    "WHERE PER >= -1.7976931348623157e308 AND Rating < 9223372036854775807",
    "SELECT * FROM Stocks JOIN Reviews USING (Symbol) WHERE Rating <> -9223372036854775808",
    "SELECT * FROM Stocks JOIN Reviews USING (Symbol) WHERE Rating >= 99999999999999999999999",
    "SELECT * FROM Stocks JOIN Reviews USING (Symbol) WHERE PER BETWEEN 50 AND 20",
    "SELECT * FROM Stocks JOIN Reviews USING (Symbol) WHERE Symbol > '\U0010ffff' OR Symbol = ''",
    "SELECT * FROM Stocks JOIN Reviews USING (Symbol) WHERE PER = 4.9e-324 OR PER > 30",
    f"SELECT * FROM Reviews WHERE Rating IN ({', '.join(map(str, range(5, 1_000)))})",
    "SELECT * FROM Reviews WHERE "
    + " AND ".join(f"Symbol NOT LIKE '{'_' * n}'" for n in range(20, 40)),
)
"""Constants at the ends of their types, contradictions, tests that no index decides: all are served."""

EXPENSIVE_SELECT = "SELECT * FROM Reviews WHERE " + " AND ".join(
    f"Symbol NOT LIKE '{'_' * n}'" for n in range(20, 120)
)
"""A select-join of which nearly all is tested for every tuple: it is set aside while it runs."""

MISFITS = (
    "SELECT * FROM Nowhere",
    "SELECT * FROM Stocks JOIN",
    "SELECT",
    "SELECT * FROM Stocks WHERE PER > 'x'",
    "SELECT * FROM Reviews WHERE " + "(" * 5_000,
    "SELECT * FROM Reviews WHERE Rating > 1" + " AND Rating > 1" * 100_000,
)
"""Texts that `subscribe` refuses: another program writes them into the registry."""

SPOILED = (
    ("filter = x'ff00', expires = 'never'",),
    ("filter = CAST(x'53454c454354ff' AS TEXT)",),
    ("subscriber = x'fe'",),
    ("expires = 1e300",),
    *(("filter = ?", text) for text in MISFITS),
)
"""What another program does to a row, with what it gives for the marks."""


def spoil_rows(database: Path, rows: Iterable[int]) -> None:
    """Another program writes what no subscription is into rows of the registry, into each something else."""
    with sqlite3.connect(database, timeout=PATIENCE) as other:
        for row, (change, *given) in zip(rows, SPOILED, strict=True):
            other.execute(f"UPDATE penstock_subscriptions SET {change} WHERE id = ?", (*given, row))
    other.close()
