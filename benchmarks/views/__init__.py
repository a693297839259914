"""Benchmarks of views: section 5 of the Delta paper, its figures beside ours.

    schema           XMark's auction site: what elements hold, and which values leaves have
    drawing          views over it
    documents        documents of it
    instances        a set of views with its graphs and costs (Table 2)
    configurations   where views are fed from, by capacity (Table 3, figures 5 to 7)
    published        what the paper found
    tables, plots    ours beside it
    benchmark        all of it, and the figures to beat

`python -m benchmarks views` runs them.
"""
