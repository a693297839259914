"""A service in a process of its own, as users start it; publishers and readers that don't give up; who is to be killed.

A publisher numbers its requests and repeats one until it is answered, whatever happens to the service meanwhile. A
reader goes on at the offset that it has read up to. So a test knows exactly what must come out.
"""

import contextlib
import os
import re
import signal
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
from tests.server.forked import Forked
from tests.sizes import PATIENCE

_LOOK = 0.05
_GONE = (httpx.TransportError,)
_NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""With no certificates. To read those of the machine takes 50 ms of computing, for each request by itself."""


def until(condition: Any, what: str) -> Any:
    """Wait for something to become true; what it is then."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if found := condition():
            return found
        time.sleep(_LOOK)
    raise AssertionError(f"waited in vain: {what}")


class RunningService:
    """`penstock serve` in a process, on a port that stays the same when it is started again.

    The process is forked from one that has imported Penstock. With `afresh`, it is the program as users start it.
    """

    def __init__(self, folder: Path, *words: str) -> None:
        self.folder, self._words = folder, words
        self.port = 0
        self._log = folder / "said.txt"
        self._process: Forked | subprocess.Popen[bytes] | None = None

    def start(self, *, ready: bool = True, afresh: bool = False) -> "RunningService":
        self.folder.mkdir(parents=True, exist_ok=True)
        words = ["serve", "--data", str(self.folder / "data"), "--port", str(self.port)]
        words += self._words
        before = self._log.stat().st_size if self._log.exists() else 0
        with self._log.open("ab") as log, open(os.devnull, "rb") as nothing:
            if afresh:
                command = [sys.executable, "-m", "penstock", *words]
                self._process = subprocess.Popen(
                    command, stdin=nothing, stdout=log, stderr=log, cwd=self.folder
                )
            else:
                self._process = Forked("penstock.cli", words, (nothing, log, log), self.folder)
        found = until(lambda: self._address(before), f"an address in {self.said()[before:]!r}")
        self.port = int(found)
        if ready:
            self.wait_ready()
        return self

    def _address(self, before: int) -> str | None:
        assert self._process is not None
        said = self.said()[before:]
        if self._process.poll() is not None:
            raise AssertionError(f"it has ended: {said}")
        found = re.search(r"at http://localhost:(\d+)\.", said)
        return found[1] if found else None

    def wait_ready(self) -> None:
        """Until it matches."""
        until(lambda: self.get("/readyz").status_code == 200, f"ready: {self.said()}")

    def said(self) -> str:
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    @property
    def url(self) -> str:
        return f"http://localhost:{self.port}"

    def get(self, path: str, **more: Any) -> httpx.Response:
        return httpx.get(self.url + path, timeout=60, verify=_NO_TLS, **more)

    def post(self, path: str, value: Any, **more: Any) -> httpx.Response:
        return httpx.post(self.url + path, json=value, timeout=60, verify=_NO_TLS, **more)

    def send(self, path: str, content: str, kind: str) -> httpx.Response:
        headers = {"Content-Type": kind}
        return httpx.post(
            self.url + path, content=content, headers=headers, timeout=60, verify=_NO_TLS
        )

    def subscribe(self, text: str, subscriber: str = "alice", **more: Any) -> "Feed":
        told = {"subscriber": subscriber, "subscription": text, **more}
        answer = self.post("/v1/subscriptions", told, headers={"Prefer": "wait=60"})
        assert answer.status_code == 201, answer.text
        return Feed(self, answer.json())

    def publish(self, *events: dict[str, Any]) -> dict[str, Any]:
        answer = self.post("/v1/events", list(events))
        assert answer.status_code == 202, answer.text
        found: dict[str, Any] = answer.json()
        return found

    # --- its end ---------------------------------------------------------------------------------

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def child(self) -> int | None:
        """The process with Spark."""
        return next(iter(children(self.pid)), None)

    def jvm(self) -> int | None:
        child = self.child()
        found = [pid for pid in children(child) if name_of(pid) == "java"] if child else []
        return found[0] if found else None

    def worker(self) -> int | None:
        """A process in which Spark runs Python."""
        jvm = self.jvm()
        daemons = children(jvm) if jvm else []
        found = [pid for daemon in daemons for pid in children(daemon)]
        return found[0] if found else None

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self, number: int = signal.SIGTERM) -> int:
        """End it in order; the exit code."""
        assert self._process is not None
        self._process.send_signal(number)
        return self._process.wait(PATIENCE)

    def close(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self.kill()


class Feed:
    """The feed of a subscription, read from its beginning, by somebody who comes back."""

    def __init__(self, service: RunningService, subscribed: dict[str, Any]) -> None:
        self.service, self.subscribed = service, subscribed
        self.id: int = subscribed["id"]
        self.offset = str(subscribed["offset"])
        self.got: list[dict[str, Any]] = []

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.subscribed['ticket']}"}

    def read(self, live: str | None = None) -> int:
        """Read on; how many notifications came. None come while the service is away."""
        asked = {"offset": self.offset, **({"live": live} if live else {})}
        try:
            answer = self.service.get(f"/v1/feeds/{self.id}", params=asked, headers=self.headers)
        except _GONE:
            return 0
        if answer.status_code in (204, 503):
            return 0
        assert answer.status_code == 200, answer.text
        found = answer.json()
        self.got += found
        self.offset = answer.headers["Stream-Next-Offset"]
        return len(found)

    def wait_for(self, count: int) -> list[dict[str, Any]]:
        """Read until there are so many notifications; all of them."""
        until(
            lambda: self.read("long-poll") >= 0 and len(self.got) >= count, f"{count} of {self.got}"
        )
        return self.got


