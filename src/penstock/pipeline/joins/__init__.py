"""Select-joins on Spark: begin with `match`.

match              `match_joins`: changes of tables in, the tuples that each subscriber lacks out;  `differences`: the
                   same between two versions of tables
change_batches     the micro-batches of changes in a pipeline
stages             the stages of a catalogue, and their keys;  `spread`: evenly over Spark's partitions
change_feed        reads the rows of a change feed on the workers;  `parcels`: the form in which changes travel
tuple_stage        the first stage, by primary key: is this change new, and what did it replace?
semijoin_stage     the second stage, by join attributes: who must be sent what?  `stage_work`: its part in a process
stateful           both as Spark's operators;  `logs`: the state of a bucket of either, in Spark's state store
snapshots          the select-joins in files, by version;  `open_version`: one version in a process
following          publishes a new version whenever the registry has changed, or tables have (`replanning`)
registry_source    the source that announces a new version to the stages
notification_rows  the rows of notifications
"""
