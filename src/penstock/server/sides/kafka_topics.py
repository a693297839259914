"""Topics of Kafka for the logs of a service: makes them before they are used, and knows the largest record of each."""

from collections.abc import Sequence
from typing import Any

from penstock.base.errors import PenstockError
from penstock.server.publishing.kafka_mover import topic_of
from penstock.server.publishing.published import MessageLimit
from penstock.server.setting_parts import KafkaPart

_SECONDS = 30.0  # for an answer of the broker
_LARGEST = "max.message.bytes"
_AROUND = 2_048  # bytes of a message besides the record: what the inbox adds, the producer's name, Kafka's own


class KafkaTopics:
    """The topics of some logs. PenstockError if Kafka can't be asked, or refuses."""

    def __init__(self, part: KafkaPart, logs: Sequence[str]) -> None:
        self._part = part
        self._topics = {log: topic_of(part.topic, log) for log in logs}
        self._limits: dict[str, MessageLimit] = {}

    def make(self) -> None:
        """Make the topics that aren't there."""
        client, kafka = _admin(self._part)
        from confluent_kafka import KafkaError, KafkaException

        try:
            there = client.list_topics(timeout=_SECONDS).topics
            wanted = [name for name in self._topics.values() if name not in there]
            if wanted:
                new = [kafka.NewTopic(name, self._part.partitions) for name in wanted]
                for future in client.create_topics(new).values():
                    future.result(_SECONDS)
        except KafkaException as error:
            reason = error.args[0]
            if reason.code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise PenstockError(f"Kafka at {self._part.servers}: {reason.str()}") from error
        self.refresh()

    # --- size limits ----------------------------------------------------------------------------

    def refresh(self) -> None:
        """Ask for the largest message of each topic. A topic that doesn't answer keeps its earlier limit."""
        client, kafka = _admin(self._part)
        from confluent_kafka import KafkaException

        asked = [
            kafka.ConfigResource(kafka.ConfigResource.Type.TOPIC, topic)
            for topic in self._topics.values()
        ]
        found = client.describe_configs(asked, request_timeout=_SECONDS)
        for (log, topic), resource in zip(self._topics.items(), asked, strict=True):
            try:
                largest = int(found[resource].result(_SECONDS)[_LARGEST].value)
            except (KafkaException, KeyError, TypeError, ValueError):
                continue  # the service may lack the permission to ask
            self._limits[log] = MessageLimit(max(0, largest - _AROUND), topic)

    def of(self, log: str) -> MessageLimit | None:
        """The limit of one record of a log; None if it isn't known."""
        return self._limits.get(log)

    def least(self) -> int | None:
        """The least limit of all logs, in bytes; None if none is known."""
        return min((limit.bytes for limit in self._limits.values()), default=None)


def _admin(part: KafkaPart) -> tuple[Any, Any]:
    try:
        from confluent_kafka import admin
    except ImportError as error:
        raise PenstockError(
            "Kafka as the log needs confluent-kafka: pip install 'penstock[kafka]'"
        ) from error
    settings: dict[str, Any] = {
        "bootstrap.servers": part.servers,
        "log_level": 3,
        **part.producer_options,
    }
    return admin.AdminClient(settings), admin