class Publisher:
    """A producer of events {"n": 0}, {"n": 1} …, each published once, whatever happens. A thread."""

    def __init__(self, service: RunningService, name: str, pause: float = 0.003) -> None:
        self.service, self.name, self._pause = service, name, pause
        self.answered: list[int] = []
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> "Publisher":
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End when the request that is on its way was answered."""
        self._ending.set()
        self._thread.join()

    def _run(self) -> None:
        seq = 0
        with httpx.Client(timeout=60, verify=_NO_TLS) as client:
            while not self._ending.is_set():
                n = len(self.answered)
                event = {"n": n, "producer": self.name, "even": n % 2 == 0}
                said = {"Producer-Id": self.name, "Producer-Epoch": "0", "Producer-Seq": str(seq)}
                with contextlib.suppress(*_GONE):
                    url = f"{self.service.url}/v1/events"
                    answer = client.post(url, json=event, headers=said)
                    if answer.status_code in (200, 202, 204):
                        seq += 1
                        self.answered.append(n)
                    else:
                        assert answer.status_code in (429, 503), answer.text
                time.sleep(self._pause)


def children(pid: int | None) -> list[int]:
    """Processes that a process has started, oldest first."""
    with contextlib.suppress(OSError):
        tasks = Path(f"/proc/{pid}/task")
        return sorted(
            int(child)
            for task in tasks.iterdir()
            for child in (task / "children").read_text().split()
        )
    return []


def name_of(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().strip()
    return ""


def is_alive(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def kill(pid: int | None) -> bool:
    """Kill -9; False if there is nobody to be killed."""
    if pid is None:
        return False
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
        return True
    return False


@contextlib.contextmanager
def running(folder: Path, *words: str) -> Iterator[RunningService]:
    service = RunningService(folder, *words)
    try:
        yield service.start()
    finally:
        service.close()


def numbers(got: list[dict[str, Any]], producer: str) -> list[int]:
    """The numbers of a producer's events, in the order of a feed."""
    return [one["event"]["n"] for one in got if one["event"]["producer"] == producer]
