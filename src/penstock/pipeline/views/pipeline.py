"""`ViewPipeline`: documents in, what every view gets in a sink, for as long as it runs.

    <checkpoint>/
      offsets/ commits/ …    Spark's own: the documents of each micro-batch
      penstock/views/        the plan, dead letters on their way, what each level did

There is no state: a micro-batch that a crash interrupted is replayed with the same documents and the same plan, and
sends the same. So a plan is the pipeline's for its life: another one needs another checkpoint.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from pyspark.sql import DataFrame

from penstock.base.errors import PipelineError
from penstock.pipeline.dead_letters import COLUMNS as DEAD_LETTER_COLUMNS
from penstock.pipeline.delivery import Delivery
from penstock.pipeline.pins import local_path
from penstock.pipeline.sinks import FileSink, Sink
from penstock.pipeline.streaming_queries import RunningQuery, StartedQuery, check_sink, start_query
from penstock.pipeline.task_files import forget, forget_before
from penstock.pipeline.triggers import trigger_of
from penstock.pipeline.views.levels import LevelFigures, read_levels
from penstock.pipeline.views.match import PLAN, Views, match_views, plan_of_views
from penstock.views.plan_file import ViewsPlan, read_plan

KEPT = 100
"""Micro-batches whose figures are kept: as many as Spark keeps logs of."""


@dataclass(frozen=True, kw_only=True)
class ViewPipeline:
    """Documents of a stream in, what the views of a plan get of them into a sink.

    - `documents`, `views`, `document`, `id`, `format`, `explode`: as in `match_views`.
    - `sink`, `checkpoint`, `dead_letter`, `trigger`, `name`: as in `Pipeline`.
    """

    documents: DataFrame
    views: Views
    sink: Sink
    checkpoint: str | Path
    dead_letter: Sink | None = None
    trigger: str = "1 second"
    document: str = "document"
    id: str = "id"
    format: str = "xml"
    explode: bool = False
    name: str | None = None

    def start(self) -> "RunningViews":
        """Check everything that can be checked, then start."""
        trigger = trigger_of(self.trigger)
        if not self.documents.isStreaming:
            raise PipelineError(
                "a pipeline needs a stream of documents; for those at rest there is match_views"
            )
        checkpoint = str(local_path(self.checkpoint, "checkpoint").absolute())
        home = f"{checkpoint}/penstock/views"
        _check_plan(Path(home) / PLAN, plan_of_views(self.views))
        rows = match_views(
            self.documents,
            self.views,
            document=self.document,
            id=self.id,
            format=self.format,
            explode=self.explode,
            folder=home,
            levels=f"{home}/levels",
            dead_letters=f"{home}/letters",
        )
        dead_letter = self.dead_letter or FileSink(f"{checkpoint}/penstock/dead-letters", "json")
        for sink, columns in ((self.sink, rows.columns), (dead_letter, DEAD_LETTER_COLUMNS)):
            check_sink(sink, rows.sparkSession, columns)
        delivery = Delivery(self.sink, dead_letter, checkpoint, f"{home}/letters")
        deliver = _Deliver(delivery, f"{home}/levels")
        return RunningViews(start_query(rows, deliver, checkpoint, trigger, self.name), home)


def _check_plan(path: Path, plan: ViewsPlan) -> None:
    """Refuse another plan than the one that the checkpoint was made with."""
    if not path.exists():
        return
    known = read_plan(path)
    same = (
        known.texts == plan.texts
        and np.array_equal(known.fed.start, plan.fed.start)
        and np.array_equal(known.fed.inputs, plan.fed.inputs)
    )
    if not same:
        raise PipelineError(
            "the checkpoint is of another plan, and a micro-batch may have to be replayed with that: "
            "start the new plan with a new checkpoint"
        )


@dataclass(frozen=True)
class _Deliver:
    """A micro-batch: the figures of one that is replayed are made anew, and old ones go."""

    delivery: Delivery
    levels: str

    def __call__(self, frame: DataFrame, number: int, tried: int = 0) -> None:
        forget(Path(self.levels), number)
        self.delivery(frame, number, tried)
        forget_before(Path(self.levels), number + 1 - KEPT)


class RunningViews(RunningQuery):
    """A pipeline of views that was started."""

    def __init__(self, started: StartedQuery, home: str) -> None:
        super().__init__(started)
        self._levels = Path(home) / "levels"

    def levels(self, batch: int) -> tuple[LevelFigures, ...]:
        """What each level did in a micro-batch: one of the last hundred."""
        return read_levels(self._levels, batch)
