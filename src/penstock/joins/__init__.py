"""Select-joins: from changing tables to just the tuples that each subscriber lacks.

    catalog         which tables there are, and along which edges they may be joined
    subscription    what a select-join asks for (its text is read by `language.selects`)
    join_view       the subscriber's side: notifications in, the rows of the join out

It imports the language, matching and covering, and no Spark.
"""
