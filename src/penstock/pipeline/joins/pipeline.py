"""`JoinPipeline`: changes of tables in, notifications of select-joins in a sink, for as long as it runs.

    <checkpoint>/
      offsets/ commits/ state/ …   Spark's own: the changes and the subscriptions of each micro-batch; tuples
      penstock/joins/              snapshots of the subscriptions, how the state is divided, dead letters

A micro-batch that a crash interrupted is replayed with the same changes, the same state and the same subscriptions, so
it sends the same; what the sink makes of that is in `sinks`. If the sink has it already, it is run all the same, to
nowhere: Spark goes on only when the state of a micro-batch has been written.
"""

import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.query import StreamingQuery

from penstock.errors import PipelineError
from penstock.pipeline.batch import UNOBSERVED_AFTER, observed
from penstock.pipeline.dead_letters import COLUMNS as DEAD_LETTER_COLUMNS
from penstock.pipeline.feedback import failure_letters
from penstock.pipeline.joins.changes import forget_letters, read_letters
from penstock.pipeline.joins.match import Frames, Windows, match_joins
from penstock.pipeline.pins import local_path, query_id
from penstock.pipeline.sinks import Batch, FileSink, Sink
from penstock.pipeline.streaming import cause
from penstock.pipeline.triggers import trigger_of
from penstock.registry import Subscriptions

_ID = "notification_id"


@dataclass(frozen=True, kw_only=True)
class JoinPipeline:
    """Changes of tables, told to the select-join subscriptions of a registry that may change meanwhile, into a sink.

    - `changes`, `op`, `version`, `before_image`, `windows`, `alone`, `buckets`, `explode`: as in `match_joins`.
    - `subscriptions`: a registry with a URL, or the URL.
    - `sink`, `checkpoint`, `dead_letter`, `trigger`, `name`: as in `Pipeline`.
    """

    changes: DataFrame | Frames
    subscriptions: Subscriptions | str
    sink: Sink
    checkpoint: str | Path
    dead_letter: Sink | None = None
    trigger: str = "1 second"
    explode: bool = False
    op: str = "op"
    version: str = "version"
    before_image: str = "before"
    windows: Windows | None = None
    alone: Iterable[str] | None = None
    buckets: int | None = None
    name: str | None = None

    def start(self) -> "RunningJoins":
        """Check everything that can be checked, then start."""
        trigger = trigger_of(self.trigger)
        checkpoint = str(local_path(self.checkpoint, "checkpoint").absolute())
        home = f"{checkpoint}/penstock/joins"
        told = match_joins(
            self.changes,
            self.subscriptions,
            explode=self.explode,
            op=self.op,
            version=self.version,
            before_image=self.before_image,
            windows=self.windows,
            alone=self.alone,
            buckets=self.buckets,
            snapshots=home,
        )
        if not told.isStreaming:
            raise PipelineError(
                "a pipeline needs streams of changes; for tables at rest there is match_joins"
            )
        dead_letter = self.dead_letter or FileSink(f"{checkpoint}/penstock/dead-letters", "json")
        for sink, columns in ((self.sink, told.columns), (dead_letter, DEAD_LETTER_COLUMNS)):
            if not isinstance(sink, Sink):
                raise PipelineError(f"not a sink: {sink!r} (it needs guarantee, check and write)")
            sink.check(told.sparkSession, columns)
        writer = (
            told.writeStream.foreachBatch(_Deliver(self.sink, dead_letter, checkpoint, home))
            .outputMode("append")
            .option("checkpointLocation", checkpoint)
            .trigger(**trigger.arguments())
        )
        if self.name is not None:
            writer = writer.queryName(self.name)
        try:
            return RunningJoins(writer.start())
        except PySparkException as error:
            raise PipelineError(
                f"the pipeline can't start: {str(error).splitlines()[0]}"
            ) from error


@dataclass(frozen=True)
class _Deliver:
    """What is done with each micro-batch; picklable, as with Spark Connect it runs in a process of the server."""

    sink: Sink
    dead_letter: Sink
    checkpoint: str
    home: str

    def __call__(self, frame: DataFrame, number: int) -> None:
        query = query_id(self.checkpoint)
        batch = Batch(query, number)
        folder = Path(self.home) / "letters"
        forget_letters(folder, number)
        seen = Observation()
        named = frame.withColumn(_ID, F.concat(F.lit(f"{query[:8]}-"), F.col(_ID)))
        ran = self.sink.write(named.observe(seen, F.count(F.lit(1)).alias("rows")), batch)
        if ran is None:
            ran = observed(seen, UNOBSERVED_AFTER) is not None
        if not ran:
            frame.write.format("noop").mode("overwrite").save()
        letters = read_letters(folder, number)
        if letters:
            rows = failure_letters(frame.sparkSession, letters, number, self._time(number))
            self.dead_letter.write(rows, batch)
            forget_letters(folder, number)

    def _time(self, number: int) -> int:
        """When Spark planned the micro-batch: the same in a replay."""
        lines = (Path(self.checkpoint) / "offsets" / str(number)).read_text().splitlines()
        found: Mapping[str, Any] = json.loads(lines[1])
        return int(found["batchTimestampMs"]) * 1000


class RunningJoins:
    """A pipeline that was started, and how to end it. As a context manager it stops itself."""

    def __init__(self, query: StreamingQuery) -> None:
        self.query = query

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def is_active(self) -> bool:
        """Whether it still runs."""
        return bool(self.query.isActive)

    def stop(self, timeout: float = 30.0) -> None:
        """Stop after the micro-batch that is being worked on. One that takes over `timeout` seconds is broken off."""
        deadline = time.monotonic() + timeout
        while (
            self.query.isActive
            and self.query.status["isTriggerActive"]
            and time.monotonic() < deadline
        ):
            time.sleep(0.01)
        self.query.stop()

    def await_termination(self, timeout: float | None = None) -> bool:
        """Wait until it ends, or `timeout` seconds; whether it has ended. A `PipelineError` if it failed."""
        try:
            ended = self.query.awaitTermination(None if timeout is None else max(1, round(timeout)))
        except PySparkException as error:
            raise PipelineError(f"the pipeline failed: {cause(error)}") from error
        return timeout is None or bool(ended)

    def process_available(self) -> None:
        """Wait until everything that there is at this moment has been delivered: for tests and demos."""
        try:
            self.query.processAllAvailable()
        except PySparkException as error:
            raise PipelineError(f"the pipeline failed: {cause(error)}") from error
