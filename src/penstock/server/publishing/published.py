"""The types of publishing: requests, receipts, rows of the inbox, movers and errors.

    Published ──▶ Inbox ──▶ Receipt            to the publisher, when it is on disk
                    └─────▶ InboxRow ──▶ Mover  onwards, in order of position

A *position* numbers every accepted record over all logs: 1, 2, 3 … in the order of acceptance. No position is given
twice, even if records are deleted or the service is killed.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from penstock.base.errors import PenstockError

EVENTS = "events"
DOCUMENTS = "documents"
TABLES = "tables/"
"""The beginning of the names of tables' logs: `tables/Stocks`."""

POSITION, TIME = "_position", "_time"
"""Attributes that the inbox adds to every record. Published attributes don't begin with an underscore."""

MOST_SAFE = 2**53 - 1
"""The largest epoch and sequence number: larger integers aren't exact in JavaScript."""


@dataclass(frozen=True, slots=True)
class Producer:
    """A producer's id and its request's number: a repeated request is published once (Durable Streams §5.2.1)."""

    id: str
    epoch: int
    seq: int


@dataclass(frozen=True, slots=True)
class Published:
    """The records of one request: JSON objects in UTF-8, one line each, as `read_records` gives them."""

    log: str
    records: Sequence[bytes]
    producer: Producer | None = None
    schema: int = 0  # the version of the schema that they need; 0 if that never changes


@dataclass(frozen=True, slots=True)
class Receipt:
    """The positions of a request's records. None if it had no records, or repeats one before its producer's last."""

    first: int | None
    last: int | None
    repeated: bool = False  # the producer has published them before
    seq: int | None = None  # the highest sequence number of the producer's epoch


@dataclass(frozen=True, slots=True)
class InboxRow:
    """The records of one request as they go onwards: `lines` has one JSON object a line, each with its position."""

    first: int
    last: int
    log: str
    producer: str  # "" if the request had none
    schema: int
    lines: bytes  # without a newline at the end

    def records(self) -> Iterator[tuple[int, bytes]]:
        """Each record with its position."""
        return zip(range(self.first, self.last + 1), self.lines.split(b"\n"), strict=True)


class MessageLimit(NamedTuple):
    """The largest record of a log, if a topic of Kafka limits it."""

    bytes: int
    topic: str

    def refusal(self, size: int) -> str:
        """Why a record of this size isn't taken."""
        return (
            f"has {size:,} bytes: the topic {self.topic} of Kafka takes {self.bytes:,} at most "
            "(its max.message.bytes says so)"
        )


class Mover(Protocol):
    """Takes accepted rows out of the inbox.

    Rows come in order of position. After a crash some come again; `take` must not pass on a row twice if it has
    returned for that row before.
    """

    def take(self, rows: Sequence[InboxRow]) -> None:
        """Take rows. Return when they are as safe as they were in the inbox."""

    def close(self) -> None:
        """Let go of files and connections."""


class PublishError(PenstockError):
    """Something couldn't be published."""


class Overloaded(PublishError):
    """More is waiting than the inbox has room for: try again after `retry_after` seconds."""

    def __init__(self, reason: str, retry_after: int) -> None:
        self.retry_after = retry_after
        super().__init__(reason)


class InboxClosed(PublishError):
    """The service is ending, or another process has the inbox."""


class NotWritten(PublishError):
    """Writing to the disk failed: nothing of the request was published."""


class ProducerError(PublishError):
    """A request that doesn't follow on its producer's last one."""


class BadProducer(ProducerError):
    """Numbers that no producer can have, or an epoch that doesn't begin with 0."""


class StaleEpoch(ProducerError):
    """Another process has taken over the producer's id. `epoch` is the current one."""

    def __init__(self, producer: Producer, epoch: int) -> None:
        self.epoch = epoch
        super().__init__(
            f"producer {producer.id!r} is at epoch {epoch}, so epoch {producer.epoch} has ended: "
            f"to take over, publish with epoch {epoch + 1} and seq 0"
        )


class SequenceGap(ProducerError):
    """A request of the producer is missing before this one."""

    def __init__(self, producer: Producer, expected: int) -> None:
        self.expected = expected
        self.received = producer.seq
        super().__init__(
            f"producer {producer.id!r} has sent seq {producer.seq}, and seq {expected} is next: "
            "send what is missing first"
        )
