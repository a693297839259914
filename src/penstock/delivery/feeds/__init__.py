"""Feeds: what every subscription was sent, ordered and durable, to be read from any offset that is kept.

open_feeds        a store by its path or URL
feed_store        append, read, prune, and what they guarantee
feed_rows         rows and pages; blocks, the form in which rows are kept
segments          which rows each subscription gets: an index that is written in large pieces
dropped_rows      what retention has dropped of each feed
retention         how long feeds are kept
feed_database     what a store needs of a database;  sqlite_feeds, postgresql_feeds: the two that it can use
feed_sink         the sink of pipelines
"""

from penstock.delivery.feeds.feed_rows import FeedPage, FeedRow, notification
from penstock.delivery.feeds.feed_store import LIVE, FeedStats, FeedStore
from penstock.delivery.feeds.open_feeds import open_feeds
from penstock.delivery.feeds.retention import Pruned, Retention

__all__ = [
    "LIVE",
    "FeedPage",
    "FeedRow",
    "FeedStats",
    "FeedStore",
    "Pruned",
    "Retention",
    "notification",
    "open_feeds",
]
