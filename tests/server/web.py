"""A service on a loopback port, its loop in a thread of the test: what routes do, with real sockets.

Matching is live, so that no Spark has to start. `feed` appends to the store as a micro-batch would.
"""

import asyncio
import socket
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import uvicorn
from tests.sizes import PATIENCE

from penstock.delivery.sinks import Batch
from penstock.joins.catalog import Catalog
from penstock.server.dashboard import dashboard_pages
from penstock.server.publishing import Publisher
from penstock.server.service import Service
from penstock.server.settings import parse_settings
from penstock.server.web.app import create_app
from penstock.server.web.http_settings import HttpLimits, HttpSettings
from penstock.server.web.web_protocol import limited_protocol

SCHEMA = {"symbol": "string", "price": "double", "size": "bigint"}
QUICK = HttpLimits(poll_seconds=0.3, stream_seconds=30, heartbeat_seconds=0.2)


class WebService:
    """A running service, and a client of it."""

    def __init__(self, service: Service, url: str, loop: asyncio.AbstractEventLoop) -> None:
        self.service, self.url, self.loop = service, url, loop
        self.client = httpx.Client(base_url=url, timeout=PATIENCE)
        self._batch = 0

    def get(self, path: str, ticket: str | None = None, **more: Any) -> httpx.Response:
        return self.ask("GET", path, ticket, **more)

    def post(
        self, path: str, value: Any = None, ticket: str | None = None, **more: Any
    ) -> httpx.Response:
        return self.ask(
            "POST", path, ticket, **({"json": value} if value is not None else {}), **more
        )

    def ask(self, method: str, path: str, ticket: str | None = None, **more: Any) -> httpx.Response:
        headers = dict(more.pop("headers", {}))
        if ticket is not None:
            headers["Authorization"] = f"Bearer {ticket}"
        return self.client.request(method, path, headers=headers, **more)

    def subscribe(
        self, text: str = "price > 5", subscriber: str = "alice", **more: Any
    ) -> dict[str, Any]:
        """Subscribe, and wait until it is matched."""
        wish = {"subscriber": subscriber, "subscription": text, **more.pop("wish", {})}
        answer = self.post("/v1/subscriptions", wish, headers={"Prefer": "wait=30", **more})
        assert answer.status_code == 201, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def feed(self, *readers: Iterable[int], body: str = '{"event":{"price":7.0}}') -> None:
        """Append a row for each group of readers, and let all who wait know of it."""
        self._batch += 1
        ids = [f"{self._batch}.{n}" for n, _ in enumerate(readers)]
        rows = {
            "id": ids,
            "body": [body] * len(ids),
            "readers": [list(group) for group in readers],
            "position": list(range(len(ids))),
        }
        types = pa.schema(
            [
                ("id", pa.string()),
                ("body", pa.string()),
                ("readers", pa.list_(pa.int64())),
                ("position", pa.int64()),
            ]
        )
        self.service.feeds.append(
            pa.table(rows, schema=types), Batch("tests", self._batch, "tests")
        )
        self.run(self.service.hub.advance())

    def run(self, work: Any) -> Any:
        """Run a coroutine in the service's loop."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(PATIENCE)


KINDS = ("filter", "select-join", "tree-pattern")


def accept_all_kinds(service: Service, catalog: Catalog | None = None) -> None:
    """Take what only Spark matches, too: it is accepted, and waits."""
    state = service.matching.state
    service.matching.state = lambda: replace(state(), kinds=KINDS)  # type: ignore[method-assign]
    service.publisher.close()
    service.publisher = Publisher(service.inbox, service.schema, catalog)


@contextmanager
def web_service(
    folder: Path,
    limits: HttpLimits = QUICK,
    http: HttpSettings | None = None,
    **settings: Any,
) -> Iterator[WebService]:
    """A service with all its parts, until the block ends."""
    given = {"data": str(folder / "data"), "match": "live", "port": 0, "schema": SCHEMA, **settings}
    given = {name: value for name, value in given.items() if value is not None}
    service = Service(parse_settings(given))
    service.http = replace(http or HttpSettings(), limits=limits)
    service.publisher.close()
    service.publisher = service._publisher()
    listening = socket.create_server(("127.0.0.1", 0), backlog=256)
    port = listening.getsockname()[1]
    began: list[WebService | BaseException] = []
    is_there, stopping = threading.Event(), threading.Event()

    async def serve() -> None:
        app = create_app(service, dashboard_pages())
        config = uvicorn.Config(
            app,
            http=limited_protocol(service.http.limits),
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=5,
        )
        server = uvicorn.Server(config)
        server.capture_signals = _no_signals  # type: ignore[method-assign]
        async with service:
            running = asyncio.create_task(server.serve(sockets=[listening]))
            while not server.started and not running.done():
                await asyncio.sleep(0.005)
            began.append(
                WebService(service, f"http://127.0.0.1:{port}", asyncio.get_running_loop())
            )
            is_there.set()
            while not stopping.is_set():
                await asyncio.sleep(0.01)
            service.stop_streams()
            server.should_exit = True
            await running
        app.state.close()

    def run() -> None:
        try:
            asyncio.run(serve())
        except BaseException as error:
            began.append(error)
            raise
        finally:
            is_there.set()

    thread = threading.Thread(target=run, name="web service")
    thread.start()
    is_there.wait(PATIENCE)
    first = began[0]
    try:
        if isinstance(first, BaseException):
            raise first
        yield first
    finally:
        stopping.set()
        thread.join(PATIENCE)
        if isinstance(first, WebService):
            first.client.close()
        assert not thread.is_alive()
        assert len(began) == 1, began


@contextmanager
def _no_signals() -> Iterator[None]:
    yield
