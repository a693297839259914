"""`penstock serve` with Kafka as the log, and checkpoints and snapshots in an S3 server: killed, it goes on.

It starts a JVM for Kafka and one for each life of Spark, so these tests are part of `make test-long` only. Where a
server or its jars can't be had, they are skipped and say so.
"""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.pipeline.s3_script import config
from tests.server.running import Publisher, RunningService, kill, numbers, until
from tests.servers import NoServer, kafka, s3, s3a_jars
from tests.sizes import LONG

from penstock.base.locations import path_of

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(LONG == 1, reason="part of make test-long"),
]

_SETTINGS = """
trigger: 500 ms
schema: {{n: bigint, producer: string, even: boolean}}
log: {{format: kafka, servers: "{broker}", topic: market}}
checkpoints: "{checkpoints}"
spark: {{master: "local[2]", config: {config}}}
"""


@pytest.fixture(scope="module")
def store() -> Iterator[str]:
    """Host and port of an S3 server with a bucket."""
    try:
        with s3() as url:
            yield url.removeprefix("http://")
    except NoServer as reason:
        pytest.skip(f"no server: {reason}")


@pytest.fixture
def service(tmp_path: Path, store: str) -> Iterator[RunningService]:
    with contextlib.ExitStack() as servers:
        try:
            broker = servers.enter_context(kafka())
            jars = [*broker.spark_jars, *s3a_jars(tmp_path)]
        except NoServer as reason:
            pytest.skip(f"no server: {reason}")
        described = config(store) | {
            "spark.jars": ",".join(map(str, jars)),
            "spark.sql.shuffle.partitions": "2",
        }
        text = _SETTINGS.format(
            broker=broker.address, checkpoints=_checkpoints(store), config=json.dumps(described)
        )
        (tmp_path / "service.yaml").write_text(text)
        found = RunningService(tmp_path, "service.yaml")
        servers.callback(found.close)
        try:
            yield found.start()
        except BaseException:
            log = tmp_path / "data" / "spark" / "spark.log"
            print(found.said()[-3000:], log.read_text()[-6000:] if log.exists() else "")
            raise


def _checkpoints(store: str) -> str:
    return f"s3://penstock/service?endpoint_override={store}&scheme=http&region=us-east-1"


def test_killed_with_its_checkpoints_in_s3_it_tells_of_each_event_once(
    service: RunningService, store: str
):
    """Kill -9 of Spark's process, then of the service, while events are published."""
    feed = service.subscribe("n >= 0")
    some = service.subscribe("n >= 0 AND even")
    with Publisher(service, "p", pause=0.05) as publisher:
        feed.wait_for(10)
        until(lambda: kill(service.child()), "Spark's process is there")
        until(lambda: len(publisher.answered) > 30, "events after a kill")
        feed.wait_for(20)
        service.kill()
        service.start(ready=False)
        until(lambda: len(publisher.answered) > 60, "events after another")
    feed.wait_for(len(publisher.answered))
    assert numbers(feed.got, "p") == publisher.answered
    some.wait_for(len(publisher.answered[::2]))
    assert numbers(some.got, "p") == publisher.answered[::2]
    part = path_of(_checkpoints(store)) / "published" / "events"
    assert list((part / "commits").iterdir()), "Spark's commits are there"
    assert list((part / "penstock" / "snapshots").iterdir()), "and our snapshots"
    assert not (service.folder / "data" / "spark" / "checkpoints").exists()
    assert service.stop() == 0
