"""DuckDB as the oracle: the truth of many filters for many events in one query.

The events become a DuckDB table with the types as Penstock reads them: every integer 64 bits
wide, floats as doubles, timestamps without a zone in UTC.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

UNKNOWN, FALSE, TRUE = -1, 0, 1
BATCH = 12  # filters in one query: planning grows faster than linearly with the select list


@dataclass(frozen=True)
class Truth:
    """What DuckDB says: a row per filter, a column per event; and the filters it overflows on."""

    values: npt.NDArray[np.int8]
    refused: dict[int, str]

    def matches(self, filter_: int) -> list[int]:
        return [int(i) for i in np.flatnonzero(self.values[filter_] == TRUE)]


class Oracle:
    def __init__(self, events: pa.Table) -> None:
        self.connection = duckdb.connect()
        self.connection.execute("SET TimeZone = 'UTC'")
        self.connection.execute("SET threads = 2")
        self.connection.register("arrow_events", events)
        columns = ", ".join(_widened(field) for field in events.schema)
        self.connection.execute(f"CREATE TABLE events AS SELECT {columns} FROM arrow_events")
        self.rows = events.num_rows

    def truth(self, filters: Sequence[str]) -> Truth:
        filters = [_tried(text) for text in filters]
        values = np.full((len(filters), self.rows), UNKNOWN, np.int8)
        refused: dict[int, str] = {}
        for start in range(0, len(filters), BATCH):
            self._fill(filters, range(start, min(start + BATCH, len(filters))), values, refused)
        return Truth(values, refused)

    def where(self, filter_: str) -> list[int]:
        """The rows that `WHERE` keeps: the promise itself, through DuckDB's optimiser."""
        query = f"SELECT rowid FROM events WHERE {_tried(filter_)}\n ORDER BY rowid"
        return [row for (row,) in self.connection.execute(query).fetchall()]

    def _fill(
        self,
        filters: Sequence[str],
        chosen: range,
        values: npt.NDArray[np.int8],
        refused: dict[int, str],
    ) -> None:
        expressions = ",\n".join(
            f"coalesce(({filters[i]}\n)::TINYINT, -1::TINYINT)" for i in chosen
        )
        try:
            answer = self.connection.execute(
                f"SELECT {expressions} FROM events ORDER BY rowid"
            ).fetchnumpy()
        except duckdb.Error as error:
            if len(chosen) == 1:
                refused[chosen[0]] = str(error).splitlines()[0]
                return
            middle = len(chosen) // 2
            self._fill(filters, chosen[:middle], values, refused)
            self._fill(filters, chosen[middle:], values, refused)
            return
        for i, column in zip(chosen, answer.values(), strict=True):
            values[i] = column


def _tried(text: str) -> str:
    """What may stop a query (see `expressions.py`) is tried, and NULL if it would."""
    return text.replace("+(", "TRY(")


def _widened(field: pa.Field) -> str:
    name = '"' + re.sub('"', '""', field.name) + '"'
    if pa.types.is_integer(field.type):
        return f"{name}::BIGINT AS {name}"
    if pa.types.is_floating(field.type):
        return f"{name}::DOUBLE AS {name}"
    if pa.types.is_timestamp(field.type):
        return f"{name}::TIMESTAMPTZ AS {name}"
    return name
