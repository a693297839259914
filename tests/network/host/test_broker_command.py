"""`penstock broker`, as a person runs it."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import Result
from tests.server.running import until
from tests.servers import NoServer, free_port, nats
from tests.sizes import PATIENCE
from typer.testing import CliRunner

from penstock.cli import app

pytestmark = pytest.mark.slow

FILE = """
name: {name}
rank: {rank}
listen: [{at}]
neighbours: [{neighbours}]
schema: {{symbol: string, price: double}}
"""


def penstock(*words: str, text: str = "") -> Result:
    """Run a command to its end, in this process."""
    return CliRunner().invoke(app, words, input=text)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two brokers are described in it."""
    monkeypatch.chdir(tmp_path)
    ports = free_port(), free_port()
    north, south = (f"tcp/127.0.0.1:{port}" for port in ports)
    (tmp_path / "north.yaml").write_text(FILE.format(name="north", rank=0, at=north, neighbours=""))
    parent = f"{{name: north, at: '{north}'}}"
    file = FILE.format(name="south", rank=1, at=south, neighbours=parent)
    (tmp_path / "south.yaml").write_text(file)
    return tmp_path


class Running:
    """A command that goes on."""

    def __init__(self, folder: Path, *words: str) -> None:
        self._log = folder / f"{'-'.join(words[:3]).replace('/', '_')}.log"
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "penstock", *words],
                stdout=log,
                stderr=log,
                stdin=subprocess.PIPE,
                cwd=folder,
            )

    def said(self) -> str:
        return self._log.read_text()

    def wait_for(self, text: str) -> None:
        until(lambda: text in self.said() or self.process.poll() is not None, text)
        assert text in self.said(), self.said()

    def interrupt(self) -> int:
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(PATIENCE)


@contextmanager
def running(folder: Path, *words: str) -> Iterator[Running]:
    found = Running(folder, *words)
    try:
        yield found
    finally:
        if found.process.poll() is None:
            found.process.kill()
            found.process.wait()


def test_two_brokers_from_the_shell(folder: Path):
    """They say where they listen; one's events are followed at the other; status tells; Ctrl-C ends quietly."""
    with (
        running(folder, "broker", "north.yaml") as north,
        running(folder, "broker", "south.yaml") as south,
    ):
        north.wait_for("Penstock runs broker north of penstock at tcp/127.0.0.1:")
        south.wait_for("under north. Ctrl-C stops it.")
        with running(
            folder, "broker", "follow", "south.yaml", "price > 500", "--name", "alice"
        ) as alice:
            alice.wait_for("alice follows at south")
            lines = '{"symbol": "GOOG", "price": 550.5}\n{"symbol": "GOOG", "price": 3}\n\n{"price": 560}\n'
            done = penstock("broker", "publish", "north.yaml", "-", text=lines)
            assert done.stderr.strip() == "3 events published", done
            bad = '{"price": 1}\noops\n{"price": "dear"}\n[3]\n{"price": 2}\n'
            done = penstock("broker", "publish", "north.yaml", "-", text=bad)
            assert done.exit_code == 1
            *reasons, said = done.stderr.splitlines()
            assert [one.partition(": ")[2].partition(":")[0] for one in reasons] == [
                "line 2",
                "line 3",
                "line 4",
            ]
            assert "price is double in this network" in reasons[1]
            assert said == "2 events published, 3 refused"
            alice.wait_for('{"symbol":"GOOG","price":550.5}\n{"price":560.0}\n')
            assert alice.interrupt() == 130
        told = penstock("broker", "status", "north.yaml", "--json")
        status = json.loads(told.stdout)
        assert status["name"] == "north"
        (link,) = status["broker"]["neighbours"]
        assert (link["name"], link["subscriptions_in"], link["events_out"]) == ("south", 1, 2)
        shown = penstock("broker", "status", "south.yaml").stdout
        assert "south (rank 1), under north" in shown
        assert "north (parent)" in shown
        assert "client alice, away: 1 subscription or advertisement, " in shown
        assert penstock("broker", "forget", "south.yaml", "alice").stderr == "alice is forgotten\n"
        assert "client alice" not in penstock("broker", "status", "south.yaml").stdout
        assert south.interrupt() == 0
        assert north.interrupt() == 0
        assert north.said().endswith("stopped\n")
        assert "Traceback" not in north.said() + south.said()


def test_what_is_wrong_is_said_at_once(folder: Path):
    """All problems, exit code 1; a file that isn't there is a wrong command line; --check starts nothing."""
    (folder / "bad.yaml").write_text("nam: b1\nrouting: mergin\nschema: {a: double}\n")
    done = penstock("broker", "bad.yaml")
    assert done.exit_code == 1
    assert "3 problems in the broker description" in done.stderr
    assert "did you mean 'name'?" in done.stderr
    assert penstock("broker", "none.yaml").exit_code == 2
    done = penstock("broker", "south.yaml", "--check")
    assert done.exit_code == 0
    assert "fine. broker south of penstock" in done.stderr
    assert not (folder / "broker-south").exists()


