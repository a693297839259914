"""Penstock: content-based publish/subscribe on Apache Spark.

    subs = penstock.Subscriptions()                       who subscribed to what
    sid, ticket = subs.subscribe("alice", "symbol = 'GOOG' AND price BETWEEN 500 AND 600")
    matcher = subs.compile({"symbol": "string", "price": "double"})
    matcher.match({"symbol": "GOOG", "price": 550})       one event -> sorted ids
    live = subs.live(); live.follow(subs)                 the same, while subscriptions come and go

    @penstock.operator("crowd", cost="20 ms")             a function that filters may call: crowd(image) > 50
    penstock.Subscriptions(operators=…)                   the operators that its filters may call

    penstock.Subscriptions(catalog=penstock.Catalog.of({"Stocks": penstock.Table(…), …}, edges=[…]))
    subs.subscribe("alice", "SELECT * FROM Stocks JOIN Reviews USING (Symbol) WHERE PER > 45 AND Rating >= 6")
    penstock.JoinView(subs.get(sid), catalog)             its result, kept up to date by notifications

    penstock.match(events_df, subs)                       a Spark DataFrame, batch or streaming
    penstock.register(spark, subs)                        SELECT * FROM penstock_match(TABLE(events))
    penstock.interest(subs, ["day"]).where(events_df)     reads less: only the events that somebody could want
    penstock.match_joins({"Stocks": changes_df, …}, subs) the tuples that each select-join subscriber lacks

    design = penstock.plan_views(["//news/item[author{val}]", …])    which views are fed from which others
    penstock.match_views(documents_df, design.plan)       documents -> the tuples of every view

    penstock.Pipeline(events=…, tables=…, documents=…, subscriptions=…, sink=…, checkpoint=…).start()
    penstock.explode(notifications_df)                    its notifications, one row for each subscriber

    client = penstock.Client("http://localhost:8400")     a running service: penstock serve
    client.publish(event); client.subscribe("alice", "price > 5")
    for notification in client.follow(sid, ticket): …     a subscription's notifications, as they come
    client.view(sid, ticket, catalog)                     a select-join's result, kept up to date

This file is the whole public API. Follow one event: `language` reads a filter, `matching` compiles subscriptions into a
plan and matches events against it, `registry` keeps subscriptions, `pipeline` runs it all on Spark.
"""

from typing import TYPE_CHECKING

from penstock.base.errors import (
    CatalogError,
    ConfigError,
    ExpensiveSubscription,
    FeedError,
    FeedGone,
    FilterError,
    LeaseError,
    OperatorError,
    PenstockError,
    PipelineError,
    RecordsRefused,
    RegistryError,
    SchemaError,
    ServiceError,
    ServiceUnreachable,
    SnapshotError,
    SubscriptionErrors,
    TicketError,
    UnknownSubscription,
)
from penstock.base.fronts import front

if TYPE_CHECKING:
    from penstock.delivery import (
        CallableSink,
        ConsoleSink,
        DeltaSink,
        FeedSink,
        FileSink,
        KafkaSink,
        NatsSink,
        NetworkSink,
        PostgreSQLSink,
        SeveralSinks,
        SinkWhen,
        WebhookLimits,
        WebhookSink,
        explode,
    )
    from penstock.joins.catalog import Catalog, Table
    from penstock.joins.join_view import JoinView
    from penstock.language import Schema
    from penstock.matching import LiveMatcher, Matcher, SnapshotRef
    from penstock.operators.define import Operator, Operators, operator
    from penstock.pipeline import (
        JoinOptions,
        Pipeline,
        ViewOptions,
        match,
        match_joins,
        match_views,
    )
    from penstock.pipeline.interest import Interest, interest
    from penstock.pipeline.table_function import register
    from penstock.registry import Limits, Subscriptions
    from penstock.server.remote.client import Client, Granted
    from penstock.server.remote.followed_feed import Notification
    from penstock.views.designing import Wishes, plan_views
    from penstock.views.live_views import LiveOptions

__version__ = "0.1.0"

__getattr__ = front(
    "penstock",
    {
        "delivery": (
            "CallableSink",
            "ConsoleSink",
            "DeltaSink",
            "FeedSink",
            "FileSink",
            "KafkaSink",
            "NatsSink",
            "NetworkSink",
            "PostgreSQLSink",
            "SeveralSinks",
            "SinkWhen",
            "WebhookLimits",
            "WebhookSink",
            "explode",
        ),
        "joins.catalog": ("Catalog", "Table"),
        "joins.join_view": ("JoinView",),
        "language": ("Schema",),
        "matching": ("LiveMatcher", "Matcher", "SnapshotRef"),
        "operators.define": ("Operator", "Operators", "operator"),
        "pipeline.interest": ("Interest", "interest"),
        "pipeline.table_function": ("register",),
        "pipeline": (
            "JoinOptions",
            "Pipeline",
            "ViewOptions",
            "match",
            "match_joins",
            "match_views",
        ),
        "registry": ("Limits", "Subscriptions"),
        "server.remote.client": ("Client", "Granted"),
        "server.remote.followed_feed": ("Notification",),
        "views.designing": ("Wishes", "plan_views"),
        "views.live_views": ("LiveOptions",),
    },
)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


__all__ = [
    "CallableSink",
    "Catalog",
    "CatalogError",
    "Client",
    "ConfigError",
    "ConsoleSink",
    "DeltaSink",
    "ExpensiveSubscription",
    "FeedError",
    "FeedGone",
    "FeedSink",
    "FileSink",
    "FilterError",
    "Granted",
    "Interest",
    "JoinOptions",
    "JoinView",
    "KafkaSink",
    "LeaseError",
    "Limits",
    "LiveMatcher",
    "LiveOptions",
    "Matcher",
    "NatsSink",
    "NetworkSink",
    "Notification",
    "Operator",
    "OperatorError",
    "Operators",
    "PenstockError",
    "Pipeline",
    "PipelineError",
    "PostgreSQLSink",
    "RecordsRefused",
    "RegistryError",
    "Schema",
    "SchemaError",
    "ServiceError",
    "ServiceUnreachable",
    "SeveralSinks",
    "SinkWhen",
    "SnapshotError",
    "SnapshotRef",
    "SubscriptionErrors",
    "Subscriptions",
    "Table",
    "TicketError",
    "UnknownSubscription",
    "ViewOptions",
    "WebhookLimits",
    "WebhookSink",
    "Wishes",
    "explode",
    "interest",
    "match",
    "match_joins",
    "match_views",
    "operator",
    "plan_views",
    "register",
]
