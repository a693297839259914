"""Views on Spark.

- `graphs_on_spark`: the embedding graph and the rewritings of many views, as a job;
- `match`: `match_views`, documents in, every view's tuples out, for DataFrames at rest and for streams;
- `view_rows`: a level's tuples as rows of a DataFrame;
- `levels`: what each level did, in figures; `view_costs`: what each view took;
- `document_batches`: what a pipeline does with each micro-batch of documents;
- `snapshots`: the tree patterns in files, by version.
"""
