"""Notifications on their way: what they are like, and the sinks that take them.

notification_shape  one row of one shape for all kinds
sinks               what a sink is, and what it guarantees; the console, a Python function
file_sink           Parquet or JSON files;  sealed_folders: on the disk, with a list of what must be there
delta_sink          a Delta table
kafka_sink          a topic of Kafka
postgresql_sink     a table of PostgreSQL
"""

from typing import TYPE_CHECKING

from penstock.base.fronts import front

if TYPE_CHECKING:
    from penstock.delivery.delta_sink import DeltaSink
    from penstock.delivery.file_sink import FileSink
    from penstock.delivery.kafka_sink import KafkaSink
    from penstock.delivery.notification_shape import explode
    from penstock.delivery.postgresql_sink import PostgreSQLSink
    from penstock.delivery.sinks import (
        AT_LEAST_ONCE,
        EXACTLY_ONCE,
        Batch,
        CallableSink,
        ConsoleSink,
        Sink,
    )

__getattr__ = front(
    "penstock.delivery",
    {
        "delta_sink": ("DeltaSink",),
        "file_sink": ("FileSink",),
        "kafka_sink": ("KafkaSink",),
        "notification_shape": ("explode",),
        "postgresql_sink": ("PostgreSQLSink",),
        "sinks": (
            "AT_LEAST_ONCE",
            "EXACTLY_ONCE",
            "Batch",
            "CallableSink",
            "ConsoleSink",
            "Sink",
        ),
    },
)

__all__ = [
    "AT_LEAST_ONCE",
    "EXACTLY_ONCE",
    "Batch",
    "CallableSink",
    "ConsoleSink",
    "DeltaSink",
    "FileSink",
    "KafkaSink",
    "PostgreSQLSink",
    "Sink",
    "explode",
]
