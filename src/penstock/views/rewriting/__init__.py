"""Which views can be computed from which, and how (delta §4).

- `flat_patterns`, `predicate_table`, `label_trie`, `mapped_views`: a set of views as arrays, and as a folder of them;
- `embedding`, `embedding_graph`: which views embed into which;
- `covers`, `rewriting`: the best rewritings of each view; `graphs`: both for all views, by threads;
- `view_index`: the rewritings of one more view;
- `rewriting_plan`, `planning`: a rewriting as something to run;
- `evaluation`, `id_joins`, `content_values`: running it.
"""
