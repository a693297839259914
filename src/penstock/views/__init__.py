"""Views: subscriptions over documents that are served from other subscriptions (`views-delta`).

A view is a tree pattern. Many views can be computed from the results of others: rewritings. A configuration says for
every view where it is fed from, so that the source and every site stay within their capacity.
"""
