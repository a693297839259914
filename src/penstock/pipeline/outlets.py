"""Where a pipeline delivers, and how its queries are started: what all kinds have in common."""

from dataclasses import dataclass, replace
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from penstock.base.errors import PipelineError
from penstock.base.locations import path_of
from penstock.base.remote_paths import uri_for_spark
from penstock.delivery.file_sink import FileSink
from penstock.delivery.notification_shape import NotificationShape, explode
from penstock.delivery.sinks import Batch, Sink, TaskSink
from penstock.delivery.task_rows import TaskRows
from penstock.pipeline.dead_letters import COLUMNS as DEAD_LETTER_COLUMNS
from penstock.pipeline.retries import Deliver
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
        folder = path_of(checkpoint, "checkpoint").absolute()
        letters = dead_letter or FileSink(
            uri_for_spark(folder / "penstock" / "dead-letters"), "json"
        )
        return Outlet(sink, letters, str(folder), trigger_of(trigger), name)

    def check(self, spark: SparkSession, shape: NotificationShape) -> None:
        """A PipelineError if a sink is none, or can't take the notifications."""
        for sink in (self.sink, self.dead_letter):
            if not isinstance(sink, Sink):
                raise PipelineError(
                    f"not a sink: {sink!r} (it needs guarantee, explode, check and write)"
                )
        self.sink.check(spark, shape.columns(explode=self.sink.explode))
        self.dead_letter.check(spark, DEAD_LETTER_COLUMNS)

    def part(self, name: str, *, alone: bool) -> "Outlet":
        """The same for one of its inputs, which has a folder of its own in the checkpoint folder.

        A pipeline that has one input alone may go on in a checkpoint folder that was made for that one.
        """
        folder = path_of(self.checkpoint)
        if (folder / "offsets").is_dir():
            if alone:
                return self
            raise PipelineError(
                f"the checkpoint folder {self.checkpoint} was made by a version of Penstock whose pipelines had one "
                "input: give another folder to one that has several"
            )
        named = None if self.name is None else f"{self.name} {name}"
        return replace(self, checkpoint=str(folder / name), name=named)

    def start(self, frame: DataFrame, deliver: Deliver) -> StartedQuery:
        """Start a query that delivers each micro-batch of a frame."""
        return start_query(frame, deliver, self.checkpoint, self.trigger, self.name)

    def write(self, notifications: DataFrame, batch: Batch) -> bool | None:
        """Give the sink a micro-batch, in rows of the form that it takes; what the sink says of it."""
        return self.sink.write(
            explode(notifications) if self.sink.explode else notifications, batch
        )

    @property
    def writes_in_tasks(self) -> bool:
        """Whether the sink takes rows where tasks make them."""
        return isinstance(self.sink, TaskSink) and self.sink.writes_in_tasks

    def write_in_tasks(self, rows: TaskRows, batch: Batch) -> int | None:
        """Give such a sink a micro-batch: how many notifications that is, None if it had it."""
        assert isinstance(self.sink, TaskSink), "asked before"
        return self.sink.write_in_tasks(rows, batch)
