"""Views: subscriptions over documents that are served from other subscriptions (delta).

A view is a tree pattern. Many views can be computed from the results of others, by rewritings. A configuration says for
every view where it is fed from, so that the source and every site stay within their capacity.

designing        `plan_views` makes a plan from the texts of views: begin here
live_views       `LiveViews`: a plan that follows subscriptions as they come and go
dissemination    a plan at work: documents in, the tuples of each view out
explain          why a document matches a pattern, or doesn't
tree_pattern     what a view asks for;  `pattern_parser`, `pattern_tokens`, `pattern_text`: from its text, and back
tuples           a view's result;  `text_columns`: how large its columns may be
node_ids         nodes of documents;  `comparisons`, `numerals`: their values
rewriting_graph  which views can be computed from which others
plan_file        a plan on disk;  `picture`: a plan to look at

documents        XML and JSON as flat arrays
extraction       the results of many patterns on documents at once
rewriting        finding rewritings, and evaluating them
choosing         which rewritings to use: costs, an integer program, shorter paths
"""
