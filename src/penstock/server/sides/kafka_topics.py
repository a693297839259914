"""Topics of Kafka for the logs of a service, made before anybody writes to them or reads them."""

from collections.abc import Iterable

from penstock.base.errors import PenstockError
from penstock.server.publishing.kafka_mover import topic_of
from penstock.server.setting_parts import KafkaPart

_SECONDS = 30.0  # for an answer of the broker


def make_topics(part: KafkaPart, logs: Iterable[str]) -> None:
    """Make the topics that aren't there. PenstockError if Kafka can't be asked, or refuses."""
    try:
        from confluent_kafka import KafkaError, KafkaException
        from confluent_kafka.admin import AdminClient
        from confluent_kafka.cimpl import NewTopic
    except ImportError as error:
        raise PenstockError(
            "Kafka as the log needs confluent-kafka: pip install 'penstock[kafka]'"
        ) from error
    client = AdminClient(
        {"bootstrap.servers": part.servers, "log_level": 3, **part.producer_options}
    )
    try:
        there = client.list_topics(timeout=_SECONDS).topics
        wanted = [name for log in logs if (name := topic_of(part.topic, log)) not in there]
        if wanted:
            made = client.create_topics([NewTopic(name, part.partitions) for name in wanted])
            for future in made.values():
                future.result(_SECONDS)
    except KafkaException as error:
        reason = error.args[0]
        if reason.code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise PenstockError(f"Kafka at {part.servers}: {reason.str()}") from error
