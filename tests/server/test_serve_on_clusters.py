"""`penstock serve` on a standalone cluster, and through a Spark Connect server: all kinds, a kill, its end.

Each starts several JVMs, so these tests are part of `make test-long` only.
"""

import contextlib
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest
from tests.pipeline.elsewhere import environment
from tests.server.running import Publisher, RunningService, kill, numbers, until
from tests.servers import Connect, free_port
from tests.sizes import LONG

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(LONG == 1, reason="part of make test-long"),
]

_SETTINGS = """
trigger: 500 ms
digests: 1 second
metadata: true
catalog:
  tables:
    Stocks: {{schema: {{Symbol: string, PER: double}}, key: Symbol}}
    Reviews: {{schema: {{Id: bigint, Symbol: string, Rating: double}}, key: Id}}
  edges: [[Reviews, Stocks, Symbol]]
spark: {{master: "{master}", config: {config}}}
"""
_SELECT = "SELECT * FROM Stocks JOIN Reviews USING (Symbol) WHERE PER > 45 AND Rating > 4"


@contextlib.contextmanager
def _standalone(folder: Path) -> Iterator[str]:
    """A master and a worker on loopback: the cluster's address."""
    program = str(Path(pyspark.__file__).parent / "bin" / "spark-class")
    port, ui = free_port(), free_port()
    address = f"spark://127.0.0.1:{port}"
    variables = {**environment(), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_WORKER_DIR": str(folder)}
    master = ["org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", str(port)]
    worker = ["org.apache.spark.deploy.worker.Worker", "--host", "127.0.0.1", "--cores", "2"]
    commands = [
        [*master, "--webui-port", str(ui)],
        [*worker, "--memory", "2g", "--webui-port", "0", address],
    ]
    processes = []
    try:
        for number, command in enumerate(commands):
            with (folder / f"{number}.log").open("wb") as log:
                processes.append(
                    subprocess.Popen([program, *command], stdout=log, stderr=log, env=variables)
                )
            said = "Master: I have been elected leader", "Successfully registered with master"
            until(
                lambda: said[number] in (folder / f"{number}.log").read_text(errors="replace"),  # noqa: B023
                said[number],
            )
        yield address
    finally:
        for process in reversed(processes):
            process.kill()
            process.wait()


@contextlib.contextmanager
def _connect(folder: Path) -> Iterator[str]:
    server = Connect(folder / "connect.log")
    try:
        server.start()
        yield server.url
    finally:
        server.close()


@pytest.mark.parametrize("kind", ["standalone", "connect"])
def test_all_kinds_are_matched_there_and_go_on_after_a_kill(tmp_path: Path, kind: str):
    cluster = _standalone if kind == "standalone" else _connect
    config = {
        "spark.driver.host": "127.0.0.1",
        "spark.executor.memory": "1g",
        "spark.sql.shuffle.partitions": "2",
    }
    with cluster(tmp_path) as address:
        folder = tmp_path / "service"
        folder.mkdir()
        shown = json.dumps(config if kind == "standalone" else {})
        (folder / "service.yaml").write_text(_SETTINGS.format(master=address, config=shown))
        service = RunningService(folder, "service.yaml")
        try:
            service.start()
            _check_kinds(service)
            _check_kill(service)
            assert service.stop() == 0
        except BaseException:
            log = folder / "data" / "spark" / "spark.log"
            print(service.said()[-3000:], log.read_text()[-6000:] if log.exists() else "")
            raise
        finally:
            service.close()


def _check_kinds(service: RunningService) -> None:
    filters = service.subscribe("price > 500", metadata={"email": "a@example.org"})
    digest = service.subscribe("price > 500", pace="digest per 2 seconds")
    join = service.subscribe(_SELECT)
    tree = service.subscribe("//item[author{val}]")
    service.publish({"symbol": "GOOG", "price": 550.0}, {"symbol": "MSFT", "price": 3.0})
    for table, row in (
        ("Stocks", {"Symbol": "GOOG", "PER": 50.0}),
        ("Reviews", {"Id": 1, "Symbol": "GOOG", "Rating": 4.5}),
    ):
        assert service.post(f"/v1/tables/{table}", row).status_code == 202
    text = "<news><item><author>Ann</author></item></news>"
    assert service.send("/v1/documents", text, "application/xml").status_code == 202
    assert filters.wait_for(1)[0]["metadata"] == {"email": "a@example.org"}
    assert "GOOG" in json.dumps(join.wait_for(2))
    assert "Ann" in json.dumps(tree.wait_for(1))
    assert digest.wait_for(1)[0]["digest"]["count"] == 1


def _check_kill(service: RunningService) -> None:
    """Spark's process, then the service: each event is told once, in order."""
    feed = service.subscribe("n >= 0")
    with Publisher(service, "p", pause=0.05) as publisher:
        until(lambda: len(publisher.answered) > 10, "events")
        until(lambda: kill(service.child()), "Spark's process is there")
        until(lambda: len(publisher.answered) > 20, "events after a kill")
        service.kill()
        service.start(ready=False)
        until(lambda: len(publisher.answered) > 30, "events after another")
    feed.wait_for(len(publisher.answered))
    assert numbers(feed.got, "p") == publisher.answered
    assert os.path.exists(service.folder / "data" / "feeds.db")
