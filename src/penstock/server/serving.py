"""A service on the network, from the first request to the last: uvicorn, signals, and the order in which parts end.

On Ctrl-C or SIGTERM no new requests are accepted, running ones are answered, and streams are closed. Then what was
accepted goes into the log, Spark ends after its micro-batch, and stores are closed. A second signal ends the process at
once.
"""

import asyncio
import contextlib
import errno
import gc
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
_YOUNG = (50_000, 20, 100)
"""Objects made until garbage is looked for, and how rarely among older ones.

To look through all that ten thousand readers hold takes a second in which nobody is answered. Python's own thresholds
do so several times while they are told of one event.
"""
_OF_THE_PORT = {errno.EADDRINUSE: "Stop what uses it, or give", errno.EACCES: "Give"}
"""What to do if it can't be listened on. All other reasons are the address's."""

Say = Callable[[str], object]


class _Server(uvicorn.Server):
    """uvicorn without its handlers of signals: `_on_signals` has ours."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def bind(settings: Settings) -> socket.socket:
    """Open the socket that the service listens on. PenstockError if that fails."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        return socket.create_server((settings.host, settings.port), family=family, backlog=_BACKLOG)
    except OSError as error:
        reason = (error.strerror or str(error)).partition(" (while ")[0].lower()
        if error.errno not in _OF_THE_PORT:
            raise PenstockError(f"host {settings.host!r}: {reason}") from error
        raise PenstockError(
            f"can't listen on {settings.host}, port {settings.port}: {reason}. "
            f"{_OF_THE_PORT[error.errno]} another port (--port)"
        ) from error


async def serve(service: Service, listening: socket.socket, say: Say, started: Say) -> None:
    """Run a service until a signal ends it. `started` is called with its address once it answers requests."""
    stopping = asyncio.Event()
    _on_signals(stopping)
    app = create_app(service, dashboard_pages())
    server = _Server(_config(service, app))
    async with service:
        serving = asyncio.create_task(server.serve(sockets=[listening]), name="http")
        while not server.started and not serving.done():
            await asyncio.sleep(0.01)
        gc.freeze()  # what there is now stays: modules, settings, routes
        gc.set_threshold(*_YOUNG)
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
