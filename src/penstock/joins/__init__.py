"""Select-joins: from changing tables to just the tuples that each subscriber lacks.

    catalog, subscription       tables and their edges; what a select-join asks for
    selects                     selects' texts as that, many by columns: select_shapes (select_syntax, from_clause,
                                join_edges), select_sides
    changes, table_state        what happens to tables, and their state; runs, axes: their indexes
    processor                   subscriptions and changes in, notifications out: read this first
    semijoin_scheme             subscriptions as semijoins, and what their messages say
    decompose                   which semijoins, and by which attributes they are grouped
    statistics                  what tables are like, by which that is decided
    semijoins, exposure,        a group of semijoins: who must get a tuple (skylines), and what a tuple
    skylines                    of the other table exposes
    stabbing, rectangles        ranges in clusters, and an index of rectangles; rectangle_tree: how it is searched
    messages, notifications     what is sent, described so that stateless filters can route it; readers: whom it is for
    conditions                  what else a subscription asks of one table
    join_view, held             the subscriber's side: notifications in, the rows of the join out; view_file: kept
    explain                     why tuples are in a result, or aren't

It imports the language, matching and covering, and no Spark.
"""
