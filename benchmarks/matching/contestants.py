"""Who matches in this process: our engines, on one core, and a join in DuckDB, on all.

Engines deliver their matches, as Arrow lists; the databases only count theirs, which is to their advantage.
"""

import time
from collections.abc import Iterable, Mapping
from typing import Any

import numba
import pyarrow as pa

from benchmarks.matching.measure import STEP
from benchmarks.settings import BATCH
from benchmarks.workloads import Workload
from penstock.base.errors import PenstockError
from penstock.matching import ENGINES, Matcher, Plan

AUTO = "auto"
NAIVE = "naive"


def engine_title(engine: str) -> str:
    """An engine as it is called among other contestants."""
    return f"penstock {engine}"


class EngineContestant:
    """One of our engines, on the plan that all of them share."""

    step = STEP
    has_queries = False
    warm_ups = 1

    def __init__(self, plan: Plan, engine: str, batch: int = BATCH) -> None:
        numba.set_num_threads(1)
        began = time.perf_counter()
        self.matcher = Matcher(plan, engine=engine)
        self.index_seconds = time.perf_counter() - began
        self.engine = self.matcher.engine
        self.is_auto = engine == AUTO
        self.name = engine_title(self.engine)
        self.bytes_per_subscription = self.matcher.stats().bytes_per_subscription
        self._batch = batch
        self._batches: list[pa.RecordBatch] = []

    def load(self, events: pa.RecordBatch) -> None:
        self._batches = [
            events.slice(start, self._batch) for start in range(0, events.num_rows, self._batch)
        ]

    def matches(self) -> int:
        return sum(len(self.matcher.match_batch(batch).values) for batch in self._batches)

    def match(self, event: Mapping[str, Any]) -> list[int]:
        """One event on its own."""
        return self.matcher.match(event)

    def close(self) -> None:
        self._batches = []


def engine_names(wanted: Iterable[str] | None = None) -> list[str]:
    """All engines, or those that are wanted; an error if there is no such engine."""
    known = [AUTO, *ENGINES]
    names = list(wanted or known)
    for name in names:
        if name not in known:
            raise PenstockError(f"no engine {name!r}: there are {', '.join(known)}")
    return names


class DuckContestant:
    """A join of events with rules in DuckDB, which uses all cores."""

    name = "duckdb join"
    step = STEP
    has_queries = True
    warm_ups = 1

    def __init__(self, workload: Workload) -> None:
        import duckdb

        join = workload.join()
        self._query, self._events = join.query, join.events
        self._connection = duckdb.connect()
        self._connection.execute("SET TimeZone = 'UTC'")
        for name, table in join.rules.items():
            self._take(name, table)

    def load(self, events: pa.RecordBatch) -> None:
        self._take("events", self._events(events))

    def matches(self) -> int:
        ((count,),) = self._connection.execute(self._query).fetchall()
        return int(count)

    def close(self) -> None:
        self._connection.close()

    def _take(self, name: str, table: pa.Table) -> None:
        """Into a table of DuckDB's own, which has statistics and is read faster than Arrow's."""
        self._connection.register("arrow_table", table)
        self._connection.execute(f"CREATE OR REPLACE TABLE {name} AS SELECT * FROM arrow_table")
        self._connection.unregister("arrow_table")


def duckdb_missing() -> str | None:
    """Why there is no DuckDB to compare with, or None if there is one."""
    try:
        import duckdb  # noqa: F401
    except ImportError:
        return "duckdb isn't installed (pip install 'penstock[bench]')"
    return None
