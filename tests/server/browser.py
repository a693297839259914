"""A real browser: Debian's Chromium without a screen, driven by the WebDriver protocol.

It is found, or installed where that is possible; else `NoServer` is raised with the reason.
"""

import base64
import contextlib
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
from tests.servers import START_SECONDS, NoServer, free_port, install
from tests.sizes import PATIENCE

_ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # how WebDriver names an element


class Browser:
    """One window."""

    def __init__(self, client: httpx.Client) -> None:
        self._client = client

    def ask(self, method: str, path: str, **value: Any) -> Any:
        answer = self._client.request(method, path, json=value if method == "POST" else None)
        found = answer.json()["value"]
        assert answer.is_success, found
        return found

    def open(self, url: str) -> None:
        self.ask("POST", "/url", url=url)

    def run(self, script: str, *arguments: Any) -> Any:
        """What a script returns."""
        return self.ask("POST", "/execute/sync", script=script, args=list(arguments))

    def text(self, id: str) -> str:  # noqa: A002
        """What a person reads in an element."""
        return str(self.run("return document.getElementById(arguments[0]).innerText", id))

    def type(self, id: str, keys: str) -> None:  # noqa: A002
        """Type into an element, key by key."""
        found = self.ask("POST", "/element", using="css selector", value=f"#{id}")[_ELEMENT]
        self.ask("POST", f"/element/{found}/clear")
        self.ask("POST", f"/element/{found}/value", text=keys)

    def press(self, keys: str) -> None:
        """Press keys, wherever the focus is."""
        actions = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        self.ask("POST", "/actions", actions=[{"type": "key", "id": "keys", "actions": actions}])

    def click(self, selector: str) -> None:
        found = self.ask("POST", "/element", using="css selector", value=selector)[_ELEMENT]
        self.ask("POST", f"/element/{found}/click")

    def resize(self, width: int, height: int) -> None:
        self.ask("POST", "/window/rect", width=width, height=height)

    def picture(self, file: Path) -> None:
        file.write_bytes(base64.b64decode(self.ask("GET", "/screenshot")))

    def complaints(self) -> list[str]:
        """What the browser's console has of errors and warnings."""
        found = self.ask("POST", "/se/log", type="browser")
        return [one["message"] for one in found if one["level"] in ("SEVERE", "WARNING")]

    def wait(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < deadline, "the page never came to show it"
            time.sleep(0.05)


@contextlib.contextmanager
def browser() -> Iterator[Browser]:
    """A browser with an empty window."""
    if shutil.which("chromium") is None or shutil.which("chromedriver") is None:
        install("chromium-driver")
    driver, program = shutil.which("chromedriver"), shutil.which("chromium")
    if driver is None or program is None:
        raise NoServer("Chromium was installed, but can't be found")
    port, folder = free_port(), tempfile.mkdtemp(prefix="penstock-browser-")
    process = subprocess.Popen(
        [driver, f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    options = {
        "binary": program,
        "args": ["--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder}"],
    }
    wishes = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE) as client:
            _wait_for(client, process)
            made = client.post("/session", json={"capabilities": {"alwaysMatch": wishes}}).json()
            if "sessionId" not in made["value"]:
                raise NoServer(f"Chromium doesn't start: {made['value'].get('message', made)}")
            session = f"http://127.0.0.1:{port}/session/{made['value']['sessionId']}"
            client.base_url = session
            try:
                yield Browser(client)
            finally:
                assert client.delete(session).is_success, "the browser ends with its session"
    finally:
        process.terminate()
        process.wait(START_SECONDS)
        shutil.rmtree(folder, ignore_errors=True)


def _wait_for(client: httpx.Client, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        with contextlib.suppress(httpx.HTTPError):
            if client.get("/status").json()["value"]["ready"]:
                return
        if process.poll() is not None or time.monotonic() > deadline:
            raise NoServer("chromedriver didn't start")
        time.sleep(0.05)
