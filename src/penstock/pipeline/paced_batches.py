"""Decides who gets what of a micro-batch whose subscriptions have paces, before the sink sees it.

    found ─▶ kept ─┬─▶ arrivals of paced subscriptions ─▶ the rule (`delivery.pacing`) ─▶ written down (`pace_log`)
                   └─▶ rows without what is held back ◀──────────────┘
                                    └─▶ sink

The decision needs what all tasks have found, so a micro-batch with paces takes one more job. It is still matched only
once: Spark keeps what was found until the sink has it. A replay reads the decision, and needs no such job. Without
paces there is neither a decision nor a job.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import LongType, StringType, StructField, StructType

from penstock.base.sql_names import quote_name, quote_path
from penstock.delivery.notification_shape import ID, READER, READERS
from penstock.delivery.pacing import GATHERED, admit_all
from penstock.delivery.task_rows import Batches, TaskRows
from penstock.pipeline.pace_log import PacedBatch, PaceLog
from penstock.pipeline.paced_rows import COUNT, TIME, ArrivalWork, HoldWork, first_arrivals
from penstock.pipeline.pins import Pin
from penstock.registry.paces import Pace

INTERVAL = "interval"
_NOTHING = PacedBatch({}, {}, 0, 0)


@dataclass(frozen=True)
class PacedRows:
    """The rows that the sink gets, and what became of the others. Spark keeps `kept` until the rows are written."""

    rows: TaskRows
    batch: PacedBatch
    kept: DataFrame | None

    def release(self) -> None:
        """Let Spark drop `kept`: the rows are written, or won't be."""
        if self.kept is not None:
            self.kept.unpersist()


@dataclass(frozen=True)
class Pacing:
    """Holds a query to the paces of its subscriptions.

    `told`: the column that says what a subscriber is told. `digests`: whether the pipeline sends digests; if it
    doesn't, subscriptions that ask for digests get nothing. `times`: the attribute of events that orders arrivals.
    """

    log: PaceLog
    told: StructField
    digests: bool
    times: str | None

    def apply(self, found: TaskRows, pin: Pin, paces: Mapping[int, Pace]) -> PacedRows:
        """The part of what was found that the sink gets."""
        served = {sid: pace for sid, pace in paces.items() if self.digests or pace.most is not None}
        batch, kept = self.log.find_batch(pin.batch) if served else _NOTHING, None
        if batch is None:
            kept = found.frame().persist()
            found = TaskRows(kept, _as_they_are, found.schema)
            try:
                batch = self._decide(kept, pin, served)
                self.log.keep_batch(pin.batch, batch)
            except BaseException:
                kept.unpersist()
                raise
        through = {sid: frozenset(batch.through.get(sid, ())) for sid in paces}
        return PacedRows(found.then(HoldWork(through).run, found.schema), batch, kept)

    def _decide(self, kept: DataFrame, pin: Pin, paces: Mapping[int, Pace]) -> PacedBatch:
        limits = {sid: pace for sid, pace in paces.items() if pace.most is not None}
        digests = paces.keys() - limits.keys()
        most = {sid: pace.most or 0 for sid, pace in limits.items()}
        arrivals = self._arrivals(kept, most | dict.fromkeys(digests, GATHERED), digests)
        counts = _sums(arrivals)
        before = self.log.windows_before(pin.batch)
        arrived = {sid: count for sid, count in counts.items() if sid in limits}
        allowed, windows = admit_all(limits, before, arrived, pin.now)
        gathered = arrivals.filter(pc.is_in(arrivals[READER[0]], value_set=_int64s(digests)))
        if len(gathered):
            self.log.keep_gathered(pin.batch, _with_intervals(gathered, paces).drop_columns([TIME]))
        return PacedBatch(
            through=_first_ids(arrivals, allowed),
            windows=windows,
            held=sum(arrived.values()) - sum(allowed.values()),
            gathered=sum(counts.values()) - sum(arrived.values()),
        )

    def _arrivals(self, kept: DataFrame, most: Mapping[int, int], digests: set[int]) -> pa.Table:
        """The first arrivals of all paced subscriptions, in order."""
        time = "CAST(NULL AS bigint)"
        if self.times is not None:
            path = quote_path(f"{self.told.name}.{self.times}")
            time = f"unix_micros(try_cast({path} AS timestamp))"
        named = [quote_name(name) for name in (ID, *READERS, self.told.name)]
        records = kept.selectExpr(*named, f"{time} AS {TIME}")
        schema = StructType(
            [
                StructField(READER[0], LongType()),
                StructField(READER[1], StringType()),
                StructField(TIME, LongType()),
                StructField(ID, StringType()),
                StructField(self.told.name, self.told.dataType),
                StructField(COUNT, LongType()),
            ]
        )
        work = ArrivalWork(most, frozenset(digests), self.told.name)
        found = TaskRows(records, work.run, schema).frame().toArrow()
        return first_arrivals(found.cast(to_arrow_schema(schema, timezone="UTC")), most)


def _as_they_are(batches: Batches) -> Iterator[pa.RecordBatch]:
    return iter(batches)


def _sums(arrivals: pa.Table) -> dict[int, int]:
    """How many have arrived, by subscription."""
    sums = arrivals.group_by(READER[0]).aggregate([(COUNT, "sum")])
    return dict(zip(sums[READER[0]].to_pylist(), sums[f"{COUNT}_sum"].to_pylist(), strict=True))


def _first_ids(arrivals: pa.Table, allowed: Mapping[int, int]) -> dict[int, tuple[str, ...]]:
    """The ids of the first arrivals, as many as each subscription is allowed."""
    found: dict[int, list[str]] = {}
    pairs = zip(arrivals[READER[0]].to_pylist(), arrivals[ID].to_pylist(), strict=True)
    for sid, name in pairs:
        if sid in allowed and len(found.setdefault(sid, [])) < allowed[sid]:
            found[sid].append(name)
    return {sid: tuple(names) for sid, names in found.items() if names}


def _with_intervals(gathered: pa.Table, paces: Mapping[int, Pace]) -> pa.Table:
    intervals = [paces[sid].interval for sid in gathered[READER[0]].to_pylist()]
    return gathered.append_column(INTERVAL, pa.array(intervals, pa.int64()))


def _int64s(ids: set[int]) -> pa.Array:
    return pa.array(sorted(ids), pa.int64())
