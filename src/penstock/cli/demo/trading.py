"""The demo's market as a client of a running service: it publishes ticks, and subscribes people to some of them.

It uses the service as anybody would, over HTTP. Its subscriptions end with their leases, a day after they were made.
"""

import itertools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import httpx

from penstock.cli.demo import market

PEOPLE = 200
TICKS = 20
"""Published at a time."""
PAUSE = 0.2
"""Seconds between two requests: a hundred ticks a second."""
_AWAY = 1.0  # seconds before it tries again


@contextmanager
def market_publisher(address: str) -> Iterator[None]:
    """Publish until the block ends."""
    ending = threading.Event()
    thread = threading.Thread(target=_publish, args=(address, ending), name="market", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ending.set()
        thread.join()


def _publish(address: str, ending: threading.Event) -> None:
    with httpx.Client(base_url=address, timeout=30, verify=False) as client:
        _subscribe(client, ending)
        for first in itertools.count(0, TICKS):
            if ending.wait(PAUSE):
                return
            now = datetime.now(UTC).isoformat(timespec="milliseconds")
            _post(client, ending, "/v1/events", market.tick_events(first, TICKS, now))


def _subscribe(client: httpx.Client, ending: threading.Event) -> None:
    """Subscribe people who are interested in something, unless they are there from an earlier run."""
    people = market.subscriptions(PEOPLE).to_pylist()
    there = client.get("/v1/subscriptions", params={"subscriber": people[0]["subscriber"]})
    if there.is_success and there.json().get("subscriptions"):
        return
    for one in people:
        wanted = {
            "subscriber": one["subscriber"],
            "subscription": one["filter"],
            "lease": "1 day",
        }
        _post(client, ending, "/v1/subscriptions", wanted)


def _post(client: httpx.Client, ending: threading.Event, path: str, value: object) -> None:
    """Send something. Try again as long as the service can't take it."""
    while not ending.is_set():
        try:
            if client.post(path, json=value).status_code not in (429, 503):
                return
        except httpx.TransportError:
            pass
        ending.wait(_AWAY)
