"""Select-joins on Spark: begin with `match`.

match            `match_joins`: changes of tables in, what each subscriber lacks out; `batch`: of tables at rest
pipeline         `JoinPipeline`: the same as a streaming query with a sink
stages           which stages a catalogue has, and what each is keyed by;  `spread`: evenly over Spark's partitions
changes          a change feed's rows on the workers;  `parcels`: the form in which they travel
tuples           the first stage, by primary key: is this change new, and what did it replace?
semijoins        the second stage, by join attributes: who must be told what?
logs             what a bucket of either stage knows, in Spark's state store
snapshots, watch the select-joins in files by version, and the source that tells when there is a new one
notifications    what comes out
"""