def test_nobody_answers(folder: Path):
    """`status` of a broker that doesn't run says so, and where it looked."""
    done = penstock("broker", "status", "north.yaml")
    assert done.exit_code == 1
    assert "no broker answers at tcp/127.0.0.1:" in done.stderr


TABLES = """
catalog:
  tables:
    Stocks: {schema: {Symbol: string, PER: double}, key: Symbol}
    Reviews: {schema: {Id: bigint, Symbol: string, Rating: bigint}, key: Id}
  edges: [[Stocks, Reviews, Symbol]]
"""
SELECT = "SELECT * FROM Stocks JOIN Reviews USING (Symbol) WHERE PER > 45 AND Rating >= 6"


def test_tables_from_the_shell(folder: Path):
    """Published at one broker, with a SELECT over them followed at the other; lines that are wrong are said, and left
    out; a publisher that starts again has other tables, and those who follow get what has changed."""
    for name in ("north", "south"):
        file = folder / f"{name}.yaml"
        file.write_text(file.read_text() + TABLES)
    (folder / "stocks.jsonl").write_text(
        '{"table": "Stocks", "tuple": {"Symbol": "GOOG", "PER": 51.7}}\n'
    )
    review = '{"table": "Reviews", "tuple": {"Id": 1, "Symbol": "GOOG", "Rating": 7}}\n'
    (folder / "reviews.jsonl").write_text(review)
    row = '"row":{"Symbol":"GOOG","PER":51.7,"Id":1,"Rating":7}}'
    with (
        running(folder, "broker", "north.yaml") as north,
        running(folder, "broker", "south.yaml") as south,
        running(folder, "broker", "follow", "south.yaml", SELECT, "--name", "alice") as alice,
    ):
        north.wait_for("Ctrl-C stops it.")
        south.wait_for("Ctrl-C stops it.")
        alice.wait_for("alice follows at south")
        with running(folder, "broker", "tables", "north.yaml", "stocks.jsonl", "-") as tables:
            tables.wait_for("tables publishes tables at north")
            assert tables.process.stdin is not None
            tables.process.stdin.write(b'{"table": "Nowhere", "tuple": {}}\n' + review.encode())
            tables.process.stdin.flush()
            alice.wait_for('{"change":"added",' + row)
            assert "standard input, line 1: " in tables.said()
            assert tables.interrupt() == 130
        (folder / "reviews.jsonl").write_text(review.replace("7", "9"))
        with running(folder, "broker", "tables", "north.yaml", "stocks.jsonl", "reviews.jsonl"):
            alice.wait_for('{"change":"removed",' + row)
            done = penstock("broker", "follow", "south.yaml", SELECT, "--name", "bob", "--once")
            assert json.loads(done.stdout)["row"]["Rating"] == 9
        assert alice.interrupt() == 130
        assert "Traceback" not in north.said() + south.said() + alice.said() + tables.said()


def test_a_broker_without_tables_says_so(folder: Path):
    """As a wrong command line; what is wrong with a file of changes names the line."""
    assert penstock("broker", "follow", "north.yaml", SELECT).exit_code == 2
    assert penstock("broker", "tables", "north.yaml", "-").exit_code == 2
    file = folder / "north.yaml"
    file.write_text(file.read_text() + TABLES)
    (folder / "changes.jsonl").write_text('{"table": "Stocks", "tuple": {"PRE": 1}}\n')
    done = penstock("broker", "tables", "north.yaml", "changes.jsonl")
    assert done.exit_code == 1
    assert "line 1: Stocks has no column 'PRE'" in done.stderr


@pytest.mark.nats
def test_brokers_over_nats(folder: Path):
    """The same commands, with NATS between brokers and clients."""
    try:
        with nats(jetstream=False) as server:
            more = f"\nnats: {{servers: '{server.url}'}}\n"
            for name in ("north", "south"):
                file = folder / f"{name}.yaml"
                file.write_text(file.read_text() + more)
            with (
                running(folder, "broker", "north.yaml") as north,
                running(folder, "broker", "south.yaml") as south,
            ):
                north.wait_for("Penstock runs broker north of penstock at NATS")
                south.wait_for("Ctrl-C stops it.")
                with running(folder, "broker", "follow", "north.yaml", "price > 500") as follower:
                    follower.wait_for("follower follows at north")
                    lines = '{"symbol": "GOOG", "price": 550.5}\n'
                    penstock("broker", "publish", "south.yaml", "-", text=lines)
                    follower.wait_for('{"symbol":"GOOG","price":550.5}\n')
    except NoServer as reason:
        pytest.skip(str(reason))
