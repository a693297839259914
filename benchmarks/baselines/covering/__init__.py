"""One shared diagram for all subscriptions, as in mbd §3 to §5: begin with `diagram`.

For matching there is a faster engine (`mbd`), for covering a faster index (`frontier`), and merging finds more without
an order of attributes (`merging`). What the diagram has alone is one structure for all three, any filter as shared
nodes, and the predicates' own relations; `python -m benchmarks covering` compares them.
"""
