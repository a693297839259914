"""A mover to topics of Kafka. Readers of committed records get each record exactly once.

    events          ─▶ <topic>-events
    tables/Stocks   ─▶ <topic>-tables-Stocks
    documents/xml   ─▶ <topic>-documents-xml

The rows of one `take` are one transaction. Their last position is part of it: it is committed as the offset of a
consumer group that nobody reads with. After a crash the mover asks Kafka for that offset, and leaves out the rows that
are in the topics already. If a process lives on after another has taken over, Kafka fences it off.

A record that is larger than a topic takes (`max.message.bytes`; Kafka's default is 1 MiB) is refused when it is
published. If the topic's limit is lowered afterwards, accepted records that no longer fit become dead letters, and the
others go on.

Records of one producer have the same key, and so the same partition: they stay in order. Read the topics with
`isolation.level = read_committed` (in Spark, the option `kafka.isolation.level`).
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from penstock.base.durations import utc_now
from penstock.base.errors import PenstockError
from penstock.server.publishing.letter_files import dead_letter, write_letters
from penstock.server.publishing.published import InboxRow, MessageLimit, PublishError

if TYPE_CHECKING:
    from confluent_kafka import Producer as KafkaProducer

_SECONDS = 60.0  # for an answer of the broker
_MOST_BYTES = 64 << 20  # of a message; topics have limits of their own, `max.message.bytes`
_NO_OFFSET = -1001  # Kafka's answer if no offset was committed
_STAMPS = 256  # bytes that the inbox adds to a record, at most
_GROUP = "penstock-inbox"
_BATCH = 1_000_000  # bytes of records that librdkafka sends together, unless a topic takes less


class TopicLimits(Protocol):
    """The largest records that topics take."""

    def of(self, log: str) -> MessageLimit | None:
        """The limit of one record of a log; None if it isn't known."""

    def least(self) -> int | None:
        """The least limit of all logs, in bytes; None if none is known."""

    def refresh(self) -> None:
        """Ask Kafka again."""


class KafkaMover:
    """Publishes rows to Kafka. `options` are librdkafka's (`security.protocol` …).

    `topic` is what the names of the topics begin with; services that share a broker have different ones.
    """

    def __init__(
        self,
        servers: str,
        topic: str,
        options: Mapping[str, Any] | None = None,
        limits: TopicLimits | None = None,
        dead_letters: Path | None = None,
    ) -> None:
        self._client = _import_client()
        self._servers = {
            "bootstrap.servers": servers,
            "log_level": 3,  # errors only: the rest of what librdkafka logs isn't for a screen
            **(options or {}),
        }
        self._topic = topic
        self._limits, self._dead_letters = limits, dead_letters
        self._producer: KafkaProducer | None = None
        self._metadata: Any = None
        self._moved = 0

    def take(self, rows: Sequence[InboxRow]) -> None:
        """Publish rows in one transaction, except those that were published before."""
        try:
            producer = self._producer or self._connect()
            new = [row for row in rows if row.first > self._moved]
            if new:
                self._publish(producer, new)
                self._moved = new[-1].last
        except self._client.KafkaException as error:
            self.close()  # the next try asks Kafka whether the transaction was committed
            if self._limits is not None:
                self._limits.refresh()  # perhaps a topic takes less than before
            raise PublishError(f"Kafka doesn't take records: {error}") from error
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let the producer go; a transaction that isn't committed is given up."""
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.purge()

    def _connect(self) -> "KafkaProducer":
        producer: KafkaProducer = self._client.Producer(
            {
                **self._servers,
                "transactional.id": f"penstock-inbox-{self._topic}",
                "enable.idempotence": True,
                "message.max.bytes": _MOST_BYTES,
                "batch.size": self._batch_size(),
                "linger.ms": 5,
                "compression.type": "lz4",
            }
        )
        producer.init_transactions(_SECONDS)  # waits for transactions of an earlier process
        self._moved, self._metadata = self._last_position()
        self._producer = producer
        return producer

    def _batch_size(self) -> int:
        """The size of a batch that every topic takes: Kafka applies a topic's limit to whole batches."""
        least = None if self._limits is None else self._limits.least()
        return _BATCH if least is None else max(1, min(_BATCH, least))

    def _last_position(self) -> tuple[int, Any]:
        """The last position that is in the topics, as it was committed with the records."""
        consumer = self._client.Consumer(
            {
                **self._servers,
                "group.id": f"{_GROUP}-{self._topic}",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
            }
        )
        try:
            found = consumer.committed([self._progress()], timeout=_SECONDS)[0]
            if found.error is not None:
                raise self._client.KafkaException(found.error)
            moved = 0 if found.offset == _NO_OFFSET else int(found.offset)
            return moved, consumer.consumer_group_metadata()
        finally:
            consumer.close()

    def _progress(self, position: int = _NO_OFFSET) -> Any:
        return self._client.TopicPartition(f"{self._topic}-events", 0, position)

    def _publish(self, producer: "KafkaProducer", rows: Sequence[InboxRow]) -> None:
        failures: list[str] = []

        def delivered(error: Any, message: Any) -> None:
            if error is not None:
                failures.append(str(error))

        letters: list[str] = []
        producer.begin_transaction()
        for row in rows:
            topic = topic_of(self._topic, row.log)
            key = row.producer.encode() or None
            limit = None if self._limits is None else self._limits.of(row.log)
            for position, record in row.records():
                if limit is not None and len(record) > limit.bytes + _STAMPS:
                    reason = f"the record {limit.refusal(len(record))}"
                    letters.append(dead_letter(record, reason, position, utc_now()))
                else:
                    self._produce(producer, topic, record, key, delivered)
        if letters and self._dead_letters is not None:
            write_letters(self._dead_letters / "log", rows[-1].last, letters)
        producer.send_offsets_to_transaction(
            [self._progress(rows[-1].last)], self._metadata, _SECONDS
        )
        producer.commit_transaction(_SECONDS)  # delivers all records, or fails
        if failures:
            raise PublishError(f"Kafka doesn't take records: {failures[0]}")

    def _produce(
        self, producer: "KafkaProducer", topic: str, record: bytes, key: bytes | None, done: Any
    ) -> None:
        while True:
            try:
                producer.produce(topic, record, key, on_delivery=done)
                producer.poll(0)
                return
            except BufferError:  # librdkafka's queue is full: wait for records to leave it
                producer.poll(0.1)


def topic_of(prefix: str, log: str) -> str:
    """The topic of a log. Kafka's names have letters, digits, dots, dashes and underscores.

    >>> topic_of("market", "tables/Stock prices")
    'market-tables-Stock_20prices'
    """
    plain = re.sub(r"[^A-Za-z0-9.\-]", lambda found: f"_{ord(found[0]):x}", log.replace("/", "-"))
    return f"{prefix}-{plain}"


def _import_client() -> Any:
    try:
        import confluent_kafka
    except ImportError as error:
        raise PenstockError(
            "Kafka as the log needs confluent-kafka: pip install 'penstock[kafka]'"
        ) from error
    return confluent_kafka
