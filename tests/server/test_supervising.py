"""A supervised child: heard, told, started again, ended in order, and never left behind."""

import asyncio
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.server.running import is_alive, kill, until

from penstock.server.sides import supervising
from penstock.server.sides.supervising import Supervised

ECHO = """
import json, sys
print(json.dumps({"report": "hello"}), flush=True)
for line in sys.stdin:
    told = json.loads(line)
    if told["do"] == "stop":
        break
    print(json.dumps({"report": "heard", **told}), flush=True)
"""


class Watched:
    """A child of a script, and all that was heard of it."""

    def __init__(self, script: str, log: Path) -> None:
        self.heard: list[dict[str, Any]] = []
        self.begun = 0
        self.ends: list[tuple[int, int]] = []
        self.log = log
        self.child = Supervised(
            [sys.executable, "-c", textwrap.dedent(script)],
            log,
            hear=lambda report: self.heard.append(dict(report)),
            begin=self._begin,
            ended=lambda code, failures: self.ends.append((code, failures)),
        )

    def _begin(self) -> None:
        self.begun += 1

    async def until(self, condition: Callable[[], object]) -> None:
        while not condition():
            await asyncio.sleep(0.01)


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervising, "PAUSES", (0.0,))


def test_it_is_told_and_heard_and_ends_when_asked(tmp_path: Path):
    async def run() -> Watched:
        watched = Watched(ECHO, tmp_path / "child.log")
        watched.child.start()
        await watched.until(lambda: watched.heard)
        watched.child.tell({"do": "schema", "version": 3})
        await watched.until(lambda: len(watched.heard) == 2)
        await watched.child.stop({"do": "stop"}, 60)
        return watched

    watched = asyncio.run(run())
    assert watched.heard == [{"report": "hello"}, {"report": "heard", "do": "schema", "version": 3}]
    assert (watched.begun, watched.ends, watched.child.pid) == (1, [], None)


def test_one_that_fails_is_started_again_and_counted(tmp_path: Path):
    """Until it is well: from then on failures are counted anew."""

    async def run() -> Watched:
        watched = Watched("import sys; sys.exit(7)", tmp_path / "child.log")
        watched.child.start()
        await watched.until(lambda: len(watched.ends) == 3)
        watched.child.is_well()
        await watched.until(lambda: len(watched.ends) >= 4)
        await watched.child.stop({"do": "stop"}, 60)
        return watched

    watched = asyncio.run(run())
    assert watched.ends[:4] == [(7, 1), (7, 2), (7, 3), (7, 1)]


def test_what_it_says_beside_reports_is_in_the_log(tmp_path: Path):
    script = """
    import sys
    print("not a report", flush=True)
    print('{"report": "fine"}', flush=True)
    print("oh dear", file=sys.stderr)
    """

    async def run() -> Watched:
        watched = Watched(script, tmp_path / "deep" / "child.log")
        watched.child.start()
        await watched.child.wait()
        return watched

    watched = asyncio.run(run())
    assert watched.heard == [{"report": "fine"}]
    assert watched.log.read_text() == "oh dear\n"


def test_one_that_does_not_end_is_killed(tmp_path: Path):
    script = "import time\nprint('{}', flush=True)\nwhile True: time.sleep(60)"

    async def run() -> int:
        watched = Watched(script, tmp_path / "child.log")
        watched.child.start()
        await watched.until(lambda: watched.heard)
        pid = watched.child.pid
        assert pid is not None
        await watched.child.stop({"do": "stop"}, 0.1)
        return pid

    assert not is_alive(asyncio.run(run()))


def test_a_long_log_is_put_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(supervising, "_LONG_LOG", 10)
    log = tmp_path / "child.log"
    log.write_text("x" * 20)

    async def run() -> None:
        watched = Watched("pass", log)
        watched.child.start()
        await watched.child.wait()

    asyncio.run(run())
    assert log.read_text() == ""
    assert log.with_suffix(".before.log").read_text() == "x" * 20


def test_it_ends_when_whoever_started_it_is_killed(tmp_path: Path):
    """The child's stdin ends, whatever happened to the parent."""
    parent = f"""
    import asyncio, sys
    from pathlib import Path
    from penstock.server.sides.supervising import Supervised

    async def main():
        child = Supervised(
            [sys.executable, "-c", "import sys; sys.stdin.read()"], Path({str(tmp_path / "log")!r}),
            hear=print, begin=lambda: None, ended=print,
        )
        child.start()
        while child.pid is None:
            await asyncio.sleep(0.01)
        print(child.pid, flush=True)
        await child.wait()

    asyncio.run(main())
    """
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(parent)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    child = int(process.stdout.readline())
    assert is_alive(child)
    kill(process.pid)
    process.wait()
    until(lambda: not is_alive(child), "the child ends")
    process.stdout.close()
