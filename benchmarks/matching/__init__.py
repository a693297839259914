"""Benchmarks of matching: Penstock's engines and others on the same events, in one run.

    contestants     what can match: our engines, a join in DuckDB; `on_spark`: Spark's join, and Penstock on Spark
    measure         how long a contestant takes for a batch of events, and for one event
    trial           one workload at one size: compile, let all contestants match, compare their answers
    growth          how a cost grows with the number of subscriptions
    peers           the figures to beat, and whether they are beaten
    tables          figures as tables;  `benchmark`: all workloads
    overhead        what Spark costs around an engine
    adds, load      how many subscriptions can be added per second; from a file of a million to a snapshot
    sketch          the batch engine against the plainest bit-parallel loop
    hostile         what one hostile subscription costs all the others

`python -m benchmarks matching | spark | adds | load | sketch | hostile` runs them.
"""
