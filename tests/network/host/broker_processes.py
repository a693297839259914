"""Brokers in processes of their own, on loopback, that can be killed and started again.

Importing takes seconds, so it is done once: each broker is forked from a process that has imported everything. What it
runs is what `penstock broker` runs; `tests.network.host.test_broker_command` runs the command itself.
"""

import contextlib
import multiprocessing
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from tests.servers import free_port
from tests.sizes import PATIENCE

from penstock.network.host import BrokerHost
from penstock.network.network_client import NetworkClient
from penstock.server.broker_file import parse_broker

SCHEMA = {"n": "bigint", "publisher": "string", "kind": "bigint"}
QUICK = {
    "repeat": "200 ms",
    "silence": "3 seconds",
    "beat": "500 ms",
    "retry": "500 ms",
    "longest_retry": "2 seconds",
}
"""Times for tests: a broker that is gone is missed soon."""

_spawning = multiprocessing.get_context("forkserver")
_spawning.set_forkserver_preload([__name__])


def _serve(described: Mapping[str, Any], log: str, ready: Any) -> None:
    """What a broker's process does."""
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(out, 1)
    os.dup2(out, 2)
    found = parse_broker(described)
    host = BrokerHost(found.settings(), found.folder, found.open_link(), found.host_limits())
    ready.set()
    host.wait()
    raise SystemExit(f"the broker has ended: {host.failed!r}")


class BrokerProcess:
    """One broker, by its description; `start` it, `kill` it, and again."""

    def __init__(self, described: Mapping[str, Any], log: Path) -> None:
        self.described, self.name = described, str(described["name"])
        self._log = log
        self._process: BaseProcess | None = None

    def start(self) -> None:
        ready = _spawning.Event()
        arguments = (self.described, str(self._log), ready)
        self._process = _spawning.Process(target=_serve, args=arguments, daemon=True)
        self._process.start()
        assert ready.wait(PATIENCE), self.said()

    def kill(self) -> None:
        """As the power would."""
        assert self._process is not None
        self._process.kill()
        self._process.join()

    def said(self) -> str:
        return self._log.read_text() if self._log.exists() else ""

    @property
    def is_alive(self) -> bool:
        return self._process is not None and self._process.is_alive()

    def client(self, name: str) -> NetworkClient:
        return parse_broker(self.described).open_client(name)

    def close(self) -> None:
        if self.is_alive:
            self.kill()


@contextlib.contextmanager
def quick_folder() -> Iterator[Path]:
    """A folder whose syncs take no time, where there is one: what a kill leaves behind, memory keeps, too."""
    memory = Path("/dev/shm")
    place = memory if os.access(memory, os.W_OK) else None
    folder = Path(tempfile.mkdtemp(prefix="penstock-brokers-", dir=place))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def brokers(
    folder: Path, parents: Mapping[str, list[str]], **more: Any
) -> Iterator[dict[str, BrokerProcess]]:
    """A network: each broker with the parents that it tries. Ranks follow from the order in which they are named."""
    ranks = {name: rank for rank, name in enumerate(parents)}
    places = {name: f"tcp/127.0.0.1:{free_port()}" for name in parents}
    found = {}
    for name, tried in parents.items():
        described = {
            "name": name,
            "rank": ranks[name],
            "data": str(folder / name),
            "listen": [places[name]],
            "neighbours": [{"name": n, "rank": ranks[n], "at": places[n]} for n in tried],
            "schema": SCHEMA,
            "times": QUICK,
            **more,
        }
        found[name] = BrokerProcess(described, folder / f"{name}.log")
    try:
        for broker in found.values():
            broker.start()
        yield found
    finally:
        for broker in found.values():
            broker.close()
