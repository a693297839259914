"""publish, follow, and `--server` of the commands on subscriptions, with a running service."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Penstock, read_lines, write_lines
from tests.server.running import RunningService
from tests.servers import free_port
from tests.sizes import PATIENCE


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    running = RunningService(
        tmp_path_factory.mktemp("served"), "--match", "live", "--schema", "symbol string, n bigint"
    )
    running.start()
    yield running
    running.close()


@pytest.fixture
def there(penstock: Penstock, service: RunningService, monkeypatch: pytest.MonkeyPatch) -> Penstock:
    """`penstock` with the service as PENSTOCK_SERVER."""
    monkeypatch.setenv("PENSTOCK_SERVER", service.url)
    return penstock


def _subscribed(there: Penstock, text: str, who: str = "alice") -> tuple[str, str]:
    value = json.loads(there("subscribe", who, text, "--json").stdout)
    return str(value["id"]), value["ticket"]


def _events(symbol: str, count: int) -> list[dict[str, Any]]:
    return [{"symbol": symbol, "n": number} for number in range(count)]


# --- publish and follow -------------------------------------------------------------------------


def test_what_is_published_is_followed(there: Penstock, tmp_path: Path):
    """Lines of JSON in, lines of JSON out; a file keeps the place."""
    sid, ticket = _subscribed(there, "symbol = 'CLI' AND n <> 1")
    write_lines(tmp_path / "events.jsonl", *_events("CLI", 3))
    write_lines(tmp_path / "others.jsonl", *_events("OTHER", 3))
    published = there("publish", "events.jsonl")
    assert (published.exit_code, published.stdout) == (0, "")
    assert "3 records published." in published.stderr
    with _following(there, sid, ticket) as found:
        assert [json.loads(found.line())["event"]["n"] for _ in range(2)] == [0, 2]
    for said in ("3 records published.", "0 records published, 3 were before."):
        named = there("publish", "events.jsonl", "--table", "none", "--producer", "cli")
        assert named.exit_code == 1  # it matches no tables
        again = there("publish", "others.jsonl", "--producer", "cli")
        assert again.exit_code == 0
        assert said in again.stderr
    kept = ("follow", sid, "--ticket", ticket, "--once", "--store", "place")
    assert [one["event"]["n"] for one in read_lines(there(*kept).stdout)] == [0, 2]
    rest = there(*kept)
    assert (rest.exit_code, rest.stdout) == (0, "")
    again = there("follow", sid, "--ticket", ticket, "--once")
    first = read_lines(again.stdout)[0]
    assert (first["kind"], first["subscription"], first["id"][-len(sid) :]) == (
        "filter",
        int(sid),
        sid,
    )


@pytest.mark.parametrize(
    ("name", "content", "count"),
    [
        ("array.json", '[{"symbol": "FORM", "n": 1}, {"symbol": "FORM", "n": 2}]', 2),
        ("one.json", '{\n  "symbol": "FORM",\n  "n": 1\n}\n', 1),
        ("lines.json", '{"symbol": "FORM"}\n\n{"symbol": "FORM", "n": 5}\n', 2),
        ("rows.csv", "symbol,n\nFORM,5\n007,\nFORM,-3\n", 3),
        ("empty.jsonl", "", 0),
    ],
)
def test_forms_of_files(there: Penstock, tmp_path: Path, name: str, content: str, count: int):
    """An array, an object over several lines, lines with gaps, CSV."""
    (tmp_path / name).write_text(content)
    published = there("publish", name, "--json")
    assert json.loads(published.stdout)["accepted"] == count
    assert published.exit_code == 0


def test_refused_records_are_said_with_their_reasons(there: Penstock, tmp_path: Path):
    """Exit code 1; the rest is published."""
    write_lines(tmp_path / "bad.jsonl", {"symbol": "BAD", "n": 1}, {"symbl": "BAD"}, {"n": "x"})
    published = there("publish", "bad.jsonl", "--json")
    assert published.exit_code == 1
    outcome = json.loads(published.stdout)
    assert (outcome["accepted"], outcome["refused"]) == (1, 2)
    assert "did you mean" in published.stderr
    assert '{"symbl":"BAD"}' in published.stderr


@pytest.mark.parametrize("content", ['{"symbol": "A"}\nnonsense\n', "[1, 2]", '"text"', "[{]"])
def test_files_that_have_no_records(there: Penstock, tmp_path: Path, content: str):
    """What is wrong is said, and where."""
    (tmp_path / "bad.json").write_text(content)
    published = there("publish", "bad.json")
    assert published.exit_code == 1
    assert "JSON" in published.stderr or "a record is a mapping" in published.stderr
    assert "Traceback" not in published.stderr


def test_standard_input_is_published_as_it_comes(service: RunningService, there: Penstock):
    """A line is in the feed while the program still reads."""
    sid, ticket = _subscribed(there, "symbol = 'PIPE'")
    program = _start("publish", "-", "--server", service.url)
    assert program.stdin is not None
    with _following(there, sid, ticket) as found:
        for event in _events("PIPE", 3):
            program.stdin.write(json.dumps(event) + "\n")
            program.stdin.flush()
            assert json.loads(found.line())["event"] == event
    program.stdin.close()
    assert program.wait(PATIENCE) == 0


def test_a_table_that_is_not_there(there: Penstock, tmp_path: Path):
    """Changes are refused with the reason."""
    write_lines(tmp_path / "rows.jsonl", {"Symbol": "A", "op": "insert"})
    published = there("publish", "rows.jsonl", "--table", "Stocks")
    assert published.exit_code == 1
    assert "not published" in published.stderr


# --- the end of following -----------------------------------------------------------------------


class _Followed:
    """`penstock follow` in a process of its own."""

    def __init__(self, program: "subprocess.Popen[str]") -> None:
        self.program = program

    def line(self) -> str:
        assert self.program.stdout is not None
        found = self.program.stdout.readline()
        assert found, self.program.communicate()
        return found

    def __enter__(self) -> "_Followed":
        return self

    def __exit__(self, *_: object) -> None:
        self.program.send_signal(signal.SIGINT)
        _, said = self.program.communicate(timeout=PATIENCE)
        assert (self.program.returncode, said) == (130, "")


def _start(*words: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "penstock", *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _following(there: Penstock, sid: str, ticket: str, *words: str) -> _Followed:
    del there  # it has set PENSTOCK_SERVER
    return _Followed(_start("follow", sid, "--ticket", ticket, *words))


def test_ctrl_c_is_quiet(there: Penstock):
    """Exit code 130, and not a word."""
    sid, ticket = _subscribed(there, "symbol = 'QUIET'")
    with _following(there, sid, ticket) as found:
        assert there("publish", "-", stdin='{"symbol": "QUIET"}\n').exit_code == 0
        found.line()


def test_a_closed_pipe_is_quiet(there: Penstock, service: RunningService):
    """`| head -1` ends it at once, not with the next notification."""
    sid, ticket = _subscribed(there, "symbol = 'HEAD'")
    assert there("publish", "-", stdin='{"symbol": "HEAD"}\n').exit_code == 0
    command = f"{sys.executable} -m penstock follow {sid} --ticket {ticket}; echo $? >&2"
    done = subprocess.run(
        ["bash", "-c", f"({command}) | head -1"],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env={**os.environ, "PENSTOCK_SERVER": service.url},
    )
    assert json.loads(done.stdout)["event"] == {"symbol": "HEAD"}
    assert done.stderr == "141\n"


# --- subscriptions ------------------------------------------------------------------------------


def test_the_life_of_a_subscription(there: Penstock):
    """As on a registry: the same words, the same exit codes."""
    made = there("subscribe", "bert", "n > 5", "--meta", "email=b@example.org")
    assert made.exit_code == 0
    sid, ticket = made.stdout.split()[1], made.stdout.split()[3]
    assert "penstock follow" in made.stderr
    updated = there("update", sid, "n > 6", "--ticket", ticket, "--json")
    assert json.loads(updated.stdout)["subscription"] == "n > 6"
    assert "is renewed" in there("renew", sid, "--ticket", "-", stdin=ticket + "\n").stderr
    assert there("list", "bert").stdout.split("\t")[2:] == ["bert", "n > 6\n"]
    assert read_lines(there("list", "bert", "--json").stdout)[0]["metadata"] == {
        "email": "b@example.org"
    }
    missed = there("explain", "--id", sid, "--ticket", ticket, "--event", '{"n": 6}')
    assert missed.exit_code == 1
    assert "✗ n > 6  fails: n is 6" in missed.stdout
    hit = there("explain", "--id", sid, "--ticket", ticket, "--event", '{"n": 7}', "--json")
    assert (hit.exit_code, json.loads(hit.stdout)["matched"]) == (0, True)
    assert "only select-joins" in there("resync", sid, "--ticket", ticket).stderr
    assert "is gone" in there("unsubscribe", sid, "--ticket", ticket).stderr
    gone = there("renew", sid, "--ticket", ticket)
    assert gone.exit_code == 1
    assert "no live subscription" in gone.stderr


def test_a_bad_filter_is_refused_with_its_place(there: Penstock):
    """As on a registry."""
    refused = there("subscribe", "alice", "symbl = 'A'")
    assert refused.exit_code == 1
    assert "symbl = 'A'\n  ^^^^^" in refused.stderr
    assert "did you mean 'symbol'" in refused.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("subscribe", "a", "n > 5", "--schema", "n bigint"),
        ("update", "1", "n > 5", "--force"),
        ("list", "--refused"),
        ("explain", "--filter", "n > 5", "--event", "{}"),
    ],
)
def test_options_of_a_registry_make_no_sense_with_a_service(there: Penstock, words: tuple[str]):
    """They are refused, not left out."""
    refused = there(*words)
    assert refused.exit_code == 2
    assert "--server" in refused.stderr


def test_a_service_that_does_not_run(penstock: Penstock):
    """Said at once, with what to do."""
    url = f"http://localhost:{free_port()}"
    for words in (("list",), ("subscribe", "a", "n > 5")):
        failed = penstock(*words, "--server", url)
        assert failed.exit_code == 1
        assert "does `penstock serve` run there?" in failed.stderr
