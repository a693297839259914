"""Select-joins: from changing tables to just the tuples that each subscriber lacks.

    catalog, subscription       tables and their edges; what a select-join asks for (read by `language.selects`)
    changes, tables             what happens to tables, and their state; runs, coordinates: their indexes
    processor                   subscriptions and changes in, notifications out: read this first
    semijoin_scheme, results    the schemes of Table 1, by semijoins and by rows of the joins
    decompose, costs, choices   which semijoins, and by which attributes they are grouped
    semijoins, exposure,        a group of semijoins: who must get a tuple (skylines, envelopes), and what a tuple
    skylines, envelopes         of the other table exposes
    stabbing, rectangles        ranges in clusters, and the rectangles of a cluster
    messages, notifications     what is sent, described so that stateless filters (`filters`, `readers`) can route it
    conditions                  what else a subscription asks of one table
    join_view, held             the subscriber's side: notifications in, the rows of the join out

It imports the language, matching and covering, and no Spark.
"""
