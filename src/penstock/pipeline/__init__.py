"""The data path: the core on Spark, batch and streaming, classic and Connect.

streaming       `Pipeline`: streaming queries that follow the registry, one for each intake
intakes         what a pipeline takes in: events, changes of tables, documents
sources         where these come from;  spark_packages: the packages that sources and sinks need
streaming_queries  starts and stops a query;  outlets: the sinks of a pipeline;  triggers: when it looks for new events
micro_batches   one micro-batch, from what was published to notifications;  event_batches: of events
pins            which snapshot each micro-batch is matched with, for replays
match_work      matches whole events on a worker;  asked_attributes: only the attributes that filters ask for;
                equal_keys: tells equal events apart;  halving: finds the record that makes work fail;
                reader_names: subscribers' names
paced_batches   which notifications paces hold back;  paced_rows: in tasks;  pace_log: the decisions, written down
digest_batches  digests, sent by ticks;  digest_state: what waits for them
retries         delivers a micro-batch again;  revival: starts a query again that lost the process of a source
checkpoints     syncs what Spark writes to a checkpoint;  checkpoint_locks: one driver at a time
dead_letters    records that aren't events, and why;  dead_letter_files: those that workers find
task_files      files that tasks write for the driver;  feedback: what they learned of operators, and failures;
                operator_calls: calls of operators;  read_counts: events read;  spool: lines, while the job runs
running_costs   what subscriptions cost while they run
wanted_events   reads only those events of a micro-batch that somebody could want
metrics         figures, per micro-batch and in total;  query_progress: what Spark says of its queries
frames          `match`: adds to each event of a DataFrame the subscriptions that it matches
table_function  `register`: `match` as a table function of SQL
interest        what anybody could want, also as a Spark column (interest_column)
config          a pipeline from a YAML file;  config_parts, sink_parts: its parts;  config_values: their values;
                config_words: what is wrong with a file;  schema_texts: schemas as text
session         a Spark session for one machine;  worker_daemon: the process that its workers are forked from
joins/          `match_joins`, and micro-batches of changes of tables
views/          `match_views`, and micro-batches of documents; graphs of views as a job
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
