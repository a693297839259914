"""Benchmarks of select-joins: sections 6.1 and 6.3 of the select-joins paper, its figures beside ours.

    workload       subscriptions, tables and what happens to them; how ranges and tuples become those
    synthetic      binary select-joins with the parameters of Table 2
    stocks         stocks and reviews, as in Example 1
    mixes          joins of several tables: the general schema and the star schema
    published      what the paper found
    trial          one scheme on one workload: time, bytes, and whether it agrees with the others
    experiments    the binary ones: subscriptions, database, rate, payload, overlap, stocks
    multiway       six decompositions of a mix, and the star schema
    plots          figures as pictures
    benchmark      all of it, and the figures to beat
    on_spark       the same on Spark, beside what a Spark user would do instead

`python -m benchmarks joins` runs them.
"""
