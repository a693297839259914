"""Micro-batches of changes of tables. Their rows are notifications already, made by the stages on Spark.

A micro-batch that the sink has already is run all the same, and its rows are dropped. Spark goes on only when the state
was written, and the dead letters are needed.

A micro-batch that is tried again after it lost a worker (`retries`) is the same job to Spark, which runs only those
tasks again whose results it hasn't kept. The others wrote their files in an earlier try, so files are kept for all
tries.
"""

import json
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812

from penstock.base.locations import path_of
from penstock.base.remote_paths import AnyPath
from penstock.delivery.notification_shape import ID, READERS, NotificationShape
from penstock.delivery.sinks import Batch
from penstock.pipeline.dead_letter_files import count_dead_letters, dead_letter_rows
from penstock.pipeline.joins.snapshots import JoinSnapshots
from penstock.pipeline.metrics import IN_PROGRESS, Report, Reports, refusals
from penstock.pipeline.micro_batches import UNOBSERVED_AFTER, read_observation
from penstock.pipeline.outlets import Outlet
from penstock.pipeline.pins import query_id
from penstock.pipeline.query_progress import is_registry
from penstock.pipeline.task_files import folders_of, forget
from penstock.registry.kinds import SELECT_JOIN


@dataclass(frozen=True)
class ChangeBatches:
    """Delivers micro-batches of changes. It is picklable, as with Spark Connect it runs in a process of the server."""

    outlet: Outlet
    shape: NotificationShape
    home: str  # the folder of the snapshots
    letters: str  # the folder to which workers write dead letters
    reports: Reports

    def __call__(self, frame: DataFrame, number: int, tried: int = 0) -> None:
        batch = Batch(query_id(self.outlet.checkpoint), number, SELECT_JOIN.name)
        planned = _read_plan(path_of(self.outlet.checkpoint), number)
        folder = path_of(self.letters)
        if not tried:  # files of a process that crashed: its tasks may have been other ones
            forget(folder, number)
        seen = Observation()
        named = frame.withColumn(ID, F.concat(F.lit(f"{batch.query[:8]}-"), F.col(ID)))
        readers = F.coalesce(F.sum(F.size(READERS[0])), F.lit(0)).alias("notifications")
        rows = self.shape.rows(named.observe(seen, readers), batch.kind)
        ran = self.outlet.write(rows, batch)
        counts = (
            read_observation(seen, None if ran else UNOBSERVED_AFTER) if ran is not False else None
        )
        if counts is None:
            frame.write.format("noop").mode("overwrite").save()
        letters = folders_of(folder, number)
        dead = count_dead_letters(letters)
        if dead:
            found = dead_letter_rows(frame.sparkSession, letters, number, planned.time)
            self.outlet.write_dead_letters(found, batch)
            forget(folder, number)
        self._report(frame, batch, planned, counts, dead)

    def _report(
        self,
        frame: DataFrame,
        batch: Batch,
        planned: "_Planned",
        counts: dict[str, Any] | None,
        dead: int,
    ) -> None:
        served = JoinSnapshots(self.home).version(planned.version) if planned.version else None
        aside = {} if served is None else served.set_aside
        reasons = [(sid, Exception(reason)) for sid, (_, reason) in sorted(aside.items())]
        report = Report(
            kind=batch.kind,
            batch=batch.id,
            published=IN_PROGRESS,
            notifications=None if counts is None else int(counts["notifications"]),
            dead_letters=dead,
            snapshot=planned.version,
            sequence=0 if served is None else served.sequence,
            replayed=counts is None,
            latency_ms=None,
            refused=len(aside),
            refusals=refusals(reasons),
        )
        self.reports.put(frame.sparkSession, report)


@dataclass(frozen=True)
class _Planned:
    """What Spark wrote down about a micro-batch before it ran. It is the same in a replay."""

    time: int  # microseconds
    version: int  # of the subscriptions


def _read_plan(checkpoint: AnyPath, number: int) -> _Planned:
    lines = (checkpoint / "offsets" / str(number)).read_text().splitlines()
    versions = [json.loads(line)["version"] for line in lines[2:] if is_registry(line)]
    return _Planned(json.loads(lines[1])["batchTimestampMs"] * 1000, max(versions, default=0))
