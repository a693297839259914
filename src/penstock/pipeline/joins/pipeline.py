"""`JoinPipeline`: changes of tables in, notifications of select-joins in a sink, for as long as it runs.

    <checkpoint>/
      offsets/ commits/ state/ …   Spark's own: the changes and the subscriptions of each micro-batch; tuples
      penstock/joins/              snapshots of the subscriptions, how the state is divided, dead letters

A micro-batch that a crash interrupted is replayed with the same changes, the same state and the same subscriptions, so
it sends the same; `sinks` says what a sink does with that.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame

from penstock.base.errors import PipelineError
from penstock.pipeline.joins.match import Frames, Windows, match_joins
from penstock.pipeline.outlets import Outlet
from penstock.pipeline.revival import RevivedQuery
from penstock.pipeline.sinks import Sink
from penstock.pipeline.streaming_queries import RunningQuery
from penstock.registry import Subscriptions


@dataclass(frozen=True, kw_only=True)
class JoinPipeline:
    """Changes of tables in; what the select-joins of a registry get of them, which may change meanwhile, into a sink.

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

    def start(self) -> RunningQuery:
        """Check everything that can be checked, then start."""
        outlet = Outlet.of(self.sink, self.dead_letter, self.checkpoint, self.trigger, self.name)
        home = f"{outlet.checkpoint}/penstock/joins"
        notifications = match_joins(
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
        if not notifications.isStreaming:
            raise PipelineError(
                "a pipeline needs streams of changes; for tables at rest there is match_joins"
            )
        return RevivedQuery(outlet.start_delivery(notifications, f"{home}/letters"))
