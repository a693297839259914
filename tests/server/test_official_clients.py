"""The clients of the Durable Streams protocol read our feeds as they are: catching up, live, and resuming.

`durable-streams` from PyPI, and `@durable-streams/client` from npm in a Node of its own, which has to be installable.
"""

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import durable_streams
import pytest
from tests.server.running import RunningService
from tests.sizes import PATIENCE

import penstock

COUNT = 500
INSTALL_SECONDS = 300


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    running = RunningService(
        tmp_path_factory.mktemp("served"), "--match", "live", "--schema", "symbol string, n bigint"
    )
    running.start()
    yield running
    running.close()


@pytest.fixture
def client(service: RunningService) -> Iterator[penstock.Client]:
    with penstock.Client(service.url, patience="5 minutes") as client:
        yield client


class Filled:
    """A feed with some notifications in it, as a client of another make is given it."""

    def __init__(self, client: penstock.Client, service: RunningService, symbol: str) -> None:
        self._client, self._symbol = client, symbol
        self.mine = client.subscribe("alice", f"symbol = '{symbol}'")
        self.url = service.url + self.mine.feed
        self.headers = {"Authorization": f"Bearer {self.mine.ticket}"}
        self._next = 0
        self.fill(COUNT)
        with client.follow(self.mine.id, self.mine.ticket) as feed:
            for _ in range(COUNT):
                next(feed)

    def fill(self, count: int) -> None:
        """Have more in it, soon."""
        numbers = range(self._next, self._next + count)
        self._client.publish({"symbol": self._symbol, "n": number} for number in numbers)
        self._client.flush()
        self._next += count


def _numbers(found: list[Any]) -> list[int]:
    return [one["event"]["n"] for one in found]


# --- Python -------------------------------------------------------------------------------------


def test_python_catches_up(client: penstock.Client, service: RunningService):
    """Everything there is, in order, and where to go on."""
    feed = Filled(client, service, "PY CATCH")
    with durable_streams.stream(feed.url, live=False, headers=feed.headers) as answer:
        assert _numbers(answer.read_json()) == list(range(COUNT))
        offset = answer.offset
    feed.fill(5)
    found: list[Any] = []
    with durable_streams.stream(
        feed.url, offset=offset, live="long-poll", headers=feed.headers
    ) as answer:
        for item in answer.iter_json():
            found.append(item)
            if len(found) == 5:
                break
    assert _numbers(found) == list(range(COUNT, COUNT + 5))


@pytest.mark.parametrize("live", ["long-poll", "sse"])
def test_python_follows(client: penstock.Client, service: RunningService, live: Any):
    """What comes while it is connected; then another reader resumes at the first one's offset."""
    feed = Filled(client, service, f"PY {live}")
    batches, offset = [], "-1"
    with durable_streams.stream(feed.url, offset="-1", live=live, headers=feed.headers) as answer:
        feed.fill(10)
        for batch in answer.iter_json_batches():
            batches.append(batch)
            if sum(map(len, batches)) == COUNT + 10:
                break
        assert _numbers([one for batch in batches for one in batch]) == list(range(COUNT + 10))
    middle = len(batches) // 2
    with durable_streams.stream(feed.url, offset="-1", live=False, headers=feed.headers) as answer:
        for event in answer.iter_events(mode="json"):
            offset = event.next_offset
    feed.fill(1)
    with durable_streams.stream(feed.url, offset=offset, live=live, headers=feed.headers) as answer:
        assert next(iter(answer.iter_json()))["event"]["n"] == COUNT + 10
    assert middle >= 0


def test_python_is_told_what_is_wrong(client: penstock.Client, service: RunningService):
    """A wrong ticket is what the protocol says for a stream that isn't there."""
    feed = Filled(client, service, "PY WRONG")
    with pytest.raises(durable_streams.StreamNotFoundError):
        durable_streams.stream(feed.url, headers={"Authorization": "Bearer " + "0" * 64})


def test_python_sees_where_a_feed_ends(client: penstock.Client, service: RunningService):
    """HEAD, as the protocol has it."""
    feed = Filled(client, service, "PY HEAD")
    with durable_streams.DurableStream(feed.url, headers=feed.headers) as stream:
        found = stream.head()
    assert found.content_type == "application/json"
    with client.follow(feed.mine.id, feed.mine.ticket, offset=found.offset, live=None) as rest:
        assert list(rest) == []


# --- Node ---------------------------------------------------------------------------------------

_PROGRAM = """
import { writeFileSync } from "node:fs"
import { stream } from "@durable-streams/client"
const { url, headers, offset, live, count } = JSON.parse(process.argv[2])
const res = await stream({ url, headers, offset, live })
let found = []
let last = offset
if (live === false) {
  found = await res.json()
  last = res.offset
} else {
  await new Promise((done, failed) => {
    res.closed.catch(failed)
    res.subscribeJson((batch) => {
      found.push(...batch.items)
      last = batch.offset
      console.log(`${found.length}`)
      if (found.length >= count) done()
    })
  })
}
writeFileSync("found.json", JSON.stringify({ found, offset: last }))
process.exit(0)
"""


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the client from npm, and a program that reads with it."""
    npm, folder = shutil.which("npm"), tmp_path_factory.mktemp("node")
    if npm is None or shutil.which("node") is None:
        pytest.skip("there is no Node")
    command = [
        npm,
        "install",
        "--silent",
        "--no-audit",
        "--no-fund",
        "@durable-streams/client@0.2.7",
    ]
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=INSTALL_SECONDS
        )
    except subprocess.TimeoutExpired:
        pytest.skip(f"npm took more than {INSTALL_SECONDS} s")
    if done.returncode:
        pytest.skip(f"npm can't install the client: {(done.stdout + done.stderr)[-300:]}")
    (folder / "read.mjs").write_text(_PROGRAM)
    return folder


def _read(node: Path, feed: Filled, offset: str, live: Any, count: int, more: int = 0) -> Any:
    """Read with Node until there are so many; `more` come when it has read what is there."""
    given = {"url": feed.url, "headers": feed.headers, "offset": offset, "live": live}
    program = subprocess.Popen(
        ["node", "read.mjs", json.dumps({**given, "count": count})],
        cwd=node,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert program.stdout is not None
    if more:
        said = program.stdout.readline()  # it is connected, and has read something
        assert said.strip().isdigit(), program.communicate()
        feed.fill(more)
    assert program.wait(PATIENCE) == 0, program.communicate()
    return json.loads((node / "found.json").read_text())


def test_node_catches_up(node: Path, client: penstock.Client, service: RunningService):
    """Everything there is, in order, and where to go on."""
    feed = Filled(client, service, "NODE CATCH")
    read = _read(node, feed, "-1", False, COUNT)
    assert _numbers(read["found"]) == list(range(COUNT))
    feed.fill(3)
    again = _read(node, feed, read["offset"], "long-poll", 3)
    assert _numbers(again["found"]) == list(range(COUNT, COUNT + 3))


@pytest.mark.parametrize("live", ["long-poll", "sse", True])
def test_node_follows(node: Path, client: penstock.Client, service: RunningService, live: Any):
    """What comes while it is connected, and it resumes."""
    feed = Filled(client, service, f"NODE {live}")
    read = _read(node, feed, "-1", live, COUNT + 7, more=7)
    assert _numbers(read["found"]) == list(range(COUNT + 7))
    feed.fill(2)
    again = _read(node, feed, read["offset"], live, 2)
    assert _numbers(again["found"]) == [COUNT + 7, COUNT + 8]
