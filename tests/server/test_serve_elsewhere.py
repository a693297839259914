"""A service with everything elsewhere: PostgreSQL for the registry and the feeds, Kafka as the log, a source and a sink
beside it. Real servers; where they can't be had, these tests are skipped and say so."""

import json
import os
from collections.abc import Iterator

import pytest
from tests.server.running import Publisher, RunningService, numbers, until
from tests.servers import NoServer, kafka, postgresql

pytestmark = [pytest.mark.slow, pytest.mark.postgres]

_SETTINGS = """
trigger: 1 second
schema: {{n: bigint, producer: string, even: boolean}}
registry: {database}
feeds: {database}
log: {{format: kafka, servers: "{broker}", topic: market}}
sources:
  events: {{format: json, path: ticks/, schema: {{n: bigint, producer: string}}}}
sinks: [{{format: json, path: notifications/, explode: true}}]
spark: {{master: "local[2]", config: {{spark.jars: "{jars}"}}}}
"""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    folder = tmp_path_factory.mktemp("elsewhere")
    (folder / "ticks").mkdir()
    try:
        with kafka() as broker, postgresql() as database:
            _limit_topic(broker.address, "market-documents-xml", 100_000)
            jars = ",".join(map(str, broker.spark_jars))
            text = _SETTINGS.format(database=database, broker=broker.address, jars=jars)
            (folder / "service.yaml").write_text(text)
            found = RunningService(folder, "service.yaml")
            try:
                yield found.start()
            finally:
                found.close()
    except NoServer as reason:
        pytest.skip(f"no server: {reason}")


def _limit_topic(address: str, topic: str, largest: int) -> None:
    """Make a topic that takes little."""
    from confluent_kafka import admin

    new = admin.NewTopic(topic, 1, config={"max.message.bytes": str(largest)})
    client = admin.AdminClient({"bootstrap.servers": address})
    client.create_topics([new])[topic].result(60)


def test_a_record_that_its_topic_does_not_take_is_refused_and_stops_nobody(service: RunningService):
    """Documents may have 8 MiB, a topic of Kafka says what it takes: this one 100,000 bytes."""
    feed = service.subscribe("//item[author{val}]")
    text = "<news><item><author>{}</author></item></news>"
    answer = service.send("/v1/documents", text.format(os.urandom(60_000).hex()), "application/xml")
    assert answer.status_code == 413
    assert "the topic market-documents-xml of Kafka takes 97,952" in answer.json()["detail"]
    assert service.send("/v1/documents", text.format("Ann"), "application/xml").status_code == 202
    assert "Ann" in json.dumps(feed.wait_for(1))


def test_what_is_published_goes_by_kafka_into_feeds_and_sinks(service: RunningService):
    feed = service.subscribe("n >= 0")
    with Publisher(service, "here", pause=0.02) as publisher:
        until(lambda: len(publisher.answered) > 30, "events")
        service.kill()  # with a transaction of Kafka's on the way, or not
        service.start(ready=False)
        until(lambda: len(publisher.answered) > 60, "events after the kill")
    feed.wait_for(len(publisher.answered))
    assert numbers(feed.got, "here") == publisher.answered
    until(lambda: _delivered(service) >= len(publisher.answered), "the sink has them, too")


def _delivered(service: RunningService) -> int:
    """Notifications in the files of the sink beside feeds."""
    files = (service.folder / "notifications").glob("**/*.json")
    return sum(len(file.read_text().splitlines()) for file in files)


def test_a_source_beside_it_is_matched_with_the_same_subscriptions(service: RunningService):
    feed = service.subscribe("producer = 'files'")
    draft = service.folder / "ticks.draft"
    draft.write_text(json.dumps({"n": 7, "producer": "files"}) + "\n")
    draft.rename(service.folder / "ticks" / "one.json")
    (got,) = feed.wait_for(1)
    assert got["event"] == {"n": 7, "producer": "files"}
