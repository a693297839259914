"""Events and filters at the edges of every type, for whoever says values in another language.

Columns are as narrow as sources have them: a float is a float, not a double, and a tinyint has eight bits. The events
have each value once at least, in one row group each of a Parquet file, so that statistics and dictionaries decide.
"""

import datetime
import random
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

INF, NAN = float("inf"), float("nan")
LARGEST, FLOAT_LARGEST = 1.7976931348623157e308, 3.4028234663852886e38
DOUBLES = [
    -0.0, 0.0, 5e-324, -5e-324, 2.2250738585072014e-308, LARGEST, -LARGEST, INF, -INF, NAN, 0.1, -0.1, 0.5, 2.0,
    float(np.float32(0.1)), 16777216.0, 16777217.0, 600.25, 1234567.5, 12345678.0, 1e16, FLOAT_LARGEST, 1e-45,
]  # fmt: skip
BEYOND = [1e39, 1.1754943508222875e-38, 0.30000000000000004, 99999.99, 1e15, 123456789012345.6]
_NARROW = [float(np.float32(x)) for x in DOUBLES if not FLOAT_LARGEST < abs(x) < INF]
FLOATS = [*_NARROW, float(np.float32(16777218.0))]
UTC = datetime.UTC
TIMES = [
    datetime.datetime(1, 1, 1, tzinfo=UTC),
    datetime.datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC),
    datetime.datetime(1970, 1, 1, tzinfo=UTC),
    datetime.datetime(2024, 2, 29, 12, 30, tzinfo=UTC),
    datetime.datetime(9999, 12, 31, 23, 59, 59, 999_999, UTC),
]
TEXTS = [
    "", "a", "it's", "b\\", "a\0", "${x}", "é", "\U0001f600", "\U0010ffff", "\uffff", "\ud7ff", "\ue000", "GO", "GOb",
    "z" * 250, '"', "--", "%", "a\nb",
]  # fmt: skip


class Column(NamedTuple):
    """A column: its type to Penstock and to Arrow, the values that events have, and what filters compare it with."""

    type: str
    arrow: pa.DataType
    values: list[Any]
    literals: list[Any]


def _column(
    type_: str, arrow: pa.DataType, values: list[Any], more: tuple[Any, ...] = ()
) -> Column:
    literals = [v for v in values if not (isinstance(v, float) and (v != v or abs(v) == INF))]
    return Column(type_, arrow, values, [*literals, *more])


_BIG = 2**63 - 1
WIDEST = f"{'9' * 28}.{'9' * 10}"
COLUMNS = {
    "d": _column("double", pa.float64(), DOUBLES, tuple(BEYOND)),
    "f": _column("float", pa.float32(), FLOATS, (0.1, 16777217.0, LARGEST, *BEYOND)),
    "i": _column("bigint", pa.int64(), [-_BIG - 1, -_BIG, -1, 0, 1, 5, 2**53 + 1, _BIG - 1, _BIG]),
    "y": _column("tinyint", pa.int8(), [-128, -1, 0, 1, 127], (-300, 300, _BIG)),
    "c": _column("decimal(9,2)", pa.decimal128(9, 2),
                 [Decimal(t) for t in ("-9999999.99", "-0.01", "0", "0.01", "5", "9999999.99")],
                 (Decimal("0.005"), Decimal("99999999.9"))),
    "w": _column("decimal(38,10)", pa.decimal128(38, 10),
                 [Decimal(t) for t in (f"-{WIDEST}", "-1E-10", "0", "1E-10", "5", WIDEST)]),
    "s": Column("string", pa.string(), TEXTS, [t for t in TEXTS if "\0" not in t]),
    "day": _column("date", pa.date32(), [t.date() for t in TIMES]),
    "moment": _column("timestamp", pa.timestamp("us", "UTC"), TIMES),
    "flag": _column("boolean", pa.bool_(), [True, False]),
}  # fmt: skip
SCHEMA = {name: column.type for name, column in COLUMNS.items()}
PAIRS = [("d", "f"), ("i", "y"), ("c", "w"), ("day", "moment")]
PATTERNS = ["%b", "a%", "GO%", "_", "%", "\ud7ff%", "\U0010ffff%"]


def events(rng: random.Random) -> pa.Table:
    """Each value of each column at least once, NULL now and then, in random company; and the number of the row."""
    rows = max(len(column.values) for column in COLUMNS.values()) + 6
    found: dict[str, pa.Array] = {}
    for name, column in COLUMNS.items():
        values = [*column.values, None]
        values += rng.choices(values, k=rows - len(values))
        rng.shuffle(values)
        found[name] = pa.array(values, column.arrow)
    return pa.table(found).append_column("row", pa.array(np.arange(rows)))


class Sources(NamedTuple):
    """The same events in memory, in a Parquet file with one event in each row group, and in DuckDB as they are."""

    table: pa.Table
    path: str
    connection: duckdb.DuckDBPyConnection

    def where(self, condition: str) -> tuple[set[int], set[int]]:
        """The rows that DuckDB keeps, of its own table and of the file."""
        queries = [f"SELECT row FROM {source} WHERE {condition}\n" for source in ("events", "file")]
        table, file = ({row for (row,) in self.connection.execute(q).fetchall()} for q in queries)
        return table, file


def sources(rng: random.Random, folder: Path) -> Sources:
    table = events(rng)
    path = str(folder / "events.parquet")
    pq.write_table(table, path, row_group_size=1)
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'America/New_York'")
    connection.execute("SET threads = 1")
    connection.register("arrow_events", table)
    connection.execute("CREATE TABLE events AS SELECT * FROM arrow_events")
    connection.execute(f"CREATE VIEW file AS SELECT * FROM read_parquet('{path}')")
    return Sources(table, path, connection)


def random_filter(rng: random.Random) -> str:
    """One to four conditions."""
    parts = [_leaf(rng) for _ in range(rng.choice([1, 1, 2, 3, 4]))]
    text = parts[0]
    for part in parts[1:]:
        text = f"({text}) {rng.choice(['AND', 'AND', 'AND', 'OR'])} ({part})"
    return text


def _leaf(rng: random.Random) -> str:
    name = rng.choice(["d", "f", "d", "f", *COLUMNS])
    if rng.random() < 0.05:
        return rng.choice("<>=").join(rng.choice(PAIRS))
    if name == "s" and rng.random() < 0.3:
        return f"s LIKE {_written(rng.choice(PATTERNS))}"
    if rng.random() < 0.07:
        return f"{name} IS {rng.choice(['', 'NOT '])}NULL"
    literals = [_written(value) for value in rng.choices(COLUMNS[name].literals, k=16)]
    match rng.randrange(6):
        case 0:
            return f"{name} {rng.choice(['', 'NOT '])}IN ({', '.join(literals[: rng.choice([1, 2, 3, 16])])})"
        case 1:
            return f"{name} BETWEEN {literals[0]} AND {literals[1]}"
    return f"{name} {rng.choice(['=', '<>', '<', '<=', '>', '>='])} {literals[0]}"


def _written(value: Any) -> str:
    """A literal: doubles with an exponent, so that they are what they are to DuckDB, too."""
    match value:
        case bool():
            return str(value).upper()
        case float():
            text = repr(value)
            return text if "e" in text else text + "e0"
        case Decimal():
            return format(value, "f")
        case str():
            return "'" + value.replace("'", "''") + "'"
        case datetime.datetime():
            return f"TIMESTAMPTZ '{value.replace(tzinfo=None).isoformat(' ')}+00'"
        case datetime.date():
            return f"DATE '{value.isoformat()}'"
    return str(value)
