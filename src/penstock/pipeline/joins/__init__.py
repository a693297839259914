"""Select-joins on Spark: begin with `match`.

match            `match_joins`: changes of tables in, what each subscriber lacks out; `batch`: of tables at rest
pipeline         `JoinPipeline`: the same as a streaming query with a sink
stages           which stages a catalogue has, and what each is keyed by;  `spread`: evenly over Spark's partitions
changes          a change feed's rows on the workers;  `parcels`: the form in which they travel
tuples           the first stage, by primary key: is this change new, and what did it replace?
semijoins        the second stage, by join attributes: who must be told what?
stateful         both as Spark's operators;  `logs`: what a bucket of either knows, in Spark's state store
snapshots        the select-joins in files, by version;  `following`: whenever the registry has changed
watch            the source that tells the stages of a new version
notifications    what comes out
"""
