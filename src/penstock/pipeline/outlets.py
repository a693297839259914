"""Where a pipeline delivers, and how its queries are started. All kinds of subscriptions share it."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from penstock.base.error_causes import cause
from penstock.base.errors import PipelineError
from penstock.base.locations import path_of
from penstock.base.remote_paths import uri_for_spark
from penstock.delivery.file_sink import FileSink
from penstock.delivery.notification_shape import NotificationShape, explode
from penstock.delivery.sinks import Batch, Sink, TaskSink
from penstock.delivery.task_rows import TaskRows
from penstock.pipeline.dead_letters import COLUMNS as DEAD_LETTER_COLUMNS
from penstock.pipeline.retries import Deliver, SinkFailure, worker_loss
from penstock.pipeline.streaming_queries import StartedQuery, start_query
from penstock.pipeline.triggers import Trigger, trigger_of

_OF_MATCHING = ("penstock.base.errors.SnapshotError", "penstock.base.errors.RegistryError")


@dataclass(frozen=True)
class Outlet:
    """The sinks of a pipeline, its checkpoint folder, its trigger and its name."""

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
        """An outlet from what a user gives. By default dead letters are files in the checkpoint folder."""
        folder = path_of(checkpoint, "checkpoint").absolute()
        letters = dead_letter or FileSink(
            uri_for_spark(folder / "penstock" / "dead-letters"), "json"
        )
        return Outlet(sink, letters, str(folder), trigger_of(trigger), name)

    def check(self, spark: SparkSession, shape: NotificationShape) -> None:
        """Raises PipelineError if something isn't a sink, or can't take the notifications."""
        for sink in (self.sink, self.dead_letter):
            if not isinstance(sink, Sink):
                raise PipelineError(
                    f"not a sink: {sink!r} (it needs guarantee, explode, check and write)"
                )
        self.sink.check(spark, shape.columns(explode=self.sink.explode))
        self.dead_letter.check(spark, DEAD_LETTER_COLUMNS)

    def part(self, name: str, *, alone: bool) -> "Outlet":
        """The outlet of one input, which has a folder of its own in the checkpoint folder.

        In an older checkpoint the one input of a pipeline has the whole folder. A pipeline with a single input may go
        on with such a checkpoint.
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
        """Give the sink a micro-batch, in rows of the form that it takes. Returns what the sink's `write` returns."""
        rows = explode(notifications) if self.sink.explode else notifications
        with self._failures():
            return self.sink.write(rows, batch)

    @property
    def writes_in_tasks(self) -> bool:
        """Whether the sink writes rows in the tasks that make them."""
        return isinstance(self.sink, TaskSink) and self.sink.writes_in_tasks

    def write_in_tasks(self, rows: TaskRows, batch: Batch) -> int | None:
        """Give such a sink a micro-batch. Returns the number of notifications; None if the sink had it already."""
        assert isinstance(self.sink, TaskSink), "asked before"
        with self._failures():
            return self.sink.write_in_tasks(rows, batch)

    def write_dead_letters(self, rows: DataFrame, batch: Batch) -> None:
        """Give the dead letters of a micro-batch to the sink for dead letters."""
        with self._failures():
            self.dead_letter.write(rows, batch)

    @contextmanager
    def _failures(self) -> Iterator[None]:
        """Raise a sink's errors as `SinkFailure`, except those of matching, which runs in the sink's job."""
        try:
            yield
        except Exception as error:
            reason = cause(error)
            if worker_loss(error) is not None or reason.startswith(_OF_MATCHING):
                raise
            if "\n" not in str(error) and not isinstance(error, PySparkException):
                reason = f"{type(error).__name__}: {error}"
            raise SinkFailure(reason, self.checkpoint) from error
