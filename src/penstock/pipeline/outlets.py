"""Where a pipeline delivers, and how it is started: what the pipelines of all kinds have in common."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from penstock.base.errors import PipelineError
from penstock.pipeline.dead_letters import COLUMNS as DEAD_LETTER_COLUMNS
from penstock.pipeline.delivery import Delivery
from penstock.pipeline.pins import local_path
from penstock.pipeline.retries import Deliver
from penstock.pipeline.sinks import FileSink, Sink
from penstock.pipeline.streaming_queries import StartedQuery, start_query
from penstock.pipeline.triggers import Trigger, trigger_of


@dataclass(frozen=True)
class Outlet:
    """The sinks of a pipeline, its checkpoint folder, and when it looks for something new."""

    sink: Sink
    dead_letter: Sink
    checkpoint: str
    trigger: Trigger
    name: str | None

    @staticmethod
    def of(
        sink: Sink,
        dead_letter: Sink | None,
        checkpoint: str | Path,
        trigger: str,
        name: str | None,
    ) -> "Outlet":
        """What a user says; dead letters are files in the checkpoint folder if nothing is said of them."""
        folder = str(local_path(checkpoint, "checkpoint").absolute())
        letters = dead_letter or FileSink(f"{folder}/penstock/dead-letters", "json")
        return Outlet(sink, letters, folder, trigger_of(trigger), name)

    def check(self, spark: SparkSession, columns: Sequence[str]) -> None:
        """A PipelineError if a sink is none, or can't take rows of these columns."""
        for sink, taken in ((self.sink, columns), (self.dead_letter, DEAD_LETTER_COLUMNS)):
            if not isinstance(sink, Sink):
                raise PipelineError(f"not a sink: {sink!r} (it needs guarantee, check and write)")
            sink.check(spark, taken)

    def start(self, frame: DataFrame, deliver: Deliver) -> StartedQuery:
        """Start a query that delivers each micro-batch of a frame."""
        return start_query(frame, deliver, self.checkpoint, self.trigger, self.name)

    def start_delivery(
        self, notifications: DataFrame, letters: str, levels: str | None = None
    ) -> StartedQuery:
        """Start one whose rows are notifications already; `letters` and `levels` as in `Delivery`."""
        self.check(notifications.sparkSession, notifications.columns)
        deliver = Delivery(self.sink, self.dead_letter, self.checkpoint, letters, levels)
        return self.start(notifications, deliver)
