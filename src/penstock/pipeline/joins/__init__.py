"""Select-joins on Spark: begin with `match`.

match              `match_joins`: changes of tables in, what each subscriber lacks out; `differences`: of tables at rest
change_batches     what a pipeline does with each micro-batch of it
stages             which stages a catalogue has, and what each is keyed by;  `spread`: evenly over Spark's partitions
change_feed        a change feed's rows on the workers;  `parcels`: the form in which they travel
tuple_stage        the first stage, by primary key: is this change new, and what did it replace?
semijoin_stage     the second stage, by join attributes: who must be sent what?  `stage_work`: its part in a process
stateful           both as Spark's operators;  `logs`: what a bucket of either knows, in Spark's state store
snapshots          the select-joins in files, by version;  `open_version`: in a process
following          a new version whenever the registry has changed, or tables have (`replanning`)
registry_source    the source that announces a new version to the stages
notification_rows  what comes out
"""
