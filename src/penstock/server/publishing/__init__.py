"""Accepts what is published: reads and checks it, writes it to disk, acknowledges it, and passes it on in order.

publisher         read this first: bodies of requests in, answers out
published         the types: published records, receipts, rows of the inbox, movers, errors
request_bodies    the records of a request: JSON, lines, CloudEvents (`cloud_events`)
change_rows       changes of tables;  document_bodies: documents
record_shapes     checks records of one schema, and writes them anew;  record_problems: why a record is refused
attribute_types   types of attributes, and how Spark spells them
event_schema      the schema of events, declared or learned;  learning_types: how it grows
inbox             writes many requests in one transaction;  inbox_tables: its database;  producer_states: finds repeats
moving            gives rows of the inbox to a mover
sealed_segments   a mover to files that Spark reads
kafka_mover       a mover to topics of Kafka;  letter_files: writes dead letters
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
