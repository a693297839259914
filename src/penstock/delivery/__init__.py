"""Notifications on their way: the form that they have, and the sinks that take them.

notification_shape  rows of one shape for all kinds;  addressed_readers: names and metadata of subscribers
task_rows           rows that tasks make, and may write themselves;  parquet_files: how they do
pacing              the rule of paces: which notifications go out, are held back, or are gathered
sinks               what a sink is, and what it guarantees; the console, a Python function
file_sink           Parquet or JSON files;  sealed_folders: on the disk, with a list of what must be there
delta_sink          a Delta table
kafka_sink          a topic of Kafka
postgresql_sink     a table of PostgreSQL
network_sink        a network of brokers
nats_sink           a stream of NATS JetStream;  nats_publishing: messages that are acknowledged
webhook_sink        a URL;  webhook_requests: signed, and sent until they are taken
feeds               what every subscription was sent, to be read from any offset: a store, and the sink
several_sinks       several sinks at once
"""

from typing import TYPE_CHECKING

from penstock.base.fronts import front

if TYPE_CHECKING:
    from penstock.delivery.delta_sink import DeltaSink
    from penstock.delivery.feeds.feed_sink import FeedSink
    from penstock.delivery.file_sink import FileSink
    from penstock.delivery.kafka_sink import KafkaSink
    from penstock.delivery.nats_sink import NatsSink
    from penstock.delivery.network_sink import NetworkSink
    from penstock.delivery.notification_shape import explode
    from penstock.delivery.postgresql_sink import PostgreSQLSink
    from penstock.delivery.several_sinks import SeveralSinks, SinkWhen
    from penstock.delivery.sinks import (
        AT_LEAST_ONCE,
        EXACTLY_ONCE,
        Batch,
        CallableSink,
        ConsoleSink,
        Sink,
    )
    from penstock.delivery.webhook_requests import WebhookLimits
    from penstock.delivery.webhook_sink import WebhookSink

__getattr__ = front(
    "penstock.delivery",
    {
        "delta_sink": ("DeltaSink",),
        "feeds.feed_sink": ("FeedSink",),
        "file_sink": ("FileSink",),
        "kafka_sink": ("KafkaSink",),
        "nats_sink": ("NatsSink",),
        "network_sink": ("NetworkSink",),
        "notification_shape": ("explode",),
        "postgresql_sink": ("PostgreSQLSink",),
        "several_sinks": ("SeveralSinks", "SinkWhen"),
        "sinks": (
            "AT_LEAST_ONCE",
            "EXACTLY_ONCE",
            "Batch",
            "CallableSink",
            "ConsoleSink",
            "Sink",
        ),
        "webhook_requests": ("WebhookLimits",),
        "webhook_sink": ("WebhookSink",),
    },
)

__all__ = [
    "AT_LEAST_ONCE",
    "EXACTLY_ONCE",
    "Batch",
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
    "Sink",
    "SinkWhen",
    "WebhookLimits",
    "WebhookSink",
    "explode",
]
