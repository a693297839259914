"""The data path: the core on Spark, batch and streaming, classic and Connect.

frames          `match`: a DataFrame of events in, the same with their subscriptions out
table_function  `register`: the same as a table function of SQL
streaming       `Pipeline`: streaming queries that follow the registry, one for each of its intakes
intakes         what a pipeline takes in: events, changes of tables, documents
micro_batches   one micro-batch, from what was published to notifications;  event_batches: of events
paced_batches   what paces hold back of it;  paced_rows: in tasks;  pace_log: written down
digest_batches  digests, sent by ticks;  digest_state: what waits for them
reader_names    whom notifications are for
streaming_queries  starting one, and what is in hand once it runs;  outlets: where it delivers
retries         micro-batches that lose workers are delivered again;  revival: queries that lose a source go on
feedback        what workers have learned of operators;  operator_calls: how often these were called
read_counts     how many events tasks have read
running_costs   what subscriptions cost while they run
checkpoints     what Spark writes is on the disk in time;  checkpoint_locks: one driver at a time
pins            what each micro-batch was matched with, for replays
sources         where events come from; records that aren't events become dead_letters
metrics         figures, per micro-batch and in all
config          a pipeline from a YAML file;  config_parts: its parts;  config_words: what is wrong with one
schema_texts    schemas as text
triggers        when a pipeline looks for new events
session         a Spark session for one machine
dead_letter_files  those that workers find;  task_files: what tasks leave for the driver beside their rows
halving         work that one record fails
joins/          `match_joins`, and micro-batches of changes: what each select-join subscriber lacks
views/          `match_views`, and micro-batches of documents; graphs of views as a job
wanted_events   micro-batches of which only what anybody could want is read
interest        what anybody could want, also as a Spark column (interest_column)
"""

from typing import TYPE_CHECKING

from penstock.base.fronts import front

if TYPE_CHECKING:
    from penstock.pipeline.config import PipelineConfig, read_config
    from penstock.pipeline.frames import match
    from penstock.pipeline.intakes import ViewOptions
    from penstock.pipeline.joins.match import JoinOptions, match_joins
    from penstock.pipeline.joins.notification_rows import messages_of
    from penstock.pipeline.metrics import BatchMetrics, Metrics
    from penstock.pipeline.session import local_session
    from penstock.pipeline.sources import Source
    from penstock.pipeline.streaming import Pipeline, RunningPipeline
    from penstock.pipeline.views.levels import LevelFigures, read_levels
    from penstock.pipeline.views.match import match_views

__getattr__ = front(
    "penstock.pipeline",
    {
        "config": ("PipelineConfig", "read_config"),
        "frames": ("match",),
        "intakes": ("ViewOptions",),
        "joins.match": ("JoinOptions", "match_joins"),
        "joins.notification_rows": ("messages_of",),
        "metrics": ("BatchMetrics", "Metrics"),
        "session": ("local_session",),
        "sources": ("Source",),
        "streaming": ("Pipeline", "RunningPipeline"),
        "views.levels": ("LevelFigures", "read_levels"),
        "views.match": ("match_views",),
    },
)

__all__ = [
    "BatchMetrics",
    "JoinOptions",
    "LevelFigures",
    "Metrics",
    "Pipeline",
    "PipelineConfig",
    "RunningPipeline",
    "Source",
    "ViewOptions",
    "local_session",
    "match",
    "match_joins",
    "match_views",
    "messages_of",
    "read_config",
    "read_levels",
]
