"""What is published: read, checked, on disk before it is acknowledged, and taken onwards in order.

publisher         the door: bodies of requests in, answers out
published         what is published, the receipt, and why something isn't taken
request_bodies    the records of a request: JSON, lines, CloudEvents (`cloud_events`)
change_rows       changes of tables;  document_bodies: documents
record_shapes     checks records of one schema, and writes them anew;  record_problems: why one is refused
attribute_types   types of attributes, and how Spark is told of them
event_schema      the schema of events, declared or learned;  learning_types: how it grows
inbox             requests into one transaction, many at once;  inbox_tables: on disk;  producer_states: repeats
moving            rows out of the inbox to a mover
sealed_segments   a mover: files that Spark reads
kafka_mover       a mover: topics of Kafka;  letter_files: dead letters
"""

from typing import TYPE_CHECKING

from penstock.base.fronts import front

if TYPE_CHECKING:
    from penstock.server.publishing.change_rows import ChangeNames, UnknownTable
    from penstock.server.publishing.event_schema import EventSchema
    from penstock.server.publishing.inbox import Inbox, InboxLimits
    from penstock.server.publishing.kafka_mover import KafkaMover
    from penstock.server.publishing.moving import Moving
    from penstock.server.publishing.published import (
        BadProducer,
        InboxClosed,
        InboxRow,
        Mover,
        NotWritten,
        Overloaded,
        Producer,
        Published,
        PublishError,
        Receipt,
        SequenceGap,
        StaleEpoch,
    )
    from penstock.server.publishing.publisher import Answer, Content, Publisher, RecordsRefused
    from penstock.server.publishing.record_problems import Refused
    from penstock.server.publishing.request_bodies import (
        BadRequest,
        BodyLimits,
        TooLarge,
        UnknownContent,
    )
    from penstock.server.publishing.sealed_segments import FileMover

__getattr__ = front(
    "penstock.server.publishing",
    {
        "change_rows": ("ChangeNames", "UnknownTable"),
        "event_schema": ("EventSchema",),
        "inbox": ("Inbox", "InboxLimits"),
        "kafka_mover": ("KafkaMover",),
        "moving": ("Moving",),
        "published": (
            "BadProducer",
            "InboxClosed",
            "InboxRow",
            "Mover",
            "NotWritten",
            "Overloaded",
            "Producer",
            "PublishError",
            "Published",
            "Receipt",
            "SequenceGap",
            "StaleEpoch",
        ),
        "publisher": ("Answer", "Content", "Publisher", "RecordsRefused"),
        "record_problems": ("Refused",),
        "request_bodies": ("BadRequest", "BodyLimits", "TooLarge", "UnknownContent"),
        "sealed_segments": ("FileMover",),
    },
)

__all__ = [
    "Answer",
    "BadProducer",
    "BadRequest",
    "BodyLimits",
    "ChangeNames",
    "Content",
    "EventSchema",
    "FileMover",
    "Inbox",
    "InboxClosed",
    "InboxLimits",
    "InboxRow",
    "KafkaMover",
    "Mover",
    "Moving",
    "NotWritten",
    "Overloaded",
    "Producer",
    "PublishError",
    "Published",
    "Publisher",
    "Receipt",
    "RecordsRefused",
    "Refused",
    "SequenceGap",
    "StaleEpoch",
    "TooLarge",
    "UnknownContent",
    "UnknownTable",
]
