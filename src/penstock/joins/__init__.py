"""Select-joins: from changing tables to just the tuples that each subscriber lacks.

    catalog, subscription       tables and the edges between them; a select-join, as what it asks of each table
    selects                     reads selects, many by columns: select_shapes (select_syntax, from_clause, join_edges),
                                select_sides; select_costs: what a select can cost
    changes, table_state        changes of tables, and the state of tables; runs, axes: their indexes
    processor                   subscriptions and changes in, notifications out: read this first
    semijoin_scheme             subscriptions as groups of semijoins, and the contents of their messages
    decompose                   chooses the semijoins of a select-join, and the attributes by which they are grouped
    statistics                  sizes, rates and values of the tables, by which `decompose` chooses
    semijoins, exposure,        a group of semijoins: who must get a tuple of the base table (skylines), and which of
    skylines                    these a tuple of the filtering table exposes (exposure)
    stabbing, rectangles        ranges in clusters, and an index of rectangles; rectangle_tree: how it is searched
    messages, notifications     messages, described so that stateless filters can route them; readers: who gets which
    newcomers                   the first messages to new subscribers
    routed_messages             messages as flat events for a network; routed_filters: select-joins as filters over them
    conditions                  the other conditions of a subscription on one table
    join_view, held             the subscriber's side: notifications in, the rows of the join out; view_file: saves a
                                view; versioned_view: takes messages in any order
    explain                     why tuples are in a result, or aren't

This room imports the language, matching and covering, and no Spark.
"""
