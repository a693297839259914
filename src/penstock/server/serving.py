"""A service on the network, from the first request to the last: uvicorn, signals, and the order in which all ends.

On Ctrl-C or SIGTERM: nothing new is accepted, requests that run are answered and streams closed, what was accepted is
put into the log, Spark ends after its micro-batch, stores are closed. A second signal doesn't wait.
"""

import asyncio
import contextlib
import os
import signal
import socket
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette

from penstock.base.errors import PenstockError
from penstock.server.dashboard import dashboard_pages
from penstock.server.service import Service
from penstock.server.settings import Settings
from penstock.server.web.app import create_app
from penstock.server.web.web_protocol import limited_protocol

_INTERRUPTED = 130
_REQUESTS_WITHIN = 10  # seconds that requests have to be answered when the service ends
_BACKLOG = 2048

Say = Callable[[str], object]


class _Server(uvicorn.Server):
    """uvicorn, but for signals: those are ours."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def bind(settings: Settings) -> socket.socket:
    """The socket that it will listen on. PenstockError if it can't be had."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        return socket.create_server((settings.host, settings.port), family=family, backlog=_BACKLOG)
    except OSError as error:
        reason = error.strerror or str(error)
        if isinstance(error, socket.gaierror):
            raise PenstockError(f"host {settings.host!r}: {reason}") from error
        raise PenstockError(
            f"can't listen on {settings.host}, port {settings.port}: {reason.lower()}. "
            "Stop what uses it, or give another port (--port)"
        ) from error


async def serve(service: Service, listening: socket.socket, say: Say, started: Say) -> None:
    """Run a service until it is told to end. `started` is called with its address when requests are answered."""
    stopping = asyncio.Event()
    _on_signals(stopping)
    app = create_app(service, dashboard_pages())
    server = _Server(_config(service, app))
    async with service:
        serving = asyncio.create_task(server.serve(sockets=[listening]), name="http")
        while not server.started and not serving.done():
            await asyncio.sleep(0.01)
        started(service.settings.address)
        asked = asyncio.create_task(stopping.wait())
        await asyncio.wait([asked, serving], return_when=asyncio.FIRST_COMPLETED)
        say("stopping: requests that run are answered first (a second Ctrl-C doesn't wait)")
        service.stop_streams()
        server.should_exit = True
        await serving
        app.state.close()
        say(service.last_steps)


def _config(service: Service, app: Starlette) -> uvicorn.Config:
    settings = service.settings
    tls: dict[str, Any] = {}
    if settings.tls is not None:
        tls = {"ssl_certfile": settings.tls.certificate, "ssl_keyfile": settings.tls.key}
    return uvicorn.Config(
        app,
        http=limited_protocol(service.http.limits),
        loop="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=_REQUESTS_WITHIN,
        **tls,
    )


def check_tls(certificate: str, key: str) -> None:
    """PenstockError if these aren't a certificate and its key."""
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(Path(certificate), Path(key))
    except (ssl.SSLError, OSError) as error:
        raise PenstockError(
            f"TLS: {certificate} and {key} are no certificate with its key: {error}"
        ) from error


def _on_signals(stopping: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()

    def stop() -> None:
        if stopping.is_set():
            os._exit(_INTERRUPTED)  # Spark's process ends with this one
        stopping.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
