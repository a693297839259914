"""Sends digests, at ticks that come whether anything is published or not.

    events ─────▶ micro-batches ─▶ gathered ─┐
    documents ──▶ micro-batches ─▶ gathered ─┴─▶ ticks ─▶ digests ─▶ sink        checkpoint/digests

Ticks are the micro-batches of a query that has its own part of the checkpoint; a source of Spark's makes one every so
often. What was gathered lies in the inputs' parts of the checkpoint (`pace_log`). What waits is in the state after the
tick before (`digest_state`). A tick that has nothing to send doesn't call the sink.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from penstock.base.durations import utc_now
from penstock.delivery.notification_shape import (
    DIGEST,
    ID,
    NAMED_READERS,
    READER,
    READERS,
    NotificationShape,
)
from penstock.delivery.pacing import GATHERED
from penstock.delivery.sinks import Batch
from penstock.pipeline.digest_state import (
    Arrival,
    OpenDigest,
    Place,
    Tick,
    TickLog,
    close_due,
    take,
)
from penstock.pipeline.metrics import Report, Reports
from penstock.pipeline.outlets import Outlet
from penstock.pipeline.pace_log import PaceLog
from penstock.pipeline.paced_batches import INTERVAL
from penstock.pipeline.paced_rows import COUNT
from penstock.pipeline.pins import query_id


def digest_field(told: tuple[StructField, ...]) -> StructField:
    """The column of a digest; `told` are the columns of the notifications that it may gather."""
    gathered = StructType([StructField(ID, StringType()), *told])
    return StructField(
        DIGEST,
        StructType(
            [
                StructField("since", TimestampType()),
                StructField("until", TimestampType()),
                StructField("count", LongType()),
                StructField("notifications", ArrayType(gathered)),
            ]
        ),
    )


@dataclass(frozen=True)
class DigestBatches:
    """Sends what is due at each tick. It is picklable, as with Spark Connect it runs in a process of the server.

    `inputs`: the checkpoint and the column of each input that gathers, by its name.
    """

    kind: ClassVar[str] = DIGEST

    outlet: Outlet
    shape: NotificationShape
    inputs: Mapping[str, tuple[str, StructField]]
    reports: Reports

    def __call__(self, frame: DataFrame, number: int, tried: int = 0) -> None:
        """Send what is due. The rows of `frame` say no more than that it is time."""
        ticks = TickLog(self.outlet.checkpoint)
        query = query_id(self.outlet.checkpoint)
        before, known = ticks.before(number), ticks.find(number)
        tick, gathered = self._take(before, known)
        due, after = close_due(tick, tick.now)
        if known is None:
            ticks.keep(number, after)
        if due:
            rows = self._rows(frame.sparkSession, query, due, tick.now)
            self.outlet.write(self.shape.rows(rows, self.kind), Batch(query, number, self.kind))
        self._forget(before)
        ticks.prune(number)
        if gathered or due:
            replayed = known is not None
            self._report(frame.sparkSession, number, gathered, len(due), replayed=replayed)

    # --- steps ----------------------------------------------------------------------------------

    def _take(self, before: Tick, known: Tick | None) -> tuple[Tick, int]:
        """The state with what was gathered since `before`, and how many notifications that is.

        A replay takes exactly what `known` says that this tick has taken.
        """
        now = utc_now() if known is None else known.now
        tick, count = Tick(now, before.taken, before.open), 0
        for name in self.inputs:
            last = before.taken.get(name, -1)
            until = None if known is None else known.taken.get(name, -1)
            for batch in self._log(name).gathered_batches():
                if batch <= last or (until is not None and batch > until):
                    continue
                arrivals = _arrivals(self._gathered((name, batch)))
                tick = take(tick, (name, batch), arrivals, now)
                count += sum(one.count for one in arrivals)
        return tick, count

    def _rows(
        self, spark: SparkSession, query: str, due: Mapping[int, OpenDigest], now: int
    ) -> DataFrame:
        """The digests, as notifications."""
        field = digest_field(tuple(told for _, told in self.inputs.values()))
        schema = StructType([*NAMED_READERS, field])
        arrow = to_arrow_schema(schema, timezone="UTC")
        assert isinstance(field.dataType, StructType)
        entry = arrow.field(DIGEST).type.field("notifications").type.value_type
        wanted = _Contents(self, due)
        entries, sizes, readers = wanted.read(entry)
        ends = pa.array([sum(sizes[:n]) for n in range(len(sizes) + 1)], pa.int32())
        ones = pa.array(range(len(due) + 1), pa.int32())
        ids = list(due)
        opened = [one.window.opened for one in due.values()]
        time = pa.timestamp("us", "UTC")
        digest = pa.StructArray.from_arrays(
            [
                pa.array(opened, pa.int64()).cast(time),
                pa.array([now] * len(due), pa.int64()).cast(time),
                pa.array([one.window.count for one in due.values()], pa.int64()),
                pa.ListArray.from_arrays(ends, entries),
            ],
            fields=list(arrow.field(DIGEST).type),
        )
        columns = [
            pa.array([_name(query, *pair) for pair in zip(ids, opened, strict=True)]),
            pa.ListArray.from_arrays(ones, pa.array(ids, pa.int64())),
            pa.ListArray.from_arrays(ones, pa.array(readers, pa.string())),
            digest,
        ]
        table = pa.Table.from_arrays(columns, names=[ID, *READERS, DIGEST])
        return spark.createDataFrame(table, schema)

    def _forget(self, committed: Tick) -> None:
        """Delete gathered notifications that were sent, as of the last tick that Spark has committed."""
        needed = committed.needed()
        for name in self.inputs:
            for batch, path in self._log(name).gathered_batches().items():
                if batch <= committed.taken.get(name, -1) and (name, batch) not in needed:
                    path.unlink(missing_ok=True)

    def _report(
        self, spark: SparkSession, number: int, gathered: int, sent: int, *, replayed: bool
    ) -> None:
        self.reports.put(
            spark,
            Report(
                kind=self.kind,
                batch=number,
                published=0,
                notifications=sent,
                dead_letters=0,
                snapshot=0,
                sequence=0,
                replayed=replayed,
                latency_ms=None,
                refused=0,
                gathered=gathered,
            ),
        )

    # --- files ----------------------------------------------------------------------------------

    def _log(self, name: str) -> PaceLog:
        return PaceLog(self.inputs[name][0])

    def _gathered(self, place: Place) -> pa.Table:
        name, batch = place
        log = self._log(name)
        return log.read_gathered(log.gathered_batches()[batch])


@dataclass(frozen=True)
class _Contents:
    """Reads the notifications that digests have gathered."""

    batches: DigestBatches
    due: Mapping[int, OpenDigest]

    def read(self, entry: pa.StructType) -> tuple[pa.Array, list[int], list[str | None]]:
        """The entries of all digests one after the other, how many each has, and whom it is for."""
        places = sorted({place for one in self.due.values() for place in one.places})
        found: dict[int, list[pa.Array]] = {sid: [] for sid in self.due}
        names: dict[int, str | None] = {}
        for place in places:
            table = self.batches._gathered(place)
            told = self.batches.inputs[place[0]][1].name
            ids = table[READER[0]].combine_chunks()
            for sid in [sid for sid, one in self.due.items() if place in one.places]:
                rows = table.filter(pc.equal(ids, sid))
                names[sid] = rows[READER[1]][0].as_py()
                found[sid].append(_entries(rows, told, entry))
        parts, sizes = [], []
        for arrays in found.values():
            whole = pa.concat_arrays(arrays)[:GATHERED]
            parts.append(whole)
            sizes.append(len(whole))
        return pa.concat_arrays(parts), sizes, [names[sid] for sid in self.due]


def _entries(rows: pa.Table, told: str, entry: pa.StructType) -> pa.Array:
    """Gathered notifications as entries of a digest, with NULL in the columns of other kinds."""
    columns = [
        rows[field.name].combine_chunks().cast(field.type)
        if field.name in (ID, told)
        else pa.nulls(len(rows), field.type)
        for field in entry
    ]
    return pa.StructArray.from_arrays(columns, fields=list(entry))


def _arrivals(gathered: pa.Table) -> list[Arrival]:
    sums = gathered.group_by([READER[0], INTERVAL]).aggregate([(COUNT, "sum"), (COUNT, "count")])
    rows = sums.sort_by(READER[0]).to_pylist()
    return [
        Arrival(row[READER[0]], row[INTERVAL], row[f"{COUNT}_sum"], row[f"{COUNT}_count"])
        for row in rows
    ]


def _name(query: str, sid: int, opened: int) -> str:
    """The id of a digest, the same in a replay."""
    text = "\x1f".join((query, DIGEST, str(sid), str(opened)))
    return hashlib.sha256(text.encode()).hexdigest()[:32]
