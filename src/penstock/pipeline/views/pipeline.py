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
from penstock.pipeline.outlets import Outlet
from penstock.pipeline.sinks import Sink
from penstock.pipeline.streaming_queries import RunningQuery, StartedQuery
from penstock.pipeline.views.levels import LevelFigures, read_levels
from penstock.pipeline.views.match import PLAN, Views, match_views, plan_of_views
from penstock.registry import Subscriptions
from penstock.views.plan_file import ViewsPlan, read_plan


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
        outlet = Outlet.of(self.sink, self.dead_letter, self.checkpoint, self.trigger, self.name)
        if not self.documents.isStreaming:
            raise PipelineError(
                "a pipeline needs a stream of documents; for those at rest there is match_views"
            )
        if isinstance(self.views, Subscriptions):
            raise PipelineError(
                "a pipeline of documents has the views of a plan, and doesn't follow a registry: give a plan "
                "(plan_views); for documents at rest, match_views takes a registry"
            )
        home = f"{outlet.checkpoint}/penstock/views"
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
        return RunningViews(outlet.start_delivery(rows, f"{home}/letters", f"{home}/levels"), home)


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


class RunningViews(RunningQuery):
    """A pipeline of views that was started."""

    def __init__(self, started: StartedQuery, home: str) -> None:
        super().__init__(started)
        self._levels = Path(home) / "levels"

    def levels(self, batch: int) -> tuple[LevelFigures, ...]:
        """What each level did in a micro-batch: one of the last hundred."""
        return read_levels(self._levels, batch)
