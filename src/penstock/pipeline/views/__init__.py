"""Views on Spark.

- `match`: `match_views`, which computes every view's tuples of documents, in batches and streams;
- `view_rows`: a level's tuples as rows of a DataFrame;
- `levels`: figures of each level; `view_costs`: the cost of each view; `lost_documents`: a warning about dead letters;
- `document_batches`: the micro-batches of documents in a pipeline;
- `snapshots`: the tree patterns of a registry in files, by version; `planning_aside`: plans them anew in a thread;
- `graphs_on_spark`: the embedding graph and the rewritings of many views, as a job.
"""
