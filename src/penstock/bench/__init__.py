"""Benchmarks: frozen workloads, and what Penstock's engines and others make of them in one run.

    workloads       subscriptions and events, from seeds, the same for ever
    contestants     what can match: our engines, a join in DuckDB; `on_spark`: Spark's join, and Penstock on Spark
    measure         how long a contestant takes for a batch of events, and for one event
    trial           one workload at one size: compile, let all contestants match, compare their answers
    peers           the figures to beat, and whether they are beaten
    report          tables, on the screen and in Markdown;  `results`: JSON and plots
    overhead        what Spark costs around an engine

`penstock bench` runs them. What counts are the ratios: a figure of one machine says little about another's.
"""
